"""Answers about archived decisions: one attempt of a pod, its history, and lists by conditions.

Owns: which files a question reads, its limits of time and memory, decoding records. Does not own: documents, rights and
masking (`api.masked_reader`), the layout (`manifests`).

DuckDB evaluates the conditions over the narrow columns. The column `record` is read only for the rows that it selects.
Files are read from the newest to the oldest, in groups, so that a question ends as soon as it is answered:

- the attempts of a pod are not older than its creation, which each record has
- the ID of a decision (UUIDv7) has its time

Invariant: a question takes at most TIMEOUT_S, and at most MAX_QUESTIONS run at the same time in a process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from herodotus_answers.decision import count_repeats
from herodotus_answers.explain import derive_state
from herodotus_endpoint.archive import ArchiveBusyError, ArchiveTimeoutError, ArchiveUnavailableError, manifests
from herodotus_endpoint.archive.conditions import build_clause
from herodotus_endpoint.archive.location import ArchiveLocation, translate_errors
from herodotus_endpoint.archive.manifests import ArchivedFile, Manifest, format_day, parse_day
from herodotus_endpoint.archive.tables import ARCHIVED
from herodotus_endpoint.fair_queue import FairQueue, TurnRefusedError
from herodotus_endpoint.store import StoredAttempt
from herodotus_endpoint.store.attempts import MAX_ROWS
from herodotus_endpoint.store.closed_days import DAY_US
from herodotus_endpoint.store.listing import AnyCondition, ColumnCondition
from herodotus_endpoint.store.query_results import AttemptSeries, PodIdentity
from herodotus_endpoint.store.read_budget import (
    BudgetExceededError,
    ReadBudget,
    ReadLimits,
    check_budget,
    current_budget,
    interrupting,
)
from herodotus_endpoint.store.summaries import DecisionRecord, decode_summary
from herodotus_endpoint.store.table_rows import build_decision_row
from herodotus_record.attempts import AttemptRecords, group_by_attempt
from herodotus_record.codec import CodecError
from herodotus_record.lru import Lru

TIMEOUT_S: Final = 10.0  # a reader waits; a year of one cluster takes a second or two
MAX_QUESTIONS: Final = 2  # at the same time, one of each reader, each with THREADS; the others wait WAIT_S
MAX_WAITING: Final = 8  # of one reader
WAIT_S: Final = 5.0
THREADS: Final = 2
MEMORY: Final = "256MB"  # of DuckDB, for all questions together
GROUP_FILES: Final = 32  # files read together: a month of a cluster with two files a day
IO_THREADS: Final = 16  # requests to the object store at the same time
REFRESH_S: Final = 60.0  # until new days are noticed
MAX_CLUSTERS: Final = 64  # whose manifests are kept in memory
MAX_FRAGMENTS: Final = 4096  # files whose footers are kept in memory, 50 kB each at most
BATCH_ROWS: Final = 2048  # records decoded at a time: a megabyte

# What `herodotus_record.attempts` compares, under the names of the archive's columns.
_LIGHT: Final = {
    "id": "row",
    "decision_id": "decision",
    "source": "source",
    "cluster": "cluster",
    "namespace": "namespace",
    "pod": "pod",
    "pod_uid": "pod_uid",
    "node": "node",
    "message": "message",
    "state": "state",
    "started_us": "epoch_us(started)",
    "created_us": "epoch_us(created)",
    "ingested_us": "epoch_us(ingested)",
}


class ArchivePosition(NamedTuple):
    """A position in a list of archived decisions: a day, and the row before which the list continues."""

    day: str
    row: int


@dataclass(frozen=True)
class ArchivePage:
    """Rows of archived decisions, newest first, like those of `store.listing`, and the position of the next page.

    `next` is None at the end of the archive. A page may have fewer rows than asked for, if the time was up.
    """

    rows: list[Any]
    next: ArchivePosition | None


class _DayFile(NamedTuple):
    day: str
    file: ArchivedFile


class _FileListing(NamedTuple):
    """The files of a cluster, newest first, and when they were listed."""

    files: list[_DayFile]
    listed_s: float


class ArchiveReader:
    """Answers questions about the decisions in an archive. Safe for concurrent use; create it after a fork."""

    def __init__(self, location: ArchiveLocation, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a reader; nothing is read yet. `clock` is a monotonic clock in seconds."""
        self._location = location
        self._clock = clock
        self._lock = threading.Lock()
        self._queue = FairQueue(MAX_QUESTIONS, per_client=1, waiting_per_client=MAX_WAITING, wait_s=WAIT_S)
        self._manifests: Lru[tuple[str, str], Manifest] = Lru(MAX_CLUSTERS * 400)
        self._listings: Lru[str, _FileListing] = Lru(MAX_CLUSTERS)
        self._fragments: Lru[str, Any] = Lru(MAX_FRAGMENTS)
        self._format = ds.ParquetFileFormat(
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(
                pre_buffer=True, page_checksum_verification=True
            )
        )
        pa.set_io_thread_count(IO_THREADS)
        self._database = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": MEMORY,
                "threads": THREADS,
                "temp_directory": "",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        self._pool = ThreadPoolExecutor(IO_THREADS, "archive")

    def close(self) -> None:
        """Release the threads and the memory."""
        self._pool.shutdown(cancel_futures=True)
        self._database.close()

    def list_clusters(self) -> list[str]:
        """Return the IDs of the clusters that have archived decisions. Raises ArchiveUnavailableError."""
        return manifests.list_clusters(self._location)

    def decision_by_id(self, namespace: str, decision_id: str, *, cluster: str) -> StoredAttempt | None:
        """Return the attempt that the decision with this ID describes, or None if it is not archived.

        Raises ArchiveUnavailableError and ArchiveBusyError.
        """
        with self._question() as question:
            files = self._list_files(cluster)
            made_us = _read_time(decision_id)
            if made_us is not None:  # it was stored then or later
                files = [f for f in files if f.day >= format_day(max(0, made_us - DAY_US))][::-1]
            conditions = [ColumnCondition("namespace", (namespace,)), ColumnCondition("decision_id", (decision_id,))]
            for group in _groups(files):
                rows = question.select(group, conditions, 1)
                if rows:
                    attempts = self._find_attempts(question, PodIdentity(namespace, rows[0].pod, cluster))
                    mine = next((a for a in attempts if rows[0].id in a.ids and decision_id in _ids(a)), None)
                    if mine is None:  # older than the newest MAX_ROWS of this name
                        return None
                    same = AttemptSeries(a for a in attempts if a.uid == mine.uid)
                    return self._load(question, same, [same.index(mine)])[0]
        return None

    def decisions_of_pod(self, pod: PodIdentity, *, attempt: int | None = None, last: int = 1) -> list[StoredAttempt]:
        """Return the `last` archived attempts of a pod that end with number `attempt`, ordered by start.

        Attempts are counted from 1. Without `attempt`, the last one returned is the newest. The list is empty if the
        archive does not have that attempt. Raises ArchiveUnavailableError and ArchiveBusyError.
        """
        with self._question() as question:
            attempts = self._find_attempts(question, pod)
            uid = pod.uid or (attempts[-1].uid if attempts else "")
            same = AttemptSeries(each for each in attempts if each.uid == uid)
            indexes = same.find_last(last, attempt)
            return self._load(question, same, indexes) if indexes else []

    def list_decisions(
        self, conditions: Sequence[AnyCondition], before: ArchivePosition | None, limit: int, *, cluster: str
    ) -> ArchivePage:
        """Return a page of the archived decisions that meet all conditions, newest first.

        `before` is the position at which the page begins, as the previous page has it, or None for the first page. If
        the time is up, a page has fewer than `limit` rows. Raises ArchiveUnavailableError and ArchiveBusyError.
        """
        rows: list[Any] = []
        with self._question() as question:
            files = self._list_files(cluster)
            if before is not None:
                files = [f for f in files if (f.day, f.file.first_row) < before]
            for each in files:
                upto = before.row if before is not None and before.day == each.day else each.file.last_row + 1
                if len(rows) == limit:
                    return ArchivePage(rows, ArchivePosition(each.day, upto))
                try:
                    page = question.select([each], conditions, limit - len(rows), upto)
                    records = question.load([(each, row) for row in page])
                except ArchiveTimeoutError:
                    if each is files[0]:
                        raise
                    return ArchivePage(rows, ArchivePosition(each.day, upto))
                rows += [_as_row(record, row) for record, row in zip(records, page, strict=True)]
                if len(rows) == limit:
                    return ArchivePage(rows, ArchivePosition(each.day, page[-1].id))
        return ArchivePage(rows, None)

    @contextmanager
    def _question(self) -> Iterator[_Question]:
        budget = current_budget()
        try:
            with self._queue.admit(budget.reader if budget else "", check_budget):
                yield _Question(self)
        except TurnRefusedError as e:
            raise ArchiveBusyError(f"questions about the archive take turns: {e}") from e

    def _find_attempts(self, question: _Question, pod: PodIdentity) -> list[AttemptRecords]:
        """Return the attempts of pods with the name of `pod`, ordered by start.

        Only days since the creation of the pod are read, so that attempts of earlier pods may be missing. Without a
        UID, it is the latest pod of the name.
        """
        conditions = [ColumnCondition("namespace", (pod.namespace,)), ColumnCondition("pod", (pod.name,))]
        rows: list[Any] = []
        for group in _groups(self._list_files(pod.cluster)):
            rows += question.select(group, conditions, MAX_ROWS - len(rows))
            if len(rows) >= MAX_ROWS or (rows and _is_older_than_pod(group[-1].day, rows, pod.uid)):
                break
        return group_by_attempt(rows)

    def _load(self, question: _Question, same: AttemptSeries, positions: Collection[int]) -> list[StoredAttempt]:
        """Return the attempts at the indexes `positions` of `same`, which holds all attempts of one pod by start."""
        wanted = [(i, _by_detail(same[i])) for i in positions]
        rows = [row for _, rows in wanted for row in rows]
        files = self._list_files(rows[0].cluster)
        records = dict(zip(map(_key, rows), question.load([(_find_file(files, r), r) for r in rows]), strict=True))
        return [
            StoredAttempt.from_records(
                [records[_key(row)] for row in rows], same, i, archived=format_day(rows[0].ingested_us)
            )
            for i, rows in wanted
        ]

    def _list_files(self, cluster: str) -> list[_DayFile]:
        """Return the files of a cluster's archived days, newest first. The list is cached for REFRESH_S seconds."""
        with self._lock:
            listing = self._listings.get(cluster)
        if listing is not None and self._clock() - listing.listed_s < REFRESH_S:
            return listing.files
        days = manifests.list_days(self._location, cluster)
        read = self._pool.map(lambda day: self._read_manifest(cluster, day), days)
        files = [_DayFile(m.day, file) for m in read if m is not None and m.complete for file in m.files][::-1]
        with self._lock:
            self._listings.put(cluster, _FileListing(files, self._clock()))
        return files

    def _read_manifest(self, cluster: str, day: str) -> Manifest | None:
        with self._lock:
            manifest = self._manifests.get((cluster, day))
        if manifest is None:
            manifest = manifests.read_manifest(self._location, cluster, day)
            if manifest is not None and manifest.complete:  # does not change any more
                with self._lock:
                    self._manifests.put((cluster, day), manifest)
        return manifest

    def fragment(self, file: ArchivedFile) -> Any:
        """Return the file as a fragment of an Arrow dataset, from a cache: a fragment keeps the footer that it read."""
        with self._lock:
            fragment = self._fragments.get(file.path)
        if fragment is None:
            path = self._location.full_path(file.path)
            fragment = self._format.make_fragment(path, self._location.filesystem, file_size=file.bytes)
            with self._lock:
                self._fragments.put(file.path, fragment)
        return fragment

    def dataset(self, files: Sequence[_DayFile]) -> Any:
        """Return a dataset of some files. Footers of files that are not cached yet are read in parallel."""
        fragments = [self.fragment(each.file) for each in files]
        list(self._pool.map(lambda fragment: fragment.ensure_complete_metadata(), fragments))
        return ds.FileSystemDataset(fragments, ARCHIVED, self._format, self._location.filesystem)

    def cursor(self) -> Any:
        """Return a connection of its own to DuckDB."""
        return self._database.cursor()


class _Question:
    """One question, with its time limit."""

    def __init__(self, reader: ArchiveReader) -> None:
        self._reader = reader
        ours = current_budget()
        self._budget = ReadBudget(ReadLimits(time_s=TIMEOUT_S), ours.client_left if ours else None)

    def select(
        self, files: Sequence[_DayFile], conditions: Sequence[AnyCondition], limit: int, before: int | None = None
    ) -> list[Any]:
        """Return at most `limit` decisions of `files` that meet the conditions, by descending row number.

        There is at least one file. The decisions have the columns of `_LIGHT`. If `before` is set, only rows with a
        smaller number count. Raises ArchiveTimeoutError and ArchiveUnavailableError.
        """
        self._require_time(files[0].day)
        where, values = build_clause(conditions)
        if before is not None:
            where, values = f"{where} and row < ?", [*values, before]
        columns = ", ".join(f"{sql} as {name}" for name, sql in _LIGHT.items())
        statement = f"select {columns} from decisions where {where} order by row desc limit {limit:d}"
        cursor = self._reader.cursor()
        try:
            with translate_errors("cannot read the files"):
                cursor.register("decisions", self._reader.dataset(files))
                self._require_time(files[0].day)  # DuckDB forgets an interruption that comes before the statement
                with interrupting(self._budget, cursor.interrupt):
                    rows = cursor.execute(statement, values).fetchall()
        except duckdb.InterruptException:
            self._require_time(files[0].day)
            raise
        except (duckdb.Error, FileNotFoundError) as e:
            raise ArchiveUnavailableError(f"cannot read the files of the archive: {str(e).splitlines()[0]}") from e
        finally:
            cursor.close()
        return [SimpleNamespace(**dict(zip(_LIGHT, row, strict=True))) for row in rows]

    def load(self, wanted: Sequence[tuple[_DayFile, Any]]) -> list[DecisionRecord]:
        """Return the records of rows, in the order of `wanted`, which has pairs of a file and a row in it.

        Raises ArchiveTimeoutError and ArchiveUnavailableError.
        """
        by_file: dict[str, list[Any]] = {}
        files = {each.file.path: each for each, _ in wanted}
        for each, row in wanted:
            by_file.setdefault(each.file.path, []).append(row)
        records: dict[tuple[int, int], DecisionRecord] = {}
        for path, rows in by_file.items():
            self._require_time(files[path].day)
            contents = self._read_records(files[path], rows)
            for row in rows:
                try:
                    records[_key(row)] = decode_summary(contents[row.id])
                except (KeyError, CodecError) as e:
                    raise ArchiveUnavailableError(f"the record {row.decision_id} in {path} is damaged: {e!r}") from e
        return [records[_key(row)] for _, row in wanted]

    def _read_records(self, file: _DayFile, rows: Sequence[Any]) -> dict[int, bytes]:
        """Return the encoded records of `rows`, which are all in one file, by row ID.

        Raises ArchiveTimeoutError and ArchiveUnavailableError.
        """
        condition = (
            pc.field("namespace").isin({row.namespace for row in rows})
            & pc.field("pod").isin({row.pod for row in rows})
            & pc.field("row").isin([row.id for row in rows])
        )
        contents: dict[int, bytes] = {}
        try:
            with translate_errors("cannot read the files"):
                scanner = self._reader.dataset([file]).scanner(
                    columns=["row", "record"],
                    filter=condition,
                    batch_size=BATCH_ROWS,
                    batch_readahead=2,
                    fragment_readahead=1,
                )
                for batch in scanner.to_batches():
                    contents.update(zip(batch["row"].to_pylist(), batch["record"].to_pylist(), strict=True))
                    self._require_time(file.day)
        except FileNotFoundError as e:
            raise ArchiveUnavailableError(f"{file.file.path} of the archive does not exist") from e
        return contents

    def _require_time(self, day: str) -> None:
        try:
            self._budget.check()
        except BudgetExceededError as e:
            raise _timeout(day) from e


def _timeout(day: str) -> ArchiveTimeoutError:
    return ArchiveTimeoutError(f"the archive was searched back to {day} in {TIMEOUT_S:.0f} s and not further")


def _groups(files: Sequence[_DayFile]) -> Iterator[Sequence[_DayFile]]:
    for first in range(0, len(files), GROUP_FILES):
        yield files[first : first + GROUP_FILES]


def _is_older_than_pod(day: str, rows: Sequence[Any], uid: str) -> bool:
    """Return whether a day ended before the pod was created, so that it has no records of the pod.

    `rows` are records of pods with the same name. Without `uid`, the pod is that of the latest one. The result is False
    if the time of its creation is not known.
    """
    uid = uid or max(rows, key=lambda row: row.started_us).pod_uid
    created = [row.created_us for row in rows if row.pod_uid == uid]
    return bool(created) and None not in created and parse_day(day) < min(created) - DAY_US


def _read_time(decision_id: str) -> int | None:
    """Return the time in the ID of a decision in microseconds, or None if it is not a UUIDv7."""
    try:
        uuid = UUID(decision_id)
    except ValueError:
        return None
    return (uuid.int >> 80) * 1000 if uuid.version == 7 else None


def _key(row: Any) -> tuple[int, int]:
    return row.ingested_us, row.id


def _find_file(files: Sequence[_DayFile], row: Any) -> _DayFile:
    day = format_day(row.ingested_us)
    return next(f for f in files if f.day == day and f.file.first_row <= row.id <= f.file.last_row)


def _by_detail(attempt: AttemptRecords) -> list[Any]:
    return [record for record in (attempt.record, attempt.logged) if record is not None]


def _ids(attempt: AttemptRecords) -> set[str]:
    return {record.decision_id for record in (*_by_detail(attempt), *attempt.duplicates)}


def build_archived_row(record: Any, row_id: int, ingested_us: int) -> Any:
    """Return an archived record in the form of a row of the database's table `decisions`, for lists and metadata.

    `record` has the attributes decision, outcomes and table. The row's state is that after the outcomes.
    """
    d = record.decision
    columns = build_decision_row(0, d, None if d.chosen is None else record.table.names[d.chosen], ingested_us)
    derived = {"state": derive_state(d, record.outcomes), "repeats": count_repeats(record.outcomes)}
    return SimpleNamespace(**(columns | derived | {"id": row_id}))


def _as_row(record: DecisionRecord, row: Any) -> Any:
    return build_archived_row(record, row.id, row.ingested_us)
