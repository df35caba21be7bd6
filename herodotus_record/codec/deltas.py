"""Decisions that are said by what differs from an earlier one of the same pod template, and reading them.

Pods come in herds: of two decisions of one template a few entries of a few columns differ. Said alone they are a tenth
of a whole frame on 1,000 nodes, and a thirtieth on 5,000.

Owns: what a delta is, against which decision one is written, putting it together again. Does not own: frames that stand
alone (`codec`), which earlier frames a reader is given (the shipper: a batch holds all that its deltas need).

The payload of a DELTA is the last eight bytes of another frame's header (its base's length and checksum) and
MessagePack of the fields that differ. Of `filters` and `scores` those that differ are there by their position, with the
fields in which they do. A column is whole, or of type "~": the length (u32) of a column of slots, it, and the column of
their entries.

Invariant: a base is a whole decision, so a delta needs one other frame. What is put together is what was taken apart,
with the fields that this version does not know.
"""

from __future__ import annotations

import struct
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record import codec
from herodotus_record.codec import DELTA, HEADER_BYTES, KIND_AT, CodecError, UnknownVersionError, as_numpy
from herodotus_record.codec.columns import FOLLOWS, typecode
from herodotus_record.model import Column, Decision, FilterColumn, Frame, Path, PodInfo, ScoreColumn

MOST_BASES: Final = 32  # templates that a writer has a base of: 8 MB on 15,000 nodes
MOST_DELTAS: Final = 128  # against one base: by then they differ in as many rows, and a new one is shorter
MOST_SHARE: Final = 1 / 2  # of its base's length that a delta may have
NAME_BYTES: Final = 8

_DECISION: Final = 1
_VERSION: Final = 2  # the first that has deltas
_NAME_AT: Final = slice(4, 12)  # in a header: length and checksum
_PATCH: Final = b"~"
_LENGTH: Final = struct.Struct("<I")
_COLUMNS: Final = ("evaluation", "totals", "rank")
_PARTS: Final = ("filters", "scores")
_FIELDS: Final = {kind: tuple(f.name for f in fields(kind)) for kind in (Decision, FilterColumn, ScoreColumn)}

# what comes of bytes that somebody else made
_NOT_AS_SAID: Final = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ValueError,
    struct.error,
)

Json = dict[str, Any]
Part = FilterColumn | ScoreColumn


class UnknownBaseError(CodecError):
    """A delta came without the decision that it differs from."""


@dataclass
class _Base:
    """A decision that was written whole, what deltas call it, and how many there are.

    `last`: the decision that was written last, and how it differs. What both have in common is not compared again.
    """

    decision: Decision
    name: bytes
    size: int
    last: Decision
    said: Json
    deltas: int = 0


class Writer:
    """Decisions of one segment as frames. Forget it where one of them was not kept: the next is written whole."""

    def __init__(self) -> None:
        self._bases: OrderedDict[Hashable, _Base] = OrderedDict()  # the one that was used last at the end

    def encode(self, decision: Decision) -> bytes:
        """A frame for those who read what this writer wrote before. CodecError when it contradicts itself."""
        key = template(decision.pod, decision.scheduler.profile, decision.path)
        base = self._bases.get(key)
        changes = _changes(base, decision) if base is not None and base.deltas < MOST_DELTAS else None
        if base is not None and changes is not None:
            payload = base.name + _encoder.encode(changes)
            if len(payload) < base.size * MOST_SHARE:
                base.deltas += 1
                base.last, base.said = decision, changes
                self._bases.move_to_end(key)
                return codec.framed(DELTA, payload, _VERSION)
        whole = codec.encode(decision)
        self._bases[key] = _Base(decision, whole[_NAME_AT], len(whole), decision, {})
        self._bases.move_to_end(key)
        if len(self._bases) > MOST_BASES:
            self._bases.popitem(last=False)
        return whole

    def forget(self) -> None:
        """Another segment begins."""
        self._bases.clear()


class Reader:
    """Frames of one batch or segment in order, put together.

    Decisions that differ from one base share its parts and columns, but for those that differ, as the same objects.
    """

    def __init__(self) -> None:
        self._frames: dict[bytes, memoryview] = {}  # decisions that were said whole, by what deltas call them
        self._wholes: OrderedDict[bytes, _Whole] = OrderedDict()  # of those the ones that deltas named last

    def read(self, frame: bytes | memoryview) -> tuple[Frame, bytes | memoryview]:
        """The frame, and bytes that say it alone. CodecError when it is none; UnknownBaseError."""
        view = memoryview(frame)
        if view[KIND_AT] != DELTA:
            decoded = codec.decode(view)
            if isinstance(decoded, Decision):
                self._frames[bytes(view[_NAME_AT])] = view
            return decoded, view
        codec.version_of(view)
        payload = codec.checked_payload(view)
        decision, document = self._base(bytes(payload[:NAME_BYTES])).changed(payload[NAME_BYTES:])
        return decision, codec.framed(_DECISION, _encoder.encode(document), _VERSION)

    def remember(self, frame: bytes | memoryview) -> None:
        """A decision that deltas may name, and that is not asked for itself."""
        self._frames[bytes(frame[_NAME_AT])] = memoryview(frame)

    def _base(self, name: bytes) -> _Whole:
        known = self._wholes.get(name)
        if known is None:
            if name not in self._frames:
                raise UnknownBaseError("a delta came without the decision that it differs from")
            known = self._wholes[name] = _Whole(self._frames[name])
            if len(self._wholes) > MOST_BASES:
                self._wholes.popitem(last=False)
        self._wholes.move_to_end(name)
        return known


class _Whole:
    """A decision that was said whole, taken apart once for all deltas that name it."""

    def __init__(self, frame: memoryview) -> None:
        """CodecError where it is none, however it is remembered."""
        codec.version_of(frame)
        payload = codec.checked_payload(frame)
        try:
            self._document: Json = _decoder.decode(payload)
            parts = [part for kind in _PARTS for part in self._document[kind]]
            said = [value for of in (self._document, *parts) for value in of.values() if isinstance(value, bytes)]
            self._columns = {id(value): codec.decode_column(array, value) for value in said}  # by the very bytes
            self._decision = codec.completed(msgspec.convert(self._document, Decision, dec_hook=self._column))
        except _NOT_AS_SAID as e:
            raise CodecError(f"a decision that deltas name: {e}") from e

    def changed(self, changes: memoryview) -> tuple[Decision, Json]:
        """The decision that differs so, and its document, in which columns that differ are no bytes any more."""
        try:
            said: Json = _deltas.decode(changes)
            shared: Json = {}
            for name in _COLUMNS:
                if name in said:
                    said[name] = self._patched(self._document[name], said[name])
            for name in _PARTS:
                parts = shared[name] = list(getattr(self._decision, name))
                if name in said:
                    documents = list(self._document[name])
                    for i, changed in said[name].items():
                        part = documents[i]
                        more = {f: self._patched(part.get(f), value) for f, value in changed.items()}
                        documents[i] = parts[i] = part | more
                    said[name] = documents
            document = self._document | said
            decision = msgspec.convert(document | shared, Decision, dec_hook=self._column)
        except _NOT_AS_SAID as e:
            raise CodecError(f"a delta that does not fit its base: {e}") from e
        return codec.completed(decision, self._decision), document

    def _column(self, kind: type, value: object) -> Column:
        if isinstance(value, array):  # put together by `_patched`
            return value
        known = self._columns.get(id(value))
        return codec.decode_column(kind, value) if known is None else known

    def _patched(self, base: Any, said: Any) -> Any:
        """What a field says after `base`. ValueError, TypeError, IndexError where it cannot be said so."""
        if not isinstance(said, bytes) or said[:1] != _PATCH:
            return said
        (length,) = _LENGTH.unpack_from(said, 1)
        entries_at = 1 + _LENGTH.size + length
        where = codec.decode_column(array, said[1 + _LENGTH.size : entries_at])
        entries = codec.decode_column(array, said[entries_at:])
        if len(where) != len(entries) or (where and min(where) < 0):
            raise ValueError("entries without their slots")
        after = self._column(array, base)[:]
        try:
            for slot, entry in zip(where, entries, strict=True):
                after[slot] = entry
        except OverflowError:
            wide = as_numpy(after).astype(np.int64)
            wide[as_numpy(where)] = as_numpy(entries)
            return codec.column(wide)
        return after


def template(pod: PodInfo, profile: str, path: Path) -> Hashable:
    """Decisions of which pods are worth comparing: of one template, by one profile, in the same way."""
    return pod.digest, profile, path


def name_of(frame: bytes | memoryview) -> bytes | None:
    """What deltas call this frame; None where it is no decision that was said whole."""
    return bytes(frame[_NAME_AT]) if frame[KIND_AT] == _DECISION else None


def base_of(frame: bytes | memoryview) -> bytes | None:
    """The name of the frame that this one differs from; None where it is no delta."""
    return bytes(frame[HEADER_BYTES : HEADER_BYTES + NAME_BYTES]) if frame[KIND_AT] == DELTA else None


def decode_all(data: bytes) -> Iterator[Frame]:
    """Every frame in a batch or segment, in order."""
    reader = Reader()
    for _, frame in codec.split(data):
        yield reader.read(frame)[0]


def restated_all(bases: Iterable[bytes], batch: Sequence[bytes], version: int) -> list[bytes]:
    """Frames for a reader of nothing newer than `version`; where it reads deltas, with the bases that those need.

    UnknownVersionError where one of them cannot be said so.
    """
    if version >= _VERSION:
        first = next((i for i, frame in enumerate(batch) if frame[KIND_AT] == DELTA), len(batch))
        return [codec.restated(frame, version) for frame in (*batch[:first], *bases, *batch[first:])]
    reader = Reader()
    for frame in (*bases, *batch):
        if name_of(frame) is not None:
            reader.remember(frame)
    return [_alone(reader, frame, version) for frame in batch]


def _alone(reader: Reader, frame: bytes, version: int) -> bytes:
    try:
        return codec.restated(bytes(reader.read(frame)[1]) if frame[KIND_AT] == DELTA else frame, version)
    except UnknownBaseError as e:
        raise UnknownVersionError(f"cannot be said in version {version}: {e}") from e


# --- taking apart -------------------------------------------------------------------------------------------------


def _changes(base: _Base, decision: Decision) -> Json | None:
    """The fields that differ from the base's; None where the two are not alike enough.

    What is the very object that the last decision had was looked at then, and is said as it was said then.
    """
    before, last, now = vars(base.decision), vars(base.last), vars(decision)
    if before["slots"] != now["slots"]:
        return None
    changes: Json = {}
    for name in _FIELDS[Decision]:
        value, known = now[name], before[name]
        if value is known:
            continue
        if value is last[name]:
            if name in base.said:
                changes[name] = base.said[name]
        elif name in _PARTS:
            parts = _part_changes(known, value, last[name], base.said.get(name, {}))
            if parts is None:
                return None
            if parts:
                changes[name] = parts
        else:
            _change(changes, name, known, value)
    codec.validate(decision, base.last)
    return changes


def _part_changes(
    base: Sequence[Part], parts: Sequence[Part], last: Sequence[Part], said: Mapping[int, Json]
) -> dict[int, Json] | None:
    if len(base) != len(parts):
        return None
    changes = {}
    for i, (before, part, known) in enumerate(zip(base, parts, last, strict=True)):
        if part is before:
            continue
        if part.plugin != before.plugin:
            return None
        if part is known:
            changed = said.get(i)
        else:
            changed = {}
            for name in _FIELDS[type(part)]:
                _change(changed, name, getattr(before, name), getattr(part, name))
        if changed:
            changes[i] = changed
    return changes


def _change(changes: Json, name: str, before: Any, now: Any) -> None:
    """Note how a field differs, if it does."""
    if now is before:
        return
    if not isinstance(now, array):
        if now != before:
            changes[name] = now
    elif (said := _difference(before, now)) is not None:
        changes[name] = said


def _difference(base: Column, col: Column) -> bytes | None:
    """How a column is said after another; None where it is the same."""
    if len(col) != len(base) or col is FOLLOWS or base is FOLLOWS:
        return codec.encode_column(col)
    if not col:
        return None
    now = as_numpy(col)
    (where,) = (now != as_numpy(base)).nonzero()
    if not len(where):
        return None
    slots, entries = _entries(typecode(0, len(col)), where), _entries(col.typecode, now[where])
    patch = _PATCH + _LENGTH.pack(len(slots)) + slots + entries
    return patch if len(patch) < len(col) * col.itemsize else codec.encode_column(col)


def _entries(code: str, values: NDArray[Any]) -> bytes:
    """As `encode_column`, of a type that is known to hold them."""
    return code.encode() + values.astype(np.dtype(code).newbyteorder("<"), copy=False).tobytes()


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=codec.encode_column)
_decoder: Final = msgspec.msgpack.Decoder()
_deltas: Final = msgspec.msgpack.Decoder(dict[str, Any])
