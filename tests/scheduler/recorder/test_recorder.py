"""Sequences without holes, gaps that say what is missing, tables from which a reader can start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from herodotus_record.model import Code, Decision, Gap, NodeRows, Outcome, Times
from scheduler.columns import NodeColumns, Snapshot
from scheduler.cycle import schedule
from scheduler.recorder import build, ids
from scheduler.recorder import spool as spool_module
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from tests.scheduler import spools
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.framework.plugins import Filters, PreFilters, Scores, framework, text

TIMES = Times(0, 0, 0)


def a_recorder(directory: Path, limit: int = 1 << 30) -> Recorder:
    return Recorder(lambda incarnation: Spool(directory, incarnation, limit), "cluster", "me", "0", now_us=lambda: 42)


def decide(recorder: Recorder, columns: NodeColumns, name: str = "p") -> Decision:
    snapshot, pod = Snapshot.of(columns), make_pod(name).request(cpu="1").info()
    result = schedule(framework(score=(Scores("S", {"b": 5}),)), pod, snapshot, 0)
    return recorder.decision(pod, 1, "test", snapshot, result, TIMES, 0, ("mark",))


def outcome(recorder: Recorder, of: Decision) -> None:
    recorder.outcome(of, "Bind", Code.SUCCESS, "a", "", 0.0, final=True)


def cluster() -> NodeColumns:
    return columns_of([make_node("a"), make_node("b")])


def test_a_decision_is_on_disk_when_it_is_returned(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path)
    made = decide(recorder, cluster())
    assert spools.of(Decision, tmp_path) == [made]
    assert (made.sequence, made.key.incarnation, made.marks) == (1, recorder.incarnation, ("mark",))


def test_the_first_decision_brings_the_whole_table_and_later_ones_what_changed(tmp_path: Path) -> None:
    recorder, columns = a_recorder(tmp_path), cluster()
    decide(recorder, columns)
    decide(recorder, columns)
    columns.add_pod(make_pod("x").request(cpu="2").node("b").info(), "b")
    columns.remove_node("a")
    decide(recorder, columns)

    rows = spools.of(NodeRows, tmp_path)
    assert [(r.base, r.slot.tolist(), r.name) for r in rows] == [(-1, [0, 1], ("a", "b")), (2, [0, 1], ("", "b"))]
    table = spools.table(tmp_path)
    assert (table.names, table.generation) == (["", "b"], columns.generation)
    assert [row["cpu"] for row in table.requested] == [0, 2000]


def test_a_new_segment_begins_with_the_whole_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 1)
    recorder, columns = a_recorder(tmp_path), cluster()
    for _ in range(3):
        outcome(recorder, decide(recorder, columns))
        columns.set_node(make_node("a").allocatable(cpu="9").obj())
    segments = sorted(tmp_path.glob("*/*.seg"))
    assert len(segments) == 3
    kinds = [type(f).__name__ for f in spools.frames(tmp_path)]
    assert kinds == ["NodeRows", "Decision", "Outcome"] * 3
    assert all(r.base == -1 for r in spools.of(NodeRows, tmp_path))


def test_sequences_have_no_holes_under_concurrency(tmp_path: Path) -> None:
    recorder, columns = a_recorder(tmp_path), cluster()
    first = decide(recorder, columns)

    def outcomes() -> None:
        for _ in range(100):
            outcome(recorder, first)

    threads = [threading.Thread(target=outcomes) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        decide(recorder, columns)
    for thread in threads:
        thread.join()
    assert [f.sequence for f in spools.frames(tmp_path) if not isinstance(f, NodeRows)] == list(range(1, 502))


def test_what_did_not_fit_is_a_gap_with_its_exact_range(tmp_path: Path) -> None:
    recorder, columns = a_recorder(tmp_path), cluster()
    first = decide(recorder, columns)  # 1
    recorder._spool.limit_bytes = 0
    outcome(recorder, first)  # 2 is lost
    decide(recorder, columns)  # 3 too; the gap cannot be written either
    recorder._spool.limit_bytes = 1 << 30
    outcome(recorder, first)  # 4 is the gap, 5 the outcome
    decide(recorder, columns)  # 6

    assert [f.sequence for f in spools.frames(tmp_path) if not isinstance(f, NodeRows)] == [1, 4, 5, 6]
    (lost,) = spools.of(Gap, tmp_path)
    assert (lost.first, lost.last, lost.at_us) == (2, 3, 42)
    assert lost.reason.startswith("[Errno 28] the spool holds ")
    assert spools.sequences(tmp_path) == list(range(1, 7))
    assert (recorder.recorded, recorder.dropped) == (3, 2)


@pytest.mark.parametrize("say", [Recorder.settle, Recorder.close], ids=["while idle", "at the end"])
def test_a_gap_is_told_without_another_record(tmp_path: Path, say: Callable[[Recorder], None]) -> None:
    recorder, columns = a_recorder(tmp_path), cluster()
    decide(recorder, columns)
    recorder._spool.limit_bytes = 0
    decide(recorder, columns)
    recorder.settle()
    assert spools.of(Gap, tmp_path) == []
    recorder._spool.limit_bytes = 1 << 30
    say(recorder)
    recorder.settle()
    assert [(gap.sequence, gap.first, gap.last) for gap in spools.of(Gap, tmp_path)] == [(3, 2, 2)]


def test_rows_that_were_lost_are_made_good_by_a_whole_table(tmp_path: Path) -> None:
    recorder, columns = a_recorder(tmp_path), cluster()
    decide(recorder, columns)
    columns.set_node(make_node("c").obj())
    recorder._spool.limit_bytes = 0
    decide(recorder, columns)
    recorder._spool.limit_bytes = 1 << 30
    decide(recorder, columns)
    assert [r.base for r in spools.of(NodeRows, tmp_path)] == [-1, -1]
    assert spools.table(tmp_path).names == ["a", "b", "c"]


def test_what_cannot_be_written_down_stops_nothing(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path)
    first = decide(recorder, cluster())
    recorder.outcome(first, "Bind", Code.ERROR, "a", "no text: \udcff", 0.0, final=True)
    outcome(recorder, first)
    assert [type(f).__name__ for f in spools.frames(tmp_path)] == ["NodeRows", "Decision", "Gap", "Outcome"]
    assert spools.sequences(tmp_path) == [1, 2, 3, 4]


def test_after_close_records_are_lost_and_nothing_else(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path)
    first = decide(recorder, cluster())
    recorder.close()
    outcome(recorder, first)
    assert recorder.dropped == 1


def test_the_record_of_a_scored_cycle() -> None:
    columns = columns_of([make_node(n) for n in ("a", "b", "gone", "c", "d")])
    columns.remove_node("gone")
    pod = make_pod("p", "shop").request(cpu="1").label("app", "x").owner("ReplicaSet", "rs").priority(3).info()
    made = framework(
        filter=(Filters("Fit", {"a": text("full")}),), score=(Scores("S", {"b": 7, "c": 9, "d": 9}),), weights={"S": 2}
    )
    result = schedule(made, pod, Snapshot.of(columns), seed=1)
    d = build.decision(
        id="id",
        key=None,  # type: ignore[arg-type]
        sequence=5,
        scheduler=None,  # type: ignore[arg-type]
        pod=pod,
        times=TIMES,
        generation=columns.generation,
        seed=1,
        result=result,
        marks=(),
    )
    assert (d.slots, d.nodes_total, d.nodes_evaluated, d.nodes_feasible) == (5, 4, 4, 3)
    assert d.evaluation.tolist() == [0, 0, 1, 0, 0]
    assert [(f.plugin, f.ids.tolist()) for f in d.filters] == [("Fit", [1, 0, 0, 0, 0])]
    assert [(s.plugin, s.weight, s.raw.tolist()) for s in d.scores] == [("S", 2, [0, 7, 0, 9, 9])]
    assert (d.totals.tolist(), d.rank.tolist(), d.ties) == ([0, 14, 0, 18, 18], [0, 3, 0, 1, 1], (3, 4))
    assert d.chosen in d.ties
    assert (d.pod.labels, d.pod.priority, d.pod.requests) == ({"app": "x"}, 3, {"cpu": 1000})
    assert d.pod.owner is not None
    assert (d.pod.owner.kind, d.pod.owner.name) == ("ReplicaSet", "rs")


def test_the_digest_is_of_what_scheduling_reads() -> None:
    a, b = make_pod("a").request(cpu="1"), make_pod("b").request(cpu="1").condition("PodScheduled", "False")
    assert build.pod_info(a.info()).digest == build.pod_info(b.info()).digest
    different = [a.info(), make_pod().request(cpu="2").info(), make_pod().info(), make_pod().label("x", "y").info()]
    different += [make_pod("a", "other").request(cpu="1").info()]
    assert len({build.pod_info(pod).digest for pod in different}) == len(different)


def test_a_cycle_that_ended_in_pre_filter_has_no_columns() -> None:
    columns = cluster()
    result = schedule(framework(pre_filter=(PreFilters("P", text("no")),)), make_pod().info(), Snapshot.of(columns), 0)
    d = build.decision(
        id="", key=None, sequence=1, scheduler=None, pod=make_pod().info(), times=TIMES,  # type: ignore[arg-type]
        generation=1, seed=0, result=result, marks=(),
    )  # fmt: skip
    assert (d.filters, d.scores, d.totals.tolist(), d.rank.tolist()) == ((), (), [], [0, 0])
    assert (d.nodes_total, d.nodes_evaluated, d.evaluation.tolist()) == (2, 0, [5, 5])
    assert [v.plugin for v in d.pre_filters] == ["P"]


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [
        (None, 0),
        ("", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("2026-03-01T11:59:58Z", 1_772_366_398_000_000),
        ("2026-03-01T11:59:58.000001Z", 1_772_366_398_000_001),
        ("2026-03-01T12:59:58.999999+01:00", 1_772_366_398_999_999),
    ],
)
def test_timestamps_to_the_microsecond(written: str | None, microseconds: int) -> None:
    assert build.microseconds(written) == microseconds


def test_ids_only_go_up() -> None:
    made = [ids.uuid7() for _ in range(5000)]
    assert made == sorted(set(made))
    assert all(each[14] == "7" and each[19] in "89ab" for each in made)


def test_outcomes_of_other_phases_are_not_final(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path)
    made = decide(recorder, cluster())
    recorder.outcome(made, "PreBind", Code.SUCCESS, "a", "", 0.5, final=False)
    (said,) = spools.of(Outcome, tmp_path)
    assert said == Outcome(recorder.incarnation, 2, made.id, 1, "PreBind", Code.SUCCESS, "a", "", 42, 0.5, False)
