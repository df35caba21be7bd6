"""Which nodes are looked at, where not all are: `percentageOfNodesToScore`.

Source: pkg/scheduler/schedule_one.go numFeasibleNodesToFind. Ours differs on purpose in one thing: absent or 0 means
every node, not kube-scheduler's adaptive share (the flag `--adaptive-sampling` brings that back).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ADAPTIVE = -1  # as a percentage: kube-scheduler's own share, which shrinks with the cluster

_MIN_NODES = 100  # below, every node is looked at; and the floor of what is looked for
_MIN_PERCENTAGE = 5


def nodes_to_find(nodes: int, percentage: int) -> int:
    """How many feasible nodes are enough. `percentage`: 0 or 100 every node, `ADAPTIVE`, or 1 to 99."""
    if percentage == 0 or nodes < _MIN_NODES:
        return nodes
    if percentage == ADAPTIVE:
        percentage = max(_MIN_PERCENTAGE, 50 - nodes // 125)
    return max(_MIN_NODES, nodes * percentage // 100)


def visited(order: NDArray[np.intp], start: int, feasible: NDArray[np.bool_], enough: int) -> NDArray[np.intp]:
    """The slots that are visited, from `start` on, until `enough` feasible ones were found."""
    turned = np.roll(order, -start) if len(order) else order
    found = np.cumsum(feasible[turned])
    if not len(found) or found[-1] <= enough:
        return turned
    # the search ends at the first feasible node too many, which is not kept
    return turned[: int(np.searchsorted(found, enough + 1))]
