"""A trace is divided in halves, of which the second begins as a simulation of the first one ends, and sampled."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.simulate.trace_parts import draw_sample, find_median_arrival, split_trace
from scheduler.offline.simulate.virtual_cluster import SimulationError
from scheduler.offline.traces.document import Event, NodeAdded, NodeRemoved, ObjectSet, PodArrived
from tests.scheduler.builders import PROFILE, PodBuilder, make_node, make_pod
from tests.support.pod_group_loop import a_group

CONFIG = Configuration(profiles=(ProfileConfig(scheduler_name=PROFILE),))


def joins(name: str, cpu: str, at_s: float = 0.0) -> NodeAdded:
    return NodeAdded(at_s, make_node(name).allocatable(cpu=cpu).obj())


def arrives(at_s: float, pod: PodBuilder, runs_s: float | None = None) -> PodArrived:
    return PodArrived(at_s, pod.obj(), ended_at_s=None if runs_s is None else at_s + runs_s)


def place(events: list[Event]) -> dict[str, str]:
    metrics = RunMetrics.from_events(events)
    TraceSimulation(CONFIG, IN_TREE, 0).run(events, metrics, lambda _: None)
    return {name.partition("/")[2]: node for name, node in metrics.node_of.items()}


TRACE: list[Event] = [
    joins("gone", "8"),
    joins("n", "4"),
    NodeRemoved(5, "gone"),
    arrives(6, make_pod("short").request(cpu="1"), 20),  # until 26
    arrives(7, make_pod("forever").request(cpu="1")),
    arrives(8, make_pod("waits").request(cpu="3"), 10),  # from 26 to 36
    arrives(11, make_pod("ended").request(cpu="1"), 4),
    joins("late", "1", 21),
    arrives(27, make_pod("next").request(cpu="2"), 5),  # fits from 36 on
    arrives(28, make_pod("small").request(cpu="1")),
]


def test_the_second_part_goes_on_where_the_first_one_ended() -> None:
    before, after = split_trace(TRACE, 20, CONFIG, IN_TREE, 0)
    assert before == TRACE[:7]
    assert [(type(each).__name__, each.name, each.at_s) for each in after[:4]] == [
        ("NodeAdded", "n", 20),
        ("PodArrived", "/".join(("default", "short")), 20),
        ("PodArrived", "/".join(("default", "forever")), 20),
        ("PodArrived", "/".join(("default", "waits")), 20),
    ]
    assert [(each.was_on_node, each.node, each.ended_at_s) for each in after[1:4] if isinstance(each, PodArrived)] == [
        (True, "n", 26),
        (True, "n", None),
        (False, "", 30),
    ]
    whole = place(TRACE)
    assert place(after) == {name: whole[name] for name in ("waits", "next", "small")}
    assert whole == {"short": "n", "forever": "n", "waits": "n", "ended": "n", "next": "n", "small": "late"}


def test_half_of_the_decided_pods_arrive_before_the_median() -> None:
    assert find_median_arrival(TRACE) == 11
    seen = PodArrived(0, make_pod("seen").obj(), node="n", was_on_node=True)
    assert find_median_arrival([seen, *TRACE]) == 11
    for events in ([joins("n", "4")], [seen], [arrives(3, make_pod("a")), arrives(3, make_pod("b"))]):
        with pytest.raises(SimulationError, match="no two halves"):
            find_median_arrival(events)


def test_a_sample_has_whole_workloads_and_everything_else_as_it_was() -> None:
    stays: list[Event] = [
        joins("n", "4"),
        PodArrived(0, make_pod("seen").obj(), node="n", was_on_node=True),
        arrives(2, make_pod("daemon").owner("DaemonSet", "agents")),
    ]
    pods = [arrives(3 + i, make_pod(f"{owner}-{i}").owner("ReplicaSet", owner), 9) for owner in "ab" for i in (1, 2)]
    alone = [arrives(9, make_pod(f"alone-{i}")) for i in range(4)]
    several = set[str]()
    for seed in range(20):
        sample = draw_sample([*stays, *pods, *alone], seed)
        assert sample == draw_sample([*stays, *pods, *alone], seed)
        assert sample == sorted(sample, key=lambda each: each.at_s)
        assert [each for each in sample if each in stays] == stays
        drawn = [each for each in sample if isinstance(each, PodArrived) and each not in stays]
        origins = Counter(each.pod.metadata.name.rpartition("-")[0] for each in drawn)
        assert origins["a-1"] == origins["a-2"]
        assert origins["b-1"] == origins["b-2"]
        assert origins["a-1"] + origins["b-1"] + sum(origins[f"alone-{i}"] for i in range(4)) == 6
        assert len({each.pod.metadata.uid for each in drawn}) == len(drawn)
        assert {each.at_s + 9 for each in drawn if each.owner_kind} == {
            each.ended_at_s for each in drawn if each.owner_kind
        }
        several.add(str(sorted(origins.items())))
    assert len(several) > 10


def test_a_sample_has_whole_pod_groups_each_with_an_object_of_its_own() -> None:
    group = ObjectSet(0.0, a_group("g", 2))
    members = [
        arrives(3, make_pod(name).owner("Job", name).with_spec(schedulingGroup={"podGroupName": "g"})) for name in "ab"
    ]
    several = set[int]()
    for seed in range(10):
        sample = draw_sample([joins("n", "4"), group, *members, arrives(5, make_pod("alone"))], seed)
        of_group = Counter(
            each.pod.spec.scheduling_group.pod_group_name
            for each in sample
            if isinstance(each, PodArrived) and each.pod.spec.scheduling_group is not None
        )
        names = {each.object.metadata.name for each in sample if isinstance(each, ObjectSet)}
        assert names == {"g", *of_group}
        assert set(of_group.values()) <= {2}
        several.add(len(of_group))
    assert several == {0, 1, 2}
