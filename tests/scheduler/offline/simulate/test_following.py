"""A followed trace: each attempt is made in the recorded state, and the recorded nodes take the pods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.config import Configuration
from scheduler.config.types import ProfileConfig
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.following import FollowedAttempt, FollowedTrace
from scheduler.offline.simulate.metrics import RunMetrics
from scheduler.offline.simulate.virtual_cluster import SimulatedAttempt, SimulationError
from scheduler.offline.traces.document import Event, NodeAdded, NodeRemoved, ObjectSet, PodArrived
from tests.scheduler.builders import PROFILE, PodBuilder, make_node, make_pod
from tests.support.pod_group_loop import GATES, a_group

CONFIG = Configuration(profiles=(ProfileConfig(scheduler_name=PROFILE),))
NODES = tuple(NodeAdded(0.0, make_node(name).allocatable(cpu="2").obj()) for name in "ab")


def follow(
    events: Sequence[Event], attempts: Sequence[FollowedAttempt], config: Configuration = CONFIG
) -> tuple[list[str], RunMetrics]:
    """Return the feasible nodes of each attempt in one word, and the metrics."""
    feasible: list[str] = []

    def observe(attempt: SimulatedAttempt) -> None:
        slots = np.flatnonzero(attempt.result.trace.feasible)
        feasible.append("".join(sorted(attempt.snapshot.nodes.names[slot] for slot in slots)))

    metrics = RunMetrics(["cpu"], 100.0)
    FollowedTrace(config, IN_TREE, observe).run(events, attempts, metrics)
    return feasible, metrics


def arrives(
    at_s: float, pod: PodBuilder, node: str = "", bound_at_s: float | None = None, ended_at_s: float | None = None
) -> PodArrived:
    return PodArrived(at_s, pod.obj(), bound_at_s, node, ended_at_s)


def uid(name: str) -> str:
    return make_pod(name).obj().metadata.uid


def test_each_attempt_sees_the_pods_that_were_placed_and_had_not_ended() -> None:
    events: list[Event] = [
        *NODES,
        arrives(1, make_pod("first").request(cpu="2"), "b", 1.5, 8),
        arrives(1, make_pod("second").request(cpu="2"), "a", 2.5),
        arrives(3, make_pod("third").request(cpu="1"), "b", 9.5),
    ]
    attempts = [
        FollowedAttempt(1, uid("first"), "b"),
        FollowedAttempt(1.2, uid("second"), "a"),
        FollowedAttempt(3, uid("third")),
        FollowedAttempt(7, uid("third")),
        FollowedAttempt(9, uid("third"), "b"),
    ]
    feasible, metrics = follow(events, attempts)
    assert feasible == ["ab", "a", "", "", "b"]
    assert metrics.node_of == {"default/first": "b", "default/second": "a", "default/third": "b"}
    assert metrics.placed_s["default/third"] == 9
    assert metrics.figures().attempts == len(attempts)


def test_a_pod_without_a_recorded_attempt_is_bound_when_and_where_the_trace_says_so() -> None:
    second = arrives(2, make_pod("second").request(cpu="1"))
    events: list[Event] = [*NODES, arrives(1, make_pod("first").request(cpu="2"), "b", 4), second]
    assert follow(events, [FollowedAttempt(3, uid("second"))])[0] == ["ab"]
    feasible, metrics = follow(events, [FollowedAttempt(5, uid("second"))])
    assert feasible == ["a"]
    assert metrics.placed_s == {"default/first": 4}


def test_a_recorded_node_takes_a_pod_that_the_attempt_rejects_there() -> None:
    large, small = make_pod("large").request(cpu="3"), make_pod("small").request(cpu="1")
    events: list[Event] = [*NODES, arrives(1, large, "a", 1.5), arrives(2, small, "b", 2.5)]
    feasible, metrics = follow(events, [FollowedAttempt(1, uid("large"), "a"), FollowedAttempt(2, uid("small"), "b")])
    assert feasible == ["", "b"]
    assert metrics.node_of == {"default/large": "a", "default/small": "b"}


def test_a_nominated_pod_keeps_its_node_from_others_and_only_recorded_evictions_happen() -> None:
    victim = make_pod("victim").request(cpu="2")
    urgent = make_pod("urgent").request(cpu="2").priority(10)
    events: list[Event] = [
        NODES[0],
        PodArrived(1, victim.obj(), 1.5, "a", 5, was_evicted=True),
        arrives(2, urgent, "a", 7),
        arrives(6, make_pod("other").request(cpu="1")),
    ]
    attempts = [
        FollowedAttempt(1, uid("victim"), "a"),
        FollowedAttempt(2, uid("urgent"), nominated_node="a"),
        FollowedAttempt(4, uid("urgent"), nominated_node="a"),
        FollowedAttempt(6, uid("other")),
        FollowedAttempt(7, uid("urgent"), "a"),
    ]
    feasible, metrics = follow(events, attempts)
    assert feasible == ["a", "", "", "", "a"]
    assert metrics.figures().preempted == 1
    released = [each._replace(nominated_node="") for each in attempts]
    assert follow(events, released)[0] == ["a", "", "", "a", "a"]


def test_pods_end_with_their_node() -> None:
    events: list[Event] = [
        *NODES,
        arrives(1, make_pod("first"), "a", 2, 9),
        NodeRemoved(3, "a"),
        arrives(4, make_pod("second")),
    ]
    assert follow(events, [FollowedAttempt(4, uid("second"))])[0] == ["b"]


@pytest.mark.parametrize("at_s", [0.5, 3.0])
def test_an_attempt_of_a_pod_that_does_not_wait_is_an_error(at_s: float) -> None:
    events: list[Event] = [*NODES, arrives(1, make_pod("first"), "a", 2)]
    with pytest.raises(SimulationError, match=rf"^pod {uid('first')}: an attempt at {at_s} s, when it does not wait$"):
        follow(events, [FollowedAttempt(at_s, uid("first"))])


def test_an_attempt_of_a_pod_of_a_group_is_an_error() -> None:
    member = make_pod("member").with_spec(schedulingGroup={"podGroupName": "g"})
    events: list[Event] = [*NODES, ObjectSet(0.0, a_group("g", 1)), arrives(1, member)]
    with pytest.raises(SimulationError, match=r"^pod default/member: attempts of pod groups are not followed$"):
        follow(events, [FollowedAttempt(1, uid("member"))], replace(CONFIG, feature_gates=GATES))
