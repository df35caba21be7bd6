"""Requests are parsed in small steps, and refused before they cost more work or memory than their bytes are worth."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import cast

import h11
import pytest

from herodotus_serving.limits import ListenerLimits
from herodotus_serving.parsing import EVENTS_PER_STEP, MIN_CHUNK_BYTES, TURN_S, ParsingQueue, RequestParser

LIMITS = ListenerLimits()
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
PIECES = pytest.mark.parametrize("piece", [1, 7, 4096, 1 << 20], ids=lambda size: f"pieces-of-{size}")


def parse(sent: bytes, piece: int = 1 << 20, end: bool = True) -> tuple[list[h11.Event], str, int]:
    """Return the events of what a client sends in pieces, and the error and status that refuse it, or "" and 0."""
    parser, events = RequestParser(LIMITS), cast("list[h11.Event]", [])
    pieces = [sent[at : at + piece] for at in range(0, len(sent), piece)]
    try:
        for arrived in [*pieces, None] if end else pieces:
            if arrived is None:
                parser.ended = True
            else:
                parser.receive(arrived)
            while isinstance(event := parser.next_event(), h11.Event):
                events.append(event)
                if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    return events, "", 0
    except h11.RemoteProtocolError as e:
        return events, str(e), e.error_status_hint
    return events, "", 0


def chunk(size: int, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n" % (size, extension) + b"x" * size + b"\r\n"


def body_of(events: list[h11.Event]) -> bytes:
    return b"".join(bytes(event.data) for event in events if isinstance(event, h11.Data))


@PIECES
@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (CHUNKED + chunk(1) * 1000, 400, "chunks"),
        (CHUNKED + chunk(MIN_CHUNK_BYTES // 2) * 1000, 400, "chunks"),
        (CHUNKED + chunk(30_000) + chunk(1) * 1000, 400, "chunks"),
        (CHUNKED + chunk(1, b";" + b"e" * 10_000) * 3, 400, "extensions"),
        (CHUNKED + b"0\r\n" + b"a: b\r\n" * 3000 + b"\r\n", 400, "trailers"),
        (CHUNKED + b"0\r\na: " + b"b" * 10_000, 400, "trailers"),
        (POST + b"a: b\r\n" * 101 + b"\r\n", 431, "headers"),
        (POST + b"a:\r\n" * 8000 + b"\r\n", 431, ""),
        (POST + b"a: " + b"b" * 40_000 + b"\r\n\r\n", 431, "head"),
        (b"GET /" + b"x" * 40_000, 431, "head"),
        (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "both"),
        (POST + b"transfer-encoding: chunked\r\nCONTENT-LENGTH: 0\r\n\r\n0\r\n\r\n", 400, "both"),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400, "LF"),
        (b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400, "LF"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\n\r\n\r\n", 400, "LF"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400, "folded"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\tc\r\n\r\n", 400, "folded"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", 400, ""),
        (b"\x16\x03\x01\x02\x00\x01", 400, "request line"),
        (b"GET / HTTP/1.1\r\nHost", 400, "closed"),
    ],
)
def test_a_wasteful_or_ambiguous_request_is_refused_in_one_piece_or_many(
    sent: bytes, status: int, says: str, piece: int
) -> None:
    _, error, found = parse(sent, piece)
    assert (found, says in error) == (status, True), error


@PIECES
@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (POST + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (POST + b"Content-Length: 0\r\n\r\n", b""),
        (CHUNKED + chunk(1) * 60 + b"0\r\n\r\n", b"x" * 60),
        (CHUNKED + chunk(MIN_CHUNK_BYTES) * 70 + b"0\r\n\r\n", b"x" * MIN_CHUNK_BYTES * 70),
        (CHUNKED + chunk(8 << 10) * 3 + chunk(3) + b"0\r\n\r\n", b"x" * (3 * (8 << 10) + 3)),
        (CHUNKED + chunk(5, b";name=value") + b"0\r\nChecksum: 1\r\n\r\n", b"x" * 5),
        (POST + b"A: " + b"b" * 32_000 + b"\r\nContent-Length: 1\r\n\r\nx", b"x"),
        (POST + b"A: b\r\n" * 98 + b"Content-Length: 1\r\n\r\n\n", b"\n"),
    ],
    ids=["length", "empty", "few-chunks", "lines", "proxy", "extension", "long-head", "many-headers"],
)
def test_ordinary_requests_are_read_whole(sent: bytes, body: bytes, piece: int) -> None:
    events, error, _ = parse(sent, piece)
    assert error == ""
    assert isinstance(events[-1], h11.EndOfMessage)
    assert body_of(events) == body


def test_a_body_of_tiny_chunks_is_refused_before_a_chunk_is_parsed() -> None:
    events, _, status = parse(CHUNKED + chunk(1) * 100_000)
    assert (len(body_of(events)), status) == (0, 400)


@PIECES
@pytest.mark.parametrize("size", [b"+5", b"0x5", b"1_0", b"-5", b"", b";", b"g", b"1" * 21])
def test_a_malformed_chunk_size_is_refused(size: bytes, piece: int) -> None:
    _, error, status = parse(CHUNKED + chunk(20) + size + b"\r\nxxxxx\r\n0\r\n\r\n", piece)
    assert ("illegal chunk header" in error, status) == (True, 400)


class Endless:
    """A connection that always has more to parse, at some seconds a step."""

    def __init__(self, step_s: float = 0.0, address: str = "127.0.0.1") -> None:
        self.steps, self.step_s, self.peer = 0, step_s, (address, 1)

    def parse_step(self, until: float) -> bool:
        self.steps += 1
        time.sleep(self.step_s)
        return True

    def abort(self) -> None:
        raise AssertionError("nothing failed")


class Faulty:
    """A connection whose bytes cannot be parsed because of a fault of the server."""

    aborted, peer = False, ("127.0.0.1", 1)

    def parse_step(self, until: float) -> bool:
        raise ValueError("a fault")

    def abort(self) -> None:
        self.aborted = True


def test_a_fault_ends_its_own_connection_and_no_other_turn(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        turns = ParsingQueue(asyncio.get_running_loop())
        for connection in (faulty, other):
            turns.add(connection)
        for _ in range(3):
            await asyncio.sleep(0)

    faulty, other = Faulty(), Endless()
    asyncio.run(run())
    assert faulty.aborted
    assert other.steps >= 2
    assert "parsing what it sent failed" in caplog.text


def test_other_callbacks_run_between_turns_and_connections_alternate() -> None:
    async def run() -> list[float]:
        loop = asyncio.get_running_loop()
        turns = ParsingQueue(loop)
        for connection in connections:
            turns.add(connection)
            turns.add(connection)
        pauses, last = [], loop.time()
        for _ in range(20):
            await asyncio.sleep(0)
            now = loop.time()
            pauses.append(now - last)
            last = now
        return pauses

    connections = [Endless(0.002) for _ in range(32)]
    pauses = asyncio.run(run())
    assert sorted(pauses)[len(pauses) // 2] < 10 * TURN_S
    steps = [connection.steps for connection in connections]
    assert sum(steps) > 20
    assert max(steps) - min(steps) <= 1


def test_an_address_with_many_connections_delays_another_one_by_a_step() -> None:
    async def run() -> None:
        turns = ParsingQueue(asyncio.get_running_loop())
        for connection in (*strangers, ordinary):
            turns.add(connection)
        for _ in range(20):
            await asyncio.sleep(0)

    strangers, ordinary = [Endless(0.002, "127.0.0.2") for _ in range(32)], Endless(0.002)
    asyncio.run(run())
    assert abs(ordinary.steps - sum(connection.steps for connection in strangers)) <= 1
    assert ordinary.steps > 10


def test_a_step_handles_a_bounded_number_of_events() -> None:
    """The events of a body in chunks, which no step parses at once."""
    assert EVENTS_PER_STEP <= 100
    parser = RequestParser(LIMITS)
    parser.receive(CHUNKED + chunk(600) * 1000)
    began, slowest = time.process_time(), 0.0
    for _ in itertools.takewhile(lambda _: parser.unread, itertools.count()):
        step = time.process_time()
        for _ in range(EVENTS_PER_STEP):
            parser.next_event()
        slowest = max(slowest, time.process_time() - step)
    assert slowest < 0.05, time.process_time() - began
