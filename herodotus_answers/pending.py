"""Build the answer document `PendingPods`: pods whose last attempt chose no node, grouped by their most common reason.

Owns: the document's shape, the dominant reason of an event's message, when a retry is overdue, and how pods without a
record are added. Does not own: which attempt is a pod's last one (the store). Pure.

Invariant: each pod is in exactly one group. Records do not know of deletions, so `remove_deleted_pods` removes the pods
that the API server no longer has; pods whose retry is overdue form groups of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal, TypedDict

from herodotus_answers.declare import Document, NotRequired
from herodotus_record import reasons
from herodotus_record.model import API_VERSION, Retry
from herodotus_record.units import format_timestamp

MAX_NAMED: Final = 5  # pods listed for a group; `pods` holds all of them
OVERDUE_AFTER_US: Final = 60_000_000  # a busy scheduler retries late, an idle one within a second
_LIST_AGE_S: Final = 10.0  # the pod list and the decisions are read at most this far apart
_BINDING_FAILED: Final = "a node was chosen, but the pod could not be bound to it"
_GROUP_NOT_PLACED: Final = "fits, but other pods of its group do not"
_LEAD: Final = re.compile(r"0/\d+ nodes are available: ")
_COUNTED: Final = re.compile(r"(\d+) (.+?)(?=, \d+ |\.(?: |$)|$)")


@dataclass(frozen=True)
class PendingPod:
    """A pod without a node, as its last scheduling attempt left it.

    `is_undone` is whether a node was chosen and the placement undone with the pod's group. `created_us` and `retry` are
    None if the record of the attempt was not read.
    """

    namespace: str
    pod: str
    uid: str
    owner: str | None
    profile: str
    state: str
    attempt: int
    started_us: int
    message: str
    decision_id: str
    pod_group: str = ""
    is_undone: bool = False
    created_us: int | None = None
    retry: Retry | None = None


@dataclass(frozen=True)
class UntriedPod:
    """A pod without a node that no record mentions, so that only the API server knows it.

    `gates` holds its scheduling gates, which keep every scheduler from trying it. A pod without gates waits for
    `profile`, which is not recorded or has not tried it yet.
    """

    namespace: str
    pod: str
    uid: str
    owner: str | None
    profile: str
    created_at: str
    gates: tuple[str, ...]


class PendingPodAnswer(TypedDict):
    """A pod without a node."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    profile: Annotated[str, "Scheduler name (spec.schedulerName) of the pod."]
    state: Annotated[str, "State of the last attempt; Gated or Untried if no attempt is recorded."]
    podGroup: Annotated[str | None, "PodGroup of the pod."]
    reason: Annotated[str, "Reason of most nodes, or why no attempt is recorded."]
    attempt: Annotated[int, "Number of the last attempt; 0 if none is recorded."]
    id: Annotated[str | None, "ID of the decision; null if no attempt is recorded."]
    createdAt: Annotated[str | None, "Time at which the pod was created; null if it is not known."]
    startedAt: Annotated[str | None, "Start of the last attempt; null if none is recorded."]
    queue: Annotated[str | None, "Queue of the scheduler in which the pod waits; null if it is not known."]
    notBefore: Annotated[str | None, "Time before which the pod is not tried again; null if it is not known."]
    latest: Annotated[str | None, "Time at which the pod is tried even if nothing changes; null if there is none."]
    overdue: Annotated[bool, "Whether the scheduler should have tried the pod again by now."]
    message: Annotated[str, "Message of the pod's FailedScheduling event; empty if there is none."]


class PendingGroup(TypedDict):
    """Pending pods of one PodGroup, or with one reason."""

    podGroup: Annotated[str | None, "PodGroup of the pods as NAMESPACE/NAME; null for pods without one."]
    reason: Annotated[str, "Reason of most nodes; of a PodGroup, that of most pods which block it."]
    code: Annotated[str, "Stable code of the reason."]
    overdue: Annotated[bool, "Whether the retries of the pods are overdue."]
    count: Annotated[int, "Number of the pods."]
    oldestAt: Annotated[str | None, "Time at which the oldest of the pods was created; null if it is not known."]
    pods: Annotated[list[str], "The oldest of the pods as NAMESPACE/NAME."]
    podsOmitted: Annotated[int, "Number of pods that are not listed in `pods`."]


class DepartedPod(TypedDict):
    """A pod that is pending by its record, but that the API server has placed or no longer has."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    startedAt: Annotated[str | None, "Start of its last attempt."]
    fate: Annotated[Literal["deleted", "replaced", "placed"] | None, "What became of the pod; null if it is not known."]


class PendingPods(Document):
    """Pods whose last attempt did not find a node."""

    kind: Literal["PendingPods"]
    at: Annotated[str, "Time of the request."]
    count: Annotated[int, "Number of pending pods."]
    overdue: Annotated[int, "Number of pending pods whose retry is overdue."]
    groups: Annotated[list[PendingGroup], "Pending pods, grouped by PodGroup or reason, most pods first."]
    pods: Annotated[list[PendingPodAnswer], "Pending pods, oldest first."]
    podsOmitted: Annotated[int, "Number of pods that are not listed."]
    source: NotRequired[Annotated[Literal["evaluated"], "Present if local mode evaluated the present cluster."]]
    noRecords: NotRequired[Annotated[bool, "Present and true if no scheduler has ever sent records."]]
    gone: NotRequired[
        Annotated[list[DepartedPod], "Pods that are pending by their records alone; added by the plugin."]
    ]


def build_pending_pods(
    pods: Sequence[PendingPod], *, now_us: int, omitted: int = 0, namespace: str = ""
) -> PendingPods:
    """Return the JSON document of kind PendingPods: the pods without a node, oldest first, and grouped by reason.

    `omitted` counts further pods known to be pending. `now_us`, in microseconds since 1970, determines which retries
    are overdue.
    """
    listed = [
        _pod(pod, now_us) for pod in sorted(pods, key=lambda p: (p.created_us or p.started_us, p.namespace, p.pod))
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "PendingPods",
        "metadata": {"namespace": namespace} if namespace else {},
        "at": format_timestamp(now_us),
        "count": len(listed),
        "overdue": sum(pod["overdue"] for pod in listed),
        "groups": _groups(listed),
        "pods": listed,
        "podsOmitted": omitted,
    }


def remove_deleted_pods(document: PendingPods, unassigned: Collection[str]) -> PendingPods:
    """Return a PendingPods document without deleted and bound pods, which `gone` lists instead, with an unknown fate.

    `unassigned` holds the UIDs of all pods without a node in the API server. A pod created while they were read may be
    missing among them, so the youngest pods stay in the document.
    """
    limit = document["at"]
    deleted = [p for p in document["pods"] if p["uid"] not in unassigned and _is_older(p, limit)]
    left = [p for p in document["pods"] if p not in deleted]
    return document | {
        "count": len(left),
        "overdue": sum(pod["overdue"] for pod in left),
        "groups": _groups(left),
        "pods": left,
        "gone": [_departed(pod) for pod in deleted],
    }


def _departed(pod: PendingPodAnswer) -> DepartedPod:
    return {
        "namespace": pod["namespace"],
        "pod": pod["pod"],
        "uid": pod["uid"],
        "startedAt": pod["startedAt"],
        "fate": None,
    }


def _is_older(pod: PendingPodAnswer, at: str) -> bool:
    """Return whether a pod was created more than _LIST_AGE_S before the timestamp `at`.

    Such a pod is in every pod list that was read around that time, unless it was deleted or bound.
    """
    since = pod["createdAt"] or pod["startedAt"] or at
    created, read = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (since, at))
    return (read - created).total_seconds() > _LIST_AGE_S


def _groups(pods: Sequence[PendingPodAnswer]) -> list[PendingGroup]:
    """Return the pods grouped by pod group or reason: the largest group first, groups of overdue pods last."""
    groups: dict[tuple[str, bool, str], list[PendingPodAnswer]] = {}
    for pod in pods:
        group = f"{pod['namespace']}/{pod['podGroup']}" if pod["podGroup"] else ""
        groups.setdefault((pod["reason"] if not group else "", pod["overdue"], group), []).append(pod)
    largest = sorted(groups.items(), key=lambda g: (g[0][1], -len(g[1]), g[0]))
    return [
        _group(_group_reason(members) if name else reason, overdue, members, name)
        for (reason, overdue, name), members in largest
    ]


def _group_reason(members: Sequence[PendingPodAnswer]) -> str:
    """Return the most frequent reason of those members of a pod group that block it."""
    reasons_given = [pod["reason"] for pod in members if pod["reason"] != _GROUP_NOT_PLACED] or [_GROUP_NOT_PLACED]
    return Counter(reasons_given).most_common(1)[0][0]


def add_untried_pods(document: PendingPods, pods: Sequence[UntriedPod]) -> PendingPods:
    """Return a PendingPods document with the given pods appended, in groups by their gates or their scheduler.

    Pods that the document lists already are not added again. A pod without gates is added only if the document lists
    all recorded pods, and if the pod is old enough that an attempt would be recorded.
    """
    uids = {pod["uid"] for pod in document["pods"]}
    is_complete = not (document["podsOmitted"] or document.get("noRecords") or document.get("source"))
    rows = [(pod, _untried(pod)) for pod in sorted(pods, key=lambda p: (not p.gates, p.created_at, p.namespace, p.pod))]
    untried = [
        row
        for pod, row in rows
        if pod.uid not in uids and (pod.gates or (is_complete and _is_older(row, document["at"])))
    ]
    groups: dict[str, list[PendingPodAnswer]] = {}
    for pod in untried:
        groups.setdefault(pod["reason"], []).append(pod)
    return document | {
        "count": document["count"] + len(untried),
        "groups": [*document["groups"], *(_group(reason, False, members) for reason, members in groups.items())],
        "pods": [*document["pods"], *untried],
    }


def find_dominant_reason(message: str) -> str:
    """Return the reason that the most nodes gave in a FailedScheduling message.

    If the message counts no nodes, its first sentence is returned.
    """
    sentences = _LEAD.sub("", message, count=1)
    counts = [(int(n), words) for n, words in _COUNTED.findall(sentences.partition(". ")[0])]
    if not counts or not _LEAD.match(message):
        return sentences.partition(". ")[0].rstrip(".") or "no reason given"
    _, words = max(counts, key=lambda c: c[0])
    return str(words).rstrip(".")


def _pod(pod: PendingPod, now_us: int) -> PendingPodAnswer:
    retry = pod.retry
    latest = None if retry is None else retry.not_before_us if retry.latest_us is None else retry.latest_us
    return {
        "namespace": pod.namespace,
        "pod": pod.pod,
        "uid": pod.uid,
        "owner": pod.owner,
        "profile": pod.profile,
        "state": pod.state,
        "podGroup": pod.pod_group or None,
        "reason": _reason(pod),
        "attempt": pod.attempt,
        "id": pod.decision_id,
        "createdAt": None if pod.created_us is None else format_timestamp(pod.created_us),
        "startedAt": format_timestamp(pod.started_us),
        "queue": retry.queue if retry else None,
        "notBefore": format_timestamp(retry.not_before_us) if retry else None,
        "latest": None if retry is None or retry.latest_us is None else format_timestamp(retry.latest_us),
        "overdue": latest is not None and now_us > latest + OVERDUE_AFTER_US,
        "message": pod.message,
    }


def _reason(pod: PendingPod) -> str:
    if pod.is_undone:
        return _GROUP_NOT_PLACED
    return _BINDING_FAILED if pod.state == "Failed" and not pod.message else find_dominant_reason(pod.message)


def _untried(pod: UntriedPod) -> PendingPodAnswer:
    gates = f"schedulingGates: {', '.join(pod.gates)}"
    return {
        "namespace": pod.namespace,
        "pod": pod.pod,
        "uid": pod.uid,
        "owner": pod.owner,
        "profile": pod.profile,
        "podGroup": None,
        "state": "Gated" if pod.gates else "Untried",
        "reason": gates if pod.gates else f"no attempt of {pod.profile} is recorded",
        "attempt": 0,
        "id": None,
        "createdAt": pod.created_at,
        "startedAt": None,
        "queue": "gated" if pod.gates else None,
        "notBefore": None,
        "latest": None,
        "overdue": False,
        "message": "",
    }


def _group(reason: str, overdue: bool, members: Sequence[PendingPodAnswer], pod_group: str = "") -> PendingGroup:
    return {
        "podGroup": pod_group or None,
        "reason": reason,
        "code": reasons.parse_reason(reason).code,
        "overdue": overdue,
        "count": len(members),
        "oldestAt": members[0]["createdAt"],
        "pods": [f"{pod['namespace']}/{pod['pod']}" for pod in members[:MAX_NAMED]],
        "podsOmitted": max(0, len(members) - MAX_NAMED),
    }
