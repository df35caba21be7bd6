"""The archive: decisions of days that are over, as Parquet files on object storage or in a directory.

Owns: the layout of the archive, writing days, reading them back. Does not own: the columns (`exchange.parquet`), SQL on
the database (`store`), HTTP. Its modules are imported on use, because pyarrow and DuckDB are an extra of the servers'
distribution; this module and `urls` need neither.
"""


class ArchiveError(Exception):
    """An archive that cannot be used as the operator asks. The message is one line."""


class ArchiveUnavailableError(ArchiveError):
    """An archive that cannot be read or written at the moment."""


class ArchiveTimeoutError(ArchiveUnavailableError):
    """A question about the archive that takes longer than the limit."""


class ArchiveBusyError(ArchiveError):
    """More questions about the archive at the same time than the limit."""
