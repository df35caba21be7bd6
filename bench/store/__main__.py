"""`python -m bench.store`: the size of stored decisions, and the cost of storing them.

    python -m bench.store [--decisions 8000] [--nodes 5000] [--postgresql] [--keep DIR]

The algorithm makes decisions, which are spooled and sent in a shipper's batches to a separate service. The first tenth
is a warm-up and excluded from the rates. Size: SQLite's file after a checkpoint, or PostgreSQL's tables and indexes,
per decision. CPU and memory are those of the service, without a database server.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench import ending
from bench.algorithm import calibration_ms
from bench.store.decisions import generate
from bench.store.replay import ServiceProcess
from herodotus_endpoint.store import database_from_url, sqlite_url
from herodotus_endpoint.store.sqlite import Sqlite
from tests import postgresql


def main() -> int:
    """Measure, print the figures and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.store", description="The store: size at rest, ingest, CPU.")
    parser.add_argument("--decisions", type=int, default=8000)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL server of its own, after SQLite")
    parser.add_argument("--keep", type=Path, help="directory of the batches: made once, taken from there later")
    arguments = parser.parse_args()
    ending.exit_on_sigterm()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        files = sorted(folder.glob("*.batch")) or generate(folder, arguments.decisions, arguments.nodes)
        print(f"calibration {calibration_ms():.1f} ms; {len(files)} batches, {arguments.nodes} nodes")
        print(f"{'DATABASE':12}{'DECISIONS':>10}{'BYTES EACH':>12}{'PER S':>8}{'CPU MS':>8}{'PEAK MIB':>10}")
        with tempfile.TemporaryDirectory() as data:
            _run("SQLite", Path(data), sqlite_url(Path(data) / "herodotus.db"), files)
        if arguments.postgresql:
            with tempfile.TemporaryDirectory() as data, postgresql.Server(durable=True) as server:
                _run("PostgreSQL", Path(data), server.database(), files)
    return 0


def _run(name: str, folder: Path, url: str, files: list[Path]) -> None:
    service = ServiceProcess(folder, ("--database-url", url, "--max-bytes", "1Ti"))
    try:
        warm = max(1, len(files) // 10)
        before = service.replay(files[:warm])
        figures = service.replay(files[warm:])
    finally:
        service.stop()
    stored = before.decisions + figures.decisions
    speed = f"{figures.per_s:>8.0f}{figures.cpu_ms:>8.2f}{figures.peak_bytes / 2**20:>10.0f}"
    print(f"{name:12}{stored:>10}{_size(url) / stored:>12.0f}{speed}")


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


if __name__ == "__main__":
    raise SystemExit(main())
