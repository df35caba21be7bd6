"""Find why a pod has ended: eviction, rejection by the kubelet, a deadline, exit codes; and what comes after it.

Owns: these states and causes, and the pod or run that succeeded it. Does not own: who disrupted it (`disruptions`),
pods that are being deleted (`termination_causes`), exit codes (`container_ends`). Pure.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.objects import find_controller, read_owner
from herodotus_answers.live.pod_facts import (
    clean,
    find_owner,
    format_ago,
    is_true,
    kubectl,
    list_containers,
    make_cause,
    make_remedy,
    name_event,
    name_source,
)
from herodotus_answers.live.pods.container_ends import find_exits
from herodotus_answers.live.pods.disruptions import (
    advise_on_disruption,
    build_event_subject,
    find_disruption,
    find_last_event,
)
from herodotus_answers.live.pods.kubelet_advice import advise
from herodotus_answers.live.pods.rejection_causes import (
    advise_on_holders,
    advise_on_naming,
    describe_naming,
    describe_rejection,
)
from herodotus_answers.live.unit_slips import list_small_limits
from herodotus_record.units import begin_sentence

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
# Reasons of a failed pod's status: the state, and the code of the cause.
_STATUS_REASONS: Final = {
    "Evicted": ("pod-evicted", "kubelet-eviction"),
    "Preempting": ("pod-preempted", "kubelet-preemption"),
    "NodeShutdown": ("pod-failed", "node-shutdown"),
    "Shutdown": ("pod-failed", "node-shutdown"),
    "Terminated": ("pod-failed", "node-shutdown"),
    "DeadlineExceeded": ("pod-failed", "deadline-exceeded"),
}
_REJECTIONS: Final = (
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "TaintToleration",
    "TopologyAffinityError",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "AppArmor",
    "SysctlForbidden",
    "PodFeatureUnsupported",
)
_OF_DEVICES: Final = re.compile(r"(?:unregistered|healthy) devices?|devices unavailable|device plugin")


def find_end(pod: Json, objects: ClusterObjects, now: datetime) -> tuple[str, list[LiveCause]]:
    """Return the state of a pod that has ended, and why it ended."""
    status, node = pod["status"], pod["spec"].get("nodeName")
    if status.get("phase") == "Succeeded":
        return "pod-succeeded", []
    reason, message = str(status.get("reason") or ""), clean(status.get("message"))
    disruption = find_disruption(pod, objects, now)
    exits = find_exits(pod, objects, now)
    if not reason:
        for cause in disruption[:1]:  # what ended the pod ended its containers
            cause["remedies"] = advise_on_disruption(pod, objects)
            exits = [each | {"remedies": []} for each in exits]
        return "pod-failed", [*disruption, *exits]
    state, code = _STATUS_REASONS.get(reason, ("pod-failed", "pod-status-reason"))
    if reason.startswith("OutOf") or reason in _REJECTIONS or (code == "pod-status-reason" and not exits):
        state, code = "pod-rejected", "kubelet-rejection"
    is_named = code in ("kubelet-eviction", "kubelet-preemption") and message  # the headline names the reason
    text = message if is_named else f"{reason}{': ' + message if message else ''}"
    event = find_last_event(build_event_subject(pod), objects, (reason,))
    if event is not None and clean(event.get("message")) not in message:  # which may repeat it in other words
        text += f"; {clean(event['message'])} ({name_event(event)}{format_ago(read_event_time(event), now)})"
    if reason == "DeadlineExceeded" and (limit := pod["spec"].get("activeDeadlineSeconds")) is not None:
        text += f" (activeDeadlineSeconds {limit})"
    holders: list[str] = []
    if state == "pod-rejected" and node:
        present, holders = describe_rejection(pod, reason, objects)
        text += f"; {present}" if present else ""
        text += f". {begin_sentence(named)}" if (named := describe_naming(pod, objects)) else ""
    cause = make_cause(code, text, "status.reason, status.message", of=f"Node/{node}" if node else None)
    cause["remedies"] = [
        *advise_on_holders(pod, reason, holders, objects),
        *advise_on_naming(pod, reason, objects),
        *_list_end_remedies(pod, reason, message, objects),
    ]
    for each in exits:
        each["remedies"] = []  # what ended the pod ended its containers
    # the condition of the kubelet's own termination repeats the status
    others = [each for each in disruption if each["code"] != "terminated-by-kubelet"]
    return state, [cause, *others, *exits]


def describe_successor(pod: Json, objects: ClusterObjects) -> str:
    """Return a sentence on the pods that the owner has made since, or on who has to make one."""
    owner = find_controller(pod)
    if owner is None:
        return "No controller owns the pod, so nothing replaces it."
    listed = objects.list_objects("Pod", pod["metadata"]["namespace"])
    later = [
        each
        for each in listed.items
        if each["metadata"]["name"] != pod["metadata"]["name"]
        and str(each["metadata"].get("creationTimestamp")) >= str(pod["metadata"].get("creationTimestamp"))
        and any(
            (o.get("kind"), o.get("name")) == (owner["kind"], owner["name"])
            for o in each["metadata"].get("ownerReferences") or ()
        )
    ]
    label = f"{owner['kind']}/{owner['name']}"
    if find_completed_job(pod, objects):
        return f"Its owner {label} has completed since, so this failure asks for nothing."
    if run := _find_later_run(pod, objects):
        return f"Its owner is {label}; {run} has completed since."
    if later:
        newest = max(later, key=lambda each: str(each["metadata"].get("creationTimestamp")))
        where = newest["spec"].get("nodeName")
        phase = (newest.get("status") or {}).get("phase") or "Pending"
        return f"Its owner {label} also has {newest['metadata']['name']} ({phase}{' on ' + where if where else ''})."
    return f"Its owner is {label}; no later pod of it is known." if listed.is_complete else f"Its owner is {label}."


def _find_later_run(pod: Json, objects: ClusterObjects) -> str:
    """Return the newest Job, as KIND/NAME, that the CronJob of the pod's Job made later and that has completed."""
    owner, namespace = find_controller(pod), pod["metadata"]["namespace"]
    job = objects.get("Job", owner["name"], namespace).object if owner and owner["kind"] == "Job" else None
    parent = read_owner(job) if job is not None else None
    if job is None or parent is None:
        return ""
    later = [
        (_read_start(each), str(each["metadata"]["name"]))
        for each in objects.list_objects("Job", namespace).items
        if read_owner(each) == parent and is_true(each, "Complete")
    ]
    at, name = max(later, default=("", ""))
    return f"Job/{name} of {parent}" if at > _read_start(job) else ""


def _read_start(job: Json) -> str:
    """Return when a Job started, or "" if that is not known."""
    return str((job.get("status") or {}).get("startTime") or "")


def find_completed_job(pod: Json, objects: ClusterObjects) -> Json | None:
    """Return the Job that made the pod if it has completed, whatever pods of it failed before; None otherwise."""
    owner = find_controller(pod)
    if owner is None or owner["kind"] != "Job":
        return None
    job = objects.get("Job", owner["name"], pod["metadata"]["namespace"]).object
    return job if job is not None and is_true(job, "Complete") else None


def _list_end_remedies(pod: Json, reason: str, message: str, objects: ClusterObjects) -> list[Remedy]:
    """Return what keeps a pod that follows from the same end, and what to do with this one."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
    owner = find_owner(pod, objects)
    remedies = [
        make_remedy(
            f"correct {field} of {what} in {name_source(pod, objects)} to {slip.meant}, if that was meant: {slip.text}"
        )
        for field, what, slip in (list_small_limits(pod["spec"]) if reason == "Evicted" and "limit" in message else ())
    ]
    remedies += advise("eviction" if reason == "Evicted" else "rejection", message, pod, objects)
    if reason == "DeadlineExceeded":
        text = f"raise activeDeadlineSeconds in {name_source(pod, objects)}, or let the pod do less"
        remedies.append(make_remedy(text))
    if reason == "UnexpectedAdmissionError" and node and _OF_DEVICES.search(message):
        text = f"keep new pods off {node} until its devices work again, and uncordon it then"
        remedies.append(make_remedy(text, f"kubectl cordon {node}"))
    is_short = reason == "Evicted" and "was using" not in message
    resource = message.partition("low on resource: ")[2].partition(".")[0] if is_short else ""
    lacking = [c.name for c in list_containers(pod) if resource and resource not in _read_requests(c.spec)]
    if lacking and resource in ("ephemeral-storage", "memory"):
        where = owner.label if owner else "its manifest"
        text = (
            f"request the {resource} that {', '.join(lacking)} needs in {where}: pods that use more than they request"
        )
        remedies.append(make_remedy(f"{text} are evicted first"))
    if owner is None:
        again = "create the pod anew: no controller replaces it, and this one never runs again"
        return [*remedies, make_remedy(again)]
    text = f"delete this pod, which never runs again; {owner.label} decides about new ones"
    return [*remedies, make_remedy(text, kubectl(pod, f"delete pod {name}"))]


def _read_requests(container: Json) -> Json:
    """Return the requests of a container's spec."""
    return (container.get("resources") or {}).get("requests") or {}
