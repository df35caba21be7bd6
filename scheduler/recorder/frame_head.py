"""The fields of a frame from which the reader knows whether an earlier frame is missing, without decoding the rest.

Owns: which fields these are, by kind of frame. Does not own: what missing sequence numbers mean (`spool_reader`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from herodotus_record import codec
from herodotus_record.codec import DELTA, HEADER_BYTES, KIND_AT, VERSION_AT, deltas
from herodotus_record.typed_decoding import msgpack_decoder


class FrameHead(msgspec.Struct):
    """The fields of one frame (encoded record) that identify it and name the earlier frames it needs.

    `sequence` is 0 for node rows, which have no sequence number.
    """

    incarnation: str = ""
    sequence: int = 0
    gap: tuple[int, int] | None = None  # the sequences that a gap record says are lost
    rows: tuple[int, int] | None = None  # of node rows: the generations before and after them
    needs: int | None = None  # of a decision: the generation of the node table that it saw
    base: bytes | None = None  # of a delta: the frame that it differs from


class _Key(msgspec.Struct):
    incarnation: str


class _Decision(msgspec.Struct):
    key: _Key
    sequence: int
    generation: int


class _Delta(msgspec.Struct):
    sequence: int
    key: _Key | None = None
    generation: int | None = None  # None: its base's


class _Outcome(msgspec.Struct):
    incarnation: str
    sequence: int
    decision_id: str


class _Gap(msgspec.Struct):
    incarnation: str
    sequence: int
    first: int
    last: int


class _Rows(msgspec.Struct):
    incarnation: str
    base: int
    generation: int


class _HighWater(msgspec.Struct):
    incarnation: str
    sequence: int
    of: str


_KINDS: Final[dict[int, type[msgspec.Struct]]] = {
    1: _Decision,
    2: _Outcome,
    3: _Gap,
    4: _Rows,
    5: _HighWater,
    DELTA: _Delta,
}
_DECODERS: Final = {kind: msgpack_decoder(fields) for kind, fields in _KINDS.items()}


def read_head(frame: memoryview, newest: int = codec.VERSION) -> FrameHead | None:
    """Return the identifying fields of a frame whose checksum was verified. Raise CodecError if it is malformed.

    Return None for a frame of a later version, up to `newest`, that cannot be read here; it is delivered unchanged. The
    checksum does not cover the header: a changed kind is detected because the fields do not match.
    """
    version = frame[VERSION_AT]
    if not codec.VERSION <= version <= newest:
        raise codec.CodecError(f"frame version {version} is not known")
    try:
        return _read(frame)
    except codec.CodecError:
        if version > codec.VERSION:
            return None
        raise


def _read(frame: memoryview) -> FrameHead:
    decoder = _DECODERS.get(frame[KIND_AT])
    if decoder is None:
        raise codec.CodecError(f"there is no kind {frame[KIND_AT]}")
    base = deltas.find_base_name(frame)
    payload = frame[HEADER_BYTES + (len(base) if base is not None else 0) :]
    try:
        return _head(decoder.decode(payload), base)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise codec.CodecError(f"not a frame of kind {frame[KIND_AT]}: {e}") from e


def _head(read: object, base: bytes | None) -> FrameHead:
    match read:
        case _Decision():
            return FrameHead(read.key.incarnation, read.sequence, needs=read.generation)
        case _Delta():
            incarnation = read.key.incarnation if read.key is not None else ""
            return FrameHead(incarnation, read.sequence, needs=read.generation, base=base)
        case _Gap():
            return FrameHead(read.incarnation, read.sequence, gap=(read.first, read.last))
        case _Rows():
            return FrameHead(read.incarnation, rows=(read.base, read.generation))
        case _Outcome() | _HighWater():
            return FrameHead(read.incarnation, read.sequence)
    raise AssertionError(read)
