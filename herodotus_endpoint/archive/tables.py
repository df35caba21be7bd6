"""The columns of the archive's files, and their encoding as Parquet.

Owns: the columns that only the archive has, row groups, statistics. Does not own: the columns that an export has too
(`exchange.parquet`), names of files (`manifests`).

`record` holds the summary of a record, from which the service answers as from its database. The other columns are for
conditions and for other programs.

Invariant: the rows of a file are sorted by namespace and pod, so that the statistics of its row groups lead to a pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq

from herodotus_endpoint.exchange.parquet import COMPRESSION, DECISIONS, SCORES, TIME, build_row, time_from_us
from herodotus_endpoint.exchange.parquet import build_score_batches as build_score_batches
from herodotus_endpoint.store.closed_days import DayRecord
from herodotus_endpoint.store.summaries import DecisionRecord, encode_summary

GROUP_ROWS: Final = 8192  # rows of a row group, which is what a question about a pod reads: half a megabyte
LEVEL: Final = 6  # of zstd: a tenth smaller than 3, and writing costs less than loading the record
ARCHIVED: Final = pa.schema(
    [
        *DECISIONS,
        ("ingested", TIME),  # when the service stored it
        ("row", pa.int64()),  # order of ingest within a database
        ("record", pa.binary()),
    ]
)
_SORTED_BY: Final = [("namespace", "ascending"), ("pod", "ascending"), ("row", "ascending")]
_WITH_STATISTICS: Final = ["namespace", "pod", "started", "row", "state"]
_PLAIN: Final = ("record", "decision", "row", "started", "created", "queued", "ended", "sequence")  # all different


class TableBuffer:
    """Rows of one file in memory, as record batches. It takes about 1.5 kB for each decision."""

    BATCH: Final = 1024  # rows that are Python objects until they become a record batch

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._batches: list[Any] = []
        self._scores: list[Any] = []
        self.decisions = 0

    def add(self, day_record: DayRecord, record: DecisionRecord, *, scores: bool) -> None:
        """Add the summary `record` of a decision of the day as a row, and with `scores` the rows of its scores."""
        extra = {
            "ingested": time_from_us(day_record.ingested_us),
            "row": day_record.row,
            "record": encode_summary(record),
        }
        self._rows.append(build_row(record) | extra)
        self.decisions += 1
        if scores:
            self._scores += build_score_batches(record.decision, record.table)
        if len(self._rows) >= self.BATCH:
            self._flush()

    def table(self) -> pa.Table:
        """Return all rows as a table, in the order in which they were added."""
        self._flush()
        return pa.Table.from_batches(self._batches, ARCHIVED)

    def encode_decisions(self) -> pa.Buffer:
        """Return all decisions as a Parquet file."""
        return encode_decisions(self.table())

    def encode_scores(self) -> pa.Buffer | None:
        """Return the rows of scores as a Parquet file, or None if there are none."""
        if not self._scores:
            return None
        return _encode(pa.Table.from_batches(self._scores, SCORES), 1 << 18, ["node", "plugin"], SCORES.names)

    def _flush(self) -> None:
        if self._rows:
            self._batches.append(pa.RecordBatch.from_pylist(self._rows, ARCHIVED))
            self._rows = []


def encode_decisions(table: Any) -> pa.Buffer:
    """Return a table with the columns `ARCHIVED` as a Parquet file, with its rows sorted."""
    columns = [name for name in ARCHIVED.names if name not in _PLAIN]
    return _encode(table.sort_by(_SORTED_BY), GROUP_ROWS, _WITH_STATISTICS, columns)


def _encode(table: Any, group_rows: int, statistics: Sequence[str], dictionaries: Sequence[str]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=group_rows,
        compression=COMPRESSION,
        compression_level=LEVEL,
        write_statistics=list(statistics),
        use_dictionary=list(dictionaries),
        write_page_checksum=True,
    )
    return sink.getvalue()
