"""Build `live`, what only the API server knows about an answer, from its objects, and read what screens need of it.

Owns: the pure functions. Does not own: the types and what they mean (`declarations`), reading the objects. The types
are imported for type checkers alone, because creating them takes 10 ms of every answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import (
        BatchQueue,
        Fate,
        Live,
        LivePending,
        LivePod,
        LiveState,
        LiveWorkload,
        NoLongerPendingPod,
        PodCondition,
        PodWithoutDecision,
        QueuePlace,
        UntriedPod,
        ZonePods,
    )
    from herodotus_answers.node_groups import EventReport, PodNodeGroups

Json = dict[str, Any]

HASH_LABEL: Final = "pod-template-hash"  # of a Deployment's pods; their ReplicaSet's name ends with its value
HOSTNAME: Final = "kubernetes.io/hostname"
FATES_WITHOUT_POD: Final = ("deleted", "replaced")  # of a pod that no longer exists
_MIRROR: Final = "kubernetes.io/config.mirror"  # on the API server's copy of a static pod
_CONDITIONS_TO_EXPLAIN: Final = frozenset({"PodResizePending", "PodResizeInProgress", "DisruptionTarget"})
MAY_FIT: Final = "may fit"  # how the message of an incomplete evaluation begins that found a node
LIST_AGE_S: Final = 10.0  # the pod list and the decisions are read at most this far apart


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
    pod: Json | None = None,
    state: LiveState | None = None,
    replaced_by: PodWithoutDecision | None = None,
    place: QueuePlace | None = None,
    queue: BatchQueue | None = None,
    node_groups: PodNodeGroups | None = None,
    reports: Sequence[EventReport] = (),
    preempted: str = "",
    end: Sequence[str] = (),
) -> LivePod | None:
    """Return what is known now about a pod, or None if nothing is.

    `was_read` is whether the API server answered, and `pod` the Pod object that it has under that name.
    """
    if not was_read and node_groups is None:
        return None
    live: LivePod = {"source": "kube-apiserver" if was_read else "scheduler", "at": _format(at), "fate": fate}
    condition = None if pod is None or (pod.get("spec") or {}).get("nodeName") else read_scheduled(pod)
    if condition is not None:
        live["condition"] = condition
    if state is not None:
        live["state"] = state
    if replaced_by is not None:
        live["replacedBy"] = replaced_by
    if place is not None:
        live["place"] = place
    if queue is not None:
        live["queue"] = queue
    if node_groups is not None:
        live["nodeGroups"] = node_groups
    if preempted:
        live["preempted"] = preempted
    if end:
        live["end"] = list(end)
    if reports:
        live["autoscalerReports"] = list(reports)
    return live


def read_scheduled(pod: Json) -> PodCondition | None:
    """Return the condition PodScheduled of a Pod object, or None if no scheduler has set it."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    found = next((each for each in conditions if each.get("type") == "PodScheduled"), None)
    if found is None:
        return None
    return {
        "status": str(found.get("status") or ""),
        "reason": str(found.get("reason") or ""),
        "message": str(found.get("message") or ""),
        "at": found.get("lastTransitionTime"),
    }


def get_fate(answer: Mapping[str, Any]) -> str:
    """Return what became of the pod of an answer by its `live`: a value of FATES_WITHOUT_POD, or "" for any other."""
    fate = (answer.get("live") or {}).get("fate")
    return str(fate) if fate in FATES_WITHOUT_POD else ""


def is_earlier_attempt(answer: Json) -> bool:
    """Return whether a PodExplanation is about an attempt that a later one follows."""
    attempt = answer["attempt"]
    return attempt.get("lastOrdinal") is not None and attempt["lastOrdinal"] < (attempt.get("attempts") or 0)


def drop_advice(answer: Json) -> Json:
    """Return a PodExplanation without `retry`, possible changes and suggestions where they no longer apply.

    That is so for a pod that was deleted or replaced, and for an attempt that a later one follows. Any other document
    is returned unchanged.
    """
    if answer.get("kind") != "PodExplanation" or not (get_fate(answer) or is_earlier_attempt(answer)):
        return answer
    return answer | {"attempt": answer["attempt"] | {"retry": None}, "possibleChanges": [], "suggestions": []}


def is_incomplete_fit(answer: Json) -> bool:
    """Return whether a PodExplanation is an evaluation that found a node, and of which a part is not known."""
    return answer["attempt"]["source"] == "evaluated" and str(answer.get("message") or "").startswith(MAY_FIT)


def withdraw_placement(answer: Json) -> Json:
    """Return a PodExplanation without the node of an incomplete evaluation that the pod's scheduler contradicts.

    An evaluation that could not read everything says that the pod may fit. If its scheduler states that no node is
    suitable, that counts. Any other document is returned unchanged.
    """
    message = str(answer.get("message") or "")
    if answer.get("kind") != "PodExplanation" or not is_incomplete_fit(answer):
        return answer
    state = (answer.get("live") or {}).get("state") or {}
    if state.get("code") != "pod-waits-for-node" or not state["causes"]:
        return answer
    limits, nodes = message.partition(";")[0].removeprefix(MAY_FIT), answer["nodes"]
    count = f"{nodes['feasible']} of {nodes['total']} {'node' if nodes['total'] == 1 else 'nodes'}"
    headline = (
        f"No node can be named{limits}: what could be read lets the pod pass on {count}, and its scheduler found none."
    )
    return answer | {"headline": headline, "ranking": [], "rankingOmitted": 0, "tie": None, "margin": None}


# --- pending pods ---------------------------------------------------------------------------------------------------


def find_no_longer_pending(document: Mapping[str, Any], unassigned: Collection[str]) -> list[NoLongerPendingPod]:
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
    attempt would be recorded, or nothing is. A pod that is being deleted does not count.
    """
    listed = {pod["uid"] for pod in document["pods"]}
    is_complete, has_records = not (document["podsOmitted"] or document.get("source")), not document.get("noRecords")
    untried = [_read_untried(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    untried.sort(key=lambda p: (not p["schedulingGates"], p["createdAt"], p["namespace"], p["pod"]))
    return [
        pod
        for pod in untried
        if pod["uid"] not in listed
        and (
            pod["schedulingGates"] or (is_complete and (not has_records or _is_older(pod["createdAt"], document["at"])))
        )
    ]


def build_live_pending(
    at: datetime, gone: list[NoLongerPendingPod] | None, untried: list[UntriedPod], pods: Iterable[Json] = ()
) -> LivePending:
    """Return what is known now about pending pods: those that are no longer pending, and those without a record.

    `pods` are Pod objects without a node, of which those that are pinned to one are listed.
    """
    live: LivePending = {"source": "kube-apiserver", "at": _format(at), "gone": gone, "untried": untried}
    pinned = [(pod["metadata"].get("uid"), list_pinned(pod["spec"])) for pod in pods]
    if any(nodes for _, nodes in pinned):
        live["pinned"] = [{"uid": str(uid), "node": nodes[0]} for uid, nodes in pinned if len(nodes) == 1]
    return live


def list_pinned(spec: Json) -> list[str]:
    """Return the names of the nodes to which a pod is pinned by its selector or affinity; [] if it is not."""
    selected = (spec.get("nodeSelector") or {}).get(HOSTNAME)
    if selected:
        return [str(selected)]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    names: list[str] = []
    for term in required.get("nodeSelectorTerms") or ():
        pins = [*(term.get("matchFields") or ())]
        pins += [e for e in term.get("matchExpressions") or () if e["key"] == HOSTNAME]
        values = [str(v) for e in pins if e.get("operator") == "In" for v in e.get("values") or ()]
        if not values:
            return []
        names += values
    return names


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
        "schedulerName": read_scheduler(pod),
        "message": scheduled["message"] if (scheduled := read_scheduled(pod)) else "",
        "schedulingGates": [gate["name"] for gate in spec.get("schedulingGates") or ()],
    }


def has_ended(pod: Json) -> bool:
    """Return whether the Pod object is of a pod all of whose containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    """Return whether the Pod object is of a pod that has not ended and is not being deleted."""
    return not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")


def read_scheduler(pod: Json) -> str:
    """Return the scheduler that a Pod object is for; without a name the API server's default."""
    return str(pod["spec"].get("schedulerName") or "default-scheduler")


def find_controller(obj: Json) -> Json | None:
    """Return the owner reference of an object's controller, or None if it has none."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def read_owner(pod: Json) -> str | None:
    """Return the controller of a Pod object as KIND/NAME, or None if it has none."""
    owner = find_controller(pod)
    return None if owner is None else f"{owner['kind']}/{owner['name']}"


def find_deployment(kind: str, name: str, labels: Mapping[str, str]) -> str:
    """Return the Deployment behind a pod's controller, or "" if it has none. `labels` are those of the pod."""
    template = labels.get(HASH_LABEL)
    is_revision = kind == "ReplicaSet" and template and name.endswith(f"-{template}")
    return name.removesuffix(f"-{template}") if is_revision else ""


def read_workload(pod: Json) -> str:
    """Return the Deployment behind a Pod object's ReplicaSet, else its controller, as KIND/NAME; "" without one."""
    owner = read_owner(pod) or ""
    kind, _, name = owner.partition("/")
    deployment = find_deployment(kind, name, pod["metadata"].get("labels") or {})
    return f"Deployment/{deployment}" if deployment else owner


def is_of_daemon_set(owner: str | None) -> bool:
    """Return whether a pod whose controller is `owner`, as KIND/NAME, belongs to a DaemonSet, and so to one node."""
    return owner is not None and owner.startswith("DaemonSet/")


def was_created_with_node(pod: Json) -> bool:
    """Return whether the pod had spec.nodeName from the start, so that no scheduler decides it.

    Binding sets the condition PodScheduled and leaves no trace of spec.nodeName among the managed fields.
    """
    if not pod["spec"].get("nodeName"):
        return False
    if is_node_name_managed(pod):
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not any(condition.get("type") == "PodScheduled" for condition in conditions)


def is_node_name_managed(pod: Json) -> bool:
    """Return whether a client wrote spec.nodeName itself: a binding leaves no trace among the managed fields."""
    fields = [entry.get("fieldsV1") or {} for entry in pod["metadata"].get("managedFields") or ()]
    return any("f:nodeName" in (field.get("f:spec") or {}) for field in fields)


def is_static(pod: Json) -> bool:
    """Return whether the kubelet of its node made the pod, from a file or URL: the API server has a copy alone."""
    return _MIRROR in (pod["metadata"].get("annotations") or {})


def is_running_well(pod: Json) -> bool:
    """Return whether the Pod object shows a pod that runs, is ready, stays, and was placed by a scheduler.

    The decision says all about such a pod, so that nothing more is read.
    """
    status = pod.get("status") or {}
    conditions = {each.get("type"): each.get("status") for each in status.get("conditions") or ()}
    return (
        status.get("phase") == "Running"
        and conditions.get("Ready") == "True"
        and not pod["metadata"].get("deletionTimestamp")
        and not conditions.keys() & _CONDITIONS_TO_EXPLAIN
        and not was_created_with_node(pod)
        and not is_static(pod)
        and not any(map(_has_trouble, status.get("containerStatuses") or ()))
        and not _may_be_restarted_by_resize(pod)
        and not any((each.get("state") or {}).get("waiting") for each in status.get("ephemeralContainerStatuses") or ())
    )


def _has_trouble(status: Json) -> bool:
    """Return whether a container was restarted after a failure."""
    end = (status.get("lastState") or {}).get("terminated") or {}
    return bool(end.get("exitCode"))


def list_restarting_resizes(container: Json) -> list[str]:
    """Return the resources of which a change restarts a container."""
    policies = container.get("resizePolicy") or ()
    return [str(each["resourceName"]) for each in policies if each.get("restartPolicy") == "RestartContainer"]


def _may_be_restarted_by_resize(pod: Json) -> bool:
    """Return whether a container was restarted, and changes of its resources restart it."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ended = {each.get("name") for each in statuses if (each.get("lastState") or {}).get("terminated")}
    return any(each["name"] in ended and list_restarting_resizes(each) for each in pod["spec"].get("containers") or ())


# --- workloads ------------------------------------------------------------------------------------------------------


def build_live_workload(at: datetime, nodes: Sequence[Mapping[str, Any]], zone_of: Mapping[str, str]) -> LiveWorkload:
    """Return the pods by zone; no zones if none is known.

    `nodes` are those of a WorkloadPlacement, and `zone_of` has the zone by node name.
    """
    counts = Counter[str]()
    for node in nodes if zone_of else ():
        counts[zone_of.get(node["node"], "")] += node["pods"]
    zones = sorted(counts.items(), key=lambda c: (not c[0], -c[1], c[0]))
    rows: list[ZonePods] = [{"zone": zone, "pods": n} for zone, n in zones]
    return {"source": "kube-apiserver", "at": _format(at), "zones": rows}
