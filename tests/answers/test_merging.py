"""A reconstruction and a log record are merged cell by cell; the log wins, and the result lists what is from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from herodotus_answers.decision import build_decision_document
from herodotus_answers.headlines import format_headline
from herodotus_answers.merging import MergedAttempt, merge_records
from herodotus_record import notes
from herodotus_record.model import (
    ADDITIONS,
    REPEATS_PHASE,
    Agreement,
    Cause,
    DecisionPath,
    Evaluation,
    Reason,
    Reconstruction,
)
from tests.builders import INSUFFICIENT_CPU, SCORES, TAINTED
from tests.observed import NOON_US, POD, Record, logged, read, seen, turned_away
from tests.scheduler.offline.read_log import klogs

# Weighted points of two nodes, as the reconstruction has them: TaintToleration counts three times.
POINTS = {
    "worker-1": {"TaintToleration": 300, "NodeResourcesFit": 60, "ImageLocality": 0},
    "worker-2": {"TaintToleration": 300, "NodeResourcesFit": 50, "ImageLocality": 0},
}
NORMALISED = {n: {p: v // SCORES[p] for p, v in by.items()} for n, by in POINTS.items()}
FULL = {"worker-3": {"NodeResourcesFit": INSUFFICIENT_CPU}}


def both(ours: Record, theirs: Record) -> MergedAttempt:
    return merge_records(ours, theirs)


def points(of: MergedAttempt | Record) -> dict[str, dict[str, int]]:
    """Return weighted scores by feasible node."""
    d, names = of.decision, of.table.names
    feasible = [slot for slot, rank in enumerate(d.rank) if rank]
    return {names[s]: {c.plugin: c.normalized[s] * c.weight for c in d.scores if not c.skipped} for s in feasible}


def overruled(of: MergedAttempt) -> dict[str, int]:
    return {part: n for part, (_, n) in of.origins.parts.items() if n}


def test_equal_records_are_merged_without_overruled_cells() -> None:
    ours = seen(points=NORMALISED, rejected=FULL)
    found = both(ours, logged("worker-1", POINTS))
    assert points(found) == POINTS
    assert overruled(found) == {}
    assert {s.plugin: list(s.raw[:2]) for s in found.decision.scores} == {
        s.plugin: list(s.raw[:2]) for s in ours.decision.scores
    }
    assert {part for part in found.origins.parts if part.startswith("scores.")} == {f"scores.{p}" for p in SCORES}


def test_scores_of_the_log_win_cell_by_cell() -> None:
    """One cell differs: the log's score wins, and the plugin's raw scores, which led to another one, are dropped."""
    theirs = {**POINTS, "worker-2": POINTS["worker-2"] | {"NodeResourcesFit": 55}}
    found = both(seen(points=NORMALISED, rejected=FULL), logged("worker-1", theirs))
    assert points(found) == theirs
    assert overruled(found) == {"scores.NodeResourcesFit": 1}
    by_plugin = {s.plugin: s for s in found.decision.scores}
    assert not len(by_plugin["NodeResourcesFit"].raw)
    assert len(by_plugin["TaintToleration"].raw)
    assert format_headline(found.decision, found.table).endswith("5 points ahead of worker-2 (NodeResourcesFit +5).")


def test_the_reconstruction_provides_what_the_log_omits() -> None:
    ours = seen(points=NORMALISED, rejected=FULL)
    found = both(ours, logged("worker-1"))
    assert points(found) == POINTS
    assert found.decision.pod == ours.decision.pod
    assert found.decision.filters == ours.decision.filters
    assert found.table.allocatable == ours.table.allocatable
    assert found.decision.nodes_feasible == 2
    assert set(found.origins.parts) == {
        *("attempt.startedAt", "nodes.evaluated", "nodes.feasible", "outcome.path", "outcome.phases")
    }


def test_what_neither_record_holds_is_unknown() -> None:
    found = both(seen(points=NORMALISED), logged("worker-1", POINTS))
    assert found.decision.unknown == ("scheduler.identity", "seed")
    document = build_decision_document(found.decision, found.outcomes, found.table)
    assert (document["spec"]["seed"], document["spec"]["scheduler"]["identity"]) == (None, None)
    assert document["spec"]["pod"]["requests"] == {"cpu": 500}


def test_start_and_binding_are_from_the_log() -> None:
    theirs = logged("worker-1", POINTS, at_ms=7)
    found = both(seen(points=NORMALISED), theirs)
    assert found.decision.times.started_us == NOON_US + 7_000
    assert found.outcomes == theirs.outcomes


def test_what_outcomes_add_to_the_observers_record_is_kept() -> None:
    ours, theirs = seen(points=NORMALISED), logged("worker-1", POINTS)
    added = tuple(
        replace(theirs.outcomes[0], phase=phase, final=False, node="", repeats=7 if phase == REPEATS_PHASE else 0)
        for phase in ADDITIONS
    )
    found = both(replace(ours, outcomes=(*theirs.outcomes, *added)), theirs)
    assert found.outcomes == (*theirs.outcomes, *added)


def test_a_node_that_the_log_did_not_rank_is_not_feasible() -> None:
    """It may not have been sampled, or a filter that logs nothing rejected it; neither record says which."""
    ours = seen(points=NORMALISED)  # worker-3 fits too, with no points
    found = both(ours, logged("worker-1", POINTS))
    assert points(found) == POINTS
    assert found.decision.evaluation[2] == Evaluation.UNRECORDED
    assert overruled(found) == {"nodes.feasible": 1, "ranking": 1}


def test_a_node_that_the_log_ranked_passed_every_filter() -> None:
    rejected = {"worker-2": {"NodeResourcesFit": INSUFFICIENT_CPU}, **FULL}
    found = both(seen(rejected=rejected), logged("worker-1", POINTS))
    assert points(found) == POINTS
    fit = next(f for f in found.decision.filters if f.plugin == "NodeResourcesFit")
    assert [fit.verdicts[i].rejects_node for i in fit.ids] == [False, False, True]
    assert (overruled(found)["filters.NodeResourcesFit"], overruled(found)["ranking"]) == (1, 1)
    assert found.decision.path is DecisionPath.SCORED


def test_a_verdict_in_the_log_wins() -> None:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    tainted = ("node had untolerated taints", {"pod": POD, "node": "worker-3", "untoleratedTaint": taint})
    message = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    (theirs,) = read(klogs.attempt_starts(POD), tainted, klogs.no_fit(POD, message))
    ours = seen(rejected={n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in ("worker-1", "worker-2", "worker-3")})
    found = both(ours, theirs)
    tolerates = next(f for f in found.decision.filters if f.plugin == "TaintToleration")
    assert [tolerates.verdicts[i] for i in tolerates.ids][2] == TAINTED
    assert overruled(found) == {"filters.TaintToleration": 1, "message": 1}
    assert found.decision.message == message


def test_a_node_that_only_the_log_names_gets_a_slot() -> None:
    theirs = {**POINTS, "worker-9": {"TaintToleration": 300, "NodeResourcesFit": 90, "ImageLocality": 0}}
    ours = seen(points=NORMALISED, rejected=FULL)
    found = both(ours, logged("worker-9", theirs))
    assert points(found) == theirs
    assert found.table.names[found.decision.chosen or 0] == "worker-9"
    assert format_headline(found.decision, found.table).startswith("On worker-9: best of 3 feasible nodes")
    assert build_decision_document(found.decision, found.outcomes, found.table)["status"]["node"] == "worker-9"


@pytest.mark.parametrize("by_log", [True, False], ids=["with scores", "without"])
def test_a_disagreement_is_kept_with_the_outcome_of_the_log(by_log: bool) -> None:
    disagrees = Reconstruction(Agreement.DISAGREE, Cause.UNEXPLAINED)
    ours = seen(points=NORMALISED, rejected=FULL, chosen="worker-2", found=disagrees)
    theirs = {**POINTS, "worker-2": POINTS["worker-2"] | {"NodeResourcesFit": 65}}
    found = both(ours, logged("worker-2", theirs if by_log else None))
    headline = format_headline(found.decision, found.table)
    rebuilt = "On worker-2, by default-scheduler. The evaluation puts worker-1 10 points ahead"
    assert found.origins.evaluation_headline.startswith(rebuilt)
    assert found.origins.reconstruction == {
        "agreement": "disagree",
        "cause": "unexplained",
        "bindingsInFlight": 0,
        "deletionsInFlight": 0,
    }
    assert headline.startswith("On worker-2: best of 2 feasible nodes" if by_log else rebuilt)


def test_notes_that_hold_for_one_record_alone_are_dropped() -> None:
    ours = seen(points=NORMALISED)
    ours = replace(ours, decision=replace(ours.decision, notes=(Reason(notes.SEEN_AT),)))
    found = both(ours, logged("worker-1"))
    assert found.decision.notes == (Reason("log-no-year"),)


def test_a_rejection_has_the_message_of_the_log_and_the_reasons_of_the_reconstruction() -> None:
    rejected = {n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in ("worker-1", "worker-2", "worker-3")}
    ours = seen(rejected=rejected)
    found = both(ours, turned_away(ours.decision.message))
    assert format_headline(found.decision, found.table) == format_headline(ours.decision, ours.table)
    assert found.decision.filters == ours.decision.filters


def test_merging_changes_neither_record() -> None:
    ours, theirs = seen(points=NORMALISED, rejected=FULL), logged("worker-2", POINTS)
    before = [build_decision_document(r.decision, r.outcomes, r.table) for r in (ours, theirs)]
    both(ours, theirs)
    assert [build_decision_document(r.decision, r.outcomes, r.table) for r in (ours, theirs)] == before
