"""A simulated trace: pods wait, are placed, evicted and end as the queue and the cycle have it, on virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.load import parse_config
from scheduler.offline.traces.document import Event, NodeRemoved
from tests.scheduler.builders import PROFILE, make_pod
from tests.scheduler.offline.simulate.courses import arrives, joins, simulate


def test_a_pod_waits_until_another_ends_and_runs_as_long_as_in_the_trace() -> None:
    course = simulate(
        joins("n"),
        arrives(1, make_pod("first").request(cpu="2"), 10),
        arrives(3, make_pod("second").request(cpu="2"), 10),
        arrives(15, make_pod("third").request(cpu="2"), 1),
    )
    assert course.said == [
        (1, "first", "arrives"),
        (1, "first", "n"),
        (3, "second", "arrives"),
        (3, "second", "waits"),
        (11, "second", "n"),
        (15, "third", "arrives"),
        (15, "third", "waits"),
        (21, "third", "n"),
    ]
    figures = course.figures()
    assert (figures.arrived, figures.placed, figures.never_placed, figures.attempts) == (3, 3, 0, 5)
    assert figures.waited_p50_s == 6
    assert figures.waited_p99_s == pytest.approx(7.96)
    assert figures.resources["cpu"].peak == 1


def test_a_pod_that_fits_nowhere_is_counted_and_ends_nothing() -> None:
    course = simulate(joins("n"), arrives(1, make_pod("large").request(cpu="3"), 5))
    assert course.said == [(1, "large", "arrives"), (1, "large", "waits")]
    assert course.figures().never_placed == 1


def test_a_node_that_joins_takes_a_waiting_pod_after_its_backoff_at_most() -> None:
    course = simulate(joins("n"), arrives(1, make_pod("large").request(cpu="3")), joins("m", "4", 1.25))
    assert course.said[-1][1:] == ("large", "m")
    assert 1.25 <= course.said[-1][0] <= 2


def test_the_victim_of_preemption_arrives_anew_if_a_controller_owns_it() -> None:
    course = simulate(
        joins("n"),
        arrives(1, make_pod("low").request(cpu="2").owner("ReplicaSet", "low"), 10),
        arrives(5, make_pod("high").request(cpu="2").priority(10), 4),
    )
    assert [said for said in course.said if said[1] == "high"][-1] == (5, "high", "n")
    assert [said for said in course.said if said[1] == "low"] == [
        (1, "low", "arrives"),
        (1, "low", "n"),
        (5, "low", "evicted"),
        (5, "low", "arrives"),
        (5, "low", "waits"),
        (9, "low", "n"),
    ]
    assert (course.figures().preempted, course.figures().never_placed) == (1, 0)


def test_a_victim_without_a_controller_is_gone() -> None:
    course = simulate(
        joins("n"),
        arrives(1, make_pod("low").request(cpu="2"), 10),
        arrives(5, make_pod("high").request(cpu="2").priority(10), 4),
    )
    assert [said for said in course.said if said[1] == "low"][-1] == (5, "low", "evicted")


def test_the_pods_of_a_node_end_with_it() -> None:
    course = simulate(
        joins("n"),
        arrives(1, make_pod("a").request(cpu="2")),
        NodeRemoved(2, "n"),
        joins("n", at_s=3),
        arrives(4, make_pod("b").request(cpu="2")),
    )
    assert course.said[-1] == (4, "b", "n")


def test_the_configuration_decides() -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: {PROFILE}, pluginConfig: [{{name: NodeResourcesFit, args: {{scoringStrategy:"
        " {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}]\n"
    )
    events: list[Event] = [
        joins("a"),
        joins("b"),
        *(arrives(i, make_pod(f"p{i}").request(cpu="500m")) for i in range(1, 5)),
    ]
    spread, packed = simulate(*events), simulate(*events, config=parse_config(text))
    assert sorted(spread.node_of.values()) == ["a", "a", "b", "b"]
    assert len(set(packed.node_of.values())) == 1


_arrivals = st.tuples(
    st.integers(0, 30), st.integers(1, 3), st.integers(0, 2), st.none() | st.integers(0, 20), st.booleans()
)


@given(st.lists(_arrivals, max_size=12), st.integers(1, 3), st.integers(0, 9))
def test_no_node_is_over_its_allocatable_and_equal_seeds_give_equal_courses(
    arrivals: Sequence[tuple[int, int, int, int | None, bool]], nodes: int, seed: int
) -> None:
    events: list[Event] = [joins(f"n{i}", "3") for i in range(nodes)]
    for i, (at_s, cpu, priority, runs_s, is_owned) in enumerate(arrivals):
        pod = make_pod(f"p{i}").request(cpu=str(cpu)).priority(priority)
        events.append(arrives(at_s, pod.owner("ReplicaSet", "r") if is_owned else pod, runs_s))
    course = simulate(*events, seed=seed)
    assert simulate(*events, seed=seed).said == course.said
    figures = course.figures()
    assert figures.arrived == figures.placed + figures.never_placed
