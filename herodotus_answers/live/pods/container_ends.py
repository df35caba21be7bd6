"""Find how the containers of a pod ended, and what keeps them from ending so again.

Owns: these causes and their remedies, for containers that are started again and for those that are not. Does not own:
probes that make the kubelet end a container (`probe_causes`), ends of whole pods (`pod_ending`). Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import count_event, read_event_time, read_first_time
from herodotus_answers.live.objects import list_restarting_resizes
from herodotus_answers.live.pod_facts import (
    Container,
    Owner,
    clean,
    find_owner,
    format_ago,
    kubectl,
    list_claims,
    list_containers,
    make_cause,
    make_event_cause,
    make_remedy,
    name_event,
    name_source,
    parse_time,
)
from herodotus_answers.live.pods.kubelet_advice import advise
from herodotus_answers.live.pods.probe_causes import describe_handler, explain_probes
from herodotus_answers.live.unit_slips import describe_slip

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
_OUT_OF_MEMORY: Final = "OOMKilled"
_NEVER_RAN: Final = ("StartError", "ContainerCannotRun")  # such a container has no log
# Words of the kubelet and of containerd for an end of which they know nothing, such as at a restart of the node.
_UNKNOWN_ENDS: Final = ("ContainerStatusUnknown", "Unknown")
_FAILED_HOOK: Final = "FailedPostStartHook"
_LOST: Final = 255  # what runtimes report for a container whose end they did not see
_SIGNALS: Final = 128  # exit codes above it mean a signal
# Of Linux, where containers run, whatever the reader's own system has.
_SIGNAL_NAMES: Final = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}
_KILLED: Final = (137, 143)  # exit codes after SIGKILL and SIGTERM, as after a failed probe
_NEAR_EVENT: Final = timedelta(minutes=10)  # an event that ends a container precedes the end by its grace period
_NEAR_OOM: Final = timedelta(minutes=2)
_RECENT: Final = timedelta(hours=1)
_MANY_SANDBOXES: Final = 3  # a restart of the node or of the runtime makes a sandbox anew once
_FULL: Final = "no space left on device"
_MAX_WORDS: Final = 120  # characters of a container's own last words in a remedy


def explain_crash_loop(
    pod: Json, container: Container, events: list[Json], objects: ClusterObjects, source: str, now: datetime
) -> list[LiveCause]:
    """Return why a container ends again and again, the cause to act on first."""
    end = (container.status.get("lastState") or {}).get("terminated") or {}
    ending = f"; it last {_describe_end(pod, container, end, now)}" if end else ""
    text = f"{container.label} ends again and again (CrashLoopBackOff, {container.restarts} restarts){ending}"
    cause = _make_end(pod, container, end, text, source, objects, is_previous=True)
    liveness = [c for c in explain_probes(pod, container, events, objects, now) if c["code"] != "probe-readiness"]
    is_probed = _may_be_killed_for_probe(end)
    cause["code"] = "container-crash-loop" if cause["code"] == "container-exit" else cause["code"]
    by_kubelet: list[LiveCause] = []
    if end.get("reason") != _OUT_OF_MEMORY:
        by_kubelet += _explain_remade_sandbox(pod, events, now)
        by_kubelet += _explain_failed_hook(pod, container, end, events, objects, now)
    by_kubelet += liveness if is_probed else []
    if by_kubelet:
        cause["remedies"] = []  # the kubelet ended it
    return [*by_kubelet, cause, *([] if is_probed else liveness)]


def _may_be_killed_for_probe(end: Json) -> bool:
    """Return whether a container ended as it does when the kubelet ends it after a failed probe."""
    return end.get("reason") != _OUT_OF_MEMORY and end.get("exitCode") in _KILLED


def _find_ending_probe(pod: Json, container: Container, objects: ClusterObjects, now: datetime) -> LiveCause | None:
    """Return the liveness or startup probe whose failures ended the earlier run of a container, or None."""
    end = container.status["lastState"]["terminated"]
    ended, events = parse_time(end.get("finishedAt")), objects.list_events({**pod, "kind": "Pod"})
    for cause in explain_probes(pod, container, events, objects, now) if _may_be_killed_for_probe(end) else ():
        at = parse_time(cause["at"])
        if cause["code"] != "probe-readiness" and ended and at and abs(ended - at) < _NEAR_EVENT:
            return cause
    return None


def _explain_failed_hook(
    pod: Json, container: Container, end: Json, events: list[Json], objects: ClusterObjects, now: datetime
) -> list[LiveCause]:
    """Return the cause that the kubelet ended a container whose postStart hook failed, or [] without such an event."""
    hook = (container.spec.get("lifecycle") or {}).get("postStart") or {}
    ended = parse_time(end.get("finishedAt"))
    for event in reversed(events) if hook and ended else ():
        at, path = parse_time(read_event_time(event)), (event.get("involvedObject") or {}).get("fieldPath") or ""
        is_of_another = path and f"{{{container.name}}}" not in path
        if event.get("reason") != _FAILED_HOOK or is_of_another or at is None or ended is None:
            continue
        if abs(ended - at) < _NEAR_EVENT:
            text = f"the kubelet ends {container.label} because its postStart hook ({describe_handler(hook)}) fails: "
            remedies = advise("start", "PostStartHook", pod, objects, container)
            return [make_event_cause("container-start", text, event, now, remedies=remedies)]
    return []


def _explain_remade_sandbox(pod: Json, events: list[Json], now: datetime) -> list[LiveCause]:
    """Return the cause that the kubelet makes the sandbox of a pod anew again and again, or [].

    It does so when the container runtime no longer has the sandbox, and ends the pod's containers with it.
    """
    changed = [event for event in events if event.get("reason") == "SandboxChanged"]
    at, times = parse_time(read_event_time(changed[-1])) if changed else None, sum(map(count_event, changed))
    if at is None or now - at > _RECENT or times < _MANY_SANDBOXES:
        return []
    began = min(filter(None, (parse_time(read_first_time(event)) for event in changed)), default=at)
    if at - began > times * _RECENT:
        return []  # now and then in days, as after restarts of the node
    node = pod["spec"].get("nodeName")
    text = f"the kubelet of {node} makes the pod's sandbox anew again and again, which ends its containers: "
    advice = (
        f"see in the logs of the kubelet and of the container runtime of {node} why the runtime loses the sandbox;"
        " often the two use different cgroup drivers (SystemdCgroup of containerd, cgroupDriver of the kubelet)"
    )
    return [make_event_cause("sandbox-remade", text, changed[-1], now, remedies=[make_remedy(advice)])]


def explain_end(pod: Json, container: Container, objects: ClusterObjects, source: str, now: datetime) -> LiveCause:
    """Return the cause for a container that has ended and is not started again."""
    end = container.read_state("terminated")
    if end.get("exitCode") == 0 and pod["spec"].get("restartPolicy") in ("Never", "OnFailure"):
        return _explain_completion(pod, container, end, objects, source, now)
    restarts = f", {container.restarts} restarts" if container.restarts else ""
    text = f"{container.label} {_describe_end(pod, container, end, now)}{restarts}"
    return _make_end(pod, container, end, text, source, objects)


def find_exits(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return a cause for each container of a pod that ended with a failure."""
    return [
        explain_end(pod, each, objects, f"status.{each.status_field}[{each.name}]", now)
        for each in list_containers(pod)
        if each.read_state("terminated").get("exitCode")
    ]


def find_restart_causes(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return which containers of a pod that runs were restarted within the last hour, after a failure or a resize."""
    causes = []
    for container in list_containers(pod):
        end = (container.status.get("lastState") or {}).get("terminated") or {}
        ended = parse_time(end.get("finishedAt"))
        if ended is None or now - ended > _RECENT or not container.read_state("running"):
            continue
        if _was_ended_by_resize(pod, container, ended, objects):
            resources = " and ".join(list_restarting_resizes(container.spec))
            text = f"{container.label} was restarted{format_ago(end['finishedAt'], now)} because it was resized: its"
            text += f" resizePolicy is RestartContainer for {resources}"
            causes.append(make_cause("restarted-by-resize", text, "Event Killing", at=end["finishedAt"]))
            continue
        if not end.get("exitCode"):
            continue
        times = f"{container.restarts} times, last" if container.restarts > 1 else "once,"
        text = f"{container.label} was restarted {times} after it {_describe_end(pod, container, end, now)}"
        source = f"status.{container.status_field}[{container.name}].lastState"
        cause = _make_end(pod, container, end, text, source, objects, is_previous=True)
        cause["code"] = "container-restarted"
        if (probe := _find_ending_probe(pod, container, objects, now)) is not None:
            cause["text"], cause["remedies"] = f"{text}; {probe['text']}", probe["remedies"]
        causes.append(cause)
    return causes


def _was_ended_by_resize(pod: Json, container: Container, ended: datetime, objects: ClusterObjects) -> bool:
    """Return whether an event says that the kubelet ended a container because its resize requires a restart."""
    if not list_restarting_resizes(container.spec):
        return False
    message = f"Container {container.name} resize requires restart"
    killed = [e for e in objects.list_events({**pod, "kind": "Pod"}) if str(e.get("message")).startswith(message)]
    at = parse_time(read_event_time(killed[-1])) if killed else None
    return at is not None and abs(ended - at) < _NEAR_EVENT


def _make_end(
    pod: Json,
    container: Container,
    end: Json,
    text: str,
    source: str,
    objects: ClusterObjects,
    *,
    is_previous: bool = False,
) -> LiveCause:
    """Return the cause for an end of a container, with its remedies and its log.

    `is_previous` means that the container was started again since, so that the log is that of an earlier one.
    """
    remedies = _list_remedies(pod, container, end, objects)
    if (killer := _find_system_oom(pod, end, objects)) is not None:
        text += f"; {pod['spec'].get('nodeName')} ran out of memory then, which may have ended it:"
        text += f" {clean(killer.get('message'))} ({name_event(killer)})"
        remedies = [_request_memory(container, find_owner(pod, objects))]
    if lost := _explain_loss(pod, end, objects):
        text += f": {lost}"
        remedies = [] if is_previous else _replace_lost(pod, objects)
    which = ("--previous",) if is_previous else ()
    logs = kubectl(pod, f"logs {pod['metadata']['name']}", "-c", container.name, *which)
    return make_cause(
        "out-of-memory" if end.get("reason") == _OUT_OF_MEMORY else "container-exit",
        text,
        source,
        at=end.get("finishedAt"),
        remedies=remedies,
        inspect="" if end.get("reason") in _NEVER_RAN else logs,
    )


def _explain_loss(pod: Json, end: Json, objects: ClusterObjects) -> str:
    """Return how a container was lost with its node or its runtime; "" if its program may have ended by itself.

    The runtime then reports an exit code that the program never gave, mostly 255.
    """
    node, ended = pod["spec"].get("nodeName"), parse_time(end.get("finishedAt"))
    is_unknown = end.get("reason") in _UNKNOWN_ENDS
    if not is_unknown and end.get("exitCode") != _LOST:
        return ""
    for event in reversed(objects.list_events({"kind": "Node", "metadata": {"name": node}})) if node and ended else ():
        at = parse_time(read_event_time(event))
        if event.get("reason") == "Rebooted" and at is not None and ended is not None and abs(ended - at) < _NEAR_EVENT:
            return f"{node} was restarted then, which ends its containers ({name_event(event)})"
    if not is_unknown:
        return ""
    return f"the container runtime of {node} had lost it, as after a restart of the node; its exit code is not known"


def _replace_lost(pod: Json, objects: ClusterObjects) -> list[Remedy]:
    """Return what makes the program run again after its container was lost and is not started again."""
    node, owner = pod["spec"].get("nodeName"), find_owner(pod, objects)
    why = f"its program need not change; if this comes again, see the logs of the kubelet and the runtime of {node}"
    if owner is None:
        return [make_remedy(f"create the pod anew, which no controller replaces: {why}")]
    text = f"delete this pod, which never runs again; {owner.label} decides about new ones: {why}"
    return [make_remedy(text, kubectl(pod, f"delete pod {pod['metadata']['name']}"))]


def _find_system_oom(pod: Json, end: Json, objects: ClusterObjects) -> Json | None:
    """Return the event that the node's memory ran out when a container was killed without a word, or None."""
    ended, node = parse_time(end.get("finishedAt")), pod["spec"].get("nodeName")
    if end.get("exitCode") != _KILLED[0] or end.get("reason") == _OUT_OF_MEMORY or ended is None or not node:
        return None
    for event in reversed(objects.list_events({"kind": "Node", "metadata": {"name": node}})):
        at = parse_time(read_event_time(event))
        if event.get("reason") == "SystemOOM" and at is not None and abs(ended - at) < _NEAR_OOM:
            return event
    return None


def _describe_end(pod: Json, container: Container, end: Json, now: datetime) -> str:
    """Return how a container ended, such as `ended with exit code 1 (Error) 12m ago: MESSAGE`."""
    reason, message = end.get("reason"), clean(end.get("message"))
    why = f"{reason}{_name_signal(end)}" if reason else ""
    text = f"ended with exit code {end.get('exitCode')}" + (f" ({why})" if why else "")
    if reason == _OUT_OF_MEMORY:
        limit, of_pod = _read_memory_limits(pod, container)
        why = "it reached its memory limit" if limit else "its pod reached the pod's memory limit"
        if not limit and not of_pod:
            why = f"the memory for pods on {pod['spec'].get('nodeName')} ran out; it has no memory limit"
        text = f"was killed because {why} (OOMKilled, exit code {end.get('exitCode')})"
    return f"{text}{format_ago(end.get('finishedAt'), now)}" + (f": {message}" if message else "")


def _name_signal(end: Json) -> str:
    """Return the signal that ended a container, as a clause; "" if none did. Shells and runtimes add 128 to it."""
    number = int(end.get("signal") or 0) or int(end.get("exitCode") or 0) - _SIGNALS
    return f", {_SIGNAL_NAMES[number]}" if number in _SIGNAL_NAMES else ""


def _explain_completion(
    pod: Json, container: Container, end: Json, objects: ClusterObjects, source: str, now: datetime
) -> LiveCause:
    """Return the cause for a container that ended with success, is not started again, and is not the pod's last."""
    mains = [each for each in list_containers(pod) if not each.is_init]
    left = [each.name for each in mains if each.read_state("running")]
    text = f"{container.label} {_describe_end(pod, container, end, now)}, and is not started again"
    remedies: list[Remedy] = []
    if left:
        names = ", ".join(left)
        text += f"; {names} still {'runs' if len(left) == 1 else 'run'}, and the pod ends when all containers have"
        where = name_source(pod, objects)
        advice = f"if {names} only serves {container.name}, make it an init container with restartPolicy Always in"
        remedies = [make_remedy(f"{advice} {where}: the kubelet ends such a sidecar after the last other container")]
    return make_cause("container-completed", text, source, at=end.get("finishedAt"), remedies=remedies)


# --- remedies -------------------------------------------------------------------------------------------------------


def _list_remedies(pod: Json, container: Container, end: Json, objects: ClusterObjects) -> list[Remedy]:
    """Return what keeps a container from ending again as it did."""
    message = clean(end.get("message"))
    if not end or end.get("reason") in _UNKNOWN_ENDS:
        return []
    if end.get("reason") == _OUT_OF_MEMORY:
        return [_advise_on_memory(pod, container, objects)]
    if message and end.get("reason") in _NEVER_RAN:
        return advise("start", message, pod, objects, container)
    if _FULL in message.lower() and (full := _advise_on_full_volume(pod, container, objects)):
        return full
    if known := advise("end", f"exit code {end.get('exitCode')}: {message}", pod, objects, container):
        return known
    words = message if len(message) <= _MAX_WORDS else f"{message[:_MAX_WORDS]}…"
    what = f"what {container.label} says at its end: {words}" if words else f"what the log of {container.label} names"
    return [make_remedy(f"mend {what}")]


def _advise_on_full_volume(pod: Json, container: Container, objects: ClusterObjects) -> list[Remedy]:
    """Return how the claims that a container mounts get more room; [] if it mounts none."""
    mounted = {each.get("name") for each in container.spec.get("volumeMounts") or ()}
    claims = [each for each in list_claims(pod) if each.volume in mounted]
    remedies = []
    for each in claims:
        claim = objects.get("PersistentVolumeClaim", each.name, pod["metadata"]["namespace"]).object or {"metadata": {}}
        size = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
        name = (claim.get("spec") or {}).get("storageClassName")
        storage_class = objects.get("StorageClass", name).object if name else None
        what = f"claim {each.name}{f', now {size},' if size else ''} of volume {each.volume}"
        whether = "if that is what is full" if len(claims) > 1 else "unless it writes elsewhere, such as to its image"
        if storage_class is not None and not storage_class.get("allowVolumeExpansion"):
            text = f"remove data from {what}, or move it to a larger claim: class {name} allows no expansion; {whether}"
        else:
            text = f"enlarge {what} (spec.resources.requests.storage), or remove data from it, {whether}"
        remedies.append(make_remedy(text))
    return remedies


def _advise_on_memory(pod: Json, container: Container, objects: ClusterObjects) -> Remedy:
    limit, of_pod = _read_memory_limits(pod, container)
    owner = find_owner(pod, objects)
    who = f" in {owner.label}" if owner else ""
    if limit:
        now = f"now {limit}{describe_slip('memory', limit)}"
        return make_remedy(f"raise the memory limit of {container.label}, {now},{who} or make it use less memory")
    if of_pod:
        now = f"now {of_pod}{describe_slip('memory', of_pod)}"
        return make_remedy(f"raise the memory limit of the pod, {now},{who} or make it use less memory")
    return _request_memory(container, owner)


def _request_memory(container: Container, owner: Owner | None) -> Remedy:
    """Return the remedy for a container that a node killed for lack of its own memory."""
    who = f" in {owner.label}" if owner else ""
    return make_remedy(
        f"request the memory that {container.label} needs{who}, and set a limit, so that it gets a node with room;"
        f" or make it use less memory"
    )


def _read_memory_limits(pod: Json, container: Container) -> tuple[str, str]:
    """Return the memory limits of a container and of its pod, "" for one that is not set."""
    specs = (container.spec, pod["spec"])
    limits = [((each.get("resources") or {}).get("limits") or {}).get("memory") for each in specs]
    return str(limits[0] or ""), str(limits[1] or "")
