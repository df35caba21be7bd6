"""Reads the rows of tables that a trace is imported from: CSV files and JSON lines, which may be gzipped.

Owns: the two formats, and values that several tables have. Does not own: which columns a table has (`importing`,
`borg`).

Invariant: the place of each row, file and line, is in the message of each error about it.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from scheduler.engine.objects.requests import PODS
from scheduler.engine.objects.types import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeMetadata,
    NodeSelector,
    NodeSelectorTerm,
    NodeStatus,
    Pod,
    PodMetadata,
    PodSpec,
    PodStatus,
    Requirement,
    ResourceRequirements,
)
from scheduler.engine.whatif.nodes import HOSTNAME
from scheduler.offline.traces import TraceError

Row = dict[str, str]
Requests = dict[str, str | int | float]

JSON_LINES: Final = frozenset({".json", ".jsonl", ".ndjson"})
MAX_PODS: Final = 110  # the kubelet's default, because no table has such a column
# A whole machine, where a table has shares of machines: a millionth is the smallest share that differs from 0.
WHOLE_CPU_MILLI: Final = 10**6
WHOLE_BYTES: Final = 10**12
UNLIMITED_PODS: Final = 10**6
_SMALLEST_SHARES: Final = 10**6


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield each row of a file with its place.

    A nested value of JSON lines gets a name with a dot, such as `capacity.cpus`, and null is "".
    """
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            yield from _read_json_lines(path, file) if kind in JSON_LINES else _read_csv(path, file)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as e:
        raise TraceError(f"{path}: {e}") from e


def _read_csv(path: Path, file: TextIO) -> Iterator[tuple[str, Row]]:
    for number, row in enumerate(csv.DictReader(file), 2):
        yield f"{path}: line {number}", row


def _read_json_lines(path: Path, file: TextIO) -> Iterator[tuple[str, Row]]:
    for number, line in enumerate(file, 1):
        where = f"{path}: line {number}"
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as e:
            raise TraceError(f"{where}: {e}") from e
        if not isinstance(document, dict):
            raise TraceError(f"{where}: expected an object")
        yield where, dict(_flatten(document))


def _flatten(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", "" if value is None else str(value)


def require_text(where: str, row: Row, column: str) -> str:
    """Return the value of a column. Raise TraceError if it is missing or empty."""
    if not row.get(column):
        raise TraceError(f"{where}: {column}: required")
    return row[column]


def parse_number(where: str, row: Row, column: str) -> int:
    """Return a whole number that is not negative; some files write them with a fraction of zero."""
    text = require_text(where, row, column)
    if text.isdecimal():
        return int(text)  # 64 bits, of which a float has 53
    try:
        number = float(text)
        if number < 0 or number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise TraceError(f"{where}: {column}: expected a whole number, found {text!r}") from None
    return int(number)


def parse_seconds(where: str, row: Row, column: str) -> float:
    """Return a number of seconds that is finite and not negative."""
    return _parse_float(where, row, column, "seconds")


def parse_share(where: str, row: Row, column: str) -> float:
    """Return a share of a machine, which is finite and not negative; 0 if it is missing or empty."""
    return _parse_float(where, row, column, "a share of a machine") if row.get(column) else 0.0


def _parse_float(where: str, row: Row, column: str, expected: str) -> float:
    text = require_text(where, row, column)
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise TraceError(f"{where}: {column}: expected {expected}, found {text!r}")
    return number


def build_shares(cpu: float, memory: float, others: Mapping[str, float] | None = None) -> Requests:
    """Return shares of a machine as amounts, without those that are 0. `others` are shares of other resources."""
    parts = {name: round(share * _SMALLEST_SHARES) for name, share in (others or {}).items()}
    parts |= {"cpu": round(cpu * WHOLE_CPU_MILLI), "memory": round(memory * WHOLE_BYTES)}
    return {name: f"{part}m" if name == "cpu" else str(part) for name, part in parts.items() if part}


def build_node(name: str, allocatable: Requests, labels: Mapping[str, str] | None = None) -> Node:
    """Return a node with these amounts and labels, and the label with its name."""
    metadata = NodeMetadata(name=name, labels={HOSTNAME: name, **(labels or {})})
    return Node(metadata=metadata, status=NodeStatus(allocatable=allocatable))


def build_machine(name: str, allocatable: Requests, labels: Mapping[str, str] | None = None) -> Node:
    """Return a node with these amounts, on which any number of pods fits."""
    return build_node(name, {PODS: UNLIMITED_PODS, **allocatable}, labels)


def build_node_affinity(key: str, operator: str, values: Sequence[str]) -> Affinity:
    """Return the affinity that requires a label of nodes."""
    term = NodeSelectorTerm(match_expressions=[Requirement(key=key, operator=operator, values=[*values])])
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=[term])))


def build_pod(name: str, requests: Requests, namespace: str = "default", uid: str = "", **metadata: Any) -> Pod:
    """Return a pod of one container with these requests. Without `uid` it is named after its namespace and name."""
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    return Pod(
        metadata=PodMetadata(name=name, namespace=namespace, uid=uid or f"{namespace}/{name}", **metadata),
        spec=PodSpec(containers=[container]),
        status=PodStatus(phase="Pending"),
    )
