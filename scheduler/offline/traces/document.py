"""The format of a trace: gzipped JSON lines, of which the first has the version and each other one an event.

Owns: the declaration of the events, their order in the file, reading and writing. Does not own: where the events come
from (`importing`).

Invariant: a trace has the fields that are declared here and no others. Nothing is copied from an object that is not
named, so environment, arguments and annotations cannot be in a trace.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from herodotus_record.typed_decoding import json_decoder

VERSION: Final = 1


class TraceError(ValueError):
    """A file is not a complete trace, or a row of an imported one is invalid. The message names file and line."""


class Header(msgspec.Struct, frozen=True, tag="trace", forbid_unknown_fields=True):
    """The first line of a trace. `missing` has a sentence for each thing that the trace's source does not know."""

    version: int
    missing: tuple[str, ...] = ()


class NodeAdded(msgspec.Struct, frozen=True, tag="node", omit_defaults=True, forbid_unknown_fields=True):
    """A node that joins the cluster.

    `allocatable` maps a resource to its amount: millicores of cpu, bytes of memory, and counts of others. `taints` are
    (key, value, effect).
    """

    at_s: float
    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = {}
    taints: tuple[tuple[str, str, str], ...] = ()


class PodArrived(msgspec.Struct, frozen=True, tag="pod", omit_defaults=True, forbid_unknown_fields=True):
    """A pod that arrives. `requests` has the units of a node's `allocatable`.

    `bound_at_s` and `node` say when and where the source bound it, `ended_at_s` when it ended; None or "" if the source
    does not say so. `owner` is KIND/NAME of its controller, and `template` is equal for pods of one template.
    """

    at_s: float
    name: str
    requests: Mapping[str, int]
    namespace: str = "default"
    bound_at_s: float | None = None
    node: str = ""
    ended_at_s: float | None = None
    owner: str = ""
    template: str = ""
    priority: int = 0
    labels: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}


Event = NodeAdded | PodArrived

_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_header: Final = json_decoder(Header)
_event: Final = json_decoder(Event)


def write_trace(path: Path, events: Iterable[Event], missing: Iterable[str] = ()) -> int:
    """Write a trace to a new file, in order of time and nodes before pods, and return its number of events.

    `missing` are sentences on what the source does not know. Equal events give equal files.
    """
    ordered = sorted(events, key=lambda event: (event.at_s, isinstance(event, PodArrived), event.name))
    lines: list[Any] = [Header(VERSION, tuple(missing)), *ordered]
    path.write_bytes(gzip.compress(b"".join(_encode(line) + b"\n" for line in lines), mtime=0))
    return len(ordered)


def read_header(path: Path) -> Header:
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


def _decode_header(path: Path, line: bytes) -> Header:
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
