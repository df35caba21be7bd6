"""Pods that wait for Kueue, Volcano or coscheduling: what their own objects say, read with the user's rights.

Kueue keeps a pod behind a scheduling gate until its Workload is admitted. Volcano, and the plugin Coscheduling of
scheduler-plugins, schedule the pods of their own PodGroups. None is this project's scheduler, so no record explains
such a pod.

Owns: which objects belong to a pod, and what they say. Does not own: the answer's type
(`herodotus_answers.live.declarations`), requests (`transport`), layout (`render.pod`).

Invariant: only values of these objects are passed on. An object that is not served or may not be read is named in
`notes`, and nothing is guessed in its place.

Source: the APIs kueue.x-k8s.io/v1beta1 and v1beta2, visibility.kueue.x-k8s.io/v1beta1, scheduling.volcano.sh/v1beta1,
and scheduling.x-k8s.io/v1alpha1 with earlier names in scheduler-plugins pkg/coscheduling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlencode

from herodotus_answers.live.objects import is_active
from herodotus_cli.errors import CliError, ServerError
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import BatchQueue, BatchQueueQuota

Json = dict[str, Any]
Get = Callable[[str], Json]  # returns the object at a path of the API server; raises CliError

_KUEUE_GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"  # label: the name of the Workload of several pods
_VOLCANO_GROUP = "scheduling.k8s.io/group-name"  # annotation: the name of Volcano's PodGroup
_KUEUE_API, _VISIBILITY_API = "/apis/kueue.x-k8s.io", "/apis/visibility.kueue.x-k8s.io/v1beta1"
_VOLCANO_API = "/apis/scheduling.volcano.sh/v1beta1"
# Labels of scheduler-plugins' coscheduling with the name of a PodGroup, and the API that has it; None: labels have all.
_COSCHEDULING = {
    "scheduling.x-k8s.io/pod-group": "/apis/scheduling.x-k8s.io/v1alpha1",
    "pod-group.scheduling.sigs.k8s.io": "/apis/scheduling.sigs.k8s.io/v1alpha1",
    "pod-group.scheduling.sigs.k8s.io/name": None,
}
_MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
_NEWEST_KNOWN = ("v1beta2", "v1beta1")


def read_queue(pod: Json, get: Get) -> BatchQueue | None:
    """Return the queue or group of a pod without a node that waits for Kueue, Volcano or coscheduling, else None."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    if spec.get("nodeName"):
        return None
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    group = _read_volcano_group(pod)
    if any(gate in _KUEUE_GATES for gate in gates):
        return _read_kueue(pod, _Reader(get))
    if group:
        answer = _read_volcano(metadata["namespace"], group, reader := _Reader(get))
        pods = reader.list(api_paths.namespaced("/api/v1", metadata["namespace"], "pods"), "pods of the group") or ()
        return _add_blocking(answer, pod, [each for each in pods if _read_volcano_group(each) == group])
    label = next((label for label in _COSCHEDULING if (metadata.get("labels") or {}).get(label)), None)
    if label is None:
        return None
    answer, members = _read_coscheduling(pod, label, _Reader(get))
    return _add_blocking(answer, pod, members)


class GroupObjects(NamedTuple):
    """What objects say about a group: its queue, None if no batch system has it, its pods, and what was not read."""

    queue: BatchQueue | None
    pods: list[Json]
    notes: list[str]


def read_group(namespace: str, name: str, get: Get) -> GroupObjects | None:
    """Return a group's queue, pods and notes, or None if nothing of that name is found.

    The group may be one of Kueue, Volcano, coscheduling or Kubernetes. It is known by its PodGroup, of Volcano or
    coscheduling, or by the pods that name it.
    """
    reader = _Reader(get)
    path = api_paths.namespaced("/api/v1", namespace, "pods")
    pods = list(filter(is_active, reader.list(path, "pods of the namespace") or ()))

    def select(names: Callable[[Json], Any]) -> list[Json]:
        return [pod for pod in pods if names(pod) == name]

    kueue = select(lambda pod: (pod["metadata"].get("labels") or {}).get(_KUEUE_GROUP))
    if kueue:
        return GroupObjects(_read_kueue(kueue[0], reader), kueue, [])
    volcano = select(_read_volcano_group)
    if volcano or reader.probe(api_paths.namespaced(_VOLCANO_API, namespace, "podgroups", name)):
        return GroupObjects(_read_volcano(namespace, name, reader), volcano, [])
    for label, root in _COSCHEDULING.items():
        members = select(lambda pod, label=label: (pod["metadata"].get("labels") or {}).get(label))  # type: ignore[misc]
        if members or (root and reader.probe(api_paths.namespaced(root, namespace, "podgroups", name))):
            group: Json = {"metadata": {"namespace": namespace, "labels": {label: name}}}
            return GroupObjects(_read_coscheduling(members[0] if members else group, label, reader)[0], members, [])
    own = select(lambda pod: ((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName"))
    return GroupObjects(None, own, reader.notes) if own else None


class _Reader:
    """Reads objects, and keeps a sentence for each one that cannot be read."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self.notes: list[str] = []

    def find(self, path: str, what: str) -> Json | None:
        """Return the object at a path. If it cannot be read, add a note that says why, and return None.

        `what` names the object in the note.
        """
        try:
            return self._get(path)
        except ServerError as e:
            why = {"NotFound": "not found", "Forbidden": "you may not read it"}.get(e.reason, e.words)
        except CliError as e:
            why = e.message.removeprefix("error: ")
        self.notes.append(f"{what}: {why}")
        return None

    def list(self, path: str, what: str) -> list[Json] | None:
        """Return the items of the list at a path. If it cannot be read, add a note about `what`, and return None."""
        document = self.find(path, what)
        return None if document is None else [item for item in document.get("items") or () if isinstance(item, dict)]

    def probe(self, path: str) -> Json | None:
        """Return the object at a path, or None without a note."""
        noted = len(self.notes)
        document = self.find(path, "")
        del self.notes[noted:]
        return document


def _describe(by: Literal["Kueue", "Volcano", "Coscheduling"], name: str, reader: _Reader) -> BatchQueue:
    """Return a queue of the system `by` whose fields are empty, except its object and the reader's notes.

    `name` is the object's KIND/NAME, or "" if unknown.
    """
    return {
        "by": by,
        "object": name or None,
        "localQueue": None,
        "queue": None,
        "state": None,
        "message": None,
        "minMember": None,
        "position": None,
        "waiting": None,
        "quota": [],
        "notes": reader.notes,
    }


# --- Kueue ----------------------------------------------------------------------------------------------------------


def _read_kueue(pod: Json, reader: _Reader) -> BatchQueue:
    namespace = pod["metadata"]["namespace"]
    version = _find_version(reader)
    if version is None:
        reader.notes.append("Kueue's API (kueue.x-k8s.io) is not served or may not be read")
        return _describe("Kueue", "", reader)
    root = f"{_KUEUE_API}/{version}"
    workloads = reader.list(api_paths.namespaced(root, namespace, "workloads"), "Workloads of the namespace")
    own = next((each for each in workloads or () if _belongs(each, pod)), None)
    if own is None:
        if workloads is not None:
            reader.notes.append("no Workload of the namespace belongs to the pod")
        return _describe("Kueue", "", reader)
    answer = _describe("Kueue", f"Workload/{own['metadata']['name']}", reader)
    queue = answer["localQueue"] = (own.get("spec") or {}).get("queueName")
    answer["state"], answer["message"] = _summarize_workload(own)
    if queue and answer["state"] == "waiting for quota":
        answer["position"], answer["waiting"] = _find_position(own, workloads or [], queue, namespace, reader)
    answer["queue"] = _find_cluster_queue(own, queue, root, namespace, reader)
    if answer["queue"]:
        answer["quota"] = _read_quota(f"{root}/clusterqueues/{answer['queue']}", answer["queue"], reader)
    return answer


def _find_version(reader: _Reader) -> str | None:
    """Return the newest version of Kueue's API that is served and known here, or None."""
    served = reader.probe(_KUEUE_API)
    versions = {each.get("version") for each in (served or {}).get("versions") or ()}
    return next((version for version in _NEWEST_KNOWN if version in versions), None)


def _belongs(workload: Json, pod: Json) -> bool:
    """Return whether a Workload is that of the pod, of the pod's owner, or of the pod's group."""
    metadata = pod["metadata"]
    owners = {owner.get("uid") for owner in workload["metadata"].get("ownerReferences") or ()}
    uids = {metadata.get("uid"), *(owner.get("uid") for owner in metadata.get("ownerReferences") or ())}
    group = (metadata.get("labels") or {}).get(_KUEUE_GROUP)
    return bool((owners & uids) - {None}) or (bool(group) and workload["metadata"]["name"] == group)


def _summarize_workload(workload: Json) -> tuple[str, str | None]:
    """Return the state of a Workload in words, and the message of its condition, or None if it has no message."""
    conditions = {each.get("type"): each for each in (workload.get("status") or {}).get("conditions") or ()}
    if (workload.get("spec") or {}).get("active") is False:
        return "deactivated", (conditions.get("Evicted") or {}).get("message")
    for kind, state in (("Admitted", "admitted"), ("QuotaReserved", "quota reserved, waiting for admission checks")):
        if (conditions.get(kind) or {}).get("status") == "True":
            return state, conditions[kind].get("message")
    waiting = conditions.get("QuotaReserved") or conditions.get("Evicted") or {}
    return "waiting for quota", waiting.get("message")


def _find_position(own: Json, workloads: list[Json], queue: str, namespace: str, reader: _Reader) -> tuple[int, int]:
    """Return the position of a Workload in its LocalQueue, counted from 1, and how many wait there.

    Both come from Kueue's visibility API, or without it from an order by priority and age, as Kueue sorts a queue.
    """
    shown = reader.probe(f"{api_paths.namespaced(_VISIBILITY_API, namespace, 'localqueues', queue)}/pendingworkloads")
    if shown is not None:
        items = [item for item in shown.get("items") or () if isinstance(item, dict)]
        mine = next((i for i in items if (i.get("metadata") or {}).get("name") == own["metadata"]["name"]), None)
        if mine is not None:
            return mine.get("positionInLocalQueue", 0) + 1, len(items)
    waiting = [
        each
        for each in workloads
        if (each.get("spec") or {}).get("queueName") == queue and _summarize_workload(each)[0] == "waiting for quota"
    ]
    waiting.sort(key=lambda each: (-(each["spec"].get("priority") or 0), each["metadata"].get("creationTimestamp", "")))
    return waiting.index(own) + 1, len(waiting)


def _find_cluster_queue(own: Json, queue: str | None, root: str, namespace: str, reader: _Reader) -> str | None:
    """Return the name of the ClusterQueue of the Workload `own`, or None if it is not known.

    If the Workload's status does not have it, it is read from the LocalQueue `queue`, unless that is None.
    """
    name: str | None = ((own.get("status") or {}).get("admission") or {}).get("clusterQueue")
    if not name and queue:
        local = reader.find(api_paths.namespaced(root, namespace, "localqueues", queue), f"LocalQueue {queue}")
        name = ((local or {}).get("spec") or {}).get("clusterQueue")
    return name or None


def _read_quota(path: str, name: str, reader: _Reader) -> list[BatchQueueQuota]:
    """Return how much of each quota of a ClusterQueue is in use."""
    cluster_queue = reader.find(path, f"ClusterQueue {name}") or {}
    used = {
        (flavor.get("name"), resource.get("name")): resource.get("total")
        for flavor in (cluster_queue.get("status") or {}).get("flavorsUsage") or ()
        for resource in flavor.get("resources") or ()
    }
    return [
        {
            "flavor": flavor.get("name"),
            "resource": resource.get("name"),
            "used": _text(used.get((flavor.get("name"), resource.get("name")))),
            "limit": _text(resource.get("nominalQuota")),
        }
        for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for resource in flavor.get("resources") or ()
    ]


# --- Volcano --------------------------------------------------------------------------------------------------------


def _read_volcano(namespace: str, group: str, reader: _Reader) -> BatchQueue:
    answer = _describe("Volcano", f"PodGroup/{group}", reader)
    pod_group = reader.find(
        api_paths.namespaced(_VOLCANO_API, namespace, "podgroups", group), f"Volcano's PodGroup {group}"
    )
    if pod_group is None:
        return answer
    spec, status = pod_group.get("spec") or {}, pod_group.get("status") or {}
    conditions = [each for each in status.get("conditions") or () if each.get("status") == "True"]
    last: Json = max(conditions, key=lambda each: each.get("lastTransitionTime") or "", default={})
    answer["state"], answer["message"] = status.get("phase") or "Pending", last.get("message") or last.get("reason")
    answer["queue"], answer["minMember"] = spec.get("queue") or "default", spec.get("minMember")
    queue = reader.find(f"{_VOLCANO_API}/queues/{answer['queue']}", f"Volcano's Queue {answer['queue']}")
    if queue is not None:
        of_queue = queue.get("status") or {}
        limits = (queue.get("spec") or {}).get("capability") or {}
        used = of_queue.get("allocated") or {}
        answer["waiting"] = of_queue.get("pending")
        answer["quota"] = [
            {"flavor": None, "resource": name, "used": _text(used.get(name)), "limit": _text(limit)}
            for name, limit in sorted(limits.items())
        ]
    return answer


def _read_volcano_group(pod: Json) -> str | None:
    """Return the name of the pod's PodGroup of Volcano, or None if it belongs to none."""
    name: str | None = (pod["metadata"].get("annotations") or {}).get(_VOLCANO_GROUP)
    return name


def _add_blocking(answer: BatchQueue, pod: Json, members: list[Json]) -> BatchQueue:
    """Return the answer about a group with the other ones of its pods that have no node."""
    from herodotus_answers.undecided_group import describe_blocking  # here, because few pods belong to such a group

    blocking = describe_blocking(list(filter(is_active, members)), pod["metadata"].get("name", ""))
    if blocking:
        words = f"other pods of the group without a node: {blocking}"
        answer["message"] = f"{answer['message']}; {words}" if answer["message"] else words
    return answer


# --- coscheduling of scheduler-plugins -----------------------------------------------------------------------------


def _read_coscheduling(pod: Json, label: str, reader: _Reader) -> tuple[BatchQueue, list[Json]]:
    """Return the answer about the group of a pod, and the pods of the group."""
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"]["labels"]
    name, root = str(labels[label]), _COSCHEDULING[label]
    answer = _describe("Coscheduling", f"PodGroup/{name}", reader)
    answer["state"] = "Pending"
    if root is None:
        minimum = str(labels.get(_MIN_AVAILABLE) or "")
        answer["minMember"] = int(minimum) if minimum.isdecimal() else None
    elif group := reader.find(
        api_paths.namespaced(root, namespace, "podgroups", name), f"PodGroup {name} ({root[6:]})"
    ):
        answer["minMember"] = (group.get("spec") or {}).get("minMember")
        answer["state"] = (group.get("status") or {}).get("phase") or "Pending"
    selector = urlencode({"labelSelector": f"{label}={name}"})
    pods = reader.list(f"{api_paths.namespaced('/api/v1', namespace, 'pods')}?{selector}", "pods of the group")
    if pods is not None:
        answer["message"] = _count_members(pods, answer["minMember"])
    return answer, pods or []


def _count_members(pods: list[Json], minimum: int | None) -> str:
    """Return a clause on how many pods of a group exist, of the `minimum` that it needs, and how many have a node."""
    present = list(filter(is_active, pods))
    placed = sum(bool((pod.get("spec") or {}).get("nodeName")) for pod in present)
    nodes = f"{placed} of them {'has' if placed == 1 else 'have'} a node"
    if minimum is None:
        return (
            f"{len(present)} {'pod of the group exists' if len(present) == 1 else 'pods of the group exist'}; {nodes}"
        )
    only = "only " if len(present) < minimum else ""
    return f"{only}{len(present)} of the {minimum} pods that the group needs exist; {nodes}"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
