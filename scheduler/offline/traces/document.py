"""The format of a trace: gzipped JSON lines, of which the first has the version and each other one an event.

Owns: the declaration of the events, their order in the file, reading and writing. Does not own: where the events come
from (`importing`), what they lead to (`simulation`).

Invariant: a trace has the fields of objects that the engine decodes (`scheduler.engine.objects`), without annotations
of nodes, and no others: no environment, no arguments, no commands.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from herodotus_record.typed_decoding import json_decoder
from scheduler.engine.objects.types import Node, Pod
from scheduler.offline.snapshots.taking import plain

VERSION: Final = 1


class TraceError(ValueError):
    """A file is not a complete trace, or a row of an imported one is invalid. The message names file and line."""


class TraceHeader(msgspec.Struct, frozen=True, tag="trace", forbid_unknown_fields=True):
    """The first line of a trace. `missing` has a sentence for each thing that the trace's source does not know."""

    version: int
    missing: tuple[str, ...] = ()


class NodeAdded(msgspec.Struct, frozen=True, tag="node", forbid_unknown_fields=True):
    """A node that joins the cluster. Times are seconds since the start of the trace."""

    at_s: float
    node: Node

    @property
    def name(self) -> str:
        return self.node.metadata.name


class NodeRemoved(msgspec.Struct, frozen=True, tag="node-removed", forbid_unknown_fields=True):
    """A node that leaves the cluster. Its pods end with it."""

    at_s: float
    name: str


class PodArrived(msgspec.Struct, frozen=True, tag="pod", forbid_unknown_fields=True):
    """A pod that arrives, without a node.

    `bound_at_s` and `node` say when and where the source bound it, `ended_at_s` when it ended; None or "" if the source
    does not say so.
    """

    at_s: float
    pod: Pod
    bound_at_s: float | None = None
    node: str = ""
    ended_at_s: float | None = None

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def runs_s(self) -> float | None:
        """How long the pod ran on its node, in seconds; None if it did not end.

        Where the source does not say when it was bound, it counts from the arrival.
        """
        return None if self.ended_at_s is None else max(0.0, self.ended_at_s - (self.bound_at_s or self.at_s))


Event = NodeAdded | NodeRemoved | PodArrived

_ORDER: Final = (NodeRemoved, NodeAdded, PodArrived)
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_header: Final = json_decoder(TraceHeader)
_event: Final = json_decoder(Event)


def sort_events(events: Iterable[Event]) -> list[Event]:
    """Return events by time; of one time first nodes that leave, then nodes that join, then pods, each by name."""
    return sorted(events, key=lambda event: (event.at_s, _ORDER.index(type(event)), event.name))


def write_trace(path: Path, events: Iterable[Event], missing: Iterable[str] = ()) -> int:
    """Write a trace to a new file in order of time, and return its number of events. Equal events give equal files.

    `missing` are sentences on what the source does not know.
    """
    ordered = sort_events(events)
    lines = [msgspec.to_builtins(TraceHeader(VERSION, tuple(missing))), *map(_build_line, ordered)]
    path.write_bytes(gzip.compress(b"".join(_encode(line) + b"\n" for line in lines), mtime=0))
    return len(ordered)


def _build_line(event: Event) -> dict[str, Any]:
    """Return the JSON of an event: its own fields that are set, and of its object those that scheduling reads."""
    tag = type(event).__struct_config__.tag
    line: dict[str, Any] = {"type": tag, "at_s": event.at_s}
    match event:
        case NodeAdded():
            metadata = msgspec.structs.replace(event.node.metadata, annotations=None)
            line["node"] = plain(msgspec.structs.replace(event.node, metadata=metadata))
        case NodeRemoved():
            line["name"] = event.name
        case PodArrived():
            line["pod"] = plain(event.pod)
            optional = {"bound_at_s": event.bound_at_s, "node": event.node, "ended_at_s": event.ended_at_s}
            line |= {key: value for key, value in optional.items() if value not in (None, "")}
    return line


def read_header(path: Path) -> TraceHeader:
    """Return the first line of a trace. Raise TraceError if it is none, or has another version."""
    for line in _lines(path):
        return _decode_header(path, line)
    raise TraceError(f"{path}: expected a trace, found an empty file")


def read_trace(path: Path) -> Iterator[Event]:
    """Yield the events of a trace. Raise TraceError if the file is damaged, or no trace of this version."""
    number = 0
    for number, line in enumerate(_lines(path), 1):
        if number == 1:
            _decode_header(path, line)
            continue
        try:
            yield _event.decode(line)
        except msgspec.DecodeError as e:
            raise TraceError(f"{path}: line {number}: {e}") from e
    if not number:
        raise TraceError(f"{path}: expected a trace, found an empty file")


def _decode_header(path: Path, line: bytes) -> TraceHeader:
    try:
        header = _header.decode(line)
    except msgspec.DecodeError as e:
        raise TraceError(f"{path}: line 1: expected the header of a trace: {e}") from e
    if header.version != VERSION:
        raise TraceError(f"{path}: version {header.version} of the format is not read here; {VERSION} is")
    return header


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as file:
            yield from file
    except (OSError, EOFError, zlib.error) as e:
        raise TraceError(f"{path}: {e}") from e
