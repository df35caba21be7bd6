"""The store: decisions at rest in a SQL database. The only room that knows SQL.

Owns: opening and closing, and what the rest of the endpoint may see of it. Does not own: HTTP, documents.

Invariant: nothing is acknowledged before it is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from herodotus_endpoint.store.engine import (
    StoreError,
    StoreUnavailableError,
    file_bytes,
    prepare,
    reading_engine,
    sqlite_url,
    writing_engine,
)
from herodotus_endpoint.store.facts import Involved, KnownIncarnation, NodeFacts, Sizes, Stored
from herodotus_endpoint.store.listing import Listing
from herodotus_endpoint.store.noderows import NodeRowsMissingError
from herodotus_endpoint.store.reader import Reader
from herodotus_endpoint.store.retention import Limits, Pruner, Pruning
from herodotus_endpoint.store.writer import BatchError, Receipt, Writer

__all__ = [
    "BatchError",
    "Involved",
    "KnownIncarnation",
    "Limits",
    "NodeFacts",
    "NodeRowsMissingError",
    "Pruner",
    "Pruning",
    "Receipt",
    "Sizes",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "Stored",
    "prepare",
    "sqlite_url",
]


class Store:
    """An open database. Opened after a fork, never before: connections do not survive one."""

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        """StoreError when the database cannot be used."""
        self.file: Path = prepare(url)
        self._engines = writing_engine(url), reading_engine(url)
        self.writer = Writer(self._engines[0], clock)
        self.reader = Reader(self._engines[1])
        self.listing = Listing(self._engines[1])

    def file_bytes(self) -> int:
        """Bytes of the database's files on disk."""
        return file_bytes(self.file)

    def close(self) -> None:
        """Close every connection."""
        for engine in self._engines:
            engine.dispose()
