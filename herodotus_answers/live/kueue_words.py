"""Find what Kueue says of a Job or a pod that it holds back: of why it stopped it, and of why it does not admit it.

Owns: which Workload of Kueue belongs to the object, and which of its events count. Does not own: what to do about them
(`messages`), the states of the objects. Pure.

Invariant: events before the last admission do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.cluster_objects import read_event_time
from herodotus_answers.live.pod_facts import read_conditions

if TYPE_CHECKING:
    from herodotus_answers.live.cluster_objects import ClusterObjects

Json = dict[str, Any]
_ADMITTED: Final = ("QuotaReserved", "Admitted")  # events about a Workload that waits for nothing more
_STOPPED: Final = ("Preempted", "Evicted", "Stopped")  # beginnings of reasons, such as EvictedDueToPodsReadyTimeout
_POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"  # label: the Workload of a group of pods has the group's name


def find_words(held: Json, own: Iterable[Json], objects: ClusterObjects) -> tuple[Json | None, Json | None]:
    """Return the events in which Kueue said last why it stopped an object, and why it does not admit it.

    Each is None if there is none. `own` are the events about the object itself. Of a stop also a condition of the
    Workload that Kueue made for the object says so, which is kept for longer.
    """
    about_itself = list(own)
    events = sorted([*list_workload_events(held, objects), *about_itself], key=read_event_time)
    last = max((n for n, each in enumerate(events, 1) if each.get("reason") in _ADMITTED), default=0)
    stops = [each for each in events[last:] if str(each.get("reason")).startswith(_STOPPED)]
    refusals = [each for each in events[last:] if each not in stops and each not in about_itself]
    condition = next(filter(None, map(_read_eviction, list_workloads(held, objects))), None)
    return (stops[-1] if stops else condition), (refusals[-1] if refusals else None)


def list_workload_events(held: Json, objects: ClusterObjects) -> list[Json]:
    """Return the events about the Workload of Kueue for an object."""
    namespace = held["metadata"]["namespace"]
    listed = objects.list_objects("Event", namespace, fields="involvedObject.kind=Workload").items
    return [each for each in listed if _is_workload_of(held, (each.get("involvedObject") or {}).get("name"))]


def list_workloads(held: Json, objects: ClusterObjects) -> list[Json]:
    """Return the Workload of Kueue for an object, if it can be read."""
    listed = objects.list_objects("Workload", held["metadata"]["namespace"]).items
    return [each for each in listed if _is_workload_of(held, each["metadata"]["name"])]


def _is_workload_of(held: Json, name: object) -> bool:
    """Return whether a Workload of Kueue with this name is for an object."""
    meta = held["metadata"]
    if name == (meta.get("labels") or {}).get(_POD_GROUP):
        return True
    return re.fullmatch(rf"{held['kind'].lower()}-{re.escape(meta['name'])}-[a-z0-9]{{5}}", str(name)) is not None


def _read_eviction(kueue_workload: Json) -> Json | None:
    """Return the condition Evicted of a Workload of Kueue in the form of an event, or None if it is not true."""
    condition = read_conditions(kueue_workload).get("Evicted") or {}
    if condition.get("status") != "True":
        return None
    return {"message": condition.get("message"), "lastTimestamp": condition.get("lastTransitionTime")}
