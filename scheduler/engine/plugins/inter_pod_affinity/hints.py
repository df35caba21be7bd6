"""Queueing hints of InterPodAffinity, for pods that are added, deleted or relabelled, and nodes that change domains.

Source: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go v1.36 (isSchedulableAfterPodChange and below).
Upstream checks whether a pod matches *all* anti-affinity terms, though one suffices to exclude it, and does not resolve
namespace selectors. Here both work as in the filter, so that no event that may help is missed.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.engine.framework.events import QUEUE, QUEUE_SKIP
from scheduler.engine.framework.update_events import occupies_node
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins.inter_pod_affinity.terms import (
    IncomingTerm,
    get_namespace_labels,
    read_valid_terms,
    resolve_terms,
)
from scheduler.engine.rules import Rules


class AffinityHints:
    """The queueing hints of InterPodAffinity, which decide whether a pod or node event may help a rejected pod."""

    def __init__(self, objects: ClusterObjects, rules: Rules) -> None:
        self._objects, self._rules = objects, rules

    def is_schedulable_after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        """Return whether the addition, change or deletion of another pod may make `pod` schedulable.

        That is so if the other pod newly matches the affinity of `pod`, or if an anti-affinity term between them no
        longer applies. A change of the labels of `pod` always counts.
        """
        if old is not None and new is not None and new.uid == pod.uid:
            return QUEUE  # its labels changed: other pods' anti-affinity may have selected the old ones
        if any(not occupies_node(other) for other in (old, new) if other is not None):
            return QUEUE_SKIP
        required, anti = self._terms(pod)
        if new is not None and _matches_all(required, new):
            return old is None or not _matches_all(required, old) or _stops_matching(anti, old, new)
        if old is not None and new is not None:
            return _stops_matching(anti, old, new)
        return old is not None and (any(term.selects(old) for term in anti) or self._was_excluded_by(old, pod))

    def is_schedulable_after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> bool:
        """Return whether a node joined a domain of an affinity term, or left one of an anti-affinity term.

        For a pod with anti-affinity terms, every new node counts.
        """
        required, anti = self._terms(pod)
        before, after = (None if old is None else old.metadata.labels or {}), new.metadata.labels or {}
        if before is None:
            return bool(anti) or any(term.topology_key in after for term in required)
        joined = (after.get(t.topology_key) not in (None, before.get(t.topology_key)) for t in required)
        left = (before.get(t.topology_key) not in (None, after.get(t.topology_key)) for t in anti)
        return any(joined) or any(left)

    def _terms(self, pod: PodInfo) -> tuple[tuple[IncomingTerm, ...], tuple[IncomingTerm, ...]]:
        terms = pod.terms
        if terms is None:
            return (), ()
        objects, rules = self._objects, self._rules
        return resolve_terms(terms.required, objects, rules), resolve_terms(terms.required_anti, objects, rules)

    def _was_excluded_by(self, deleted: PodInfo, pod: PodInfo) -> bool:
        """Return whether a required anti-affinity term of the deleted pod selects `pod`."""
        terms = deleted.terms
        if terms is None:
            return QUEUE_SKIP
        labels = get_namespace_labels(pod.namespace, self._objects)
        return any(term.selects(pod, labels) for term in read_valid_terms(lambda: terms.required_anti))


def _matches_all(terms: Iterable[IncomingTerm], pod: PodInfo) -> bool:
    """Return whether a pod matches all terms; False if there are no terms."""
    matches = [term.selects(pod) for term in terms]
    return bool(matches) and all(matches)


def _stops_matching(terms: Iterable[IncomingTerm], old: PodInfo, new: PodInfo) -> bool:
    return any(term.selects(old) and not term.selects(new) for term in terms)
