"""What one question may cost, however many decisions are stored, on SQLite and PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from herodotus_endpoint import reader_limits
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.read_budget import (
    UNLIMITED,
    BudgetExceededError,
    QuestionAbandonedError,
    ReadBudget,
    ReadLimits,
    set_budget,
)
from herodotus_record import codec
from herodotus_record.model import Candidate, Frame, Preemption
from herodotus_serving.wsgi import CANCELLED, CLIENT_LEFT
from tests.builders import CLUSTER, CORDONED, INCARNATION, MONDAY_US, a_decision, a_table
from tests.endpoint.service import API, Service, a_service, envelope

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
NOWHERE = {node: {"NodeName": CORDONED} for node in TABLE.names}
ATTEMPTS = 4_000
OLD_LOADS = 20  # of a pod's attempts, which a history of 20 attempts made
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT {} FROM n"
ENDLESS = sa.text(NUMBERS.format(2_000_000_000, "count(*)"))


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, postgresql_database: Callable[[], str], tmp_path: Path) -> Iterator[Service]:
    """A service on each of the two databases."""
    url = postgresql_database() if request.param == "postgresql" else ""
    opened = a_service(tmp_path, url=url)
    yield opened
    opened.store.close()


@contextmanager
def asking(budget: ReadBudget) -> Iterator[None]:
    """Let the reads of this thread count against a budget while the block runs."""
    set_budget(budget)
    try:
        yield
    finally:
        set_budget(None)


def store_attempts(store: Store, count: int) -> None:
    """Store attempts of the pod shop/big, each of which evicts shop/low."""
    first = a_decision(pod="big", sequence=1, rejected=NOWHERE)
    evicts = Preemption("worker-2", (Candidate("worker-2", ("shop/low",), 0),), True)
    attempts = [
        replace(
            first,
            preemption=evicts,
            id=f"01900000-0000-7000-8000-{n:012x}",
            sequence=n,
            times=replace(first.times, started_us=MONDAY_US + n * 7_000),
        )
        for n in range(1, count + 1)
    ]
    frames: list[Frame] = [TABLE.rows(CLUSTER, INCARNATION), *attempts]
    for start in range(0, len(frames), 1_000):
        store.writer.store((frame, codec.encode(frame)) for frame in frames[start : start + 1_000])


def processor_time(work: Callable[[], object]) -> float:
    """The processor time of this thread that some work takes, in seconds."""
    began_s = time.thread_time()
    work()
    return time.thread_time() - began_s


def test_a_pod_with_very_many_attempts_is_read_once_a_question(either: Service) -> None:
    """Reading them for each decision of the answer took 20 to 100 times as long."""
    store_attempts(either.store, ATTEMPTS)
    either.get(f"{API}/namespaces/shop/podexplanations/big")
    once_s = processor_time(lambda: either.get(f"{API}/namespaces/shop/podexplanations/big"))
    for path in ("preemptions", "podhistories/big"):
        took_s = min(
            processor_time(lambda path=path: either.get(f"{API}/namespaces/shop/{path}"))  # type: ignore[misc]
            for _ in range(2)
        )
        assert took_s < OLD_LOADS / 2 * once_s, path
    document = either.get(f"{API}/namespaces/shop/preemptions", since="2026-03-01T12:00:00Z")
    assert (len(document["preemptions"]), document["complete"]) == (100, False)
    (newest, *_) = document["preemptions"]
    assert newest["preemptor"]["decision"] == f"01900000-0000-7000-8000-{ATTEMPTS:012x}"
    attempts = either.get(f"{API}/namespaces/shop/podhistories/big", limit=2)["attempts"]
    assert [each["ordinal"] for each in attempts] == [ATTEMPTS - 1, ATTEMPTS]


def test_preemptions_of_other_namespaces_are_not_read(either: Service) -> None:
    store_attempts(either.store, 300)
    for namespace, count in (("shop", 100), ("vault", 0)):
        with asking(ReadBudget(UNLIMITED)):
            document = either.get(f"{API}/namespaces/{namespace}/preemptions")
        assert (len(document["preemptions"]), document["complete"]) == (count, count == 0)


def test_a_statement_ends_when_its_client_leaves(either: Service) -> None:
    gone = threading.Event()
    threading.Timer(0.3, gone.set).start()
    began_s = time.monotonic()
    with (
        asking(ReadBudget(UNLIMITED, gone)),
        pytest.raises(QuestionAbandonedError),
        either.store.snapshot() as connection,
    ):
        connection.execute(ENDLESS).all()
    assert time.monotonic() - began_s < 10
    with either.store.snapshot() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (ReadLimits(rows=100), "100 rows were read"),
        (ReadLimits(time_s=0.3), "it took 0.3 s"),
        (ReadLimits(processor_s=0.3, time_s=5), " s"),
    ],
    ids=["rows", "time", "processor"],
)
def test_a_question_that_exceeds_a_limit_ends_and_says_which(either: Service, limits: ReadLimits, says: str) -> None:
    endless = ENDLESS if limits.rows > 100 else sa.text(NUMBERS.format(5_000, "i"))
    with asking(ReadBudget(limits)), pytest.raises(BudgetExceededError, match=says), either.store.snapshot() as c:
        c.execute(endless).all()


def test_an_exceeded_budget_is_an_error_that_says_how_to_narrow_the_question(
    either: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_attempts(either.store, 300)
    monkeypatch.setattr(reader_limits, "ReadLimits", lambda: ReadLimits(rows=50))
    for path in ("decisions", "namespaces/shop/preemptions", "namespaces/shop/podhistories/big", "pendingpods"):
        answer = either.client.get(f"{API}/{path}")
        status = envelope(answer)
        assert (answer.status_code, status["reason"]) == (504, "Timeout"), path
        assert "50 rows were read" in status["message"]
        assert "name a namespace" in status["message"]


def test_abandoned_questions_leave_nothing_running(either: Service) -> None:
    store_attempts(either.store, 500)
    gone = threading.Event()
    gone.set()
    app = either.client.application

    def ask(path: str) -> int:
        return app.test_client().get(f"{API}/{path}", environ_overrides={CLIENT_LEFT: gone}).status_code

    paths = ["decisions", "balances", "pendingpods", "agreements", "nodehistories/worker-1"]
    with ThreadPoolExecutor(6) as threads:
        codes = [*threads.map(ask, ["namespaces/shop/preemptions", "namespaces/shop/podhistories/big", *paths])]
    assert codes == [499] * 7


def test_a_question_is_answered_while_the_server_stops(either: Service) -> None:
    store_attempts(either.store, 2)
    stopping = threading.Event()
    stopping.set()
    client = either.client.application.test_client()
    assert client.get(f"{API}/decisions", environ_overrides={CANCELLED: stopping}).status_code == 200
