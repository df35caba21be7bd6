"""Encode decisions as deltas to an earlier decision, mostly of the same pod template, and decode them.

Decisions of one template differ in a few entries of a few columns. Their deltas are a tenth of a whole frame on 1,000
nodes and a thirtieth on 5,000. Pods that have a template each, such as those with a volume of their own, mostly differ
as little, so a template's first decision may be a delta to a decision of another template (`TemplateKeys`).

Owns: the format of a delta, the choice of its base, decoding. Does not own: whole frames (`codec`), providing a reader
with the bases (the shipper: a batch holds all bases that its deltas need).

The payload of a DELTA is the last eight bytes of its base's header (length and checksum) and MessagePack of the fields
that differ. `filters` and `scores` hold only the differing parts, by position, with the fields in which they differ. A
column is whole, or of type "~": a u32 length, a column of slots of that length, and the column of their entries.

Invariant: a base is a whole decision, so that a delta needs one other frame only. Decoding returns exactly what was
encoded, including fields that this version does not know.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record import codec
from herodotus_record.codec import DECISION, DELTA, HEADER_BYTES, KIND_AT, CodecError, as_numpy
from herodotus_record.codec.columns import (
    DERIVED,
    SMALL_COLUMN,
    TYPECODES,
    fill_derived_in_place,
    fill_normalized_in_place,
    narrowest_typecode,
)
from herodotus_record.codec.decoded_size import MAX_DECODED_BYTES, check_decoded_size, measure_decoded_size
from herodotus_record.lru import Lru
from herodotus_record.model import Column, Decision, DecisionPath, FilterColumn, Frame, RecordedPod, ScoreColumn
from herodotus_record.typed_decoding import convert, msgpack_decoder

MAX_BASES: Final = 32  # templates for which a writer keeps a base: 8 MB on 15,000 nodes
MAX_BASE_BYTES: Final = 384 << 10  # on 15,000 nodes a base has 250 kB; a large pod makes it ten times as large
MAX_TEMPLATES: Final = 1024  # that are known to have occurred: some 200 bytes each
MAX_DELTAS_PER_BASE: Final = 128  # for one base: later ones differ in so many rows that a new base is shorter
MAX_EXPANDED_BYTES: Final = 8 << 30  # of the decisions that deltas of one batch describe: 2,000 on 30,000 nodes
MAX_SIZE_RATIO: Final = 1 / 2  # the largest length of a delta, relative to its base
NAME_BYTES: Final = 8

_PATCH: Final = b"~"
_LENGTH: Final = struct.Struct("<I")
_PATCH_BYTES: Final = len(_PATCH) + _LENGTH.size + 2  # of a patch without slots and entries, with two type codes
_WIDEST_BYTES: Final = 8  # of an entry: a patch may widen a column
_COLUMNS: Final = ("evaluation", "totals", "rank")
_PARTS: Final = ("filters", "scores")
_FIELDS: Final = tuple(f.name for f in fields(Decision))
_DTYPES: Final = {code: np.dtype(code).newbyteorder("<") for code in TYPECODES}

# Errors that decoding bytes of an untrusted sender can raise.
_DECODING_ERRORS: Final = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    ValueError,
    RecursionError,  # maps nested deeper than msgspec allows
    struct.error,
)

Json = dict[str, Any]
Part = FilterColumn | ScoreColumn


class UnknownBaseError(CodecError):
    """The decision to which a delta refers (its base) was not read before the delta."""


@dataclass
class _Base:
    """A decision that a writer encoded whole, so that later decisions can be encoded as differences from it.

    `name` identifies it in deltas, `size` is its length in bytes, and `deltas` counts the deltas that refer to it.
    `last` is the decision that was last encoded against it, and `last_changes` its difference. Objects that the next
    decision shares with `last` are not compared again.
    """

    decision: Decision
    name: bytes
    size: int
    last: Decision
    last_changes: Json
    deltas: int = 0


class TemplateKeys:
    """Assigns decisions to groups whose decisions probably differ little, by pod template, profile and path.

    A template has a group of its own from its second decision on. The first decisions of all templates share the group
    of their profile and path, so that a template which occurs once needs neither a base nor a cache of its own.
    """

    def __init__(self) -> None:
        self._seen: Lru[Hashable, Hashable] = Lru(MAX_TEMPLATES)

    def find_group(self, pod: RecordedPod, profile: str, path: DecisionPath) -> Hashable:
        """Return the key of a decision's group, and count the decision as one of its template.

        Call it once per decision.
        """
        own = (pod.digest, profile, path)
        if self._seen.get(own) is not None:
            return own
        self._seen.put(own, own)
        return "", profile, path


class DeltaWriter:
    """An encoder for the decisions of one spool segment, as deltas to an earlier decision where that is shorter.

    Call `forget_bases` if a frame was not kept: later deltas must not refer to it.
    """

    def __init__(self) -> None:
        self._bases: Lru[Hashable, _Base] = Lru(MAX_BASES)
        self._templates = TemplateKeys()

    def encode(self, decision: Decision) -> bytes:
        """Return the decision as a frame: a delta to an earlier decision if that is less than half as long, else whole.

        Raises CodecError if the decision contradicts itself.
        """
        pod, profile, path = decision.pod, decision.scheduler.profile, decision.path
        group = self._templates.find_group(pod, profile, path)
        base = self._bases.get(group)
        changes = _diff(base, decision) if base is not None and base.deltas < MAX_DELTAS_PER_BASE else None
        if base is not None and changes is not None:
            payload = base.name + _encoder.encode(changes)
            if len(payload) < base.size * MAX_SIZE_RATIO:
                base.deltas += 1
                base.last, base.last_changes = decision, changes
                return codec.build_frame(DELTA, payload)
        whole = codec.encode(decision)
        written = _Base(decision, _read_name(whole), len(whole), decision, {})
        if len(whole) <= MAX_BASE_BYTES:
            for key in (group, (pod.digest, profile, path)):
                self._bases.put(key, written)
        return whole

    def forget_bases(self) -> None:
        """Forget all earlier decisions, so that the next decision of each pod template is written whole."""
        self._bases.clear()


@dataclass(frozen=True)
class DecisionFields:
    """The fields of a decision that was sent as a delta. `bytes` encodes them as the equivalent whole frame.

    Columns are encoded, or arrays if the delta patched them. The fields are shared with the base and other deltas: do
    not change them.
    """

    fields: Mapping[str, Any]

    def __bytes__(self) -> bytes:
        return codec.build_frame(DECISION, _encoder.encode(self.fields))


EncodedFrame = bytes | memoryview | DecisionFields


class DeltaReader:
    """A decoder for the frames of one batch or spool segment, to be read in order, so that deltas find their bases.

    Decoded decisions with the same base share their unchanged columns and plugin results as the same objects.
    """

    def __init__(self) -> None:
        self._frames: dict[bytes, memoryview] = {}  # whole decisions, by the name in deltas
        self._wholes: Lru[bytes, _DecodedBase] = Lru(MAX_DECODED_BYTES, lambda base: base.size)  # the decoded ones
        self._expanded = 0  # bytes of the whole frames that the deltas stand for

    def read(self, frame: bytes | memoryview) -> tuple[Frame, EncodedFrame]:
        """Return the decoded frame, and its bytes or, for a delta, the fields of the equivalent whole frame.

        A rank that the writer of a delta omitted stays DERIVED: `codec.fill_derived` computes it. Raises CodecError if
        the bytes are not a frame, UnknownBaseError if they are a delta whose base was not read.
        """
        view = memoryview(frame)
        if view[KIND_AT] != DELTA:
            decoded = codec.decode(view)
            if isinstance(decoded, Decision):
                self._frames[_read_name(view)] = view
            return decoded, view
        codec.read_version(view)
        payload = codec.verify_payload(view)
        base = self._base(bytes(payload[:NAME_BYTES]))
        self._expanded += base.size
        if self._expanded > MAX_EXPANDED_BYTES:
            raise CodecError(f"deltas describe decisions of more than {MAX_EXPANDED_BYTES} bytes")
        decision, document = base.apply(payload[NAME_BYTES:])
        return decision, DecisionFields(document)

    def add_base(self, frame: bytes | memoryview) -> None:
        """Keep a whole decision's frame, still encoded, so that deltas that are read later may refer to it."""
        self._frames[_read_name(frame)] = memoryview(frame)

    def _base(self, name: bytes) -> _DecodedBase:
        if name not in self._frames:
            raise UnknownBaseError("the base of a delta is missing")
        return self._wholes.get_or_create(name, lambda: _DecodedBase(self._frames[name]))


class _DecodedBase:
    """A whole decision to which deltas refer, decoded once for all of them."""

    def __init__(self, frame: memoryview) -> None:
        """Decode the frame; raise CodecError if it is not a whole decision."""
        codec.read_version(frame)
        payload = codec.verify_payload(frame)
        try:
            self.size = measure_decoded_size(payload)
            self._document: Json = _decoder.decode(payload)
            parts = [part for kind in _PARTS for part in self._document[kind]]
            encoded = [v for part in (self._document, *parts) for v in part.values() if isinstance(v, bytes)]
            self._patched_bytes = 0  # at most, of the columns that the present delta patches
            self._columns = {id(value): codec.decode_column(array, value) for value in encoded}  # by identity
            self._decision = convert(self._document, Decision, dec_hook=self._column)
            codec.validate(self._decision)
            fill_normalized_in_place(self._decision)
        except _DECODING_ERRORS as e:
            raise CodecError(f"base of a delta: {e}") from e

    def apply(self, changes: memoryview) -> tuple[Decision, Json]:
        """Return the decision that a delta describes, and the same as a document for encoding it as a whole frame.

        `changes` is the delta's MessagePack. In the document, patched columns are arrays and the other columns encoded
        bytes.
        """
        self._patched_bytes = 0
        try:
            check_decoded_size(changes)
            changed: Json = _deltas.decode(changes)
            shared: Json = {}
            for name in _COLUMNS:
                if name in changed:
                    changed[name] = self._patched(self._document[name], changed[name])
            for name in _PARTS:
                parts = shared[name] = list(getattr(self._decision, name))
                if name in changed:
                    documents = list(self._document[name])
                    for i, part_changes in changed[name].items():
                        part = documents[i]
                        more = {f: self._patched(part.get(f), value) for f, value in part_changes.items()}
                        documents[i] = parts[i] = part | more
                    changed[name] = documents
            document = self._document | changed
            decision = convert(vars(self._decision) | changed | shared, Decision, dec_hook=self._column)
            codec.validate(decision, self._decision)
        except _DECODING_ERRORS as e:
            raise CodecError(f"a delta does not fit its base: {e}") from e
        return fill_normalized_in_place(decision), document

    def _column(self, kind: type, value: object) -> Column:
        if isinstance(value, array):  # from `_patched`
            return value
        column = self._columns.get(id(value))
        return codec.decode_column(kind, value) if column is None else column

    def _patched(self, base: Any, change: Any) -> Any:
        """Return a field's value after a delta's change; a change that is no patch replaces the value.

        `base` is the field's value in the whole decision. Raises ValueError, TypeError or IndexError if a patch does
        not fit.
        """
        if not isinstance(change, bytes) or change[:1] != _PATCH:
            return change
        (length,) = _LENGTH.unpack_from(change, 1)
        entries_at = 1 + _LENGTH.size + length
        slots = codec.decode_column(array, change[1 + _LENGTH.size : entries_at])
        entries = codec.decode_column(array, change[entries_at:])
        if len(slots) != len(entries) or (slots and min(slots) < 0):
            raise ValueError("entries without their slots")
        column = self._column(array, base)
        self._patched_bytes += len(column) * _WIDEST_BYTES
        if self._patched_bytes > MAX_DECODED_BYTES:
            raise ValueError(f"its patches would take more than the limit of {MAX_DECODED_BYTES} bytes of memory")
        after = column[:]
        if len(slots) > SMALL_COLUMN:
            return _scatter(after, as_numpy(slots), as_numpy(entries))
        try:
            for slot, entry in zip(slots, entries, strict=True):
                after[slot] = entry
        except OverflowError:
            return _scatter(after, as_numpy(slots), as_numpy(entries))
        return after


def _scatter(column: Column, slots: NDArray[Any], entries: NDArray[Any]) -> Column:
    """Set `column[slots] = entries` in place and return the column, or a wider copy if an entry does not fit."""
    code = narrowest_typecode(int(entries.min()), int(entries.max()))
    if np.can_cast(np.dtype(code), np.dtype(column.typecode)):
        np.frombuffer(column, column.typecode)[slots] = entries
        return column
    wide = as_numpy(column).astype(np.int64)
    wide[slots] = entries
    return codec.column_from_numpy(wide)


def read_base_name(frame: bytes | memoryview) -> bytes | None:
    """Return the 8-byte name by which deltas refer to this frame, or None if the frame is not a whole decision."""
    return _read_name(frame) if frame[KIND_AT] == DECISION else None


def _read_name(decision: bytes | memoryview) -> bytes:
    """Return the name of a whole decision's frame: the length and the checksum in its header."""
    return bytes(decision[HEADER_BYTES - NAME_BYTES : HEADER_BYTES])


def find_base_name(frame: bytes | memoryview) -> bytes | None:
    """Return the 8-byte name of the frame to which this delta refers, or None if the frame is not a delta."""
    return bytes(frame[HEADER_BYTES : HEADER_BYTES + NAME_BYTES]) if frame[KIND_AT] == DELTA else None


def decode_all(data: bytes) -> Iterator[Frame]:
    """Yield every frame of a batch or spool segment, decoded and in order; deltas are resolved."""
    reader = DeltaReader()
    for _, frame in codec.split_frames(data):
        decoded, _ = reader.read(frame)
        yield fill_derived_in_place(decoded) if isinstance(decoded, Decision) else decoded


def insert_bases(bases: Iterable[bytes], batch: Sequence[bytes]) -> list[bytes]:
    """Return the frames of a batch with `bases` inserted before the first delta, or at the end if there is none.

    `bases` are the frames of decisions to which deltas of the batch refer.
    """
    first = next((i for i, frame in enumerate(batch) if frame[KIND_AT] == DELTA), len(batch))
    return [*batch[:first], *bases, *batch[first:]]


# --- encoding ---------------------------------------------------------------------------------------------------


def _diff(base: _Base, decision: Decision) -> Json | None:
    """Return the fields of a decision that differ from its base, or None if the node slots or plugins differ.

    For objects that the decision shares with the decision that was encoded last, that one's difference is reused.
    Raises CodecError if fields of the decision contradict each other.
    """
    before, last, now = vars(base.decision), vars(base.last), vars(decision)
    if before["slots"] != now["slots"]:
        return None
    changes: Json = {}
    for name in _FIELDS:
        value, base_value = now[name], before[name]
        if value is base_value:
            continue
        if value is last[name]:
            if name in base.last_changes:
                changes[name] = base.last_changes[name]
        elif name in _PARTS:
            parts = _diff_parts(base_value, value, last[name], base.last_changes.get(name, {}))
            if parts is None:
                return None
            if parts:
                changes[name] = parts
        else:
            _add_difference(changes, name, base_value, value)
    codec.validate(decision, base.last)
    return changes


def _diff_parts(
    base: Sequence[Part], parts: Sequence[Part], last: Sequence[Part], last_changes: Mapping[int, Json]
) -> dict[int, Json] | None:
    """Return the changed fields of each filter or score column, by its position, or None if the plugins differ.

    `base` are the base's columns. `last` and `last_changes` are those of the decision encoded last, to skip
    comparisons.
    """
    if len(base) != len(parts):
        return None
    changes = {}
    for i, (before, part, last_part) in enumerate(zip(base, parts, last, strict=True)):
        if part is before:
            continue
        if part is last_part:
            changed = last_changes.get(i)
        elif part.plugin != before.plugin:
            return None
        else:
            changed, fields_before = {}, vars(before)
            for name, value in vars(part).items():
                if value is not fields_before[name]:
                    _add_difference(changed, name, fields_before[name], value)
        if changed:
            changes[i] = changed
    return changes


def _add_difference(changes: Json, name: str, before: Any, now: Any) -> None:
    """Set `changes[name]` to the difference between a field's two values, if they differ."""
    if not isinstance(now, array):
        if now != before:
            changes[name] = now
    elif (difference := _diff_column(before, now)) is not None:
        changes[name] = difference


def _diff_column(base: Column, col: Column) -> bytes | None:
    """Return the encoded difference between a column and its base, or None if they are equal.

    The difference is a patch of single entries or, if that is not shorter, the whole column.
    """
    if len(col) != len(base) or col is DERIVED or base is DERIVED:
        return codec.encode_column(col)
    now, slots_code = as_numpy(col), narrowest_typecode(0, len(col))
    differs = now != as_numpy(base)
    count = np.count_nonzero(differs)
    if not count:
        return None
    if _PATCH_BYTES + count * (_DTYPES[slots_code].itemsize + col.itemsize) >= len(col) * col.itemsize:
        return codec.encode_column(col)
    (where,) = differs.nonzero()
    slots, entries = _encode_entries(slots_code, where), _encode_entries(col.typecode, now[where])
    return _PATCH + _LENGTH.pack(len(slots)) + slots + entries


def _encode_entries(code: str, values: NDArray[Any]) -> bytes:
    """Return integers encoded as `encode_column` does, in the column type `code`, which is known to hold them."""
    return code.encode() + values.astype(_DTYPES[code], copy=False).tobytes()


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=codec.encode_column)
_decoder: Final = msgspec.msgpack.Decoder()
_deltas: Final = msgpack_decoder(dict[str, Any])
