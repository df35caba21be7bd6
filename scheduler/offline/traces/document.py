"""The format of a trace: gzipped JSON lines, of which the first has the version and each other one an event.

Owns: the declaration of the events, their order, writing and reading. Does not own: what of an object a trace has
(`redaction`), where the events come from (`importing`, `recording`), what they lead to (`simulation`).

A pod's line names a template, the line with what pods of one template share. In a recorded trace, a pod's binding and
end have lines of their own, and `read_trace` joins them. Such a trace may have several parts, each with the nodes and
pods that there are when it begins, so that each can be read alone.

Invariant: a trace has the fields of objects that `redaction` keeps, and no others. The file of an unfinished trace is a
complete gzip file after each `flush`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from herodotus_record.typed_decoding import json_decoder
from scheduler.engine.objects.types import Node, Object, Pod, PodResourceClaimStatus, PodStatus
from scheduler.offline.snapshots.taking import plain
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.redaction import OBJECT_KINDS, Pseudonyms, redact_node, redact_object, redact_pod

VERSION: Final = 2  # of what is written; version 1 has no objects besides nodes and pods
READ_VERSIONS: Final = (1, VERSION)
MAX_TEMPLATES: Final = 10_000  # that a writer remembers: some 100 bytes each; others are written again
_BLOCK: Final = 1 << 18  # bytes of lines that are compressed together: more makes a file hardly smaller
_LEVEL: Final = 6  # of gzip: 9 takes a sixth more of a recorder's time for 2 % less


class TraceHeader(msgspec.Struct, frozen=True, tag="trace", forbid_unknown_fields=True, omit_defaults=True):
    """The first line of a trace. `missing` has a sentence for each thing that the trace's source does not know.

    Of a recorded trace, `started` is when it began, `recording` its ID, and `part` the number of this file, from 1 on.
    """

    version: int
    missing: tuple[str, ...] = ()
    started: str = ""
    recording: str = ""
    part: int = 0


class NodeAdded(msgspec.Struct, frozen=True, tag="node", forbid_unknown_fields=True):
    """A node that joins the cluster or changes. Times are seconds since the start of the trace."""

    at_s: float
    node: Node

    @property
    def name(self) -> str:
        return self.node.metadata.name


class NodeRemoved(msgspec.Struct, frozen=True, tag="node-removed", forbid_unknown_fields=True):
    """A node that leaves the cluster. Its pods end with it."""

    at_s: float
    name: str


class ObjectSet(msgspec.Struct, frozen=True):
    """An object of another kind (`redaction.OBJECT_KINDS`) that is created or changes."""

    at_s: float
    object: Object

    @property
    def kind(self) -> str:
        return type(self.object).__name__

    @property
    def name(self) -> str:
        """The object as KIND/NAMESPACE/NAME."""
        return _name_object(self.kind, self.object.metadata.namespace, self.object.metadata.name)


class ObjectRemoved(msgspec.Struct, frozen=True, tag="object-removed", forbid_unknown_fields=True):
    """An object of another kind that is deleted."""

    at_s: float
    kind: str
    object_namespace: str
    object_name: str

    @property
    def name(self) -> str:
        """The object as KIND/NAMESPACE/NAME."""
        return _name_object(self.kind, self.object_namespace, self.object_name)


def _name_object(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}"


class PodArrived(msgspec.Struct, frozen=True):
    """A pod that arrives.

    `bound_at_s` and `node` say when and where the source bound it, `ended_at_s` when it ended; None or "" if the source
    does not say so. `was_on_node` says that the source saw it on its node from the first, and no decision.
    `was_evicted` says that it was evicted, so that the pod in its place is in the trace too.
    """

    at_s: float
    pod: Pod
    bound_at_s: float | None = None
    node: str = ""
    ended_at_s: float | None = None
    was_on_node: bool = False
    was_evicted: bool = False

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def runs_s(self) -> float | None:
        """How long the pod ran on its node, in seconds; None if it did not end.

        Where the source does not say when it was bound, it counts from the arrival.
        """
        return None if self.ended_at_s is None else max(0.0, self.ended_at_s - (self.bound_at_s or self.at_s))

    @property
    def owner_kind(self) -> str:
        """The kind of the pod's controller, or ""."""
        owner = self.pod.metadata.controller
        return owner.kind if owner else ""


Event = NodeAdded | NodeRemoved | ObjectSet | ObjectRemoved | PodArrived


class PodBound(msgspec.Struct, frozen=True, tag="pod-bound", forbid_unknown_fields=True):
    """The binding of a pod that arrived before."""

    at_s: float
    uid: str
    node: str


class PodEnded(msgspec.Struct, frozen=True, tag="pod-ended", forbid_unknown_fields=True, omit_defaults=True):
    """The end of a pod that arrived before."""

    at_s: float
    uid: str
    was_evicted: bool = False


class MessagesLost(msgspec.Struct, frozen=True, tag="lost", forbid_unknown_fields=True):
    """A number of watch messages that came faster than they were recorded."""

    at_s: float
    messages: int


class _Template(msgspec.Struct, frozen=True, tag="template", forbid_unknown_fields=True):
    """What pods share: the object without name and UID. Lines of pods refer to `id`."""

    id: int
    pod: Pod


class _PodLine(msgspec.Struct, frozen=True, tag="pod", forbid_unknown_fields=True, omit_defaults=True):
    """The line of a `PodArrived`."""

    at_s: float
    template: int
    name: str
    uid: str
    bound_at_s: float | None = None
    node: str = ""
    ended_at_s: float | None = None
    was_on_node: bool = False
    was_evicted: bool = False
    claims: dict[str, str] = {}  # of a pod that was on its node: the claims made for it, by their names in its spec


class _ObjectLine(msgspec.Struct, frozen=True, tag="object", forbid_unknown_fields=True):
    """The line of an `ObjectSet`."""

    at_s: float
    kind: str
    object: msgspec.Raw


_Line = (
    NodeAdded | NodeRemoved | _ObjectLine | ObjectRemoved | _Template | _PodLine | PodBound | PodEnded | MessagesLost
)

LEAVING: Final = (NodeRemoved, ObjectRemoved)  # events of one time are in this order, and before those of JOINING
JOINING: Final = (NodeAdded, ObjectSet, PodArrived)
_ORDER: Final = (*LEAVING, *JOINING)
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_header: Final = json_decoder(TraceHeader)
_line: Final = json_decoder(_Line)
_objects: Final = {name: json_decoder(kind) for name, kind in OBJECT_KINDS.items()}


def sort_events(events: Iterable[Event]) -> list[Event]:
    """Return events by time; of one time first what leaves, then nodes, other objects and pods, as they were."""
    return sorted(events, key=lambda event: (event.at_s, _ORDER.index(type(event))))


class TraceWriter:
    """Writes the lines of one file. `write` gets each block of lines as a complete gzip file.

    With `pseudonyms`, names are replaced.
    """

    def __init__(
        self, write: Callable[[bytes], object], header: TraceHeader, pseudonyms: Pseudonyms | None = None
    ) -> None:
        self._write, self._pseudonyms = write, pseudonyms
        self._lines = bytearray()
        self._templates: dict[bytes, int] = {}  # by the digest of the template
        self._next_id = 0
        self._append(header)

    def add(self, event: Event | PodBound | PodEnded | MessagesLost) -> None:
        """Add an event, whose object is redacted here."""
        match event:
            case NodeAdded():
                node = plain(redact_node(event.node))
                self._append({"type": "node", "at_s": event.at_s, "node": self._replace(node)})
            case NodeRemoved():
                self._append(replace(event, name=self._name(event.name)))
            case ObjectSet():
                made = self._replace(plain(redact_object(event.object)))
                self._append({"type": "object", "at_s": event.at_s, "kind": event.kind, "object": made})
            case ObjectRemoved():
                namespace, name = self._name(event.object_namespace), self._name(event.object_name)
                self._append(replace(event, object_namespace=namespace, object_name=name))
            case PodArrived():
                self._add_pod(event)
            case PodBound():
                self._append(replace(event, uid=self._name(event.uid), node=self._name(event.node)))
            case PodEnded():
                self._append(replace(event, uid=self._name(event.uid)))
            case MessagesLost():
                self._append(event)

    def _add_pod(self, event: PodArrived) -> None:
        metadata = event.pod.metadata
        pod = redact_pod(event.pod)
        claims = {each.name: each.resource_claim_name or "" for each in pod.status.resource_claim_statuses or ()}
        template = replace(pod, metadata=replace(pod.metadata, name="", uid=""), status=PodStatus(phase="Pending"))
        digest = blake2b(_encode(template), digest_size=16).digest()
        number = self._templates.get(digest)
        if number is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            number = self._templates[digest] = self._next_id
            self._next_id += 1
            self._append({"type": "template", "id": number, "pod": self._replace(plain(template))})
        self._append(
            _PodLine(
                event.at_s,
                number,
                self._name(metadata.name),
                self._name(metadata.uid),
                event.bound_at_s,
                self._name(event.node),
                event.ended_at_s,
                event.was_on_node,
                event.was_evicted,
                {self._name(name): self._name(claim) for name, claim in claims.items()} if event.was_on_node else {},
            )
        )

    def _append(self, line: Any) -> None:
        self._lines += _encode(line) + b"\n"
        if len(self._lines) >= _BLOCK:
            self.flush()

    def flush(self) -> None:
        """Write the lines that were added since the last block."""
        if self._lines:
            lines, self._lines = self._lines, bytearray()
            self._write(gzip.compress(lines, _LEVEL, mtime=0))

    def _name(self, name: str) -> str:
        return name if self._pseudonyms is None else self._pseudonyms.replace_name(name)

    def _replace(self, obj: Any) -> Any:
        return obj if self._pseudonyms is None else self._pseudonyms.replace_object(obj)


def write_trace(path: Path, events: Iterable[Event], missing: Iterable[str] = ()) -> int:
    """Write a trace to a new file in order of time, and return its number of events. Equal events give equal files.

    Events of one time and kind are in order of their names. `missing` are sentences on what the source does not know.
    """
    ordered = sort_events(sorted(events, key=lambda event: event.name))
    with path.open("wb") as file:
        writer = TraceWriter(file.write, TraceHeader(VERSION, tuple(missing)))
        for event in ordered:
            writer.add(event)
        writer.flush()
    return len(ordered)


class TraceContent(msgspec.Struct, frozen=True):
    """The events of a trace in order of time, and sentences on what its source does not know.

    `started` is the wall clock at the start of a recorded trace.
    """

    events: list[Event]
    missing: list[str]
    started: str = ""


def read_trace(paths: Sequence[Path]) -> TraceContent:
    """Return a trace from its file, or from consecutive parts of one recording, in any order.

    Raise TraceError if a file is damaged or no trace of this version, or if the files do not belong together.
    """
    headers = {path: _read_header(path) for path in paths}
    ordered = sorted(paths, key=lambda path: headers[path].part)
    numbers = [headers[path].part for path in ordered]
    first = headers[ordered[0]]
    if any(header.recording != first.recording for header in headers.values()) or (
        len(ordered) > 1 and (not first.recording or numbers != [*range(numbers[0], numbers[0] + len(numbers))])
    ):
        raise TraceError(f"{', '.join(map(str, ordered))}: these are not consecutive parts of one recording")
    events = _Joined()
    for path in ordered:
        for number, line in enumerate(_lines(path), 1):
            if number == 1:
                continue
            try:
                events.add(_line.decode(line))
            except (msgspec.DecodeError, LookupError) as e:
                what = f"no template {e}" if isinstance(e, LookupError) else e
                raise TraceError(f"{path}: line {number}: {what}") from e
        events.end_part()
    lost = [f"{events.lost} changes of nodes and pods are unknown: they came too fast."] if events.lost else []
    return TraceContent(sort_events(events.list_events()), [*first.missing, *lost], first.started)


class _Joined:
    """The events of the lines so far: a pod's binding and end are joined with its arrival."""

    def __init__(self) -> None:
        self._others: dict[tuple[float, str], Event] = {}  # parts repeat those that there are
        self._pods: list[PodArrived] = []
        self._index: dict[str, int] = {}  # by UID: the last pod of this UID
        self._templates: dict[int, Pod] = {}
        self.lost = 0

    def add(self, line: _Line) -> None:
        """Add a line. Raise LookupError if its template is not known."""
        match line:
            case NodeAdded() | NodeRemoved() | ObjectRemoved():
                self._add_other(line)
            case _ObjectLine():
                self._add_other(ObjectSet(line.at_s, _decode_object(line)))
            case _Template():
                self._templates[line.id] = line.pod
            case _PodLine():
                self._add_pod(line)
            case PodBound() if line.uid in self._index:
                self._change(line.uid, bound_at_s=line.at_s, node=line.node)
            case PodEnded() if line.uid in self._index:
                self._change(line.uid, ended_at_s=line.at_s, was_evicted=line.was_evicted)
            case MessagesLost():
                self.lost += line.messages

    def _add_other(self, event: Event) -> None:
        self._others[event.at_s, f"{type(event).__name__}/{event.name}"] = event

    def _add_pod(self, line: _PodLine) -> None:
        template = self._templates[line.template]
        pod = replace(template, metadata=replace(template.metadata, name=line.name, uid=line.uid))
        if line.claims:
            claims = [PodResourceClaimStatus(name=name, resource_claim_name=made) for name, made in line.claims.items()]
            pod = replace(pod, status=replace(pod.status, resource_claim_statuses=claims))
        arrival = PodArrived(
            line.at_s, pod, line.bound_at_s, line.node, line.ended_at_s, line.was_on_node, line.was_evicted
        )
        index = self._index.get(line.uid)
        if index is not None and self._pods[index].at_s == line.at_s and self._pods[index].ended_at_s is None:
            self._pods[index] = arrival  # repeated by a part
            return
        self._index[line.uid] = len(self._pods)
        self._pods.append(arrival)

    def _change(self, uid: str, **changes: Any) -> None:
        index = self._index[uid]
        self._pods[index] = replace(self._pods[index], **changes)

    def end_part(self) -> None:
        """Forget the templates, whose IDs begin anew in the next part."""
        self._templates.clear()

    def list_events(self) -> Iterator[Event]:
        yield from self._others.values()
        yield from self._pods


def _decode_object(line: _ObjectLine) -> Object:
    decode = _objects.get(line.kind)
    if decode is None:
        raise msgspec.ValidationError(f"objects of kind {line.kind!r} are not read here")
    return decode.decode(line.object)


def _read_header(path: Path) -> TraceHeader:
    """Return the first line of a trace. Raise TraceError if it is none, or has another version."""
    for line in _lines(path):
        try:
            header = _header.decode(line)
        except msgspec.DecodeError as e:
            raise TraceError(f"{path}: line 1: expected the header of a trace: {e}") from e
        if header.version not in READ_VERSIONS:
            versions = " and ".join(map(str, READ_VERSIONS))
            raise TraceError(f"{path}: version {header.version} of the format is not read here; {versions} are")
        return header
    raise TraceError(f"{path}: expected a trace, found an empty file")


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as file:
            yield from file
    except (OSError, EOFError, zlib.error) as e:
        raise TraceError(f"{path}: {e}") from e
