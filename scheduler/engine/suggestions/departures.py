"""Pods that leave a node and make room: those that are terminating, or that leave after a change.

The changes are a higher priority, or another order of a rollout.

Owns: for which pods the changes are considered, and which pods then leave. Does not own: whether the pod then fits
(`check`), sentences and commands (`herodotus_answers.suggestions`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from herodotus_answers.live.objects import HASH_LABEL, find_deployment
from herodotus_answers.live.pods.outdated_pods import REVISION_LABEL
from herodotus_record.model import Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.trace import Trace
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.suggestions.changes import Draft, Place

MAX_SCANNED: Final = 500  # rejected nodes whose pods are read
MAX_PLACES: Final = 4  # each is checked with a dry run
_PREEMPTS: Final = "set-priority-class"
_CRITICAL_CLASS: Final = "system-node-critical"  # every cluster has it
_CRITICAL_PRIORITY: Final = 2_000_001_000


def list_places(pod: PodInfo, nodes: NodeColumns, trace: Trace) -> list[Place]:
    """Return the rejected nodes on which pods would leave after a change, the first `MAX_PLACES`."""
    rejected = trace.evaluated & (trace.codes != 0) & nodes.live
    if not _can_raise_priority(pod) and not _find_rollout(pod):
        rejected &= nodes.pod_rows.count_terminating(nodes.slots) > 0
    slots = np.flatnonzero(rejected)[:MAX_SCANNED].tolist()
    places = (Place(pod, nodes, slot) for slot in slots)
    return [place for place, _ in zip((p for p in places if any(_list_drafts(p))), range(MAX_PLACES), strict=False)]


def draft_departures(place: Place, trace: Trace) -> list[Draft]:
    """Return the drafts after which pods would leave the node. None of them is checked."""
    drafts = list(_list_drafts(place))
    if _lacks_amounts(place, trace):
        return drafts
    return [draft for draft in drafts if not has_preemption(draft)]


def _lacks_amounts(place: Place, trace: Trace) -> bool:
    """Return whether the node lacks amounts only: preemption can free these, and not a port, for instance."""
    given = [reason for run in trace.filters for reason in run.verdicts.verdict_at(place.slot).reasons]
    return all(reason.code in ("insufficient", "too-many-pods") for reason in given)


def list_leaving_pods(place: Place, draft: Draft) -> Sequence[PodInfo]:
    """Return the pods that leave the node because of a draft's changes; () if none do, or if preemption finds them."""
    codes = {change.code for change in draft.changes}
    if "await-end" in codes:
        return _list_terminating_pods(place)
    return _list_earlier_pods(place)[:1] if "set-rollout-strategy" in codes else ()  # maxUnavailable is 1


def has_preemption(draft: Draft) -> bool:
    """Return whether pods leave the node because the draft lets the pod evict them."""
    return any(change.code == _PREEMPTS for change in draft.changes)


def name_leaving(draft: Draft, pods: Iterable[PodInfo]) -> Draft:
    """Return a draft of `draft_departures` with the names of the pods that leave."""
    names = {"leaving": ", ".join(pod.full_name for pod in pods)}
    return replace(draft, changes=tuple(Reason(each.code, {**each.params, **names}) for each in draft.changes))


def _list_drafts(place: Place) -> Iterator[Draft]:
    pod, spec = place.pod, place.pod.pod.spec
    if _list_terminating_pods(place):
        yield Draft(spec, {}).with_change("await-end", {}, spec)
    if _can_raise_priority(pod) and _list_lower_pods(place):
        changed = msgspec.structs.replace(spec, priority=_CRITICAL_PRIORITY)
        params = {"from": str(pod.priority), "to": _CRITICAL_CLASS}
        patch = {"priorityClassName": _CRITICAL_CLASS}
        yield Draft(spec, {}).with_change(_PREEMPTS, params, changed, patch)
    if _list_earlier_pods(place):
        yield Draft(spec, {}).with_change("set-rollout-strategy", {}, spec)


def _list_terminating_pods(place: Place) -> list[PodInfo]:
    return [other for other in place.nodes.pods[place.slot].values() if other.terminating]


def _can_raise_priority(pod: PodInfo) -> bool:
    """Return whether a higher priority may be suggested: for a DaemonSet's pod, which has no other node."""
    return pod.pod.is_of_daemon_set and pod.priority < _CRITICAL_PRIORITY and pod.pod.spec.preemption_policy != "Never"


def _list_lower_pods(place: Place) -> list[PodInfo]:
    return [other for other in place.nodes.pods[place.slot].values() if other.priority < _CRITICAL_PRIORITY]


def _list_earlier_pods(place: Place) -> list[PodInfo]:
    """Return the node's pods of other revisions of the pod's Deployment or DaemonSet, which stay until it is ready."""
    pod, rollout = place.pod, _find_rollout(place.pod)
    if not rollout:
        return []
    return [
        other
        for other in place.nodes.pods[place.slot].values()
        if other.namespace == pod.namespace
        and not other.terminating
        and _find_rollout(other) == rollout
        and _find_revision(other) != _find_revision(pod)
    ]


def _find_rollout(pod: PodInfo) -> str:
    """Return the Deployment or DaemonSet that rolls out the pod's template, as KIND/NAME, or "" if there is none.

    Only these make a new pod beside the old one that it replaces.
    """
    owner = pod.pod.metadata.controller
    if owner is None:
        return ""
    if pod.pod.is_of_daemon_set:
        return f"DaemonSet/{owner.name}"
    deployment = find_deployment(owner.kind, owner.name, pod.labels)
    return f"Deployment/{deployment}" if deployment else ""


def _find_revision(pod: PodInfo) -> str | None:
    return pod.labels.get(HASH_LABEL if not pod.pod.is_of_daemon_set else REVISION_LABEL)
