"""`python -m bench.archive`: the size of archived decisions, and response times of questions about them.

    python -m bench.archive [--decisions 5000000] [--clusters 4] [--days 365] [--keep DIR]

The algorithm decides pods of 20 templates on 1,000 nodes. Their summaries are copied: each copy has its own pod, ID and
times, in the columns and in the encoded record. The archive's own code writes the files, a file for each cluster and
day. Then a service with an empty database and `--archive` answers, each question over a year of one cluster. Files that
a question has not read before are counted as the first questions; the others find footers in memory.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import struct
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from bench.algorithm import calibration_ms
from bench.decisions import generate, read_batches
from bench.processes import DecisionsService, exit_on_sigterm, format_quantiles, replace_in_frame
from herodotus_endpoint.archive import manifests
from herodotus_endpoint.archive.location import ArchiveLocation
from herodotus_endpoint.archive.manifests import ArchivedFile, Manifest, format_day, parse_day, partition_folder
from herodotus_endpoint.archive.tables import ARCHIVED, TableBuffer, encode_decisions
from herodotus_endpoint.store import Store, sqlite_url
from herodotus_endpoint.store.closed_days import DAY_US, DayRecord
from herodotus_endpoint.store.export import ExportSelection, export_decisions
from herodotus_endpoint.store.summaries import (
    DecisionRecord,
    decode_summary,
    join_frames,
    split_frames,
    summarise_record,
)

NODES: Final = 1000
TEMPLATES: Final = 400  # decisions of the algorithm that are copied
FIRST_DAY: Final = "2025-01-01"
QUESTIONS: Final = 200
LISTS: Final = 40
UNKNOWN: Final = "an unknown pod"
_TIMES: Final = ("created", "queued", "started", "ended")


def main() -> int:
    """Create the archive unless it exists, ask the questions, print sizes and times, and return the exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.archive", description="The archive of older decisions.")
    parser.add_argument("--decisions", type=int, default=5_000_000)
    parser.add_argument("--clusters", type=int, default=4)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes that write, each a cluster at a time"
    )
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="of each kind about pods")
    parser.add_argument("--keep", type=Path, help="directory of the archive: made once, taken as it is later")
    arguments = parser.parse_args()
    exit_on_sigterm()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary) / "archive"
        location = ArchiveLocation(str(folder))
        if not manifests.list_clusters(location):
            _write(location, Path(temporary), arguments)
        _print_sizes(location)
        _ask(location, Path(temporary), arguments.questions)
    return 0


@dataclass
class Copies:
    """Rows of archived decisions, with copies of encoded records whose names, IDs and times are replaced."""

    records: list[DecisionRecord]

    def __post_init__(self) -> None:
        self.records = [_with_fixed_lengths(record, i) for i, record in enumerate(self.records)]
        buffer = TableBuffer()
        for i, record in enumerate(self.records):
            buffer.add(DayRecord(i, record.decision.times.started_us, record), record, scores=False)
        self.table = buffer.table()
        self.frames = [split_frames(content) for content in self.table["record"].to_pylist()]

    def build(self, cluster: str, day_us: int, first_row: int, count: int, rng: np.random.Generator) -> pa.Table:
        """Return `count` random copies of the records as rows of a cluster's day, with row numbers from `first_row` on.

        `day_us` is the start of the day in microseconds since 1970. The rows are in the order of their start.
        """
        chosen = rng.integers(0, len(self.records), count)
        started = np.sort(rng.integers(day_us, day_us + DAY_US - 60_000_000, count)) // 1000 * 1000
        table = self.table.take(pa.array(chosen))
        columns: dict[str, Any] = {name: table[name] for name in ARCHIVED.names}
        names, ids, uids, contents = [], [], [], []
        for i, (which, at_us) in enumerate(zip(chosen.tolist(), started.tolist(), strict=True)):
            d = self.records[which].decision
            row = first_row + i
            pod, id_ = f"{d.pod.name[:-8]}{row:08x}", _uuid7(at_us, row)
            uid = f"{d.pod.uid[:-12]}{row:012x}"
            changes = {d.id: id_, d.pod.name: pod, d.pod.uid: uid, d.key.cluster: cluster}
            parts = [(old.encode(), new.encode()) for old, new in changes.items()]
            for time_us in {d.times.created_us, d.times.queued_us, d.times.started_us}:
                moved_us = at_us + time_us - d.times.started_us
                parts.append((struct.pack(">Q", time_us), struct.pack(">Q", moved_us)))
            content = join_frames([replace_in_frame(frame, parts) for frame in self.frames[which]])
            names.append(pod)
            ids.append(id_)
            uids.append(uid)
            contents.append(content)
        shift = pa.array(started - table["started"].combine_chunks().cast(pa.int64()).to_numpy(), pa.duration("us"))
        for name in _TIMES:
            columns[name] = pc.add(table[name], shift)
        columns |= {"pod": pa.array(names), "decision": pa.array(ids), "pod_uid": pa.array(uids)}
        columns |= {"cluster": pa.repeat(cluster, count), "record": pa.array(contents, pa.binary())}
        columns |= {"row": pa.array(range(first_row, first_row + count)), "ingested": columns["started"]}
        return pa.table(columns, schema=ARCHIVED)


def _write(location: ArchiveLocation, folder: Path, arguments: argparse.Namespace) -> None:
    records = _decide(folder)
    began = time.perf_counter()
    each = arguments.decisions // arguments.clusters
    with ProcessPoolExecutor(arguments.jobs, multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(_write_cluster, location.root, records, number, arguments.days, each)
            for number in range(arguments.clusters)
        ]
        cpu = sum(job.result() for job in jobs)
    written = each * arguments.clusters
    took = time.perf_counter() - began
    print(f"calibration {calibration_ms():.1f} ms; {written} decisions written in {took:.0f} s, {cpu:.0f} s of CPU")


def _write_cluster(root: str, records: list[DecisionRecord], number: int, days: int, decisions: int) -> float:
    """Write `decisions` decisions of cluster `number` for `days` days, and return the CPU time in seconds."""
    used = time.process_time()
    location, copies, rng = ArchiveLocation(root), Copies(records), np.random.default_rng(number)
    cluster = f"00000000-0000-4000-8000-{number:012}"
    row = 1
    for day in range(days):
        start_us = parse_day(FIRST_DAY) + day * DAY_US
        count = decisions * (day + 1) // days - decisions * day // days
        table = copies.build(cluster, start_us, row, count, rng)
        if day == 0:
            _check(table)
        _put(location, cluster, format_day(start_us), table, row)
        row += count
    return time.process_time() - used


def _put(location: ArchiveLocation, cluster: str, day: str, table: pa.Table, row: int) -> None:
    path = f"{partition_folder('decisions', cluster, day)}/part-00000.parquet"
    content = encode_decisions(table)
    location.write(path, content)
    last = row + table.num_rows - 1
    file = ArchivedFile(path, table.num_rows, len(content), row, last)
    manifests.write_manifest(location, Manifest(cluster, day, "bench", last, table.num_rows, True, (file,)))


def _check(table: pa.Table) -> None:
    """Raise RuntimeError if a copied record, of the first 500 rows, does not agree with its columns."""
    for row in table.slice(0, 500).to_pylist():
        d = decode_summary(row["record"]).decision
        started_us = round(row["started"].timestamp() * 1e6)
        expected = (row["decision"], row["pod"], row["pod_uid"], row["cluster"], started_us)
        if (d.id, d.pod.name, d.key.pod_uid, d.key.cluster, d.times.started_us) != expected:
            raise RuntimeError(f"a copied record differs from its columns: {d.id} {expected}")


def _decide(folder: Path) -> list[DecisionRecord]:
    """Let the algorithm make TEMPLATES decisions, and return their summaries. `folder` is for temporary files."""
    store = Store(sqlite_url(folder / "herodotus.db"))
    for frames in read_batches(generate(folder, TEMPLATES, NODES)):
        store.writer.store(frames)
    summaries = [summarise_record(each.record, 0) for each in export_decisions(store, ExportSelection())]
    store.close()
    return summaries


def _with_fixed_lengths(record: DecisionRecord, number: int) -> DecisionRecord:
    """Return a copy of the record in which names and IDs are unique texts, whose lengths are the same in all records.

    They can then be replaced in the record's bytes.
    """
    d = record.decision
    pod = f"{d.pod.labels['app']}-{d.pod.labels['pod-template-hash']}-{number:08x}"
    uid, id_ = f"5f3759df-0000-4000-8000-{number:012x}", f"5f3759df-0001-4000-8000-{number:012x}"
    key = replace(d.key, cluster="5f3759df-0002-4000-8000-000000000000", pod_uid=uid)
    outcomes = tuple(replace(outcome, decision_id=id_) for outcome in record.outcomes)
    decision = replace(d, id=id_, key=key, pod=replace(d.pod, name=pod, uid=uid))
    return DecisionRecord(decision, outcomes, record.table)


def _uuid7(at_us: int, number: int) -> str:
    text = f"{at_us // 1000:012x}"
    return f"{text[:8]}-{text[8:]}-7000-8000-{number:012x}"


def _print_sizes(location: ArchiveLocation) -> None:
    days = [
        (cluster, day)
        for cluster in manifests.list_clusters(location)
        for day in manifests.list_days(location, cluster)
    ]
    stored = [manifest for each in days if (manifest := manifests.read_manifest(location, *each))]
    decisions, size = sum(m.decisions for m in stored), sum(m.bytes for m in stored)
    print(f"{decisions} decisions in {len(stored)} days, {size / 2**30:.2f} GiB, {size / decisions:.0f} bytes each")


def _ask(location: ArchiveLocation, folder: Path, number: int) -> None:
    rng = random.Random(1)
    cluster = manifests.list_clusters(location)[0]
    days = manifests.list_days(location, cluster)
    samples = _sample(location, cluster, days, rng, number)
    pods = [f"/namespaces/{n}/podexplanations/{p}?" for n, p, _ in samples]
    lists = min(LISTS, number)
    listed = "/namespaces/team-{}/decisions?archive=true&limit=500{}&"
    failed = f"&fieldSelector={quote('status.state=Unschedulable')}"
    questions = {
        "a pod, first questions": pods[:number],
        "a pod": pods[number : 2 * number],
        "a pod's attempts": [f"/namespaces/{n}/podhistories/{p}?" for n, p, _ in samples[:number]],
        "a decision by its ID": [f"/namespaces/{n}/decisions/{i}?" for n, _, i in samples[:number]],
        UNKNOWN: [f"/namespaces/team-1/podexplanations/app-1-00002-{i:07}x?" for i in range(lists)],
        "500 newest of a namespace": [listed.format(i % 4, "") for i in range(lists)],
        "500 newest without a node": [listed.format(3, failed)] * lists,
    }
    (folder / "empty").mkdir()
    database = f"sqlite:///{folder / 'empty' / 'herodotus.db'}"
    service = DecisionsService(folder, "--database-url", database, "--archive", location.root)
    try:
        peak = idle = service.resident_mib()
        print(f"calibration {calibration_ms():.1f} ms; {len(days)} days of one cluster")
        print(f"{'QUESTION':32}{'P50 MS':>8}{'P99 MS':>8}{'WORST':>8}{'CPU MS':>8}{'MIB':>6}")
        for name, paths in questions.items():
            used, times = service.cpu_s(), list[float]()
            for took_ms, status, body in service.measure_answers(f"{path}cluster={cluster}" for path in paths):
                items = 500 if "newest" not in name else len(json.loads(body)["items"])
                if status != (404 if name == UNKNOWN else 200) or items != 500:
                    raise RuntimeError(f"{name}: {status} {body[:300]!r}")
                times.append(took_ms)
                peak = max(peak, service.resident_mib())
            cpu_ms = (service.cpu_s() - used) / len(times) * 1000
            print(f"{name:32}{format_quantiles(times)}{cpu_ms:>8.1f}{peak:>6.0f}", flush=True)
        print(f"memory of the service {idle:.0f} MiB before, {peak:.0f} MiB at most")
        print(f"memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
    finally:
        service.stop()


def _sample(
    location: ArchiveLocation, cluster: str, days: list[str], rng: random.Random, number: int
) -> list[tuple[str, str, str]]:
    """Return (namespace, pod, decision ID) of 2 * `number` random decisions on random days."""
    samples = []
    for _ in range(2 * number):
        manifest = manifests.read_manifest(location, cluster, rng.choice(days))
        assert manifest is not None
        columns = ["namespace", "pod", "decision"]
        table = pq.read_table(location.full_path(manifest.files[0].path), columns=columns, partitioning=None)
        row = table.slice(rng.randrange(table.num_rows), 1).to_pylist()[0]
        samples.append((row["namespace"], row["pod"], row["decision"]))
    return samples


if __name__ == "__main__":
    raise SystemExit(main())
