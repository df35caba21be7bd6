"""The database itself: creation, file modes, migration, retention."""

import random
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st

from herodotus_endpoint.store import Pruner, RetentionLimits, Store, StoreError, prepare_database, sqlite_url
from herodotus_endpoint.store.delta_chains import MAX_MEMBERS
from herodotus_endpoint.store.schema import METADATA
from herodotus_endpoint.store.sequences import Hole, Sequences
from tests.builders import INCARNATION, a_decision, a_table, bound
from tests.endpoint.service import API, Service, rows

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
DAY_S = 86_400


def test_a_fresh_database_is_private_and_has_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "herodotus.db"
    prepare_database(sqlite_url(file))
    assert [stat.S_IMODE(p.stat().st_mode) for p in (file, file.parent)] == [0o600, 0o700]
    engine = sa.create_engine(sqlite_url(file))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        modes = [connection.exec_driver_sql(f"PRAGMA {p}").scalar() for p in ("journal_mode", "auto_vacuum")]
    engine.dispose()
    assert modes == ["wal", 2]


def newer(folder: Path) -> str:
    url = sqlite_url(folder / "herodotus.db")
    prepare_database(url)
    with sqlite3.connect(folder / "herodotus.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE usable_from SET revision = '9998'")
    connection.close()
    return url


def garbage(folder: Path) -> str:
    (folder / "herodotus.db").write_bytes(b"no database" * 1000)
    return sqlite_url(folder / "herodotus.db")


def a_file_for_a_folder(folder: Path) -> str:
    (folder / "data").write_text("")
    return sqlite_url(folder / "data" / "herodotus.db")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (newer, "changed its schema to 9999, which services of schema 9998 and later can use; this one's is"),
        (garbage, "file is not a database"),
        (a_file_for_a_folder, "cannot use"),
        (lambda folder: sqlite_url(folder), "Is a directory"),
        (lambda _: "mysql://u:secret@h/d", "mysql://u:\\*\\*\\*@h/d': sqlite:///FILE and postgresql://"),
        (lambda _: "sqlite://", "sqlite:///FILE and postgresql://HOST/DATABASE are supported"),
        (lambda _: "nonsense", "is no database URL"),
    ],
    ids=["newer", "garbage", "file in the way", "a directory", "another database", "in memory", "no URL"],
)
def test_an_unusable_database_is_refused_with_the_reason(tmp_path: Path, url: Any, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        Store(url(tmp_path))


def pruned(service: Service, **limits: Any) -> int:
    return Pruner(service.store, RetentionLimits(**({"summary_max_age_s": 0.0} | limits))).prune().deleted


def pods(service: Service) -> list[str]:
    return [row.pod for row in service.store.listing.decisions([], None, 1000)]


def test_retention_deletes_old_decisions_with_their_outcomes_and_node_rows(service: Service) -> None:
    """Age counts from ingest. Histories stay, and so do the node rows of decisions that are kept."""
    old = [a_decision(pod=f"old-{i}", sequence=2 * i + 1) for i in range(300)]
    service.stored(rows(TABLE), *(f for d in old for f in (d, bound(d, TABLE))))
    later = replace(TABLE, generation=8, since=[0, 8, 0], names=["worker-1", "worker-9", "worker-3"])
    service.clock.now_s += 2 * DAY_S
    service.stored(rows(later), a_decision(pod="new", nodes=later.names, generation=8, sequence=1001))
    before = service.explain("new")
    assert pruned(service, max_age_s=DAY_S) == 300
    assert pruned(service, max_age_s=DAY_S) == 0
    assert (pods(service), service.explain("new")) == (["new"], before)
    assert service.store.reader.measure_sizes().rows == {"decisions": 1, "outcomes": 0, "gaps": 0, "rollups": 1}
    assert service.history("worker-2", since="999999999")["considered"] == 300
    with service.store.writer.transaction() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM node_rows")) == 3
    assert service.stored(old[0])["duplicates"] == 1, "what was pruned does not come back"


def test_retention_deletes_the_oldest_decisions_over_the_size_limit(service: Service) -> None:
    noise = random.Random(1)
    for i in range(8):
        batch = (
            a_decision(pod=f"p-{i}-{j}", sequence=100 * i + j + 1, owner=None, notes=(noise.randbytes(2000).hex(),))
            for j in range(100)
        )
        service.stored(rows(TABLE), *batch)
    full = service.store.reader.measure_sizes().live_bytes
    gone = pruned(service, max_bytes=full - 400_000)
    assert 0 < gone < 800
    assert pods(service)[0] == "p-7-99"
    assert pods(service)[-1] == f"p-{gone // 100}-{gone % 100}"
    assert gone % MAX_MEMBERS == 0, "chains go whole"
    assert service.store.reader.measure_sizes().live_bytes <= full - 400_000
    with sqlite3.connect(service.store.database.name) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    connection.close()


def test_retention_deletes_an_ended_incarnation_after_its_last_decision(service: Service) -> None:
    service.stored(rows(TABLE), a_decision())
    service.clock.now_s += 2 * DAY_S
    service.stored(rows(TABLE, incarnation="next"), a_decision(incarnation="next"))
    pruned(service, max_age_s=DAY_S)
    assert [i["metadata"]["name"] for i in service.get(f"{API}/incarnations")["items"]] == ["next"]
    assert service.stored(rows(TABLE), a_decision())["accepted"] == 2, f"{INCARNATION} starts again"


def test_retention_deletes_histories_by_their_own_age(service: Service) -> None:
    service.stored(rows(TABLE), a_decision())
    service.clock.now_s += 100 * DAY_S
    pruned(service)
    assert service.history("worker-1", since="999999999")["considered"] == 0


events = st.lists(
    st.one_of(
        st.integers(0, 30),
        st.tuples(st.integers(1, 30), st.integers(1, 30)).map(sorted).map(tuple),
        st.integers(1, 30).map(lambda reached: {"reached": reached}),
    ),
    max_size=40,
)


@given(events, st.integers(0, 40))
def test_sequences_left_out_of_a_file_are_neither_missing_nor_lost(sample: list[Any], last: int) -> None:
    """Up to the last sequence of the file only the database knows what is stored; earlier losses stay losses."""
    sequences = Sequences()
    for event in sample:
        if isinstance(event, int):
            sequences.receive(event)
        elif isinstance(event, tuple):
            sequences.explain(*event)
    highest, lost = sequences.highest, sequences.explained
    missing = {n for h in sequences.holes if not h.explained for n in range(h.first, h.last + 1)}
    for again in (last // 2, last, last // 3):
        sequences.mark_left_out(again)
    assert (sequences.explained, sequences.highest) == (lost, max(highest, last))
    assert sequences.missing == sum(n > last for n in missing)
    unsure = {n for n in missing if n <= last} | set(range(highest + 1, last + 1))
    assert {n for n in range(60) if sequences.is_left_out(n)} == unsure
    assert all(a.last < b.first for a, b in zip(sequences.holes, sequences.holes[1:], strict=False))
    sequences.explain(1, last + 1)
    assert {n for n in range(60) if sequences.is_left_out(n)} == unsure


@given(events)
def test_sequences_agree_with_a_set(sample: list[Any]) -> None:
    """Each is received once; missing and explained sequences are those of a model with a set of all numbers."""
    sequences, taken, lost = Sequences(), set[int](), set[int]()
    for event in sample:
        if isinstance(event, int):
            if event == 0 and sequences.highest >= 0:
                continue  # a numbering that starts at 0 starts with it
            assert sequences.receive(event) == (event not in taken)
            taken.add(event)
        elif isinstance(event, dict):
            sequences.extend_to(event["reached"])
            assert sequences.highest >= event["reached"]
        else:
            sequences.explain(*event)
            lost |= set(range(event[0], event[1] + 1))
        missing = set(range(1, sequences.highest + 1)) - taken
        assert (sequences.explained, sequences.missing) == (len(missing & lost), len(missing - lost))
        assert all(a.last < b.first for a, b in zip(sequences.holes, sequences.holes[1:], strict=False))
        assert all(isinstance(h, Hole) and len(h) > 0 for h in sequences.holes)
