"""kube-scheduler's log beside a recorded trace: its attempts, their order, and what differs from a followed one."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from bench.trace_parity import SchedulerLog, build_configuration, compare_decisions
from scheduler.config import Configuration
from scheduler.config.load import parse_config
from scheduler.offline.traces.document import Event, NodeAdded, PodArrived
from tests.scheduler.builders import make_node, make_pod

STARTED = datetime(2026, 11, 29, 22, 0, tzinfo=timezone.utc)


def read_log(path: Path, *lines: tuple[float, str]) -> SchedulerLog:
    """Return the log of lines at seconds after the start."""
    path.write_text("".join(f"I1129 22:00:{at_s:09.6f}   15 file.go:1] {text}\n" for at_s, text in lines))
    return SchedulerLog(path, STARTED)


def begun(pod: str) -> str:
    return f'"Attempting to schedule pod" pod="default/{pod}"'


def binding(pod: str, node: str) -> str:
    return f'"Attempting to bind pod to node" pod="default/{pod}" node="{node}"'


def failed(pod: str) -> str:
    return f'"Unable to schedule pod; no fit; waiting" pod="default/{pod}" err="0/2 nodes are available"'


def nominated(pod: str, node: str) -> str:
    return (
        f'"Updating pod condition and nominated node name" pod="default/{pod}" conditionType="PodScheduled"'
        f' nominatedNodeName="{node}" nominatingMode=1'
    )


def score(pod: str, node: str, total: int) -> str:
    return f'"Calculated node\'s final score for pod" pod="default/{pod}" node="{node}" score={total}'


def ended(pod: str) -> str:
    return f'"Delete event for scheduled pod" pod="default/{pod}"'


@pytest.fixture(scope="module")
def config() -> Configuration:
    return parse_config(str(build_configuration("LeastAllocated")).replace("'", '"'))


def events() -> list[Event]:
    nodes: list[Event] = [NodeAdded(0.0, make_node(name).allocatable(cpu="2").obj()) for name in "ab"]
    large, small = make_pod("large").request(cpu="2").obj(), make_pod("small").request(cpu="2").obj()
    other = make_pod("other").request(cpu="2").obj()
    return [
        *nodes,
        PodArrived(1.1, large, 1.2, "a", 5.5),
        PodArrived(2.0, small, 2.1, "b"),
        PodArrived(3.0, other, 6.2, "a"),
    ]


LINES = [
    (1.0, begun("large")),
    (1.01, score("large", "a", 7)),
    (1.01, score("large", "b", 7)),
    (1.02, binding("large", "a")),
    (2.0, begun("small")),
    (2.01, binding("small", "b")),
    (3.0, begun("other")),
    (3.01, failed("other")),
    (3.01, nominated("other", "")),
    (5.0, begun("other")),
    (4.9, ended("large")),
    (5.01, failed("other")),
    (5.01, nominated("other", "")),
    (6.0, begun("other")),
    (6.01, binding("other", "a")),
    (7.0, begun("unfinished")),
]


def test_an_end_that_is_logged_after_the_begin_of_an_attempt_happens_after_it(tmp_path: Path) -> None:
    log = read_log(tmp_path / "log", *LINES)
    assert [(each.pod, each.at_s, each.node) for each in log.attempts] == [
        ("default/large", 1.0, "a"),
        ("default/small", 2.0, "b"),
        ("default/other", 3.0, ""),
        ("default/other", 5.0, ""),
        ("default/other", 6.0, "a"),
    ]
    assert log.attempts[0].totals == {"a": 7, "b": 7}
    assert log.ended_s == {"default/large": pytest.approx(5.000001)}
    corrected = [each for each in log.correct_times(events()) if isinstance(each, PodArrived)]
    assert [each.at_s for each in corrected] == [1, 2, 3]
    assert [each.ended_at_s for each in corrected] == [pytest.approx(5.000001), None, None]


def test_attempts_of_a_followed_trace_are_equal_to_those_of_the_log(tmp_path: Path, config: Configuration) -> None:
    log = read_log(tmp_path / "log", *LINES)
    comparison, figures = compare_decisions(log.correct_times(events()), config, log)
    assert not comparison.differences
    assert (comparison.counts["feasible sets"], comparison.counts["best nodes"]) == (5, 3)
    assert (figures.placed, figures.attempts) == (3, 5)


def test_differences_from_the_log_are_named(tmp_path: Path, config: Configuration) -> None:
    wrong = {1: (1.01, score("large", "a", 8)), 12: (5.01, nominated("other", "b"))}
    log = read_log(tmp_path / "log", *(wrong.get(i, line) for i, line in enumerate(LINES)))
    comparison, _ = compare_decisions(log.correct_times(events()), config, log)
    assert comparison.differences == {
        "best nodes": [
            "default/large at 1.000 s: kube-scheduler 1 nodes , simulation 2 nodes ['b']",
        ],
        "nodes where no tie decided": ["default/large at 1.000 s: kube-scheduler a, simulation a, b"],
        "nodes of preemption": ["default/other at 5.000 s: kube-scheduler b, simulation one of []"],
    }
