"""Find a pending pod's place among the pods that wait for its scheduler, and whether the scheduler neglects it.

Owns: the order, the type, and the sentence. Does not own: attempts and when the next is due (the record). Pure.

A scheduling queue orders pods by priority, then by the time at which they came into it. No object has that time, so
pods of equal priority are ordered by their creation.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from herodotus_answers.live.cluster_objects import ClusterObjects
from herodotus_answers.live.declarations import QueuePlace
from herodotus_answers.live.objects import is_active, read_scheduler
from herodotus_answers.live.pod_facts import format_ago, format_seconds, parse_time
from herodotus_answers.live.pods.pod_state import find_lease, read_lease_left

Json = dict[str, Any]
MAX_NAMED: Final = 3
# kube-scheduler tries each unschedulable pod again after five minutes; a busy one is a little late.
_FLUSH_INTERVAL: Final = timedelta(minutes=5)
_MAX_DELAY: Final = timedelta(minutes=1)


def find_place(pod: Json, attempt: Json, objects: ClusterObjects, now: datetime) -> QueuePlace | None:
    """Return a waiting pod's place in its scheduler's queue; None if nothing of it is known or worth telling.

    `attempt` is that of the answer about its last recorded attempt. The place is known only to those who may list the
    pods of all namespaces.
    """
    scheduler = read_scheduler(pod)
    listed = objects.list_objects("Pod", fields="spec.nodeName=")
    waiting = sorted((p for p in listed.items if _waits_for(p, scheduler)), key=_order)
    names = [_name(each) for each in waiting]
    own = _name(pod)
    overdue = _find_overdue(attempt, now)
    lease = find_lease(scheduler, objects)[0] if overdue else None
    left = read_lease_left(lease, now) if lease is not None else None
    runs = left is not None and left >= 0
    is_known = listed.is_complete and not listed.missing and own in names and len(names) > 1
    if not is_known and not (overdue and runs):
        return None
    ahead = waiting[: names.index(own)] if is_known else []
    sentences = [_describe(len(ahead) + 1, len(names), ahead)] if is_known else []
    if overdue and runs and lease is not None:
        sentences.append(
            f"not tried for {format_seconds(overdue.total_seconds())} although {scheduler} runs"
            f" (Lease renewed{format_ago(lease['spec'].get('renewTime'), now)})"
        )
    return {
        "position": len(ahead) + 1 if is_known else None,
        "waiting": len(names) if is_known else None,
        "ahead": [_name(each) for each in ahead[:MAX_NAMED]],
        "neglected": bool(overdue and runs),
        "text": "; ".join(sentences),
    }


def _describe(position: int, waiting: int, ahead: list[Json]) -> str:
    first = f", first {_name(ahead[0])} (priority {_priority(ahead[0])})" if ahead else ""
    return f"place {position} of {waiting} by priority and age{first}"


def _find_overdue(attempt: Json, now: datetime) -> timedelta | None:
    """Return since when the pod was not tried, if the scheduler should have tried it again by its own record."""
    retry, repeats = attempt.get("retry"), attempt.get("repeats")
    last = parse_time((repeats or {}).get("lastAt") or attempt.get("startedAt"))
    due = parse_time((retry or {}).get("latest"))
    if last is None or due is None or now < due + _MAX_DELAY or now - last < _FLUSH_INTERVAL + _MAX_DELAY:
        return None
    return now - last


def _waits_for(pod: Json, scheduler: str) -> bool:
    spec = pod.get("spec") or {}
    may_be_tried = not spec.get("nodeName") and not spec.get("schedulingGates")
    return may_be_tried and is_active(pod) and read_scheduler(pod) == scheduler


def _order(pod: Json) -> tuple[int, str, str]:
    return -_priority(pod), str(pod["metadata"].get("creationTimestamp") or ""), _name(pod)


def _priority(pod: Json) -> int:
    return int(pod["spec"].get("priority") or 0)


def _name(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
