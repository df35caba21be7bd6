"""`run --trace` on a simulated cluster: the simulation of the trace finds the node sets that the scheduler found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from herodotus_endpoint.exchange.json_lines import LineWriter
from herodotus_endpoint.store.export import ExportedDecision
from herodotus_endpoint.store.summaries import DecisionRecord
from herodotus_record import codec
from herodotus_record.codec.columns import find_feasible
from herodotus_record.model import Decision, NodeRows, NodeTable, Outcome
from herodotus_sim import SimulatedCluster
from scheduler.commands.main import main
from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.following import FollowedAttempt, FollowedTrace
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.simulate.virtual_cluster import SimulatedAttempt
from scheduler.offline.traces.document import NodeAdded, ObjectSet, PodArrived, TraceContent, read_trace
from scheduler.offline.traces.records import import_records
from tests.processes import Process, eventually, python
from tests.scheduler import spools
from tests.sim.client import a_node, a_pod
from tests.support.pod_group_loop import GATES

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
NAME = "herodotus-scheduler"
ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
        ]
    }
}
TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
TOLERATION = {"key": "dedicated", "operator": "Exists"}


def node(name: str, cpu: str, *taints: Json, **labels: str) -> Json:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "10"}
    made = a_node(name, allocatable=amounts, capacity=amounts)
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
    return {**made, "spec": {"taints": [*taints]}}


def pod(name: str, cpu: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    return a_pod(name, schedulerName=NAME, containers=[container], **spec)


class _Cluster:
    """A simulated cluster whose pods a scheduler in a process of its own places."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def create(self, *pods: Json) -> None:
        for each in pods:
            assert self._http.post(PODS, json=each).status_code == 201

    def add_node(self, made: Json) -> None:
        assert self._http.post("/api/v1/nodes", json=made).status_code == 201

    def delete(self, path: str) -> None:
        assert self._http.delete(path, params={"gracePeriodSeconds": "0"}).status_code == 200

    def cordon(self, name: str) -> None:
        type_ = {"Content-Type": "application/merge-patch+json"}
        answer = self._http.patch(f"/api/v1/nodes/{name}", json={"spec": {"unschedulable": True}}, headers=type_)
        assert answer.status_code == 200

    def waiting(self) -> set[str]:
        pods = self._http.get(PODS).json()["items"]
        return {each["metadata"]["name"] for each in pods if not each["spec"].get("nodeName")}

    def settle(self, *waiting: str) -> None:
        """Wait until only these pods have no node."""
        eventually(lambda: self.waiting() == {*waiting}, f"only {waiting} to wait")


def run_cluster(tmp_path: Path) -> TraceContent:
    """Run a scheduler with a trace and a spool, and return the trace."""
    file, spool = tmp_path / "trace", tmp_path / "spool"
    before = pod("before", "1", nodeName="a")
    nodes = [node("a", "4", zone="x"), node("b", "4", zone="y"), node("c", "2", TAINT, zone="y")]
    with SimulatedCluster([*nodes, before]) as sim, httpx.Client(base_url=sim.url) as http:
        cluster = _Cluster(http)
        process = Process(
            "scheduler",
            python(
                *("scheduler", "run", "--master", sim.url, "--spool", str(spool), "--secure-port", "0", "--v", "3"),
                *("--no-leader-elect", "--trace", str(file), "--trace-size", "64Ki"),
            ),
            tmp_path / "scheduler.log",
        )
        try:
            process.wait_for('"Add event for node" node="c"')
            cluster.create(*(pod(f"web-{i}", "500m") for i in range(6)))
            cluster.create(*(pod(f"db-{i}", "250m", labels={"app": "db"}, affinity=ANTI_AFFINITY) for i in range(3)))
            cluster.settle("db-2")
            cluster.create(pod("db-3", "250m", labels={"app": "db"}, affinity=ANTI_AFFINITY, tolerations=[TOLERATION]))
            cluster.create(
                pod("zoned", "100m", nodeSelector={"zone": "y"}), pod("big", "3", nodeSelector={"zone": "x"})
            )
            cluster.settle("db-2", "big")
            for name in ("web-0", "web-1", "web-2", "web-3", "before"):
                cluster.delete(f"{PODS}/{name}")
            cluster.settle("db-2")
            cluster.cordon("a")
            cluster.add_node(node("d", "4", zone="z"))
            cluster.settle()
            cluster.create(*(pod(f"late-{i}", "200m") for i in range(4)))
            cluster.settle()
            assert process.stop() == 0
        finally:
            process.kill_all()
    return read_trace([file])


def read_attempts(trace: TraceContent, spool: Path) -> list[tuple[FollowedAttempt, frozenset[str]]]:
    """Return the attempts that a spool records during the trace, each with its feasible nodes."""
    table, began_s = spools.table(spool), datetime.fromisoformat(trace.started).timestamp()
    attempts = []
    for decision in spools.of(Decision, spool):
        node = "" if decision.chosen is None else table.names[decision.chosen]
        attempt = FollowedAttempt(decision.times.started_us / 1e6 - began_s, decision.pod.uid, node)
        slots = np.flatnonzero(find_feasible(decision))
        attempts.append((attempt, frozenset(table.names[slot] for slot in slots)))
    return attempts


def follow(trace: TraceContent, attempts: Sequence[FollowedAttempt]) -> tuple[RunMetrics, list[frozenset[str]]]:
    """Make the attempts again as recorded; the chosen nodes must be among the best.

    Return the figures and the feasible nodes of each attempt.
    """
    expected, feasible = iter(attempts), list[frozenset[str]]()

    def observe(attempt: SimulatedAttempt) -> None:
        recorded, columns, result = next(expected), attempt.snapshot.nodes, attempt.result
        assert recorded.uid == attempt.pod.uid
        passed = np.flatnonzero(result.trace.passed & columns.live)
        feasible.append(frozenset(columns.names[slot] for slot in passed))
        if recorded.node:
            slot, totals = columns.index[recorded.node], result.trace.totals
            assert slot in passed
            assert totals is None or totals[slot] == totals[passed].max()

    config = Configuration(profiles=(ProfileConfig(scheduler_name=NAME),))
    metrics = RunMetrics(["cpu"], max(each.at_s for each in trace.events))
    FollowedTrace(config, IN_TREE, observe).run(trace.events, attempts, metrics)
    return metrics, feasible


def test_following_a_trace_finds_the_node_sets_of_the_scheduler(tmp_path: Path) -> None:
    trace = run_cluster(tmp_path)
    attempts, recorded = zip(*read_attempts(trace, tmp_path / "spool"), strict=True)
    metrics, feasible = follow(trace, attempts)
    names = {each.pod.metadata.uid: each.name for each in trace.events if isinstance(each, PodArrived)}
    assert len({each.uid for each in attempts}) == 16
    assert [*zip(attempts, feasible, strict=True)] == [*zip(attempts, recorded, strict=True)]
    waited = [nodes for each, nodes in zip(attempts, feasible, strict=True) if names[each.uid] == "default/db-2"]
    assert (waited[0], waited[-1]) == (frozenset(), frozenset({"d"}))
    assert metrics.node_of == {
        each.name: each.node for each in trace.events if isinstance(each, PodArrived) and not each.was_on_node
    }


def _export(spool: Path, path: Path) -> None:
    """Write the records of a spool as the lines of an export."""
    frames, table, writer = spools.frames(spool), NodeTable(), LineWriter()
    outcomes: dict[str, list[Outcome]] = {}
    for frame in frames:
        if isinstance(frame, Outcome):
            outcomes.setdefault(frame.decision_id, []).append(frame)
    with path.open("wb") as file:
        for frame in frames:
            if isinstance(frame, NodeRows):
                table.apply(frame)
            elif isinstance(frame, Decision):
                record = DecisionRecord(frame, tuple(outcomes.get(frame.id, ())), table)
                encoded = [codec.encode(frame), *map(codec.encode, record.outcomes)]
                file.write(writer.line(ExportedDecision(record, encoded)))


def test_records_of_a_scheduler_become_the_trace_that_it_recorded(tmp_path: Path) -> None:
    trace = run_cluster(tmp_path)
    _export(tmp_path / "spool", tmp_path / "decisions.jsonl")
    imported = import_records(tmp_path / "decisions.jsonl")
    recorded, known = (
        [each for each in events if isinstance(each, PodArrived) and not each.was_on_node]
        for events in (trace.events, imported.events)
    )
    assert {each.name: each.node for each in known} == {each.name: each.node for each in recorded}
    ended = [Counter(each.node for each in of if each.ended_at_s is not None) for of in (known, recorded)]
    assert ended[0] == ended[1]
    (before,) = (each for each in imported.events if isinstance(each, PodArrived) and each.was_on_node)
    assert (before.node, before.at_s, before.ended_at_s is not None) == ("a", 0, True)
    joined = [[each.name for each in of.events if isinstance(each, NodeAdded)] for of in (imported, trace)]
    assert {*joined[0]} == {*joined[1]} == {"a", "b", "c", "d"}
    metrics = RunMetrics.from_events(imported.events)
    config = Configuration(profiles=(ProfileConfig(scheduler_name=NAME),))
    TraceSimulation(config, IN_TREE, 0).run(imported.events, metrics, lambda _: None)
    assert metrics.figures().never_placed == 0


def test_an_observer_records_the_groups_that_another_scheduler_places(tmp_path: Path) -> None:
    """A simulation of its trace places the gang, too, and together."""
    file, gates = tmp_path / "trace", ("--feature-gates", ",".join(f"{name}=true" for name in GATES))
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "10"}
    with SimulatedCluster([a_node("a", allocatable=amounts, capacity=amounts)]) as sim:
        processes = [
            Process(
                command,
                python(
                    *("scheduler", command, "--master", sim.url, "--spool", str(tmp_path / command), *gates, *options),
                    *("--secure-port", "0", "--v", "3"),
                ),
                tmp_path / f"{command}.log",
            )
            for command, *options in (
                ("observe", "--schedulers", NAME, "--trace", str(file)),
                ("run", "--no-leader-elect"),
            )
        ]
        try:
            for process in processes:
                process.wait_for('"Add event for node" node="a"')
            with httpx.Client(base_url=sim.url) as http:
                spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
                group = {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}
                path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
                assert http.post(path, json=group).status_code == 201
                cluster = _Cluster(http)
                cluster.create(*(pod(f"m{i}", "2", schedulingGroup={"podGroupName": "g"}) for i in range(2)))
                cluster.settle()
                eventually(
                    lambda: {each.pod.name for each in spools.of(Decision, tmp_path / "observe")} == {"m0", "m1"},
                    "the observer's records",
                )
            assert [process.stop() for process in processes] == [0, 0]
        finally:
            for process in processes:
                process.kill_all()
    trace = read_trace([file])
    assert "PodGroup/default/g" in [each.name for each in trace.events if isinstance(each, ObjectSet)]
    metrics = RunMetrics.from_events(trace.events)
    config = Configuration(feature_gates=GATES, profiles=(ProfileConfig(scheduler_name=NAME),))
    TraceSimulation(config, IN_TREE, 0).run(trace.events, metrics, lambda _: None)
    assert metrics.node_of == {"default/m0": "a", "default/m1": "a"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trace", "{folder}/absent/trace"], "error: --trace {folder}/absent/trace: No such file or directory"),
        (["--trace-pseudonyms"], "error: --trace-pseudonyms goes with --trace"),
    ],
)
@pytest.mark.parametrize("command", ["run", "observe"])
def test_a_trace_that_cannot_be_written_is_an_error(
    command: str, words: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    format_: Callable[[str], str] = lambda text: text.format(folder=tmp_path)  # noqa: E731
    with SimulatedCluster() as sim:
        options = ["--master", sim.url, "--spool", str(tmp_path / "spool"), "--secure-port", "0"]
        assert main([command, *options, *map(format_, words)]) == 1
    assert capfd.readouterr().err.splitlines()[-1] == format_(message)
