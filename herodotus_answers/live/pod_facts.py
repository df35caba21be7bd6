"""Facts about a Pod object that several parts of its state need: conditions, ages, containers, its owner.

Owns: reading them, and the form of causes and remedies. Does not own: what they mean for the state (`pod_state`). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from herodotus_answers.live.cluster_objects import count_event, read_event_time, read_first_time
from herodotus_answers.live.objects import find_controller, is_static
from herodotus_answers.pod_templates import build_template_command, has_template

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import LiveCause, LiveState, Remedy

Json = dict[str, Any]
FOREGROUND: Final = "foregroundDeletion"  # the finalizer of an object whose dependents are deleted first
_MAX_NAMES: Final = 4  # in a sentence
_NEAR_KEY, _NEAR_NAME = 0.85, 0.75  # similarity of two label keys, and of their names after the domain
_MAX_NEAR_KEYS: Final = 8  # of one pod, because comparing one with the labels of nodes takes up to 1 ms
_SPANS: Final = ((2 * 86_400, 86_400, "d"), (2 * 3_600, 3_600, "h"), (2 * 60, 60, "m"), (0, 1, "s"))


class Container(NamedTuple):
    """A container of a pod: its spec, and its status, which is empty if the kubelet has not reported one."""

    spec: Json
    status: Json
    is_init: bool
    is_ephemeral: bool = False

    @property
    def status_field(self) -> str:
        """The field of the pod's status that has the container's."""
        kind = "ephemeralC" if self.is_ephemeral else "initC" if self.is_init else "c"
        return f"{kind}ontainerStatuses"

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that runs as long as the pod."""
        return self.is_init and self.spec.get("restartPolicy") == "Always"

    @property
    def label(self) -> str:
        """The container's kind and name, for sentences."""
        kind = "ephemeral container" if self.is_ephemeral else "init container" if self.is_init else "container"
        return f"{'sidecar' if self.is_sidecar else kind} {self.name}"

    def read_state(self, state: str) -> Json:
        """Return a state of the container, `waiting`, `running` or `terminated`, or {} if it is in another one."""
        return (self.status.get("state") or {}).get(state) or {}

    @property
    def last_end(self) -> Json:
        """How the container ended last, or {}."""
        return self.read_state("terminated") or (self.status.get("lastState") or {}).get("terminated") or {}

    @property
    def restarts(self) -> int:
        return int(self.status.get("restartCount") or 0)


class Owner(NamedTuple):
    """The object whose controller recreates the pod, such as the Deployment of a ReplicaSet's pod."""

    kind: str
    name: str

    @property
    def label(self) -> str:
        return f"{self.kind}/{self.name}"


def list_containers(pod: Json) -> list[Container]:
    """Return the init containers and the containers of a pod, in the order in which they start."""
    spec, status = pod["spec"], pod.get("status") or {}
    listed = []
    for field, statuses, is_init in (
        ("initContainers", "initContainerStatuses", True),
        ("containers", "containerStatuses", False),
    ):
        by_name = {each.get("name"): each for each in status.get(statuses) or ()}
        listed += [Container(each, by_name.get(each["name"]) or {}, is_init) for each in spec.get(field) or ()]
    return listed


class PodClaim(NamedTuple):
    """A PersistentVolumeClaim of a pod: the volume that names it, its name, and whether it is made for the pod."""

    volume: str
    name: str
    is_ephemeral: bool


def list_claims(pod: Json) -> list[PodClaim]:
    """Return the claims of a pod, also those that a controller makes for its ephemeral volumes."""
    claims = []
    for each in pod["spec"].get("volumes") or ():
        name = (each.get("persistentVolumeClaim") or {}).get("claimName")
        if each.get("ephemeral"):
            name = f"{pod['metadata']['name']}-{each['name']}"
        if name:
            claims.append(PodClaim(str(each["name"]), str(name), bool(each.get("ephemeral"))))
    return claims


def find_claim_of_volume(pod: Json, volume: str) -> str:
    """Return the name of the claim of a volume that the pod names; "" if there is none."""
    return next((claim.name for claim in list_claims(pod) if claim.volume == volume), "")


def read_conditions(obj: Json) -> dict[str, Json]:
    """Return the conditions of an object by type."""
    return {str(each.get("type")): each for each in (obj.get("status") or {}).get("conditions") or ()}


def is_true(obj: Json, condition: str) -> bool:
    """Return whether a condition of an object is true."""
    return (read_conditions(obj).get(condition) or {}).get("status") == "True"


def describe_pod(pod: Json) -> str:
    """Return Pod/NAME, the form of objects in causes."""
    return f"Pod/{pod['metadata']['name']}"


def parse_time(text: object) -> datetime | None:
    """Return a timestamp of the API server, or None if there is none."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None


def format_seconds(seconds: float) -> str:
    """Return a duration in its largest unit of which it has two, such as `90s` or `12m`."""
    whole = max(0, int(seconds))
    for least, size, unit in _SPANS:
        if whole >= least:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def format_since(time: object, now: datetime) -> str:
    """Return `for 12m`, with a space before it, or "" if the time is unknown."""
    then = parse_time(time)
    return "" if then is None else f" for {format_seconds((now - then).total_seconds())}"


def format_ago(time: object, now: datetime) -> str:
    """Return `12m ago`, with a space before it, or "" if the time is unknown."""
    then = parse_time(time)
    return "" if then is None else f" {format_seconds((now - then).total_seconds())} ago"


def clean(message: object) -> str:
    """Return a message of the cluster on one line, without a full stop at its end."""
    return " ".join(str(message or "").split()).rstrip(".")


def make_cause(
    code: str,
    text: str,
    source: str,
    *,
    of: str | None = None,
    at: object = None,
    remedies: Sequence[Remedy] = (),
    inspect: str = "",
) -> LiveCause:
    """Return a cause. `of` is the object that is the cause, as KIND/NAME, if it is not the pod."""
    cause: LiveCause = {
        "code": code,
        "text": text,
        "object": of,
        "source": source,
        "at": str(at) if at else None,
        "remedies": list(remedies),
    }
    if inspect:
        cause["inspect"] = inspect
    return cause


def make_state(
    code: str, headline: str, actor: str | None, causes: Iterable[LiveCause], unread: Iterable[str]
) -> LiveState:
    """Return a state. `headline` gets a full stop, and `unread` are the kinds of objects that could not be read."""
    return {
        "code": code,
        "headline": headline if headline.endswith((".", "?", "!")) else f"{headline}.",
        "actor": actor,
        "causes": list(causes),
        "unread": list(unread),
    }


def make_event_cause(code: str, before: str, event: Json, now: datetime, **more: Any) -> LiveCause:
    """Return the cause that an event reports, with how often and when last."""
    at, often = read_event_time(event), format_times(event)
    when = " ".join(filter(None, (f"{often}, last" if often else "", format_ago(at, now).strip())))
    text = f"{before}{clean(event.get('message'))}" + (f" ({when})" if when else "")
    return make_cause(code, text, name_event(event), at=at, **more)


def format_times(event: Json) -> str:
    """Return how often an event occurred and within which time, such as `17 times in 5d`; "" for once."""
    times, span = count_event(event), find_event_span(event)
    within = f" in {format_seconds(span.total_seconds())}" if span else ""
    return f"{times} times{within}" if times > 1 else ""


def find_event_span(event: Json) -> timedelta:
    """Return the time between the first and the last occurrence of an event; 0 if that is not known."""
    first, last = parse_time(read_first_time(event)), parse_time(read_event_time(event))
    return timedelta() if first is None or last is None else max(last - first, timedelta())


def read_reporter(event: Json) -> str:
    """Return the component that reported an event; "" if the event does not say it."""
    return str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or "")


def name_event(event: Json) -> str:
    """Return the reason and the reporter of an event, such as `Event FailedMount of kubelet`."""
    component = read_reporter(event)
    return f"Event {event.get('reason')}" + (f" of {component}" if component else "")


def make_remedy(text: str, command: str | None = None) -> Remedy:
    """Return a remedy that no engine has checked.

    A text that begins with `see` only says where to look (`is_pointer`).
    """
    return {"text": text, "command": command}


def is_pointer(remedy: Remedy) -> bool:
    """Return whether a remedy only says where to look, because what is wrong is not known."""
    return remedy["text"].startswith("see ")


def kubectl(obj: Json, verb: str, *more: str) -> str:
    """Return a kubectl command in the namespace of a pod or another object."""
    return " ".join(("kubectl", *verb.split(), "-n", obj["metadata"]["namespace"], *more))


def ask_for_events(obj: Json, objects: ClusterObjects) -> list[Remedy]:
    """Return who can say what the events of an object's namespace are, if they could not be read; else []."""
    if "Event" not in objects.unread:
        return []
    namespace = obj["metadata"]["namespace"]
    text = f"ask someone who may read events of namespace {namespace} what they say"
    return [make_remedy(text, kubectl(obj, "get events", "--sort-by=.lastTimestamp"))]


def quote_patch(patch: object) -> str:
    """Return a patch as an argument of a shell command."""
    return "'" + json.dumps(patch, separators=(",", ":")).replace("'", "'\\''") + "'"


def name_source(pod: Json, objects: ClusterObjects) -> str:
    """Return what has to change so that the pod and its successors change, for sentences."""
    if is_static(pod):
        return f"the static pod's manifest on {pod['spec'].get('nodeName')}"
    if manager := find_manager(pod, objects):
        return manager
    owners = list_owners(pod, objects)
    if len(owners) > 1:  # a Job keeps its template
        return f"{owners[-1].label} (and delete {owners[0].label}, which cannot be changed)"
    return owners[0].label if owners else "the pod"


def find_owner(pod: Json, objects: ClusterObjects) -> Owner | None:
    """Return the object that makes the pod and its successors, or None if the pod has no controller.

    A static pod has none: its node, which its reference names, is no object that could be changed.
    """
    owner = None if is_static(pod) else find_controller(pod)
    if owner is not None and owner["kind"] == "ReplicaSet":
        replica_set = objects.get("ReplicaSet", owner["name"], pod["metadata"]["namespace"]).object
        owner = (find_controller(replica_set) if replica_set else None) or owner
    return None if owner is None else Owner(owner["kind"], owner["name"])


def list_owners(pod: Json, objects: ClusterObjects) -> list[Owner]:
    """Return the object of `find_owner` and, if that is a Job, the CronJob that makes the next Jobs; [] without any."""
    owner = find_owner(pod, objects)
    if owner is None or owner.kind != "Job":
        return [owner] if owner else []
    job = objects.get("Job", owner.name, pod["metadata"]["namespace"]).object
    maker = find_controller(job) if job else None
    return [owner, Owner(maker["kind"], maker["name"])] if maker else [owner]


def find_manager(obj: Json, objects: ClusterObjects) -> str:
    """Return the custom object, as KIND/NAME, whose controller makes a pod or workload, or its owner, or that one's.

    It undoes changes of what it made. The result is "" without such an object, as for a Deployment that people make.
    """
    owner, namespace = None if is_static(obj) else find_controller(obj), str(obj["metadata"]["namespace"])
    while owner is not None and has_template(owner["kind"]):
        found = objects.get(owner["kind"], owner["name"], namespace).object
        owner = find_controller(found) if found else None
    return f"{owner['kind']}/{owner['name']}" if owner else ""


def change_templates(pod: Json, spec: Json, text: str, objects: ClusterObjects) -> Remedy | None:
    """Return the remedy that changes the spec in the templates of a pod and its successors, or None without a template.

    `text` says what is changed; what follows from that for pods is added to it. `spec` is a strategic merge patch.
    """
    namespace, name = str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])
    if find_manager(pod, objects):
        return None
    owners = list_owners(pod, objects)
    changed = [build_template_command(*owner, namespace, spec, pod=name) for owner in owners]
    commands = [each.command for each in changed if each is not None]
    if not owners or len(commands) < len(changed):
        return None
    follows = f"in {owners[0].label}, which replaces its pods"
    if owners[0].kind == "Job":
        follows = f"in {owners[0].label}, which is created anew"
    elif any(each is not None and each.deletes for each in changed):
        follows += f", and delete {name}, so that it is"
    follows += "".join(f", and in {owner.label}, for its next Jobs" for owner in owners[1:])
    return make_remedy(f"{text} {follows}", " && ".join(commands))


def describe_similar(name: str, existing: list[str]) -> str:
    """Return a clause on the existing names that are similar, or on all if they are few; "" if there is none."""
    from difflib import get_close_matches  # here, because few pods name an object that does not exist

    names = get_close_matches(name, existing, n=_MAX_NAMES, cutoff=0.6) or (
        existing if len(existing) <= _MAX_NAMES else []
    )
    return f" (there is {', '.join(names)})" if names else ""


def list_unknown_keys(keys: Iterable[str], objects: ClusterObjects) -> list[tuple[str, str]]:
    """Return the first keys that no node has as a label, each with the key of nodes for which it may be misspelled.

    The latter is "" if none is similar. The list is empty if not all nodes can be read, or there are none.
    """
    wanted = list(dict.fromkeys(keys))
    nodes = objects.list_objects("Node") if wanted else None
    if nodes is None or nodes.missing or not nodes.is_complete or not nodes.items:
        return []
    known = sorted({key for node in nodes.items for key in node["metadata"].get("labels") or {}})
    unknown = [key for key in wanted if key not in known][:_MAX_NEAR_KEYS]
    return [(key, _find_near_key(key, known)) for key in unknown]


def _find_near_key(key: str, known: Sequence[str]) -> str:
    """Return the label key that is most like another one; "" if none is.

    The zone and the region of one domain are different keys, however long the domain is.
    """
    from difflib import SequenceMatcher, get_close_matches  # here, because few pods name a label that no node has

    name = key.rpartition("/")[2]
    near = get_close_matches(key, known, _MAX_NAMES, _NEAR_KEY)
    names = ((each, each.rpartition("/")[2]) for each in near)
    return next((each for each, other in names if SequenceMatcher(None, name, other).ratio() >= _NEAR_NAME), "")


def describe_elsewhere(kind: str, name: str, objects: ClusterObjects) -> str:
    """Return a clause on the namespaces that have an object which a pod's own lacks; "" if none is known."""
    namespaces = objects.list_namespaces_of(kind, name, _MAX_NAMES + 1)
    if not namespaces:
        return ""
    others = " and others" if len(namespaces) > _MAX_NAMES else ""
    named = f"namespaces {', '.join(namespaces[:_MAX_NAMES])}{others} have"
    where = f"namespace {namespaces[0]} has" if len(namespaces) == 1 else named
    return f" ({where} one of that name, which only pods of its own namespace can use)"


def find_missing_objects(kind: str, names: Iterable[str], namespace: str, objects: ClusterObjects) -> Iterator[str]:
    """Yield the names of which the API server says that no such object exists."""
    for name in dict.fromkeys(names):
        if objects.get(kind, name, namespace).is_absent:
            yield name
