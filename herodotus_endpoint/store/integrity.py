"""Checksums of rows, and the handling of damaged rows.

Owns: which columns a checksum covers, computing and comparing checksums, reporting damage. Does not own: checksums of
blobs, which zstd adds (`delta_chains`, `rollups`), checking a complete database (`database_check`).

A checksum covers the columns that never change, so that updates need not compute it again. The state of a decision and
the number of its repeats change with its outcomes, with which `database_check` compares them.

Invariant: no answer contains a row that does not match its checksum. Reading it raises DamagedError, or the row is left
out of a list that reports the damage.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter, itemgetter
from typing import Any, Final
from zlib import crc32

import sqlalchemy as sa

from herodotus_endpoint.store.database import StoreUnavailableError
from herodotus_endpoint.store.read_budget import QuestionEndedError
from herodotus_endpoint.store.schema import DECISIONS, GAPS, NODE_ROWS, NODES, OUTCOMES, UNSUCCESSFUL

STATES: Final = frozenset({*UNSUCCESSFUL, "Binding", "Bound", "DryRun"})  # all results of `explain.derive_state`
_SEPARATOR: Final = "\x1f"
_NUL: Final = "\N{REPLACEMENT CHARACTER}"  # PostgreSQL cannot store NUL in text
_NOT_COVERED: Final = {  # by table: columns that are updated, assigned by the database, or not read by lists (victims)
    DECISIONS.name: {"id", "state", "repeats", "base", "frame", "tier", "frame_bytes", "victims"},
    OUTCOMES.name: {"tier"},
    NODES.name: {"id", "considered"},
}
_log: Final = logging.getLogger(__name__)


class DamagedError(Exception):
    """A stored row or blob is damaged. The message says which."""


class ChecksummedTable:
    """Computes and verifies the checksums of a table's rows.

    `columns` names the covered columns. `blob` names one more covered column, which contains bytes; an empty string
    stands for none.
    """

    def __init__(self, table: sa.Table, blob: str = "") -> None:
        self.name = table.name
        self.columns = tuple(
            c.name for c in table.c if c.name not in _NOT_COVERED.get(table.name, set()) | {blob, "checksum"}
        )
        self._blob = blob
        self._values_of_mapping = itemgetter(*self.columns)
        self._values_of_row = attrgetter(*self.columns)

    def checksum(self, row: Mapping[str, Any]) -> int:
        """Return the CRC-32 of the covered columns of a row that is about to be stored."""
        return _checksum(self._values_of_mapping(row), row[self._blob] if self._blob else b"")

    def is_intact(self, row: Any) -> bool:
        """Return whether a stored row matches its checksum. The row must have the covered columns."""
        blob = getattr(row, self._blob) if self._blob else b""
        return isinstance(blob, bytes) and _checksum(self._values_of_row(row), blob) == row.checksum


DECISION: Final = ChecksummedTable(DECISIONS)
OUTCOME: Final = ChecksummedTable(OUTCOMES, "frame")
GAP: Final = ChecksummedTable(GAPS)
NODE_ROW: Final = ChecksummedTable(NODE_ROWS, "amounts")
NODE: Final = ChecksummedTable(NODES)

_reported: ContextVar[list[str] | None] = ContextVar("damage", default=None)


def collect_damage() -> list[str]:
    """Start to collect damage for the current HTTP request and return the list to which `report_damage` will add it.

    The list belongs to the current context (`contextvars`).
    """
    damages: list[str] = []
    _reported.set(damages)
    return damages


def report_damage(damage: str) -> None:
    """Log a damage and add it to the list of the current request, if `collect_damage` has started one.

    The caller leaves the damaged record out of its result.
    """
    _log.error("%s; left out; `python -m herodotus_endpoint check` lists all damage", damage)
    damages = _reported.get()
    if damages is not None:
        damages.append(damage)


def intact_decisions(rows: Iterable[Any]) -> list[Any]:
    """Return those rows of `decisions` that are intact, and report each other row as damaged."""
    intact = []
    for row in rows:
        if DECISION.is_intact(row) and row.state in STATES:
            intact.append(row)
        else:
            report_damage(f"the stored decision in row {row.id} is damaged")
    return intact


def require_intact(covered: ChecksummedTable, rows: Sequence[Any]) -> None:
    """Raise DamagedError if one of the rows does not match its checksum."""
    for row in rows:
        if not covered.is_intact(row):
            raise DamagedError(f"a row of table {covered.name} is damaged")


@contextmanager
def reading_decision(row: Any) -> Iterator[None]:
    """Raise DamagedError if a row of `decisions` is damaged, or if the block raises while it decodes the row.

    Errors of the database connection pass unchanged.
    """
    try:
        if not DECISION.is_intact(row) or row.state not in STATES:
            raise DamagedError("its row does not match its checksum")
        yield
    except (sa.exc.DBAPIError, sa.exc.TimeoutError, StoreUnavailableError, QuestionEndedError):
        raise
    except Exception as e:  # decoding damaged bytes can raise any exception
        raise DamagedError(f"the stored decision in row {row.id} is damaged: {e or type(e).__name__}") from e


def _checksum(values: Sequence[Any], blob: bytes) -> int:
    text = _SEPARATOR.join(map(str, values)).replace("\0", _NUL)
    return crc32(blob, crc32(text.encode(errors="replace")))
