"""Export to Parquet: flat tables for analysis, without node tables and filter verdicts. They cannot be imported.

Owns: the columns of the tables, row groups. Does not own: which decisions are exported, the directory (`command`). The
module is imported on use, because pyarrow is an extra of the servers' distribution.

`decisions.parquet` has a row per decision. `scores.parquet` has a row per feasible node and score plugin of a decision;
its column `decision` refers to the other table.

Invariant: at most one row group is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet as pq

from herodotus_answers.explain import derive_state
from herodotus_endpoint.exchange.atomic_files import open_new_file
from herodotus_endpoint.store.export import ExportedDecision
from herodotus_endpoint.store.summaries import DecisionRecord
from herodotus_record.codec import as_numpy
from herodotus_record.model import Column, Decision, NodeTable

GROUP_ROWS: Final = 1 << 18  # rows in a row group: 30 MB in memory; a decision on 5,000 nodes has 40,000
COMPRESSION: Final = "zstd"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
TIME: Final = pa.timestamp("us", tz="UTC")
DECISIONS: Final = pa.schema(
    [
        ("decision", pa.string()),
        ("cluster", pa.string()),
        ("source", pa.string()),
        ("incarnation", pa.string()),
        ("sequence", pa.int64()),
        ("scheduler", pa.string()),  # the pod's spec.schedulerName
        ("namespace", pa.string()),
        ("pod", pa.string()),
        ("pod_uid", pa.string()),
        ("owner_kind", pa.string()),
        ("owner", pa.string()),
        ("attempt", pa.int64()),
        ("created", TIME),  # null if unknown, like the next column
        ("queued", TIME),
        ("started", TIME),
        ("ended", TIME),  # time of the last outcome; null without outcome
        ("state", pa.string()),
        ("path", pa.string()),
        ("node", pa.string()),
        ("nodes_total", pa.int64()),
        ("nodes_evaluated", pa.int64()),
        ("nodes_feasible", pa.int64()),
        ("message", pa.string()),
        ("summarised", pa.bool_()),  # scores are then those of the kept nodes
        ("labels", pa.map_(pa.string(), pa.string())),  # the pod's
        ("pod_group", pa.string()),
        ("agreement", pa.string()),  # whether another scheduler's outcome agrees with the reconstruction
        ("cause", pa.string()),  # why they disagree
    ]
)
SCORES: Final = pa.schema(
    [
        ("decision", pa.string()),
        ("node", pa.string()),
        ("plugin", pa.string()),
        ("weight", pa.int64()),
        ("raw", pa.int64()),  # null if unknown
        ("normalized", pa.int64()),
        ("weighted", pa.int64()),
        ("total", pa.int64()),
        ("rank", pa.int64()),
        ("chosen", pa.bool_()),
    ]
)


def write(decisions_to_write: Iterator[ExportedDecision], directory: Path) -> None:
    """Write the decisions to the new files `decisions.parquet` and `scores.parquet` in a directory."""
    with (
        open_new_file(directory / "decisions.parquet") as of_decisions,
        open_new_file(directory / "scores.parquet") as of_scores,
        pq.ParquetWriter(of_decisions, DECISIONS, compression=COMPRESSION) as decisions,
        pq.ParquetWriter(of_scores, SCORES, compression=COMPRESSION) as scores,
    ):
        rows, groups, score_rows = list[dict[str, Any]](), list[Any](), 0
        for exported in decisions_to_write:
            d, table = exported.record.decision, exported.record.table
            rows.append(build_row(exported.record))
            for group in build_score_batches(d, table):
                groups.append(group)
                score_rows += group.num_rows
            if score_rows >= GROUP_ROWS or len(rows) >= GROUP_ROWS:
                _put(decisions, scores, rows, groups)
                rows, groups, score_rows = [], [], 0
        _put(decisions, scores, rows, groups)


def _put(decisions: Any, scores: Any, rows: list[dict[str, Any]], groups: list[Any]) -> None:
    if rows:
        decisions.write_table(pa.Table.from_pylist(rows, DECISIONS))
    if groups:
        scores.write_table(pa.Table.from_batches(groups, SCORES))


def build_row(record: DecisionRecord) -> dict[str, Any]:
    """Return the row of `decisions.parquet` for a record, by column name."""
    d, outcomes = record.decision, record.outcomes
    return {
        "decision": d.id,
        "cluster": d.key.cluster,
        "source": d.key.source.value,
        "incarnation": d.key.incarnation,
        "sequence": d.sequence,
        "scheduler": d.scheduler.profile,
        "namespace": d.pod.namespace,
        "pod": d.pod.name,
        "pod_uid": d.key.pod_uid,
        "owner_kind": d.pod.owner.kind if d.pod.owner else None,
        "owner": d.pod.owner.name if d.pod.owner else None,
        "attempt": d.key.attempt,
        "created": None if "times.podCreatedAt" in d.unknown else time_from_us(d.times.created_us),
        "queued": None if "times.queuedAt" in d.unknown else time_from_us(d.times.queued_us),
        "started": time_from_us(d.times.started_us),
        "ended": time_from_us(max(o.at_us for o in outcomes)) if outcomes else None,
        "state": derive_state(d, outcomes),
        "path": d.path.value,
        "node": None if d.chosen is None else record.table.names[d.chosen],
        "nodes_total": d.nodes_total,
        "nodes_evaluated": d.nodes_evaluated,
        "nodes_feasible": d.nodes_feasible,
        "message": d.message,
        "summarised": d.summary is not None,
        "labels": sorted(d.pod.labels.items()),
        "pod_group": d.pod.pod_group or None,
        "agreement": d.reconstruction.agreement.value if d.reconstruction else None,
        "cause": d.reconstruction.cause.value if d.reconstruction and d.reconstruction.cause else None,
    }


def time_from_us(at_us: int) -> datetime:
    """Return a time in microseconds since the epoch as a value of a column of type `TIME`."""
    return _EPOCH + timedelta(microseconds=at_us)


def build_score_batches(d: Decision, table: NodeTable) -> Iterator[Any]:
    """Yield the rows of `scores.parquet` for one decision, as one Arrow record batch for each score plugin.

    A batch has a row per feasible node, ordered by node slot. Skipped plugins have no batch.
    """
    rank = as_numpy(d.rank).astype(np.int64)
    slots = np.flatnonzero(rank)
    if not len(slots) or not len(d.totals):
        return
    names = pa.array([table.names[slot] for slot in slots.tolist()], pa.string())
    for s in d.scores:
        if s.skipped or not len(s.normalized):
            continue
        normalized = _values_at(s.normalized, slots)
        columns = {
            "decision": pa.repeat(d.id, len(slots)),
            "node": names,
            "plugin": pa.repeat(s.plugin, len(slots)),
            "weight": np.full(len(slots), s.weight, np.int64),
            "raw": _values_at(s.raw, slots) if len(s.raw) else pa.nulls(len(slots), pa.int64()),
            "normalized": normalized,
            "weighted": normalized * s.weight,
            "total": _values_at(d.totals, slots),
            "rank": rank[slots],
            "chosen": slots == d.chosen,
        }
        yield pa.record_batch([pa.array(columns[name]) for name in SCORES.names], schema=SCORES)


def _values_at(column: Column, slots: NDArray[Any]) -> NDArray[Any]:
    values: NDArray[Any] = as_numpy(column)[slots].astype(np.int64)
    return values
