"""Unpack a batch of frames that a sender compressed, and refuse it before it takes more memory than allowed.

Owns: decompression in pieces, measuring each large frame as its pieces arrive. Does not own: decoding (`codec`,
`deltas`), how many batches are unpacked at the same time (`api.ingest`).

Invariant: of a frame that exceeds `decoded_size.MAX_DECODED_BYTES`, nothing is decompressed beyond the piece whose
headers say so.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from herodotus_record import codec
from herodotus_record.codec import DELTA, HEADER_BYTES, KIND_AT, CodecError
from herodotus_record.codec.decoded_size import SMALL_PAYLOAD_BYTES, OversizedError, PayloadMeter, measure_decoded_size
from herodotus_record.codec.deltas import NAME_BYTES
from herodotus_record.model import Frame

SMALL_BATCH_BYTES: Final = 4 << 20  # unpacked in one piece, which takes half the time

MAX_TOGETHER_BYTES: Final = 256 << 20  # a hundred decisions of 15,000 nodes are estimated at 180 MiB


class UnpackedBatch(NamedTuple):
    """The bytes of a batch's frames, and the memory that decoding the largest of them takes (0: all are small)."""

    frames: bytes
    decoded_bytes: int


def is_small(sent: bytes, *, compressed: bool) -> bool:
    """Return whether a batch certainly unpacks to at most SMALL_BATCH_BYTES. `compressed`: `sent` is zstd data."""
    with suppress(CodecError):
        size = codec.find_unpacked_size(sent) if compressed else len(sent)
        return size is not None and size <= SMALL_BATCH_BYTES
    return False


def unpack(sent: bytes, limit: int, *, compressed: bool) -> UnpackedBatch:
    """Return the decompressed frames of a batch with the memory that decoding its largest frame takes.

    `sent` is the batch, which is zstd data if `compressed` is true. Raises CodecError if it is not zstd, is truncated,
    unpacks to more than `limit` bytes, or has a frame that would take too much memory. After bytes that are no frame
    the rest is omitted; decoding reports them.
    """
    chunks = codec.decompress_in_pieces(sent, limit, SMALL_BATCH_BYTES) if compressed else (sent,)
    frames, meter = io.BytesIO(), _BatchMeter()
    for chunk in chunks:
        frames.write(chunk)
        with frames.getbuffer() as view:
            if not meter.read(view):
                break
    return UnpackedBatch(frames.getvalue(), meter.decoded_bytes)


def decode_together(frames: Iterable[bytes | memoryview]) -> Iterator[Frame]:
    """Decode whole frames that a caller keeps in memory at the same time, such as those of one answer.

    Raises CodecError at the first frame that is not valid, or with which the frames take more than MAX_TOGETHER_BYTES.
    """
    left = MAX_TOGETHER_BYTES
    for frame in frames:
        try:
            left -= measure_decoded_size(memoryview(frame)[HEADER_BYTES:], left)
        except OversizedError as e:
            raise CodecError(f"the frames would take more than {MAX_TOGETHER_BYTES} bytes of memory") from e
        yield codec.decode(frame)


class _BatchMeter:
    """Measures the frames of a batch while its bytes arrive."""

    def __init__(self) -> None:
        self.decoded_bytes = 0
        self._frames = 0
        self._end = 0  # of the present frame
        self._at = 0  # the next header of its payload
        self._meter: PayloadMeter | None = None  # of the present frame, unless it is small

    def read(self, view: memoryview) -> bool:
        """Measure the frames in `view`, all bytes of the batch so far, from where the last call ended.

        Return False after bytes that are no frame. Raises CodecError that names the first frame that takes too much
        memory.
        """
        while True:
            if self._meter is not None:
                try:
                    self._at = self._meter.read(view, self._at, min(self._end, len(view)))
                except OversizedError as e:
                    raise CodecError(f"frame {self._frames} of the batch: {e}") from e
                self.decoded_bytes = max(self.decoded_bytes, self._meter.size)
            if self._end + HEADER_BYTES > len(view):
                return True
            length = codec.read_payload_length(view[self._end :])
            if length is None:
                return False
            begin, self._frames = self._end + HEADER_BYTES, self._frames + 1
            self._at = begin + (NAME_BYTES if view[self._end + KIND_AT] == DELTA else 0)
            self._end = begin + length
            self._meter = PayloadMeter() if length > SMALL_PAYLOAD_BYTES else None
