"""Find why a pod ends or has ended: deletion, eviction, preemption, rejection by the kubelet, a lost node, exit codes.

Owns: these states and causes. Does not own: pods that wait or start (`pod_state`, `kubelet_causes`). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.messages import find_remedy
from herodotus_answers.live.node_rules import describe_fault, describe_taint, list_faults, tolerates
from herodotus_answers.live.objects import find_controller, has_ended, read_owner
from herodotus_answers.live.pod_facts import (
    FOREGROUND,
    Container,
    clean,
    find_owner,
    format_ago,
    format_seconds,
    format_since,
    is_true,
    kubectl,
    list_containers,
    make_cause,
    make_event_cause,
    make_remedy,
    name_event,
    name_source,
    parse_time,
    quote_patch,
    read_conditions,
    read_reporter,
)
from herodotus_answers.live.pods.container_ends import find_exits
from herodotus_answers.live.pods.kubelet_advice import advise
from herodotus_answers.live.pods.probe_causes import describe_handler
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
# Events of a kubelet that cannot end a pod: its containers, its sandbox with the network, its volumes.
_KILL_FAILURES: Final = ("FailedKillPod", "FailedUnMount", "FailedUnmapDevice", "ExceededGracePeriod")
# By the reporter of an event of a disruption: what keeps it from ending pods like this one, for their template.
_SPARED_BY: Final = {
    "karpenter": 'annotate the pods with karpenter.sh/do-not-disrupt: "true"',
    "cluster-autoscaler": 'annotate the pods with cluster-autoscaler.kubernetes.io/safe-to-evict: "false"',
    "vpa-updater": "set updatePolicy.updateMode Initial in the VerticalPodAutoscaler that selects the pods",
}
# Sources of volumes that the kubelet makes and removes alone, with nothing outside the node to wait for.
_LOCAL_VOLUMES: Final = {"configMap", "secret", "projected", "downwardAPI", "emptyDir", "hostPath"}
_OF_DEVICES: Final = re.compile(r"(?:unregistered|healthy) devices?|devices unavailable|device plugin")
_JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
_SHUT_DOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
_CLEANUP: Final = timedelta(minutes=1)  # a kubelet unmounts volumes within seconds
_BEFORE: Final = timedelta(minutes=5)  # who disrupts a pod may report it before the API server has the condition
_CORDON: Final = "node.kubernetes.io/unschedulable"
_UNREACHABLE: Final = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")


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
    for about, where in ((_event_subject(pod), ""), (_node_subject(node), f"node {node}: ")):
        event = _find_last_event(about, objects) if about else None
        began, reported = parse_time(condition.get("lastTransitionTime")), parse_time(read_event_time(event or {}))
        if began is not None and reported is not None and reported < began - _BEFORE:
            continue
        if event is not None and clean(event.get("message")) not in ("", message):
            text += f"; {where}{clean(event['message'])} ({name_event(event)}{format_ago(read_event_time(event), now)})"
    if code != "preempted-by-scheduler" and (taints := _list_disrupting_taints(pod, objects)):
        text += f"; node {node} has taint {taints}"
    return [make_cause(code, text, "status.conditions[DisruptionTarget]", at=condition.get("lastTransitionTime"))]


def find_termination_causes(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return what keeps a pod that is being deleted from being gone, the one that needs somebody to act first."""
    meta, name = pod["metadata"], pod["metadata"]["name"]
    over = now - (parse_time(meta["deletionTimestamp"]) or now)
    node = pod["spec"].get("nodeName")
    needs_kubelet = not has_ended(pod) or bool(meta.get("deletionGracePeriodSeconds"))  # to confirm its end
    status = find_node_problem(pod, objects, now) if node and needs_kubelet else None
    causes: list[LiveCause] = []
    if status is not None:
        force = make_remedy(
            f"only if {node} is off for good: remove the pod from the API server by force",
            kubectl(pod, f"delete pod {name}", "--force", "--grace-period=0"),
        )
        repair = [make_remedy(f"repair {node} or start its kubelet, which then ends the containers")]
        if release := _release(node, objects):
            repair = [make_remedy(f"start {node} again: its kubelet then ends the pod"), *release]
        elif _is_reporting(node, objects):
            repair = _repair_node(node, objects)
        status["remedies"] = [force] if status["code"] == "node-not-found" else [*repair, force]
        causes.append(status)
    failures = _find_kill_failures(pod, objects, now)
    causes += [*failures, *_explain_finalizers(pod, objects)]
    if _has_running_container(pod) and status is None and not failures:
        causes += _find_grace(pod, over, objects, now)
    if node and needs_kubelet and not causes and _have_containers_ended(pod):
        causes.append(_explain_cleanup(pod, over))
    return causes


def _have_containers_ended(pod: Json) -> bool:
    """Return whether the kubelet has reported an end of each container that it reported at all."""
    reported = [each for each in list_containers(pod) if each.status]
    return bool(reported) and all(each.read_state("terminated") for each in reported)


def _explain_cleanup(pod: Json, since: timedelta) -> LiveCause:
    """Return the cause that a kubelet has ended a pod's containers and not yet removed what they used.

    It removes the pod from the API server once the volumes are unmounted and the devices of claims released, and
    reports a failure of that in its log alone.
    """
    node, spec = pod["spec"]["nodeName"], pod["spec"]
    mounted = [_describe_mounted(each) for each in spec.get("volumes") or () if not _LOCAL_VOLUMES & set(each)]
    devices = [f"the devices of claim {each['name']}" for each in spec.get("resourceClaims") or ()]
    listed = ", ".join([*mounted, *devices]) or "its volumes and control group"
    text = f"its containers have ended, and the kubelet of {node} has not removed the pod: it releases {listed} first"
    if since < _CLEANUP:
        return make_cause("kubelet-cleanup", text, "status.containerStatuses, metadata")
    advice = f"see in the log of the kubelet of {node} what it cannot release"
    servers = [str(each["nfs"]["server"]) for each in spec.get("volumes") or () if each.get("nfs")]
    remedies = [make_remedy(advice)]
    if servers:
        what = f"make the NFS server {' and '.join(servers)} answer, without which {node} cannot unmount the volume"
        remedies.insert(0, make_remedy(what))
    return make_cause("kubelet-cleanup", text, "status.containerStatuses, metadata", remedies=remedies)


def _describe_mounted(volume: Json) -> str:
    """Return a volume of a pod, with its claim or server, for a sentence."""
    claim, nfs = volume.get("persistentVolumeClaim") or {}, volume.get("nfs") or {}
    more = f" of claim {claim['claimName']}" if claim else f" of NFS server {nfs['server']}" if nfs else ""
    return f"volume {volume['name']}{more}"


def _find_kill_failures(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return what the kubelet reports while it cannot end the containers or remove the sandbox: the last event."""
    event = _find_last_event(_event_subject(pod), objects, _KILL_FAILURES)
    deleted, reported = parse_time(pod["metadata"]["deletionTimestamp"]), parse_time(read_event_time(event or {}))
    grace = timedelta(seconds=int(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
    if event is None or (deleted and reported and reported < deleted - grace - _BEFORE):
        return []
    message, node = str(event.get("message") or ""), pod["spec"].get("nodeName")
    remedies = advise("end-of-pod", message, pod, objects)
    text = f"the kubelet of {node} cannot end it: "
    return [make_event_cause("kill-failed", text, event, now, remedies=remedies)]


def _explain_finalizers(pod: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield a cause for each finalizer of a pod. One that its owner removes is not to be removed by hand."""
    meta, name = pod["metadata"], pod["metadata"]["name"]
    job = next((each for each in meta.get("ownerReferences") or () if each.get("kind") == "Job"), None)
    for position, finalizer in enumerate(meta.get("finalizers") or ()):
        text, source = f"finalizer {finalizer} keeps the pod until its controller removes it", "metadata.finalizers"
        if finalizer == FOREGROUND:
            text = f"finalizer {finalizer} keeps the pod until the garbage collector has deleted what it owns"
            what = "see which objects have the pod in ownerReferences with blockOwnerDeletion, and what keeps those"
            yield make_cause("finalizer", text, source, remedies=[make_remedy(what)])
            continue
        if finalizer == _JOB_TRACKING and job and not objects.is_absent("Job", job["name"], meta["namespace"]):
            text = f"finalizer {finalizer} keeps the pod until Job/{job['name']} has counted its end"
            remedy = make_remedy(f"see why kube-controller-manager does not count the pod for Job/{job['name']}")
            yield make_cause("finalizer", text, source, remedies=[remedy] if has_ended(pod) else [])
            continue
        patch = [
            {"op": "test", "path": f"/metadata/finalizers/{position}", "value": finalizer},
            {"op": "remove", "path": f"/metadata/finalizers/{position}"},
        ]
        command = kubectl(pod, f"patch pod {name}", "--type=json", "-p", quote_patch(patch))
        remedy = make_remedy(
            f"let the controller of finalizer {finalizer} finish; only if it is gone, remove the finalizer, which skips"
            " its cleanup",
            command,
        )
        yield make_cause("finalizer", text, source, remedies=[remedy])


def describe_termination(pod: Json, now: datetime) -> str:
    """Return since when a pod is terminating, and how long it has or had, such as `for 5m (grace period 30s)`."""
    meta = pod["metadata"]
    ends, grace = parse_time(meta["deletionTimestamp"]), meta.get("deletionGracePeriodSeconds")
    if ends is None:
        return ""
    if grace is None:
        return format_since(meta["deletionTimestamp"], now)
    since = (now - ends).total_seconds() + int(grace)
    left = -(now - ends).total_seconds()
    period = f"{format_seconds(left)} of {grace}s left" if left > 0 else f"of {grace}s is over"
    return f" for {format_seconds(since)} (grace period {period})" if int(grace) else f" for {format_seconds(since)}"


def _find_grace(pod: Json, over: timedelta, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return the cause for containers of a pod being deleted that have not ended."""
    node = pod["spec"].get("nodeName")
    running = [each for each in list_containers(pod) if each.read_state("running")]
    if _have_containers_ended(pod):
        return []
    names = ", ".join(each.name for each in running) or "the containers"
    if over.total_seconds() < 0:
        text = f"{names} may use the rest of the grace period, {format_seconds(-over.total_seconds())}"
        if hooks := [each for each in running if (each.spec.get("lifecycle") or {}).get("preStop")]:
            return [_explain_hooks(pod, hooks, objects, format_seconds(-over.total_seconds()))]
        return [make_cause("grace-period", text, "metadata.deletionTimestamp")]
    if not running and pod["metadata"].get("finalizers"):
        return []
    text = f"the grace period ended{format_ago(pod['metadata']['deletionTimestamp'], now)}, and the kubelet of {node}"
    text += f" has not reported that {names} ended"
    what = f"see in the logs of the kubelet and of the container runtime of {node} why they do not end"
    remedies = [make_remedy(what)] if over > _CLEANUP else []
    return [make_cause("grace-period-exceeded", text, "status, metadata", remedies=remedies)]


def _explain_hooks(pod: Json, hooks: list[Container], objects: ClusterObjects, left: str) -> LiveCause:
    """Return the cause for containers with a preStop hook, which the kubelet lets end before it ends the program."""
    hook, program = ("hook", "program") if len(hooks) == 1 else ("hooks", "programs")
    named = ", ".join(f"{each.label} ({describe_handler(each.spec['lifecycle']['preStop'])})" for each in hooks)
    text = f"the preStop {hook} of {named} and then the {program} may use the rest of the grace period"
    what = f"let the preStop {hook} end sooner, or lower terminationGracePeriodSeconds, in"
    remedy = make_remedy(f"{what} {name_source(pod, objects)}; this pod ends after {left} at the latest")
    source = "metadata.deletionTimestamp, spec.containers[].lifecycle"
    return make_cause("grace-period", text, source, remedies=[remedy])


def _has_running_container(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Running", "Pending") and bool(pod["spec"].get("nodeName"))


# --- nodes ----------------------------------------------------------------------------------------------------------


def find_node_problem(pod: Json, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return the cause if the pod's node does not exist or is not ready; None if it is ready or cannot be read."""
    name = pod["spec"]["nodeName"]
    lookup = objects.get("Node", name)
    if lookup.is_absent:
        text = f"node {name} does not exist: it was removed, or spec.nodeName is wrong"
        return make_cause("node-not-found", text, "Node NotFound", of=f"Node/{name}")
    if lookup.object is None:
        return None
    ready = read_conditions(lookup.object).get("Ready")
    if ready is None or ready.get("status") == "True":
        return None
    since = ready.get("lastTransitionTime")
    message = clean(ready.get("message") or ready.get("reason"))
    state = "unreachable" if ready.get("status") == "Unknown" else "not ready"
    text = f"node {name} is {state} (Ready={ready.get('status')}){format_since(since, now)}"
    text += f": {message}" if message else ""
    if _is_shut_down(lookup.object):
        text += f"; its cloud provider reports that it is shut down (taint {_SHUT_DOWN})"
    return make_cause("node-not-ready", text, "Node status.conditions[Ready]", of=f"Node/{name}", at=since)


def _is_reporting(node: str, objects: ClusterObjects) -> bool:
    """Return whether the kubelet of a node reports, so that it runs, whether the node is ready or not."""
    found = objects.get("Node", node).object
    if found is None or _is_shut_down(found):
        return False
    return (read_conditions(found).get("Ready") or {}).get("status") in ("True", "False")


def _repair_node(node: str, objects: ClusterObjects) -> list[Remedy]:
    """Return what makes a node ready: what its kubelet reports, or that the kubelet reports again."""
    if not _is_reporting(node, objects):
        return [make_remedy(f"start the kubelet of {node} again, or repair the node")]
    ready = read_conditions(objects.get("Node", node).object or {}).get("Ready") or {}
    message = clean(ready.get("message") or ready.get("reason"))
    return [make_remedy(find_remedy("node", message, node=node, owner="the pod"))]


def _is_shut_down(node: Json) -> bool:
    """Return whether the cloud provider of a node says that it does not run, so that nothing on it does."""
    return any(taint.get("key") == _SHUT_DOWN for taint in (node.get("spec") or {}).get("taints") or ())


def _release(node: str, objects: ClusterObjects) -> list[Remedy]:
    """Return how the pods and volumes of a node that is shut down are released; [] if it may run."""
    if not _is_shut_down(objects.get("Node", node).object or {}):
        return []
    text = f"release the pods and volumes of {node}, which is shut down, and remove the taint once it runs again"
    return [make_remedy(text, f"kubectl taint nodes {node} {_OUT_OF_SERVICE}")]


def find_node_faults(pod: Json, objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield a cause for each fault that an agent on the pod's node reports, though its kubelet is ready."""
    name = pod["spec"]["nodeName"]
    for condition in list_faults(objects.get("Node", name).object or {}):
        source, at = f"Node status.conditions[{condition['type']}]", condition.get("lastTransitionTime")
        remedy = make_remedy(f"repair or replace {name}, and keep new pods off it until then", f"kubectl cordon {name}")
        text = f"node {name} reports {describe_fault(condition)}"
        yield make_cause("node-fault", text, source, of=f"Node/{name}", at=at, remedies=[remedy])


def explain_closed_node(pod: Json, node: str, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return the cause that the node for which a pod is nominated takes no pods now; None if it may take it.

    A pod that ends there makes no room that the pod could use.
    """
    problem = find_node_problem({"spec": {"nodeName": node}}, objects, now)
    found = objects.get("Node", node).object
    if found is None:
        return None
    tolerations, spec = pod["spec"].get("tolerations") or (), found.get("spec") or {}
    taints = [each for each in spec.get("taints") or () if each.get("effect") in ("NoSchedule", "NoExecute")]
    closing = [describe_taint(each) for each in taints if each["key"] != _CORDON and not tolerates(tolerations, each)]
    is_cordoned = spec.get("unschedulable") and not tolerates(tolerations, {"key": _CORDON, "effect": "NoSchedule"})
    if problem is not None:
        why, remedies = problem["text"], _repair_node(node, objects)
    elif is_cordoned:
        why, remedies = f"{node} is cordoned", [make_remedy(f"uncordon {node}", f"kubectl uncordon {node}")]
    elif closing:
        why = f"{node} has the taint {closing[0]}, which the pod does not tolerate"
        remedies = [make_remedy(f"remove the taint from {node} when it may take pods again, or wait for another node")]
    else:
        return None
    text = f"it is nominated for {node}, but {why}: pods that end there make no room for it"
    return make_cause(
        "nominated-node-closed", text, "Node spec, status.nominatedNodeName", of=f"Node/{node}", remedies=remedies
    )


def describe_eviction_from(pod: Json, objects: ClusterObjects, now: datetime) -> str:
    """Return when the pod is evicted from its node that is not ready, in a sentence without a full stop."""
    node = objects.get("Node", pod["spec"]["nodeName"]).object or {}
    taints = [
        t
        for t in (node.get("spec") or {}).get("taints") or ()
        if t.get("key") in _UNREACHABLE and t.get("effect") == "NoExecute"
    ]
    if not taints:
        return "its node has no NoExecute taint, so the pod is not evicted as long as that is so"
    taint = taints[0]
    tolerating = [t for t in pod["spec"].get("tolerations") or () if tolerates([t], taint)]
    if not tolerating:
        return f"it does not tolerate {taint['key']}:NoExecute and is evicted at once"
    limits = [t["tolerationSeconds"] for t in tolerating if t.get("tolerationSeconds") is not None]
    if not limits:
        return f"it tolerates {taint['key']}:NoExecute without a limit and is never evicted for it"
    added, limit = parse_time(taint.get("timeAdded")), max(0, min(limits))
    if added is None:
        return f"it will be evicted {limit}s after its node got the taint {taint['key']}:NoExecute"
    left = (added + timedelta(seconds=limit) - now).total_seconds()
    when = f"in {format_seconds(left)}" if left > 0 else f"since {format_seconds(-left)}"
    word = "will be evicted" if left > 0 else "should have been evicted"
    return f"it {word} {when} (tolerates {taint['key']}:NoExecute for {limit}s)"


def list_node_repairs(pod: Json, objects: ClusterObjects, cause: LiveCause) -> list[Remedy]:
    """Return what to do about a pod whose node is gone or does not respond."""
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    owner = find_owner(pod, objects)
    follows = f"; {owner.label} then makes a new one" if owner else "; nothing makes a new one"
    command = kubectl(pod, f"delete pod {name}", "--force", "--grace-period=0")
    if cause["code"] == "node-not-found":
        return [make_remedy(f"delete the pod{follows}", command)]
    if _is_reporting(node, objects):
        delete = make_remedy(f"delete the pod{follows}", kubectl(pod, f"delete pod {name}"))
        return [*_repair_node(node, objects), delete]
    return [
        *_repair_node(node, objects),
        *_release(node, objects),
        make_remedy(f"only if {node} is off for good: delete the pod by force{follows}", command),
    ]


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


# --- pods that have ended -------------------------------------------------------------------------------------------


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
    event = _find_last_event(_event_subject(pod), objects, (reason,))
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


def advise_on_disruption(pod: Json, objects: ClusterObjects) -> list[Remedy]:
    """Return what keeps pods like this one, which somebody ended, from the same end, or makes the end harmless."""
    event = _find_last_event(_event_subject(pod), objects) or {}
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


# --- events ---------------------------------------------------------------------------------------------------------


def _event_subject(pod: Json) -> Json:
    return {**pod, "kind": "Pod"}


def _node_subject(node: str | None) -> Json | None:
    """Return what events about a node are selected by: without a UID, because the kubelet uses the name as UID."""
    return {"kind": "Node", "metadata": {"name": node}} if node else None


def _find_last_event(subject: Json, objects: ClusterObjects, reasons: tuple[str, ...] = ()) -> Json | None:
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
