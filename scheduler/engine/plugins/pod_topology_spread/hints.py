"""Queueing hints of PodTopologySpread: pods that appear, disappear or change labels, and nodes that change domain.

Source: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go v1.36 (isSchedulableAfterPodChange and below).
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.engine.framework.events import QUEUE, QUEUE_SKIP
from scheduler.engine.framework.update_events import occupies_node
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins.pod_topology_spread.constraints import Constraints


def is_schedulable_after_pod_change(
    pod: PodInfo, constraints: Constraints, old: PodInfo | None, new: PodInfo | None
) -> bool:
    """Return whether a pod event may help `pod`: other pods match differently, or `pod` tolerates other taints.

    Another pod counts if it was added or deleted while it matches, or if it starts or stops to match.
    """
    if any(not _counts(other, pod) for other in (old, new) if other is not None):
        return QUEUE_SKIP
    if old is None or new is None:
        other = old or new
        return other is not None and any(c.selects(other) for c in constraints)
    tolerates_more = new.uid == pod.uid and old.pod.spec.tolerations != new.pod.spec.tolerations
    if tolerates_more and any(c.honor_taints for c in constraints):
        return QUEUE
    return any(c.selects(old) != c.selects(new) for c in constraints)


def is_schedulable_after_node_change(constraints: Constraints, old: Node | None, new: Node | None) -> bool:
    """Return whether a node with every topology key was added or deleted, or changed its domains or taints.

    A node that gains or loses a topology key counts too.
    """
    had, has = _has_keys(constraints, old), _has_keys(constraints, new)
    if old is None or new is None or had != has:
        return had or has
    moved = any(_labels(old).get(c.key) != _labels(new).get(c.key) for c in constraints)
    return has and (moved or old.spec.taints != new.spec.taints)


def _counts(other: PodInfo, pod: PodInfo) -> bool:
    return other.uid == pod.uid or (occupies_node(other) and other.namespace == pod.namespace)


def _has_keys(constraints: Constraints, node: Node | None) -> bool:
    return node is not None and all(c.key in _labels(node) for c in constraints)


def _labels(node: Node) -> Mapping[str, str]:
    return node.metadata.labels or {}
