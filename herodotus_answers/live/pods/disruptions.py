"""Find who disrupts or disrupted a pod: eviction, preemption, taint managers, the garbage collector, autoscalers.

Owns: the condition DisruptionTarget, the events that explain it, and what keeps pods from it. Does not own: the end of
the pod itself (`pod_ending`, `termination_causes`). Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.node_rules import tolerates
from herodotus_answers.live.pod_facts import (
    clean,
    find_owner,
    format_ago,
    make_cause,
    make_remedy,
    name_event,
    name_source,
    parse_time,
    read_conditions,
    read_reporter,
)

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
# Reasons of the condition DisruptionTarget: the code of the cause, and who disrupts the pod.
_DISRUPTIONS: Final = {
    "EvictionByEvictionAPI": ("evicted-by-api", "evicted through the Eviction API"),
    "PreemptionByScheduler": ("preempted-by-scheduler", "preempted by a scheduler for a pod of higher priority"),
    "DeletionByTaintManager": ("deleted-by-taint-manager", "deleted because of a NoExecute taint of its node"),
    "DeletionByDeviceTaintManager": (
        "deleted-by-device-taint-manager",
        "deleted because of a NoExecute taint of a device that it has",
    ),
    "DeletionByPodGC": ("deleted-by-pod-gc", "deleted because its node no longer exists"),
    "TerminationByKubelet": ("terminated-by-kubelet", "ended by the kubelet"),
}
# By the reason of a disruption: what ends its cause, where that is not the pod's own template.
_ENDS_CAUSE: Final = {
    "DeletionByDeviceTaintManager": "repair or replace the device, which has its taint from a DeviceTaintRule or from"
    " its driver (ResourceSlice); a pod that may use it nevertheless tolerates the taint in its claim's request",
}
# Events of a pod's start, and of what was tried before it had a node: they say nothing about its end.
_OF_START: Final = (
    "Scheduled",
    "Pulling",
    "Pulled",
    "Created",
    "Started",
    "SuccessfulAttachVolume",
    "Killing",
    "FailedScheduling",
    "Nominated",
    "TriggeredScaleUp",
    "NotTriggerScaleUp",
)
# By the reporter of an event of a disruption: what keeps it from ending pods like this one, for their template.
_SPARED_BY: Final = {
    "karpenter": 'annotate the pods with karpenter.sh/do-not-disrupt: "true"',
    "cluster-autoscaler": 'annotate the pods with cluster-autoscaler.kubernetes.io/safe-to-evict: "false"',
    "vpa-updater": "set updatePolicy.updateMode Initial in the VerticalPodAutoscaler that selects the pods",
}
BEFORE_CONDITION: Final = timedelta(
    minutes=5
)  # who disrupts a pod may report it before the API server has the condition


def find_disruption(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return who disrupts or disrupted a pod, by its condition and by the last event that is not of its start."""
    condition = read_conditions(pod).get("DisruptionTarget") or {}
    if condition.get("status") != "True":
        return []
    reason = str(condition.get("reason") or "")
    code, words = _DISRUPTIONS.get(reason, ("disrupted", "disrupted"))
    message = clean(condition.get("message"))
    text = f"{words} ({reason}{': ' + message if message else ''})"
    node = pod["spec"].get("nodeName")
    for about, where in ((build_event_subject(pod), ""), (_node_subject(node), f"node {node}: ")):
        event = find_last_event(about, objects) if about else None
        began, reported = parse_time(condition.get("lastTransitionTime")), parse_time(read_event_time(event or {}))
        if began is not None and reported is not None and reported < began - BEFORE_CONDITION:
            continue
        if event is not None and clean(event.get("message")) not in ("", message):
            text += f"; {where}{clean(event['message'])} ({name_event(event)}{format_ago(read_event_time(event), now)})"
    if code != "preempted-by-scheduler" and (taints := _list_disrupting_taints(pod, objects)):
        text += f"; node {node} has taint {taints}"
    return [make_cause(code, text, "status.conditions[DisruptionTarget]", at=condition.get("lastTransitionTime"))]


def advise_on_disruption(pod: Json, objects: ClusterObjects) -> list[Remedy]:
    """Return what keeps pods like this one, which somebody ended, from the same end, or makes the end harmless."""
    event = find_last_event(build_event_subject(pod), objects) or {}
    component = read_reporter(event)
    owner, source = find_owner(pod, objects), name_source(pod, objects)
    reason = str((read_conditions(pod).get("DisruptionTarget") or {}).get("reason"))
    remedies = [make_remedy(_ENDS_CAUSE[reason])] if reason in _ENDS_CAUSE else []
    may_ignore = owner is not None and owner.kind == "Job" and pod["spec"].get("restartPolicy") == "Never"
    if owner is not None and may_ignore and not _ignores_disruptions(owner.name, pod, objects):
        text = "let disruptions not use up backoffLimit: podFailurePolicy with action Ignore on condition"
        remedies.append(make_remedy(f"{text} DisruptionTarget, in {source}, which has to be made anew for that"))
    if spared := _SPARED_BY.get(component):
        remedies.append(make_remedy(f"{spared} in {source}, if they may not be moved"))
    if owner is None:
        remedies.append(make_remedy("create the pod anew: no controller replaces it, and this one never runs again"))
    return remedies


def _ignores_disruptions(job: str, pod: Json, objects: ClusterObjects) -> bool:
    """Return whether a rule of the Job of a pod says that disrupted pods do not count as failed."""
    spec = (objects.get("Job", job, pod["metadata"]["namespace"]).object or {}).get("spec") or {}
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    ignored = (each for rule in rules if rule.get("action") == "Ignore" for each in rule.get("onPodConditions") or ())
    return any(condition.get("type") == "DisruptionTarget" for condition in ignored)


def _list_disrupting_taints(pod: Json, objects: ClusterObjects) -> str:
    """Return the taints of the pod's node that the pod does not tolerate, as KEY:EFFECT; "" if none or unknown.

    A scheduler placed the pod there, so they came later.
    """
    node, tolerations = pod["spec"].get("nodeName"), pod["spec"].get("tolerations") or ()
    obj = (objects.get("Node", node).object if node else None) or {}
    taints = (obj.get("spec") or {}).get("taints") or ()
    return ", ".join(
        f"{taint['key']}:{taint['effect']}"
        for taint in taints
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not tolerates(tolerations, taint)
    )


def build_event_subject(pod: Json) -> Json:
    """Return a pod with its kind, which an item of a list lacks, to select the events about it."""
    return {**pod, "kind": "Pod"}


def _node_subject(node: str | None) -> Json | None:
    """Return what events about a node are selected by: without a UID, because the kubelet uses the name as UID."""
    return {"kind": "Node", "metadata": {"name": node}} if node else None


def find_last_event(subject: Json, objects: ClusterObjects, reasons: tuple[str, ...] = ()) -> Json | None:
    """Return the last event about an object, of these reasons, or without reasons the last that is not of a start."""
    for event in reversed(objects.list_events(subject)):
        reason = event.get("reason")
        if reason in reasons if reasons else (reason not in _OF_START and _is_of_a_disruption(event)):
            return event
    return None


def _is_of_a_disruption(event: Json) -> bool:
    """Return whether the kubelet and the scheduler are not the reporters: they report on every pod."""
    component = read_reporter(event)
    return component not in ("kubelet", "node-controller", "kube-proxy") or event.get("reason") in (
        "Preempting",
        "Evicted",
        "EvictionThresholdMet",
        "NodeNotReady",
        "DeletingNode",
    )
