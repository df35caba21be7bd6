"""Frames: the bytes in which decisions, outcomes, gaps and node rows are spooled, shipped and stored.

Owns: one frame's layout, its version, and validation on both ends. Does not own: batching and retry (the shipper),
storage (the endpoint). Never imported by the plugin: it needs msgspec, numpy and zstandard.

A frame is a 12-byte header and a payload::

    magic "HF" | version u8 | kind u8 | payload length u32 | CRC-32 of the payload u32     (little-endian)

The payload is MessagePack of the model's dataclass by field name, columns as one byte of type code and little-endian
entries. Frames follow each other without padding: a spool segment and an uncompressed batch are the same bytes.

Versions: unknown fields are ignored, so that a reader one version behind can read on; a new field needs a default. A
new kind of frame, and whatever older readers must not misread, needs a new version, and with it a step in `_BEFORE`:
how the same is said in the version before, or that it cannot be. The header does not change: a frame of any version can
be found, passed on and set aside. A service tells what it reads (`accepted`), and a shipper says it so (`restated`). A
frame is written in the oldest version that can say it.

1. Everything is said.
2. A column of type "=" is not: it follows (`columns.complete`). Frames of kind DELTA (`deltas`).

Invariant: what `decode` returns satisfies `validate`; what does not is refused with the reason.
"""

from __future__ import annotations

import re
import struct
import sys
import threading
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
import zstandard

from herodotus_record.codec.columns import FEW as FEW
from herodotus_record.codec.columns import FOLLOWS as FOLLOWS
from herodotus_record.codec.columns import TYPECODES, filled
from herodotus_record.codec.columns import as_numpy as as_numpy
from herodotus_record.codec.columns import column as column
from herodotus_record.codec.columns import column_of as column_of
from herodotus_record.codec.columns import complete as complete
from herodotus_record.codec.columns import typecode as typecode
from herodotus_record.model import (
    Column,
    Decision,
    Evaluation,
    Frame,
    Gap,
    HighWater,
    Inputs,
    NodeRows,
    Outcome,
    Source,
)

OLDEST: Final = 1  # that is read
VERSION: Final = 2  # the newest that is written and read
NEWEST_EVER: Final = 255  # that the header can name
CONTENT_TYPE: Final = "application/vnd.herodotus.frames"
MAX_FRAME_BYTES: Final = 64 << 20  # a 15,000-node decision with 10 score plugins in 64-bit columns is 3 MB
MAX_WINDOW_BYTES: Final = 8 << 20  # of zstd: what every reader should allow, and sixteen times what we write
MAX_DIGITS: Final = 9  # decimals of an input: a float has 15 in all
END_OF_TIME_S: Final = 253_402_300_800  # of the year 9999, beyond which dates cannot be written
ZSTD_LEVEL: Final = 1  # higher levels cost five times the time for three per cent of size on these columns

_HEADER: Final = struct.Struct("<2sBBII")
HEADER_BYTES: Final = _HEADER.size
DELTA: Final = 6  # a kind of frame that is read together with another one
KIND_AT: Final = 3  # of the header
_VERSION_AT: Final = 2
_MAGIC: Final = b"HF"
# By version: a frame of it as the version before says it. UnknownVersionError for what that cannot say.
_BEFORE: Final[dict[int, Callable[[Frame], Frame]]] = {2: lambda frame: frame}  # what was decoded is complete
_KINDS: Final[dict[int, type[Frame]]] = {1: Decision, 2: Outcome, 3: Gap, 4: NodeRows, 5: HighWater}
_KIND_OF: Final = {cls: kind for kind, cls in _KINDS.items()}
_CODES: Final = {code.encode(): code for code in TYPECODES}
_CODE_OF: Final = {code: said for said, code in _CODES.items()}
_FOLLOWS: Final = b"="
_UNSIGNED: Final = "BH"

Part = TypeVar("Part")


class CodecError(ValueError):
    """Bytes that are no frame, or a frame that contradicts itself. The message says where and why."""


class UnknownVersionError(CodecError):
    """A frame of a version that is not read here, or that cannot be said in another."""


class TruncatedError(CodecError):
    """The bytes end inside a frame: a spool that is still being written, or one that was cut off."""


def encode(frame: Frame) -> bytes:
    """One frame as bytes. CodecError when it contradicts itself."""
    return _encoded(frame, _needs(frame))


def _needs(frame: Frame) -> int:
    """The oldest version that can say it."""
    if not isinstance(frame, Decision):
        return 1
    return 2 if frame.rank is FOLLOWS or any(s.normalized is FOLLOWS for s in frame.scores) else 1


def _encoded(frame: Frame, version: int) -> bytes:
    validate(frame)
    payload = _encoder.encode(frame)
    if len(payload) > MAX_FRAME_BYTES:
        raise CodecError(f"frame of {len(payload)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return framed(_KIND_OF[type(frame)], payload, version)


def framed(kind: int, payload: bytes, version: int = OLDEST) -> bytes:
    """A payload behind its header: for keepers of payloads in a form of their own, who leave nothing out of them."""
    return _HEADER.pack(_MAGIC, version, kind, len(payload), zlib.crc32(payload)) + payload


def accepted() -> str:
    """What is read here, as HTTP says it (`Accept`)."""
    return f"{CONTENT_TYPE};version={VERSION}"


def newest_of(accept: str) -> int | None:
    """The newest version that an `Accept` of the other end names; None where it names none."""
    said = re.search(rf"{re.escape(CONTENT_TYPE)}\s*;\s*version=(\d{{1,3}})\b", accept)
    return int(said[1]) if said else None


def restated(frame: bytes, version: int) -> bytes:
    """The same frame for a reader of nothing newer than `version`.

    UnknownVersionError where that version cannot say it, or where the frame is too new for us to know.
    """
    written = frame[_VERSION_AT]
    if written <= version:
        return frame
    said = decode(frame)
    for newer in range(written, version, -1):
        if newer not in _BEFORE:
            raise UnknownVersionError(f"what version {newer} says in this frame cannot be said in version {newer - 1}")
        said = _BEFORE[newer](said)
    return _encoded(said, version)


def split(data: bytes | memoryview, offset: int = 0) -> Iterator[tuple[int, memoryview]]:
    """The frames in `data` from `offset` on, of any version, undecoded: (offset behind the frame, the frame's bytes).

    TruncatedError when the bytes end inside a frame, after the whole ones were yielded; CodecError on anything else
    that is not a frame.
    """
    view = memoryview(data)
    while offset < len(view):
        end = offset + _HEADER.size
        if end > len(view):
            raise TruncatedError(f"at byte {offset}: the header is cut off")
        magic, _, _, length, _ = _HEADER.unpack_from(view, offset)
        if magic != _MAGIC:
            raise CodecError(f"at byte {offset}: no frame starts here")
        if length > MAX_FRAME_BYTES:
            raise CodecError(f"at byte {offset}: a payload of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
        if end + length > len(view):
            raise TruncatedError(f"at byte {offset}: {length} bytes of payload announced, {len(view) - end} there")
        yield end + length, view[offset : end + length]
        offset = end + length


def decode(frame: bytes | memoryview) -> Frame:
    """The one frame in these bytes, validated. CodecError otherwise."""
    view = memoryview(frame)
    ends = [end for end, _ in split(view)]
    if ends != [len(view)]:
        raise CodecError(f"expected one frame, found {len(ends)}")
    version, kind = version_of(view), view[KIND_AT]
    if kind not in _KINDS:
        raise CodecError(
            "a decision that says only what differs from another"
            if kind == DELTA
            else f"frame version {version} has no kind {kind}"
        )
    return decode_payload(kind, checked_payload(view))


def version_of(frame: memoryview) -> int:
    """The version of a whole frame. UnknownVersionError when it is not read here."""
    version = frame[_VERSION_AT]
    if not OLDEST <= version <= VERSION:
        raise UnknownVersionError(f"frame version {version} is not known to version {VERSION}")
    return version


def checked_payload(frame: memoryview) -> memoryview:
    """What follows a whole frame's header. CodecError when it is not what was written."""
    payload = frame[HEADER_BYTES:]
    if zlib.crc32(payload) != _HEADER.unpack_from(frame)[4]:
        raise CodecError("the payload's checksum does not match: damaged in transit or at rest")
    return payload


def decode_payload(kind: int, payload: bytes | memoryview) -> Frame:
    """What follows a frame's header, validated: for readers that keep payloads in a form of their own."""
    try:
        decoded = _decoders[kind].decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:  # the latter is not wrapped by msgspec
        raise CodecError(f"{_KINDS[kind].__name__}: {e}") from e
    if isinstance(decoded, Decision):
        decoded = completed(decoded)
    else:
        validate(decoded)
    return decoded


def completed(decision: Decision, known: Decision | None = None) -> Decision:
    """As `filled`, of what came from outside. CodecError when it contradicts itself. `known`: as `validate`."""
    validate(decision, known)
    return filled(decision)


def compress(data: bytes) -> bytes:
    """A batch for the wire, or a frame at rest (zstd)."""
    return _zstd.compressor.compress(data)


def decompress(data: bytes, limit: int) -> bytes:
    """The bytes behind `compress`. CodecError when they are no zstd, cut off, or unpack to more than `limit` bytes."""
    try:
        announced = zstandard.frame_content_size(data)  # -1 where the writer did not know it
        if announced > limit:
            raise CodecError(f"unpacks to more than {limit} bytes")
        if announced > 0:
            with suppress(zstandard.ZstdError):  # several frames, or damage: the reader below tells them apart
                whole: bytes = _zstd.decompressor.decompress(data, allow_extra_data=False)  # half the time
                return whole
        bounded = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        reader = bounded.stream_reader(data, read_across_frames=True)
        plain = reader.read(limit + 1)
    except zstandard.ZstdError as e:
        raise CodecError(f"not zstd: {e}") from e
    if len(plain) > limit:
        raise CodecError(f"unpacks to more than {limit} bytes")
    if len(plain) < announced:  # a reader of zstd streams takes what there is, and says nothing
        raise CodecError(f"cut off: unpacks to {len(plain)} of {announced} bytes")
    return plain


def validate(frame: Frame, known: Decision | None = None) -> None:
    """CodecError naming the first field that contradicts the others.

    `known`: a decision that was validated; what both share as the same objects is not looked at again.
    """
    if isinstance(frame, Decision):
        _validate_decision(frame, known)
    elif isinstance(frame, NodeRows):
        _validate_rows(frame)
    elif isinstance(frame, Gap) and frame.first > frame.last:
        raise CodecError("gap.first is after gap.last")


def _validate_decision(d: Decision, known: Decision | None) -> None:
    slots = d.slots
    if known is not None and known.slots != slots:
        known = None
    if known is None or d.evaluation is not known.evaluation:
        _check(len(d.evaluation) == slots, "evaluation", d.evaluation, slots)
        if slots and not _within(d.evaluation, len(Evaluation)):
            raise CodecError("evaluation holds an unknown value")
    for f in _unknown(d.filters, known.filters if known else ()):
        if not f.verdicts or f.verdicts[0].code != 0:
            raise CodecError(f"filters[{f.plugin}].verdicts does not start with Success")
        if f.ids:  # of most filters every node passes
            _check(len(f.ids) == slots, "filters[{}].ids", f.ids, slots, f.plugin)
            if not _within(f.ids, len(f.verdicts)):
                raise CodecError(f"filters[{f.plugin}].ids names a verdict that is not there")
    for s in _unknown(d.scores, known.scores if known else ()):
        if s.raw:
            _check(len(s.raw) == slots, "scores[{}].raw", s.raw, slots, s.plugin)
        if s.normalized:
            _check(len(s.normalized) == slots, "scores[{}].normalized", s.normalized, slots, s.plugin)
    for i in d.inputs:
        _validate_inputs(i, slots)
    _check(not d.totals or len(d.totals) == slots, "totals", d.totals, slots)
    _check(len(d.rank) == slots or d.rank is FOLLOWS, "rank", d.rank, slots)
    if d.chosen is not None and not 0 <= d.chosen < slots:
        raise CodecError("chosen names a slot that is not there")
    if d.summary and [len(f.verdicts) for f in d.filters] != [len(counts) for counts in d.summary.verdicts]:
        raise CodecError("summary.verdicts does not count each verdict of each filter")
    # a log counts nodes that it never names, and a summary those that it no longer keeps
    most = d.nodes_total if d.summary or d.key.source is Source.LOGGED else slots
    if not 0 <= d.nodes_feasible <= d.nodes_evaluated <= d.nodes_total <= most:
        raise CodecError("node counts are not in order")


def _unknown(parts: tuple[Part, ...], known: tuple[Part, ...]) -> Sequence[Part]:
    """The parts that are not the very objects that are known in their places."""
    if len(parts) != len(known):
        return parts
    return [part for part, same in zip(parts, known, strict=True) if part is not same]


def _validate_inputs(i: Inputs, slots: int) -> None:
    for number in i.numbers:
        _check(len(number.values) == slots, "inputs[{}].values", number.values, slots, i.plugin)
        _check(
            not number.lacking or len(number.lacking) == slots, "inputs[{}].lacking", number.lacking, slots, i.plugin
        )
        if not 0 <= number.digits <= MAX_DIGITS:
            raise CodecError(f"inputs[{i.plugin}]: {number.name} has {number.digits} digits, not 0 to {MAX_DIGITS}")
    _check(len(i.measured) in (0, 1, slots), "inputs[{}].measured", i.measured, slots, i.plugin)
    if not _within(i.measured, END_OF_TIME_S):
        raise CodecError(f"inputs[{i.plugin}].measured holds what is no moment")
    _check(not i.stale or len(i.stale) == slots, "inputs[{}].stale", i.stale, slots, i.plugin)


def _validate_rows(r: NodeRows) -> None:
    n = len(r.slot)
    if {len(c) for c in (r.since, r.name, r.uid, *r.allocatable, *r.requested)} != {n}:
        raise CodecError("node rows' columns have different lengths")
    if not len(r.allocatable) == len(r.requested) == len(r.resources):
        raise CodecError("node rows: one column a resource is expected")
    if not _within(r.slot, 1 << 24):
        raise CodecError("node rows: slot out of range")


def _within(col: Column, end: int) -> bool:
    """Whether every entry is in 0..end-1."""
    if not col:
        return True
    if len(col) <= FEW:
        return max(col) < end and min(col) >= 0
    values = as_numpy(col)
    return int(values.max()) < end and (col.typecode in _UNSIGNED or int(values.min()) >= 0)


def _check(right: bool, name: str, col: Column, slots: int, plugin: str = "") -> None:
    """The words are put together only where they are needed: there are forty columns in a decision."""
    if not right:
        raise CodecError(f"{name.format(plugin)} has {len(col)} entries for {slots} slots")


def encode_column(value: object) -> bytes:
    """A column as payloads have it. For msgspec: NotImplementedError for what is none."""
    if not isinstance(value, array):
        raise NotImplementedError(f"cannot encode {type(value).__name__}")
    if value is FOLLOWS:
        return _FOLLOWS
    if sys.byteorder == "big":
        value = array(value.typecode, value)
        value.byteswap()
    return _CODE_OF[value.typecode] + value.tobytes()


def decode_column(kind: type, value: object) -> Column:
    """The column that `encode_column` was given. For msgspec: ValueError for bytes that are none."""
    if kind is not array:
        raise NotImplementedError(f"cannot decode {kind}")
    if not isinstance(value, bytes):
        raise ValueError(f"a column must be bytes, not {type(value).__name__}")
    if value == _FOLLOWS:
        return FOLLOWS
    code = _CODES.get(value[:1])
    if code is None:
        raise ValueError(f"unknown column type {value[:1].decode('latin-1')!r}")
    decoded = array(code)
    if len(value) == 1:  # half of a decision's columns say nothing
        return decoded
    decoded.frombytes(memoryview(value)[1:])  # ValueError when the bytes are not a multiple of the width
    if sys.byteorder == "big":
        decoded.byteswap()
    return decoded


class _Zstd(threading.local):
    """Each thread's own: making one takes longer than packing a small frame, and two threads must not share one."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd: Final = _Zstd()
_hook: Callable[[type, Any], Any] = decode_column
_encoder: Final = msgspec.msgpack.Encoder(enc_hook=encode_column)
_decoders: Final = {kind: msgspec.msgpack.Decoder(cls, dec_hook=_hook) for kind, cls in _KINDS.items()}
