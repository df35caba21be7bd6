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
    IncomingTermsCache,
    MatchingTermsCache,
    TermGroup,
    get_namespace_labels,
)
from scheduler.engine.rules import Rules


class AffinityHints:
    """The queueing hints of InterPodAffinity, which decide whether a pod or node event may help a rejected pod."""

    def __init__(
        self, objects: ClusterObjects, rules: Rules, incoming: IncomingTermsCache, anti_affinity: MatchingTermsCache
    ) -> None:
        """Store the cluster's objects, the rules, and the plugin's caches of terms.

        The caches matter because a pod may have thousands of terms, and each event is checked for each waiting pod.
        """
        self._objects, self._rules = objects, rules
        self._incoming, self._anti_affinity = incoming, anti_affinity

    def is_schedulable_after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
        """Return whether the addition, change or deletion of another pod may make `pod` schedulable.

        That is so if the other pod newly matches the affinity of `pod`, or if an anti-affinity term of one pod no
        longer selects the other. A change of the labels of `pod` always counts.
        """
        if old is not None and new is not None and new.uid == pod.uid:
            return QUEUE  # its labels changed: other pods' anti-affinity may have selected the old ones
        if any(not occupies_node(other) for other in (old, new) if other is not None):
            return QUEUE_SKIP
        terms = self._incoming.get(pod, self._rules)
        required, anti = terms.required_together, terms.required_anti.values()
        if new is not None and _selects(required, new):
            return old is None or not _selects(required, old) or _stops_matching(anti, old, new)
        if old is not None and new is not None:
            return _stops_matching(anti, old, new)
        return old is not None and (any(group.selects(old) for group in anti) or self._was_excluded_by(old, pod))

    def is_schedulable_after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> bool:
        """Return whether a node joined a domain of a required affinity term, or left one of an anti-affinity term.

        A node joins a domain if it is new with the topology key, or if its value of the key changed. For a pod with
        anti-affinity terms, every new node counts.
        """
        terms = self._incoming.get(pod, self._rules)
        required, anti = terms.required.keys(), terms.required_anti.keys()
        before, after = (None if old is None else old.metadata.labels or {}), new.metadata.labels or {}
        if before is None:
            return bool(anti) or any(key in after for key in required)
        joined = (after.get(key) not in (None, before.get(key)) for key in required)
        left = (before.get(key) not in (None, after.get(key)) for key in anti)
        return any(joined) or any(left)

    def _was_excluded_by(self, deleted: PodInfo, pod: PodInfo) -> bool:
        """Return whether a required anti-affinity term of the deleted pod selects `pod`."""
        if deleted.terms is None:
            return QUEUE_SKIP
        labels = get_namespace_labels(pod.namespace, self._objects)
        return self._anti_affinity.selects(deleted.terms, pod, labels)


def _selects(required: IncomingTerm | None, pod: PodInfo) -> bool:
    """Return whether a pod matches the combined required terms; False if `required` is None."""
    return required is not None and required.selects(pod)


def _stops_matching(groups: Iterable[TermGroup], old: PodInfo, new: PodInfo) -> bool:
    return any(_find_positions(group, old) - _find_positions(group, new) for group in groups)


def _find_positions(group: TermGroup, pod: PodInfo) -> set[int]:
    return {position for position, _ in group.find_selecting(pod)}
