"""Find why the containers of a pod with a node do not run, are not ready, or do not have their new resources.

What the kubelet reports comes first: container states, conditions, events. Objects that the pod names and that do not
exist come before what the kubelet says of them.

Owns: these causes and their remedies. Does not own: pods without a node (`pod_state`), ended ones (`pod_ending`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.cluster_objects import count_event, read_event_time
from herodotus_answers.pod_facts import (
    Container,
    clean,
    find_missing_objects,
    find_owner,
    format_ago,
    format_since,
    kubectl,
    list_containers,
    make_cause,
    make_remedy,
    patch_template,
    quote_patch,
    read_conditions,
)

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects
    from herodotus_answers.live import LiveCause, Remedy

Json = dict[str, Any]
_CREATING: Final = ("ContainerCreating", "PodInitializing", "")
_PULL: Final = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
_INVALID_IMAGE: Final = ("InvalidImageName", "ImageInspectError")
_START: Final = ("CreateContainerError", "RunContainerError", "StartError", "PreCreateHookError", "PostStartHookError")
# Event reasons of the kubelet and of the attach/detach controller, and the code of the cause.
_EVENTS: Final = {
    "FailedCreatePodSandBox": "sandbox-failed",
    "NetworkNotReady": "sandbox-failed",
    "FailedMount": "volume-failed",
    "FailedMapVolume": "volume-failed",
    "FailedAttachVolume": "volume-failed",
    "FailedPrepareDynamicResources": "devices-failed",
}
_PROBES: Final = {
    "Startup probe": "probe-startup",
    "Readiness probe": "probe-readiness",
    "Liveness probe": "probe-liveness",
}
_PROBE_FIELDS: Final = {
    "probe-startup": "startupProbe",
    "probe-readiness": "readinessProbe",
    "probe-liveness": "livenessProbe",
}
_NOT_PROBLEMS: Final = ("Unhealthy", "BackOff", "Failed", "FailedScheduling", "Evicted", "Preempted", "Preempting")


def find_start_causes(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return why a pod with a node does not run or is not ready, the cause to act on first.

    The pod has neither ended nor is it being deleted, and its node is ready, as far as is known.
    """
    events = objects.list_events({**pod, "kind": "Pod"})
    causes = [*_find_missing(pod, events, objects), *_find_unbound_claims(pod, objects, now)]
    containers = list_containers(pod)
    waiting = next((each for each in containers if each.is_init and not _has_passed(each)), None)
    if waiting is not None:
        return [*causes, *_explain_container(pod, waiting, events, objects, now)]
    mains = [each for each in containers if not each.is_init]
    for container in sorted(mains, key=_rank):
        if not container.status.get("ready"):
            causes += _explain_container(pod, container, events, objects, now)
    causes = list({(cause["code"], cause["text"]): cause for cause in causes}.values())
    return [*causes, *_find_closed_gates(pod)]


def find_resize_causes(pod: Json, now: datetime) -> list[LiveCause]:
    """Return why the resources of a pod's containers are not those that its spec has; [] if they are."""
    conditions = read_conditions(pod)
    pending, running = conditions.get("PodResizePending") or {}, conditions.get("PodResizeInProgress") or {}
    condition = pending if pending.get("status") == "True" else running
    if condition.get("status") != "True":
        return []
    code = {"Deferred": "resize-deferred", "Infeasible": "resize-infeasible"}.get(
        str(condition.get("reason")), "resize-in-progress"
    )
    wanted, given = _compare_resources(pod)
    amounts = f"wants {wanted}, has {given}" if wanted else "wants other resources than it has"
    word = {"resize-deferred": "deferred", "resize-infeasible": "infeasible"}.get(code, "in progress")
    message = clean(condition.get("message"))
    since = format_since(condition.get("lastTransitionTime"), now)
    text = f"its resize is {word}{since}: it {amounts}" + (f" ({message})" if message else "")
    remedies = [_give_up_resize(pod)] if wanted and code != "resize-in-progress" else []
    source = f"status.conditions[{condition['type']}]"
    return [make_cause(code, text, source, at=condition.get("lastTransitionTime"), remedies=remedies)]


def is_resize_pending(pod: Json) -> bool:
    """Return whether the kubelet has deferred or refused a change of the pod's resources."""
    return (read_conditions(pod).get("PodResizePending") or {}).get("status") == "True"


# --- objects that the pod needs -------------------------------------------------------------------------------------


def _find_missing(pod: Json, events: list[Json], objects: ClusterObjects) -> Iterator[LiveCause]:
    """Yield a cause for each Secret, ConfigMap and claim that the pod needs and that does not exist.

    Secrets and ConfigMaps are only read if nothing else explains that a container does not start.
    """
    namespace, containers = pod["metadata"]["namespace"], list_containers(pod)
    if all(each.read_state("running") or each.read_state("terminated") for each in containers):
        return
    kinds = [("PersistentVolumeClaim", "claim-missing", _list_claims(pod))]
    reasons = {each.read_state("waiting").get("reason") or "" for each in containers}
    warnings = {event.get("reason") for event in events if event.get("type") == "Warning"}
    has_other_cause = reasons.isdisjoint((*_CREATING, "CreateContainerConfigError")) or warnings - {
        "FailedMount",
        "Failed",
    }
    if "FailedMount" in warnings or "CreateContainerConfigError" in reasons or not has_other_cause:
        kinds += [
            ("Secret", "secret-missing", _list_references(pod, "secret")),
            ("ConfigMap", "config-map-missing", _list_references(pod, "configMap")),
        ]
    for kind, code, names in kinds:
        for name in find_missing_objects(kind, names, namespace, objects):
            remedy = make_remedy(
                f"create the {kind} {name} in namespace {namespace}; the kubelet tries again by itself"
            )
            yield make_cause(code, f"{kind} {name} does not exist", names[name], of=f"{kind}/{name}", remedies=[remedy])


def _list_references(pod: Json, kind: str) -> dict[str, str]:
    """Return the names of the Secrets or ConfigMaps that the pod cannot do without, and the fields that name them.

    `kind` is `secret` or `configMap`.
    """
    named = "secretName" if kind == "secret" else "name"
    names: dict[str, str] = {}
    for volume in pod["spec"].get("volumes") or ():
        sources = [(volume.get(kind) or {}, named)]
        sources += [(each.get(kind) or {}, "name") for each in (volume.get("projected") or {}).get("sources") or ()]
        for source, key in sources:
            if source.get(key) and not source.get("optional"):
                names.setdefault(source[key], f"spec.volumes[{volume['name']}]")
    for container in list_containers(pod):
        references = [(each.get(f"{kind}Ref") or {}, "envFrom") for each in container.spec.get("envFrom") or ()]
        references += [
            ((each.get("valueFrom") or {}).get(f"{kind}KeyRef") or {}, f"env[{each.get('name')}]")
            for each in container.spec.get("env") or ()
        ]
        for reference, field in references:
            if reference.get("name") and not reference.get("optional"):
                names.setdefault(reference["name"], f"{container.label}: {field}")
    return names


def _list_claims(pod: Json) -> dict[str, str]:
    """Return the names of the pod's claims, and the fields that name them."""
    names = {}
    for volume in pod["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral"):
            claim = f"{pod['metadata']['name']}-{volume['name']}"
        if claim:
            names[claim] = f"spec.volumes[{volume['name']}]"
    return names


def _find_unbound_claims(pod: Json, objects: ClusterObjects, now: datetime) -> Iterator[LiveCause]:
    """Yield a cause for each claim of the pod that has no volume.

    A scheduler binds all claims before it binds the pod. So a pod with a node and a claim that waits for its first
    consumer, without a node chosen for it, was created with spec.nodeName.
    """
    namespace, node = pod["metadata"]["namespace"], pod["spec"].get("nodeName")
    for name in _list_claims(pod):
        claim = objects.get("PersistentVolumeClaim", name, namespace).object
        if claim is None or (claim.get("status") or {}).get("phase") == "Bound":
            continue
        phase = (claim.get("status") or {}).get("phase") or "Pending"
        class_name = claim["spec"].get("storageClassName")
        storage = objects.get("StorageClass", class_name).object if class_name else None
        chosen = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
        waits = storage is not None and storage.get("volumeBindingMode") == "WaitForFirstConsumer" and not chosen
        events = objects.list_events({**claim, "kind": "PersistentVolumeClaim"})
        said = f" ({events[-1].get('reason')}: {clean(events[-1].get('message'))})" if events else ""
        source, of = "PersistentVolumeClaim status.phase", f"PersistentVolumeClaim/{name}"
        if not waits:
            text = f"claim {name} is {phase} and has no volume{said}"
            yield make_cause("claim-not-bound", text, source, of=of, at=claim["metadata"].get("creationTimestamp"))
            continue
        text = (
            f"claim {name} of StorageClass {class_name} waits for its first consumer (WaitForFirstConsumer): a"
            " scheduler would have chosen the node for its volume, but the pod was created with spec.nodeName"
            f" {node}, so no scheduler decided it and the claim is never bound"
        )
        remedies = [_replace_node_name(pod, objects)]
        yield make_cause(
            "created-with-node",
            text,
            "spec.nodeName, PersistentVolumeClaim status.phase",
            of=of,
            at=claim["metadata"].get("creationTimestamp"),
            remedies=remedies,
        )


def _replace_node_name(pod: Json, objects: ClusterObjects) -> Remedy:
    """Return the remedy that leaves the choice of the node to a scheduler, restricted to the pod's node."""
    node = pod["spec"]["nodeName"]
    labels = (objects.get("Node", node).object or {"metadata": {}})["metadata"].get("labels") or {}
    selector = {"kubernetes.io/hostname": labels.get("kubernetes.io/hostname", node)}
    instead = f"nodeSelector kubernetes.io/hostname: {selector['kubernetes.io/hostname']}"
    owner = find_owner(pod, objects)
    if owner is not None and owner.has_template:
        command = patch_template(pod, owner, {"nodeName": None, "nodeSelector": selector})
        return make_remedy(f"replace nodeName by {instead} in {owner.label}; it replaces its pods", command)
    who = f"the pod template of {owner.label}" if owner else "the manifest"
    return make_remedy(
        f"remove nodeName from {who}, use {instead} in its place, and create the pod anew: nodeName of an existing pod"
        " cannot be changed"
    )


# --- one container --------------------------------------------------------------------------------------------------


def _has_passed(container: Container) -> bool:
    """Return whether the containers after an init container may start."""
    if container.is_sidecar:
        return bool(container.status.get("started"))
    end = container.read_state("terminated")
    return bool(end) and end.get("exitCode") == 0


def _rank(container: Container) -> int:
    """Return 0 for a container that waits for a reason of its own, before those that only wait to be created."""
    reason = container.read_state("waiting").get("reason") or ""
    return 0 if container.read_state("waiting") and reason not in _CREATING else 1


def _explain_container(
    pod: Json, container: Container, events: list[Json], objects: ClusterObjects, now: datetime
) -> list[LiveCause]:
    """Return why a container does not run or is not ready."""
    waiting, running = container.read_state("waiting"), container.read_state("running")
    reason = str(waiting.get("reason") or "")
    field = "initContainerStatuses" if container.is_init else "containerStatuses"
    source = f"status.{field}[{container.name}]"
    message = clean(waiting.get("message"))
    image = str(container.spec.get("image") or "")
    if running:
        return _explain_unready(pod, container, events, now, source)
    if container.read_state("terminated"):
        return [_explain_end(pod, container, container.last_end, objects, source, now)]
    if reason in _CREATING:
        return _explain_creation(pod, events, now, bool(container.status))
    if reason in _PULL:
        return _explain_pull(pod, container, events, objects, source, now)
    if reason == "ErrImageNeverPull":
        node = pod["spec"].get("nodeName")
        text = f"{container.label}: image {image} is not on {node}, and imagePullPolicy Never forbids to pull it"
        remedies = [
            make_remedy(f"load image {image} on node {node}"),
            *_change_container(pod, container, {"imagePullPolicy": "IfNotPresent"}, "let the kubelet pull it", objects),
        ]
        return [make_cause("image-never-pull", text, source, remedies=remedies)]
    if reason in _INVALID_IMAGE:
        return [make_cause("image-invalid", f"{container.label}: image {image}: {message or reason}", source)]
    if reason == "CrashLoopBackOff":
        return _explain_crash_loop(pod, container, events, objects, source, now)
    code = "container-config" if reason == "CreateContainerConfigError" else "container-waiting"
    code = "container-start" if reason in _START else code
    return [make_cause(code, f"{container.label}: {reason}{': ' + message if message else ''}", source)]


def _explain_creation(pod: Json, events: list[Json], now: datetime, is_reported: bool) -> list[LiveCause]:
    """Return why the kubelet has not created a container: what its latest warnings say, of each kind the last."""
    latest: dict[str, Json] = {}
    for event in events:
        if event.get("type") == "Warning" and event.get("reason") not in _NOT_PROBLEMS:
            latest[_EVENTS.get(str(event.get("reason")), "kubelet-event")] = event
    if not latest:
        since = (read_conditions(pod).get("PodScheduled") or {}).get("lastTransitionTime")
        what = "is creating the containers" if is_reported else "has not reported on the pod"
        text = (
            f"the kubelet of {pod['spec'].get('nodeName')} {what}{format_since(since, now)}; no event reports an error"
        )
        return [make_cause("kubelet-waits", text, "status.containerStatuses, events", at=since)]
    words = {
        "sandbox-failed": "the pod's sandbox (its network) cannot be set up: ",
        "volume-failed": "a volume cannot be attached or mounted: ",
        "devices-failed": "devices of a resource claim cannot be prepared: ",
    }
    order = sorted(latest.items(), key=lambda item: item[0] == "kubelet-event")
    return [_make_event_cause(code, words.get(code, ""), event, now) for code, event in order]


def _make_event_cause(code: str, before: str, event: Json, now: datetime, **more: Any) -> LiveCause:
    """Return the cause that an event reports, with how often and when last."""
    times, at = count_event(event), read_event_time(event)
    often = f"{times} times, last" if times > 1 else ""
    when = " ".join(filter(None, (often, format_ago(at, now).strip())))
    text = f"{before}{clean(event.get('message'))}" + (f" ({when})" if when else "")
    component = event.get("reportingComponent") or (event.get("source") or {}).get("component")
    source = f"Event {event.get('reason')}" + (f" of {component}" if component else "")
    return make_cause(code, text, source, at=at, **more)


def _explain_pull(
    pod: Json, container: Container, events: list[Json], objects: ClusterObjects, source: str, now: datetime
) -> list[LiveCause]:
    image, node = container.spec.get("image"), pod["spec"].get("nodeName")
    waiting = container.read_state("waiting")
    failed = [e for e in events if e.get("reason") == "Failed" and e.get("type") == "Warning"]
    # BackOff repeats the image's name; the event or the message of ErrImagePull has the registry's words
    said = next((clean(e.get("message")) for e in reversed(failed) if str(image) in str(e.get("message"))), "")
    message = said or clean(waiting.get("message"))
    text = f"{container.label} cannot pull image {image} ({waiting.get('reason')}{': ' + message if message else ''})"
    names = {str(each["name"]): "" for each in pod["spec"].get("imagePullSecrets") or () if each.get("name")}
    causes = [
        make_cause(
            "secret-missing",
            f"Secret {name}, an imagePullSecret of the pod, does not exist",
            "spec.imagePullSecrets",
            of=f"Secret/{name}",
            remedies=[make_remedy(f"create Secret {name} in namespace {pod['metadata']['namespace']}")],
        )
        for name in find_missing_objects("Secret", names, pod["metadata"]["namespace"], objects)
    ]
    owner = find_owner(pod, objects)
    who = owner.label if owner else "the pod"
    remedy = make_remedy(
        f"correct the image in {who} if its name or tag is wrong; otherwise give {node} access to the registry"
        " (imagePullSecrets, network)"
    )
    at = pod["status"].get("startTime")
    return [*causes, make_cause("image-pull", text, source, of=f"Node/{node}", at=at, remedies=[remedy])]


def _explain_crash_loop(
    pod: Json, container: Container, events: list[Json], objects: ClusterObjects, source: str, now: datetime
) -> list[LiveCause]:
    end = (container.status.get("lastState") or {}).get("terminated") or {}
    ending = f"; it last {_describe_end(end, now)}" if end else ""
    text = f"{container.label} ends again and again (CrashLoopBackOff, {container.restarts} restarts){ending}"
    logs = kubectl(pod, f"logs {pod['metadata']['name']}", "-c", container.name, "--previous")
    code = "out-of-memory" if end.get("reason") == "OOMKilled" else "container-crash-loop"
    remedies = _raise_memory(pod, container, objects) if code == "out-of-memory" else []
    cause = make_cause(code, text, source, at=end.get("finishedAt"), remedies=remedies, inspect=logs)
    liveness = [c for c in _explain_probes(pod, container, events, now) if c["code"] != "probe-readiness"]
    return [*liveness, cause] if code != "out-of-memory" and _was_killed(end) else [cause, *liveness]


def _was_killed(end: Json) -> bool:
    """Return whether a container ended by the signal SIGKILL or SIGTERM, as after a failed probe."""
    return end.get("exitCode") in (137, 143)


def _explain_end(
    pod: Json, container: Container, end: Json, objects: ClusterObjects, source: str, now: datetime
) -> LiveCause:
    """Return the cause for a container that has ended."""
    logs = kubectl(pod, f"logs {pod['metadata']['name']}", "-c", container.name)
    is_memory = end.get("reason") == "OOMKilled"
    remedies = _raise_memory(pod, container, objects) if is_memory else []
    restarts = f", {container.restarts} restarts" if container.restarts else ""
    return make_cause(
        "out-of-memory" if is_memory else "container-exit",
        f"{container.label} {_describe_end(end, now)}{restarts}",
        source,
        at=end.get("finishedAt"),
        remedies=remedies,
        inspect=logs,
    )


def _describe_end(end: Json, now: datetime) -> str:
    """Return how a container ended, such as `ended with exit code 1 (Error) 12m ago: MESSAGE`."""
    reason, message = end.get("reason"), clean(end.get("message"))
    if reason == "OOMKilled":
        text = f"was killed because it reached its memory limit (OOMKilled, exit code {end.get('exitCode')})"
    else:
        text = f"ended with exit code {end.get('exitCode')}" + (f" ({reason})" if reason else "")
    return f"{text}{format_ago(end.get('finishedAt'), now)}" + (f": {message}" if message else "")


def _raise_memory(pod: Json, container: Container, objects: ClusterObjects) -> list[Remedy]:
    limit = ((container.spec.get("resources") or {}).get("limits") or {}).get("memory")
    if not limit:
        return []
    owner = find_owner(pod, objects)
    who = f" in {owner.label}" if owner else ""
    return [make_remedy(f"raise the memory limit of {container.label}, now {limit},{who} or make it use less memory")]


def _change_container(pod: Json, container: Container, change: Json, why: str, objects: ClusterObjects) -> list[Remedy]:
    """Return the remedy that changes a container in the template of the pod's owner; [] without such an owner."""
    owner = find_owner(pod, objects)
    if owner is None or not owner.has_template:
        return []
    field = "initContainers" if container.is_init else "containers"
    command = patch_template(pod, owner, {field: [{"name": container.name, **change}]})
    what = ", ".join(f"{key}: {value}" for key, value in change.items())
    return [make_remedy(f"{why}: set {what} in {owner.label}, which replaces its pods", command)]


# --- containers that run --------------------------------------------------------------------------------------------


def _explain_unready(
    pod: Json, container: Container, events: list[Json], now: datetime, source: str
) -> list[LiveCause]:
    """Return why a running container is not ready, or holds up the containers after it."""
    if container.is_init and not container.is_sidecar:
        since = container.read_state("running").get("startedAt")
        text = f"{container.label} runs{format_since(since, now)}; the next containers start after it has ended"
        logs = kubectl(pod, f"logs {pod['metadata']['name']}", "-c", container.name)
        return [make_cause("init-container-running", text, source, at=since, inspect=logs)]
    probes = _explain_probes(pod, container, events, now)
    if container.status.get("started") is False:  # readiness is not probed before the startup probe has passed
        probes.sort(key=lambda cause: cause["code"] != "probe-startup")
    if probes:
        return probes
    waits = container.status.get("started") is False and container.spec.get("startupProbe")
    which = "startup probe has" if waits else "readiness probe has" if container.spec.get("readinessProbe") else ""
    why = f"its {which} not succeeded, and no event says why" if which else "no event says why"
    return [make_cause("container-not-ready", f"{container.label} runs and is not ready: {why}", source)]


def _explain_probes(pod: Json, container: Container, events: list[Json], now: datetime) -> list[LiveCause]:
    """Return what the kubelet's events say of a container's probes, of each kind the last failure."""
    latest: dict[str, Json] = {}
    for event in events:
        path = str((event.get("involvedObject") or {}).get("fieldPath") or "")
        if event.get("reason") != "Unhealthy" or (path and f"{{{container.name}}}" not in path):
            continue
        if not path and not _is_only_candidate(pod, container):
            continue
        message = str(event.get("message") or "")
        code = next((code for kind, code in _PROBES.items() if message.startswith(kind)), None)
        if code:
            latest[code] = event
    causes = []
    for code, event in latest.items():
        probe = container.spec.get(_PROBE_FIELDS[code]) or {}
        target = _describe_probe(probe)
        what = f"{container.label}{' (' + target + ')' if target else ''}: "
        causes.append(_make_event_cause(code, what, event, now, remedies=[]))
    return causes


def _is_only_candidate(pod: Json, container: Container) -> bool:
    """Return whether an event without a container can only be about this one: no other is running and unready."""
    unready = [c for c in list_containers(pod) if c.read_state("running") and not c.status.get("ready")]
    return len(list_containers(pod)) == 1 or [c.name for c in unready] == [container.name]


def _describe_probe(probe: Json) -> str:
    """Return what a probe asks, such as `GET :8080/healthz`; "" if it is not known."""
    if http := probe.get("httpGet"):
        return f"GET :{http.get('port')}{http.get('path') or '/'}"
    if tcp := probe.get("tcpSocket"):
        return f"TCP port {tcp.get('port')}"
    if grpc := probe.get("grpc"):
        return f"gRPC port {grpc.get('port')}"
    command = (probe.get("exec") or {}).get("command")
    return " ".join(map(str, command))[:60] if command else ""


def _find_closed_gates(pod: Json) -> list[LiveCause]:
    """Return a cause for each readiness gate that is not true, if the containers are ready."""
    conditions = read_conditions(pod)
    if (conditions.get("ContainersReady") or {}).get("status") == "False":
        return []
    causes = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = str(gate.get("conditionType"))
        condition = conditions.get(name)
        if condition and condition.get("status") == "True":
            continue
        state = f"is {condition.get('status')}" if condition else "has not been set"
        message = clean((condition or {}).get("message") or (condition or {}).get("reason"))
        text = f"readiness gate {name} {state}{': ' + message if message else ''}; its controller sets that condition"
        at = (condition or {}).get("lastTransitionTime")
        causes.append(make_cause("readiness-gate", text, f"status.conditions[{name}]", at=at))
    return causes


# --- resizes --------------------------------------------------------------------------------------------------------


def _compare_resources(pod: Json) -> tuple[str, str]:
    """Return the requests that the spec has and those that the kubelet granted, where they differ; "" if unknown."""
    wanted, given = [], []
    for container in list_containers(pod):
        asked = (container.spec.get("resources") or {}).get("requests") or {}
        granted = _read_granted(container).get("requests") or {}
        for resource, amount in asked.items():
            if resource in granted and str(granted[resource]) != str(amount):
                wanted.append(f"{amount} {resource} ({container.label})")
                given.append(f"{granted[resource]}")
    return ", ".join(wanted), ", ".join(given)


def _read_granted(container: Container) -> Json:
    """Return the resources that the kubelet has granted a container."""
    actual = dict(container.status.get("resources") or {})
    allocated = container.status.get("allocatedResources")
    return {**actual, "requests": allocated} if allocated else actual


def _give_up_resize(pod: Json) -> Remedy:
    """Return the remedy that sets the resources back to those that the kubelet has granted."""
    containers = []
    for container in list_containers(pod):
        granted, asked = _read_granted(container), container.spec.get("resources") or {}
        back = {
            part: {r: str(granted[part][r]) for r in asked.get(part) or {} if r in granted[part]}
            for part in ("requests", "limits")
            if granted.get(part)
        }
        if any(back.values()) and not container.is_init:
            containers.append({"name": container.name, "resources": {k: v for k, v in back.items() if v}})
    patch = quote_patch({"spec": {"containers": containers}})
    command = kubectl(pod, f"patch pod {pod['metadata']['name']}", "--subresource=resize", "-p", patch)
    return make_remedy("give up the resize, so that the node's capacity counts again as it is used", command)
