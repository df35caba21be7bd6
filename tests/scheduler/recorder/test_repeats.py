"""Attempts in a loop: at most about one record a second, and counts that add up to all attempts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from herodotus_record.model import (
    REPEATS_PHASE,
    Decision,
    DecisionPath,
    Gap,
    Outcome,
    Reason,
    RequeueEvent,
    Retry,
    Times,
)
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.records.build import AttemptData, Origin
from scheduler.recorder import repeats
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from tests.scheduler import spools
from tests.scheduler.backend.queue.queues import a_queue, add
from tests.scheduler.builders import PodBuilder, columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Filters, framework, text

START_US = 1_000_000_000
FULL = text("no room")


@dataclass
class Tried:
    """A recorder with its clock and a cluster of three nodes, on which pods are tried."""

    folder: Path
    now_us: int = START_US
    columns: NodeColumns = field(default_factory=lambda: columns_of([make_node(n) for n in "abc"]))
    numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = Recorder(
            lambda incarnation: Spool(self.folder, incarnation), Origin("c", "me"), "0", now_us=lambda: self.now_us
        )
        self.full = framework(filter=(Filters("Fit", dict.fromkeys("abc", FULL)),))
        self.free = framework(filter=(Filters("Fit", {}),))

    def attempt(self, pod: PodInfo, rules: Framework | None = None, **data: Any) -> Decision:
        self.numbers[pod.uid] = self.numbers.get(pod.uid, 0) + 1
        snapshot = Snapshot.from_columns(self.columns)
        result = schedule(rules or self.full, pod, snapshot, self.now_us)
        times = Times(0, 0, self.now_us, queues_s={"backoff": self.now_us / 1e6})
        made = AttemptData(pod, self.numbers[pod.uid], "test", snapshot, result, times, self.now_us % 99, **data)
        return self.recorder.record_decision(made)

    def after(self, seconds: float) -> None:
        self.now_us += round(seconds * 1e6)

    @property
    def decisions(self) -> list[Decision]:
        return spools.of(Decision, self.folder)

    @property
    def counts(self) -> list[tuple[int, int, float, float]]:
        """The number of the decision, its repeats, and when the first and the last began, in seconds."""
        return [
            (
                o.decision_sequence,
                o.repeats,
                (o.at_us - round(o.duration_s * 1e6) - START_US) / 1e6,
                (o.at_us - START_US) / 1e6,
            )
            for o in spools.of(Outcome, self.folder)
            if o.phase == REPEATS_PHASE
        ]


@pytest.fixture
def tried(tmp_path: Path) -> Tried:
    return Tried(tmp_path)


def a_pod(name: str = "p") -> PodBuilder:
    return make_pod(name).request(cpu="1")


def test_a_pod_updated_100_times_a_second_leaves_one_record_a_second(tried: Tried) -> None:
    """Its owner changes an annotation; the queue returns it at once, as nothing else is active."""
    queue, attempts = a_queue(), 0
    add(queue, a_pod())
    for i in range(500):
        queued = queue.pop(i / 100)
        assert queued is not None
        attempts += 1
        tried.attempt(queued.pod, requeued_by=RequeueEvent("PodUpdate" if i % 2 else "NodeUpdate", ""))
        queue.add_unschedulable_if_not_present(queued, frozenset({"Unknown"}), i / 100)
        queue.update(a_pod().label("v", str(i)).info(), i / 100)
        queue.update(a_pod().info(), i / 100)
        tried.after(0.01)
    tried.recorder.close()
    assert attempts == 500
    assert len(tried.decisions) == 5
    assert sum(count for _, count, _, _ in tried.counts) + len(tried.decisions) == attempts
    assert [d.key.attempt for d in tried.decisions] == [1, 101, 201, 301, 401]
    assert spools.sequences(tried.folder) == list(range(1, 11))


def test_a_pod_requeued_by_a_flapping_node_leaves_one_record_a_second(tried: Tried) -> None:
    """The node's row changes each time, and what the record states of it does not."""
    pod = a_pod().info()
    for i in range(300):
        tried.columns.set_node(make_node("b").label("beat", str(i)).obj())
        tried.attempt(pod)
        tried.after(0.01)
    tried.recorder.close()
    assert (len(tried.decisions), sum(count for _, count, _, _ in tried.counts)) == (3, 297)


def test_many_pods_in_a_loop_leave_one_record_a_second_each(tried: Tried) -> None:
    pods = [a_pod(f"p-{i}").info() for i in range(200)]
    for _ in range(4):
        for pod in pods:
            tried.attempt(pod)
            tried.after(0.001)
    tried.recorder.close()
    assert (len(tried.decisions), sum(count for _, count, _, _ in tried.counts)) == (200, 600)


def test_the_count_names_its_first_and_last_attempt(tried: Tried) -> None:
    pod = a_pod().info()
    first = tried.attempt(pod)
    for seconds in (0.25, 0.25, 0.125):
        tried.after(seconds)
        repeat = tried.attempt(pod)
    assert (repeat.id, repeat.sequence, repeat.key.attempt) == (first.id, first.sequence, 4)
    assert tried.counts == []
    tried.after(0.5)
    tried.recorder.check_spool()
    assert tried.counts == [(1, 3, 0.25, 0.625)]


def test_a_busy_loop_writes_counts_after_a_second(tried: Tried) -> None:
    """Without an idle moment: at the next attempt of any pod."""
    tried.attempt(a_pod().info())
    tried.attempt(a_pod().info())
    tried.after(0.9)
    tried.attempt(a_pod("q").info())
    assert tried.counts == []
    tried.after(0.1)
    tried.attempt(a_pod("r").info())
    assert [count for _, count, _, _ in tried.counts] == [1]


def other_verdict(tried: Tried) -> None:
    tried.attempt(a_pod().info(), framework(filter=(Filters("Fit", {"a": FULL, "b": FULL, "c": text("else")}),)))


def a_replaced_node(tried: Tried) -> None:
    tried.columns.remove_node("b")
    tried.columns.set_node(make_node("b").obj())
    tried.attempt(a_pod().info())


def a_new_node(tried: Tried) -> None:
    tried.columns.set_node(make_node("d").obj())
    tried.full = framework(filter=(Filters("Fit", dict.fromkeys("abcd", FULL)),))
    tried.attempt(a_pod().info())


@pytest.mark.parametrize(
    "differs",
    [
        pytest.param(other_verdict, id="a verdict"),
        pytest.param(a_replaced_node, id="a node of the same name"),
        pytest.param(a_new_node, id="a new node"),
        pytest.param(lambda t: t.attempt(a_pod().label("v", "2").info()), id="the pod"),
        pytest.param(lambda t: t.attempt(a_pod().info(), notes=(Reason("mark"),)), id="a note"),
        pytest.param(lambda t: t.attempt(a_pod().info(), retry=Retry("unschedulable", 1, 2)), id="the queue"),
        pytest.param(lambda t: t.attempt(a_pod().info(), t.free), id="a placement"),
    ],
)
def test_a_different_attempt_is_recorded_after_the_count(tried: Tried, differs: Any) -> None:
    for _ in range(3):
        tried.attempt(a_pod().info(), retry=Retry("backoff", tried.now_us, None))
        tried.after(0.01)
    differs(tried)
    kinds = [f.phase if isinstance(f, Outcome) else f.key.attempt for f in records(tried)]
    assert kinds == [1, REPEATS_PHASE, 4]
    assert spools.sequences(tried.folder) == [1, 2, 3]
    assert tried.counts[0][:2] == (1, 2)


def test_a_placement_is_never_counted(tried: Tried) -> None:
    made = [tried.attempt(a_pod().info(), tried.free) for _ in range(3)]
    tried.recorder.close()
    assert all(d.path is not DecisionPath.NONE for d in made)
    assert ([d.id for d in tried.decisions], tried.counts) == ([d.id for d in made], [])


def test_attempts_further_apart_than_a_second_are_recorded(tried: Tried) -> None:
    for _ in range(5):
        tried.attempt(a_pod().info())
        tried.after(1.0)
    assert (len(tried.decisions), tried.counts) == (5, [])


def test_a_clock_that_is_set_back_does_not_prolong_a_count(tried: Tried) -> None:
    tried.attempt(a_pod().info())
    tried.after(-3600)
    tried.attempt(a_pod().info())
    assert len(tried.decisions) == 2


def test_a_crash_loses_counts_of_the_last_second_and_no_decision(tried: Tried) -> None:
    for _ in range(250):
        tried.attempt(a_pod().info())
        tried.after(0.01)
    assert len(tried.decisions) == 3  # without close
    assert sum(count for _, count, _, _ in tried.counts) >= 250 - 100 - len(tried.decisions)


def test_nothing_is_counted_on_a_decision_that_was_not_written(tried: Tried) -> None:
    tried.recorder._spool.limit_bytes = 1
    tried.recorder._spool._measure_space()
    tried.attempt(a_pod().info())
    tried.attempt(a_pod().info())
    assert (tried.recorder.dropped, tried.recorder.repeated) == (2, 0)
    tried.recorder._spool.limit_bytes = 1 << 30
    tried.recorder._spool._measure_space()
    tried.attempt(a_pod().info())
    assert [(g.first, g.last) for g in spools.of(Gap, tried.folder)] == [(1, 2)]
    assert spools.sequences(tried.folder) == [1, 2, 3, 4]


def test_memory_is_bounded_and_a_loop_over_more_pods_counts_those_that_fit(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "MAX_WEIGHT", 10)
    for _ in range(2):
        for i in range(15):
            tried.attempt(a_pod(f"p-{i}").info())
    assert (len(tried.decisions), tried.recorder.repeated) == (20, 10)
    tried.after(1.0)
    tried.recorder.check_spool()
    assert len(tried.counts) == 10
    assert (tried.recorder._recent._by_uid, tried.recorder._recent._weight) == ({}, 0)


def test_only_the_record_is_offered_for_verdicts_of_node_groups(tried: Tried) -> None:
    offered: list[int] = []
    tried.recorder.on_no_node = lambda attempt: offered.append(attempt.sequence)
    for _ in range(3):
        tried.attempt(a_pod().info())
    assert offered == [1]


def test_a_lost_record_is_not_offered_for_verdicts_of_node_groups(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[int] = []
    tried.recorder.on_no_node = lambda attempt: offered.append(attempt.sequence)
    monkeypatch.setattr(tried.recorder, "_write_record", lambda *_: False)
    tried.attempt(a_pod().info())
    assert offered == []


def records(tried: Tried) -> Iterator[Any]:
    return (f for f in spools.frames(tried.folder) if isinstance(f, Decision | Outcome))
