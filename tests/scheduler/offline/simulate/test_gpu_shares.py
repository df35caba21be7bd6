"""Pods get single GPUs: shares share one, whole GPUs are idle ones, and pods that end give theirs back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_record.model import SUCCESS
from scheduler.config.load import parse_config
from scheduler.engine.columns import RowSubset
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plugins.registry import Registry
from scheduler.offline.evaluate import NoCluster
from scheduler.offline.simulate.fragmentation import TaskDemand
from scheduler.offline.simulate.gpu_shares import NO_GPU, GpuShares, GpuSharesArgs
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.traces.document import Event, NodeAdded, PodArrived
from scheduler.offline.traces.importing import GPU_MILLI
from tests.processes import ROOT
from tests.scheduler.builders import PROFILE, NodeBuilder, columns_of, make_node, make_pod
from tests.support.example_operator import load_example

PLUGIN = "scheduler.offline.simulate.gpu_shares:GpuShares"
STATE = CycleState()


def gpus(name: str, number: int) -> NodeBuilder:
    return make_node(name).allocatable({"cpu": "64", "pods": "110", GPU_MILLI: str(1000 * number)})


def asks(name: str, milli: int) -> PodInfo:
    return make_pod(name).request({"cpu": "1", GPU_MILLI: str(milli)}).info()


class Cluster:
    """Nodes with GPUs, and the plugin that places pods on them."""

    def __init__(self, *nodes: NodeBuilder, plugin: GpuShares | None = None) -> None:
        self.columns = columns_of(nodes)
        self.plugin = plugin or GpuShares(GpuSharesArgs(), NoCluster())
        self.plugin.prepare(self.columns)
        self._placed = 0

    def place(self, node: str, *amounts: int) -> None:
        """Place pods with these requests on a node, named after it and their number."""
        for milli in amounts:
            self._placed += 1
            pod = asks(f"{node}-{self._placed}", milli)
            assert self.plugin.reserve(STATE, pod, node) == SUCCESS
            self.columns.add_pod(pod, node)

    def free(self, node: str) -> list[int]:
        slot = self.columns.index[node]
        row = self.plugin.list_free(RowSubset(self.columns, np.array([slot])))[0]
        assert row.tolist() == self.plugin.list_free(self.columns)[slot, : len(row)].tolist()
        return [int(each) for each in row]

    def rejected(self, milli: int) -> list[str]:
        verdicts = self.plugin.filter(STATE, asks("new", milli), self.columns)
        return [name for name, slot in self.columns.index.items() if verdicts.verdict_at(slot) != SUCCESS]


def test_a_share_takes_the_gpu_on_which_least_is_free_and_whole_gpus_are_idle_ones() -> None:
    cluster = Cluster(gpus("a", 4))
    cluster.place("a", 300, 800, 100, 2000)
    assert cluster.free("a") == [700, 100, 0, 0]


def test_a_node_is_rejected_whose_free_shares_are_on_several_gpus() -> None:
    cluster = Cluster(gpus("a", 2), gpus("b", 1), make_node("none"))
    cluster.place("a", 600, 600)
    assert cluster.free("a") == [400, 400]
    assert cluster.rejected(400) == ["none"]
    assert cluster.rejected(500) == ["a", "none"]
    assert cluster.rejected(1000) == ["a", "none"]
    assert cluster.rejected(2000) == ["a", "b", "none"]
    assert cluster.rejected(0) == []
    assert cluster.plugin.reserve(STATE, asks("late", 500), "a") == NO_GPU


def test_a_pod_that_leaves_its_node_or_is_not_bound_gives_its_gpus_back() -> None:
    cluster = Cluster(gpus("a", 2))
    cluster.place("a", 600, 1000)
    cluster.columns.remove_pod("uid-a-1", "a")
    assert cluster.free("a") == [1000, 0]
    pod = asks("refused", 300)
    assert cluster.plugin.reserve(STATE, pod, "a") == SUCCESS
    cluster.plugin.unreserve(STATE, pod, "a")
    cluster.plugin.unreserve(STATE, pod, "a")
    cluster.place("a", 200)
    assert cluster.free("a") == [800, 0]


def simulate(*events: Event, plugin: str = "", args: object = None) -> RunMetrics:
    enabled = {"enabled": [{"name": plugin}]} if plugin else {}
    profile: dict[str, object] = {"schedulerName": PROFILE, "plugins": {"multiPoint": enabled}}
    if args:
        profile["pluginConfig"] = [{"name": plugin.partition(":")[2], "args": args}]
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    registry, metrics = Registry(), RunMetrics([GPU_MILLI], 1000.0)
    config = parse_config(json.dumps(document | {"profiles": [profile]}), registry=registry)
    TraceSimulation(config, registry, 0).run(events, metrics, lambda _: None)
    return metrics


def arrives(at_s: float, name: str, milli: int, runs_s: float | None = None) -> PodArrived:
    return PodArrived(at_s, asks(name, milli).pod, ended_at_s=None if runs_s is None else at_s + runs_s)


def test_a_simulated_pod_waits_for_room_on_a_single_gpu() -> None:
    events: list[Event] = [
        NodeAdded(0.0, gpus("a", 2).obj()),
        arrives(1, "p", 600, 9),
        arrives(2, "q", 600),
        arrives(3, "r", 700),
    ]
    assert simulate(*events).figures().waited_p99_s == 0
    figures = simulate(*events, plugin=PLUGIN).figures()
    assert (figures.placed, figures.attempts) == (3, 4)
    assert figures.waited_p99_s == pytest.approx(7, abs=0.2)  # until the first pod ends


@given(st.lists(st.tuples(st.sampled_from((100, 300, 600, 1000, 2000)), st.booleans()), max_size=25))
def test_no_gpu_has_more_than_its_thousandths(steps: list[tuple[int, bool]]) -> None:
    cluster, placed = Cluster(gpus("a", 3)), list[tuple[str, int]]()
    for number, (milli, ends) in enumerate(steps):
        if ends and placed:
            uid, _ = placed.pop(0)
            cluster.columns.remove_pod(uid, "a")
        pod = asks(f"p{number}", milli)
        if cluster.plugin.reserve(STATE, pod, "a") == SUCCESS:
            cluster.columns.add_pod(pod, "a")
            placed.append((pod.uid, milli))
        free = cluster.free("a")
        assert all(0 <= each <= 1000 for each in free)
        assert sum(free) == 3000 - sum(each for _, each in placed)


def test_the_example_scores_the_node_and_the_gpu_where_least_becomes_useless() -> None:
    example = load_example("fragmentation_score")
    args = example.FragmentationScoreArgs(tasks=(TaskDemand(1.0, 1000, 1000),))
    cluster = Cluster(gpus("used", 2), gpus("idle", 1), plugin=example.FragmentationScore(args, NoCluster()))
    cluster.place("used", 500)
    scores = cluster.plugin.score(STATE, asks("new", 500), cluster.columns, cluster.columns.live)  # type: ignore[attr-defined]
    # On the used GPU 500 useless thousandths become 0: 100 / (1 + e**-0.5). On an idle one 500 become useless.
    assert dict(zip(cluster.columns.names, scores.tolist(), strict=True)) == {"used": 62, "idle": 37}
    cluster.place("used", 500)
    assert cluster.free("used") == [0, 1000]


def test_the_example_places_more_than_the_default_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = [NodeAdded(0.0, gpus("a", 2).obj()), NodeAdded(0.0, gpus("b", 2).obj())]
    events += [arrives(1 + i, f"share-{i}", 250) for i in range(4)]
    events += [arrives(9 + i, f"whole-{i}", 1000) for i in range(3)]
    assert simulate(*events, plugin=PLUGIN).figures().never_placed == 1
    monkeypatch.syspath_prepend(ROOT / "docs/examples")
    tasks = [{"share": 0.5, "cpuMilli": 1000, "gpuMilli": 250}, {"share": 0.5, "cpuMilli": 1000, "gpuMilli": 1000}]
    figures = simulate(*events, plugin="fragmentation_score:FragmentationScore", args={"tasks": tasks}).figures()
    assert figures.never_placed == 0


def test_a_reserve_plugin_that_refuses_leaves_the_pod_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GpuShares, "filter", lambda *_: PASS)
    events: list[Event] = [
        NodeAdded(0.0, gpus("a", 2).obj()),
        arrives(1, "p", 600),
        arrives(2, "q", 600),
        arrives(3, "r", 700),
    ]
    figures = simulate(*events, plugin=PLUGIN).figures()
    assert (figures.placed, figures.never_placed) == (2, 1)
