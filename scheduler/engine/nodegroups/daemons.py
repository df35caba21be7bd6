"""The pods with which a new node starts: those of DaemonSets that select it, and static pods.

Owns: which DaemonSets run on a node. Does not own: the nodes (`templates`).

Source: pkg/controller/daemon/daemon_controller.go v1.36 (NodeShouldRunDaemonPod and the tolerations that every daemon
pod gets). Where DaemonSets were not read, they are known by their present pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.engine.columns import NodeColumns
from scheduler.engine.objects import types
from scheduler.engine.objects.autoscaling import DaemonSet
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import InvalidSelectorError, node_matches_any_term
from scheduler.engine.objects.taints import HARD_EFFECTS, is_tolerated
from scheduler.engine.objects.types import (
    Affinity,
    Node,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodSpec,
    Toleration,
)
from scheduler.engine.whatif.owners import DAEMON_SET

_ALWAYS_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_TOLERATIONS: Final = tuple(Toleration(key=key, operator="Exists", effect=effect) for key, effect in _ALWAYS_TOLERATED)


class DaemonPods:
    """The DaemonSets of a cluster, each as a pod that is not bound to a node."""

    def __init__(self, nodes: NodeColumns, objects: ClusterObjects) -> None:
        """Build a pod of each DaemonSet in `objects` or, if there are none, use one present pod of each DaemonSet."""
        self._nodes = nodes
        daemon_sets = objects.all(DaemonSet)
        self._pods = list(map(_build_pod, daemon_sets)) if daemon_sets else list(_find_running(nodes))

    def affect_affinity(self, pod: PodInfo) -> bool:
        """Return whether the pods that a new node starts with may change an affinity verdict on the pod.

        They may if a required affinity or anti-affinity term of the pod can select them, or if they have anti-affinity
        terms. The result may be True where nothing changes.
        """
        if any(_list_terms(daemon.spec.affinity, anti_only=True) for daemon in self._pods):
            return True
        namespaces = {daemon.metadata.namespace for daemon in self._pods}
        for term in _list_terms(pod.pod.spec.affinity):
            if term.namespace_selector is not None or not namespaces.isdisjoint(term.namespaces or [pod.namespace]):
                return bool(self._pods)
        return False

    def list_pods(self, node: Node, like: str) -> list[PodInfo]:
        """Return the pods with which a new node starts: those of DaemonSets that select it, and static pods.

        `like` is the name of a present node whose static pods the new node has too, or "".
        """
        name = node.metadata.name
        daemons = [pod for pod in self._pods if _runs_on(pod, node)]
        slot = self._nodes.index.get(like)
        there = self._nodes.pods[slot].values() if slot is not None else ()
        static = [pod.pod for pod in there if pod.pod.is_static]
        return [_place(pod, name) for pod in (*daemons, *static)]


def _list_terms(affinity: Affinity | None, *, anti_only: bool = False) -> list[PodAffinityTerm]:
    """Return the required terms of pod anti-affinity and, unless `anti_only`, of pod affinity."""
    sides = () if affinity is None else (affinity.pod_anti_affinity, None if anti_only else affinity.pod_affinity)
    return [term for side in sides if side is not None for term in side.required or ()]


def _build_pod(daemon_set: DaemonSet) -> Pod:
    meta, template = daemon_set.metadata, daemon_set.spec.template
    owner = OwnerReference(api_version="apps/v1", kind=DAEMON_SET, name=meta.name, uid=meta.uid, controller=True)
    metadata = types.PodMetadata(
        name=meta.name, namespace=meta.namespace, labels=template.metadata.labels, owner_references=[owner]
    )
    spec = msgspec.structs.replace(template.spec, tolerations=[*(template.spec.tolerations or ()), *_TOLERATIONS])
    return Pod(metadata=metadata, spec=spec)


def _find_running(nodes: NodeColumns) -> Iterator[Pod]:
    """Yield one present pod of each DaemonSet, without the node affinity that its controller added."""
    seen = set[tuple[str, str]]()
    for pods in nodes.pods:
        for pod in pods.values():
            owner = pod.pod.metadata.controller
            if owner is not None and pod.pod.is_of_daemon_set and (pod.namespace, owner.name) not in seen:
                seen.add((pod.namespace, owner.name))
                yield msgspec.structs.replace(pod.pod, spec=_unpin(pod.pod.spec))


def _unpin(spec: PodSpec) -> PodSpec:
    affinity = spec.affinity
    of_node = affinity.node_affinity if affinity else None
    terms = of_node.required.node_selector_terms if of_node and of_node.required else None
    if affinity is None or of_node is None or not terms:
        return msgspec.structs.replace(spec, node_name="")
    unpinned = [NodeSelectorTerm(match_expressions=term.match_expressions) for term in terms if term.match_expressions]
    required = types.NodeSelector(node_selector_terms=unpinned) if unpinned else None
    changed = msgspec.structs.replace(affinity, node_affinity=msgspec.structs.replace(of_node, required=required))
    return msgspec.structs.replace(spec, node_name="", affinity=changed)


def _runs_on(pod: Pod, node: Node) -> bool:
    """Return whether the controller of DaemonSets would create the pod for the node.

    The pod's node selector and required affinity must match, and it must tolerate the node's hard taints.
    """
    spec, labels = pod.spec, node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    of_node = spec.affinity.node_affinity if spec.affinity else None
    if of_node and of_node.required:
        try:
            if not node_matches_any_term(of_node.required.node_selector_terms or (), node):
                return False
        except InvalidSelectorError:
            return False
    taints = (taint for taint in node.spec.taints or () if taint.effect in HARD_EFFECTS)
    return all(is_tolerated(taint, spec.tolerations or ()) for taint in taints)


def _place(pod: Pod, node: str) -> PodInfo:
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.namespace}/{pod.metadata.name}/{node}")
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return PodInfo(msgspec.structs.replace(pod, metadata=metadata, spec=spec), running=True)
