"""Cached node tables equal those of the database after any sequence of reads, and the cache is bounded."""

import tempfile
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_endpoint.store import Store, node_table_cache, sqlite_url
from herodotus_endpoint.store.node_table_cache import NodeTableCache
from herodotus_endpoint.store.packed_node_table import PackedTable
from herodotus_record import codec
from herodotus_record.model import NodeRows
from tests.builders import CLUSTER, INCARNATION

SLOTS = 6
changes = st.lists(
    st.dictionaries(st.integers(0, SLOTS - 1), st.sampled_from(["", "worker-1", "worker-2"]), max_size=4),
    min_size=2,
    max_size=6,
)


def delta(generation: int, names: dict[int, str]) -> NodeRows:
    """Return the node rows of one generation; generation 0 is a complete table."""
    return NodeRows(
        cluster=CLUSTER,
        incarnation=INCARNATION,
        base=generation - 1,
        generation=generation,
        resources=("cpu",),
        slot=array("q", names),
        since=array("q", [generation] * len(names)),
        name=tuple(names.values()),
        uid=tuple(f"uid-{name}" if name else "" for name in names.values()),
        allocatable=(array("q", [1000 * generation] * len(names)),),
        requested=(array("q", list(names)),),
    )


def stored(folder: Path, history: list[dict[int, str]]) -> tuple[Store, sa.Engine]:
    store = Store(sqlite_url(folder / "herodotus.db"))
    frames = [delta(generation, names) for generation, names in enumerate(history)]
    store.writer.store([(frame, codec.encode(frame)) for frame in frames])
    return store, sa.create_engine(sqlite_url(Path(store.database.name)))


@settings(max_examples=60, deadline=None)
@given(changes, st.lists(st.tuples(st.integers(0, 5), st.integers(0, SLOTS)), min_size=1, max_size=12), st.data())
def test_a_cached_table_equals_that_of_the_database(
    history: list[dict[int, str]], requests: list[tuple[int, int]], data: st.DataObject
) -> None:
    cache = NodeTableCache(data.draw(st.sampled_from([0, SLOTS, 3 * SLOTS, 100])))
    most = data.draw(st.sampled_from([1, 2, 4, 300]))
    limit = patch.object(node_table_cache, "MAX_CHANGED_SLOTS", most)
    with tempfile.TemporaryDirectory() as folder, limit:
        store, engine = stored(Path(folder), history)
        with engine.connect() as connection:
            for generation, slots in requests:
                table = cache.get(connection, 1, generation, slots)
                assert table == NodeTableCache().read(connection, (1, generation, slots))
                table.names[:] = ["changed by who asked"] * slots
        engine.dispose()
        store.close()


def test_a_table_is_not_derived_from_a_part_of_the_changed_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many changes of one slot must not hide those of others: they count towards the limit."""
    monkeypatch.setattr(node_table_cache, "MAX_CHANGED_SLOTS", 3)
    history = [dict.fromkeys(range(SLOTS), "worker-1"), *[{0: "worker-2"}] * 4, {5: "worker-2"}]
    store, engine = stored(tmp_path, history)
    cache = NodeTableCache()
    with engine.connect() as connection:
        cache.get(connection, 1, 0, SLOTS)
        assert cache.get(connection, 1, 5, SLOTS).names[5] == "worker-2"
    engine.dispose()
    store.close()


def test_a_cached_table_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, engine = stored(tmp_path, [{0: "worker-1", 1: "worker-2"}, {1: "worker-3"}])
    read: list[int] = []
    cache = NodeTableCache(max_slots=4)
    read_from_database = cache.read

    def count_and_read(connection: sa.Connection, at: tuple[int, int, int]) -> PackedTable:
        read.append(at[1])
        return read_from_database(connection, at)

    monkeypatch.setattr(cache, "read", count_and_read)
    with engine.connect() as connection:
        for generation in (0, 0, 1, 1, 0):
            cache.get(connection, 1, generation, 2)
        assert read == [0], "the other one is made of it"
        cache.get(connection, 1, 1, 4)
        cache.get(connection, 2, 1, 4)
        cache.get(connection, 1, 0, 2)
    assert read == [0, 1, 0], "what was not asked for longest is forgotten"
    engine.dispose()
    store.close()


def test_the_cache_is_safe_for_concurrent_use(tmp_path: Path) -> None:
    history = [dict.fromkeys(range(SLOTS), "worker-1"), *({slot: ""} for slot in range(SLOTS))]
    store, engine = stored(tmp_path, history)
    cache = NodeTableCache(max_slots=2 * SLOTS)

    def ask(generation: int) -> bool:
        with engine.connect() as connection:
            table = cache.get(connection, 1, generation, SLOTS)
            return table == NodeTableCache().read(connection, (1, generation, SLOTS))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, [i % (SLOTS + 1) for i in range(200)]))
    engine.dispose()
    store.close()
