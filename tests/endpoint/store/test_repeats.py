"""Counts of attempts without a record: stored once, in any order of arrival, and part of every number of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from herodotus_endpoint.store import Pruner, RetentionLimits
from herodotus_record.model import REPEATS_PHASE, Code, Decision, Outcome
from tests.builders import INSUFFICIENT_CPU, a_decision, a_table
from tests.endpoint.service import API, Service, rows

NODES = ["worker-1", "worker-2"]
TABLE = a_table(NODES)
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}


def attempt(sequence: int, number: int, after_s: int) -> Decision:
    made = a_decision(nodes=NODES, rejected=FULL, sequence=sequence, attempt=number)
    return replace(made, times=replace(made.times, started_us=made.times.started_us + after_s * 1_000_000))


def repeated(decision: Decision, sequence: int, count: int) -> Outcome:
    at = decision.times.started_us + 900_000
    return Outcome(
        incarnation=decision.key.incarnation,
        sequence=sequence,
        decision_id=decision.id,
        decision_sequence=decision.sequence,
        phase=REPEATS_PHASE,
        status=Code.SUCCESS,
        node="",
        message="",
        at_us=at,
        duration_s=0.8,
        final=False,
        repeats=count,
    )


FIRST, SECOND = attempt(1, 1, 0), attempt(3, 42, 1)
COUNTS = (repeated(FIRST, 2, 40), repeated(SECOND, 4, 7))


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([(FIRST, COUNTS[0], SECOND, COUNTS[1])], id="in one batch"),
        pytest.param([(FIRST,), (COUNTS[0],), (SECOND,), (COUNTS[1],)], id="in batches"),
        pytest.param([(COUNTS[1], COUNTS[0]), (SECOND, FIRST)], id="counts first"),
        pytest.param([(FIRST, COUNTS[0], COUNTS[0]), (COUNTS[0], SECOND), (COUNTS[1],), COUNTS], id="sent twice"),
    ],
)
def test_answers_count_attempts_without_a_record(service: Service, batches: Sequence[Sequence[Decision]]) -> None:
    service.stored(rows(TABLE))
    for batch in batches:
        service.stored(*batch)
    same = service.client.get(
        f"{API}/namespaces/shop/podcomparisons/{FIRST.pod.name}?with={FIRST.pod.name}&attempt=2&withAttempt=40"
    )
    assert same.get_json()["message"] == (
        "attempts 1 to 41 had the same result and are one record: nothing changed between them"
    )
    shown = service.explain()["attempt"]
    numbers = {name: shown[name] for name in ("ordinal", "lastOrdinal", "attempts", "failedBefore")}
    assert numbers == {"ordinal": 42, "lastOrdinal": 49, "attempts": 49, "failedBefore": 41}
    assert shown["repeats"]["count"] == 7
    history = service.get(f"{API}/namespaces/shop/podhistories/checkout-7d9f-x2k")
    assert [a["repeats"] and a["repeats"]["count"] for a in history["attempts"]] == [40, 7]
    assert [(a["ordinal"], a["lastOrdinal"]) for a in history["attempts"]] == [(1, 41), (42, 49)]
    assert history["attemptsOmitted"] == 0
    assert service.explain()["outcome"]["phases"] == []


def test_a_summary_keeps_the_count(service: Service) -> None:
    service.stored(rows(TABLE), FIRST, COUNTS[0], SECOND, COUNTS[1])
    service.clock.now_s += 2 * 86_400
    Pruner(service.store, RetentionLimits(max_age_s=86_400, summary_max_age_s=30 * 86_400)).prune()
    shown = service.explain()["attempt"]
    assert (shown["attempts"], shown["failedBefore"], shown["repeats"]["count"]) == (49, 41, 7)


@pytest.mark.parametrize(
    ("number", "ordinals"), [(1, [1, 41]), (2, [1, 41]), (41, [1, 41]), (42, [42, 49]), (49, [42, 49])]
)
def test_each_counted_attempt_finds_the_record_that_stands_for_it(
    service: Service, number: int, ordinals: list[int]
) -> None:
    service.stored(rows(TABLE), FIRST, COUNTS[0], SECOND, COUNTS[1])
    shown = service.explain(attempt=number)["attempt"]
    assert [shown["ordinal"], shown["lastOrdinal"]] == ordinals


def test_an_attempt_after_the_last_counted_one_is_not_found(service: Service) -> None:
    service.stored(rows(TABLE), FIRST, COUNTS[0], SECOND, COUNTS[1])
    refused = service.error(f"{API}/namespaces/shop/podexplanations/checkout-7d9f-x2k", attempt=50)
    assert "with attempt 50" in refused["message"]


def test_a_shorter_history_omits_attempts_without_a_record(service: Service) -> None:
    service.stored(rows(TABLE), FIRST, COUNTS[0], SECOND, COUNTS[1])
    history = service.get(f"{API}/namespaces/shop/podhistories/checkout-7d9f-x2k", limit=1)
    assert ([a["ordinal"] for a in history["attempts"]], history["attemptsOmitted"]) == ([42], 41)
