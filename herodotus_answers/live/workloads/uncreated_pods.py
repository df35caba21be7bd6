"""Find workloads whose pods were never created, so that no list of pending pods has them: what refused the pods.

Owns: which workloads these are. Does not own: what a refusal means (`refusal_causes`), reading (`cluster_objects`).
Pure.

Invariant: a workload is only listed if its own status says that it lacks pods now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.objects import find_controller
from herodotus_answers.live.workload_objects import Workload
from herodotus_answers.live.workloads.job_state import count_wanted
from herodotus_answers.live.workloads.refusal_causes import explain_refusal
from herodotus_answers.live.workloads.workload_events import find_refusal

if TYPE_CHECKING:
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import UncreatedPods

Json = dict[str, Any]
_MAX_WORKLOADS: Final = 5  # that are listed, with about six requests each
_MAX_READ: Final = 20  # objects: events remain for an hour after the pods could be created
_MAX_PAGES: Final = 10  # of events, which the API server lists by name: the newest refusal may be on the last page
_REFUSED: Final = "reason=FailedCreate"
_MAKERS: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job")


class Uncreated(NamedTuple):
    """Workloads that cannot create pods, and the number of further objects with refusals that were not looked at."""

    workloads: list[UncreatedPods]
    omitted: int


def find_uncreated(objects: ClusterObjects, namespace: str, now: datetime) -> Uncreated:
    """Return the workloads of a namespace that cannot create pods, those with the newest refusal first.

    An empty `namespace` means all. Controllers repeat the event of a refusal for as long as it lasts.
    """
    events = objects.list_objects("Event", namespace, fields=_REFUSED, pages=_MAX_PAGES).items
    subjects = dict.fromkeys(map(_read_subject, sorted(events, key=read_event_time, reverse=True)))
    refused = [each for each in subjects if each[0] in _MAKERS]
    found: dict[tuple[str, str], UncreatedPods] = {}
    looked_at = 0
    for kind, name, where in refused[:_MAX_READ]:
        if len(found) == _MAX_WORKLOADS:
            break
        looked_at += 1
        workload, missing = _find_workload(kind, name, where, objects, now)
        if workload is None or missing <= 0 or (where, workload.label) in found:
            continue
        refusal = find_refusal(workload, missing)
        if refusal is None:
            continue
        reason = explain_refusal(refusal, workload)["text"]
        found[where, workload.label] = {
            "namespace": where,
            "workload": workload.label,
            "missing": missing,
            "reason": reason,
        }
    return Uncreated(list(found.values()), len(refused) - looked_at)


def _find_workload(
    kind: str, name: str, namespace: str, objects: ClusterObjects, now: datetime
) -> tuple[Workload | None, int]:
    """Return the workload of an object that creates pods, and how many pods the object lacks.

    The workload of a Deployment's ReplicaSet is the Deployment. None: it does not exist, or cannot be read.
    """
    maker = Workload(kind, name, namespace, objects, now)
    missing = _count_missing(maker) if maker.is_read else 0
    parent = find_controller(maker.object) if missing > 0 else None
    is_of_deployment = parent is not None and parent["kind"] == "Deployment"
    workload = Workload("Deployment", parent["name"], namespace, objects, now) if parent and is_of_deployment else maker
    return (workload if workload.is_read else None), missing


def _read_subject(event: Json) -> tuple[str, str, str]:
    """Return the kind, the name and the namespace of the object that an event is about."""
    about = event.get("involvedObject") or {}
    return str(about.get("kind")), str(about.get("name")), str(about.get("namespace") or "")


def _count_missing(maker: Workload) -> int:
    """Return how many pods an object lacks, as its status says."""
    status = maker.status
    if maker.kind == "Job":
        return (count_wanted(maker) or 0) - int(status.get("active") or 0)
    if maker.kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled") or 0) - int(status.get("currentNumberScheduled") or 0)
    return int(maker.spec.get("replicas", 1)) - int(status.get("replicas") or 0)
