"""Find why the containers of a pod with a node do not run or are not ready.

What the kubelet reports comes first: container states, conditions, events. Objects that the pod names and that do not
exist come before what the kubelet says of them.

Owns: these causes and their remedies. Does not own: objects that the pod needs (`reference_causes`), containers that
are not created yet (`container_creation_causes`) or that end (`container_ends`), probes (`probe_causes`), resizes
(`resize_causes`), pods without a node (`pod_state`), ended ones (`pod_ending`). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.pod_facts import (
    Container,
    ask_for_events,
    change_templates,
    clean,
    find_missing_objects,
    format_ago,
    format_since,
    kubectl,
    list_containers,
    make_cause,
    make_event_cause,
    make_remedy,
    name_source,
    read_conditions,
)
from herodotus_answers.live.pods.container_creation_causes import explain_creation
from herodotus_answers.live.pods.container_ends import explain_crash_loop, explain_end
from herodotus_answers.live.pods.kubelet_advice import advise
from herodotus_answers.live.pods.probe_causes import describe_unanswered, explain_probes
from herodotus_answers.live.pods.reference_causes import CREATING, find_missing_references, find_unbound_claims
from herodotus_answers.live.service_faults import explain_awaited_service
from herodotus_record.units import pluralize

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
_PULL: Final = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed")
_INVALID_IMAGE: Final = ("InvalidImageName", "ImageInspectError")
_START: Final = ("CreateContainerError", "RunContainerError", "StartError", "PreCreateHookError", "PostStartHookError")
# What the kubelet and container runtimes put before the registry's error: all of it names the image again.
_BEFORE_ERROR: Final = re.compile(
    r"(?:(?:Back-off pulling|Failed to pull) image|failed to (?:pull and unpack image|resolve reference)) \"[^\"]*\": "
    r"|ErrImagePull: |rpc error: code = \w+ desc = "
)
_MISSING: Final = ("secret-missing", "config-map-missing")


def find_start_causes(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return why a pod with a node does not run or is not ready, the cause to act on first.

    The pod has neither ended nor is it being deleted, and its node is ready, as far as is known.
    """
    events = objects.list_events({**pod, "kind": "Pod"})
    causes = [*find_missing_references(pod, events, objects, now), *find_unbound_claims(pod, objects, now)]
    containers = list_containers(pod)
    waiting = next((each for each in containers if each.is_init and not _has_passed(each)), None)
    if waiting is not None:
        found = _explain_container(pod, waiting, events, objects, now)
        if waiting.is_sidecar and waiting.status and found:
            later = [each.name for each in containers[containers.index(waiting) + 1 :]]
            found[0]["text"] += (
                f"; {', '.join(later)} starts after it" if len(later) == 1 else (f"; {', '.join(later)} start after it")
            )
        return [*causes, *found]
    mains = [each for each in containers if not each.is_init]
    for container in sorted(mains, key=_rank):
        if not container.status.get("ready"):
            causes += _explain_container(pod, container, events, objects, now)
    causes = list({(cause["code"], cause["text"]): cause for cause in causes}.values())
    missing = [str(cause["object"]).partition("/")[2] for cause in causes if cause["code"] in _MISSING]
    for cause in causes:  # the cause that names the object has the remedy
        if cause["code"] not in _MISSING and any(f'"{name}" not found' in cause["text"] for name in missing):
            cause["remedies"] = []
    return [*causes, *_find_closed_gates(pod)]


def find_debugging_causes(pod: Json, objects: ClusterObjects, now: datetime) -> list[LiveCause]:
    """Return why ephemeral containers of a pod do not run, which does not concern its other containers."""
    by_name = {each.get("name"): each for each in (pod.get("status") or {}).get("ephemeralContainerStatuses") or ()}
    causes: list[LiveCause] = []
    for spec in pod["spec"].get("ephemeralContainers") or ():
        container = Container(spec, by_name.get(spec["name"]) or {}, is_init=False, is_ephemeral=True)
        if container.read_state("waiting").get("reason") not in (None, *CREATING):
            causes += _explain_container(pod, container, [], objects, now)
    return causes


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
    return 0 if container.read_state("waiting") and reason not in CREATING else 1


def _explain_container(
    pod: Json, container: Container, events: list[Json], objects: ClusterObjects, now: datetime
) -> list[LiveCause]:
    """Return why a container does not run or is not ready."""
    waiting, running = container.read_state("waiting"), container.read_state("running")
    reason = str(waiting.get("reason") or "")
    source = f"status.{container.status_field}[{container.name}]"
    message = clean(waiting.get("message"))
    image = str(container.spec.get("image") or "")
    if running:
        return _explain_unready(pod, container, events, objects, now, source)
    if container.read_state("terminated"):
        return [explain_end(pod, container, objects, source, now)]
    if reason in CREATING:
        return explain_creation(pod, events, objects, now, is_reported=bool(container.status))
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
        remedies = advise("image", message or reason, pod, objects, container)
        text = f"{container.label}: image {image}: {message or reason}"
        return [make_cause("image-invalid", text, source, remedies=remedies)]
    if reason == "CrashLoopBackOff":
        return explain_crash_loop(pod, container, events, objects, source, now)
    code = "container-config" if reason == "CreateContainerConfigError" else "container-waiting"
    code = "container-start" if reason in _START else code
    text = f"{container.label}: {reason}{': ' + message if message else ''}"
    return [make_cause(code, text, source, remedies=advise("start", f"{reason}: {message}", pod, objects, container))]


def _explain_pull(
    pod: Json, container: Container, events: list[Json], objects: ClusterObjects, source: str, now: datetime
) -> list[LiveCause]:
    node, waiting = pod["spec"].get("nodeName"), container.read_state("waiting")
    image, volume = _find_pulled_image(pod, container)
    failed = [e for e in events if e.get("reason") == "Failed" and e.get("type") == "Warning"]
    # BackOff repeats the image's name; the event or the message of ErrImagePull has the registry's words
    said = next((clean(e.get("message")) for e in reversed(failed) if str(image) in str(e.get("message"))), "")
    message = said or clean(waiting.get("message"))
    while (repeated := _BEFORE_ERROR.match(message)) is not None:
        message = message[repeated.end() :]
    why = f": {message}" if message else ""
    what = (
        f"cannot start: image {image} of its volume {volume} cannot be pulled"
        if volume
        else f"cannot pull image {image}"
    )
    text = f"{container.label} {what} on {node} ({waiting.get('reason')}{why})"
    text += "" if volume else _describe_running_elsewhere(pod, image, objects, now)
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
    if not causes and "Secret" in objects.unread:
        causes = _explain_unretrieved(pod, names, events, now)
    remedies = advise("image", message, pod, objects, container, image)
    at = pod["status"].get("startTime")
    return [*causes, make_cause("image-pull", text, source, at=at, remedies=remedies)]


def _explain_unretrieved(pod: Json, names: Iterable[str], events: list[Json], now: datetime) -> list[LiveCause]:
    """Return the cause that the kubelet could not retrieve imagePullSecrets, which the user may not read."""
    failed = [event for event in events if event.get("reason") == "FailedToRetrieveImagePullSecret"]
    missing = [name for name in names if failed and re.search(rf"[(, ]{re.escape(name)}[), ]", failed[-1]["message"])]
    if not missing:
        return []
    secrets, namespace = " and ".join(missing), pod["metadata"]["namespace"]
    text = f"the kubelet cannot retrieve Secret {secrets}, an imagePullSecret of the pod: "
    advice = f"create Secret {secrets} in namespace {namespace}: pods use Secrets of their own namespace alone"
    remedies, of = [make_remedy(advice)], f"Secret/{missing[0]}"
    return [make_event_cause("secret-missing", text, failed[-1], now, of=of, remedies=remedies)]


def _describe_running_elsewhere(pod: Json, image: str, objects: ClusterObjects, now: datetime) -> str:
    """Return a clause on a container of another pod of the namespace that runs the image; "" if none is known.

    Its node may have pulled the image before something changed, so that its start is stated. The last one counts.
    """
    started: list[tuple[str, str, str]] = []
    for other in objects.list_objects("Pod", pod["metadata"]["namespace"], is_optional=True).items:
        node, name = str(other["spec"].get("nodeName") or ""), str(other["metadata"]["name"])
        if name == pod["metadata"]["name"]:
            continue
        for container in list_containers(other):
            since = container.read_state("running").get("startedAt")
            if since and container.spec.get("image") == image:
                started.append((str(since), node, name))
    if not started:
        return ""
    since, node, name = max(started)
    where = f"on {node} too" if node == pod["spec"].get("nodeName") else f"on {node}"
    nodes = {each for _, each, _ in started} - {node, pod["spec"].get("nodeName")}
    more = f" and {pluralize(len(nodes), 'more node')}" if nodes else ""
    return f"; the same image runs {where}{more} ({name} started{format_ago(since, now)})"


def _find_pulled_image(pod: Json, container: Container) -> tuple[str, str]:
    """Return the image that the kubelet cannot pull for a container, and the volume that it is for; "" if its own.

    Images of volumes are pulled before the container's, and the container reports them as it does its own.
    """
    own, message = str(container.spec.get("image")), str(container.read_state("waiting").get("message") or "")
    mounted = [each.get("name") for each in container.spec.get("volumeMounts") or ()]
    for volume in pod["spec"].get("volumes") or ():
        reference = str((volume.get("image") or {}).get("reference") or "")
        if reference and volume["name"] in mounted and f'"{reference}"' in message and f'"{own}"' not in message:
            return reference, str(volume["name"])
    return own, ""


def _change_container(pod: Json, container: Container, change: Json, why: str, objects: ClusterObjects) -> list[Remedy]:
    """Return the remedy that changes a container in the template of the pod's owner; [] without such an owner."""
    field = "initContainers" if container.is_init else "containers"
    what = ", ".join(f"{key}: {value}" for key, value in change.items())
    remedy = change_templates(pod, {field: [{"name": container.name, **change}]}, f"{why}: set {what}", objects)
    return [remedy] if remedy else []


def _list_later_sidecars(pod: Json, container: Container) -> list[str]:
    """Return the sidecars that the kubelet starts only after an init container has ended."""
    names = [each.name for each in list_containers(pod)]
    later = list_containers(pod)[names.index(container.name) + 1 :]
    return [each.name for each in later if each.is_sidecar]


# --- containers that run --------------------------------------------------------------------------------------------


def _explain_unready(
    pod: Json, container: Container, events: list[Json], objects: ClusterObjects, now: datetime, source: str
) -> list[LiveCause]:
    """Return why a running container is not ready, or holds up the containers after it."""
    if container.is_init and not container.is_sidecar:
        since = container.read_state("running").get("startedAt")
        text = f"{container.label} runs{format_since(since, now)}; the next containers start after it has ended"
        logs = kubectl(pod, f"logs {pod['metadata']['name']}", "-c", container.name)
        awaited, what = explain_awaited_service(pod, container, objects)
        text += f"; {awaited}" if awaited else ""
        remedies = [make_remedy(what)] if what else []
        if sidecars := _list_later_sidecars(pod, container):
            names, it = " and ".join(sidecars), "it" if len(sidecars) == 1 else "one of them"
            text += f", also sidecar {names}"
            advice = (
                f"if {container.name} waits for {it}, put sidecar {names} before {container.name} in initContainers"
            )
            remedies.append(
                make_remedy(f"{advice} of {name_source(pod, objects)}: init containers start in their order")
            )
        return [make_cause("init-container-running", text, source, at=since, remedies=remedies, inspect=logs)]
    probes = explain_probes(pod, container, events, objects, now)
    if container.status.get("started") is False:  # readiness is not probed before the startup probe has passed
        probes.sort(key=lambda cause: cause["code"] != "probe-startup")
    if probes:
        return probes
    asking = ask_for_events(pod, objects)
    silence = "the events that would say why cannot be read" if asking else "no event says why"
    which, advice = describe_unanswered(container)
    why = f"its {which} has not succeeded, and {silence}" if which else silence
    remedies = [make_remedy(f"{advice}, in {name_source(pod, objects)}")] if which else []
    text = f"{container.label} runs and is not ready: {why}"
    return [make_cause("container-not-ready", text, source, remedies=[*remedies, *asking])]


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
        remedies = [make_remedy(f"see why the controller of {name.partition('/')[0]} does not set the condition")]
        causes.append(make_cause("readiness-gate", text, f"status.conditions[{name}]", at=at, remedies=remedies))
    return causes
