"""Imports the records of a decisions service, as `export` writes them, as a trace.

Owns: what of a record becomes an event, and what follows from the requests on nodes. Does not own: the lines of an
export (`herodotus_endpoint.exchange` writes and imports them), the record (`herodotus_record`).

A record has the pod's requests, its node, and the amounts and requests of every node at its decision. No record says
when a pod ends: the requests on its node lack its own from then on. What the requests on a node have beyond those of
recorded pods is one more pod there, so that each node is as full as it was.

Invariant: after each record, the requests of the pods that are on a node in the trace are those of the record.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from herodotus_answers.changes import classify_nodes
from herodotus_record.codec import CodecError, batches
from herodotus_record.model import API_VERSION, Code, Decision, Evaluation, NodeRows, NodeTable, Outcome
from herodotus_record.typed_decoding import json_decoder
from herodotus_record.units import pluralize
from scheduler.engine.objects.requests import CPU, PODS
from scheduler.engine.objects.types import OwnerReference, Pod
from scheduler.engine.whatif.nodes import HOSTNAME
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.document import Event, NodeAdded, NodeRemoved, PodArrived, TraceContent, sort_events
from scheduler.offline.traces.rows import Requests, build_node, build_node_affinity, build_pod

OTHER_PODS: Final = "other-pods"  # the namespace of those without a record
_NOT_EVICTED: Final = 2_000_001_000  # the priority of system-node-critical
_MICROSECONDS: Final = 1_000_000
# Filters whose verdict does not depend on what else runs. They come first, so that a record has them for each node.
_BY_NODE: Final = frozenset({"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity"})
_MISSING: Final = (
    "Of nodes only names and amounts are known, and of pods requests, priority, labels and controller: a pod keeps off"
    " the nodes that taints, cordons and node affinity excluded for it, and other rules are unknown.",
    "The end of a pod is that of the next decision at which its node lacks its requests.",
    "Pods without a record are one pod on each node, which nothing evicts.",
    "Pods that were deleted while they waited keep waiting.",
)

Amounts = Counter[str]


class _Content(msgspec.Struct):
    frames: list[bytes]


class _Line(msgspec.Struct, rename={"api_version": "apiVersion", "content": "import"}):
    """What is read of a line of an export."""

    api_version: str
    kind: str
    content: _Content


_decoder: Final = json_decoder(_Line)


class _Recorded(NamedTuple):
    """A decision with its outcomes and node table. Implements `RecordedDecision`."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable


@dataclass(eq=False)
class _RecordedPod:
    """A pod of which there are records. The nodes `excluded` would have rejected it at its last attempt when empty."""

    decision: Decision
    arrived_us: int
    excluded: tuple[str, ...] = ()
    bound_us: int | None = None
    node: str = ""
    ended_us: int | None = None
    was_evicted: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.decision.pod.namespace}/{self.decision.pod.name}"

    @property
    def amounts(self) -> Amounts:
        return Counter({**self.decision.pod.requests, PODS: 1})


@dataclass(eq=False)
class _OtherPods:
    """Pods without a record on a node, as long as their requests do not change."""

    node: str
    since_us: int | None  # None: since before the first record
    amounts: Amounts
    ended_us: int | None = None


@dataclass(eq=False)
class _RecordedNode:
    """A node at the last record."""

    allocatable: Mapping[str, int]
    others: _OtherPods
    pods: list[_RecordedPod] = field(default_factory=list)


def import_records(*paths: Path) -> TraceContent:
    """Return the events of exported records, which may be in several files, in their order.

    Raise TraceError for a line that cannot be read or whose node table is incomplete.
    """
    history = _History()
    for path in paths:
        for number, line in enumerate(_read_lines(path), 1):
            try:
                history.add(_decode(line))
            except (CodecError, ValueError, msgspec.MsgspecError) as e:
                raise TraceError(f"{path}: line {number}: {e}") from e
    return history.build()


def _read_lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file
    except (OSError, EOFError) as e:
        raise TraceError(f"{path}: {e}") from e


def _decode(line: bytes) -> list[Decision | NodeRows | Outcome]:
    document = _decoder.decode(line)
    if (document.api_version, document.kind) != (API_VERSION, "Decision"):
        raise ValueError(f"expected a Decision of {API_VERSION}, as `python -m herodotus_endpoint export` writes it")
    frames = batches.decode_together(document.content.frames)
    return [frame for frame in frames if isinstance(frame, (Decision, NodeRows, Outcome))]


class _History:
    """What the records so far say about nodes and pods."""

    def __init__(self) -> None:
        self._tables: dict[str, NodeTable] = {}  # by incarnation
        self._nodes: dict[str, _RecordedNode] = {}
        self._pods: dict[str, _RecordedPod] = {}  # by UID
        self._by_name: dict[str, _RecordedPod] = {}  # the last pod of each namespace and name
        self._victims: set[str] = set()
        self._others: list[_OtherPods] = []
        self._node_events: list[tuple[int | None, str, Mapping[str, int] | None]] = []  # None: left, or from the first
        self._summaries = self._logged = self._of_groups = 0

    def add(self, frames: Iterable[Decision | NodeRows | Outcome]) -> None:
        """Add the frames of a line: rows of the node table, a decision, its outcomes. Raise ValueError."""
        ordered = [*frames]
        decision = next((frame for frame in ordered if isinstance(frame, Decision)), None)
        if decision is None:
            raise ValueError("frames without a decision")
        if decision.summary:
            self._summaries += 1
            return
        now_us = decision.times.started_us
        table = self._tables.setdefault(decision.key.incarnation, NodeTable())
        for rows in (frame for frame in ordered if isinstance(frame, NodeRows)):
            self._apply(table, rows, now_us)
        if {"pod.uid", "pod.requests"} & {*decision.unknown}:
            self._logged += 1
            return
        outcomes = tuple(frame for frame in ordered if isinstance(frame, Outcome))
        self._decide(_Recorded(decision, outcomes, table), now_us)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _apply(self, table: NodeTable, rows: NodeRows, now_us: int) -> None:
        is_first, is_whole = not self._nodes, rows.base < 0
        before = {*self._nodes} if is_whole else {table.names[s] for s in rows.slot if s < len(table.names)}
        table.apply(rows)
        after = {name for name in table.names if name} if is_whole else {*rows.name}
        gone = before - after
        for name in gone - {*table.names} if gone else ():
            self._remove(name, now_us)
        for slot in range(len(table.names)) if is_whole else rows.slot:
            if name := table.names[slot]:
                self._observe(name, table.allocatable[slot], table.requested[slot], None if is_first else now_us)

    def _remove(self, name: str, now_us: int) -> None:
        node = self._nodes.get(name)
        if node is not None:
            for pod in [*node.pods]:
                self._end(pod, now_us)
            node.others.ended_us = now_us
            self._node_events.append((now_us, name, None))
            del self._nodes[name]

    def _observe(
        self, name: str, allocatable: Mapping[str, int], requested: Mapping[str, int], now_us: int | None
    ) -> None:
        """Take the amounts of a node. `now_us` is None at the first record: the node was there before."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _RecordedNode({}, _OtherPods(name, now_us, Amounts()))
        if node.allocatable != allocatable:
            node.allocatable = dict(allocatable)
            self._node_events.append((now_us, name, node.allocatable))
        present = Counter({resource: amount for resource, amount in requested.items() if amount})
        if present == _sum(node.pods) + node.others.amounts:
            return
        for pod in _find_ended(node.pods, node.others.amounts, present):
            self._end(pod, now_us)
        others = present - _sum(node.pods)
        if others != node.others.amounts:
            node.others.ended_us = now_us
            node.others = _OtherPods(name, now_us, others)
            self._others.append(node.others)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _decide(self, recorded: _Recorded, now_us: int) -> None:
        decision = recorded.decision
        times = decision.times
        pod = self._pods.get(decision.pod.uid)
        if pod is None:
            arrived_us = times.queued_us or times.created_us or now_us
            pod = self._pods[decision.pod.uid] = _RecordedPod(decision, arrived_us)
            before = self._by_name.get(pod.full_name)
            if before is not None and before.ended_us is None:
                self._end(before, arrived_us)
            self._by_name[pod.full_name] = pod
            self._of_groups += bool(decision.pod.pod_group)
        pod.decision, pod.excluded = decision, _list_excluded(recorded)
        preemption = decision.preemption
        if preemption is not None and preemption.evicted:
            for candidate in preemption.candidates:
                if candidate.node == preemption.nominated_node:
                    self._victims.update(candidate.victims)
        last = next((outcome for outcome in recorded.outcomes if outcome.final), None)
        if last is None or last.status is not Code.SUCCESS or decision.chosen is None or pod.node:
            return
        pod.node, pod.bound_us = recorded.table.names[decision.chosen], last.at_us
        node = self._nodes.get(pod.node)
        if node is not None:
            node.pods.append(pod)

    def _end(self, pod: _RecordedPod, now_us: int | None) -> None:
        pod.ended_us, pod.was_evicted = now_us, pod.full_name in self._victims
        self._victims.discard(pod.full_name)
        node = self._nodes.get(pod.node)
        if node is not None and pod in node.pods:
            node.pods.remove(pod)

    # --- the trace ----------------------------------------------------------------------------------------------------

    def build(self) -> TraceContent:
        """Return the events, with times since the first of them."""
        times = [pod.arrived_us for pod in self._pods.values()]
        times += [at_us for at_us, _, _ in self._node_events if at_us is not None]
        start_us = min(times, default=0)

        def since_start(at_us: int | None) -> float:
            return 0.0 if at_us is None else (at_us - start_us) / _MICROSECONDS

        events: list[Event] = []
        for at_us, name, allocatable in self._node_events:
            if allocatable is None:
                events.append(NodeRemoved(since_start(at_us), name))
            else:
                events.append(NodeAdded(since_start(at_us), build_node(name, _format_amounts(allocatable))))
        for number, other in enumerate(self._others):
            at_s, requests = since_start(other.since_us), _format_amounts(other.amounts, without=PODS)
            pod = build_pod(f"{other.node}-{number}", requests, OTHER_PODS)
            there = replace(pod, spec=replace(pod.spec, priority=_NOT_EVICTED))
            ended_s = None if other.ended_us is None else since_start(other.ended_us)
            if requests:
                events.append(PodArrived(at_s, there, at_s, other.node, ended_s, was_on_node=True))
        for recorded in self._pods.values():
            bound_us, ended_us = recorded.bound_us, recorded.ended_us
            events.append(
                PodArrived(
                    since_start(recorded.arrived_us),
                    _build_pod(recorded),
                    None if bound_us is None else since_start(bound_us),
                    recorded.node,
                    None if ended_us is None else since_start(max(ended_us, bound_us or 0)),
                    was_evicted=recorded.was_evicted,
                )
            )
        counted = [
            f"{pluralize(number, noun)} {what}."
            for number, noun, what in (
                (self._summaries, "record", "left out: retention kept only a summary"),
                (self._logged, "record", "left out: a log has no requests of pods"),
                (self._of_groups, "pod", "of pod groups: each arrives as a single pod"),
            )
            if number
        ]
        return TraceContent(sort_events(events), [*_MISSING, *counted])


def _sum(pods: Iterable[_RecordedPod]) -> Amounts:
    return sum((pod.amounts for pod in pods), Amounts())


def _find_ended(pods: Sequence[_RecordedPod], others: Amounts, present: Amounts) -> list[_RecordedPod]:
    """Return which pods of a node have ended, by the requests that are present, of which `others` are of other pods.

    These are pods whose requests are just what is missing, the oldest first. If there are none such, they are the
    oldest ones without which the others' requests fit into what is present.
    """
    expected = _sum(pods) + others
    ended = list[_RecordedPod]()
    if present <= expected:
        missing = expected - present
        for pod in sorted(pods, key=lambda pod: pod.amounts != missing):  # one that explains it alone comes first
            if pod.amounts <= missing:
                ended.append(pod)
                missing -= pod.amounts
        if not missing:
            return ended
    staying = [*pods]
    while staying and not _sum(staying) <= present:
        del staying[0]
    return [pod for pod in pods if pod not in staying]


def _list_excluded(recorded: _Recorded) -> tuple[str, ...]:
    """Return the nodes that rejected a pod for another reason than the pods on them."""
    names, evaluation = recorded.table.names, recorded.decision.evaluation
    excluded = [name for name, rejected_by in classify_nodes(recorded).items() if rejected_by in _BY_NODE]
    excluded += [names[slot] for slot, each in enumerate(evaluation) if each == Evaluation.RESTRICTED]
    return tuple(sorted(excluded))


def _build_pod(recorded: _RecordedPod) -> Pod:
    pod, owner = recorded.decision.pod, recorded.decision.pod.owner
    built = build_pod(
        pod.name,
        _format_amounts(pod.requests, without=PODS),
        pod.namespace,
        pod.uid,
        labels=dict(pod.labels) or None,
        owner_references=[OwnerReference(kind=owner.kind, name=owner.name, controller=True)] if owner else None,
    )
    affinity = build_node_affinity(HOSTNAME, "NotIn", recorded.excluded) if recorded.excluded else None
    profile = recorded.decision.scheduler.profile
    return replace(built, spec=replace(built.spec, priority=pod.priority, scheduler_name=profile, affinity=affinity))


def _format_amounts(amounts: Mapping[str, int], without: str = "") -> Requests:
    """Return amounts in base units as quantities, without those that are 0."""
    return {
        name: f"{amount}m" if name == CPU else str(amount)
        for name, amount in amounts.items()
        if amount and name != without
    }
