"""Find why the kubelet has not created the containers of a pod: its sandbox, its volumes, its devices.

Owns: these causes and their remedies, and which object of the cluster a volume in a message is. Does not own: objects
that do not exist (`reference_causes`), Multi-Attach errors (`attachment_causes`), containers that the kubelet has
created (`kubelet_causes`). Pure.

Invariant: no absence of errors is concluded from events that cannot be read.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.messages.topics import Topic
from herodotus_answers.live.pod_facts import (
    ask_for_events,
    clean,
    find_claim_of_volume,
    format_ago,
    format_since,
    list_claims,
    make_cause,
    make_event_cause,
    make_remedy,
    name_event,
    name_source,
    parse_time,
    read_conditions,
)
from herodotus_answers.live.pods.attachment_causes import explain_attachment, find_claim
from herodotus_answers.live.pods.claim_causes import find_claim_causes
from herodotus_answers.live.pods.kubelet_advice import advise

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, Remedy

Json = dict[str, Any]
# Event reasons of the kubelet and of the attach/detach controller, and the code of the cause.
_EVENTS: Final = {
    "FailedCreatePodSandBox": "sandbox-failed",
    "FailedCreatePodContainer": "sandbox-failed",  # its control group
    "NetworkNotReady": "sandbox-failed",
    "FailedMount": "volume-failed",
    "FailedMapVolume": "volume-failed",
    "FailedAttachVolume": "volume-failed",
    "FailedPrepareDynamicResources": "devices-failed",
    "VolumePermissionChangeInProgress": "volume-ownership",
}
# The steps of a start, in the kubelet's order (syncPod): an event of a later step shows that earlier ones succeeded.
_STEPS: Final = {
    "NetworkNotReady": 0,
    "FailedCreatePodContainer": 0,
    "FailedAttachVolume": 1,
    "SuccessfulAttachVolume": 2,
    "FailedMount": 2,
    "FailedMapVolume": 2,
    "VolumePermissionChangeInProgress": 2,
    "FailedPrepareDynamicResources": 3,
    "FailedCreatePodSandBox": 4,
    "Pulling": 5,
    "Pulled": 5,
}
_OF_ONE_VOLUME: Final = (1, 2)  # steps that each volume takes, and that another volume says nothing about
_NO_FAILURES: Final = ("kubelet-event", "volume-ownership")  # after those that are
_WORDS: Final = {
    "sandbox-failed": "the pod's sandbox cannot be set up: ",
    "devices-failed": "devices of a resource claim cannot be prepared: ",
}
_TOPICS: Final[dict[str, Topic]] = {
    "sandbox-failed": "sandbox",
    "volume-failed": "volume",
    "devices-failed": "devices",
    "kubelet-event": "start-event",
}
_MULTI_ATTACH: Final = re.compile(r'Multi-Attach error for volume "([^"]+)"')
# What the kubelet says when it gives up a wait for volumes: which ones, and why, if it knows.
_GAVE_UP: Final = re.compile(
    r"Unable to attach or mount volumes: unmounted volumes=\[([^\]]*)\].*?"
    r"(?:failed to process volumes=\[[^\]\s]+[^\]]*\]: (.*))?$",
    re.DOTALL,
)
_NAMED_VOLUME: Final = re.compile(r'for volume "([^"]+)"|/volumes/kubernetes\.io~[\w.-]+/([\w.-]+)')
# A pull without credentials may succeed, so that this alone is no failure.
_UNRETRIEVED: Final = "FailedToRetrieveImagePullSecret"
_NOT_PROBLEMS: Final = (
    "Unhealthy",
    "BackOff",
    "Failed",
    "FailedScheduling",
    "Evicted",
    "Preempted",
    "Preempting",
    _UNRETRIEVED,
)
_ONE_POD: Final = "ReadWriteOncePod access mode"
_STARTED_SANDBOX: Final = "PodReadyToStartContainers"
_MAX_NAMES: Final = 4  # volumes in a sentence
_LATE: Final = timedelta(minutes=2)  # a kubelet reports on a new pod within seconds


def explain_creation(
    pod: Json, events: list[Json], objects: ClusterObjects, now: datetime, *, is_reported: bool
) -> list[LiveCause]:
    """Return why the kubelet has not created a container: what its warnings say, the last of each kind and volume.

    `is_reported` means that the kubelet has reported the container.
    """
    latest = _find_last_warnings(pod, events, objects)
    if not latest:
        return [_explain_silence(pod, events, objects, now, is_reported=is_reported)]
    causes = []
    for code, event in sorted(latest, key=lambda item: item[0] in _NO_FAILURES):
        message, topic = str(event.get("message") or ""), _TOPICS.get(code)
        if code == "volume-ownership":
            causes.append(_explain_ownership(pod, event, objects, now))
            continue
        volume = _MULTI_ATTACH.search(message)
        if volume is not None and (attached := explain_attachment(pod, volume[1], objects, now)):
            causes.append(attached)
        remedies = advise(topic, message, pod, objects) if topic and volume is None else []
        words, of = _WORDS.get(code, ""), None
        if code == "volume-failed":
            what, of = _name_volume(pod, message, objects)
            users = find_claim_causes(pod, objects, only=of.partition("/")[2]) if of and _ONE_POD in message else []
            causes += users  # who uses it says more
            shows_user = bool(users) or (bool(causes) and causes[-1]["code"] == "volume-attached-elsewhere")
            remedies = [] if shows_user else remedies or [_ask_driver(pod, event, of, objects)]
            words = f"{what} cannot be attached or mounted: "
            given_up = _GAVE_UP.match(message)
            event = {**event, "message": given_up[2]} if given_up and given_up[2] else event
            if not users and _has_only_given_up(message) and (failed := _find_attachment_error(pod, of, objects)):
                causes.append(_explain_attachment_error(pod, what, of, failed, objects, now))
                continue
        causes.append(make_event_cause(code, words, event, now, remedies=remedies, of=of))
    return causes


def _explain_ownership(pod: Json, event: Json, objects: ClusterObjects, now: datetime) -> LiveCause:
    """Return the cause that the kubelet gives each file of a volume to the fsGroup before the containers start."""
    what, of = _name_volume(pod, str(event.get("message") or ""), objects)
    context, owner = pod["spec"].get("securityContext") or {}, name_source(pod, objects)
    node, policy = pod["spec"].get("nodeName"), context.get("fsGroupChangePolicy") or "Always"
    group = f" {context['fsGroup']}" if "fsGroup" in context else ""
    text = f"the kubelet of {node} changes the owner of all files of {what} to fsGroup{group} before the containers"
    text += f" start (fsGroupChangePolicy {policy}): "
    advice = "let it finish; the next start of a pod then skips it, unless the pod has another fsGroup"
    if policy != "OnRootMismatch":
        advice = (
            f"let it finish, and set fsGroupChangePolicy: OnRootMismatch in securityContext of {owner}: later starts"
        )
        advice += " skip a volume whose root has the owner"
    return make_event_cause("volume-ownership", text, event, now, remedies=[make_remedy(advice)], of=of)


def _find_last_warnings(pod: Json, events: list[Json], objects: ClusterObjects) -> list[tuple[str, Json]]:
    """Return the code and the last warning of each kind of failure that is not over, the newest first.

    Of failures of volumes, each volume's last counts. That a wait for volumes is over says less than what was waited
    for, and counts only where no warning says that.
    """
    latest: dict[tuple[str, str], Json] = {}
    for event in sorted(events, key=lambda each: not _has_only_given_up(str(each.get("message")))):
        reason, message = str(event.get("reason")), str(event.get("message") or "")
        if event.get("type") != "Warning" or reason in _NOT_PROBLEMS:
            continue
        code = _EVENTS.get(reason, "kubelet-event")
        if not any(_shows_success(later, event, pod, objects) for later in events):
            latest[code, _identify_volume(pod, message, objects) if code == "volume-failed" else ""] = event
    of_volumes = [event for (code, _), event in latest.items() if code == "volume-failed"]
    says_more = [event for event in of_volumes if not _has_only_given_up(str(event.get("message")))]
    superseded = [event for event in of_volumes if event not in (says_more or of_volumes[-1:])]
    left = [(code, event) for (code, _), event in latest.items() if event not in superseded]
    return sorted(left, key=lambda item: read_event_time(item[1]), reverse=True)


def _shows_success(later: Json, event: Json, pod: Json, objects: ClusterObjects) -> bool:
    """Return whether an event shows that what another one says has failed has succeeded since."""
    step, next_step = (_STEPS.get(str(each.get("reason"))) for each in (event, later))
    if step is None or next_step is None or next_step <= step or read_event_time(later) <= read_event_time(event):
        return False
    if _GAVE_UP.match(str(later.get("message") or "")):  # it waited for both steps of a volume
        return False
    if next_step not in _OF_ONE_VOLUME:
        return True
    one, other = (_identify_volume(pod, str(each.get("message") or ""), objects) for each in (event, later))
    return step not in _OF_ONE_VOLUME or one == other


def _identify_volume(pod: Json, message: str, objects: ClusterObjects) -> str:
    """Return what the messages about one volume have in common: its claim, or its name."""
    what, claim = _name_volume(pod, message, objects)
    return claim or what


def _find_attachment_error(pod: Json, of: str | None, objects: ClusterObjects) -> Json | None:
    """Return the VolumeAttachment that reports why the volume of a claim cannot be attached to the node, or None."""
    claim = of.partition("/")[2] if of else ""
    found = objects.get("PersistentVolumeClaim", claim, pod["metadata"]["namespace"]).object if claim else None
    volume = (found or {"spec": {}})["spec"].get("volumeName")
    for attachment in objects.list_objects("VolumeAttachment").items if volume else ():
        spec, status = attachment["spec"], attachment.get("status") or {}
        is_of_volume = (spec.get("source") or {}).get("persistentVolumeName") == volume
        is_here = is_of_volume and spec.get("nodeName") == pod["spec"].get("nodeName")
        if is_here and not status.get("attached") and (status.get("attachError") or {}).get("message"):
            return attachment
    return None


def _explain_attachment_error(
    pod: Json, what: str, of: str | None, attachment: Json, objects: ClusterObjects, now: datetime
) -> LiveCause:
    """Return the cause that a driver does not attach a volume, in the words of its VolumeAttachment."""
    name, driver = attachment["metadata"]["name"], attachment["spec"].get("attacher")
    error = attachment["status"]["attachError"]
    message, at = clean(error["message"]), error.get("time")
    text = f"{what} cannot be attached: {driver} reports{format_ago(at, now)}: {message}"
    remedies = advise("volume", f"AttachVolume.Attach failed: {message}", pod, objects)
    advice = f"see the log of the controller of {driver}, which attaches its volumes"
    source, look = "VolumeAttachment status.attachError", f"kubectl describe volumeattachment {name}"
    return make_cause(
        "volume-failed", text, source, of=of, at=at, remedies=remedies or [make_remedy(advice)], inspect=look
    )


def _ask_driver(pod: Json, event: Json, of: str | None, objects: ClusterObjects) -> Remedy:
    """Return where to look if nothing is known about what an event says of a volume: who wrote that, and its log."""
    claim = (
        objects.get("PersistentVolumeClaim", of.partition("/")[2], pod["metadata"]["namespace"]).object if of else None
    )
    name = claim["spec"].get("volumeName") if claim is not None else None
    volume = objects.get("PersistentVolume", name).object if name else None
    driver = (((volume or {}).get("spec") or {}).get("csi") or {}).get("driver")
    node = pod["spec"].get("nodeName")
    if driver is None:
        where = f"the log of the kubelet of {node}, whose words these are"
    elif event.get("reason") == "FailedAttachVolume":
        where = f"the log of the controller of {driver}, which attaches its volumes"
    else:
        where = f"the log of {driver} on {node}, whose words these are"
    return make_remedy(f"see {where}")


def _has_only_given_up(message: str) -> bool:
    """Return whether a message only says that a wait for volumes is over, and not why they are not there."""
    given_up = _GAVE_UP.match(message)
    return given_up is not None and not given_up[2]


def _name_volume(pod: Json, message: str, objects: ClusterObjects) -> tuple[str, str | None]:
    """Return which volume a message is about, for a sentence, and its claim as KIND/NAME, or None."""
    given_up, named = _GAVE_UP.match(message), _NAMED_VOLUME.search(message)
    name = (named[1] or named[2]) if named else given_up[1].split()[0] if given_up and given_up[1] else ""
    if not name:
        return "a volume", None
    claim = find_claim_of_volume(pod, name)
    if not claim and (bound := find_claim(pod, name, objects)) is not None:
        claim = str(bound["metadata"]["name"])
    claims = [each.name for each in list_claims(pod)]
    if not claim and claims and not any(each["name"] == name for each in pod["spec"].get("volumes") or ()):
        which = " or ".join(claims[:_MAX_NAMES])  # it is a PersistentVolume, of one of the claims
        return f"volume {name} of claim {which}", f"PersistentVolumeClaim/{claims[0]}" if len(claims) == 1 else None
    return (f"volume {name} of claim {claim}", f"PersistentVolumeClaim/{claim}") if claim else (f"volume {name}", None)


def _find_pull(events: list[Json]) -> Json | None:
    """Return the event of an image pull that has neither succeeded nor failed, or None."""
    of_pulls = [each for each in events if each.get("reason") in ("Pulling", "Pulled", "Failed")]
    return of_pulls[-1] if of_pulls and of_pulls[-1]["reason"] == "Pulling" else None


def _create_pull_secret(pod: Json, event: Json) -> Remedy:
    """Return the remedy for imagePullSecrets that the kubelet could not retrieve, as its event names them."""
    names = re.search(r"\(([^)]+)\)", str(event.get("message")))
    which = f"Secret {names[1]}" if names else "the imagePullSecrets"
    where = f"namespace {pod['metadata']['namespace']}"
    return make_remedy(f"create {which} in {where}, if the image cannot be pulled without credentials")


def _explain_silence(
    pod: Json, events: list[Json], objects: ClusterObjects, now: datetime, *, is_reported: bool
) -> LiveCause:
    """Return the cause for containers that are not created while no event reports an error: a pull, or a wait."""
    conditions, node = read_conditions(pod), pod["spec"].get("nodeName")
    since = (conditions.get("PodScheduled") or {}).get("lastTransitionTime")
    what = "is creating the containers" if is_reported else "has not reported on the pod"
    unretrieved = next((each for each in reversed(events) if each.get("reason") == _UNRETRIEVED), None)
    if (pull := _find_pull(events)) is not None:
        at = pull.get("firstTimestamp") or read_event_time(pull)
        text = f"{node} is still pulling an image{format_since(at, now)}: {clean(pull.get('message'))}"
        advice = f"wait for the pull; if it takes long, see the network of {node} and the size of the image"
        remedies = [make_remedy(advice)]
        if unretrieved is not None:
            text += f"; before that, {clean(unretrieved.get('message'))} ({name_event(unretrieved)})"
            remedies.append(_create_pull_secret(pod, unretrieved))
        return make_cause("kubelet-waits", text, name_event(pull), at=at, remedies=remedies)
    text = f"the kubelet of {node} {what}{format_since(since, now)}"
    source = "status.containerStatuses, events"
    if "Event" not in objects.unread:
        then = parse_time(since)
        advice = f"see in the log of the kubelet of {node} what it does with the pod, and start the kubelet again"
        is_late = not is_reported and then is not None and now - then > _LATE
        remedies = [make_remedy(advice)] if is_late else []
        if unretrieved is None:
            text += "; no event reports an error"
            return make_cause("kubelet-waits", text, source, at=since, remedies=remedies)
        before, remedies = f"{text}; ", [_create_pull_secret(pod, unretrieved)]
        return make_event_cause("kubelet-waits", before, unretrieved, now, remedies=remedies)
    text += "; the events that would say why cannot be read"
    sandbox = (conditions.get(_STARTED_SANDBOX) or {}).get("status")
    if sandbox == "False":
        volumes = [str(each["name"]) for each in pod["spec"].get("volumes") or ()]
        listed = ", ".join(volumes[:_MAX_NAMES]) + (", …" if len(volumes) > _MAX_NAMES else "")
        text += f". It has not set up the sandbox: volumes{f' ({listed})' if listed else ''} come first, then the"
        text += " network and the container runtime"
    elif sandbox == "True":
        text += ". The sandbox is there, with its volumes and network: images, and then the containers, come next"
    return make_cause("kubelet-waits", text, source, at=since, remedies=ask_for_events(pod, objects))
