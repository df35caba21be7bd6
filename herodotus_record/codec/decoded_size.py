"""Estimate the memory that decoding MessagePack takes, from its headers and before any object is built.

Owns: the size of decoded objects per header, and the limit. Does not own: frames (`codec`), which requests run at the
same time (`herodotus_serving.memory`).

One byte of MessagePack can become a dictionary, and five bytes can announce four billion strings. The estimate adds up
what the headers announce, so that a payload is refused at the first header that exceeds the limit.

Invariant: `PayloadMeter.size` is at least the memory of the objects that msgspec builds from the bytes that were read.
"""

from __future__ import annotations

from typing import Final

# The largest payloads are node rows: those of 30,000 nodes are estimated at 20 MiB.
MAX_DECODED_BYTES: Final = 64 << 20
# A smaller payload is not read in advance: a byte becomes at most 80, as an empty map, so it takes at most 10 MiB.
# Reading takes 0.07 ms for a decision of 15,000 nodes, and three times as long as decoding for many short strings.
SMALL_PAYLOAD_BYTES: Final = 128 << 10
# Upper bounds in bytes, measured with CPython 3.11 to 3.13. A list and the tuple made of it exist at the same time.
_SCALAR: Final = 32
_TEXT: Final = 80  # and up to four bytes for each byte of UTF-8
_BINARY: Final = 48  # and two for each byte, because a column is copied into an array
_ARRAY: Final = 72
_ARRAY_ITEM: Final = 18
_MAP: Final = 256  # a dictionary with one entry, or a dataclass with thirty fields
_MAP_ENTRY: Final = 104


class OversizedError(ValueError):
    """The payload would take more memory than allowed. The message says how much."""


class PayloadMeter:
    """Reads the headers of one MessagePack value, in pieces if needed, and adds up the memory of its objects."""

    def __init__(self, limit: int = MAX_DECODED_BYTES) -> None:
        """Start before the first byte. `read` raises OversizedError once the estimate exceeds `limit` bytes."""
        self.size = 0
        self._limit = limit
        self._due = 1  # values that were announced and not read

    def read(self, data: bytes | bytearray | memoryview, at: int, end: int) -> int:
        """Measure the values between the offsets `at` and `end`, and return the offset of the next value's header.

        The result is beyond `end` if a text or column ends there. When more bytes are there, call this again with the
        result. Damage is not detected here: decoding refuses it. Raises OversizedError if the limit is exceeded.
        """
        size, due, limit = self.size, self._due, self._limit
        while due > 0 and at < end:
            header = _HEADERS[data[at]]
            if header.width:
                begin = at + 1 + header.width
                if begin > end:
                    break
                length = int.from_bytes(data[at + 1 : begin], "big")
                at = begin + length * header.bytes_per_unit + header.extra
                due += length * header.values_per_unit - 1
                size += header.cost + length * header.cost_per_unit
            else:
                at += header.extra
                due += header.values_per_unit - 1
                size += header.cost
            if size > limit:
                raise OversizedError(f"decoding it would take more than the limit of {limit} bytes of memory")
        self.size, self._due = size, due
        return at


class _Header:
    """What the first byte of a MessagePack value announces.

    `width` is the number of bytes of the length that follows, or 0 if the first byte contains it. `extra` bytes belong
    to the value, besides `bytes_per_unit` for each unit of the length; without a length it includes the first byte.
    """

    __slots__ = ("bytes_per_unit", "cost", "cost_per_unit", "extra", "values_per_unit", "width")

    def __init__(
        self, cost: int, extra: int, *, width: int = 0, cost_per_unit: int = 0, values_per_unit: int = 0
    ) -> None:
        self.width = width
        self.cost = cost
        self.extra = extra
        self.cost_per_unit = cost_per_unit
        self.values_per_unit = values_per_unit
        self.bytes_per_unit = 0 if values_per_unit else 1


def _build_headers() -> list[_Header]:
    """Return a list with the header for each possible first byte, 0 to 255, by the MessagePack specification."""
    headers = [_Header(_SCALAR, 1)] * 256  # small integers, nil, booleans
    for n in range(16):
        headers[0x80 + n] = _Header(_MAP + n * _MAP_ENTRY, 1, values_per_unit=2 * n)
        headers[0x90 + n] = _Header(_ARRAY + n * _ARRAY_ITEM, 1, values_per_unit=n)
    for n in range(32):
        headers[0xA0 + n] = _Header(_TEXT + 4 * n, 1 + n)
    for i, width in enumerate((1, 2, 4)):
        headers[0xC4 + i] = _Header(_BINARY, 0, width=width, cost_per_unit=2)
        headers[0xC7 + i] = _Header(_MAP, 1, width=width, cost_per_unit=2)  # an extension, whose type follows
        headers[0xD9 + i] = _Header(_TEXT, 0, width=width, cost_per_unit=4)
    for first, scalar_bytes in ((0xCA, (4, 8)), (0xCC, (1, 2, 4, 8)), (0xD0, (1, 2, 4, 8))):
        for i, n in enumerate(scalar_bytes):
            headers[first + i] = _Header(_SCALAR, 1 + n)
    for i in range(5):
        headers[0xD4 + i] = _Header(_MAP, 2 + (1 << i))
    for i, width in enumerate((2, 4)):
        headers[0xDC + i] = _Header(_ARRAY, 0, width=width, cost_per_unit=_ARRAY_ITEM, values_per_unit=1)
        headers[0xDE + i] = _Header(_MAP, 0, width=width, cost_per_unit=_MAP_ENTRY, values_per_unit=2)
    return headers


def measure_decoded_size(payload: bytes | memoryview, limit: int = MAX_DECODED_BYTES) -> int:
    """Return an upper bound of the memory in bytes that the decoded payload takes.

    Raises OversizedError if that is more than `limit`.
    """
    meter = PayloadMeter(limit)
    meter.read(payload, 0, len(payload))
    return meter.size


def check_decoded_size(payload: bytes | memoryview) -> None:
    """Raise OversizedError if the decoded payload may take more than MAX_DECODED_BYTES.

    A payload of at most SMALL_PAYLOAD_BYTES never does and is not measured.
    """
    if len(payload) > SMALL_PAYLOAD_BYTES:
        measure_decoded_size(payload)


_HEADERS: Final = _build_headers()
