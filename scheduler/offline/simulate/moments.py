"""Figures of a simulated cluster at one moment that take too long to follow at every event.

Owns: fragmentation by resource, nodes that could be removed, skew over domains. Does not own: when they are measured
and their means (`metrics`). docs/offline.md defines them for readers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.requests import PODS

Requests = frozenset[tuple[str, int]]
T = TypeVar("T")

FREQUENT: Final = (
    0.95  # share of the pods whose requests count for the fragmentation: the most frequent ones, as in FGD
)
MAX_DEMANDS: Final = 256  # compared with every node
GIVE_UP: Final = 5  # nodes in a row that cannot be removed end the search: the others are as large or larger
NODE_CONTROLLERS: Final = ("DaemonSet", "Node")  # whose pods each belong to a node, and go with it


class Moment(msgspec.Struct, frozen=True, rename="camel"):
    """The cluster at one moment. `requested` and `allocatable` are sums over all nodes, in base units, by resource.

    `waiting` is the number of pods in the scheduling queue.
    `fragmentation` is the share of the free amount that a random pod of the trace cannot use, by resource; 0 to 1.
    `skew` is by node label.
    """

    at_s: float
    nodes: int
    nodes_in_use: int
    waiting: int
    removable_nodes: int
    requested: dict[str, int]
    allocatable: dict[str, int]
    fragmentation: dict[str, float]
    skew: dict[str, float]


def measure_moment(
    at_s: float,
    nodes: NodeColumns,
    waiting: int,
    resources: Sequence[str],
    demands: Sequence[tuple[Requests, float]],
    domains: Sequence[str],
) -> Moment:
    """Return the figures of the cluster at a moment, when `waiting` pods are in the queue.

    `demands` are requests with their shares of all pods.
    """
    live = nodes.live
    skews = {label: measure_skew(nodes, label) for label in domains}
    return Moment(
        at_s,
        nodes=int(np.count_nonzero(live)),
        nodes_in_use=int(np.count_nonzero(nodes.requested(PODS)[live])),
        waiting=waiting,
        removable_nodes=count_removable(nodes, resources),
        requested={name: int(nodes.requested(name)[live].sum()) for name in resources},
        allocatable={name: int(nodes.allocatable(name)[live].sum()) for name in resources},
        fragmentation={name: measure_fragmentation(nodes, name, demands) for name in resources},
        skew={label: skew for label, skew in skews.items() if skew is not None},
    )


def list_frequent(values: Iterable[T], share: float = FREQUENT) -> list[tuple[T, float]]:
    """Return the most frequent values that together are at least `share` of all, each with its share of all."""
    counts = Counter(values)
    total, counted, frequent = counts.total(), 0, list[tuple[T, float]]()
    for value, count in counts.most_common():
        if counted >= share * total:
            break
        frequent.append((value, count / total))
        counted += count
    return frequent


def list_demands(pods: Iterable[PodInfo]) -> list[tuple[Requests, float]]:
    """Return the most frequent requests of pods with their shares of all pods."""
    return list_frequent(frozenset(pod.requests.items()) for pod in pods)[:MAX_DEMANDS]


def measure_fragmentation(nodes: NodeColumns, resource: str, demands: Sequence[tuple[Requests, float]]) -> float:
    """Return which share of the free amount of a resource a random pod cannot use.

    A pod can use what is free on the nodes where its requests fit, if it requests the resource. As in FGD a pod that
    does not request it cannot use any.
    """
    free = np.maximum(nodes.allocatable(resource) - nodes.requested(resource), 0)[nodes.live]
    total, shares = int(free.sum()), sum(share for _, share in demands)
    if not total or not shares:
        return 0.0
    used = 0.0
    for requests, share in demands:
        if any(name == resource and amount for name, amount in requests):
            used += share * int(free[_find_fitting(nodes, requests)[nodes.live]].sum())
    return 1 - used / shares / total


def _find_fitting(nodes: NodeColumns, requests: Requests) -> NDArray[np.bool_]:
    """Return the mask of the nodes that have room for one more pod with these requests."""
    fits = nodes.live & (nodes.requested(PODS) < nodes.allocatable(PODS))
    for name, amount in requests:
        fits &= nodes.allocatable(name) - nodes.requested(name) >= amount
    return fits


def count_removable(nodes: NodeColumns, resources: Sequence[str]) -> int:
    """Return how many nodes could be removed one after the other, if their pods moved to the others, by requests alone.

    The smallest nodes by the first resource are tried first, and of equal ones those with the fewest pods: so the least
    room is lost with each. A better order may exist, so the number is a lower bound. Each pod moves to the node where
    it fits with least free of the first resource. Pods of DaemonSets and static pods end with their node.
    """
    names = [*resources, PODS]
    free = nodes.allocatable_of(names) - nodes.requested_of(names)
    kept, order = nodes.live.copy(), np.flatnonzero(nodes.live)
    order = order[np.lexsort((nodes.requested(PODS)[order], nodes.allocatable(names[0])[order]))]
    moved_to, removed, failed = defaultdict[int, list[NDArray[np.int64]]](list), 0, 0
    for slot in order.tolist():
        kept[slot] = False
        pods = [_list_amounts(pod, names) for pod in nodes.pods[slot].values() if not _stays_with_node(pod)]
        moves = _move(pods + moved_to[slot], free, kept)
        if moves is None:
            kept[slot] = True
            failed += 1
            if failed == GIVE_UP:
                break
            continue
        removed, failed = removed + 1, 0
        for target, amounts in moves:
            moved_to[target].append(amounts)
    return removed


def _move(
    pods: Sequence[NDArray[np.int64]], free: NDArray[np.int64], kept: NDArray[np.bool_]
) -> list[tuple[int, NDArray[np.int64]]] | None:
    """Take the amounts of all pods from `free` and return where they went. If one fits nowhere, take none, return None.

    `free` has the shape [resource, node slot]. Large pods are moved first.
    """
    moves: list[tuple[int, NDArray[np.int64]]] = []
    for amounts in sorted(pods, key=lambda each: -int(each[0])):
        fits = kept & (free >= amounts[:, None]).all(axis=0)
        if not fits.any():
            for target, taken in moves:
                free[:, target] += taken
            return None
        target = int(np.where(fits, free[0], np.iinfo(np.int64).max).argmin())
        free[:, target] -= amounts
        moves.append((target, amounts))
    return moves


def _list_amounts(pod: PodInfo, names: Sequence[str]) -> NDArray[np.int64]:
    return np.array([1 if name == PODS else pod.requests.get(name, 0) for name in names], np.int64)


def _stays_with_node(pod: PodInfo) -> bool:
    owner = pod.pod.metadata.controller
    return owner is not None and owner.kind in NODE_CONTROLLERS


def measure_skew(nodes: NodeColumns, label: str) -> float | None:
    """Return how unevenly pods of a controller are spread over the values of a node label, as a mean over controllers.

    The skew of a controller is its largest number of pods in a domain less its smallest. Controllers with one pod do
    not count. None if there are fewer than two domains, or no such controller.
    """
    column = nodes.label(label)
    values = [column.values[i] for i in column.ids(nodes.slots)]
    domains = {value for slot, value in enumerate(values) if value is not None and nodes.live[slot]}
    counts: Mapping[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for slot in np.flatnonzero(nodes.live).tolist():
        domain = values[slot]
        for pod in nodes.pods[slot].values() if domain is not None else ():
            if owner := pod.pod.metadata.controller:
                counts[pod.pod.metadata.namespace, owner.kind, owner.name][str(domain)] += 1
    spread = [[each[str(domain)] for domain in domains] for each in counts.values() if each.total() > 1]
    if len(domains) < 2 or not spread:
        return None
    return sum(max(each) - min(each) for each in spread) / len(spread)
