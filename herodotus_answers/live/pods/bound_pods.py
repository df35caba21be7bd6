"""Find the state of a pod that has a node and has not ended, from what its node and its containers report.

Owns: which state it is, who has to act, and the order of the causes. Does not own: the causes (`kubelet_causes`,
`container_ends`, `pod_ending`, `resize_causes`), pods that end (`pod_state`). Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.objects import is_static, was_created_with_node
from herodotus_answers.live.pod_facts import is_pointer, make_cause, make_remedy, make_state, read_conditions
from herodotus_answers.live.pods.container_ends import find_restart_causes
from herodotus_answers.live.pods.disruptions import find_disruption
from herodotus_answers.live.pods.kubelet_causes import find_debugging_causes, find_start_causes
from herodotus_answers.live.pods.node_causes import (
    describe_eviction_from,
    find_node_faults,
    find_node_problem,
    list_node_repairs,
)
from herodotus_answers.live.pods.outdated_pods import add_outdated, find_outdated
from herodotus_answers.live.pods.resize_causes import find_resize_causes

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, LiveState

Json = dict[str, Any]
# Causes of pods that do not start, behind which a faulty node may be.
_NODE_RELATED: Final = (
    "sandbox-failed",
    "volume-failed",
    "devices-failed",
    "kubelet-event",
    "kubelet-waits",
    "image-pull",
)
_ENDING_PROBES: Final = ("probe-liveness", "probe-startup")
_FAILING: Final = ("container-crash-loop", "container-exit", "out-of-memory", "probe-liveness", "sandbox-remade")


def find_bound_state(pod: Json, objects: ClusterObjects, now: datetime) -> LiveState:
    """Return the state of a pod that has a node and has not ended. `now` is the time to which ages refer."""
    problem = find_node_problem(pod, objects, now)
    if problem is not None:
        return _describe_lost(pod, problem, objects, now)
    resizes = find_resize_causes(pod, objects, now)
    if _read_phase(pod) == "Running" and (read_conditions(pod).get("Ready") or {}).get("status") == "True":
        return _describe_ready(pod, resizes, objects, now)
    causes = _find_unready_causes(pod, objects, now)
    causes += [*resizes, *find_disruption(pod, objects, now)]
    if is_static(pod):
        causes.append(_explain_static(pod))
    elif was_created_with_node(pod) and not any(cause["code"] == "created-with-node" for cause in causes):
        causes.append(_explain_node_name(pod))
    if causes:
        causes = add_outdated(causes, pod, objects)
    return _describe_unready(pod, causes, resizes, objects)


def _read_phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _describe_lost(pod: Json, problem: LiveCause, objects: ClusterObjects, now: datetime) -> LiveState:
    """Return the state of a pod whose node is gone or does not report; `problem` says which."""
    node, phase = pod["spec"]["nodeName"], _read_phase(pod)
    problem["remedies"] = list_node_repairs(pod, objects, problem)
    if problem["code"] == "node-not-found":
        headline = f"Bound to {node}, but {problem['text']}. No kubelet runs the pod or reports its state"
    else:
        what = "what its containers do is not known, they may still run" if phase == "Running" else "nothing starts it"
        headline = f"{phase} on {node} as last reported: {problem['text']}; {what}"
        problem["text"] = f"{problem['text']}; {describe_eviction_from(pod, objects, now)}"
    return make_state("pod-node-lost", headline, "user", [problem], objects.unread)


def _describe_ready(pod: Json, resizes: list[LiveCause], objects: ClusterObjects, now: datetime) -> LiveState:
    """Return the state of a pod that is ready; `resizes` are those that its kubelet has not carried out."""
    node, disruption = pod["spec"]["nodeName"], find_disruption(pod, objects, now)
    if resizes:
        headline = f"Runs on {node} with its old resources: {resizes[0]['text']}"
        return make_state("pod-resizing", headline, "kubelet", [*resizes, *disruption], objects.unread)
    created: list[LiveCause] = []
    by = ""
    if is_static(pod):
        created, by = [_explain_static(pod)], f": a static pod, which the kubelet of {node} made from its own manifest"
    elif was_created_with_node(pod):
        created, by = [_explain_node_name(pod)], ": created with spec.nodeName, so no scheduler decided it"
    notable = [*find_debugging_causes(pod, objects, now), *find_restart_causes(pod, objects, now)]
    if outdated := find_outdated(pod, objects):
        notable.append(outdated)
    by += f"; {notable[0]['text']}" if notable else ""
    causes = [*notable, *disruption, *created]
    return make_state("pod-running", f"Runs on {node} and is ready{by}", None, causes, objects.unread)


def _find_unready_causes(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return why a pod does not start or is not ready: its containers, its node's faults, and ends of containers."""
    causes = find_start_causes(pod, objects, now)
    if _read_phase(pod) == "Pending" and causes and causes[0]["code"] in _NODE_RELATED:
        faults = list(find_node_faults(pod, objects))
        is_advised = any(not is_pointer(remedy) for cause in causes for remedy in cause["remedies"])
        for cause in faults if is_advised else causes if faults else ():
            cause["remedies"] = []
        causes += faults
    if not any(cause["code"] in _ENDING_PROBES for cause in causes):  # which say why containers were restarted
        changed_at = str((read_conditions(pod).get("Ready") or {}).get("lastTransitionTime") or "")
        for cause in find_restart_causes(pod, objects, now):
            # what ended its readiness comes first
            causes.insert(0 if changed_at >= str(cause["at"]) else len(causes), cause)
    return causes


def _describe_unready(
    pod: Json, causes: list[LiveCause], resizes: list[LiveCause], objects: ClusterObjects
) -> LiveState:
    """Return the state of a pod that has not started, fails or is not ready, by the first of its causes."""
    node = pod["spec"]["nodeName"]
    first = causes[0] if causes else None
    code, why = (first["code"], f": {first['text']}") if first else ("", "")
    if code in _FAILING:
        state, headline, actor = "pod-failing", f"On {node}, failing{why}", "user"
    elif resizes and first is resizes[0]:
        state, headline, actor = "pod-resizing", f"Runs on {node} with its old resources{why}", "kubelet"
    elif _read_phase(pod) == "Running":
        state, headline, actor = "pod-not-ready", f"Runs on {node}, not ready{why}", "user"
    else:
        waits = _find_waiting_reason(pod)
        shown = f" ({waits})" if waits and waits not in why else ""
        state, headline = "pod-starting", f"Bound to {node}, not running{shown}{why}"
        actor = "user" if code not in ("", "kubelet-waits") else "kubelet"
    return make_state(state, headline, actor, causes, objects.unread)


def _find_waiting_reason(pod: Json) -> str:
    """Return the reason for which the first container waits, such as ContainerCreating; "" if none is reported."""
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if reason := ((each.get("state") or {}).get("waiting") or {}).get("reason"):
            return str(reason)
    return ""


def _explain_node_name(pod: Json) -> LiveCause:
    node = pod["spec"]["nodeName"]
    text = f"the pod was created with spec.nodeName {node}, so no scheduler decided it"
    return make_cause("created-with-node", text, "metadata.managedFields, status.conditions")


def _explain_static(pod: Json) -> LiveCause:
    node = pod["spec"]["nodeName"]
    text = f"it is a static pod: the kubelet of {node} makes it from a manifest on that node, and no scheduler places"
    text += " it. Deleting it at the API server changes nothing"
    remedy = make_remedy(
        f"change its manifest on {node} (staticPodPath of the kubelet, often /etc/kubernetes/manifests)"
    )
    return make_cause("static-pod", text, "metadata.annotations", remedies=[remedy])
