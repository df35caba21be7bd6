"""The errors of the archive. Imports none of the packages that the archive needs."""

from __future__ import annotations


class ArchiveError(Exception):
    """An archive that cannot be used as the operator asks. The message is one line."""


class ArchiveUnavailableError(ArchiveError):
    """An archive that cannot be read or written at the moment."""


class ArchiveTimeoutError(ArchiveUnavailableError):
    """A question about the archive that takes longer than the limit."""


class ArchiveBusyError(ArchiveError):
    """More questions about the archive at the same time than the limit."""
