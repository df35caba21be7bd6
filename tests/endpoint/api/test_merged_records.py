"""A pod of another scheduler that an observer and a log tell of: one attempt everywhere, whichever came first."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from herodotus_record.model import Candidate, Evaluation, Owner, Preemption
from tests.endpoint.service import API, Service, a_service
from tests.observed import NOON_US, POD, Record, logged, read, seen
from tests.scheduler.offline.read_log import klogs
from tests.support.merged_records import (
    FULL,
    LOG_AGAIN,
    LOG_PLACED,
    LOG_REJECTED,
    LOGS,
    NORMALISED,
    PLACED,
    POINTS,
    REJECTED,
    SEEN,
)


@pytest.fixture(scope="module", params=["seen first", "logged first", "in turn"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    orders: dict[str, tuple[Record, ...]] = {
        "seen first": (*SEEN, *LOGS),
        "logged first": (*LOGS, *SEEN),
        "in turn": (LOG_REJECTED, REJECTED, LOG_AGAIN, PLACED, LOG_PLACED),
    }
    service = a_service(tmp_path_factory.mktemp("together"))
    service.clock.now_s = NOON_US / 1e6 + 600
    for record in orders[request.param]:
        service.stored(*record.frames)
    yield service
    service.store.close()


def test_latest_attempt_merges_observer_and_log(service: Service) -> None:
    told = service.explain()
    assert told["headline"].endswith("5 points ahead of worker-2 (NodeResourcesFit +5).")
    assert told["origins"]["records"] == {"reconstructed": PLACED.decision.id, "logged": LOG_PLACED.decision.id}
    fit = {"part": "scores.NodeResourcesFit", "text": "points of NodeResourcesFit", "from": ["logged"], "overruled": 1}
    assert fit in told["origins"]["parts"]
    assert told["pod"]["requests"]["cpu"]  # which no log says
    assert told["reconstruction"]["agreement"] == "agree"
    assert (told["attempt"]["ordinal"], told["attempt"]["attempts"], told["attempt"]["failedBefore"]) == (3, 3, 2)


@pytest.mark.parametrize("record", [PLACED, LOG_PLACED], ids=["the reconstruction's", "the log's"])
def test_both_ids_find_the_merged_attempt(service: Service, record: Record) -> None:
    assert service.explain(record.decision.id) == service.explain()
    whole = service.get(f"{API}/namespaces/shop/decisions/{record.decision.id}")
    assert whole["spec"]["origins"]["rest"] == "reconstructed"


def test_attempts_of_the_log_belong_to_the_pod(service: Service) -> None:
    again = service.explain(attempt=2)
    assert again["attempt"]["id"] == LOG_AGAIN.decision.id
    assert again["attempt"]["source"] == "logged"
    assert again["metadata"]["uid"] == REJECTED.decision.pod.uid
    assert "origins" not in again
    history = service.get(f"{API}/namespaces/shop/podhistories/checkout-7d9f-x2k")
    assert [a["state"] for a in history["attempts"]] == ["Unschedulable", "Unschedulable", "Bound"]
    by_uid = service.get(f"{API}/namespaces/shop/podhistories/checkout-7d9f-x2k", uid=REJECTED.decision.pod.uid)
    assert by_uid == history


def test_node_history_counts_a_merged_attempt_once(service: Service) -> None:
    told = service.history("worker-1")
    assert (told["chosen"], told["won"]["count"]) == (1, 1)
    assert [d["state"] for d in told["recent"]].count("Bound") == 1


def test_balance_and_pending_count_the_pod_once(service: Service) -> None:
    assert service.get(f"{API}/balances")["decisions"] == 1
    assert service.get(f"{API}/pendingpods")["count"] == 0


def test_list_shows_both_records(service: Service) -> None:
    """They are objects of their own, each with its source and its name."""
    items = service.get(f"{API}/decisions")["items"]
    assert sorted(item["spec"]["key"]["source"] for item in items) == ["logged"] * 3 + ["reconstructed"] * 2


@pytest.mark.parametrize("first", ["seen", "logged"])
def test_waiting_pod_is_pending_once(tmp_path: Path, first: str) -> None:
    service = a_service(tmp_path)
    service.clock.now_s = NOON_US / 1e6 + 60
    both = (REJECTED, LOG_REJECTED) if first == "seen" else (LOG_REJECTED, REJECTED)
    for record in (*both, LOG_AGAIN):
        service.stored(*record.frames)
    told = service.get(f"{API}/pendingpods")
    assert (told["count"], [pod["pod"] for pod in told["pods"]]) == (1, ["checkout-7d9f-x2k"])
    service.store.close()


def test_overlapping_logs_report_an_attempt_once(tmp_path: Path) -> None:
    """Each part is a log with a first line of its own, so their records are not the same to the store."""
    service = a_service(tmp_path)
    service.clock.now_s = NOON_US / 1e6 + 60
    lines = [*klogs.scores(POD, POINTS), klogs.bound(POD, "worker-1", 3, 2)]
    early = ("Added node to NodeTree", {"node": "worker-1"})
    parts = [read(early, klogs.attempt_starts(POD), *lines), read(klogs.attempt_starts(POD), *lines, at_ms=1)]
    for (record,) in parts:
        service.stored(*record.frames)
    first, second = (record.decision for (record,) in parts)
    assert first.key.incarnation != second.key.incarnation
    told = service.explain()
    assert (told["attempt"]["attempts"], told["attempt"]["id"]) == (1, first.id)
    assert service.explain(second.id) == told
    assert service.history("worker-1")["chosen"] == 1
    service.store.close()


@pytest.mark.parametrize("order", [(PLACED, LOG_PLACED), (LOG_PLACED, PLACED)], ids=["seen first", "logged first"])
def test_attempt_twice_in_a_batch_is_counted_once(tmp_path: Path, order: tuple[Record, Record]) -> None:
    service = a_service(tmp_path)
    service.stored(*(frame for record in order for frame in record.frames))
    assert service.history("worker-1")["chosen"] == 1
    service.store.close()


def test_old_attempt_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many others of the pod have come since."""
    monkeypatch.setattr("herodotus_endpoint.store.attempts.MAX_ROWS", 3)
    service = a_service(tmp_path)
    service.clock.now_s = NOON_US / 1e6 + 7_260
    since = (seen(7_200_000 + n, rejected=FULL, attempt=n, sequence=n) for n in (11, 12, 13))
    for record in (PLACED, *since, LOG_PLACED):
        service.stored(*record.frames)
    assert service.history("worker-1", since="999999999999")["chosen"] == 1
    service.store.close()


ONE, TWO = Candidate("worker-1", ("ci/job-1",), 0), Candidate("worker-2", ("ci/job-2",), 0)
UNEVALUATED = array("B", [Evaluation.NOT_SAMPLED] * LOG_PLACED.decision.slots)
SILENT = tuple(replace(f, ids=array("B")) for f in PLACED.decision.filters)


@pytest.mark.parametrize(
    ("seen_otherwise", "logged_otherwise"),
    [
        ({}, {"evaluation": UNEVALUATED}),
        ({}, {"filters": SILENT}),
        ({}, {"totals": array("q")}),
        ({"scores": tuple(replace(s, weight=0) for s in PLACED.decision.scores)}, {}),
        ({"preemption": Preemption("worker-2", (TWO,), False)}, {"preemption": Preemption("", (), False)}),
        (
            {"preemption": Preemption("worker-2", (TWO,), False)},
            {"preemption": Preemption("worker-1", (ONE, TWO), True)},
        ),
    ],
    ids=[
        "nothing evaluated",
        "filters that turned nobody away",
        "no totals",
        "no weights",
        "no candidate",
        "two candidates",
    ],
)
def test_unusual_log_record_does_not_break_other_answers(
    tmp_path: Path, seen_otherwise: dict[str, Any], logged_otherwise: dict[str, Any]
) -> None:
    """A sender of log records cannot break the answers about other records."""
    service = a_service(tmp_path)
    service.clock.now_s = NOON_US / 1e6 + 600
    for record, otherwise in ((PLACED, seen_otherwise), (LOG_PLACED, logged_otherwise)):
        service.stored(record.rows, replace(record.decision, **otherwise), *record.outcomes)
    assert service.explain()["origins"]["rest"] == "reconstructed"
    assert service.history("worker-1")["chosen"] == 1
    assert service.get(f"{API}/balances")["decisions"] == 1
    service.store.close()


def test_single_source_is_unchanged(tmp_path: Path) -> None:
    service = a_service(tmp_path)
    named = seen(points=NORMALISED, pod="seen-0", owner=Owner("ReplicaSet", "seen"))
    told_by_log = logged("worker-1", POINTS, pod="shop/logged-0")
    for record in (named, told_by_log):
        service.stored(*record.frames)
    for pod, source in (("seen-0", "reconstructed"), ("logged-0", "logged")):
        told = service.explain(pod)
        assert (told["attempt"]["source"], "origins" in told) == (source, False)
    service.store.close()


def test_pruned_reconstruction_keeps_the_log_record(tmp_path: Path) -> None:
    """Of a summary not every cell is there, so its cells stand as they are."""
    from herodotus_answers.merging import merge_records
    from herodotus_endpoint.store.summaries import DecisionRecord, summarise_record

    whole = summarise_record(DecisionRecord(PLACED.decision, PLACED.outcomes, PLACED.table), NOON_US)
    found = merge_records(whole, LOG_PLACED)
    assert found.decision.scores == whole.decision.scores
    assert found.outcomes == LOG_PLACED.outcomes
    assert found.decision.reconstruction == PLACED.decision.reconstruction
    assert not any(part.startswith("scores.") for part in found.origins.parts)
