"""Damage of stored data: `check` finds it, and no answer contains damaged values."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from werkzeug.test import TestResponse

from herodotus_endpoint.__main__ import main
from herodotus_endpoint.store import (
    Pruner,
    RetentionLimits,
    Store,
    StoreError,
    StoreUnavailableError,
    database_from_url,
    sqlite_url,
)
from tests.builders import CORDONED, a_decision, a_table, bound
from tests.endpoint.service import API, Service, a_service, rows
from tests.support.breadth import widen

NODES = ["worker-1", "worker-2", "worker-3"]
TABLE = a_table(NODES)
PODS = [f"p-{i}" for i in range(1, 121, 2)]
QUERIES = [
    *(f"{API}/namespaces/shop/podexplanations/{pod}" for pod in PODS),
    f"{API}/decisions?limit=500",
    *(f"{API}/nodehistories/{node}?since=999999999" for node in NODES),
]
Execute = Callable[..., list[Any]]


def fill(service: Service) -> None:
    """Store decisions of one template with their outcomes, in several chains."""
    for first in range(1, 121, 40):
        sent = [
            a_decision(
                pod=f"p-{i}",
                sequence=i,
                points={"worker-2": {"ImageLocality": i % 50}},
                rejected={"worker-3": {"NodeName": CORDONED}} if i % 4 == 1 else {},
            )
            for i in range(first, first + 40, 2)
        ]
        service.stored(rows(TABLE), *(f for d in sent for f in (d, bound(d, TABLE))))
        service.clock.now_s += 1200


def answers(service: Service) -> dict[str, TestResponse]:
    return {query: service.client.get(query) for query in QUERIES}


def untrue(before: dict[str, TestResponse], after: dict[str, TestResponse]) -> list[str]:
    """Return the queries whose answers changed without reporting damage."""
    return [
        query
        for query, answer in after.items()
        if answer.status_code == 200 and "Warning" not in answer.headers and answer.data != before[query].data
    ]


@pytest.fixture(params=["sqlite", "postgresql"])
def service(
    request: pytest.FixtureRequest, tmp_path: Path, postgresql_database: Callable[[], str]
) -> Iterator[Service]:
    opened = a_service(tmp_path, url=postgresql_database() if request.param == "postgresql" else "")
    fill(opened)
    yield opened
    opened.store.close()


def execute(service: Service, statement: str, *values: Any) -> list[Any]:
    """Execute a statement beside the service, without updating checksums."""
    name = service.store.database.name
    if name.startswith("postgresql"):
        with psycopg.connect(name) as connection:
            cursor = connection.execute(statement.replace("?", "%s"), values)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(name, isolation_level=None)) as file:
        return file.execute(statement, values).fetchall()


def checked(service: Service, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    name = service.store.database.name
    capsys.readouterr()
    code = main(["check", "--database-url", name if "://" in name else sqlite_url(Path(name))])
    return code, capsys.readouterr().out


def test_the_check_of_an_intact_database_prints_what_it_read(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = checked(service, capsys)
    assert code == 0, out
    assert "decisions: 60 rows, outcomes: 60 rows, gaps: 0 rows, nodes: 3 rows, node_rows: 3 rows" in out
    assert out.endswith("no damage found\n")


def flipped(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]


BLOBS = [("decisions", "frame", "id"), ("outcomes", "frame", "sequence"), ("rollups", "counters", "bucket")]


@pytest.mark.parametrize("seed", widen(range(20), every=5))
def test_a_flipped_byte_in_a_blob_is_found_and_never_in_an_answer(
    service: Service, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    rng = random.Random(seed)
    before = answers(service)
    table, column, key = BLOBS[seed % len(BLOBS)]
    found = execute(service, f"SELECT {key}, {column} FROM {table} ORDER BY {key}")
    at, data = found[rng.randrange(len(found))]
    execute(service, f"UPDATE {table} SET {column} = ? WHERE {key} = ?", flipped(bytes(data), rng), at)
    reopened = again(service)
    after = answers(reopened)
    assert untrue(before, after) == []
    assert any(answer.status_code == 500 for answer in after.values())
    assert any(answer.status_code == 200 for answer in after.values()), "the rest goes on"
    reopened.store.close()
    code, out = checked(service, capsys)
    assert (code, f"damaged: table {table}, row " in out) == (1, True), out


def again(service: Service) -> Service:
    """Restart the service, so that all caches are empty."""
    name = service.store.database.name
    opened = a_service(Path("/nonexistent"), url=name if "://" in name else sqlite_url(Path(name)))
    opened.clock.now_s = service.clock.now_s
    return opened


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("decisions", "pod = 'p-x' WHERE pod = 'p-7'"),
        ("decisions", "message = 'all is well' WHERE pod = 'p-7'"),
        ("decisions", "state = 'Bounc' WHERE pod = 'p-7'"),
        ("decisions", "state = 'Failed' WHERE pod = 'p-7'"),
        ("decisions", "node = 'worker-9' WHERE pod = 'p-7'"),
        ("decisions", "frame = (SELECT frame FROM decisions o WHERE o.pod = 'p-9') WHERE pod = 'p-7'"),
        ("decisions", "base = 41 WHERE pod = 'p-7'"),
        ("outcomes", "state = 'Failed' WHERE sequence = 8"),
        ("nodes", "name = 'worker-9' WHERE name = 'worker-2'"),
        ("node_rows", "node_id = 1 WHERE slot = 2"),
        ("rollups", "chosen = chosen + 1"),
        ("incarnations", "highest = 3"),
        ("holes", "last = 100000"),
    ],
)
def test_a_changed_column_is_found(
    service: Service, capsys: pytest.CaptureFixture[str], table: str, change: str
) -> None:
    if table == "holes":
        execute(service, "INSERT INTO holes VALUES (1, 50, 51, ?, ?)", False, False)
    execute(service, f"UPDATE {table} SET {change}")
    code, out = checked(service, capsys)
    assert code == 1, out
    named = "incarnations" if table == "holes" else "decisions" if "state = 'Failed'" in change else table
    assert f"damaged: table {named}, row " in out


def test_a_list_leaves_out_a_damaged_row_and_reports_it(service: Service) -> None:
    execute(service, "UPDATE decisions SET message = 'all is well' WHERE pod = 'p-7'")
    answer = service.client.get(f"{API}/decisions?limit=500")
    items = answer.get_json()["items"]
    assert (answer.status_code, len(items)) == (200, 59)
    assert answer.headers["Warning"] == '299 - "1 stored records are damaged and left out"'
    assert "Warning" not in service.client.get("/version").headers
    said = service.error(f"{API}/namespaces/shop/podexplanations/p-7")
    assert (said["code"], "is damaged: its row does not match its checksum" in said["message"]) == (500, True)


def test_damage_stops_neither_ingest_nor_retention_nor_an_export(
    service: Service, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    execute(service, "UPDATE rollups SET counters = ?", b"noise")
    execute(service, "UPDATE decisions SET frame = ? WHERE pod = 'p-47'", b"noise")
    reopened = again(service)
    reopened.stored(a_decision(pod="later", sequence=901))
    name = service.store.database.name
    url = name if "://" in name else sqlite_url(Path(name))
    assert main(["export", "--database-url", url, "-o", str(tmp_path / "out.jsonl")]) == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) >= 60
    reopened.store.close()
    service.clock.now_s += 8 * 86_400
    assert Pruner(service.store, RetentionLimits()).prune().summarised >= 20


@pytest.mark.parametrize("seed", widen(range(20), every=5))
def test_an_overwritten_part_of_the_file_is_found_or_changes_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    """Overwrite 64 bytes at a random place behind the header of a checkpointed file.

    A damaged index hides rows from queries; only `check` finds it (docs/reliability.md).
    """
    rng = random.Random(seed)
    opened = a_service(tmp_path)
    fill(opened)
    before = answers(opened)
    opened.store.close()
    file = Path(opened.store.database.name)
    data = bytearray(file.read_bytes())
    used = [at for at in range(200, len(data) - 64, 64) if any(data[at : at + 64])]
    at = rng.choice(used)
    data[at : at + 64] = rng.randbytes(64)
    file.write_bytes(data)
    code, out = checked(opened, capsys)
    try:
        store = Store(sqlite_url(file))
    except (StoreError, StoreUnavailableError):  # refused at start: nothing is answered
        assert code == 1
        return
    store.close()
    reopened = again(opened)
    assert code == 1 or all(a.data == before[q].data for q, a in answers(reopened).items()), out
    after = {q: a for q, a in answers(reopened).items() if "nodehistories" not in q}
    changed = untrue(before, after)
    assert not changed or (code == 1 and all(lacks_only(before[q], after[q]) for q in changed))
    reopened.store.close()


def lacks_only(before: TestResponse, after: TestResponse) -> bool:
    """Return whether a list differs from an earlier one only in items that it lacks, or an answer says what it lacks.

    Where rows of a node table are hidden, it names nodes by their slots.
    """
    if b"unknown (slot " in after.data:
        return True
    return all(item in before.get_json()["items"] for item in after.get_json().get("items", [None]))


def test_twelve_overwritten_parts_of_the_file_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = a_service(tmp_path)
    fill(opened)
    opened.store.close()
    file, rng = Path(opened.store.database.name), random.Random(12)
    data = bytearray(file.read_bytes())
    for at in rng.sample([at for at in range(200, len(data) - 8, 8) if any(data[at : at + 8])], 12):
        data[at : at + 8] = rng.randbytes(8)
    file.write_bytes(data)
    code, _ = checked(opened, capsys)
    assert code == 1


def test_check_refuses_a_missing_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--data", str(tmp_path / "typo")]) == 1
    assert "there is no such file" in capsys.readouterr().err
    assert database_from_url(sqlite_url(tmp_path / "typo" / "herodotus.db")).name
