"""Pod groups of a trace: their pods are placed in one cycle, by the scheduler's own rules for groups."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.config import Configuration
from scheduler.offline.simulate.virtual_cluster import SimulationError
from scheduler.offline.traces.document import Event, NodeAdded, ObjectSet, PodArrived
from tests.scheduler.builders import PodBuilder, make_node, make_pod
from tests.scheduler.offline.simulate.courses import CONFIG, Course, arrives, joins, simulate
from tests.support.pod_group_loop import GATES, a_group

GANGS = replace(CONFIG, feature_gates=GATES)


def member(name: str, cpu: str = "2") -> PodBuilder:
    return make_pod(name).request(cpu=cpu).with_spec(schedulingGroup={"podGroupName": "g"})


def group(min_count: int, **spec: Any) -> ObjectSet:
    return ObjectSet(0.0, a_group("g", min_count, spec=spec))


def run(*events: Event, **gates: bool) -> Course:
    return simulate(*events, config=replace(GANGS, feature_gates={**GATES, **gates}))


def list_placed(course: Course) -> list[tuple[float, str, str]]:
    return [said for said in course.said if said[2] not in ("arrives", "waits")]


def test_a_gang_holds_no_node_until_all_of_it_fit() -> None:
    course = run(
        group(2),
        joins("n", "4"),
        arrives(0, make_pod("before").request(cpu="2"), 10),
        arrives(1, member("a")),
        arrives(1, member("b")),
        arrives(2, make_pod("other").request(cpu="2"), 3),
    )
    assert list_placed(course) == [(0, "before", "n"), (2, "other", "n"), (10, "a", "n"), (10, "b", "n")]


def test_pods_arrive_one_by_one_and_the_gang_is_not_tried_before_it_is_complete() -> None:
    course = run(group(3), joins("n", "6"), *(arrives(at_s, member(f"m{at_s}")) for at_s in (1, 2, 5)))
    assert [said for said in course.said if said[2] != "arrives"] == [(5.0, f"m{i}", "n") for i in (1, 2, 5)]


def test_pods_beyond_the_least_number_wait_alone() -> None:
    course = run(group(2), joins("n", "4"), *(arrives(1, member(name)) for name in "abc"))
    assert list_placed(course) == [(1, "a", "n"), (1, "b", "n")]
    assert course.figures().never_placed == 1


def test_victims_of_a_gang_end_after_its_cycle() -> None:
    course = run(
        group(2),
        joins("n", "2"),
        joins("m", "2"),
        *(arrives(0, make_pod(f"low-{i}").request(cpu="2"), 50) for i in range(2)),
        *(arrives(3, member(name).priority(10)) for name in "ab"),
    )
    after = [said for said in course.said if said[0] >= 3 and said[2] != "arrives"]
    assert after[:2] == [(3, "a", "waits"), (3, "b", "waits")]
    assert sorted(after[2:4]) == [(3, "low-0", "evicted"), (3, "low-1", "evicted")]
    assert sorted(name for _, name, what in after if what in ("n", "m")) == ["a", "b"]


def test_a_gang_preempts_as_a_whole() -> None:
    course = run(
        group(2, priority=5),
        joins("n", "4"),
        *(arrives(0, make_pod(f"low-{i}").request(cpu="1"), 50) for i in range(4)),
        *(arrives(3, member(name).priority(5)) for name in "ab"),
        WorkloadAwarePreemption=True,
    )
    assert course.figures().preempted == 4
    assert [name for _, name, what in list_placed(course) if what == "n"][-2:] == ["a", "b"]


def test_a_gang_is_placed_in_the_only_rack_with_room() -> None:
    racks = [
        NodeAdded(0.0, make_node(name).allocatable(cpu=cpu).label("rack", name[0]).obj())
        for name, cpu in (("a1", "2"), ("b1", "2"), ("b2", "2"))
    ]
    topology = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    events: list[Event] = [group(2, **topology), *racks, *(arrives(1, member(name)) for name in "xy")]
    assert set(run(*events, TopologyAwareWorkloadScheduling=True).node_of.values()) == {"b1", "b2"}


def test_equal_seeds_give_equal_courses() -> None:
    events: list[Event] = [
        group(2),
        *(joins(f"n{i}", "8") for i in range(5)),
        *(arrives(i, member(f"p{i}", "1")) for i in range(9)),
    ]
    assert run(*events).said == run(*events).said


@pytest.mark.parametrize(
    ("events", "config", "message"),
    [
        ([], GANGS, "the trace does not have its PodGroup g"),
        ([group(1)], CONFIG, "its PodGroup g needs the feature gate GenericWorkload in the configuration"),
        (
            [group(1, resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])],
            GANGS,
            "the claims of its PodGroup g are not simulated",
        ),
    ],
    ids=["no-group", "no-gate", "claims"],
)
def test_a_group_that_is_not_simulated_is_an_error(events: list[Event], config: Configuration, message: str) -> None:
    with pytest.raises(SimulationError, match=f"^pod default/a: {message}$"):
        simulate(*events, joins("n"), arrives(1, member("a")), config=config)


def test_the_groups_of_workload_objects_are_an_error() -> None:
    pod = make_pod("a").with_spec(workloadRef={"name": "w", "podGroup": "g"})
    with pytest.raises(SimulationError, match=r"^pod default/a: the groups of Workload objects \(workloadRef\)"):
        simulate(joins("n"), arrives(1, pod), config=GANGS)


def test_a_pod_that_was_on_its_node_counts_for_its_group() -> None:
    there = PodArrived(0.0, member("there").obj(), node="n", was_on_node=True)
    course = run(group(2), joins("n", "4"), there, arrives(1, member("a")))
    assert list_placed(course) == [(1, "a", "n")]
