"""Find workloads whose pods were never created, so that no list of pending pods has them: what refused the pods.

Owns: which workloads these are. Does not own: what a refusal means (`refusal_causes`), reading (`cluster_objects`).
Pure.

Invariant: a workload is only listed if its own status says that it lacks pods now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.objects import find_controller
from herodotus_answers.live.workload_objects import Workload
from herodotus_answers.live.workloads.refusal_causes import explain_refusal
from herodotus_answers.live.workloads.workload_events import find_refusal

if TYPE_CHECKING:
    from datetime import datetime

    from herodotus_answers.live.cluster_objects import ClusterObjects
    from herodotus_answers.live.declarations import UncreatedPods

Json = dict[str, Any]
_MAX_WORKLOADS: Final = 5  # with about six requests each
_REFUSED: Final = "reason=FailedCreate"
_MAKERS: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")


def find_uncreated(objects: ClusterObjects, namespace: str, now: datetime) -> Iterator[UncreatedPods]:
    """Yield the workloads of a namespace that cannot create pods, those with the newest refusal first.

    An empty `namespace` means all. Controllers repeat the event of a refusal for as long as it lasts.
    """
    events = objects.list_objects("Event", namespace, fields=_REFUSED).items
    refused = dict.fromkeys(map(_read_subject, sorted(events, key=read_event_time, reverse=True)))
    listed = set[tuple[str, str]]()
    for kind, name, where in [each for each in refused if each[0] in _MAKERS][:_MAX_WORKLOADS]:
        maker = objects.get(kind, name, where).object
        missing = _count_missing(kind, maker) if maker is not None else 0
        if maker is None or missing <= 0:
            continue
        parent = find_controller(maker)
        is_of_deployment = parent is not None and parent["kind"] == "Deployment"
        kind, name = ("Deployment", parent["name"]) if parent is not None and is_of_deployment else (kind, name)
        workload = Workload(kind, name, where, objects, now)
        refusal = (
            find_refusal(workload, missing) if workload.is_read and (where, workload.label) not in listed else None
        )
        if refusal is not None:
            listed.add((where, workload.label))
            reason = explain_refusal(refusal, workload)["text"]
            yield {"namespace": where, "workload": workload.label, "missing": missing, "reason": reason}


def _read_subject(event: Json) -> tuple[str, str, str]:
    """Return the kind, the name and the namespace of the object that an event is about."""
    about = event.get("involvedObject") or {}
    return str(about.get("kind")), str(about.get("name")), str(about.get("namespace") or "")


def _count_missing(kind: str, maker: Json) -> int:
    """Return how many pods an object lacks, as its status says."""
    status = maker.get("status") or {}
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled") or 0) - int(status.get("currentNumberScheduled") or 0)
    return int((maker.get("spec") or {}).get("replicas", 1)) - int(status.get("replicas") or 0)
