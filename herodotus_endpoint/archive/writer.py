"""Writing the days that are over to the archive, and deleting the days that its retention no longer keeps.

Owns: which days are written, interrupted runs, the archive's retention. Does not own: the files (`tables`), manifests.

A run may be repeated at any time: it skips days with a complete manifest and continues one that was interrupted after
its last complete file. Files have fixed names, so that a repeated file replaces the earlier one.

Invariant: a day's manifest is complete only after all of its files are. Retention first writes a manifest without
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from herodotus_endpoint.archive import manifests
from herodotus_endpoint.archive.location import ArchiveLocation
from herodotus_endpoint.archive.manifests import ArchivedFile, Manifest, format_day, parse_day, partition_folder
from herodotus_endpoint.archive.tables import TableBuffer
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.closed_days import (
    DAY_US,
    DayRecord,
    find_first_ingest,
    list_clusters_of_day,
    read_day,
)
from herodotus_endpoint.store.summaries import summarise_record

FILE_DECISIONS: Final = 65_536  # decisions in a file: 20 MB, and 100 MB of memory while it is written
TABLES: Final = ("decisions", "scores")


@dataclass(frozen=True)
class ArchiveOptions:
    """What to archive: all days that ended at least `delay_s` ago, of all clusters or of one.

    With `scores`, the scores of the kept nodes are a table of their own. `keep_days` is the archive's retention; None
    keeps everything.
    """

    delay_s: float = 86_400.0
    cluster: str = ""
    scores: bool = False
    keep_days: int | None = None


class DayWriter:
    """Writes the records of one cluster's day. The manifest says after each file what is complete."""

    def __init__(self, location: ArchiveLocation, manifest: Manifest, *, scores: bool) -> None:
        """Create a writer that continues after the files that `manifest` lists, if it lists any.

        `scores` says whether files with the scores of nodes are written, too.
        """
        self._location = location
        self._scores = scores
        self.manifest = manifest

    def write(self, records: Iterator[DayRecord]) -> None:
        """Write the records, all of which follow row `manifest.after`, to files, and mark the manifest as complete."""
        buffer, after = TableBuffer(), self.manifest.after
        first = None
        # the end of the day, whenever it is archived: a repeated run writes the same bytes
        summarised_us = parse_day(self.manifest.day) + DAY_US
        for record in records:
            buffer.add(record, summarise_record(record.record, summarised_us), scores=self._scores)
            first, after = first or record.row, record.row
            if buffer.decisions >= FILE_DECISIONS:
                self._put(buffer, first, after)
                buffer, first = TableBuffer(), None
        if first is not None:
            self._put(buffer, first, after)
        self.manifest = msgspec.structs.replace(self.manifest, complete=True)
        manifests.write_manifest(self._location, self.manifest)

    def _put(self, buffer: TableBuffer, first: int, last: int) -> None:
        m = self.manifest
        name = f"part-{len(m.files):05}.parquet"
        path = f"{partition_folder('decisions', m.cluster, m.day)}/{name}"
        content = buffer.encode_decisions()
        self._location.write(path, content)
        scores = buffer.encode_scores()
        if scores is not None:
            self._location.write(f"{partition_folder('scores', m.cluster, m.day)}/{name}", scores)
        file = ArchivedFile(path, buffer.decisions, len(content), first, last)
        self.manifest = msgspec.structs.replace(
            m, after=last, decisions=m.decisions + buffer.decisions, files=(*m.files, file)
        )
        manifests.write_manifest(self._location, self.manifest)


def archive_days(
    store: Store, location: ArchiveLocation, options: ArchiveOptions, stopped: Callable[[], bool] = lambda: False
) -> Iterator[Manifest]:
    """Write every day that is over and not in the archive yet, oldest first, and yield the manifest of each.

    The run calls `stopped` before each record and each day. If it returns True, the run ends, and a later one
    continues. Raises ArchiveUnavailableError and StoreUnavailableError.
    """
    first_us = find_first_ingest(store)
    if first_us is None:
        return
    run = _Run(store, location, options, stopped)
    finished = set(manifests.list_finished_days(location, store.reader.identity))
    last_us = store.clock.now_us() - int(options.delay_s * 1e6) - DAY_US
    for start_us in range(first_us // DAY_US * DAY_US, last_us + 1, DAY_US):
        day = format_day(start_us)
        expired = options.keep_days is not None and start_us < _oldest_kept_us(store, options.keep_days)
        if expired or day in finished:  # finding the clusters of a day reads all of its rows
            continue
        for cluster in list_clusters_of_day(store, start_us):
            if stopped():
                return
            if options.cluster in ("", cluster):
                written = run.archive_day(cluster, day)
                if written is not None:
                    yield written
        if not options.cluster and not stopped():
            manifests.mark_finished(location, store.reader.identity, day)


def delete_expired_days(
    store: Store, location: ArchiveLocation, keep_days: int, only_cluster: str = ""
) -> Iterator[tuple[str, str]]:
    """Delete the days that ended more than `keep_days` ago, and yield the cluster and the day of each.

    They are those of every cluster in the archive, or of `only_cluster` if it is given. Raises ArchiveUnavailableError.
    """
    oldest = format_day(_oldest_kept_us(store, keep_days))
    for cluster in [only_cluster] if only_cluster else manifests.list_clusters(location):
        for day in manifests.list_days(location, cluster):
            if day < oldest:
                # after an interruption the next run finds the day by this manifest, which names no file
                manifests.write_manifest(location, Manifest(cluster, day, "", 0, 0, False, ()))
                _delete_files(location, cluster, day)
                manifests.delete_manifest(location, cluster, day)
                yield cluster, day
    for day in [] if only_cluster else manifests.list_finished_days(location, store.reader.identity):
        if day < oldest:
            manifests.delete_mark(location, store.reader.identity, day)


def _delete_files(location: ArchiveLocation, cluster: str, day: str) -> None:
    for table in TABLES:
        location.delete_folder(partition_folder(table, cluster, day))


def _oldest_kept_us(store: Store, keep_days: int) -> int:
    return (store.clock.now_us() // DAY_US - keep_days) * DAY_US


@dataclass(frozen=True)
class _Run:
    """One run over the days of a database."""

    store: Store
    location: ArchiveLocation
    options: ArchiveOptions
    stopped: Callable[[], bool]

    def archive_day(self, cluster: str, day: str) -> Manifest | None:
        """Write a cluster's day and return its manifest, or None if it was complete already or the run was stopped."""
        identity = self.store.reader.identity
        manifest = manifests.read_manifest(self.location, cluster, day)
        if manifest is not None and manifest.complete:
            return None
        if manifest is None or manifest.store != identity:  # rows of another database have other ids
            _delete_files(self.location, cluster, day)  # other programs read files without a manifest, too
            manifest = Manifest(cluster, day, identity, 0, 0, False, ())
        writer = DayWriter(self.location, manifest, scores=self.options.scores)
        try:
            writer.write(_until_stopped(read_day(self.store, cluster, parse_day(day), manifest.after), self.stopped))
        except _StoppedError:
            return None
        return writer.manifest


class _StoppedError(Exception):
    """The run was stopped within a day."""


def _until_stopped(records: Iterator[DayRecord], stopped: Callable[[], bool]) -> Iterator[DayRecord]:
    for record in records:
        if stopped():
            raise _StoppedError
        yield record
