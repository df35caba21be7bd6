"""Declare `live`: the part of an answer that only the API server knows, as it is now.

The decisions service answers from records and reads no objects of the cluster. A reader with the right to read them,
such as the plugin, may add one field `live` to an answer. It never changes another field, so the same document comes
from the service, from its Python client and from the plugin, and only `live` may be missing:

- The answer says what was recorded: `attempt.retry` of a pod that was deleted since, or a pod among `pods` that was
  placed since. `live` says what differs now, where it was read (`source`), and when (`at`).
- Readers who want the present state apply `live`: a pod is not pending if its UID is in `live.gone`, and nothing helps
  a pod whose `live.fate` is `deleted` or `replaced`. Screens do so, with `drop_advice` and `pending.apply_live`.
- `live` is absent if nothing was read. A field of it that could not be read is absent or null, and says nothing.

The plugin adds it to documents (`-o json`) too. Only what needs more requests after the answer is left to screens: who
holds what the pod lacks, and which rights for a suggestion the reader lacks.

Owns: the types, and the pure functions that build them from objects of the API server. Does not own: reading the
objects, documents about pods without a decision (`unrecorded`). Imports nothing that takes long, because the plugin
imports it for most answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Annotated, Any, Final, Literal, TypedDict

from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.node_groups import PodNodeGroups

Json = dict[str, Any]
Fate = Literal["exists", "deleted", "replaced"]

FATES_WITHOUT_POD: Final = ("deleted", "replaced")  # of a pod that no longer exists
LIST_AGE_S: Final = 10.0  # the pod list and the decisions are read at most this far apart


class Live(TypedDict):
    """Fields that every `live` has: where and when it was read."""

    source: Annotated[
        Literal["kube-apiserver", "scheduler"],
        "Where it was read; `scheduler` if the API server was not read and only a running scheduler evaluated.",
    ]
    at: Annotated[str, "Time at which it was read."]


class QueueQuota(TypedDict):
    """Quota of one resource."""

    flavor: Annotated[str | None, "Kueue's ResourceFlavor."]
    resource: Annotated[str, "Name of the resource."]
    used: Annotated[str | None, "Amount in use."]
    limit: Annotated[str | None, "Nominal quota or capability."]


class BatchQueue(TypedDict):
    """The queue of Kueue or Volcano in which a pod waits, as their objects describe it."""

    by: Annotated[Literal["Kueue", "Volcano"], "Whose objects they are."]
    object: Annotated[str | None, "The pod's Workload or PodGroup, as KIND/NAME; null if it is not known."]
    localQueue: Annotated[str | None, "Kueue's LocalQueue."]
    queue: Annotated[str | None, "Kueue's ClusterQueue, or Volcano's Queue."]
    state: Annotated[str | None, "State of the object."]
    message: Annotated[str | None, "Message of the condition that says so."]
    minMember: Annotated[int | None, "Number of pods that Volcano's PodGroup needs."]
    position: Annotated[int | None, "Position in the LocalQueue, from 1."]
    waiting: Annotated[int | None, "Number of Workloads or PodGroups that wait in the queue."]
    quota: Annotated[list[QueueQuota], "Quota of the queue."]
    notes: Annotated[list[str], "Objects that could not be read, and why."]


class LivePod(Live):
    """What the API server knows now about the pod of an answer."""

    fate: Annotated[
        Fate | None,
        "Whether the pod still exists, was deleted, or was replaced by another pod of its name; null if unknown.",
    ]
    replacedBy: NotRequired[
        Annotated[
            UndecidedPod,
            "The pod that has the name now, a GatedPod or UnrecordedPod, if it is known why no scheduler decided it.",
        ]
    ]
    queue: NotRequired[
        Annotated[BatchQueue, "Queue of Kueue or Volcano in which the pod waits; absent for other pods."]
    ]
    nodeGroups: NotRequired[Annotated[PodNodeGroups, "Verdicts of node groups on the pod, evaluated now."]]


class UndecidedPod(Document):
    """A pod without a decision, from its object alone."""

    createdAt: Annotated[str, "Time at which the pod was created."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    schedulerName: Annotated[str, "The pod's spec.schedulerName."]
    headline: Annotated[str, "Why there is no decision, in one sentence."]


class GatedPod(UndecidedPod):
    """A pod that waits for its scheduling gates. Only the plugin makes this document."""

    kind: Literal["GatedPod"]
    schedulingGates: Annotated[list[str], "Names of the gates."]
    live: NotRequired[Annotated[LivePod, "What else the API server knows, such as the queue of the pod."]]


class UnrecordedPod(UndecidedPod):
    """A pod that no scheduler decided, or whose scheduler is not recorded. Only the plugin makes this document."""

    kind: Literal["UnrecordedPod"]
    node: Annotated[str | None, "Node of the pod."]
    cause: Annotated[Literal["NodeName", "SchedulerNotRecorded"], "Why there is no decision."]
    possibleChanges: Annotated[list[str], "What to do to get an explanation."]
    live: NotRequired[Annotated[LivePod, "What else the API server knows, such as the queue of the pod."]]


class GonePod(TypedDict):
    """A pod that is pending by its records but that the API server has placed or no longer has."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    startedAt: Annotated[str | None, "Start of its last attempt."]
    fate: Annotated[Literal["deleted", "replaced", "placed"] | None, "What became of it; null if unknown."]


class UntriedPod(TypedDict):
    """A pod without a node and without a recorded attempt."""

    namespace: Annotated[str, "Namespace of the pod."]
    pod: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    createdAt: Annotated[str, "Time at which the pod was created."]
    schedulerName: Annotated[str, "Scheduler that the pod waits for, which is not recorded or has not tried it yet."]
    schedulingGates: Annotated[list[str], "Its scheduling gates, which keep every scheduler from trying it."]


class LivePending(Live):
    """What the API server knows now about the pods of a list of pending pods."""

    gone: Annotated[
        list[GonePod] | None, "Pods of `pods` that are no longer pending; null if it is not known which are."
    ]
    untried: Annotated[list[UntriedPod], "Pending pods that `pods` lacks, because no record mentions them."]


class ZonePods(TypedDict):
    """Pods in one zone."""

    zone: Annotated[str, "Name of the zone; empty for nodes without one."]
    pods: Annotated[int, "Number of pods."]


class LiveWorkload(Live):
    """What the API server knows now about the nodes of a workload."""

    zones: Annotated[list[ZonePods], "Pods by the present zone of their node, most first, those without a zone last."]


def add_live(answer: Json, live: Live | None) -> Json:
    """Return the answer with `live`, or unchanged if that is None."""
    return answer if live is None else answer | {"live": live}


def _format(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds")


# --- one pod --------------------------------------------------------------------------------------------------------


def find_fate(uid: str | None, pod: Json | None) -> Fate | None:
    """Return what became of the pod with this UID, from the Pod object that has its name now; None if unknown.

    `pod` is None if the API server has no pod of that name.
    """
    if pod is None:
        return "deleted"
    present = (pod.get("metadata") or {}).get("uid")
    if not uid or not present:
        return None
    return "exists" if uid == present else "replaced"


def build_live_pod(
    at: datetime,
    fate: Fate | None,
    *,
    was_read: bool = True,
    replaced_by: UndecidedPod | None = None,
    queue: BatchQueue | None = None,
    node_groups: PodNodeGroups | None = None,
) -> LivePod | None:
    """Return what is known now about a pod, or None if nothing is. `was_read` is whether the API server answered."""
    if not was_read and node_groups is None:
        return None
    live: LivePod = {"source": "kube-apiserver" if was_read else "scheduler", "at": _format(at), "fate": fate}
    if replaced_by is not None:
        live["replacedBy"] = replaced_by
    if queue is not None:
        live["queue"] = queue
    if node_groups is not None:
        live["nodeGroups"] = node_groups
    return live


def get_fate(answer: Mapping[str, Any]) -> str:
    """Return what became of the pod of an answer by its `live`: a value of FATES_WITHOUT_POD, or "" for any other."""
    fate = (answer.get("live") or {}).get("fate")
    return str(fate) if fate in FATES_WITHOUT_POD else ""


def drop_advice(answer: Json) -> Json:
    """Return a PodExplanation to show: of a pod that no longer exists without retry and suggestions."""
    if answer.get("kind") != "PodExplanation" or not get_fate(answer):
        return answer
    return answer | {"attempt": answer["attempt"] | {"retry": None}, "possibleChanges": [], "suggestions": []}


# --- pending pods ---------------------------------------------------------------------------------------------------


def find_gone(document: Mapping[str, Any], unassigned: Collection[str]) -> list[GonePod]:
    """Return the pods of a PendingPods document that were deleted or bound, whose fate is unknown so far.

    `unassigned` holds the UIDs of all pods without a node in the API server. A pod created while they were read may be
    missing among them, so the youngest pods do not count.
    """
    return [
        {"namespace": p["namespace"], "pod": p["pod"], "uid": p["uid"], "startedAt": p["startedAt"], "fate": None}
        for p in document["pods"]
        if p["uid"] not in unassigned and _is_older(p["createdAt"] or p["startedAt"], document["at"])
    ]


def find_untried(document: Mapping[str, Any], pods: Iterable[Json]) -> list[UntriedPod]:
    """Return the pods that a PendingPods document lacks. `pods` are Pod objects without a node.

    A pod without gates counts only if the document lists all recorded pods, and if the pod is old enough that an
    attempt would be recorded. A pod that is being deleted does not count.
    """
    listed = {pod["uid"] for pod in document["pods"]}
    is_complete = not (document["podsOmitted"] or document.get("noRecords") or document.get("source"))
    untried = [_read_untried(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    untried.sort(key=lambda p: (not p["schedulingGates"], p["createdAt"], p["namespace"], p["pod"]))
    return [
        pod
        for pod in untried
        if pod["uid"] not in listed
        and (pod["schedulingGates"] or (is_complete and _is_older(pod["createdAt"], document["at"])))
    ]


def build_live_pending(at: datetime, gone: list[GonePod] | None, untried: list[UntriedPod]) -> LivePending:
    """Return what is known now about pending pods: those that are no longer pending, and those without a record."""
    return {"source": "kube-apiserver", "at": _format(at), "gone": gone, "untried": untried}


def _is_older(since: str, at: str) -> bool:
    """Return whether the timestamp `since` is more than LIST_AGE_S before the timestamp `at`.

    A pod that was created then is in every pod list that was read around `at`, unless it was deleted or bound.
    """
    created, read = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (since, at))
    return (read - created).total_seconds() > LIST_AGE_S


def _read_untried(pod: Json) -> UntriedPod:
    metadata, spec = pod["metadata"], pod["spec"]
    return {
        "namespace": metadata["namespace"],
        "pod": metadata["name"],
        "uid": metadata["uid"],
        "owner": read_owner(pod),
        "createdAt": metadata["creationTimestamp"],
        "schedulerName": spec.get("schedulerName") or "default-scheduler",
        "schedulingGates": [gate["name"] for gate in spec.get("schedulingGates") or ()],
    }


def read_owner(pod: Json) -> str | None:
    """Return the controller of a Pod object as KIND/NAME, or None if it has none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((f"{owner['kind']}/{owner['name']}" for owner in owners if owner.get("controller")), None)


# --- workloads ------------------------------------------------------------------------------------------------------


def build_live_workload(
    at: datetime, nodes: Sequence[Mapping[str, Any]], zone_of: Mapping[str, str]
) -> LiveWorkload | None:
    """Return the pods by zone, or None if no zone is known.

    `nodes` are those of a WorkloadPlacement, and `zone_of` has the zone by node name.
    """
    if not zone_of:
        return None
    counts = Counter[str]()
    for node in nodes:
        counts[zone_of.get(node["node"], "")] += node["pods"]
    zones = sorted(counts.items(), key=lambda c: (not c[0], -c[1], c[0]))
    rows: list[ZonePods] = [{"zone": zone, "pods": n} for zone, n in zones]
    return {"source": "kube-apiserver", "at": _format(at), "zones": rows}
