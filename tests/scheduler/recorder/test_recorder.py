"""Sequences without holes, gaps that say what is missing, tables from which a reader can start."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from herodotus_record import codec, notes
from herodotus_record.codec import fill_derived
from herodotus_record.model import (
    AttemptKey,
    Code,
    Decision,
    Gap,
    HighWater,
    NodeRows,
    Outcome,
    Reason,
    SchedulerInfo,
    Source,
)
from scheduler.config import Configuration, build_profile
from scheduler.engine.columns import NodeColumns, Snapshot
from scheduler.engine.cycle import schedule
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects import times
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records import build, ids
from scheduler.engine.records.build import AttemptData, Origin, RecordIdentity
from scheduler.engine.records.omitted_labels import omitted_labels
from scheduler.offline.evaluate import NoCluster
from scheduler.recorder import spool as spool_module
from scheduler.recorder.no_recorder import NoRecorder
from scheduler.recorder.recorder import HIGH_WATER_ANNOTATION, PhaseResult, Recorder
from scheduler.recorder.spool import Spool
from tests.scheduler import spools
from tests.scheduler.builders import columns_of, make_node, make_pod
from tests.scheduler.engine.framework.plugins import Filters, PreFilters, Scores, framework, text
from tests.support.recorder_frames import TIMES, record_attempt, record_bind


def a_recorder(directory: Path, limit: int = 1 << 30) -> Recorder:
    return Recorder(
        lambda incarnation: Spool(directory, incarnation, limit), Origin("cluster", "me"), "0", now_us=lambda: 42
    )


def limit(recorder: Recorder, size: int) -> None:
    """Change the spool's limit, and have it seen at once."""
    recorder._spool.limit_bytes = size
    recorder._spool._measure_space()


def decide(recorder: Recorder, columns: NodeColumns, name: str = "p") -> Decision:
    snapshot, pod = Snapshot.from_columns(columns), make_pod(name).request(cpu="1").info()
    result = schedule(framework(score=(Scores("S", {"b": 5}),)), pod, snapshot, 0)
    return record_attempt(recorder, pod, snapshot, result)


def cluster() -> NodeColumns:
    return columns_of([make_node("a"), make_node("b")])


def test_a_decision_is_on_disk_when_it_is_returned(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path)
    made = decide(recorder, cluster())
    assert spools.of(Decision, tmp_path) == [fill_derived(made)]
    assert (made.sequence, made.key.incarnation, made.notes) == (1, recorder.incarnation, (Reason("mark"),))


def test_disabled_recording_keeps_nothing_and_still_names_the_decision() -> None:
    recorder = NoRecorder("0")
    made = decide(recorder, cluster())
    record_bind(recorder, made)
    recorder.close()
    assert (made.pod.name, made.key.pod_uid, made.scheduler.profile) == ("p", "uid-p", "test")
    assert (recorder.recorded, recorder.dropped, recorder.build_high_water_annotation(), recorder.spool_bytes) == (
        0,
        0,
        {},
        0,
    )


def test_the_first_decision_has_the_whole_table_and_later_ones_only_changes(tmp_path: Path) -> None:
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
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", (1, 1))
    recorder, columns = a_recorder(tmp_path), cluster()
    for _ in range(3):
        record_bind(recorder, decide(recorder, columns))
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
            record_bind(recorder, first)

    threads = [threading.Thread(target=outcomes) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        decide(recorder, columns)
    for thread in threads:
        thread.join()
    assert [f.sequence for f in spools.frames(tmp_path) if not isinstance(f, NodeRows)] == list(range(1, 502))


def test_dropped_records_are_a_gap_with_their_exact_range(tmp_path: Path) -> None:
    recorder, columns = a_recorder(tmp_path), cluster()
    first = decide(recorder, columns)  # 1
    limit(recorder, 0)
    record_bind(recorder, first)  # 2 is lost
    decide(recorder, columns)  # 3 too; the gap cannot be written either
    limit(recorder, 1 << 30)
    record_bind(recorder, first)  # 4 is the gap, 5 the outcome
    decide(recorder, columns)  # 6

    assert [f.sequence for f in spools.frames(tmp_path) if not isinstance(f, NodeRows)] == [1, 4, 5, 6]
    (lost,) = spools.of(Gap, tmp_path)
    assert (lost.first, lost.last, lost.at_us) == (2, 3, 42)
    assert lost.reason.startswith("[Errno 28] the spool holds ")
    assert spools.sequences(tmp_path) == list(range(1, 7))
    assert (recorder.recorded, recorder.dropped) == (3, 2)


@pytest.mark.parametrize("say", [Recorder.check_spool, Recorder.close], ids=["while idle", "at the end"])
def test_gap_is_reported_without_another_record(tmp_path: Path, say: Callable[[Recorder], None]) -> None:
    recorder, columns = a_recorder(tmp_path), cluster()
    decide(recorder, columns)
    limit(recorder, 0)
    decide(recorder, columns)
    recorder.check_spool()
    assert spools.of(Gap, tmp_path) == []
    limit(recorder, 1 << 30)
    say(recorder)
    recorder.check_spool()
    assert [(gap.sequence, gap.first, gap.last) for gap in spools.of(Gap, tmp_path)] == [(3, 2, 2)]


def test_lost_rows_are_replaced_by_a_whole_table(tmp_path: Path) -> None:
    recorder, columns = a_recorder(tmp_path), cluster()
    decide(recorder, columns)
    columns.set_node(make_node("c").obj())
    limit(recorder, 0)
    decide(recorder, columns)
    limit(recorder, 1 << 30)
    decide(recorder, columns)
    assert [r.base for r in spools.of(NodeRows, tmp_path)] == [-1, -1]
    assert spools.table(tmp_path).names == ["a", "b", "c"]


def test_record_that_cannot_be_encoded_does_not_stop_scheduling(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path)
    first = decide(recorder, cluster())
    recorder.record_outcome(first, PhaseResult("Bind", Code.ERROR, "a", "no text: \udcff", final=True))
    record_bind(recorder, first)
    assert [type(f).__name__ for f in spools.frames(tmp_path)] == ["NodeRows", "Decision", "Gap", "Outcome"]
    assert spools.sequences(tmp_path) == [1, 2, 3, 4]


def test_after_close_records_are_lost_and_nothing_else(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path)
    first = decide(recorder, cluster())
    recorder.close()
    before = recorder.build_high_water_annotation()
    record_bind(recorder, first)
    assert recorder.dropped == 1
    assert recorder.build_high_water_annotation() == before  # nothing could say that the number is missing


def _complete(attempt: AttemptData) -> Decision:
    scheduler = SchedulerInfo("test", "me", "0")
    key = AttemptKey("cluster", Source.SCHEDULER, "incarnation", attempt.pod.uid, attempt.number)
    return fill_derived(build.decision(attempt, RecordIdentity("id", key, 5, scheduler)))


def test_the_record_of_a_scored_cycle() -> None:
    columns = columns_of([make_node(n) for n in ("a", "b", "gone", "c", "d")])
    columns.remove_node("gone")
    pod = make_pod("p", "shop").request(cpu="1").label("app", "x").owner("ReplicaSet", "rs").priority(3).info()
    made = framework(
        filter=(Filters("Fit", {"a": text("full")}),), score=(Scores("S", {"b": 7, "c": 9, "d": 9}),), weights={"S": 2}
    )
    snapshot = Snapshot.from_columns(columns)
    d = _complete(AttemptData(pod, 1, "test", snapshot, schedule(made, pod, snapshot, seed=1), TIMES, 1))
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
    for pod, token in ((a, "kube-api-access-x7k2p"), (b, "kube-api-access-9b2ff")):
        pod.with_spec(volumes=[{"name": token, "projected": {}}])
    assert build.pod_info(a.info()).digest == build.pod_info(b.info()).digest
    different = [a.info(), make_pod().request(cpu="2").info(), make_pod().info(), make_pod().label("x", "y").info()]
    different += [make_pod("a", "other").request(cpu="1").info()]
    assert len({build.pod_info(pod).digest for pod in different}) == len(different)


def test_labels_that_are_to_be_left_out_are_in_no_byte_of_the_spool(tmp_path: Path) -> None:
    recorder = Recorder(lambda i: Spool(tmp_path, i), Origin("cluster", "me", omitted_labels("person,x.io/*")), "0")
    pods = [make_pod("p").label("app", "web").label("person", name).label("x.io/team", "m").info() for name in "ab"]
    snapshot = Snapshot.from_columns(cluster())
    made = framework(score=(Scores("S", {"b": 5}),))
    for pod in pods:
        record_attempt(recorder, pod, snapshot, schedule(made, pod, snapshot, 0))
    first, second = spools.of(Decision, tmp_path)
    assert first.pod.labels == second.pod.labels == {"app": "web"}
    assert notes.format_decision_notes(first) == ["mark", "left out: 2 of the pod's 3 labels (--omit-labels)"]
    assert first.pod.digest == second.pod.digest  # else the two values could be told apart, and then guessed
    assert not any(b"x.io/team" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert pods[0].labels["person"] == "a"  # scheduling reads it as ever


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ("person", {"app", "x.io/a", "x.io/b"}),
        ("x.io/*", {"app", "person"}),
        ("x.io/?,app", {"person"}),
        ("x.io/A", {"app", "person", "x.io/a", "x.io/b"}),
        ("*", set()),
    ],
)
def test_labels_are_left_out_by_their_keys(patterns: str, kept: set[str]) -> None:
    labels = dict.fromkeys(("app", "person", "x.io/a", "x.io/b"), "")
    assert omitted_labels(patterns).kept(labels).keys() == kept


@pytest.mark.parametrize("text", ["", "a,,b", "[ab]", "a b", "app=web"])
def test_invalid_label_key_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a label's key"):
        omitted_labels(text)


def test_a_cycle_that_ended_in_pre_filter_has_no_columns() -> None:
    columns = cluster()
    pod, snapshot = make_pod().info(), Snapshot.from_columns(columns)
    result = schedule(framework(pre_filter=(PreFilters("P", text("no")),)), pod, snapshot, 0)
    d = _complete(AttemptData(pod, 1, "test", snapshot, result, TIMES, 0))
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
    assert times.parse_microseconds(written) == microseconds


def test_ids_only_go_up() -> None:
    made = [ids.uuid7() for _ in range(5000)]
    assert made == sorted(set(made))
    assert all(each[14] == "7" and each[19] in "89ab" for each in made)


def test_outcomes_of_other_phases_are_not_final(tmp_path: Path) -> None:
    recorder = a_recorder(tmp_path)
    made = decide(recorder, cluster())
    recorder.record_outcome(made, PhaseResult("PreBind", Code.SUCCESS, "a", duration_s=0.5))
    (said,) = spools.of(Outcome, tmp_path)
    assert said == Outcome(recorder.incarnation, 2, made.id, 1, "PreBind", Code.SUCCESS, "a", "", 42, 0.5, False)


EARLIER = "0f9b2a34-5c1d-4e8f-9a70-1b2c3d4e5f60"


class TestHighWater:
    def test_leader_reports_its_progress_after_a_lost_record(self, tmp_path: Path) -> None:
        recorder, columns = a_recorder(tmp_path), cluster()
        assert recorder.build_high_water_annotation() == {HIGH_WATER_ANNOTATION: f"{recorder.incarnation} 0"}
        record_bind(recorder, decide(recorder, columns))
        assert recorder.build_high_water_annotation() == {HIGH_WATER_ANNOTATION: f"{recorder.incarnation} 2"}
        limit(recorder, 1)
        decide(recorder, columns)
        assert recorder.build_high_water_annotation() == {HIGH_WATER_ANNOTATION: f"{recorder.incarnation} 3"}

    def test_it_leaves_out_a_record_that_is_being_written(self, tmp_path: Path) -> None:
        """A scheduler that is killed at that moment has not written the record."""
        recorder, columns = a_recorder(tmp_path), cluster()
        decide(recorder, columns)
        meanwhile: list[str] = []
        append = recorder._spool.append

        def observe(frames: bytes, **options: bool) -> None:
            meanwhile.extend(recorder.build_high_water_annotation().values())
            append(frames, **options)

        recorder._spool.append = observe  # type: ignore[method-assign]
        decide(recorder, columns, "q")
        assert meanwhile == [f"{recorder.incarnation} 1"]
        assert recorder.build_high_water_annotation() == {HIGH_WATER_ANNOTATION: f"{recorder.incarnation} 2"}

    def test_its_successor_records_it_before_any_decision(self, tmp_path: Path) -> None:
        first = a_recorder(tmp_path / "lost")
        decide(first, cluster())
        second = a_recorder(tmp_path / "kept")
        second.record_predecessor({"note": "somebody's", **first.build_high_water_annotation()})
        decide(second, cluster())
        said, table, decision = spools.frames(tmp_path / "kept")
        assert said == HighWater(second.incarnation, 1, first.incarnation, 1, 42)
        assert isinstance(table, NodeRows)
        assert isinstance(decision, Decision)
        assert decision.sequence == 2

    def test_idle_leader_reports_its_progress(self, tmp_path: Path) -> None:
        recorder = a_recorder(tmp_path)
        recorder.record_predecessor({HIGH_WATER_ANNOTATION: f"{EARLIER} 7"})
        recorder.close()
        assert [f.reached for f in spools.frames(tmp_path) if isinstance(f, HighWater)] == [7]

    def test_is_written_later_if_there_is_no_room_for_it(self, tmp_path: Path) -> None:
        """Of a leader before it whose disk was full as well, nothing else says how many records are missing."""
        recorder = a_recorder(tmp_path)
        limit(recorder, 0)
        recorder.record_predecessor({HIGH_WATER_ANNOTATION: f"{EARLIER} 7"})
        decide(recorder, cluster())
        assert list(spools.frames(tmp_path)) == []
        limit(recorder, 1 << 20)
        decide(recorder, cluster())
        gap, earlier, *_, decision = spools.frames(tmp_path)
        assert isinstance(gap, Gap)
        assert (gap.first, gap.last, gap.sequence) == (1, 1, 2)
        assert earlier == HighWater(recorder.incarnation, 3, EARLIER, 7, 42)
        assert isinstance(decision, Decision)
        assert decision.sequence == 4
        assert (recorder.dropped, recorder.recorded) == (1, 2)

    @pytest.mark.parametrize(
        "value",
        [
            *("", "x", "x y", " 5", f"{EARLIER} -1", f"{EARLIER} 5 6", f"{EARLIER} ٥", "another 7"),
            pytest.param(f"{EARLIER} {'9' * 5000}", id="more digits than Python reads"),
            pytest.param(f"{EARLIER} {(1 << 53) + 1}", id="more than the decisions service takes"),
        ],
    )
    def test_an_insane_high_water_mark_is_ignored_with_a_warning(
        self, tmp_path: Path, value: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        recorder = a_recorder(tmp_path)
        recorder.record_predecessor({HIGH_WATER_ANNOTATION: value})
        assert decide(recorder, cluster()).sequence == 1
        logged = capfd.readouterr().err
        assert "Ignoring the Lease annotation" in logged
        assert len(logged) < 500

    @pytest.mark.parametrize(
        "annotations", [{}, {HIGH_WATER_ANNOTATION: f"{EARLIER} 0"}], ids=["none", "nothing recorded"]
    )
    def test_without_earlier_records_nothing_is_recorded_or_warned(
        self, tmp_path: Path, annotations: dict[str, str], capfd: pytest.CaptureFixture[str]
    ) -> None:
        recorder = a_recorder(tmp_path)
        recorder.record_predecessor(annotations)
        assert decide(recorder, cluster()).sequence == 1
        assert "Ignoring" not in capfd.readouterr().err


def test_a_write_that_is_cut_short_ends_the_segment_and_what_is_lost_is_exactly_in_gaps(tmp_path: Path) -> None:
    """A real limit of the kernel's, for each file: a write is cut short in the middle of a frame."""
    recorder, columns = a_recorder(tmp_path), cluster()
    decide(recorder, columns)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    (segment,) = tmp_path.glob("*/*.seg")
    resource.setrlimit(resource.RLIMIT_FSIZE, (segment.stat().st_size + 300, before[1]))
    try:
        for _ in range(20):
            decide(recorder, columns)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert recorder.dropped > 0
    recorder.check_spool()
    last = decide(recorder, columns).sequence
    gaps = spools.of(Gap, tmp_path)
    assert (sum(gap.last - gap.first + 1 for gap in gaps), recorder.gaps) == (recorder.dropped, len(gaps))
    assert {gap.reason for gap in gaps} == {"[Errno 28] No space left on device"}
    assert spools.sequences(tmp_path) == list(range(1, last + 1))


@pytest.mark.parametrize(("nodes", "whole"), [(50, 4_000), (500, 9_000), (5_000, 60_000)])
def test_decision_and_outcome_have_the_documented_size(tmp_path: Path, nodes: int, whole: int) -> None:
    """docs/installing.md derives from it how long an outage the spool covers. `whole`: a template's first decision."""
    recorder = a_recorder(tmp_path)
    columns = columns_of([make_node(f"worker-{i}") for i in range(nodes)])
    plugins = Framework(build_profile(Configuration(), 0, IN_TREE, NoCluster()), time.monotonic)
    sizes = []
    for i in range(40):
        pod = make_pod(f"p{i}").request(cpu="100m", memory="128Mi").info()
        snapshot = Snapshot.from_columns(columns)
        result = schedule(plugins, pod, snapshot, i)
        assert result.chosen is not None
        record_bind(recorder, record_attempt(recorder, pod, snapshot, result))
        columns.add_pod(replace(pod, running=True), columns.names[result.chosen])
        sizes.append(sum(s.stat().st_size for s in tmp_path.glob("*/*.seg")))
    (first,) = [frame for _, frame in codec.split_frames(next(tmp_path.glob("*/*.seg")).read_bytes()) if frame[3] == 1]
    each = (sizes[-1] - sizes[0]) / 39
    print(f"{nodes} nodes: {len(first)} bytes, then {each:.0f}")
    assert 0.5 * whole < len(first) < whole
    assert 500 < each < 1_300
