"""Imports openb, the trace of GPU clusters that Alibaba published in 2023, from its two CSV files.

A file may be gzipped. The columns gpu_milli and gpu_spec, a share of one device and the models that are allowed, become
a request for whole devices and no selector: `OPENB_MISSING` states that for the trace's header.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scheduler.offline.traces.document import NodeAdded, PodArrived, TraceError

GPU: Final = "nvidia.com/gpu"
MODEL_LABEL: Final = "gpu-model"
OPENB_MISSING: Final = (
    "Shares of a GPU (gpu_milli) count as a whole GPU.",
    "The allowed GPU models of a pod (gpu_spec) are left out.",
    "The nodes on which pods ran are unknown.",
    "The owners of pods are unknown.",
)
_MIB: Final = 2**20
_MAX_PODS: Final = 110  # the kubelet's default, because the files have no such column


def import_openb(nodes: Path, pods: Path) -> Iterator[NodeAdded | PodArrived]:
    """Yield the events of an openb node list and pod list. Raise TraceError for an unreadable file or invalid row."""
    for where, row in _rows(nodes):
        with_model = {MODEL_LABEL: row["model"]} if row.get("model") else {}
        amounts = _amounts(where, row, "gpu") | {"pods": _MAX_PODS}
        yield NodeAdded(0.0, _text(where, row, "sn"), amounts, with_model)
    for where, row in _rows(pods):
        bound, ended = row.get("scheduled_time"), row.get("deletion_time")
        requests = _amounts(where, row, "num_gpu")
        yield PodArrived(
            float(_number(where, row, "creation_time")),
            _text(where, row, "name"),
            {name: amount for name, amount in requests.items() if amount},
            bound_at_s=float(_number(where, row, "scheduled_time")) if bound else None,
            ended_at_s=float(_number(where, row, "deletion_time")) if ended else None,
        )


def _amounts(where: str, row: dict[str, str], gpus: str) -> dict[str, int]:
    cpu, memory = _number(where, row, "cpu_milli"), _number(where, row, "memory_mib") * _MIB
    return {"cpu": cpu, "memory": memory, GPU: _number(where, row, gpus)}


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each row with its place in the file."""
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                yield f"{path}: line {number}", row
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as e:
        raise TraceError(f"{path}: {e}") from e


def _text(where: str, row: dict[str, str], column: str) -> str:
    if not row.get(column):
        raise TraceError(f"{where}: {column}: required")
    return row[column]


def _number(where: str, row: dict[str, str], column: str) -> int:
    """Return a whole number that is not negative; the files write some of them with a fraction of zero."""
    text = _text(where, row, column)
    try:
        number = float(text)
        if number < 0 or number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise TraceError(f"{where}: {column}: expected a whole number, found {text!r}") from None
    return int(number)
