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
from typing import Any, Final

from herodotus_record import reasons
from herodotus_record.model import API_VERSION, Retry
from herodotus_record.units import format_timestamp

Json = dict[str, Any]

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


def build_pending_pods(pods: Sequence[PendingPod], *, now_us: int, omitted: int = 0, namespace: str = "") -> Json:
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


def remove_deleted_pods(document: Json, unassigned: Collection[str]) -> Json:
    """Return a PendingPods document without deleted and bound pods, which it lists under `gone` instead.

    `unassigned` holds the UIDs of all pods without a node in the API server. A pod created while they were read may be
    missing among them, so the youngest pods stay in the document.
    """
    limit = document["at"]
    deleted = [p for p in document["pods"] if p["uid"] not in unassigned and _is_older(p, limit)]
    left = [p for p in document["pods"] if p not in deleted]
    named = [{key: p[key] for key in ("namespace", "pod", "uid", "startedAt")} for p in deleted]
    counts = {"count": len(left), "overdue": sum(pod["overdue"] for pod in left)}
    return document | counts | {"groups": _groups(left), "pods": left, "gone": named}


def _is_older(pod: Json, at: str) -> bool:
    """Return whether a pod was created more than _LIST_AGE_S before the timestamp `at`.

    Such a pod is in every pod list that was read around that time, unless it was deleted or bound.
    """
    since = pod["createdAt"] or pod["startedAt"]
    created, read = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (since, at))
    return (read - created).total_seconds() > _LIST_AGE_S


def _groups(pods: Sequence[Json]) -> list[Json]:
    """Return the pods grouped by pod group or reason: the largest group first, groups of overdue pods last."""
    groups: dict[tuple[str, bool, str], list[Json]] = {}
    for pod in pods:
        group = f"{pod['namespace']}/{pod['podGroup']}" if pod["podGroup"] else ""
        groups.setdefault((pod["reason"] if not group else "", pod["overdue"], group), []).append(pod)
    largest = sorted(groups.items(), key=lambda g: (g[0][1], -len(g[1]), g[0]))
    return [
        _group(_group_reason(members) if name else reason, overdue, members, name)
        for (reason, overdue, name), members in largest
    ]


def _group_reason(members: Sequence[Json]) -> str:
    """Return the most frequent reason of those members of a pod group that block it."""
    reasons_given = [pod["reason"] for pod in members if pod["reason"] != _GROUP_NOT_PLACED] or [_GROUP_NOT_PLACED]
    return str(Counter(reasons_given).most_common(1)[0][0])


def add_untried_pods(document: Json, pods: Sequence[UntriedPod]) -> Json:
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
    groups: dict[str, list[Json]] = {}
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


def _pod(pod: PendingPod, now_us: int) -> Json:
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


def _untried(pod: UntriedPod) -> Json:
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


def _group(reason: str, overdue: bool, members: Sequence[Json], pod_group: str = "") -> Json:
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
