"""Decisions that a scheduler left without a result, and the results that a later one finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from herodotus_record.model import FOUND_LATER, Code, Outcome
from tests.builders import CLUSTER, INCARNATION, INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.endpoint.service import API, Service, a_service, rows

OPEN = "/ingest/v1/open-decisions"
NODES = ["worker-1", "worker-2", "worker-3"]
TABLE = a_table(NODES)
DECISION = a_decision()
OWN = bound(DECISION, TABLE)
FOUND = replace(OWN, sequence=FOUND_LATER, message="found later")
LATER = "7b0ac1d2-0000-4000-8000-00000000000b"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = a_service(tmp_path)
    yield made
    made.store.close()


def open_ids(service: Service, **query: Any) -> list[str]:
    query = {"cluster": CLUSTER, "scheduler": "herodotus-scheduler"} | query
    return [item["id"] for item in service.get(OPEN, **query)["items"]]


def status(service: Service) -> tuple[str, list[tuple[int, bool]]]:
    """The decision's state, and the sequence and finality of each outcome."""
    document = service.get(f"{API}/namespaces/shop/decisions/{DECISION.id}")["status"]
    return document["state"], [(o["sequence"], o["final"]) for o in document["outcomes"]]


def test_lists_decisions_without_a_result(service: Service) -> None:
    unplaced = a_decision(pod="none", sequence=3, rejected={n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in NODES})
    service.stored(rows(TABLE), DECISION, unplaced)
    (item,) = service.get(OPEN, cluster=CLUSTER, scheduler="herodotus-scheduler")["items"]
    assert item == {
        "incarnation": INCARNATION,
        "sequence": DECISION.sequence,
        "id": DECISION.id,
        "namespace": "shop",
        "pod": DECISION.pod.name,
        "podUID": DECISION.pod.uid,
        "node": OWN.node,
        "startedUs": DECISION.times.started_us,
    }
    assert open_ids(service, cluster="other") == []
    assert open_ids(service, scheduler="other") == []
    assert open_ids(service, exceptIncarnation=INCARNATION) == []
    assert open_ids(service, exceptIncarnation=LATER) == [DECISION.id]
    service.stored(OWN)
    assert open_ids(service) == []


def test_later_result_settles_the_decision(service: Service) -> None:
    service.stored(rows(TABLE), DECISION, replace(OWN, sequence=2, status=Code.WAIT, final=False))
    before = service.get(f"{API}/incarnations")["items"]
    assert service.stored(FOUND)["outcomes"] == 1
    assert open_ids(service) == []
    assert status(service) == ("Bound", [(2, False), (FOUND_LATER, True)])
    assert service.get(f"{API}/incarnations")["items"] == before  # it is none of the incarnation's own records


@pytest.mark.parametrize(
    ("batches", "kept"),
    [
        pytest.param([[OWN], [FOUND]], 2, id="the scheduler's own came first"),
        pytest.param([[FOUND], [OWN]], FOUND_LATER, id="the scheduler's own came late"),
        pytest.param([[OWN, FOUND]], 2, id="own first in one batch"),
        pytest.param([[FOUND, OWN]], FOUND_LATER, id="own late in one batch"),
        pytest.param([[FOUND], [FOUND]], FOUND_LATER, id="found twice"),
        pytest.param([[FOUND, FOUND]], FOUND_LATER, id="found twice in one batch"),
    ],
)
def test_decision_has_one_final_outcome(service: Service, batches: list[list[Outcome]], kept: int) -> None:
    service.stored(rows(TABLE), DECISION)
    for batch in batches:
        service.stored(*batch)
    assert status(service) == ("Bound", [(kept, True)])
    (incarnation,) = service.get(f"{API}/incarnations")["items"]
    assert incarnation["missing"] == 0


def test_result_of_an_unknown_decision_is_not_stored(service: Service) -> None:
    service.stored(FOUND)
    assert service.get(f"{API}/incarnations")["items"] == []
    service.stored(rows(TABLE), DECISION)
    assert status(service) == ("Binding", [])


def test_requires_a_scheduler_name(service: Service) -> None:
    assert service.client.get(OPEN).status_code == 400
