"""Manifests: which files hold the decisions of a cluster's day. A day is archived when its manifest is complete.

Owns: the layout of the archive, the format of a manifest. Does not own: the columns of the files (`tables`).

    decisions/cluster=UID/day=2026-03-01/part-00000.parquet
    scores/cluster=UID/day=2026-03-01/part-00000.parquet       with --scores
    manifests/cluster=UID/day=2026-03-01.json
    manifests/store=ID/day=2026-03-01.json                     all clusters of a database are archived

The day is the UTC day in which the service stored the decision, so that a day that is over does not grow.

Invariant: every file that a manifest names is complete. A manifest that is not complete is that of an interrupted run,
which the next run continues.
"""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from herodotus_endpoint.archive import ArchiveUnavailableError
from herodotus_endpoint.archive.location import ArchiveLocation
from herodotus_record.typed_decoding import json_decoder

VERSION: Final = 1
FOLDER: Final = "manifests"
_CLUSTER: Final = "cluster="
_DAY: Final = "day="


class ArchivedFile(msgspec.Struct, frozen=True, rename="camel"):
    """One file with decisions: its path, its size in bytes, and its first and last row in the order of ingest."""

    path: str
    decisions: int
    bytes: int
    first_row: int
    last_row: int


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """The files of a cluster's day.

    `store` is the identity of the database. `after` is the row ID of the last decision in `files`, after which an
    interrupted run continues.
    """

    cluster: str
    day: str
    store: str
    after: int
    decisions: int
    complete: bool
    files: tuple[ArchivedFile, ...]
    version: int = VERSION

    @property
    def bytes(self) -> int:
        """The total size of the files in bytes."""
        return sum(file.bytes for file in self.files)


def format_day(at_us: int) -> str:
    """Return the UTC day of a time in microseconds since the epoch, such as 2026-03-01."""
    return datetime.fromtimestamp(at_us // 1_000_000, timezone.utc).date().isoformat()


def parse_day(day: str) -> int:
    """Return the start of a UTC day such as 2026-03-01 in microseconds since the epoch."""
    start = datetime.combine(date.fromisoformat(day), datetime.min.time(), timezone.utc)
    return int(start.timestamp()) * 1_000_000


def partition_folder(table: str, cluster: str, day: str) -> str:
    """Return the folder of the files of a table (decisions or scores) for a cluster's day, a partition as in Hive."""
    return f"{table}/{_CLUSTER}{quote(cluster, safe='')}/{_DAY}{day}"


def read_manifest(location: ArchiveLocation, cluster: str, day: str) -> Manifest | None:
    """Return the manifest of a cluster's day, or None if there is none. Raises ArchiveUnavailableError."""
    path = _manifest_path(cluster, day)
    content = location.read(path)
    if content is None:
        return None
    try:
        manifest = _decoder.decode(content)
    except msgspec.MsgspecError as e:
        raise ArchiveUnavailableError(f"{path} of the archive is damaged: {e}") from e
    if manifest.version > VERSION:
        raise ArchiveUnavailableError(f"{path} of the archive has version {manifest.version}, expected {VERSION}")
    return manifest


def write_manifest(location: ArchiveLocation, manifest: Manifest) -> None:
    """Create or replace the manifest of its cluster and day. Raises ArchiveUnavailableError."""
    path = _manifest_path(manifest.cluster, manifest.day)
    location.write(path, msgspec.json.format(msgspec.json.encode(manifest), indent=1))


def delete_manifest(location: ArchiveLocation, cluster: str, day: str) -> None:
    """Delete the manifest of a cluster's day, so that its files are not read. Raises ArchiveUnavailableError."""
    location.delete(_manifest_path(cluster, day))


def list_clusters(location: ArchiveLocation) -> list[str]:
    """Return the IDs of the clusters that have manifests. Raises ArchiveUnavailableError."""
    folders = location.list_folders(FOLDER)
    return [unquote(name.removeprefix(_CLUSTER)) for name in folders if name.startswith(_CLUSTER)]


def list_days(location: ArchiveLocation, cluster: str) -> list[str]:
    """Return the days of a cluster that have manifests, oldest first. Raises ArchiveUnavailableError."""
    return _read_names(location, _manifest_folder(cluster))


def mark_finished(location: ArchiveLocation, store: str, day: str) -> None:
    """Record in the archive that a day of the database `store` is archived for all of its clusters.

    Raises ArchiveUnavailableError.
    """
    location.write(_finished_path(store, day), b"{}")


def list_finished_days(location: ArchiveLocation, store: str) -> list[str]:
    """Return the days of a database whose clusters are all archived, oldest first. Raises ArchiveUnavailableError."""
    return _read_names(location, _finished_folder(store))


def delete_mark(location: ArchiveLocation, store: str, day: str) -> None:
    """Delete the mark that `mark_finished` wrote, if there is one. Raises ArchiveUnavailableError."""
    location.delete(_finished_path(store, day))


def _read_names(location: ArchiveLocation, folder: str) -> list[str]:
    names = (path.rpartition("/")[2] for path in location.list_files(folder))
    return [
        name.removeprefix(_DAY).removesuffix(".json")
        for name in names
        if name.startswith(_DAY) and name.endswith(".json")
    ]


def _finished_folder(store: str) -> str:
    return f"{FOLDER}/store={quote(store, safe='')}"


def _finished_path(store: str, day: str) -> str:
    return f"{_finished_folder(store)}/{_DAY}{day}.json"


def _manifest_folder(cluster: str) -> str:
    return f"{FOLDER}/{_CLUSTER}{quote(cluster, safe='')}"


def _manifest_path(cluster: str, day: str) -> str:
    return f"{_manifest_folder(cluster)}/{_DAY}{day}.json"


_decoder: Final = json_decoder(Manifest)
