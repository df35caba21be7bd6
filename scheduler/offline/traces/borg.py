"""Imports the Borg traces that Google published in 2019: machines, collections (jobs and alloc sets), and instances.

Owns: their tables machine_events, collection_events and instance_events, as CSV with columns such as
`resource_request.cpus` or as JSON lines, and what of them becomes events. The published schema is
clusterdata_trace_format_v3.proto of github.com/google/cluster-data, and Tirmazi et al., "Borg: the next generation",
EuroSys 2020, describe the cells.

An instance is a pod each time it is submitted, because Borg submits an instance again when it was evicted or failed. A
pod arrives when the instance becomes eligible: it is submitted, or enabled by the batch scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from herodotus_record.units import pluralize
from scheduler.engine.objects.types import (
    Affinity,
    LabelSelector,
    OwnerReference,
    PodAffinity,
    PodAffinityTerm,
)
from scheduler.engine.whatif.nodes import HOSTNAME
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.document import Event, NodeAdded, NodeRemoved, PodArrived, TraceContent, sort_events
from scheduler.offline.traces.rows import (
    Row,
    build_machine,
    build_pod,
    build_shares,
    parse_number,
    parse_share,
    read_rows,
)

COLLECTION: Final = "collection"
SWITCH: Final = "switch"
PLATFORM: Final = "platform"
_EVENTS: Final = (
    *("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST"),
    *("UPDATE_PENDING", "UPDATE_RUNNING"),
)
_ENDS: Final = frozenset({"EVICT", "FAIL", "FINISH", "KILL", "LOST"})
_LIFE: Final = ("SUBMIT", "QUEUE", "ENABLE", "UPDATE_PENDING", "SCHEDULE", "UPDATE_RUNNING")
_MACHINE_EVENTS: Final = ("EVENT_TYPE_UNKNOWN", "ADD", "REMOVE", "UPDATE")
_COLLECTION_TYPES: Final = ("JOB", "ALLOC_SET")
_MICROSECONDS: Final = 10**6
_AFTER_THE_END_US: Final = 2**63 - 1
_MISSING: Final = (
    "Amounts are shares of the largest machine: 1000 cpu and 1 TB of memory are a whole one.",
    "Requests are those when an instance was scheduled; Borg overcommits machines, and kube-scheduler does not.",
    "Machine constraints, max_per_switch and max_per_machine above 1 are not applied.",
)


class _InstanceEvent(NamedTuple):
    at_us: int
    kind: str
    row: Row
    where: str


class _Collection(NamedTuple):
    """What pods have of their job or alloc set."""

    owner: str
    is_exclusive: bool  # whether a machine may have only one instance


def import_borg(machines: Path, collections: Path, instances: Path) -> TraceContent:
    """Return the events of the three tables. Raise TraceError for an unreadable file or invalid row."""
    known = _read_collections(collections)
    by_instance: dict[tuple[int, int], list[_InstanceEvent]] = {}
    in_allocs: set[tuple[int, int]] = set()
    for where, row in read_rows(instances):
        key = parse_number(where, row, "collection_id"), parse_number(where, row, "instance_index")
        if _parse_id(where, row, "alloc_collection_id") > 0:
            in_allocs.add(key)
            continue
        kind, at_us = _parse_enum(where, row, "type", _EVENTS), parse_number(where, row, "time")
        if at_us < _AFTER_THE_END_US:
            by_instance.setdefault(key, []).append(_InstanceEvent(at_us, kind, row, where))
    pods, without_request = list[PodArrived](), 0
    for (collection, index), events in by_instance.items():
        instance = _Instance(collection, index, known.get(collection, _Collection("", False)))
        pods += instance.follow(events)
        without_request += instance.without_request
    left_out = [
        f"{pluralize(number, noun)} left out: {why}."
        for number, noun, why in (
            (len(in_allocs), "task", "they run in alloc instances, whose requests count"),
            (without_request, "instance", "no event says what they request"),
        )
        if number
    ]
    return TraceContent(sort_events([*_read_machines(machines), *pods]), [*_MISSING, *left_out])


def _read_machines(path: Path) -> Iterator[Event]:
    capacities: dict[int, tuple[float, float]] = {}
    rows = [(parse_number(where, row, "time"), where, row) for where, row in read_rows(path)]
    for at_us, where, row in sorted(rows, key=lambda each: each[0]):
        machine, kind = parse_number(where, row, "machine_id"), _parse_enum(where, row, "type", _MACHINE_EVENTS)
        at_s = at_us / _MICROSECONDS
        if kind == "REMOVE":
            yield NodeRemoved(at_s, str(machine))
            continue
        if row.get("capacity.cpus") and row.get("capacity.memory"):
            capacities[machine] = (
                parse_share(where, row, "capacity.cpus"),
                parse_share(where, row, "capacity.memory"),
            )
        if machine in capacities:
            labels = {SWITCH: row.get("switch_id") or "", PLATFORM: row.get("platform_id") or ""}
            shown = {name: value for name, value in labels.items() if value}
            yield NodeAdded(at_s, build_machine(str(machine), build_shares(*capacities[machine]), shown))


def _read_collections(path: Path) -> dict[int, _Collection]:
    collections: dict[int, _Collection] = {}
    for where, row in read_rows(path):
        number = parse_number(where, row, "collection_id")
        is_job = _parse_enum(where, row, "collection_type", _COLLECTION_TYPES) == "JOB"
        owner = f"{'Job' if is_job else 'AllocSet'}/{number}"
        is_exclusive = bool(row.get("max_per_machine")) and parse_number(where, row, "max_per_machine") == 1
        collections[number] = _Collection(owner, is_exclusive)
    return collections


def _parse_id(where: str, row: Row, column: str) -> int:
    """Return an ID, 0 if there is none. Special values are negative."""
    text = row.get(column) or "0"
    try:
        return int(text)
    except ValueError:
        raise TraceError(f"{where}: {column}: expected a number, found {text!r}") from None


def _parse_enum(where: str, row: Mapping[str, str], column: str, names: Sequence[str]) -> str:
    """Return the name of an enumerated value, which tables write as its number or its name."""
    text = row.get(column) or "0"  # protocol buffers leave out a value of 0
    if text in names:
        return text
    if text.isdecimal() and int(text) < len(names):
        return names[int(text)]
    raise TraceError(f"{where}: {column}: expected one of {', '.join(names)} or its number, found {text!r}")


class _Instance:
    """Follows the events of one instance in order of time. `without_request` says that it was scheduled without one."""

    def __init__(self, collection: int, index: int, facts: _Collection) -> None:
        self._collection, self._name, self._facts = collection, f"{collection}-{index}", facts
        self._waits_since_s: float | None = None
        self._running: PodArrived | None = None
        self._requested: _InstanceEvent | None = None  # the last event with a request
        self._number = 0  # of pods so far
        self.without_request = False

    def follow(self, events: Iterable[_InstanceEvent]) -> Iterator[PodArrived]:
        """Yield the pods that the instance was, one for each time that it became eligible."""
        by_time: dict[int, list[_InstanceEvent]] = {}
        for event in events:
            by_time.setdefault(event.at_us, []).append(event)
        for at_us in sorted(by_time):
            ends = [event for event in by_time[at_us] if event.kind in _ENDS]
            others = [event for event in by_time[at_us] if event.kind not in _ENDS]
            others.sort(key=lambda event: _LIFE.index(event.kind))
            for event in [*ends, *others] if self._running else [*others, *ends]:
                yield from self._apply(event)
        yield from self._list_present()

    def _apply(self, event: _InstanceEvent) -> Iterator[PodArrived]:
        at_s = event.at_us / _MICROSECONDS
        if event.row.get("resource_request.cpus") or event.row.get("resource_request.memory"):
            self._requested = event
        if event.kind in _ENDS:
            for present in self._list_present():
                yield replace(present, ended_at_s=at_s, was_evicted=event.kind == "EVICT")
            self._running = self._waits_since_s = None
        elif self._running is not None:
            return
        elif event.kind in ("SUBMIT", "ENABLE"):
            self._waits_since_s = at_s
        elif event.kind == "QUEUE":
            self._waits_since_s = None
        elif event.kind == "SCHEDULE":
            if self._waits_since_s is None:
                self._waits_since_s = at_s
            for arrived in self._list_present():
                machine = _parse_id(event.where, event.row, "machine_id")
                node = str(machine) if machine > 0 else ""
                there = bool(node) and event.at_us == 0
                self._running = replace(arrived, bound_at_s=at_s, node=node, was_on_node=there)
            self.without_request |= self._requested is None

    def _list_present(self) -> Iterator[PodArrived]:
        """Yield the pod that runs or waits, if there is one and its request is known."""
        if self._running is not None:
            yield self._running
        elif self._waits_since_s is not None and self._requested is not None:
            yield self._arrive(self._waits_since_s, self._requested)
            self._number += 1

    def _arrive(self, at_s: float, requested: _InstanceEvent) -> PodArrived:
        where, row = requested.where, requested.row
        cpu, memory = (parse_share(where, row, f"resource_request.{column}") for column in ("cpus", "memory"))
        kind, _, owner = self._facts.owner.partition("/")
        pod = build_pod(
            self._name,
            build_shares(cpu, memory),
            uid=f"{self._name}/{self._number}",
            labels={COLLECTION: str(self._collection)},
            owner_references=[OwnerReference(kind=kind, name=owner, controller=True)] if owner else None,
        )
        priority = parse_number(where, row, "priority") if row.get("priority") else 0
        affinity = _exclude_others(self._collection) if self._facts.is_exclusive else None
        return PodArrived(at_s, replace(pod, spec=replace(pod.spec, priority=priority, affinity=affinity)))


def _exclude_others(collection: int) -> Affinity:
    """Return the anti-affinity of instances of which a machine may have only one."""
    selector = LabelSelector(match_labels={COLLECTION: str(collection)})
    return Affinity(
        pod_anti_affinity=PodAffinity(required=[PodAffinityTerm(topology_key=HOSTNAME, label_selector=selector)])
    )
