"""`python -m bench.store`: how large stored decisions are, and what storing them costs.

python -m bench.store [--decisions 4000] [--nodes 5000] [--postgresql] [--keep DIR]

Decisions are made by the algorithm, written to a spool, and sent in a shipper's batches to a service of its own. The
first tenth warms up and is not in the figures of speed. Size: the database's files after a checkpoint, over decisions.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from pathlib import Path

from bench.algorithm import calibration_ms
from bench.store.decisions import generate
from bench.store.replay import Service


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.store", description="The store: size at rest, ingest, CPU.")
    parser.add_argument("--decisions", type=int, default=4000)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--keep", type=Path, help="directory to keep the batches and the database in, made once")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        _run(arguments.keep or Path(temporary), arguments.decisions, arguments.nodes)
    return 0


def _run(folder: Path, decisions: int, nodes: int) -> None:
    files = sorted(folder.glob("*.batch")) or generate(folder, decisions, nodes)
    print(f"calibration {calibration_ms():.1f} ms; {len(files)} batches, {nodes} nodes")
    with tempfile.TemporaryDirectory(dir=folder) as data:
        service = Service(folder, ("--data", data, "--max-bytes", "1Ti"))
        try:
            warm = max(1, len(files) // 10)
            before = service.replay(files[:warm])
            figures = service.replay(files[warm:])
        finally:
            service.stop()
        size = _checkpointed(Path(data) / "herodotus.db")
    stored = before.decisions + figures.decisions
    print(f"{'DECISIONS':>10}{'BYTES EACH':>12}{'PER S':>8}{'CPU MS':>8}{'PEAK MIB':>10}")
    speed = f"{figures.per_s:>8.0f}{figures.cpu_ms:>8.2f}{figures.peak_bytes / 2**20:>10.0f}"
    print(f"{stored:>10}{size / stored:>12.0f}{speed}")


def _checkpointed(file: Path) -> int:
    """Bytes of the database once its write-ahead log is in it."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return file.stat().st_size


if __name__ == "__main__":
    raise SystemExit(main())
