"""Find what keeps a pod that is being deleted: its node, the kubelet, finalizers, the grace period, volumes.

Owns: these causes. Does not own: who deleted it (`disruptions`), pods that have ended (`pod_ending`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.objects import has_ended
from herodotus_answers.live.pod_facts import (
    FOREGROUND,
    Container,
    format_ago,
    format_seconds,
    format_since,
    kubectl,
    list_containers,
    make_cause,
    make_event_cause,
    make_remedy,
    name_source,
    parse_time,
    quote_patch,
)
from herodotus_answers.live.pods.disruptions import BEFORE_CONDITION, build_event_subject, find_last_event
from herodotus_answers.live.pods.kubelet_advice import advise
from herodotus_answers.live.pods.node_causes import find_node_problem, is_reporting, release_node, repair_node
from herodotus_answers.live.pods.probe_causes import describe_handler

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause

Json = dict[str, Any]
# Events of a kubelet that cannot end a pod: its containers, its sandbox with the network, its volumes.
_KILL_FAILURES: Final = ("FailedKillPod", "FailedUnMount", "FailedUnmapDevice", "ExceededGracePeriod")
# Sources of volumes that the kubelet makes and removes alone, with nothing outside the node to wait for.
_LOCAL_VOLUMES: Final = {"configMap", "secret", "projected", "downwardAPI", "emptyDir", "hostPath"}
_JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
_CLEANUP: Final = timedelta(minutes=1)  # a kubelet unmounts volumes within seconds


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
        if release := release_node(node, objects):
            repair = [make_remedy(f"start {node} again: its kubelet then ends the pod"), *release]
        elif is_reporting(node, objects):
            repair = repair_node(node, objects)
        status["remedies"] = [force] if status["code"] == "node-not-found" else [*repair, force]
        causes.append(status)
    failures = _find_kill_failures(pod, objects, now)
    causes += [*failures, *_explain_finalizers(pod, objects)]
    if _may_run_containers(pod) and status is None and not failures:
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
    event = find_last_event(build_event_subject(pod), objects, _KILL_FAILURES)
    deleted, reported = parse_time(pod["metadata"]["deletionTimestamp"]), parse_time(read_event_time(event or {}))
    grace = timedelta(seconds=int(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
    if event is None or (deleted and reported and reported < deleted - grace - BEFORE_CONDITION):
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


def _may_run_containers(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Running", "Pending") and bool(pod["spec"].get("nodeName"))
