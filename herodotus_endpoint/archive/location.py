"""The place of an archive: a directory, or a prefix of a bucket with the S3 API.

Owns: reading, writing, listing and deleting whole objects. Does not own: URLs (`urls`), the names and contents of
objects.

Credentials come from the environment, as for every AWS SDK: variables, a profile, or the token of a service account.

Invariant: an object is written completely or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from herodotus_endpoint.archive import ArchiveError, ArchiveUnavailableError
from herodotus_endpoint.archive.urls import ArchiveUrl

CONNECT_TIMEOUT_S: Final = 5.0
REQUEST_TIMEOUT_S: Final = 10.0  # without a byte
MAX_ATTEMPTS: Final = 3


class ArchiveLocation:
    """The file system and the root path of an archive. Paths of its objects are relative to the root."""

    def __init__(self, url: str) -> None:
        """Create the location that `url` names; nothing is read yet. Raises ArchiveError for other URLs."""
        parsed = ArchiveUrl.parse(url)
        self.url, self.root, self._directory = parsed.name, parsed.root, parsed.directory
        self.filesystem: Any = fs.LocalFileSystem() if parsed.directory else _open_s3(parsed.region, parsed.endpoint)

    def full_path(self, path: str) -> str:
        """Return the path in the file system of an object, whose `path` is relative to the archive's root."""
        return f"{self.root}/{path}"

    def read(self, path: str) -> bytes | None:
        """Return the content of an object, or None if it does not exist. Raises ArchiveUnavailableError."""
        try:
            with (
                translate_errors(f"cannot read {path}"),
                self.filesystem.open_input_stream(self.full_path(path)) as file,
            ):
                content: bytes = file.read()
                return content
        except FileNotFoundError:
            return None

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        """Create or replace an object. Raises ArchiveUnavailableError."""
        with translate_errors(f"cannot write {path}"):
            if self._directory is not None:
                _write_file(self._directory / path, content)
                return
            with self.filesystem.open_output_stream(self.full_path(path)) as file:
                file.write(content)

    def list_files(self, folder: str, *, recursive: bool = False) -> list[str]:
        """Return the paths of all objects in a folder, sorted; with `recursive` also of those in its subfolders.

        Without the folder the list is empty. Raises ArchiveUnavailableError.
        """
        wanted = fs.FileSelector(self.full_path(folder), allow_not_found=True, recursive=recursive)
        with translate_errors(f"cannot list {folder}"):
            infos = self.filesystem.get_file_info(wanted)
        return sorted(i.path.removeprefix(f"{self.root}/") for i in infos if i.type == fs.FileType.File)

    def list_folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, sorted. Raises ArchiveUnavailableError."""
        with translate_errors(f"cannot list {folder}"):
            infos = self.filesystem.get_file_info(fs.FileSelector(self.full_path(folder), allow_not_found=True))
        return sorted(i.base_name for i in infos if i.type == fs.FileType.Directory)

    def delete(self, path: str) -> None:
        """Delete an object; one that does not exist is no error. Raises ArchiveUnavailableError."""
        try:
            with translate_errors(f"cannot delete {path}"):
                self.filesystem.delete_file(self.full_path(path))
        except FileNotFoundError:
            return

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with its objects; one that does not exist is no error. Raises ArchiveUnavailableError."""
        try:
            with translate_errors(f"cannot delete {folder}"):
                self.filesystem.delete_dir(self.full_path(folder))
        except FileNotFoundError:
            return


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Context manager that replaces errors of the file system by ArchiveUnavailableError, except FileNotFoundError.

    `what` begins the error's message, such as "cannot read PATH".
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as e:
        raise ArchiveUnavailableError(f"{what} of the archive: {str(e).splitlines()[0]}") from e


def _open_s3(region: str | None, endpoint: str) -> Any:
    scheme, _, host = endpoint.rpartition("://")
    options = {"endpoint_override": host, "scheme": scheme or "https"} if endpoint else {}
    try:
        return fs.S3FileSystem(
            region=region,  # None: as the AWS SDK finds it
            connect_timeout=CONNECT_TIMEOUT_S,
            request_timeout=REQUEST_TIMEOUT_S,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=MAX_ATTEMPTS),
            **options,
        )
    except (OSError, pa.ArrowException) as e:
        raise ArchiveError(f"cannot use S3: {str(e).splitlines()[0]}") from e


def _write_file(path: Path, content: bytes | pa.Buffer) -> None:
    """Create or replace a file of mode 0600, and the directories above it of mode 0700."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    with open(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
