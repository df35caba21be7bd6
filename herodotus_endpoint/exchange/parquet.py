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

from herodotus_endpoint.exchange.atomic_files import open_new_file
from herodotus_endpoint.store.export import ExportedDecision
from herodotus_record.codec import as_numpy
from herodotus_record.explain import derive_state
from herodotus_record.model import Column, Decision, NodeTable

GROUP_ROWS: Final = 1 << 18  # rows in a row group: 30 MB in memory; a decision on 5,000 nodes has 40,000
COMPRESSION: Final = "zstd"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIME: Final = pa.timestamp("us", tz="UTC")
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
        ("created", _TIME),  # null if unknown, like the next column
        ("queued", _TIME),
        ("started", _TIME),
        ("ended", _TIME),  # time of the last outcome; null without outcome
        ("state", pa.string()),
        ("path", pa.string()),
        ("node", pa.string()),
        ("nodes_total", pa.int64()),
        ("nodes_evaluated", pa.int64()),
        ("nodes_feasible", pa.int64()),
        ("message", pa.string()),
        ("summarised", pa.bool_()),  # scores are then those of the kept nodes
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
            rows.append(_decision(exported))
            for group in _scores(d, table):
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


def _decision(exported: ExportedDecision) -> dict[str, Any]:
    d, outcomes = exported.record.decision, exported.record.outcomes
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
        "created": None if "times.podCreatedAt" in d.unknown else _time(d.times.created_us),
        "queued": None if "times.queuedAt" in d.unknown else _time(d.times.queued_us),
        "started": _time(d.times.started_us),
        "ended": _time(max(o.at_us for o in outcomes)) if outcomes else None,
        "state": derive_state(d, outcomes),
        "path": d.path.value,
        "node": None if d.chosen is None else exported.record.table.names[d.chosen],
        "nodes_total": d.nodes_total,
        "nodes_evaluated": d.nodes_evaluated,
        "nodes_feasible": d.nodes_feasible,
        "message": d.message,
        "summarised": d.summary is not None,
    }


def _time(at_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at_us)


def _scores(d: Decision, table: NodeTable) -> Iterator[Any]:
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
