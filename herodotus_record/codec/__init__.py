"""Encode and decode frames: the bytes in which records are written to the spool, sent and stored.

Owns: the layout of a frame, its version, and validation on both ends. Does not own: batching and retries (the shipper),
storage (the endpoint). The kubectl plugin must not import it, because it needs msgspec, numpy and zstandard.

A frame is a 12-byte header and a payload::

    magic "HF" | version u8 | kind u8 | payload length u32 | CRC-32 of the payload u32     (little-endian)

The payload is MessagePack of the model's dataclass by field name. A column is one byte of type code and little-endian
entries. Frames follow each other without padding, so a spool segment and an uncompressed batch are the same bytes.

A column of type "=" is derived from others (`columns.fill_derived`). Frames of kind DELTA are decoded in `deltas`.

Readers ignore unknown fields; a new field needs a default. A new kind of frame, and any change that readers would
misread, needs a new version, which readers of other versions refuse by its number (`read_version`). The header does not
change, so a frame of any version can be found, forwarded and set aside.

Invariant: what `decode` returns satisfies `validate`; it refuses anything else with the reason, and before it takes
more memory than `decoded_size` allows.
"""

from __future__ import annotations

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

from herodotus_record.codec.columns import DERIVED as DERIVED
from herodotus_record.codec.columns import SMALL_COLUMN as SMALL_COLUMN
from herodotus_record.codec.columns import TYPECODES, fill_derived_in_place
from herodotus_record.codec.columns import as_numpy as as_numpy
from herodotus_record.codec.columns import column_from_list as column_from_list
from herodotus_record.codec.columns import column_from_numpy as column_from_numpy
from herodotus_record.codec.columns import fill_derived as fill_derived
from herodotus_record.codec.columns import find_feasible as find_feasible
from herodotus_record.codec.columns import narrowest_typecode as narrowest_typecode
from herodotus_record.codec.decoded_size import OversizedError, check_decoded_size
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
from herodotus_record.typed_decoding import msgpack_decoder

VERSION: Final = 1  # that is written and read
NEWEST_EVER: Final = 255  # version that the header can hold
CONTENT_TYPE: Final = "application/vnd.herodotus.frames"
MAX_FRAME_BYTES: Final = 64 << 20  # a 15,000-node decision with 10 score plugins in 64-bit columns is 3 MB
MAX_WINDOW_BYTES: Final = 8 << 20  # of zstd: every reader should allow it; this code writes a sixteenth of it
MAX_DIGITS: Final = 9  # decimals of a measurement; a float has 15 significant digits
MAX_SLOTS: Final = 1 << 17  # kube-scheduler is tested up to 5,000 nodes, kubemark went to 30,000
END_OF_TIME_S: Final = 253_402_300_800  # end of the year 9999, the last that timestamps can express
_PIECE_BYTES: Final = 1 << 20  # of decompression in pieces
ZSTD_LEVEL: Final = 1  # on these columns higher levels save 3% of the size and take five times as long

_HEADER: Final = struct.Struct("<2sBBII")
HEADER_BYTES: Final = _HEADER.size
DECISION: Final = 1  # the kind of frame with a whole decision
DELTA: Final = 6  # the kind of frame that is decoded together with its base
KIND_AT: Final = 3  # byte of the header
VERSION_AT: Final = 2
_MAGIC: Final = b"HF"
_KINDS: Final[dict[int, type[Frame]]] = {DECISION: Decision, 2: Outcome, 3: Gap, 4: NodeRows, 5: HighWater}
_KIND_OF: Final = {cls: kind for kind, cls in _KINDS.items()}
_CODES: Final = {code.encode(): code for code in TYPECODES}
_CODE_OF: Final = {code: name for name, code in _CODES.items()}
_DERIVED: Final = b"="
_UNSIGNED: Final = "BH"

Part = TypeVar("Part")


class CodecError(ValueError):
    """The bytes are not a valid frame, or fields of the frame contradict each other.

    The message says where and why.
    """


class UnknownVersionError(CodecError):
    """The frame has a format version that this code does not read."""


class TruncatedError(CodecError):
    """The bytes end inside a frame, because the spool is still being written or was cut off."""


def encode(frame: Frame) -> bytes:
    """Return a record (a frame object of `model`) encoded as the bytes of one frame.

    Raises CodecError if fields of the record contradict each other.
    """
    validate(frame)
    payload = _encoder.encode(frame)
    if len(payload) > MAX_FRAME_BYTES:
        raise CodecError(f"frame of {len(payload)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return build_frame(_KIND_OF[type(frame)], payload)


def build_frame(kind: int, payload: bytes) -> bytes:
    """Return a complete frame: a header for the payload, followed by the payload.

    It is for stores that keep payloads in another form and restore them without loss.
    """
    return _HEADER.pack(_MAGIC, VERSION, kind, len(payload), zlib.crc32(payload)) + payload


def split_frames(data: bytes | memoryview, offset: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Yield each frame in `data` from byte `offset` on, as a pair: the offset after the frame, and its undecoded bytes.

    Frames may have any version. Raises TruncatedError if the bytes end inside a frame, after yielding the complete
    ones; CodecError for anything else that is not a frame.
    """
    view = memoryview(data)
    while offset < len(view):
        end = _end_of_frame(view, offset)
        yield end, view[offset:end]
        offset = end


def _end_of_frame(view: memoryview, offset: int) -> int:
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
    return int(end + length)


def read_payload_length(header: memoryview) -> int | None:
    """Return the length of the payload that a frame's header states, or None if the header is not valid."""
    magic, _, _, length, _ = _HEADER.unpack_from(header)
    return length if magic == _MAGIC and length <= MAX_FRAME_BYTES else None


def find_frame(data: bytes, offset: int) -> int | None:
    """Return the offset of the first complete frame with a correct checksum at or after `offset`, or None."""
    view = memoryview(data)
    while (offset := data.find(_MAGIC, offset)) >= 0:
        with suppress(CodecError):
            verify_payload(view[offset : _end_of_frame(view, offset)])
            return offset
        offset += 1
    return None


def decode(frame: bytes | memoryview) -> Frame:
    """Decode and validate the bytes of exactly one frame; raise CodecError if they are anything else.

    A delta is refused too, because it can only be decoded together with its base (see `deltas`).
    """
    view = memoryview(frame)
    if (end := _end_of_frame(view, 0)) != len(view):
        raise CodecError(f"expected one frame, found {len(view) - end} more bytes")
    version, kind = read_version(view), view[KIND_AT]
    if kind not in _KINDS:
        raise CodecError(
            "a delta cannot be decoded without its base"
            if kind == DELTA
            else f"frame version {version} has no kind {kind}"
        )
    return decode_payload(kind, verify_payload(view))


def read_version(frame: memoryview) -> int:
    """Return the format version in a frame's header; raise UnknownVersionError if this code does not read it."""
    version = frame[VERSION_AT]
    if version != VERSION:
        raise UnknownVersionError(f"frame version {version} is not known to version {VERSION}")
    return version


def verify_payload(frame: memoryview) -> memoryview:
    """Return the payload of a complete frame; raise CodecError if its checksum does not match."""
    payload = frame[HEADER_BYTES:]
    if zlib.crc32(payload) != _HEADER.unpack_from(frame)[4]:
        raise CodecError("the payload's checksum does not match: damaged in transit or at rest")
    return payload


def decode_payload(kind: int, payload: bytes | memoryview) -> Frame:
    """Decode and validate the payload of a frame of the given kind; raise CodecError if it is not valid.

    It is for stores that keep payloads without their headers.
    """
    try:
        check_decoded_size(payload)
        decoded = _decoders[kind].decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OversizedError) as e:  # msgspec lets two through
        raise CodecError(f"{_KINDS[kind].__name__}: {e}") from e
    validate(decoded)
    if isinstance(decoded, Decision):
        decoded = fill_derived_in_place(decoded)
    return decoded


def compress(data: bytes) -> bytes:
    """Return the bytes compressed with zstd, for a batch to send or a frame to store."""
    return _zstd.compressor.compress(data)


def decompress(data: bytes, limit: int) -> bytes:
    """Return the bytes that `compress` compressed.

    Raises CodecError if `data` is not zstd, is truncated, or unpacks to more than `limit` bytes.
    """
    return b"".join(decompress_in_pieces(data, limit, limit))


def decompress_in_pieces(data: bytes, limit: int, at_once: int) -> Iterator[bytes]:
    """Yield the bytes that `compress` compressed, in pieces, or as one piece if `data` says that it is small.

    Small means at most `at_once` bytes; that takes half the time. Raises CodecError as `decompress` does, after the
    pieces before the damage or the limit.
    """
    try:
        announced = find_unpacked_size(data)
        if announced is not None and announced > limit:
            raise CodecError(f"unpacks to more than {limit} bytes")
        if announced is not None and 0 < announced <= at_once:
            with suppress(zstandard.ZstdError):  # several frames or damage: the reader below distinguishes them
                whole: bytes = _zstd.decompressor.decompress(data, allow_extra_data=False)
                yield whole
                return
        bounded = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        reader = bounded.stream_reader(data, read_across_frames=True)
        size = 0
        while piece := reader.read(min(_PIECE_BYTES, limit + 1 - size)):
            size += len(piece)
            if size > limit:
                raise CodecError(f"unpacks to more than {limit} bytes")
            yield piece
    except zstandard.ZstdError as e:
        raise CodecError(f"not zstd: {e}") from e
    if announced is not None and size < announced:  # a zstd stream reader ends without an error where data is cut off
        raise CodecError(f"cut off: unpacks to {size} of {announced} bytes")


def find_unpacked_size(data: bytes) -> int | None:
    """Return the number of bytes that zstd data announces for its first frame, or None if its writer did not know it.

    Raises CodecError if `data` is not zstd.
    """
    try:
        size: int = zstandard.frame_content_size(data)
    except zstandard.ZstdError as e:
        raise CodecError(f"not zstd: {e}") from e
    return size if size >= 0 else None


def validate(frame: Frame, validated: Decision | None = None) -> None:
    """Raise CodecError if fields of the record contradict each other; the message names the first such field.

    `validated` is a decision that was validated before. Parts that both share as the same objects are not validated
    again.
    """
    if isinstance(frame, Decision):
        _validate_decision(frame, validated)
    elif isinstance(frame, NodeRows):
        _validate_rows(frame)
    elif isinstance(frame, Gap) and frame.first > frame.last:
        raise CodecError("gap.first is after gap.last")


def _validate_decision(d: Decision, validated: Decision | None) -> None:
    slots = d.slots
    if not 0 <= slots <= MAX_SLOTS:
        raise CodecError(f"slots is {slots}, expected 0 to {MAX_SLOTS}")
    if validated is not None and validated.slots != slots:
        validated = None
    if validated is None or d.evaluation is not validated.evaluation:
        _check_length(len(d.evaluation) == slots, "evaluation", d.evaluation, slots)
        if slots and not _is_within(d.evaluation, len(Evaluation)):
            raise CodecError("evaluation holds an unknown value")
    for f in _not_in(d.filters, validated.filters if validated else ()):
        if not f.verdicts or f.verdicts[0].code != 0:
            raise CodecError(f"filters[{f.plugin}].verdicts does not start with Success")
        if f.ids:  # empty for most filters: every node passes
            _check_length(len(f.ids) == slots, "filters[{}].ids", f.ids, slots, f.plugin)
            if not _is_within(f.ids, len(f.verdicts)):
                raise CodecError(f"filters[{f.plugin}].ids names a verdict that is not there")
    for s in _not_in(d.scores, validated.scores if validated else ()):
        if s.raw:
            _check_length(len(s.raw) == slots, "scores[{}].raw", s.raw, slots, s.plugin)
        if s.normalized:
            _check_length(len(s.normalized) == slots, "scores[{}].normalized", s.normalized, slots, s.plugin)
    for i in d.inputs:
        _validate_inputs(i, slots)
    _check_length(not d.totals or len(d.totals) == slots, "totals", d.totals, slots)
    _check_length(len(d.rank) == slots or d.rank is DERIVED, "rank", d.rank, slots)
    if d.chosen is not None and not 0 <= d.chosen < slots:
        raise CodecError("chosen names a slot that is not there")
    if d.summary and [len(f.verdicts) for f in d.filters] != [len(counts) for counts in d.summary.verdicts]:
        raise CodecError("summary.verdicts does not count each verdict of each filter")
    # a log counts nodes that it does not name, and a summary counts nodes that it does not keep
    most = d.nodes_total if d.summary or d.key.source is Source.LOGGED else slots
    if not 0 <= d.nodes_feasible <= d.nodes_evaluated <= d.nodes_total <= most:
        raise CodecError("node counts are not in order")


def _not_in(parts: tuple[Part, ...], validated: tuple[Part, ...]) -> Sequence[Part]:
    """Return the parts that are not the same object as the part in the same position of `validated`.

    The parts are the filter or score columns of two decisions. If their numbers differ, all parts are returned.
    """
    if len(parts) != len(validated):
        return parts
    return [part for part, same in zip(parts, validated, strict=True) if part is not same]


def _validate_inputs(i: Inputs, slots: int) -> None:
    for number in i.numbers:
        _check_length(len(number.values) == slots, "inputs[{}].values", number.values, slots, i.plugin)
        _check_length(
            not number.lacking or len(number.lacking) == slots, "inputs[{}].lacking", number.lacking, slots, i.plugin
        )
        if not 0 <= number.digits <= MAX_DIGITS:
            raise CodecError(f"inputs[{i.plugin}]: {number.name} has {number.digits} digits, not 0 to {MAX_DIGITS}")
    _check_length(len(i.measured) in (0, 1, slots), "inputs[{}].measured", i.measured, slots, i.plugin)
    if not _is_within(i.measured, END_OF_TIME_S):
        raise CodecError(f"inputs[{i.plugin}].measured holds an invalid time")
    _check_length(not i.stale or len(i.stale) == slots, "inputs[{}].stale", i.stale, slots, i.plugin)


def _validate_rows(r: NodeRows) -> None:
    n = len(r.slot)
    if {*map(len, (r.since, r.name, r.uid, *r.allocatable, *r.requested))} != {n}:
        raise CodecError("node rows' columns have different lengths")
    if not len(r.allocatable) == len(r.requested) == len(r.resources):
        raise CodecError("node rows: expected one column for each resource")
    if not _is_within(r.slot, 1 << 24):
        raise CodecError("node rows: slot out of range")


def _is_within(col: Column, end: int) -> bool:
    """Return whether every entry of the column is at least 0 and less than `end`."""
    if not col:
        return True
    if len(col) <= SMALL_COLUMN:
        return max(col) < end and min(col) >= 0
    values = as_numpy(col)
    return int(values.max()) < end and (col.typecode in _UNSIGNED or int(values.min()) >= 0)


def _check_length(right: bool, name: str, col: Column, slots: int, plugin: str = "") -> None:
    """Raise CodecError, whose message has the column's name and length, unless `right` is true.

    The message is built only then, because a decision has forty columns. `{}` in `name` is replaced by `plugin`.
    """
    if not right:
        raise CodecError(f"{name.format(plugin)} has {len(col)} entries for {slots} slots")


def encode_column(value: object) -> bytes:
    """Return a column as the bytes that payloads contain: a type code and the entries.

    Raises NotImplementedError, as msgspec expects, if `value` is not a column.
    """
    if not isinstance(value, array):
        raise NotImplementedError(f"cannot encode {type(value).__name__}")
    if value is DERIVED:
        return _DERIVED
    if sys.byteorder == "big":
        value = array(value.typecode, value)
        value.byteswap()
    return _CODE_OF[value.typecode] + value.tobytes()


def decode_column(kind: type, value: object) -> Column:
    """Return the column that `encode_column` encoded.

    Raises ValueError, as msgspec expects, if `value` is not an encoded column.
    """
    if kind is not array:
        raise NotImplementedError(f"cannot decode {kind}")
    if not isinstance(value, bytes):
        raise ValueError(f"a column must be bytes, not {type(value).__name__}")
    if value == _DERIVED:
        return DERIVED
    code = _CODES.get(value[:1])
    if code is None:
        raise ValueError(f"unknown column type {value[:1].decode('latin-1')!r}")
    decoded = array(code)
    if len(value) == 1:  # half of a decision's columns are empty
        return decoded
    decoded.frombytes(memoryview(value)[1:])  # ValueError when the bytes are not a multiple of the width
    if sys.byteorder == "big":
        decoded.byteswap()
    return decoded


class _Zstd(threading.local):
    """The zstd compressor and decompressor of the current thread.

    Creating one takes longer than compressing a small frame, and two threads must not share one.
    """

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd: Final = _Zstd()
_hook: Callable[[type, Any], Any] = decode_column
_encoder: Final = msgspec.msgpack.Encoder(enc_hook=encode_column)
_decoders: Final = {kind: msgpack_decoder(cls, dec_hook=_hook) for kind, cls in _KINDS.items()}
