"""Read the events of a workload and of the objects that make its pods: the last refusal, and what happened.

Owns: which event or condition is the refusal that explains missing pods. Does not own: what it means
(`refusal_causes`), reading (`cluster_objects`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.pod_facts import format_ago, format_times, read_conditions
from herodotus_answers.live.timeline import describe_event, fold_facts
from herodotus_answers.live.workloads.template_changes import Refusal

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import TimelineEntry
    from herodotus_answers.live.workload_objects import Workload

Json = dict[str, Any]
# Events of a controller that could not create a pod, a Job, a claim or a ReplicaSet.
FAILED: Final = ("FailedCreate", "ReplicaSetCreateError")
_CREATED: Final = "SuccessfulCreate"
_MAX_MAKERS: Final = 5  # whose events are read, the newest ones
_MAX_ENTRIES: Final = 10


def list_events(workload: Workload, *more: Json) -> list[tuple[Json, Json]]:
    """Return the events of a workload and of what makes its pods, each with its object, oldest first."""
    about = {
        (each["kind"], each["metadata"]["name"]): each for each in (workload.object, *workload.makers[:_MAX_MAKERS])
    }
    pairs = [(event, each) for each in (*about.values(), *more) for event in workload.objects.list_events(each)]
    return sorted(pairs, key=lambda pair: read_event_time(pair[0]))


def find_refusal(workload: Workload, missing: int) -> Refusal | None:
    """Return the last refusal to create pods, from events or else from conditions, or None if there is none.

    A refusal does not count if the same object, or a newer one in its place, created something after it.
    """
    events, makers = list_events(workload), workload.makers
    for event, about in reversed(events):
        if event.get("reason") not in FAILED:
            continue
        time = read_event_time(event)
        heirs = [about, *makers[: makers.index(about) if about in makers else 0]]
        created = [each for each, of in events if of in heirs and each.get("reason") == _CREATED]
        if any(read_event_time(each) > time for each in created):
            continue
        times, ago = format_times(event), format_ago(time, workload.now)
        often = f", {times}" if times else ""
        label = f"{about['kind']}/{about['metadata']['name']}"
        source = (
            f"Event {event['reason']} of {label}{often}, last{ago}" if ago else f"Event {event['reason']} of {label}"
        )
        return Refusal(str(event.get("message") or ""), source, time or None, missing)
    for about in (*workload.makers[:_MAX_MAKERS], workload.object):
        for name, condition in read_conditions(about).items():
            is_failure = name == "ReplicaFailure" and condition.get("status") == "True"
            if is_failure or condition.get("reason") in FAILED:
                source = f"status.conditions[{name}] of {about['kind']}/{about['metadata']['name']}"
                at = condition.get("lastTransitionTime")
                return Refusal(str(condition.get("message") or ""), source, at, missing)
    return None


def build_timeline(workload: Workload) -> list[TimelineEntry]:
    """Return the last events of a workload and of what makes its pods, oldest first."""
    facts = (
        describe_event(event, f"Event {event.get('reason')} of {about['kind']}/{about['metadata']['name']}")
        for event, about in list_events(workload)
    )
    return list(fold_facts(facts))[-_MAX_ENTRIES:]
