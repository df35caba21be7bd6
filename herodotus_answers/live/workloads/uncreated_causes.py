"""Find why a Deployment, ReplicaSet, StatefulSet or DaemonSet has fewer pods than it wants.

Owns: these causes and the state. Does not own: Jobs (`job_state`), the messages of refusals (`refusal_causes`), the
pods that exist (`workload_pods`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from herodotus_answers.live.pod_facts import (
    ask_for_events,
    clean,
    format_seconds,
    make_cause,
    make_remedy,
)
from herodotus_answers.live.pods.pod_state import explain_silent_manager
from herodotus_answers.live.workload_objects import (
    REACTION_TIME,
    Workload,
    is_ready,
)
from herodotus_answers.live.workloads.refusal_causes import explain_refusal, find_missing_references
from herodotus_answers.live.workloads.rollouts import find_stuck_rollout, find_unready_state
from herodotus_answers.live.workloads.terminating_pods import explain_wait_for_end
from herodotus_answers.live.workloads.workload_events import find_refusal
from herodotus_answers.live.workloads.workload_pods import explain_failed_pod

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import (
        LiveCause,
    )
    from herodotus_answers.live.workloads.situation import Parts, Situation


Json = dict[str, Any]


def find_short_state(situation: Situation) -> Parts:
    """Return the state of a workload with too few pods."""
    workload, counts = situation.workload, situation.counts
    wanted, created = counts["wanted"] or 0, counts["created"]
    exist = f"{created} of {wanted} pods {'exists' if created == 1 else 'exist'}"
    failed = explain_failed_pod(workload)
    causes = [*_explain_short(situation, failed)]
    code = "workload-not-created"
    if not causes:
        age = workload.age
        if situation.problems.causes:
            return find_unready_state(situation, find_stuck_rollout(workload))
        if age is not None and age < REACTION_TIME and "Event" not in workload.objects.unread:
            ago = format_seconds(age.total_seconds())
            headline = f"{exist} yet: {workload.label} was created {ago} ago, and no event says that a pod was refused"
            return code, headline, [], "kube-controller-manager"
        causes = [_explain_nothing(situation)]
    first = causes[0]
    verb = "Its last pod failed" if first in failed else "Not created"
    more = [cause for cause in situation.problems.causes if cause["text"] != first["text"]]
    return code, f"{exist}. {verb}: {first['text']}", [*causes, *more], "user"


def _explain_short(situation: Situation, failed: Sequence[LiveCause]) -> Iterator[LiveCause]:
    """Yield why pods of a workload are not created, the cause to act on first; `failed` is why its last pod failed."""
    workload, missing = situation.workload, situation.counts["notCreated"]
    if silent := explain_silent_manager(workload.objects, workload.now):
        yield silent
    behind = None if silent else _explain_behind(workload)
    if behind:
        yield behind
    refusal = find_refusal(workload, missing)
    if refusal is not None:
        yield explain_refusal(refusal, workload)
        return
    if waits := explain_wait_for_end(workload):
        yield waits
    yield from find_missing_references(workload)
    yield from failed
    if workload.kind == "StatefulSet" and (order := _explain_order(situation)):
        yield order
    lacks_replica_set = workload.kind == "Deployment" and workload.knows_makers and workload.current is None
    if lacks_replica_set and not (behind or silent):
        condition = workload.conditions.get("Progressing") or {}
        said = clean(condition.get("message"))
        text = f"Deployment {workload.name} has no ReplicaSet of its present template" + (f": {said}" if said else "")
        source = "status.conditions[Progressing]" if said else "ReplicaSets"
        yield make_cause("replica-set-missing", text, source, at=condition.get("lastTransitionTime"))


def _explain_behind(workload: Workload) -> LiveCause | None:
    """Return the cause that a controller has not seen the last change of a workload, or None if it has.

    A status without observedGeneration says nothing, unless no controller has written any.
    """
    generation, observed = workload.meta.get("generation"), workload.status.get("observedGeneration")
    age = workload.age
    if generation is None or (observed >= generation if observed is not None else workload.status):
        return None
    if age is None or age < REACTION_TIME:
        return None
    text = f"the controller has not acted on the last change of {workload.label} (generation {generation}"
    text += f", observed {observed})" if observed is not None else ", none observed)"
    remedy = make_remedy("see whether kube-controller-manager runs")
    look = "kubectl get pods -n kube-system -l component=kube-controller-manager"
    return make_cause("controller-behind", text, "status.observedGeneration", remedies=[remedy], inspect=look)


def _explain_nothing(situation: Situation) -> LiveCause:
    """Return the cause that no event or condition says why pods are missing."""
    workload = situation.workload
    text = "no event or condition says why (events are kept for an hour)"
    if "Event" in workload.objects.unread:
        text = "its events cannot be read, and no condition says why"
    nodes = [name for each in situation.skipped if each["code"] == "missing" for name in each["nodes"]]
    text += f"; no pod is on {', '.join(nodes)}" if nodes else ""
    remedies = ask_for_events(workload.object, workload.objects)
    remedies = remedies or [make_remedy("see whether kube-controller-manager runs, and what its log says")]
    look = workload.kubectl(f"describe {workload.kind.lower()} {workload.name}")
    return make_cause("creation-unexplained", text, "Events, status.conditions", remedies=remedies, inspect=look)


def _explain_order(situation: Situation) -> LiveCause | None:
    """Return the cause that a StatefulSet makes the next pod when an earlier one is ready, or None if it does not."""
    workload = situation.workload
    if workload.spec.get("podManagementPolicy", "OrderedReady") != "OrderedReady":
        return None
    first = int((workload.spec.get("ordinals") or {}).get("start") or 0)
    present = {str(pod["metadata"]["name"]): pod for pod in workload.pods}
    for ordinal in range(first, first + (situation.counts["wanted"] or 0)):
        name = f"{workload.name}-{ordinal}"
        pod = present.get(name)
        if pod is None:
            return None
        if is_ready(pod) and not pod["metadata"].get("deletionTimestamp"):
            continue
        later = [f"{workload.name}-{n}" for n in range(ordinal + 1, first + (situation.counts["wanted"] or 0))]
        absent = [each for each in later if each not in present]
        if not absent:
            return None
        why = situation.problems.describe(name)
        text = f"{', '.join(absent[:3])} {'waits' if len(absent) == 1 else 'wait'} until {name} is ready"
        text += " (podManagementPolicy OrderedReady)" + (f". {name}: {why}" if why else "")
        see = f"kubectl herodotus pod {name} -n {workload.namespace}"
        return make_cause("waits-for-earlier-pod", text, "spec.podManagementPolicy", of=f"Pod/{name}", inspect=see)
    return None
