"""Parsing of requests by h11 in small steps, and the turns of the connections that have bytes to parse.

Owns: what of a request is refused before it costs work or memory, and how much is parsed at a step of the event loop.
Does not own: the phases of a connection (`connection`), the meaning of a request (`messages.HttpService`).

h11 parses a whole head, and the whole trailer section, as one event. A chunk is an event too, and costs the same with
one byte as with 64 KiB: 256 KiB of chunks of one byte took 0.3 s. So `ChunkMeter` reads the sizes of chunks first, for
a twentieth of that, and h11 gets what it has passed. Requests are parsed strictly as RFC 9112 permits:
section 2.2 lets a server refuse a line that ends with LF alone, section 5.2 a folded header line, and section 6.1 a
request with both Content-Length and Transfer-Encoding. Other servers on the way may read each of them differently.

Invariant: a step handles at most EVENTS_PER_STEP events of one connection, and a turn of all connections ends after
TURN_S seconds and one event.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

import h11

from herodotus_serving.limits import ListenerLimits

_log: Final = logging.getLogger(__name__)
EVENTS_PER_STEP: Final = 100  # 1 ms
TURN_S: Final = 0.005  # as long as another thread waits for the interpreter
CHUNKS_OF_ANY_SIZE: Final = 64  # of a body, before their mean size counts
MIN_CHUNK_BYTES: Final = 512  # in the mean; kube-apiserver's proxy sends up to 32 KiB at once
MAX_FRAMING_BYTES: Final = 4 << 10  # of a chunk's size and extensions, and of trailers
_HEAD_END: Final = b"\r\n\r\n"


class RequestParser:
    """The parser of one connection: keeps the bytes that arrived, and gives them to h11 in small parts."""

    def __init__(self, limits: ListenerLimits) -> None:
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.max_head)
        self.ended = False  # the client has closed its side
        self.received = 0  # bytes of all requests
        self._limits = limits
        self._unread = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._chunks: ChunkMeter | None = None  # of a chunked body
        self._trailer_bytes = 0

    @property
    def unread(self) -> int:
        """The number of bytes that arrived and were not passed to h11 yet."""
        return len(self._unread)

    @property
    def is_pipelined(self) -> bool:
        """Whether bytes of a further request arrived before the response to the current one."""
        return bool(self._unread or self.http.trailing_data[0])

    def receive(self, data: memoryview | bytes) -> None:
        """Store bytes that arrived, to be parsed by `next_event`."""
        self._unread += data
        self.received += len(data)

    def start_next_cycle(self) -> None:
        """Prepare for the next request of the connection."""
        self.http.start_next_cycle()
        self._begin()

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event of the request like h11's method of that name.

        Raises RemoteProtocolError if the request must be refused.
        """
        while True:
            if self.http.their_state is h11.IDLE and self._unread:
                return self._next_head()
            event = self.http.next_event()
            if event is not h11.NEED_DATA:
                return event
            size = self._next_size()
            if size:
                self._feed(size)
            elif self.ended and not self.http.trailing_data[1]:
                self._feed(len(self._unread))
                self.http.receive_data(b"")
            else:
                return h11.NEED_DATA

    def _next_size(self) -> int:
        """Return how many of the unread bytes to pass to h11 next.

        Raises RemoteProtocolError for chunks that are too small on average, and for extensions or trailers that are too
        long.
        """
        if self._chunks is None:
            return len(self._unread)
        if not self._chunks.ended:
            return self._chunks.measure(self._unread)
        size = min(MAX_FRAMING_BYTES, len(self._unread))
        self._trailer_bytes += size
        if self._trailer_bytes > MAX_FRAMING_BYTES:
            raise h11.RemoteProtocolError("the trailers are too long", 400)
        return size

    def _next_head(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the request line and headers as an event, or NEED_DATA if they have not arrived completely."""
        limits = self._limits
        end = self._unread.find(_HEAD_END)
        head = self._unread[: end + len(_HEAD_END)] if end >= 0 else self._unread
        lines = head.count(b"\r\n")
        if len(head) > limits.max_head:
            raise h11.RemoteProtocolError(f"the head is longer than {limits.max_head} bytes", 431)
        if lines > limits.max_headers + 2:
            raise h11.RemoteProtocolError(f"more than {limits.max_headers} headers", 431)
        if head.count(b"\n") > lines:
            raise h11.RemoteProtocolError("a line of the head ends with LF and not with CRLF", 400)
        if b"\r\n " in head or b"\r\n\t" in head:
            raise h11.RemoteProtocolError("a header is folded over several lines", 400)
        if head[0] < 0x21:
            raise h11.RemoteProtocolError("illegal request line", 400)
        if end < 0 and not self.ended:
            return h11.NEED_DATA
        self._feed(len(head))
        if end < 0:
            self.http.receive_data(b"")
        event = self.http.next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names:
                if b"content-length" in names:
                    raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding", 400)
                self._chunks = ChunkMeter()
        return event

    def _feed(self, size: int) -> None:
        self.http.receive_data(bytes(self._unread[:size]))
        del self._unread[:size]


class ChunkMeter:
    """The sizes of the chunks of one body, read before h11 parses them, so that tiny ones cost little.

    It refuses a body for its chunks' mean size and for long extensions, and leaves every other check to h11.
    """

    def __init__(self) -> None:
        self.ended = False  # the last chunk was passed: trailers follow, or what h11 refuses
        self._chunks = self._bytes = 0
        self._expected = 0  # bytes of the current chunk and its line end that have not arrived

    def measure(self, unread: bytearray) -> int:
        """Return the length of the part of `unread` to parse next, which ends between chunks or in a chunk's data.

        The part has at most EVENTS_PER_STEP chunks. Raises RemoteProtocolError if the body must be refused.
        """
        offset = 0
        for _ in range(EVENTS_PER_STEP):
            arrived = min(self._expected, len(unread) - offset)
            offset += arrived
            self._expected -= arrived
            end = unread.find(b"\r\n", offset, offset + MAX_FRAMING_BYTES)
            if self._expected or end < 0:
                break
            size = _parse_chunk_size(unread[offset:end])
            offset = end + 2
            if not size:
                self.ended = True
                break
            self._expected = size + 2
            self._count(size)
        if not self._expected and not self.ended and len(unread) - offset > MAX_FRAMING_BYTES:
            raise h11.RemoteProtocolError("the extensions of a chunk are too long", 400)
        return offset

    def _count(self, size: int) -> None:
        self._chunks += 1
        self._bytes += size
        if self._chunks > CHUNKS_OF_ANY_SIZE and self._bytes < self._chunks * MIN_CHUNK_BYTES:
            mean = self._bytes // self._chunks
            message = f"the first {self._chunks} chunks have {mean} bytes in the mean; send at least {MIN_CHUNK_BYTES}"
            raise h11.RemoteProtocolError(message, 400)


def _parse_chunk_size(line: bytearray) -> int:
    """Return the size in a chunk's first line.

    If the line has none, return 0, so that h11 gets the line and refuses it.
    """
    try:
        return max(0, int(line.partition(b";")[0], 16))
    except ValueError:
        return 0


class SteppedParser(Protocol):
    """A connection that parses in steps, for `ParsingQueue`."""

    peer: tuple[str, int]

    def parse_step(self, until: float) -> bool:
        """Handle at most EVENTS_PER_STEP events, and none after `until`; return whether more may follow at once."""

    def abort(self) -> None:
        """Close the connection immediately."""


class ParsingQueue:
    """The queue of connections that have bytes to parse. Not thread-safe: for use on the event loop.

    Client addresses take turns, and so do the connections of one: a client with many connections delays another one by
    a step. A turn of the queue ends after TURN_S seconds. The loop then serves its sockets and other callbacks before
    the next turn.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._by_address: dict[str, dict[SteppedParser, None]] = {}  # both in the order of turns
        self._scheduled = False

    def add(self, connection: SteppedParser) -> None:
        """Queue a connection for one turn of parsing; do nothing if it is queued already."""
        self._by_address.setdefault(connection.peer[0], {})[connection] = None
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _next(self) -> SteppedParser:
        """Remove and return the connection whose turn it is. Its client address goes to the end of the queue."""
        address = next(iter(self._by_address))
        connections = self._by_address.pop(address)
        connection = next(iter(connections))
        del connections[connection]
        if connections:
            self._by_address[address] = connections
        return connection

    def _run(self) -> None:
        until = self._loop.time() + TURN_S
        while self._by_address:
            connection = self._next()
            try:
                if connection.parse_step(until):
                    self.add(connection)
            except Exception:  # a fault of the server; the others take their turns
                _log.exception("closing a connection: parsing what it sent failed")
                connection.abort()
            if self._loop.time() >= until:
                break
        self._scheduled = bool(self._by_address)
        if self._scheduled:
            self._loop.call_soon(self._run)
