"""`python -m bench.store`: the size of stored decisions, the cost of storing them, and answers over a million of them.

    python -m bench.store [--decisions 8000] [--nodes 5000] [--postgresql] [--keep DIR]
    python -m bench.store --questions [--copies 125] [--database FILE] [--keep DIR]

The algorithm makes decisions, which are spooled and sent in a shipper's batches to a separate service. The first tenth
is a warm-up and excluded from the rates. Size: SQLite's file after a checkpoint, or PostgreSQL's tables and indexes,
per decision. CPU and memory are those of the service, without a database server.

For questions the service's own writer stores 8,000 decisions, and SQL copies them inside the database. Each copy is
another incarnation with its own node table and pods, an hour and a half before the previous one; the histories are
copied to each hour of 30 days. The deltas and their key frames are real, but all copies have the same decisions. Then a
service is asked over HTTP, each time about another pod or node, mostly with cold caches.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from bench.algorithm import calibration_ms
from bench.decisions import generate, read_batches
from bench.processes import INGEST, INGEST_HEADERS, DecisionsService, PeakMemory, exit_on_sigterm, format_quantiles
from herodotus_endpoint.store import Store, database_from_url, sqlite_url
from herodotus_endpoint.store.rollups import BUCKET_US
from herodotus_endpoint.store.sqlite import Sqlite
from tests import postgresql

APART_US: Final = 90 * 60 * 1_000_000  # time between two copies: 125 cover 8 days
HOURS: Final = 30 * 24
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"  # the Accept header of kubectl get
JSON: Final = "application/json"
QUERIES_PER_KIND: Final = 300  # queries of each kind about pods: the 99th percentile is the third slowest
HISTORIES: Final = 100
LISTS: Final = 50


def main() -> int:
    """Measure the storing and reading of decisions, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.store", description="The store: size, ingest, answers.")
    parser.add_argument("--decisions", type=int, default=8000)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL server of its own, after SQLite")
    parser.add_argument("--keep", type=Path, help="directory of the batches: made once, taken from there later")
    parser.add_argument("--questions", action="store_true", help="measure answers instead of ingest")
    parser.add_argument("--copies", type=int, default=125, help="for questions; 125 of 8,000 decisions make a million")
    parser.add_argument("--database", type=Path, help="for questions: the SQLite file, made once, used as it is later")
    arguments = parser.parse_args()
    exit_on_sigterm()
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.questions:
            file = arguments.database or Path(temporary) / "herodotus.db"
            if not file.exists():
                _store(file, _make_batches(arguments, Path(temporary)))
                _copy(file, arguments.copies)
            _ask(Path(temporary), file)
            return 0
        files = _make_batches(arguments, Path(temporary))
        print(f"calibration {calibration_ms():.1f} ms; {len(files)} batches, {arguments.nodes} nodes")
        print(f"{'DATABASE':12}{'DECISIONS':>10}{'BYTES EACH':>12}{'PER S':>8}{'CPU MS':>8}{'PEAK MIB':>10}")
        with tempfile.TemporaryDirectory() as data:
            _ingest("SQLite", Path(data), sqlite_url(Path(data) / "herodotus.db"), files)
        if arguments.postgresql:
            with tempfile.TemporaryDirectory() as data, postgresql.Server(durable=True) as server:
                _ingest("PostgreSQL", Path(data), server.database(), files)
    return 0


def _make_batches(arguments: argparse.Namespace, temporary: Path) -> list[Path]:
    folder = arguments.keep or temporary
    return sorted(folder.glob("*.batch")) or generate(folder, arguments.decisions, arguments.nodes)


def _ingest(name: str, folder: Path, url: str, files: list[Path]) -> None:
    service = DecisionsService(folder, "--database-url", url, "--max-bytes", "1Ti")
    try:
        warm = max(1, len(files) // 10)
        first = _send(service.port, files[:warm])
        began, used = time.perf_counter(), service.cpu_s()
        with PeakMemory(service.resident_mib, every_s=0.2) as peak:
            decisions = _send(service.port, files[warm:])
        per_s = decisions / (time.perf_counter() - began)
        cpu_ms = (service.cpu_s() - used) / decisions * 1000
    finally:
        service.stop()
    stored = first + decisions
    print(f"{name:12}{stored:>10}{_size(url) / stored:>12.0f}{per_s:>8.0f}{cpu_ms:>8.2f}{peak.mib:>10.0f}")


def _send(port: int, files: Sequence[Path]) -> int:
    """Send every batch in order, as one shipper does; return the number of decisions."""
    connection, decisions = HTTPConnection("127.0.0.1", port, timeout=60), 0
    for file in files:
        connection.request("POST", INGEST, file.read_bytes(), INGEST_HEADERS)
        answer = connection.getresponse()
        text = answer.read().decode()
        match = re.search(r'"decisions": ?(\d+)', text)
        if answer.status != 200 or not match:
            raise RuntimeError(f"{answer.status}: {text[:500]}")
        decisions += int(match[1])
    connection.close()
    return decisions


def _size(url: str) -> int:
    """Return the size of the database in bytes after a checkpoint."""
    opened = database_from_url(url)
    engine = opened.writing_engine()
    with engine.connect() as connection:
        if isinstance(opened, Sqlite):
            connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            size = opened.file_bytes()
        else:
            size = opened.live_bytes(connection)
    engine.dispose()
    return size


def _store(file: Path, files: list[Path]) -> None:
    store = Store(sqlite_url(file))
    for frames in read_batches(files):
        store.writer.store(frames)
    store.close()


def _copy(file: Path, copies: int) -> None:
    """Multiply the decisions in a database file by `copies`, with SQL only, and print how long that took.

    The copies are earlier and belong to other incarnations and pods.
    """
    began = time.perf_counter()
    connection = sqlite3.connect(file)
    columns = {t: _columns(connection, t) for t in ("incarnations", "decisions", "outcomes", "node_rows")}
    for copy in range(1, copies):
        late = copy * APART_US
        changed = {
            "incarnations": {"id": f"id + {copy}", "incarnation": f"incarnation || '-{copy}'"},
            "decisions": {
                "incarnation_id": f"incarnation_id + {copy}",
                "pod": f"pod || '-{copy}'",
                "pod_uid": f"pod_uid || '-{copy}'",
                "started_us": f"started_us - {late}",
                "ingested_us": f"ingested_us - {late}",
            },
            "outcomes": {"incarnation_id": f"incarnation_id + {copy}"},
            "node_rows": {"incarnation_id": f"incarnation_id + {copy}"},
        }
        for table, changes in changed.items():
            changes["checksum"] = "NULL"  # The checksum of a row covers what is changed here; it may be absent.
            names = [c for c in columns[table] if (table, c) != ("decisions", "id")]
            into, values = ", ".join(names), ", ".join(changes.get(c, c) for c in names)
            own = "id" if table == "incarnations" else "incarnation_id"
            connection.execute(f"INSERT INTO {table} ({into}) SELECT {values} FROM {table} WHERE {own} = 1")
        connection.commit()
    names = _columns(connection, "rollups")
    values = ", ".join({"bucket": "bucket - ?", "checksum": "NULL"}.get(name, name) for name in names)
    connection.executemany(
        f"INSERT INTO rollups ({', '.join(names)}) SELECT {values} FROM rollups"
        " WHERE bucket = (SELECT max(bucket) FROM rollups)",
        [(hour,) for hour in range(1, HOURS)],
    )
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (stored,) = connection.execute("SELECT count(*) FROM decisions").fetchone()
    connection.close()
    size, took = file.stat().st_size, time.perf_counter() - began
    print(f"calibration {calibration_ms():.1f} ms; {stored} decisions, {size / 2**30:.2f} GiB, copied in {took:.0f} s")


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _ask(folder: Path, file: Path) -> None:
    rng = random.Random(1)
    connection = sqlite3.connect(file)
    (last,) = connection.execute("SELECT max(id) FROM decisions").fetchone()
    select = "SELECT namespace, pod FROM decisions WHERE id >= ? ORDER BY id LIMIT 1"
    pods = [connection.execute(select, (rng.randrange(1, last + 1),)).fetchone() for _ in range(3 * QUERIES_PER_KIND)]
    nodes = [name for (name,) in connection.execute("SELECT name FROM nodes WHERE considered ORDER BY id LIMIT 4000")]
    connection.close()
    month, third = HOURS * BUCKET_US // 1_000_000, QUERIES_PER_KIND
    pages = [f"/namespaces/team-{i % 4}/decisions?limit=500" for i in range(LISTS)]
    questions = {
        "latest of a pod": [f"/namespaces/{n}/podexplanations/{p}" for n, p in pods[:third]],
        "all attempts of a pod": [f"/namespaces/{n}/podhistories/{p}" for n, p in pods[third : 2 * third]],
        "why not node X": [
            f"/namespaces/{n}/podexplanations/{p}?node={rng.choice(nodes)}" for n, p in pods[2 * third :]
        ],
        "a node's history of 30 days": [
            f"/nodehistories/{name}?since={month}" for name in rng.sample(nodes, HISTORIES)
        ],
        "a page of nodes": [f"/nodehistories?limit={50 + i % 2}" for i in range(LISTS)],
        "a page of 500 decisions": pages,
        "kubectl's first page": pages,
        "pending pods of a namespace": [f"/namespaces/team-{i % 4}/pendingpods" for i in range(8)],
    }
    service = DecisionsService(folder, "--database-url", sqlite_url(file), "--max-bytes", "1Ti", "--max-age", "999d")
    try:
        print(f"calibration {calibration_ms():.1f} ms")
        print(f"{'QUESTION':32}{'P50 MS':>8}{'P99 MS':>8}{'WORST':>8}{'CPU MS':>8}")
        for name, paths in questions.items():
            used, times = service.cpu_s(), list[float]()
            for took_ms, status, body in service.measure_answers(paths, TABLE if "kubectl" in name else JSON):
                if status not in (200, 404):
                    raise RuntimeError(f"{name}: {status} {body[:300]!r}")
                times.append(took_ms)
            cpu_ms = (service.cpu_s() - used) / len(times) * 1000  # Other load changes it less than the wall time.
            print(f"{name:32}{format_quantiles(times)}{cpu_ms:>8.1f}", flush=True)
    finally:
        service.stop()


if __name__ == "__main__":
    raise SystemExit(main())
