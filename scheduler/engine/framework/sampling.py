"""Which nodes a cycle evaluates under `percentageOfNodesToScore`.

Source: pkg/scheduler/schedule_one.go numFeasibleNodesToFind, with one intended difference: absent or 0 means every
node. The flag `--adaptive-sampling` selects kube-scheduler's adaptive percentage instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ADAPTIVE = -1  # as a percentage: kube-scheduler's adaptive value, which falls as the cluster grows

_MIN_NODES = 100  # smaller clusters are evaluated whole; also the smallest number of feasible nodes to find
_MIN_PERCENTAGE = 5


def num_feasible_nodes_to_find(nodes: int, percentage: int) -> int:
    """Return the number of feasible nodes after which the search for nodes ends, in a cluster of `nodes` nodes.

    `percentage` is percentageOfNodesToScore: 0 or 100 for all nodes, `ADAPTIVE`, or 1 to 99.
    """
    if percentage == 0 or nodes < _MIN_NODES:
        return nodes
    if percentage == ADAPTIVE:
        percentage = max(_MIN_PERCENTAGE, 50 - nodes // 125)
    return max(_MIN_NODES, nodes * percentage // 100)


def select_visited_slots(
    order: NDArray[np.intp], start: int, feasible: NDArray[np.bool_], enough: int
) -> NDArray[np.intp]:
    """Return the slots (row indices) of the nodes that a search visits until it has found `enough` feasible nodes.

    The search visits the slots of `order` from position `start` on, and wraps around. `feasible` is a mask by slot.
    """
    rotated = np.roll(order, -start) if len(order) else order
    feasible_so_far = np.cumsum(feasible[rotated])
    if not len(feasible_so_far) or feasible_so_far[-1] <= enough:
        return rotated
    # The search ends at the first surplus feasible node, which is not kept.
    return rotated[: int(np.searchsorted(feasible_so_far, enough + 1))]
