"""An incremental parser of the API server's HTTP/1.1 responses.

Owns: where a response ends (its length, its chunks or the end of the connection). Does not own: connections
(`connection_pool`), the meaning of a response (`http`). Source: RFC 9112, sections 4 to 7, as far as servers use it
towards this client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_HEAD_BYTES: Final = 64 << 10  # an API server's is half a kilobyte
MAX_BODY_BYTES: Final = 16 << 20  # the answer to a write is one object
_CRLF: Final = b"\r\n"
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True)
class ApiResponse:
    """One HTTP response. Header names are in lower case.

    `last` says that the connection cannot be used for another request.
    """

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes
    last: bool


class NoResponseError(OSError):
    """The bytes received on a connection are not an HTTP response, or the connection ended before the response did."""


class ResponseParser:
    """Parses the bytes received on one connection into complete HTTP responses."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[int, str, dict[str, str], int] | None = None  # status, reason, headers, where the body begins

    @property
    def empty(self) -> bool:
        """Whether no byte of the next response has been received."""
        return not self._buffer

    def feed(self, piece: bytes) -> ApiResponse | None:
        """Take more bytes and return the response if they complete it, or None if more bytes are needed.

        Raise NoResponseError if the bytes are not HTTP or the response is too long.
        """
        self._buffer += piece
        while self._head is None:
            end = self._buffer.find(_END)
            if end < 0:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    raise NoResponseError("the answer's head has no end")
                return None
            status, reason, headers = _parse_head(bytes(self._buffer[:end]))
            if status < 200:  # on the way to the answer
                del self._buffer[: end + len(_END)]
                continue
            self._head = status, reason, headers, end + len(_END)
        if len(self._buffer) > MAX_BODY_BYTES:
            raise NoResponseError("the answer is too long")
        body = self._body(self._head[2], self._head[3])
        return None if body is None else self._finish(body)

    def finish(self) -> ApiResponse:
        """Return the response whose body ends with the connection. Call it when the server has closed the connection.

        Raise NoResponseError if the response is incomplete.
        """
        if self._head is None or "content-length" in self._head[2] or _is_chunked(self._head[2]):
            raise NoResponseError("the server closed the connection without an answer")
        return self._finish(bytes(self._buffer[self._head[3] :]), last=True)

    def _body(self, headers: dict[str, str], start: int) -> bytes | None:
        if _is_chunked(headers):
            return _join_chunks(self._buffer, start)
        length = headers.get("content-length")
        if length is None:
            return b"" if self._head is not None and self._head[0] in (204, 304) else None
        end = start + _parse_length(length, 10)
        return bytes(self._buffer[start:end]) if len(self._buffer) >= end else None

    def _finish(self, body: bytes, *, last: bool = False) -> ApiResponse:
        assert self._head is not None
        status, reason, headers, _ = self._head
        self._buffer.clear()  # nothing was asked beyond it
        self._head = None
        return ApiResponse(status, reason, headers, body, last or headers.get("connection", "").lower() == "close")


def _parse_head(head: bytes) -> tuple[int, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or len(status) != 3 or not (status.isascii() and status.isdecimal()):
        raise NoResponseError(f"not an HTTP answer: {first[:80]!r}")
    pairs = (line.partition(":") for line in lines)
    return int(status), reason, {name.lower(): value.strip() for name, _, value in pairs}


def _is_chunked(headers: dict[str, str]) -> bool:
    return headers.get("transfer-encoding", "").lower() == "chunked"


def _join_chunks(buffer: bytearray, offset: int) -> bytes | None:
    """Return the body of a chunked response whose chunks begin at `offset`, or None if the last chunk is missing.

    Trailers are ignored.
    """
    parts: list[bytes] = []
    while True:
        line = buffer.find(_CRLF, offset)
        if line < 0:
            return None
        length = _parse_length(bytes(buffer[offset:line]).partition(b";")[0].decode("latin-1"), 16)
        offset = line + len(_CRLF)
        if length == 0:
            return b"".join(parts) if buffer.find(_CRLF, offset) >= 0 else None
        if len(buffer) < offset + length + len(_CRLF):
            return None
        parts.append(bytes(buffer[offset : offset + length]))
        offset += length + len(_CRLF)


def _parse_length(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise NoResponseError(f"not a length: {text[:80]!r}")
    return number
