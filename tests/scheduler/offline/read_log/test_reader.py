"""A log in any form, order and state: same decisions, nothing guessed, nothing crashes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_answers.decision import build_decision_document
from herodotus_answers.pod import build_pod_explanation
from herodotus_record import codec, notes
from herodotus_record.model import Code, DecisionPath, NodeRows, NodeTable
from scheduler.offline.read_log.reader import AttemptFrames, LogReader
from tests.scheduler.offline.read_log import klogs
from tests.support.answers import as_json
from tests.support.scheduler_logs import (
    FIT_ERROR,
    NOW,
    Said,
    log_lines,
    logged_placement,
    logged_rejection,
    recorded_lines,
)

Json = dict[str, Any]


def read(lines: Iterable[str]) -> tuple[LogReader, list[AttemptFrames]]:
    reader = LogReader(now=lambda: NOW)
    return reader, list(reader.all(lines))


def documents(reads: Sequence[AttemptFrames]) -> list[Json]:
    table, found = NodeTable(), []
    for r in reads:
        if r.rows is not None:
            rows = codec.decode(codec.encode(r.rows))
            assert isinstance(rows, NodeRows)
            table.apply(rows)
        codec.validate(r.decision)
        found.append(as_json(build_decision_document(r.decision, (r.outcome,) if r.outcome else (), table)))
    return found


def explained(reads: Sequence[AttemptFrames]) -> Json:
    table = NodeTable()
    for r in reads:
        if r.rows is not None:
            table.apply(r.rows)
    last = reads[-1]
    answer = build_pod_explanation(last.decision, (last.outcome,) if last.outcome else (), table, every_node=True)
    return as_json(answer)


def comparable(document: Json) -> Json:
    """Without what is numbered or timed by the place in the log."""
    spec, status = document["spec"], document["status"]
    kept = {k: v for k, v in spec.items() if k not in ("sequence", "key", "times", "evaluation", "notes")}
    seen = {node: e for node, e in spec["evaluation"].items() if e == "evaluated"}
    by_place = ("verdicts on", "times: ")  # which nodes were known by then; the text form's year
    notes = [m for m in spec["notes"] if not m.startswith(by_place)]
    ended = {k: v for k, v in status.items() if k != "outcomes"}
    return kept | ended | {"seen": seen, "notes": notes, "attempt": spec["key"]["attempt"]}


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([klogs.text, klogs.as_json]))
def test_lines_of_other_pods_between_change_nothing(draw: random.Random, form: Callable[..., str]) -> None:
    stories = [
        logged_placement("ns/a"),
        logged_rejection("ns/b"),
        logged_placement("ns/c", best="n1"),
        logged_rejection("ns/d") + logged_placement("ns/d"),
        [klogs.bound("ns/e", "n9", 5, 1)],
    ]
    expected: dict[str, list[Json]] = {}
    for d in documents(read(log_lines((s for story in stories for s in story), form))[1]):
        expected.setdefault(_pod(d), []).append(comparable(d))
    left, mixed = [list(story) for story in stories], list[Said]()
    while any(left):
        mixed.append(draw.choice([story for story in left if story]).pop(0))
    found: dict[str, list[Json]] = {}
    for d in documents(read(log_lines(mixed, form))[1]):
        found.setdefault(_pod(d), []).append(comparable(d))
    assert found == expected
    assert {pod: len(of) for pod, of in found.items()} == {"ns/a": 1, "ns/b": 1, "ns/c": 1, "ns/d": 2, "ns/e": 1}


def _pod(document: Json) -> str:
    return f"{document['metadata']['namespace']}/{document['spec']['pod']['name']}"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_cut_or_garbled_log_never_crashes(data: st.DataObject) -> None:
    """And what is read of it makes records that the codec takes."""
    said = logged_placement("ns/a") + logged_rejection("ns/b") + logged_placement("ns/b")
    whole = "\n".join(log_lines(said, data.draw(st.sampled_from([klogs.text, klogs.as_json]))))
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    noise = data.draw(st.text(max_size=20))
    at = data.draw(st.integers(start, end))
    documents(read((whole[start:at] + noise + whole[at:end]).split("\n"))[1])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_rotated_log_gives_the_decisions_of_its_part(share: float) -> None:
    """The second half of the recording: what is whole in it is as in the whole log."""
    lines = list(recorded_lines())
    part = lines[int(len(lines) * share) :]
    whole = {(d.chosen is None, d.message, d.pod.name) for d in (r.decision for r in read(lines)[1])}
    found = {(d.chosen is None, d.message, d.pod.name) for d in (r.decision for r in read(part)[1])}
    assert found <= whole
    assert found


def test_when_lines_are_read_does_not_matter_to_keys() -> None:
    """A log that was followed with pauses and one that is read whole: the same sequences and slots."""
    lines = log_lines([*logged_rejection("ns/b"), *logged_placement("ns/a"), *logged_rejection("ns/c")])
    _, whole = read(lines)
    reader, paused = LogReader(now=lambda: NOW), list[AttemptFrames]()
    for line in lines:
        paused += [*reader.feed(line), *reader.settled()]
    paused += reader.end()
    assert _keys(whole) == _keys(paused)


def _keys(reads: Sequence[AttemptFrames]) -> set[tuple[str, str, int, int | None]]:
    return {(r.decision.id, r.decision.pod.name, r.decision.sequence, r.decision.chosen) for r in reads}


def test_both_forms_say_the_same() -> None:
    text, as_json = (
        documents(read(log_lines(logged_placement("ns/a"), form))[1]) for form in (klogs.text, klogs.as_json)
    )
    assert [comparable(d) for d in text] == [comparable(d) for d in as_json]
    assert [d["metadata"] for d in text] != [d["metadata"] for d in as_json]  # the one form says the year
    assert len(text) == 1


def test_foreign_and_damaged_lines_are_counted() -> None:
    reader, reads = read(
        [
            "panic: something else",
            '{"level":"info","message":"another program"}',
            '{"ts":1,"msg":',
            'I0307 12:00:00.000001       1 schedule_one.go:1] "Attempting to schedule pod" pod="ns/cut',
            "I0307 12:00:0",
            'I0307 12:00:00.000001       1 x.go:1] "Request Body" body=<',
            "\tforged: Successfully bound pod to node",
            " >",
            klogs.text("Starting reflector"),
            klogs.text("Attempting to schedule pod", pod="ns/a"),
        ]
    )
    assert reads == []
    assert reader.format_summary() == (
        "10 lines: 0 decisions from 1 lines; skipped: 4 unrelated, 2 foreign, 3 damaged; 1 attempts without an end"
    )


def test_answer_of_a_log_at_v2_names_what_is_missing() -> None:
    answer = explained(read(log_lines([klogs.bound("ns/a", "n1", 5, 3)]))[1])
    assert answer["headline"] == "On n1: one of 3 feasible nodes out of 5 evaluated; no scores in the log."
    assert (answer["nodes"]["total"], answer["nodes"]["evaluated"], answer["nodes"]["feasible"]) == (None, 5, 3)
    assert (answer["pod"]["requests"], answer["attempt"]["podCreatedAt"]) == (None, None)
    assert (answer["margin"], answer["scorePlugins"], answer["filters"]) == (None, [], [])
    assert "scores are not in the log: kube-scheduler writes them at -v=10" in answer["notes"]
    assert any("start is not in the log" in mark for mark in answer["notes"])


def test_unschedulable_pod_has_the_message_of_the_log() -> None:
    answer = explained(read(log_lines(logged_rejection("ns/a")))[1])
    assert answer["message"] == answer["summary"] == FIT_ERROR
    assert answer["headline"] == "No node fits. The log names the rejecting filter for 0 of 216 nodes."
    assert (answer["nodes"]["total"], answer["nodes"]["evaluated"], answer["possibleChanges"]) == (216, None, [])
    assert answer["preemption"]["nominatedNode"] == "n3"


def test_a_missing_score_line_leaves_the_scores_out() -> None:
    """Ranks of some of the nodes would be wrong ranks."""
    said = [s for s in logged_placement("ns/a") if not ("Plugin" in s[0] and s[1]["node"] == "n1")]
    (found,) = read(log_lines(said))[1]
    assert (found.decision.path, found.decision.scores, len(found.decision.totals)) == (DecisionPath.SCORED, (), 0)
    assert "lines with scores are missing in the log: its scores are ignored" in notes.format_decision_notes(
        found.decision
    )


def test_weights_come_from_the_log_or_are_marked_missing() -> None:
    listed = {"Score": {"Enabled": [{"Name": "NodeResourcesFit", "Weight": 1}, {"Name": "ImageLocality", "Weight": 2}]}}
    at_start = ("the scheduler starts to work with those plugins", {"Plugins": listed})
    (knows,) = read(log_lines([at_start, *logged_placement("ns/a")]))[1]
    (guesses,) = read(log_lines(logged_placement("ns/a")))[1]
    assert [(s.plugin, s.weight) for s in knows.decision.scores] == [("ImageLocality", 2), ("NodeResourcesFit", 1)]
    assert max(knows.decision.scores[0].normalized) == 2
    assert max(guesses.decision.scores[0].normalized) == 4
    assert any(
        "weights of ImageLocality, NodeResourcesFit are not in the log" in m
        for m in notes.format_decision_notes(guesses.decision)
    )


def test_a_binding_that_failed_is_an_outcome() -> None:
    said = [
        *logged_placement("ns/a")[:-1],
        ("Error scheduling pod; retrying", {"err": "binding refused", "pod": "ns/a"}),
    ]
    (found,) = read(log_lines(said))[1]
    assert found.outcome is not None
    assert (found.outcome.status, found.outcome.message, found.outcome.final) == (Code.ERROR, "binding refused", True)


def test_preemptions_trial_runs_reject_no_node() -> None:
    spread = ("Node doesn't have required topology label for spread constraint", {"node": "n1", "topologyKey": "zone"})
    said: list[Said] = [
        klogs.attempt_starts("ns/a"),
        ("Check the potential node for preemption", {"pod": "ns/a", "node": "n1"}),
        (spread[0], {"pod": "ns/a", **spread[1]}),
        klogs.no_fit("ns/a", FIT_ERROR),
    ]
    (found,) = read(log_lines(said))[1]
    assert found.decision.filters == ()


@pytest.mark.parametrize(
    ("line", "year"),
    [
        pytest.param("I0307 12:00:00.000001       1 s.go:1] ", 2026, id="this year"),
        pytest.param("I1224 12:00:00.000001       1 s.go:1] ", 2025, id="not in the future"),
        pytest.param("I0229 12:00:00.000001       1 s.go:1] ", 2024, id="a leap day"),
        pytest.param("2019-03-07T12:00:00.1Z I0307 12:00:00.000001       1 s.go:1] ", 2019, id="kubectl --timestamps"),
        pytest.param("2019-03-07T12:00:00.1Z stderr F I0307 12:00:00.000001       1 s.go:1] ", 2019, id="a runtime's"),
        pytest.param("kube-scheduler I0307 12:00:00.000001       1 s.go:1] ", 2026, id="a component's name"),
        pytest.param(
            "2019-03-07T12:00:00.1Z ??? I0307 12:00:00.000001       1 s.go:1] ", 2019, id="no component's name"
        ),
    ],
)
def test_year_of_a_log_is_the_latest_possible_one_by_default(line: str, year: int) -> None:
    (found,) = read([line + '"Successfully bound pod to node" pod="a/b" node="n" evaluatedNodes=1 feasibleNodes=1'])[1]
    assert datetime.fromtimestamp(found.decision.times.started_us / 1e6, timezone.utc).year == year
    assert any("no year" in mark for mark in notes.format_decision_notes(found.decision)) == (year != 2019)


def evicting(pod: str, node: str, victims: int) -> list[Said]:
    """Return the lines of an attempt that preempts, up to the queue."""
    return [
        klogs.attempt_starts(pod),
        ("the target node for the preemption is determined", {"pod": pod, "node": node}),
        klogs.no_fit(pod, "0/2 nodes are available: 2 Insufficient cpu."),
        ("Start the preemption asynchronously", {"preemptor": pod, "node": node, "numVictims": victims}),
    ]


def preempted(pod: str, victim: str, node: str) -> Said:
    return "Preemptor Pod preempted victim Pod", {"preemptor": pod, "victim": victim, "node": node}


NEXT = [klogs.attempt_starts("a/p"), klogs.bound("a/p", "n1", 2, 1)]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            [
                *evicting("a/p", "n1", 2),
                preempted("a/p", "a/v1", "n1"),
                NEXT[0],
                preempted("a/p", "a/v2", "n1"),
                NEXT[1],
            ],
            [["a/v1", "a/v2"], None],
            id="the next attempt starts before the last victim is logged",
        ),
        pytest.param(
            [*evicting("a/p", "n1", 1), *NEXT, preempted("a/p", "a/v1", "n1")],
            [["a/v1"], None],
            id="and is over before",
        ),
        pytest.param(
            [
                *evicting("a/p", "n1", 2),
                preempted("a/p", "a/v1", "n1"),
                *evicting("a/p", "n2", 1),
                preempted("a/p", "a/v3", "n2"),
                preempted("a/p", "a/v2", "n1"),
            ],
            [["a/v1", "a/v2"], ["a/v3"]],
            id="the next attempt preempts on another node",
        ),
        pytest.param(
            [*evicting("a/p", "n1", 2), preempted("a/p", "a/v1", "n1"), *NEXT],
            [["a/v1"], None],
            id="a victim is never logged",
        ),
        pytest.param(
            [line for line in evicting("a/p", "n1", 1) if "asynchronously" not in line[0]]
            + [NEXT[0], preempted("a/p", "a/v1", "n1"), NEXT[1]],
            [["a/v1"], None],
            id="how many there are is not logged",
        ),
    ],
)
def test_victims_are_those_of_the_attempt_that_evicts_them(said: list[Said], expected: list[list[str] | None]) -> None:
    found = sorted(
        LogReader().all(klogs.text(message, i, **pairs) for i, (message, pairs) in enumerate(said)), key=_number
    )
    preemptions = [each.decision.preemption for each in found]
    assert [made and list(made.candidates[0].victims) for made in preemptions] == expected
    named = sum(len(victims or ()) for victims in expected)
    announced = sum(pairs.get("numVictims", 0) for _, pairs in said)
    notes = [note.code for each in found for note in each.decision.notes]
    assert ("log-victims" in notes) == (announced > named)


def _number(read: Any) -> int:
    return int(read.decision.key.attempt)


def test_an_attempt_waits_for_its_victims_no_longer_than_the_grace() -> None:
    reader = LogReader()
    said = [*evicting("a/p", "n1", 2), *NEXT]
    found = [each for i, (message, pairs) in enumerate(said) for each in reader.feed(klogs.text(message, i, **pairs))]
    assert [_number(each) for each in found] == [2]
    later = list(reader.feed(klogs.text(klogs.attempt_starts("a/q")[0], 30_000, pod="a/q")))
    assert [_number(each) for each in later] == [1]
    late = preempted("a/p", "a/v1", "n1")
    assert list(reader.feed(klogs.text(late[0], 30_001, **late[1]))) == []


def test_a_node_from_an_equal_pods_ranking_is_marked() -> None:
    said = [
        klogs.attempt_starts("a/p"),
        ("OpportunisticBatch provided node hint", {"profile": "s", "pod": "a/p", "hint": "n2"}),
        klogs.bound("a/p", "n2", 1, 1),
        klogs.attempt_starts("a/q"),
        ("OpportunisticBatch provided node hint", {"profile": "s", "pod": "a/q", "hint": "n3"}),
        klogs.bound("a/q", "n1", 9, 2),
    ]
    found = list(LogReader().all(klogs.text(message, i, **pairs) for i, (message, pairs) in enumerate(said)))
    batched = [[n.params["node"] for n in each.decision.notes if n.code == "log-batched"] for each in found]
    assert batched == [["n2"], []]
