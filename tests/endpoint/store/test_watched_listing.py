"""Watches share what they read of new decisions and of results, and miss nothing by that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from herodotus_endpoint.store import StoreUnavailableError
from herodotus_endpoint.store.listing import Listing
from herodotus_endpoint.store.watched_listing import KEPT_S, MAX_ROWS, SHARED_S, WatchedListing
from tests.builders import a_decision, a_table, bound
from tests.endpoint.service import Service, a_service, rows

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
FIRST = a_decision(pod="first", sequence=2)
SECOND = a_decision(pod="second", sequence=3)


class CountingListing(WatchedListing):
    """A listing that counts its statements, with a clock that the test moves."""

    def __init__(self, service: Service) -> None:
        self.now_s = 0.0
        self.read_s = 0.0  # how long each statement takes
        self.statements = 0
        super().__init__(service.store.snapshot, service.store.clock, lambda: self.now_s)
        sa.event.listen(service.store._engines[1], "before_cursor_execute", self._count)

    def _count(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        self.statements += "FROM decisions" in statement
        self.now_s += self.read_s


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = a_service(tmp_path)
    service.stored(rows(TABLE))
    yield service
    service.store.close()


def pods(decisions: list[sa.Row[Any]]) -> list[str]:
    return [row.pod for row in decisions]


def test_a_hundred_watches_read_as_often_as_one(service: Service) -> None:
    listing = CountingListing(service)
    listing.list_after(0, 10)
    service.stored(FIRST, SECOND)
    listing.now_s += SHARED_S
    before = listing.statements
    for _ in range(100):
        new = listing.list_after(0, 10)
        assert pods(new) == ["first", "second"]
        assert listing.list_settled([row.id for row in new]) == []
    assert listing.statements - before == 2  # new decisions, and the results of those without one


def test_every_watch_gets_a_result_once_it_is_stored(service: Service) -> None:
    listing = CountingListing(service)
    service.stored(FIRST, SECOND)
    ids = [row.id for row in listing.list_after(0, 10)]
    assert listing.list_settled(ids) == []
    service.stored(bound(SECOND, TABLE, sequence=4))
    listing.now_s += SHARED_S
    assert [(row.pod, row.state) for row in listing.list_settled(ids)] == [("second", "Bound")]
    assert pods(listing.list_settled(ids)) == ["second"]


@pytest.mark.parametrize("others", [True, False], ids=["while others poll", "alone"])
def test_a_watch_that_was_held_up_misses_nothing(service: Service, others: bool) -> None:
    listing = CountingListing(service)
    service.stored(FIRST)
    (row,) = listing.list_after(0, 10)
    service.stored(bound(FIRST, TABLE, sequence=3), a_decision(pod="later", sequence=4))
    for _ in range(60):
        listing.now_s += KEPT_S / 20
        if others:
            listing.list_after(row.id + 1, 10)
    assert pods(listing.list_settled([row.id])) == ["first"]
    assert pods(listing.list_after(row.id, 10)) == ["later"]


def test_rows_are_read_again_after_another_server_took_over(service: Service) -> None:
    """Its rows may have the ids of other decisions."""
    listing = CountingListing(service)
    service.stored(FIRST)
    listing.list_after(0, 10)
    listing.now_s += SHARED_S
    assert pods(listing.list_after(0, 10)) == ["first"]
    with service.store.writer.transaction() as connection:
        connection.execute(sa.text("UPDATE decisions SET pod = 'other'"))
    listing.forget_rows()
    listing.now_s += SHARED_S
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("herodotus_endpoint.store.listing.intact_decisions", list)
        assert pods(listing.list_after(0, 10)) == ["other"]


def test_few_rows_are_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus_endpoint.store.watched_listing.MAX_ROWS", 3)
    listing = CountingListing(service)
    plain = Listing(service.store.snapshot, service.store.clock)
    listing.list_after(0, 10)
    for n in range(12):
        service.stored(a_decision(pod=f"p-{n}", sequence=2 + n))
        listing.now_s += SHARED_S
        for after in range(n + 1):
            assert pods(listing.list_after(after, 20)) == pods(plain.list_after(after, 20))
        assert len(listing._newest) <= 5 < MAX_ROWS


def test_watches_that_wait_for_a_slow_read_share_it(service: Service) -> None:
    """Otherwise they would read one after the other, each as slowly."""
    listing = CountingListing(service)
    listing.list_after(0, 10)
    service.stored(FIRST)
    listing.now_s += SHARED_S
    asked_at = listing.now_s
    before = listing.statements
    listing.read_s = 3.0
    listing.list_after(0, 10)
    assert listing.now_s > asked_at + 3.0
    reads = listing.statements - before
    listing._read(asked_at)  # of a watch that waited meanwhile
    assert listing.statements - before == reads


def test_watches_that_wait_for_a_failing_read_share_its_error(service: Service) -> None:
    listing = CountingListing(service)
    listing.list_after(0, 10)
    listing.now_s += SHARED_S
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "_snapshot", raise_unavailable)
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                listing.list_after(0, 10)
    with pytest.raises(StoreUnavailableError):
        listing._read(listing.now_s)
    service.stored(FIRST)
    listing.now_s += SHARED_S
    assert pods(listing.list_after(0, 10)) == ["first"]


def raise_unavailable() -> Any:
    raise StoreUnavailableError("the database does not answer")
