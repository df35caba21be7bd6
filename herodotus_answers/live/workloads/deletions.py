"""Find in events who deleted a pod that no longer exists, and what is known of a workload that no longer does.

Owns: which events say so. Does not own: pods that are being deleted (`termination_causes`), reading
(`cluster_objects`). Pure.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.objects import find_controller
from herodotus_answers.live.pod_facts import clean, format_ago, make_event_cause, name_event, parse_time

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause
    from herodotus_answers.live.workload_objects import Workload

Json = dict[str, Any]
_MAX: Final = 3  # sentences
_KEPT: Final = timedelta(days=1)  # how long an API server keeps events: an hour, unless --event-ttl is longer
_BATCH: Final = timedelta(minutes=1)  # ample: in which an owner makes all the pods that it makes at once
# Of a controller about its own object, whose message names the pod.
_BY_OWNER: Final = "SuccessfulDelete"
_OF_MAKER: Final = "SuccessfulCreate"
_PREEMPTED: Final = "Preempted"
_CORDONED: Final = "NodeNotSchedulable"  # the kubelet's event about its node
_FOLLOWED: Final = ("ReplicaSet", "StatefulSet", "Job", "ReplicationController")  # they replace a preempted pod
_MAKERS: Final = ("Job", "ReplicaSet", "StatefulSet", "DaemonSet")
_ASSIGNED: Final = re.compile(r"Successfully assigned \S+ to (\S+)$")
# Reasons of events about a pod, after which it is deleted: by kube-scheduler, taint manager, kubelet, autoscalers.
_OF_POD: Final = (
    _PREEMPTED,
    "TaintManagerEviction",
    "Evicted",
    "EvictedByVPA",
    "EvictedPod",
    "ScaleDown",
    "Descheduled",
)


def list_deletions(pod: str, namespace: str, objects: ClusterObjects, now: datetime) -> list[str]:
    """Return sentences on who deleted a pod of this name and when, the newest first; [] if no event is about it."""
    found = _list_ends(pod, namespace, objects)
    own = objects.list_events({"kind": "Pod", "metadata": {"name": pod, "namespace": namespace}})
    if not found and own:
        assigned = (_ASSIGNED.search(clean(event.get("message"))) for event in reversed(own))
        node = next((f" on {match[1]}" for match in assigned if match), "")
        sentences = [f"pod {pod} existed{node}: its last event is{_quote(own[-1], now)}"]
        return [*sentences, *_describe_makers(pod, namespace, objects, now)]
    return [_describe(event, pod, now) for event in found[:_MAX]]


def _list_ends(pod: str, namespace: str, objects: ClusterObjects) -> list[Json]:
    """Return the events that say who ended a pod of this name, the newest first."""
    found = _list_of_owners(_BY_OWNER, pod, namespace, objects)
    own = objects.list_events({"kind": "Pod", "metadata": {"name": pod, "namespace": namespace}})
    found += [event for event in own if event.get("reason") in _OF_POD]
    return sorted(found, key=read_event_time, reverse=True)


def describe_end(answer: Json, objects: ClusterObjects, now: datetime) -> list[str]:
    """Return sentences on how a pod that no longer exists ended, as far as events and its node say it.

    `answer` is the PodExplanation of its last attempt. The API server keeps no word of an eviction once the pod is
    gone. If no event says who deleted the pod, what is left of a drain is named: the node that is cordoned, and the pod
    that the owner made instead.
    """
    meta, node = answer["metadata"], answer["outcome"].get("node")
    pod, namespace = meta["name"], meta["namespace"]
    since = str(answer["attempt"]["startedAt"])
    found = [event for event in _list_ends(pod, namespace, objects) if _is_after(event, since)]
    if found:
        return [_describe(event, pod, now, "") for event in found[:_MAX]]
    if "Event" in objects.unread:
        return []
    kind, _, name = str((answer.get("pod") or {}).get("owner") or "").partition("/")
    traces = [
        *(_describe_cordon(node, since, objects, now) if node else []),
        *(_describe_successor(kind, name, meta, since, objects, now) if name else []),
    ]
    return ["no event says who deleted it", *traces] if traces else []


def _is_after(event: Json, since: str, least: timedelta = timedelta(0)) -> bool:
    """Return whether an event, whose time has seconds, is at least so long after a time."""
    at, start = parse_time(read_event_time(event)), parse_time(since)
    return at is None or start is None or at >= start.replace(microsecond=0) + least


def _describe_cordon(name: str, since: str, objects: ClusterObjects, now: datetime) -> list[str]:
    """Return a sentence on the cordon of the node that a pod had, which a drain begins with, or on its absence."""
    if objects.is_absent("Node", name):
        return [f"its node {name} no longer exists"]
    node = objects.get("Node", name).object or {}
    events = objects.list_events({"kind": "Node", "metadata": {"name": name}})
    cordons = [event for event in events if event.get("reason") == _CORDONED and _is_after(event, since)]
    is_cordoned = bool((node.get("spec") or {}).get("unschedulable"))
    when = f" {format_ago(read_event_time(cordons[-1]), now).strip()} [{name_event(cordons[-1])}]" if cordons else ""
    drains = "as kubectl drain does before it evicts"
    if is_cordoned:
        return [f"its node {name} is cordoned [Node/{name} spec.unschedulable], {drains}{';' * bool(when)}{when}"]
    return [f"its node {name} was cordoned{when}, {drains}"] if cordons else []


def _describe_successor(
    kind: str, name: str, meta: Json, since: str, objects: ClusterObjects, now: datetime
) -> list[str]:
    """Return a sentence on the last pod that the owner of a pod made after it, and not together with it."""
    owner = {"kind": kind, "metadata": {"name": name, "namespace": meta["namespace"]}}
    made = [
        event
        for event in objects.list_events(owner)
        if event.get("reason") == _OF_MAKER and _is_after(event, since, _BATCH)
    ]
    if not made:
        return []
    return [f"{kind}/{name} made another pod{_quote(made[-1], now)}"]


def find_preempted(pod: Json, objects: ClusterObjects, now: datetime) -> Json | None:
    """Return the last event that a scheduler preempted a pod of the same owner, for a pod without a node; None if none.

    The preempted pod no longer exists. It is known by its name, which begins with that of its owner. No event is read
    for a pod that waits longer than events last: what it replaced was ended when it was made.
    """
    owner = find_controller(pod)
    if owner is None or owner["kind"] not in _FOLLOWED or pod["spec"].get("nodeName"):
        return None
    created = parse_time(pod["metadata"].get("creationTimestamp"))
    if created is not None and now - created > _KEPT:
        return None
    end = r"\d+" if owner["kind"] == "StatefulSet" else "[a-z0-9]+"
    is_of_owner = re.compile(rf"{re.escape(owner['name'])}-{end}").fullmatch
    events = objects.list_objects("Event", pod["metadata"]["namespace"], fields=f"reason={_PREEMPTED}").items
    found = (
        event
        for event in events
        if (about := event.get("involvedObject") or {}).get("kind") == "Pod" and is_of_owner(str(about.get("name")))
    )
    return max(found, key=read_event_time, default=None)


def describe_preempted(pod: Json, objects: ClusterObjects, now: datetime) -> str:
    """Return which pod of the same owner a scheduler preempted last, for a pod without a node; "" if none is known."""
    event = find_preempted(pod, objects, now)
    return f"{event['involvedObject']['name']} of the same owner{_quote(event, now)}" if event else ""


def explain_preempted(workload: Workload) -> LiveCause | None:
    """Return the cause that a scheduler preempted a pod of a workload, if one waits for a node now; else None."""
    waiting = next((pod for pod in workload.active if not pod["spec"].get("nodeName")), None)
    event = find_preempted(waiting, workload.objects, workload.now) if waiting else None
    if event is None:
        return None
    before = f"{event['involvedObject']['name']} was preempted: "
    return make_event_cause("preempted-by-scheduler", before, event, workload.now)


def describe_last_event(kind: str, name: str, namespace: str, objects: ClusterObjects, now: datetime) -> str:
    """Return a clause on the last event about a workload that no longer exists; "" if none is left."""
    events = objects.list_events({"kind": kind, "metadata": {"name": name, "namespace": namespace}})
    return f"{kind}/{name} existed: its last event is{_quote(events[-1], now)}" if events else ""


def _describe_makers(pod: str, namespace: str, objects: ClusterObjects, now: datetime) -> list[str]:
    """Return a sentence on what made a pod, if it no longer exists either: its pods are deleted with it."""
    for event in _list_of_owners(_OF_MAKER, pod, namespace, objects):
        about = event.get("involvedObject") or {}
        kind, name = str(about.get("kind")), str(about.get("name"))
        if kind in _MAKERS and objects.is_absent(kind, name, namespace):
            last = describe_last_event(kind, name, namespace, objects, now)
            return [f"{last}. It made the pod, and its pods were deleted with it"]
    return []


def _list_of_owners(reason: str, pod: str, namespace: str, objects: ClusterObjects) -> list[Json]:
    """Return the events of a reason that controllers have about their own objects, and that name a pod."""
    events = objects.list_objects("Event", namespace, fields=f"reason={reason}").items
    names = re.compile(rf"(?<![\w.-]){re.escape(pod)}(?![\w.-])")
    return [event for event in events if names.search(str(event.get("message")))]


def _describe(event: Json, pod: str, now: datetime, existed: str = "existed, and ") -> str:
    if event.get("reason") != _BY_OWNER:
        return f"pod {pod} {existed}was ended{_quote(event, now)}"
    about = event.get("involvedObject") or {}
    deleted, quote = f"{about.get('kind')}/{about.get('name')} deleted", _quote(event, now)
    return f"pod {pod} {existed}{deleted} it{quote}" if existed else f"{deleted} pod {pod}{quote}"


def _quote(event: Json, now: datetime) -> str:
    return f"{format_ago(read_event_time(event), now)}: {clean(event.get('message'))} [{name_event(event)}]"
