"""`python -m bench.store.questions`: response times over a million stored decisions of 5,000 nodes each.

    python -m bench.store.questions [--copies 125] [--keep DIR] [--database FILE]

The service's own writer stores 8,000 real decisions, and SQL copies them inside the database. Each copy is another
incarnation with its own node table, pods and ids, an hour and a half before the previous one; the histories are copied
to each hour of 30 days. The deltas and their key frames are real, but all copies have the same decisions. Then the
benchmark queries a service over HTTP, each time about another pod or node, mostly with cold caches.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import numpy as np

from bench import ending
from bench.algorithm import calibration_ms
from bench.store.decisions import generate
from bench.store.replay import ServiceProcess
from herodotus_endpoint.store import Store, sqlite_url
from herodotus_endpoint.store.rollups import BUCKET_US
from herodotus_record import codec
from herodotus_record.codec import deltas

API: Final = "/apis/herodotus.dev/v1alpha1"
APART_US: Final = 90 * 60 * 1_000_000  # time between two copies: 125 cover 8 days
HOURS: Final = 30 * 24
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"  # the Accept header of kubectl get
QUERIES_PER_KIND: Final = 300  # queries of each kind about pods: the 99th percentile is the third slowest
HISTORIES: Final = 100
LISTS: Final = 50


def main() -> int:
    """Store, copy, query and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.store.questions", description="Answers over many decisions.")
    parser.add_argument("--copies", type=int, default=125, help="of 8,000 decisions; 125 make a million")
    parser.add_argument("--keep", type=Path, help="directory of the batches: made once, taken from there later")
    parser.add_argument("--database", type=Path, help="the SQLite file: made once, taken as it is later")
    arguments = parser.parse_args()
    ending.exit_on_sigterm()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        file = arguments.database or Path(temporary) / "herodotus.db"
        if not file.exists():
            _store(file, sorted(folder.glob("*.batch")) or generate(folder, 8000, 5000))
            _copy(file, arguments.copies)
        _query_service(Path(temporary), file)
    return 0


def _store(file: Path, files: list[Path]) -> None:
    store = Store(sqlite_url(file))
    for batch in files:
        body = codec.decompress(batch.read_bytes(), 1 << 30)
        reader = deltas.DeltaReader()
        store.writer.store(reader.read(frame) for _, frame in codec.split_frames(body))
    store.close()


def _copy(file: Path, copies: int) -> None:
    """Copy the decisions with SQL only, without decoding blobs."""
    began = time.perf_counter()
    connection = sqlite3.connect(file)
    columns = {t: _columns(connection, t) for t in ("incarnations", "decisions", "outcomes", "node_rows")}
    for copy in range(1, copies):
        late = copy * APART_US
        changed = {
            "incarnations": {"id": f"id + {copy}", "incarnation": f"incarnation || '-{copy}'"},
            "decisions": {
                "incarnation_id": f"incarnation_id + {copy}",
                "decision_id": f"decision_id || '-{copy}'",
                "pod": f"pod || '-{copy}'",
                "pod_uid": f"pod_uid || '-{copy}'",
                "started_us": f"started_us - {late}",
                "ingested_us": f"ingested_us - {late}",
            },
            "outcomes": {"incarnation_id": f"incarnation_id + {copy}"},
            "node_rows": {"incarnation_id": f"incarnation_id + {copy}"},
        }
        for table, changes in changed.items():
            names = [c for c in columns[table] if (table, c) != ("decisions", "id")]
            into, values = ", ".join(names), ", ".join(changes.get(c, c) for c in names)
            own = "id" if table == "incarnations" else "incarnation_id"
            connection.execute(f"INSERT INTO {table} ({into}) SELECT {values} FROM {table} WHERE {own} = 1")
        connection.commit()
    names = _columns(connection, "rollups")
    values = ", ".join("bucket - ?" if name == "bucket" else name for name in names)
    connection.executemany(
        f"INSERT INTO rollups ({', '.join(names)}) SELECT {values} FROM rollups"
        " WHERE bucket = (SELECT max(bucket) FROM rollups)",
        [(hour,) for hour in range(1, HOURS)],
    )
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (stored,) = connection.execute("SELECT count(*) FROM decisions").fetchone()
    connection.close()
    size = file.stat().st_size
    took = time.perf_counter() - began
    print(f"calibration {calibration_ms():.1f} ms; {stored} decisions, {size / 2**30:.2f} GiB, copied in {took:.0f} s")


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _query_service(folder: Path, file: Path) -> None:
    rng = random.Random(1)
    connection = sqlite3.connect(file)
    (last,) = connection.execute("SELECT max(id) FROM decisions").fetchone()
    ids = [rng.randrange(1, last + 1) for _ in range(3 * QUERIES_PER_KIND)]
    found = "SELECT namespace, pod FROM decisions WHERE id >= ? ORDER BY id LIMIT 1"
    pods = [connection.execute(found, (i,)).fetchone() for i in ids]
    nodes = [name for (name,) in connection.execute("SELECT name FROM nodes WHERE considered ORDER BY id LIMIT 4000")]
    connection.close()
    month = HOURS * BUCKET_US // 1_000_000
    service = ServiceProcess(folder, ("--database-url", sqlite_url(file), "--max-bytes", "1Ti", "--max-age", "999d"))
    try:
        print(f"calibration {calibration_ms():.1f} ms")
        print(f"{'QUESTION':32}{'P50 MS':>8}{'P99 MS':>8}{'WORST':>8}{'CPU MS':>8}")
        pages = [f"/namespaces/team-{i % 4}/decisions?limit=500" for i in range(LISTS)]
        questions = {
            "latest of a pod": (f"/namespaces/{n}/podexplanations/{p}" for n, p in pods[:QUERIES_PER_KIND]),
            "all attempts of a pod": (
                f"/namespaces/{n}/podhistories/{p}" for n, p in pods[QUERIES_PER_KIND : 2 * QUERIES_PER_KIND]
            ),
            "why not node X": (
                f"/namespaces/{n}/podexplanations/{p}?node={rng.choice(nodes)}" for n, p in pods[2 * QUERIES_PER_KIND :]
            ),
            "a node's history of 30 days": (
                f"/nodehistories/{name}?since={month}" for name in rng.sample(nodes, HISTORIES)
            ),
            "a page of nodes": (f"/nodehistories?limit={50 + i % 2}" for i in range(LISTS)),
            "a page of 500 decisions": iter(pages),
            "kubectl's first page": iter(pages),
            "pending pods of a namespace": (f"/namespaces/team-{i % 4}/pendingpods" for i in range(8)),
        }
        for name, paths in questions.items():
            used = service.cpu_s()
            times = list(
                _response_times(service.port, paths, TABLE if name.startswith("kubectl") else "application/json")
            )
            cpu_ms = (
                (service.cpu_s() - used) / len(times) * 1000
            )  # Other load changes the CPU time less than the wall time.
            p50, p99 = np.percentile(times, [50, 99])
            print(f"{name:32}{p50:>8.1f}{p99:>8.1f}{max(times):>8.1f}{cpu_ms:>8.1f}", flush=True)
    finally:
        service.stop()


def _response_times(port: int, paths: Iterator[str], accept: str) -> Iterator[float]:
    """Yield the response time of each request in milliseconds."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    for path in paths:
        began = time.perf_counter()
        connection.request("GET", API + path, headers={"Accept": accept})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 404):
            raise RuntimeError(f"{path}: {answer.status} {text[:300]!r}")
        yield (time.perf_counter() - began) * 1000
    connection.close()


if __name__ == "__main__":
    raise SystemExit(main())
