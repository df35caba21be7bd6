"""DefaultPreemption: what it says where a filter goes wrong while nodes are tried, and what it remembers of them."""

from __future__ import annotations

import gc
import random
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import convert
from msgspec.structs import replace

from herodotus_record.model import SUCCESS, DecisionPath, Verdict
from scheduler.config import Configuration, build_profile
from scheduler.engine.columns import NodeColumns
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.extender import PreemptionCandidate
from scheduler.engine.framework.nominated import Nominator
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Verdicts, error
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.workloads import PodDisruptionBudget
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import PodBuilder, columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import framework, run, text
from tests.support.examples import examples


class WhenEmpty:
    """Full as long as pods are on a node; without them, what the test wants of each node, else Success."""

    name = "WhenEmpty"

    def __init__(self, says: Mapping[str, Verdict]) -> None:
        self._says = says

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        table = [SUCCESS, text("full"), *self._says.values()]
        own = {name: number for number, name in enumerate(self._says, 2)}
        numbers = [1 if pods else own.get(name, 0) for name, pods in zip(nodes.names, nodes.pods, strict=True)]
        return Verdicts(tuple(table), np.array(numbers, np.uint8))


A, B = error("no disk"), error("no route")
FULL = "0/2 nodes are available: 2 full."


@pytest.mark.parametrize(
    ("says", "message"),
    [
        pytest.param(
            {"a": A, "b": text("too small")},
            f'{FULL} preemption: running "WhenEmpty" filter plugin: no disk',
            id="one error: nothing is said of the other node",
        ),
        pytest.param(
            {"a": A, "b": A},
            f'{FULL} preemption: running "WhenEmpty" filter plugin: no disk',
            id="the same error twice",
        ),
        pytest.param({"a": A}, FULL, id="an error where another node can be made room on"),
        pytest.param(
            {"a": text("too small"), "b": text("too small")},
            f"{FULL} preemption: 0/2 nodes are available: 2 too small.",
            id="no error",
        ),
    ],
)
def test_an_error_counts_where_no_node_can_be_made_room_on(says: Mapping[str, Any], message: str) -> None:
    preemption = DefaultPreemption(DefaultPreemptionArgs(), NoCluster())
    columns = columns_of([make_node("a"), make_node("b")], [make_pod("in-a").node("a"), make_pod("in-b").node("b")])
    result = run(
        framework(filter=(WhenEmpty(says),), post_filter=(preemption,)), columns, make_pod().priority(1).info()
    )
    assert (result.path, result.message) == (DecisionPath.NONE, message)


def test_different_errors_are_all_reported() -> None:
    preemption = DefaultPreemption(DefaultPreemptionArgs(), NoCluster())
    columns = columns_of([make_node("a"), make_node("b")], [make_pod("in-a").node("a"), make_pod("in-b").node("b")])
    made = framework(filter=(WhenEmpty({"a": A, "b": B}),), post_filter=(preemption,))
    said = run(made, columns, make_pod().priority(1).info()).message.removeprefix(f"{FULL} preemption: ")
    assert sorted(said[1:-1].split(", ")) == [
        'running "WhenEmpty" filter plugin: no disk',
        'running "WhenEmpty" filter plugin: no route',
    ]


class Room:
    """So many pods fit on a node; keeps how many nodes it was asked about."""

    name = "Room"
    depends_on = DependsOn.ROW

    def __init__(self, pods: int) -> None:
        self._pods = pods
        self.asked: list[int] = []

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        self.asked.append(nodes.slots)
        return Verdicts.reject(nodes.requested("pods") >= self._pods, text("full"))


def crowded(nodes: int, pods: int) -> NodeColumns:
    names = [f"n{i}" for i in range(nodes)]
    return columns_of(map(make_node, names), [make_pod(f"{n}-{i}").node(n) for n in names for i in range(pods)])


def victims(result: CycleResult) -> dict[str, int]:
    """How many would have to go from each candidate."""
    assert result.trace.preemption is not None
    return {c.node: len(c.victims) for c in result.trace.preemption.candidates}


def test_nodes_are_tried_in_step() -> None:
    """Filters are asked as often as one node needs it: once without pods, once for each that is put back."""
    room = Room(2)
    made = framework(filter=(room,), post_filter=(DefaultPreemption(DefaultPreemptionArgs(), NoCluster()),))
    result = run(made, crowded(nodes=30, pods=3), make_pod().priority(1).info())
    assert victims(result) == {f"n{i}": 2 for i in range(30)}
    assert room.asked == [30, 30, 30, 30, 30]  # in the cycle, without pods, then each of three put back


def test_a_node_where_nothing_happened_is_not_tried_again() -> None:
    room, columns = Room(2), crowded(nodes=30, pods=2)
    made = framework(filter=(room,), post_filter=(DefaultPreemption(DefaultPreemptionArgs(), NoCluster()),))
    run(made, columns, make_pod("first").priority(1).info())
    columns.add_pod(make_pod("n3-2").info(), "n3")
    columns.replace_pod(make_pod("n4-0").label("app", "db").info(), "n4")
    room.asked.clear()
    result = run(made, columns, make_pod("second").priority(1).info())
    assert victims(result) == {f"n{i}": 2 if i == 3 else 1 for i in range(30)}
    assert room.asked == [1, 2, 2, 2, 2]  # the row that changed; then both nodes: without pods, and each put back


@pytest.mark.parametrize(
    ("follows", "tried"),
    [
        pytest.param(DependsOn.NODE, 1, id="its own object: that node"),
        pytest.param(DependsOn.NODES, 30, id="others' objects too: every node"),
    ],
)
def test_a_changed_node_object_matters_where_filters_follow_it(follows: DependsOn, tried: int) -> None:
    room, columns, other = Room(2), crowded(nodes=30, pods=2), Room(100)
    other.name, other.depends_on = "Other", follows
    preemption = DefaultPreemption(DefaultPreemptionArgs(), NoCluster())
    made = framework(filter=(room, other), post_filter=(preemption,))
    run(made, columns, make_pod("first").priority(1).info())
    columns.set_node(make_node("n7").label("disk", "ssd").obj())
    room.asked.clear()
    assert victims(run(made, columns, make_pod("second").priority(1).info())) == {f"n{i}": 1 for i in range(30)}
    assert room.asked == [1, tried, tried, tried]


def test_another_budget_makes_every_node_be_tried_again() -> None:
    objects, room = ClusterObjects(), Room(2)
    made = framework(filter=(room,), post_filter=(DefaultPreemption(DefaultPreemptionArgs(), NoCluster(objects)),))
    columns = crowded(nodes=3, pods=2)
    run(made, columns, make_pod("first").priority(1).info())
    objects.set(PodDisruptionBudget())
    room.asked.clear()
    run(made, columns, make_pod("second").priority(1).info())
    assert room.asked == [3, 3, 3]


def test_deleted_nodes_leave_the_cache() -> None:
    """Nodes that come and go take each other's slots; nothing is told of the one that was there before."""
    room, columns = Room(2), crowded(nodes=2, pods=2)
    made = framework(filter=(room,), post_filter=(DefaultPreemption(DefaultPreemptionArgs(), NoCluster()),))
    run(made, columns, make_pod("first").priority(1).info())
    gone = [weakref.ref(pod) for pod in columns.pods[columns.index["n1"]].values()]
    for uid in [*columns.pods[columns.index["n1"]]]:
        columns.remove_pod(uid, "n1")
    columns.remove_node("n1")
    columns.set_node(make_node("n2").obj())
    for i in range(3):
        columns.add_pod(make_pod(f"n2-{i}").info(), "n2")
    assert victims(run(made, columns, make_pod("second").priority(1).info())) == {"n0": 1, "n2": 2}
    gc.collect()
    assert [pod() for pod in gone] == [None, None]


NODES = [f"n{i}" for i in range(12)]


class PreemptionCluster:
    """Full nodes where things happen, and a framework that sees all of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.objects, self.nominator = ClusterObjects(), Nominator()
        self.columns = columns_of(make_node(name).allocatable(cpu="4", memory="16Gi", pods="5") for name in NODES)
        self.placed: dict[str, str] = {}
        for i in range(60):
            self.place(f"p{i}", NODES[i % 12])
        self.framework = self.new_framework()

    def new_framework(self) -> Framework:
        """One that never saw anything."""
        profile = build_profile(Configuration(), 0, IN_TREE, NoCluster(self.objects))
        return Framework(profile, time.monotonic, nominator=self.nominator)

    def pod(self, name: str) -> PodBuilder:
        choice = self.chance.choice
        made = make_pod(name).label("app", choice(["web", "db"]))
        made.request(cpu=choice(["400m", "800m", "1200m"])).priority(choice([0, 0, 5, 10]))
        if self.chance.random() < 0.2:
            made.host_port(80)
        return made.started(f"2026-03-01T1{self.chance.randrange(3)}:00:00Z") if self.chance.random() < 0.7 else made

    def place(self, name: str, node: str) -> None:
        info = self.pod(name).node(node).info()
        self.columns.add_pod(info, node)
        self.placed[info.uid] = node

    def happen(self) -> None:
        """One of what may happen."""
        uid, node = self.chance.choice(sorted(self.placed)), self.chance.choice(NODES)
        match self.chance.randrange(7):
            case 0:
                self.columns.remove_pod(uid, self.placed.pop(uid))
                self.place(f"p{len(self.placed)}-{node}-{self.chance.random()}", node)
            case 1:
                old = self.columns.pods[self.columns.index[self.placed[uid]]][uid]
                status = replace(old.pod.status, start_time="2026-03-01T09:00:00Z")
                self.columns.replace_pod(PodInfo(replace(old.pod, status=status), running=True), self.placed[uid])
            case 2:
                self.columns.replace_pod(self.pod(uid.removeprefix("uid-")).info(), self.placed[uid])
            case 3:
                self.columns.set_node(make_node(node).allocatable(cpu="3", memory="16Gi", pods="5").obj())
            case 4:
                self.set_budget(self.chance.randrange(3))
            case 5:
                self.nominator.update_from_status(
                    make_pod("rival").request(cpu="2").priority(20).nominated(node).info()
                )
            case 6:
                self.nominator.remove("uid-rival")

    def set_budget(self, allowed: int) -> None:
        budget = {
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.objects.set(convert(budget, PodDisruptionBudget))


@pytest.mark.parametrize("seed", range(examples(6)))
def test_cached_dry_run_equals_a_new_one(seed: int) -> None:
    """Whatever happened: the candidates, their victims and the choice are those of a framework that saw nothing."""
    cluster = PreemptionCluster(seed)
    for i in range(40):
        for _ in range(cluster.chance.randrange(4)):
            cluster.happen()
        pod = make_pod(f"urgent-{i}").request(cpu=cluster.chance.choice(["2", "3"])).priority(8 + i % 2 * 4).info()
        remembered, anew = (run(f, cluster.columns, pod) for f in (cluster.framework, cluster.new_framework()))
        assert remembered.message == anew.message
        assert remembered.trace.preemption == anew.trace.preemption
        assert [p.uid for p in remembered.trace.victims] == [p.uid for p in anew.trace.victims]


@pytest.mark.parametrize(
    ("best", "other"),
    [
        pytest.param([(9, "1")], [(1, "1"), (1, "1", "web")], id="fewer budgets broken"),
        pytest.param([(1, "1"), (1, "1")], [(2, "1")], id="a lower highest priority"),
        pytest.param([(2, "1"), (1, "1")], [(2, "1"), (2, "1")], id="a lower sum of priorities"),
        pytest.param([(0, "1")], [(0, "1"), (-(2**31), "1")], id="fewer pods"),
        pytest.param([(1, "2"), (0, "1")], [(1, "1"), (0, "3")], id="the later start among the most important"),
        pytest.param([(1, "")], [(1, "1")], id="not started yet is the latest"),
    ],
)
def test_the_least_harm_is_chosen(best: list[Any], other: list[Any]) -> None:
    """Each of the criteria where those before it are equal, whichever candidate comes first."""

    def harm(pods: list[Any]) -> Any:
        made = [
            make_pod("p").priority(pod[0]).started(f"2026-03-0{pod[1]}T12:00:00Z" if pod[1] else "") for pod in pods
        ]
        return PreemptionCandidate("n", tuple(p.info() for p in made), sum(len(pod) > 2 for pod in pods)).eviction_cost

    assert harm(best) < harm(other)


@pytest.mark.parametrize(
    ("started", "victim"),
    [
        pytest.param(("", "", "", ""), "low-0", id="none has started: the last one is spared first"),
        pytest.param(("12:00", "", "11:00", ""), "low-1", id="started pods are spared before the others"),
        pytest.param(("12:00", "12:00", "12:00", "12:00"), "low-3", id="equal starts: in the order of the node"),
    ],
)
def test_pods_that_have_not_started_are_spared_as_kube_scheduler_spares_them(
    started: Sequence[str], victim: str
) -> None:
    """A kube-scheduler v1.36.2 evicted low-0 of four pods without a start time, in each of four trials."""
    pods = [make_pod(f"low-{i}").node("n") for i in range(4)]
    for pod, at in zip(pods, started, strict=True):
        if at:
            pod.started(f"2026-03-01T{at}:00Z")
    preemption = DefaultPreemption(DefaultPreemptionArgs(), NoCluster())
    made = framework(filter=(Room(4),), post_filter=(preemption,))
    result = run(made, columns_of([make_node("n")], pods), make_pod().priority(1).info())
    assert [each.name for each in result.trace.victims] == [victim]
