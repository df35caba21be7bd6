"""The answer document `PendingPods`: the pods whose last attempt found no node, by what most of the nodes said.

Owns: the document's shape, the dominant reason of an event's message, when a retry is overdue, how pods that wait for
their scheduling gates are told beside the others. Does not own: which attempts are a pod's last (the store). Pure.

Invariant: a pod is in exactly one group; the record does not know of deletions, so a pod that was not tried again when
it was due is told apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from herodotus_record import reasons
from herodotus_record.model import API_VERSION, Retry
from herodotus_record.units import timestamp

Json = dict[str, Any]

NAMED: Final = 5  # pods of a group; every pod is in `pods`
PATIENCE_US: Final = 60_000_000  # a scheduler that is busy retries late; one that is not retries within a second
_BINDING_FAILED: Final = "a node was chosen, but the pod could not be bound to it"
_LEAD: Final = re.compile(r"0/\d+ nodes are available: ")
_COUNTED: Final = re.compile(r"(\d+) (.+?)(?=, \d+ |\.(?: |$)|$)")


@dataclass(frozen=True)
class Waiting:
    """A pod's last attempt. `created_us` and `retry`: None where that record was not read."""

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
    created_us: int | None = None
    retry: Retry | None = None


@dataclass(frozen=True)
class Gated:
    """A pod that no scheduler tries: its scheduling gates are closed. So no record knows it, only the API server."""

    namespace: str
    pod: str
    uid: str
    owner: str | None
    profile: str
    created_at: str
    gates: tuple[str, ...]


def pending_pods(pods: Sequence[Waiting], *, now_us: int, omitted: int = 0, namespace: str = "") -> Json:
    """The document of kind PendingPods. `omitted`: pods that are known to wait and are not told."""
    told = [_pod(pod, now_us) for pod in sorted(pods, key=lambda p: (p.created_us or p.started_us, p.namespace, p.pod))]
    groups: dict[tuple[str, bool], list[Json]] = {}
    for pod in told:
        groups.setdefault((pod["reason"], pod["overdue"]), []).append(pod)
    largest = sorted(groups.items(), key=lambda g: (g[0][1], -len(g[1]), g[0][0]))
    return {
        "apiVersion": API_VERSION,
        "kind": "PendingPods",
        "metadata": {"namespace": namespace} if namespace else {},
        "at": timestamp(now_us),
        "count": len(told),
        "overdue": sum(pod["overdue"] for pod in told),
        "groups": [_group(reason, overdue, members) for (reason, overdue), members in largest],
        "pods": told,
        "podsOmitted": omitted,
    }


def with_gated(document: Json, gated: Sequence[Gated]) -> Json:
    """A PendingPods with pods that wait for their gates: behind the others, in groups of their own."""
    known = {pod["uid"] for pod in document["pods"]}
    found = [
        _gated(pod) for pod in sorted(gated, key=lambda p: (p.created_at, p.namespace, p.pod)) if pod.uid not in known
    ]
    groups: dict[str, list[Json]] = {}
    for pod in found:
        groups.setdefault(pod["reason"], []).append(pod)
    return document | {
        "count": document["count"] + len(found),
        "groups": [*document["groups"], *(_group(reason, False, members) for reason, members in groups.items())],
        "pods": [*document["pods"], *found],
    }


def dominant(message: str) -> str:
    """What most nodes said, in kube-scheduler's words; the whole text where it counts no nodes."""
    said = _LEAD.sub("", message, count=1)
    counted = [(int(n), words) for n, words in _COUNTED.findall(said.partition(". ")[0])]
    if not counted or not _LEAD.match(message):
        return said.partition(". ")[0].rstrip(".") or "no reason given"
    _, words = max(counted, key=lambda c: c[0])
    return str(words).rstrip(".")


def _pod(pod: Waiting, now_us: int) -> Json:
    retry = pod.retry
    latest = None if retry is None else retry.not_before_us if retry.latest_us is None else retry.latest_us
    return {
        "namespace": pod.namespace,
        "pod": pod.pod,
        "uid": pod.uid,
        "owner": pod.owner,
        "profile": pod.profile,
        "state": pod.state,
        "reason": _BINDING_FAILED if pod.state == "Failed" and not pod.message else dominant(pod.message),
        "attempt": pod.attempt,
        "id": pod.decision_id,
        "createdAt": None if pod.created_us is None else timestamp(pod.created_us),
        "startedAt": timestamp(pod.started_us),
        "queue": retry.queue if retry else None,
        "notBefore": timestamp(retry.not_before_us) if retry else None,
        "latest": None if retry is None or retry.latest_us is None else timestamp(retry.latest_us),
        "overdue": latest is not None and now_us > latest + PATIENCE_US,
        "message": pod.message,
    }


def _gated(pod: Gated) -> Json:
    return {
        "namespace": pod.namespace,
        "pod": pod.pod,
        "uid": pod.uid,
        "owner": pod.owner,
        "profile": pod.profile,
        "state": "Gated",
        "reason": f"schedulingGates: {', '.join(pod.gates)}",
        "attempt": 0,
        "id": None,
        "createdAt": pod.created_at,
        "startedAt": None,
        "queue": "gated",
        "notBefore": None,
        "latest": None,
        "overdue": False,
        "message": "",
    }


def _group(reason: str, overdue: bool, members: Sequence[Json]) -> Json:
    return {
        "reason": reason,
        "code": reasons.parse(reason).code,
        "overdue": overdue,
        "count": len(members),
        "oldestAt": members[0]["createdAt"],
        "pods": [f"{pod['namespace']}/{pod['pod']}" for pod in members[:NAMED]],
        "podsOmitted": max(0, len(members) - NAMED),
    }
