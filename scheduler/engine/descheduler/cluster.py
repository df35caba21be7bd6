"""The nodes and pods that the descheduler sees, and its own check whether a pod fits on a node.

The descheduler looks at fewer things than kube-scheduler does: labels, taints, cordons, requests, and the pod's
required anti-affinity against pods on the node itself. Where a pod lands is the engine's decision (`answers`).

A node counts as ready unless it has one of the taints that the node lifecycle controller keeps while it is not. Pods
that a run evicts stay on their node until its end, as they do in a cluster until their grace periods are over.

Owns: the snapshot and the fit. Does not own: what is evicted (`eviction`, the plugins).

Source: sigs.k8s.io/descheduler v0.36.0, pkg/descheduler/node/node.go, pkg/descheduler/pod/pods.go, pkg/utils.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.engine.objects import requests
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import InvalidSelectorError, label_selector_matches, node_matches_any_term
from scheduler.engine.objects.taints import HARD_EFFECTS, is_tolerated
from scheduler.engine.objects.types import LabelSelector, Node, Pod, PodAffinityTerm, Taint
from scheduler.engine.whatif.simulation import WhatIfState

Mask = NDArray[np.bool_]

_UNREADY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(eq=False)
class SeenNode:
    """A node with its pods, sorted by namespace and name. `used` has the sums of their requests, and their number."""

    number: int
    node: Node
    pods: list[PodInfo]
    allocatable: dict[str, int]
    used: Counter[str]

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def taints(self) -> Sequence[Taint]:
        return self.node.spec.taints or ()

    @property
    def labels(self) -> dict[str, str]:
        return self.node.metadata.labels or {}


class SeenCluster:
    """A snapshot of all nodes. `check` is called before each examination of all nodes, and may raise TimeOverError."""

    def __init__(self, state: WhatIfState, check: Callable[[], None]) -> None:
        self._check = check
        self.nodes: list[SeenNode] = []
        self.owned: Counter[str] = Counter()  # number of pods by the UID of an owner
        found = [(node, state.nodes.pods[slot]) for slot, node in enumerate(state.nodes.nodes) if node is not None]
        for node, pods in sorted(found, key=lambda each: each[0].metadata.name):
            here = sorted(pods.values(), key=lambda pod: (pod.namespace, pod.name))
            used: Counter[str] = Counter({requests.PODS: len(here)})
            for pod in here:
                used.update(read_requests(pod))
            allocatable = requests.compute_allocatable(node.status.allocatable or node.status.capacity)
            self.nodes.append(SeenNode(len(self.nodes), node, here, allocatable, used))
        self.by_name = {each.name: each for each in self.nodes}
        for pod in [*(pod for each in self.nodes for pod in each.pods), *map(PodInfo, state.pending)]:
            self.owned.update(owner.uid for owner in pod.pod.metadata.owner_references or ())
        self._free: dict[str, NDArray[np.int64]] = {}
        self._allowed: dict[bytes, Mask] = {}

    def select_ready(self, selector: LabelSelector) -> list[SeenNode]:
        """Return the ready nodes that a label selector selects, schedulable or not."""
        return [
            each
            for each in self.nodes
            if label_selector_matches(selector, each.labels) and not any(taint.key in _UNREADY for taint in each.taints)
        ]

    def find_fitting(self, pod: PodInfo, nodes: Iterable[SeenNode], *, with_own: bool = False) -> bool:
        """Return whether the pod fits on one of the nodes, by the descheduler's rules.

        Its own node counts only with `with_own`, and then its requests count as fitting there.
        """
        self._check()
        own = pod.pod.spec.node_name
        fits = self._find_allowed(pod.pod)
        has_room = self._find_roomy(pod)
        return any(
            fits[each.number]
            and ((with_own and each.name == own) or (each.name != own and has_room[each.number]))
            and not _meets_excluded_pod(pod, each)
            for each in nodes
        )

    def _find_allowed(self, pod: Pod) -> Mask:
        """Return the mask of the schedulable nodes whose labels and taints suit the pod."""
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        parts = (pod.spec.node_selector, affinity and affinity.required, pod.spec.tolerations)
        key = msgspec.msgpack.encode(parts)
        mask = self._allowed.get(key)
        if mask is None:
            mask = np.array(
                [
                    not each.node.spec.unschedulable
                    and matches_node(pod, each.node)
                    and tolerates_all(pod, each.taints, lambda taint: taint.effect in HARD_EFFECTS)
                    for each in self.nodes
                ],
                np.bool_,
            )
            self._allowed[key] = mask
        return mask

    def _find_roomy(self, pod: PodInfo) -> Mask:
        """Return the mask of the nodes with room for the pod's requests, and for one more pod."""
        mask = self._read_free(requests.PODS) > 0
        for resource, amount in read_requests(pod).items():
            mask = mask & (self._read_free(resource) >= amount)
        return mask

    def _read_free(self, resource: str) -> NDArray[np.int64]:
        free = self._free.get(resource)
        if free is None:
            amounts = [each.allocatable.get(resource, 0) - each.used[resource] for each in self.nodes]
            free = self._free[resource] = np.array(amounts, np.int64)
        return free


def read_requests(pod: PodInfo) -> dict[str, int]:
    """Return the pod's requests by its spec, in base units; a resize in progress does not count."""
    return dict(requests.compute_spec_requests(pod.pod).requests)


def matches_node(pod: Pod, node: Node) -> bool:
    """Return whether the node has the labels that the pod's node selector and required node affinity want."""
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    if not affinity or affinity.required is None:
        return True
    try:
        return node_matches_any_term(affinity.required.node_selector_terms or (), node)
    except InvalidSelectorError:
        return False


def weigh_node(pod: Pod, node: Node) -> int:
    """Return the sum of the weights of the pod's preferred node affinity terms that match the node."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    total = 0
    for term in (affinity.preferred if affinity else None) or ():
        try:
            total += term.weight * node_matches_any_term([term.preference], node)
        except InvalidSelectorError:
            continue
    return total


def tolerates_all(pod: Pod, taints: Iterable[Taint], counts: Callable[[Taint], bool] = lambda _taint: True) -> bool:
    """Return whether the pod tolerates all of the taints that count."""
    return find_untolerated(pod, taints, counts) is None


def find_untolerated(pod: Pod, taints: Iterable[Taint], counts: Callable[[Taint], bool]) -> Taint | None:
    """Return the first of the taints that count and that the pod does not tolerate, or None.

    The descheduler always knows the operators Lt and Gt.
    """
    tolerations = pod.spec.tolerations or ()
    return next(
        (
            taint
            for taint in taints
            if counts(taint) and not is_tolerated(taint, tolerations, comparison_operators=True)
        ),
        None,
    )


def list_anti_affinity_terms(pod: Pod) -> Sequence[PodAffinityTerm]:
    """Return the pod's required anti-affinity terms."""
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    return (affinity.required if affinity else None) or ()


def list_term_namespaces(pod: PodInfo, term: PodAffinityTerm) -> Sequence[str]:
    """Return the namespaces of an affinity term; the descheduler does not read `namespaceSelector`."""
    return term.namespaces or (pod.namespace,)


def excludes(pod: PodInfo, term: PodAffinityTerm, other: PodInfo) -> bool:
    """Return whether an anti-affinity term of the pod selects the other one.

    The descheduler takes pods of equal names for one pod, also in different namespaces.
    """
    return (
        other.name != pod.name
        and other.namespace in list_term_namespaces(pod, term)
        and label_selector_matches(term.label_selector, other.labels)
    )


def group_by_namespace(pods: Iterable[PodInfo]) -> dict[str, list[PodInfo]]:
    """Return the pods by their namespace, in the given order."""
    groups: dict[str, list[PodInfo]] = defaultdict(list)
    for pod in pods:
        groups[pod.namespace].append(pod)
    return groups


def _meets_excluded_pod(pod: PodInfo, node: SeenNode) -> bool:
    """Return whether a pod that the pod's required anti-affinity excludes is on the node."""
    return any(
        term.topology_key in node.labels and any(excludes(pod, term, other) for other in node.pods)
        for term in list_anti_affinity_terms(pod.pod)
    )
