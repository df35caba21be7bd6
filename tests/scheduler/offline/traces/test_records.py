"""Exported records become a trace in which every node is as full as it was at each record."""

from __future__ import annotations

import gzip
from array import array
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from herodotus_endpoint.exchange.json_lines import LineWriter
from herodotus_endpoint.store.export import ExportedDecision
from herodotus_endpoint.store.summaries import DecisionRecord
from herodotus_record import codec
from herodotus_record.model import Candidate, Decision, NodeRows, NodeTable, Owner, Preemption
from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.document import NodeAdded, NodeRemoved, PodArrived, TraceContent, write_trace
from scheduler.offline.traces.records import OTHER_PODS, import_records
from tests.builders import CLUSTER, INCARNATION, MONDAY_US, TAINTED, a_decision, bound

GI = 1 << 30


class Recorded:
    """The records of a scheduler whose nodes a test fills, as lines of an export."""

    def __init__(self, **cpu: int) -> None:
        self.table = NodeTable()
        self._writer, self._sequence, self.lines = LineWriter(), 0, list[bytes]()
        for name, used in cpu.items():
            self.node(name, used)

    def node(self, name: str, cpu_used: int, *, cpu: int = 4000, pods: int = 1) -> None:
        """Set what is requested on a node, which joins if it is new. -1 removes it."""
        table, generation = self.table, self.table.generation
        slot = table.find_slot(name)
        if slot is None:
            slot = len(table.names)
        here = cpu_used >= 0
        table.apply(
            NodeRows(
                CLUSTER,
                INCARNATION,
                generation,
                generation + 1,
                ("cpu", "memory", "pods"),
                array("q", [slot]),
                array("q", [generation + 1]),
                (name if here else "",),
                (f"uid-{name}" if here else "",),
                tuple(array("q", [amount if here else 0]) for amount in (cpu, 8 * GI, 110)),
                tuple(array("q", [amount if here else 0]) for amount in (cpu_used, 0, pods)),
            )
        )

    def decide(self, pod: str, at_s: float, cpu: int = 1000, *, binds: bool = True, **given: Any) -> Decision:
        """Record a decision at a time, bound to its best node."""
        self._sequence += 2
        preemption = given.pop("preemption", None)
        names = [*self.table.names]
        decision = a_decision(
            pod=pod,
            nodes=names,
            started_us=MONDAY_US + round(at_s * 1e6),
            sequence=self._sequence,
            generation=self.table.generation,
            requests={"cpu": cpu},
            **given,
        )
        if preemption is not None:
            decision = replace(decision, preemption=preemption)
        outcomes = (bound(decision, self.table),) if binds and decision.chosen is not None else ()
        record = DecisionRecord(decision, outcomes, self.table)
        self.lines.append(self._writer.line(ExportedDecision(record, [*map(codec.encode, [decision, *outcomes])])))
        return decision

    def change(self, line: int, decision: Decision) -> None:
        """Put another decision into a line without rows of nodes."""
        record = DecisionRecord(decision, (), self.table)
        self.lines[line] = self._writer.line(ExportedDecision(record, [codec.encode(decision)]))

    def read(self, folder: Path) -> TraceContent:
        path = folder / "decisions.jsonl"
        path.write_bytes(b"".join(self.lines))
        return import_records(path)


def prefer(node: str) -> dict[str, Any]:
    return {"points": {node: {"NodeResourcesFit": 100}}}


def pods(trace: TraceContent) -> dict[str, PodArrived]:
    return {event.pod.metadata.name: event for event in trace.events if isinstance(event, PodArrived)}


def others(trace: TraceContent) -> list[tuple[str, float, float | None, int]]:
    return [
        (each.node, each.at_s, each.ended_at_s, cpu_of(each))
        for each in pods(trace).values()
        if each.pod.metadata.namespace == OTHER_PODS
    ]


def cpu_of(arrival: PodArrived) -> int:
    (container,) = arrival.pod.spec.containers or []
    assert container.resources is not None
    return int(str((container.resources.requests or {}).get("cpu", "0m")).removesuffix("m"))


def test_a_pod_ends_at_the_first_record_whose_node_lacks_its_requests(tmp_path: Path) -> None:
    record = Recorded(n1=1500, n2=0)
    record.decide("a", 10, **prefer("n2"), owner=Owner("ReplicaSet", "web"))
    record.node("n2", 1000, pods=2)
    record.decide("b", 20, 500, **prefer("n2"))
    record.node("n2", 1500, pods=3)
    record.decide("waits", 25, 9000, rejected={name: {"TaintToleration": TAINTED} for name in ("n1", "n2")})
    record.node("n2", 500, pods=2)
    record.decide("c", 30, **prefer("n1"))
    trace = record.read(tmp_path)
    found: dict[str, tuple[Any, ...]] = {
        name: (each.at_s, each.bound_at_s, each.node, each.ended_at_s) for name, each in pods(trace).items()
    }
    assert found["a"] == (0, 1.02, "n2", 21)
    assert found["b"] == (10, 11.02, "n2", None)
    assert found["waits"] == (15, None, "", None)
    assert found["c"][2] == "n1"
    assert others(trace) == [("n1", 0, None, 1500)]
    assert pods(trace)["a"].owner_kind == "ReplicaSet"
    assert pods(trace)["a"].pod.spec.scheduler_name == "herodotus-scheduler"
    assert cpu_of(pods(trace)["b"]) == 500


def test_requests_that_no_record_explains_are_of_a_pod_that_nothing_evicts(tmp_path: Path) -> None:
    record = Recorded(n1=1000)
    record.decide("a", 10, 250)
    record.node("n1", 3250, pods=3)
    record.decide("b", 20, 250, binds=False)
    record.node("n1", 2250, pods=2)
    record.decide("c", 30, 250, binds=False)
    trace = record.read(tmp_path)
    assert others(trace) == [("n1", 0, 11, 1000), ("n1", 11, 21, 3000), ("n1", 21, None, 2000)]
    assert pods(trace)["a"].ended_at_s is None
    unexplained = [each for each in pods(trace).values() if each.pod.metadata.namespace == OTHER_PODS]
    assert all(each.was_on_node and (each.pod.spec.priority or 0) > 10**9 for each in unexplained)


def test_a_victim_of_preemption_is_marked_when_it_is_gone(tmp_path: Path) -> None:
    record = Recorded(n1=0)
    record.decide("low", 10, 4000)
    record.node("n1", 4000, pods=2)
    evicts = Preemption("n1", (Candidate("n1", ("shop/low",), 0, ""),), evicted=True)
    record.decide("high", 20, 4000, preemption=evicts, rejected={"n1": {"TaintToleration": TAINTED}})
    record.node("n1", 0)
    record.decide("high", 21, 4000, attempt=2)
    trace = record.read(tmp_path)
    assert [(pods(trace)[name].was_evicted, pods(trace)[name].ended_at_s) for name in ("low", "high")] == [
        (True, 12),
        (False, None),
    ]
    assert pods(trace)["high"].node == "n1"


def test_nodes_join_change_and_leave_with_their_pods(tmp_path: Path) -> None:
    record = Recorded(n1=0)
    record.decide("a", 10)
    record.node("n1", 1000, cpu=8000, pods=2)
    record.node("n2", 500)
    record.decide("b", 20, **prefer("n2"))
    record.node("n1", -1)
    record.decide("c", 30, **prefer("n2"))
    trace = record.read(tmp_path)
    nodes = [event for event in trace.events if not isinstance(event, PodArrived)]
    assert [(type(event), event.name, event.at_s) for event in nodes] == [
        (NodeAdded, "n1", 0),
        (NodeAdded, "n1", 11),
        (NodeAdded, "n2", 11),
        (NodeRemoved, "n1", 21),
    ]
    assert [str((node.node.status.allocatable or {})["cpu"]) for node in nodes if isinstance(node, NodeAdded)] == [
        "4000m",
        "8000m",
        "4000m",
    ]
    assert pods(trace)["a"].ended_at_s == 21


def test_a_pod_keeps_off_nodes_that_rejected_it_for_their_taints(tmp_path: Path) -> None:
    record = Recorded(n1=0, n2=0, n3=0)
    record.decide("a", 10, rejected={name: {"TaintToleration": TAINTED} for name in ("n1", "n3")})
    record.decide("b", 11)
    trace = record.read(tmp_path)
    metrics = RunMetrics.from_events(trace.events)
    config = Configuration(profiles=(ProfileConfig(scheduler_name="herodotus-scheduler"),))
    TraceSimulation(config, IN_TREE, 0).run(trace.events, metrics, lambda _: None)
    assert metrics.node_of["shop/a"] == "n2"
    assert pods(trace)["b"].pod.spec.affinity is None


@pytest.mark.parametrize("seed", range(20))
def test_every_node_is_as_full_in_the_trace_as_in_each_record(tmp_path: Path, seed: int) -> None:
    random, names = Random(seed), ["n0", "n1", "n2"]
    record, moments = Recorded(**dict.fromkeys(names, 0)), list[tuple[float, dict[str, int]]]()
    running: dict[str, list[int]] = {name: [random.choice((0, 300))] for name in names}
    for i in range(60):
        for name in names:
            while len(running[name]) > 1 and random.random() < 0.2:
                running[name].remove(random.choice(running[name][1:]))
            if random.random() < 0.1:
                running[name][0] = random.randrange(1000)
            record.node(name, sum(running[name]), pods=len(running[name]))
        moments.append((float(i), {name: sum(of) for name, of in running.items()}))
        cpu, name = random.choice((100, 250, 400)), random.choice(names)
        binds = random.random() < 0.9
        record.decide(f"p{i}", i, cpu, binds=binds, **prefer(name))
        if binds:
            running[name].append(cpu)
    trace = record.read(tmp_path)
    arrivals = pods(trace).values()
    for at_s, expected in moments:
        now = at_s + 1  # the first pod was queued a second before its decision
        present: Counter[str] = Counter(dict.fromkeys(names, 0))
        for each in arrivals:
            since = each.at_s if each.was_on_node else each.bound_at_s
            if since is not None and since <= now and (each.ended_at_s is None or each.ended_at_s > now):
                present[each.node] += cpu_of(each)
        assert present == expected, at_s
    ended = [each for each in arrivals if each.ended_at_s is not None and not each.was_on_node]
    assert len(ended) > 5


def test_files_of_an_export_are_read_in_their_order_and_a_gap_is_refused(tmp_path: Path) -> None:
    record = Recorded(n1=0)
    for i in range(4):
        record.decide(f"p{i}", i, 100)
        record.node("n1", 100 * (i + 1))
    whole = record.read(tmp_path)
    parts = [tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"]
    parts[0].write_bytes(b"".join(record.lines[:2]))
    parts[1].write_bytes(gzip.compress(b"".join(record.lines[2:])))
    assert import_records(*parts) == whole
    write_trace(tmp_path / "trace", whole.events, whole.missing)
    with pytest.raises(TraceError, match=r"b\.jsonl\.gz: line 1: node rows start after generation"):
        import_records(parts[1])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{}", "line 1: Object missing required field"),
        (b'{"apiVersion":"v1","kind":"Pod","import":{"frames":[]}}', "expected a Decision of herodotus"),
        (b'{"apiVersion":"herodotus.dev/v1alpha1","kind":"Decision","import":{"frames":[]}}', "without a decision"),
        (b'{"apiVersion":"herodotus.dev/v1alpha1","kind":"Decision","import":{"frames":["aGk="]}}', "line 1: "),
    ],
)
def test_a_line_that_is_no_record_is_refused(tmp_path: Path, line: bytes, message: str) -> None:
    (tmp_path / "decisions.jsonl").write_bytes(line + b"\n")
    with pytest.raises(TraceError, match=message):
        import_records(tmp_path / "decisions.jsonl")


def test_records_without_requests_and_pods_of_groups_are_counted(tmp_path: Path) -> None:
    record = Recorded(n1=0)
    record.decide("a", 10)
    logged = record.decide("b", 11)
    grouped = record.decide("c", 12)
    for line, changed in (
        (1, replace(logged, unknown=("pod.uid", "pod.requests"))),
        (2, replace(grouped, pod=replace(grouped.pod, pod_group="g"))),
    ):
        record.change(line, changed)
    trace = record.read(tmp_path)
    assert trace.missing[-2:] == [
        "1 record left out: a log has no requests of pods.",
        "1 pod of pod groups: each arrives as a single pod.",
    ]
    assert {name for name, each in pods(trace).items() if each.pod.metadata.namespace == "shop"} == {"a", "c"}
