"""The errors of the archive, and the check that its packages are installed. Imports none of these packages."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

MODULES: Final = ("duckdb", "pyarrow")


class ArchiveError(Exception):
    """An archive that cannot be used as the operator asks. The message is one line."""


class ArchiveUnavailableError(ArchiveError):
    """An archive that cannot be read or written at the moment."""


class ArchiveTimeoutError(ArchiveUnavailableError):
    """A question about the archive that takes longer than the limit."""


class ArchiveBusyError(ArchiveError):
    """More questions about the archive at the same time than the limit."""


def check_installed(flag: str) -> None:
    """Raise ArchiveError if the packages of the extra `archive` are not installed. `flag` is what needs them."""
    if any(find_spec(module) is None for module in MODULES):
        raise ArchiveError(f"{flag} needs the packages of the extra archive: pip install 'herodotus-servers[archive]'")
