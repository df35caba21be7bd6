"""Build the timeline of a pod: from the creation of its owner to its end, each entry with its time and its source.

Owns: which facts become entries, their order and number. Does not own: how they are folded (`timeline`), the state
(`pod_state`), reading. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.objects import find_controller
from herodotus_answers.live.pod_facts import (
    clean,
    list_containers,
    make_state,
    parse_time,
    read_conditions,
    read_reporter,
)
from herodotus_answers.live.timeline import Fact, describe_event, fold_facts

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveState, TimelineEntry

Json = dict[str, Any]
MAX_ENTRIES: Final = 100
_MAX_OWNERS: Final = 4  # a CronJob's pod has two


def build_timeline(pod: Json, objects: ClusterObjects, attempts: Sequence[Json] = ()) -> list[TimelineEntry]:
    """Return what happened to a pod, oldest first; of more than MAX_ENTRIES entries the last ones.

    `attempts` are those of its PodHistory, if a service recorded any.
    """
    facts = [
        *_list_owners(pod, objects),
        *_list_object(pod),
        *_list_containers(pod),
        *_list_events({**pod, "kind": "Pod"}, objects),
        *_list_node(pod, objects),
        *_list_attempts(attempts),
    ]
    timed = [(time, fact) for fact in facts if (time := parse_time(fact.at)) is not None]
    timed.sort(key=lambda item: item[0])
    return list(fold_facts(fact for _, fact in timed))[-MAX_ENTRIES:]


def build_deleted_pod_timeline(answer: Json, objects: ClusterObjects, attempts: Sequence[Json]) -> LiveState:
    """Return the state of a pod that no longer exists, with the timeline that its records and events have.

    `answer` is the PodExplanation of its last attempt.
    """
    meta, created = answer["metadata"], answer["attempt"].get("podCreatedAt")
    left = {"metadata": {**meta, "creationTimestamp": created}, "spec": {}, "status": {}}
    headline = "The pod no longer exists. Its records and events are left"
    state = make_state("pod-gone", headline, None, (), ())
    state["timeline"] = build_timeline(left, objects, attempts)
    state["unread"] = list(objects.unread)
    return state


def _list_owners(pod: Json, objects: ClusterObjects) -> list[Fact]:
    """Return the creation of each owner, and the owners' events about this pod or about pods that they cannot make.

    An owner comes after its own owner, and an event after the creation of its object.
    """
    obj, namespace, name = pod, pod["metadata"]["namespace"], pod["metadata"]["name"]
    entries: list[Fact] = []
    for _ in range(_MAX_OWNERS):
        owner = find_controller(obj)
        if owner is None:
            break
        try:
            found = objects.get(owner["kind"], owner["name"], namespace).object
        except KeyError:  # a kind that is not built in
            break
        if found is None:
            break
        label = f"{owner['kind']}/{owner['name']}"
        created = _entry(found["metadata"].get("creationTimestamp"), label, f"{label} created")
        events = [
            _describe_event(event, f"{label}: ")
            for event in objects.list_events({**found, "kind": owner["kind"]})
            if f" {name}" in f" {event.get('message') or ''}" or event.get("type") == "Warning"
        ]
        entries, obj = [created, *events, *entries], found
    return entries


def _list_object(pod: Json) -> Iterator[Fact]:
    """Yield what the Pod object says: its creation, its conditions, its deletion."""
    meta, status = pod["metadata"], pod.get("status") or {}
    yield _entry(meta.get("creationTimestamp"), "metadata.creationTimestamp", "pod created")
    node = pod["spec"].get("nodeName")
    yield _entry(status.get("startTime"), "status.startTime", f"the kubelet of {node} acknowledged the pod")
    for name, condition in read_conditions(pod).items():
        yield _describe_condition(name, condition, f"status.conditions[{name}]")
    ends = parse_time(meta.get("deletionTimestamp"))
    if ends is not None:
        grace = int(meta.get("deletionGracePeriodSeconds") or 0)
        text = f"deletion asked for, with a grace period of {grace}s"
        yield _entry((ends - timedelta(seconds=grace)).isoformat(), "metadata.deletionTimestamp", text)


def _list_containers(pod: Json) -> Iterator[Fact]:
    for container in list_containers(pod):
        source = f"status.{'initContainerStatuses' if container.is_init else 'containerStatuses'}[{container.name}]"
        states = [container.status.get("state") or {}, container.status.get("lastState") or {}]
        for state in states:
            run = state.get("running") or state.get("terminated") or {}
            yield _entry(run.get("startedAt"), source, f"{container.label} started")
            if end := state.get("terminated"):
                reason = f" ({end['reason']})" if end.get("reason") else ""
                text = f"{container.label} ended with exit code {end.get('exitCode')}{reason}"
                yield _entry(end.get("finishedAt"), source, text)


def _list_events(involved: Json, objects: ClusterObjects) -> Iterable[Fact]:
    return [_describe_event(event) for event in objects.list_events(involved)]


def _list_node(pod: Json, objects: ClusterObjects) -> Iterator[Fact]:
    """Yield since when the pod's node is not ready, and when it got the taints that evict."""
    name = pod["spec"].get("nodeName")
    node = objects.get("Node", name).object if name else None
    if node is None:
        return
    ready = read_conditions(node).get("Ready") or {}
    if ready.get("status") != "True":
        yield _describe_condition(f"node {name}: Ready", ready, f"Node/{name} status.conditions[Ready]")
    for taint in (node.get("spec") or {}).get("taints") or ():
        text = f"node {name} got taint {taint.get('key')}:{taint.get('effect')}"
        yield _entry(taint.get("timeAdded"), f"Node/{name} spec.taints", text)


def _describe_condition(name: str, condition: Json, source: str) -> Fact:
    """Return when a condition got its status. Its reason and message may be newer: they can change without the time."""
    reason, message = condition.get("reason"), clean(condition.get("message"))
    why, same = (": ".join(filter(None, (reason, said))) for said in (message, "the same message"))
    became = f"{name} became {condition.get('status')}"
    text = became + (f" (now: {why})" if why else "")
    return _entry(condition.get("lastTransitionTime"), source, text, message, f"{became} (now: {same})")


def _describe_event(event: Json, before: str = "") -> Fact:
    component = read_reporter(event)
    source = f"Event {event.get('reason')}" + (f" of {component}" if component else "")
    return describe_event(event, source, before)


def _list_attempts(attempts: Sequence[Json]) -> Iterator[Fact]:
    """Yield the recorded attempts, oldest first."""
    for attempt in sorted(attempts, key=lambda each: str(each["startedAt"])):
        node, message = f" on {attempt['node']}" if attempt.get("node") else "", clean(attempt.get("message"))
        ended = f"attempt {attempt.get('number')}: {attempt['state']}{node}"
        text = f"{ended}: {message}" if message else ended
        source = f"record of {attempt['profile']}"
        yield _entry(attempt["startedAt"], source, text, message, f"{ended}, with the same message")


def _entry(at: object, source: str, text: str, message: str = "", short: str = "") -> Fact:
    return Fact(str(at or ""), source, text, message, short)
