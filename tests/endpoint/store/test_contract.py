"""Properties of the store on both databases: each test runs on SQLite and on a real PostgreSQL."""

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from herodotus_answers.node import CounterName
from herodotus_endpoint.store import (
    BatchError,
    NodeRowsMissingError,
    Pruner,
    RetentionLimits,
    Store,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    sqlite_url,
)
from herodotus_endpoint.store.delta_chains import PARTITION_US
from herodotus_endpoint.store.query_results import PodIdentity
from herodotus_endpoint.store.reviews import ReviewAnswer, ReviewingScheduler, ReviewQuestion
from herodotus_endpoint.store.schema import METADATA
from herodotus_endpoint.store.schema_migration import MIGRATIONS
from herodotus_record import codec
from herodotus_record.model import Decision, Frame, Gap
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table, bound
from tests.support.clock import Clock

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
ROWS = TABLE.rows(CLUSTER, INCARNATION)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgresql_database: Callable[[], str]) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "herodotus.db")
    return postgresql_database()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def replicas(url: str, clock: Clock) -> Iterator[Callable[[], Store]]:
    """Return a function that opens the store; each call makes another replica."""
    opened: list[Store] = []

    def another() -> Store:
        opened.append(Store(url, clock, clock))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


@pytest.fixture
def store(replicas: Callable[[], Store]) -> Store:
    return replicas()


def put(store: Store, *frames: Frame) -> dict[str, int]:
    receipt = store.writer.store((frame, codec.encode(frame)) for frame in frames)
    return {"accepted": receipt.accepted, "duplicates": receipt.duplicates}


def decisions(first: int, last: int, **changes: Any) -> list[Decision]:
    return [a_decision(pod=f"p-{i}", sequence=i, **changes) for i in range(first, last + 1)]


def sequences(store: Store) -> list[int]:
    return sorted(row.sequence for row in store.listing.decisions([], None, 10_000))


def pruned(store: Store, clock: Clock, **limits: Any) -> int:
    return Pruner(store, RetentionLimits(**({"summary_max_age_s": 0.0} | limits))).prune().deleted


def test_the_schema_is_what_the_statements_expect(url: str, store: Store) -> None:
    """On PostgreSQL keys also contain the ingest time, and texts are ordered by code point."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))

    def described(thing: Any, kind: str, *_: object) -> bool:
        return kind in ("table", "column") and "_p" not in str(getattr(thing, "name", ""))[-8:]

    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": described})
        assert [d for d in compare_metadata(context, METADATA) if "alembic" not in str(d)] == []
    engine.dispose()


def test_a_decision_is_loaded_with_its_outcomes_and_node_table(store: Store) -> None:
    sent = decisions(1, 70, points={"worker-2": {"ImageLocality": 7}})
    outcome = bound(sent[40], TABLE)
    put(store, ROWS, *sent, replace(outcome, sequence=71))
    for decision in sent:
        (found,) = store.reader.decisions_of_pod(PodIdentity("shop", decision.pod.name))
        assert found.decision == decision
        assert found.table.names == TABLE.names
    (found,) = store.reader.decisions_of_pod(PodIdentity("shop", "p-41"))
    assert [o.sequence for o in found.outcomes] == [71]
    assert {row.pod: row.state for row in store.listing.decisions([], None, 100)}["p-41"] == "Bound"


def test_a_repeated_frame_is_stored_once(store: Store) -> None:
    frames: list[Frame] = [ROWS, *decisions(1, 5)]
    assert put(store, *frames) == {"accepted": 6, "duplicates": 0}
    assert put(store, *frames) == {"accepted": 0, "duplicates": 6}
    facts = store.reader.sum_node_history("worker-1")
    assert facts is not None
    assert facts.counters[CounterName("considered")] == 5


def test_a_failed_batch_stores_nothing(store: Store) -> None:
    with pytest.raises(NodeRowsMissingError):
        put(store, ROWS, *decisions(1, 3), a_decision(sequence=4, generation=99))
    assert sequences(store) == []
    with pytest.raises(BatchError):
        put(store, ROWS, *decisions(1, 3), a_decision(sequence=4, cluster="another"))
    assert store.reader.incarnations() == []
    put(store, ROWS, *decisions(1, 3))
    assert sequences(store) == [1, 2, 3]


def test_names_with_a_zero_byte_can_be_stored(store: Store) -> None:
    """No scheduler sends a zero byte, and a client that does must not block its spool."""
    put(store, ROWS, replace(a_decision(), message="a\0b"))
    assert sequences(store) == [1]


def test_replicas_continue_each_other(replicas: Callable[[], Store]) -> None:
    """The cached state of one replica may be outdated: idempotence, gaps, node ids, chains."""
    one, other = replicas(), replicas()
    put(one, ROWS, *decisions(1, 3))
    assert put(other, ROWS, *decisions(2, 6)) == {"accepted": 3, "duplicates": 3}
    assert put(one, *decisions(5, 9)) == {"accepted": 3, "duplicates": 2}
    put(other, *decisions(12, 13), Gap(INCARNATION, 14, 10, 10, "disk full", 0))
    assert sequences(one) == [*range(1, 10), 12, 13]
    (known,) = one.reader.incarnations()
    assert (known.highest, known.missing, known.explained) == (14, 1, 1)
    facts = one.reader.sum_node_history("worker-1")
    assert facts is not None
    assert facts.counters[CounterName("considered")] == 11


def test_replicas_that_write_at_the_same_time_lose_nothing(replicas: Callable[[], Store]) -> None:
    """With one incarnation each and with a shared one: every frame is stored once, ids are in commit order."""
    stores = [replicas(), replicas()]
    failures: list[BaseException] = []
    seen: list[int] = []

    def write(store: Store, own: str) -> None:
        try:
            for i in range(1, 40, 3):
                put(store, ROWS, *decisions(i, i + 2))
                put(store, TABLE.rows(CLUSTER, own), *decisions(i, i + 2, incarnation=own))
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=write, args=(s, f"own-{i}")) for i, s in enumerate(stores)]
    for thread in threads:
        thread.start()
    beside = replicas()
    while any(thread.is_alive() for thread in threads):
        now = [row.id for row in beside.listing.decisions([], None, 1000)]
        assert set(seen) <= set(now)
        assert not [i for i in now if seen and i < seen[0] and i not in seen], "an id that came late would be missed"
        seen = now
    for thread in threads:
        thread.join()
    assert failures == []
    per_incarnation = {k.incarnation: (k.highest, k.missing) for k in beside.reader.incarnations()}
    assert per_incarnation == {INCARNATION: (39, 0), "own-0": (39, 0), "own-1": (39, 0)}
    assert len(beside.listing.decisions([], None, 1000)) == 117


def test_retention_deletes_old_decisions_and_keeps_histories(store: Store, clock: Clock) -> None:
    put(store, ROWS, *(f for d in decisions(1, 299) if d.sequence % 2 for f in (d, bound(d, TABLE))))
    clock.now_s += 2 * 86_400
    put(store, *decisions(1001, 1003))
    assert pruned(store, clock, max_age_s=86_400) == 150
    assert sequences(store) == [1001, 1002, 1003]
    assert store.reader.measure_sizes().rows["outcomes"] == 0
    facts = store.reader.sum_node_history("worker-1")
    assert facts is not None
    assert facts.counters[CounterName("considered")] == 153
    put(store, *decisions(1004, 1010))
    assert all(store.reader.decisions_of_pod(PodIdentity("shop", f"p-{i}")) for i in range(1001, 1011))


def test_retention_deletes_the_oldest_decisions_over_the_size_limit(store: Store, clock: Clock) -> None:
    put(store, ROWS, *decisions(1, 200))
    clock.now_s += PARTITION_US / 1e6
    put(store, *decisions(201, 210))
    with pytest.raises(AssertionError):
        assert pruned(store, clock) > 0
    assert 0 < pruned(store, clock, max_bytes=store.reader.measure_sizes().live_bytes - 1) <= 200
    left = sequences(store)
    assert left == list(range(left[0], 211))


def test_a_namespace_can_have_a_shorter_age(store: Store, clock: Clock) -> None:
    put(store, ROWS, *decisions(1, 40), *decisions(41, 80, namespace="noisy"))
    clock.now_s += 7200
    put(store, *decisions(81, 90, namespace="noisy"))
    assert pruned(store, clock, max_age_of={"noisy": 3600.0}) == 40
    assert sequences(store) == [*range(1, 41), *range(81, 91)]


def test_no_delta_refers_to_a_key_frame_that_another_replica_pruned(
    replicas: Callable[[], Store], clock: Clock
) -> None:
    one, other = replicas(), replicas()
    put(one, ROWS, *decisions(1, 5))
    with other.writer.transaction() as connection:
        connection.execute(sa.text("DELETE FROM decisions"))
    put(one, *decisions(6, 8))
    assert all(one.reader.decisions_of_pod(PodIdentity("shop", f"p-{i}")) for i in (6, 7, 8))


def test_readiness_requires_a_writable_database(store: Store) -> None:
    store.reader.check_readable()
    store.writer.check_writable()


def test_a_missing_database_is_refused_with_the_reason() -> None:
    with pytest.raises(StoreError, match=r"cannot use postgresql://u:\*\*\*@127\.0\.0\.1:1/d: connection failed"):
        Store("postgresql://u:secret@127.0.0.1:1/d")


def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises((StoreUnavailableError, sa.exc.DBAPIError)), store.reader._snapshot() as connection:
        connection.execute(sa.text("DELETE FROM decisions"))


def test_a_review_is_claimed_and_answered_through_another_replica(replicas: Callable[[], Store]) -> None:
    """It is claimed once, by a scheduler of its cluster, and its row is deleted."""
    asked, polled = replicas().reviews, replicas().reviews
    polled.register("c1", ["ours", "other"])
    polled.register("c1", ["ours"])
    assert asked.list_reviewers(60) == [ReviewingScheduler("c1", "other"), ReviewingScheduler("c1", "ours")]
    assert asked.add_question(ReviewQuestion("001", ReviewingScheduler("c1", "ours"), b"{}"), 2)
    assert polled.claim_question("c2", ["ours"]) is None
    question = ReviewQuestion("001", ReviewingScheduler("c1", "ours"), b"{}")
    assert polled.claim_question("c1", ["other", "ours"]) == question
    assert asked.claim_question("c1", ["ours"]) is None
    assert asked.read_answer("001") is None
    assert polled.store_answer("001", "c1", ReviewAnswer(b"\0frames", "type"))
    assert asked.read_answer("001") == ReviewAnswer(b"\0frames", "type")
    asked.remove_question("001")
    assert not polled.store_answer("001", "c1", ReviewAnswer(b"late", "type"))


def test_a_full_disk_of_postgresql_raises_its_own_error(postgresql_database: Callable[[], str]) -> None:
    """The server is made to raise the error code, because the test has no disk of its own."""
    store = Store(postgresql_database())
    try:
        for code, expected in (("53100", StoreFullError), ("53300", StoreUnavailableError)):
            raising = sa.text(f"DO $$ BEGIN RAISE 'no more' USING ERRCODE = '{code}'; END $$")
            with pytest.raises(StoreUnavailableError) as raised, store.writer.transaction() as connection:
                connection.execute(raising)
            assert type(raised.value) is expected
    finally:
        store.close()


def of_tomorrow(folder: Path, revision: str, does: str) -> Path:
    """Create the migrations of a future version: those of today and one more."""
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    head = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    body = f"    op.execute({does!r})\n"
    (folder / f"versions/{revision}.py").write_text(
        f"from alembic import op\nrevision = {revision!r}\ndown_revision = {head!r}\ndef upgrade():\n{body}"
    )
    return folder


def test_an_older_version_uses_a_schema_with_added_columns(
    url: str,
    replicas: Callable[[], Store],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One runs beside the newer version and one starts after a rollback; the schema is not changed back."""
    caplog.set_level(logging.WARNING)  # whatever another test made the root's
    beside = replicas()
    does = "ALTER TABLE decisions ADD COLUMN of_tomorrow INTEGER NOT NULL DEFAULT 7"
    with monkeypatch.context() as tomorrow:
        tomorrow.setattr(
            "herodotus_endpoint.store.schema_migration.MIGRATIONS", of_tomorrow(tmp_path / "later", "9999", does)
        )
        put(replicas(), ROWS, a_decision(pod="newer", sequence=1))
    put(beside, a_decision(pod="beside", sequence=2))
    assert not caplog.records
    back = replicas()
    assert [r.message for r in caplog.records] == [
        "the database's schema 9999 is of a newer version of the service; this version uses it without migrating it"
    ]
    put(back, a_decision(pod="put back", sequence=3))
    assert [row.pod for row in back.listing.decisions([], None, 9)] == ["put back", "beside", "newer"]
    with back.writer.transaction() as connection:
        assert set(connection.scalars(sa.text("SELECT of_tomorrow FROM decisions"))) == {7}


def test_a_schema_without_needed_columns_is_refused_naming_the_first_usable_version(
    url: str, replicas: Callable[[], Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    does = "UPDATE usable_from SET revision = '9999'"
    with monkeypatch.context() as tomorrow:
        tomorrow.setattr(
            "herodotus_endpoint.store.schema_migration.MIGRATIONS", of_tomorrow(tmp_path / "later", "9999", does)
        )
        replicas()
    with pytest.raises(StoreError, match="schema to 9999, which services of schema 9999 and later can use; this one's"):
        replicas()
