"""Ingest over HTTP, whatever a sender does: an answer that is no 500 or an end, bounded memory, nobody else held up.

The service is a process of its own, so that its memory can be told from ours. HERODOTUS_FUZZ_EXAMPLES: how many bodies
are made up (`make fuzz`: 20,000).
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_endpoint.api import ingest
from herodotus_record import codec
from tests.builders import a_decision, a_table, bound
from tests.endpoint.service import rows
from tests.processes import Process, eventually

EXAMPLES = int(os.environ.get("HERODOTUS_FUZZ_EXAMPLES", "150"))
ARRIVAL_S = 2.0  # instead of 30: tests wait for it
SENDERS = 80  # more than there are threads for requests, watches, reviews and polls together
PLACES = 4  # batches that are taken in at the same time
# What so many batches may hold, as sent and unpacked, and some room.
MOST_BYTES = PLACES * (ingest.MAX_BODY_BYTES + ingest.MAX_UNPACKED_BYTES) + (64 << 20)
IMPATIENT = (
    "import sys, functools; from herodotus_endpoint import options; from herodotus_endpoint.__main__ import main;"
    "from herodotus_serving.limits import ListenerLimits;"
    f"options.ListenOptions = functools.partial(options.ListenOptions, limits=ListenerLimits(request_s={ARRIVAL_S}));"
    "sys.exit(main(sys.argv[1:]))"
)
TABLE = a_table(["worker-1", "worker-2", "worker-3"])
DECISION = a_decision()
FRAMES = [codec.encode(f) for f in (rows(TABLE), DECISION, bound(DECISION, TABLE))]
TAKEN = (200, 400, 408, 409, 413, 415, 429)


class Target:
    """The service's process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.port = int(process.wait_for(r"listening on http://127\.0\.0\.1:(\d+) \(queries and ingest\)")[1])
        self.probes = int(process.wait_for(r"listening on http://127\.0\.0\.1:(\d+) \(probes\)")[1])

    def connect(self, port: int = 0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port or self.port), timeout=30)

    def send(self, *parts: bytes, length: int | None = None, encoding: str = "", ends: bool = False) -> int:
        """The status of the answer to a body in parts; 0 where the connection ended without one.

        `length`: None for chunks. `ends`: the sender says no more, whatever it has announced.
        """
        with self.connect() as connection:
            try:
                connection.sendall(head(length, encoding))
                for part in parts:
                    connection.sendall(part)
                if ends:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:  # it has answered, and listens no more
                pass
            return answered(connection)

    def post(self, body: bytes, encoding: str = "") -> int:
        return self.send(body, length=len(body), encoding=encoding)

    def probe(self, path: str = "/readyz") -> int:
        with self.connect(self.probes) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            return answered(connection)

    def worker(self) -> int:
        (pid,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(pid)

    def memory(self, which: str = "VmRSS") -> int:
        """Bytes that the worker holds (VmRSS), or held at most (VmHWM)."""
        status = Path(f"/proc/{self.worker()}/status").read_text()
        (found,) = re.findall(rf"{which}:\s+(\d+) kB", status)
        return int(found) << 10


def head(length: int | None, encoding: str = "") -> bytes:
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    packed = f"Content-Encoding: {encoding}\r\n" if encoding else ""
    start = f"POST {ingest.PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: {codec.CONTENT_TYPE}\r\n"
    return f"{start}{packed}{size}\r\n\r\n".encode()


def answered(connection: socket.socket) -> int:
    try:
        line = connection.makefile("rb").readline()
    except OSError:
        return 0
    return int(line.split()[1]) if line else 0


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("service")
    flags = ("--bind", "127.0.0.1:0", "--probe-bind", "127.0.0.1:0", "--data", str(directory), "--max-watches", "1")
    environment = {"HERODOTUS_DATABASE_URL": "", "MALLOC_ARENA_MAX": "2"}  # arenas would blur what it holds
    command = [sys.executable, "-c", IMPATIENT, *flags]
    process = Process("service", command, directory / "log", environment)
    found = Target(process)
    assert found.post(b"".join(FRAMES)) == 200
    worker = found.worker()
    yield found
    assert found.worker() == worker, "no request has ended the worker"
    assert process.stop() == 0
    assert "Traceback" not in process.output()


def mutated(frame: bytes, changes: list[tuple[int, int]], honest: bool) -> bytes:
    """A frame with bytes changed. `honest`: its checksum is made good, so that what is inside is looked at."""
    changed = bytearray(frame)
    for at, byte in changes:
        changed[at % len(changed)] = byte
    if honest:
        changed[:4], changed[8:12] = frame[:4], struct.pack("<I", zlib.crc32(changed[12:]))
        changed[4:8] = frame[4:8]
    return bytes(changed)


changes = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=4)
pieces = st.one_of(
    st.sampled_from(FRAMES),
    st.binary(max_size=60),
    st.builds(mutated, st.sampled_from(FRAMES), changes, st.booleans()),
    st.builds(lambda frame, end: frame[:end], st.sampled_from(FRAMES), st.integers(0, 400)),
)
batches = st.lists(pieces, max_size=5).map(b"".join)
packings: dict[str, Callable[[bytes], bytes]] = {
    "": lambda b: b,
    "identity": lambda b: b,
    "zstd": codec.compress,
    "gzip": lambda b: b,
}


@given(
    body=batches,
    encoding=st.sampled_from([*packings]),
    damage=changes,
    cut=st.one_of(st.none(), st.integers(0, 300)),
    more=st.sampled_from([0, 0, 0, 1, 9, 1 << 40]),
    way=st.sampled_from(["whole", "chunks", "broken chunks"]),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_generated_bodies_are_answered_or_disconnected(
    target: Target, body: bytes, encoding: str, damage: list[tuple[int, int]], cut: int | None, more: int, way: str
) -> None:
    """Damaged before and after packing, cut off, and announced as longer than it is."""
    sent = packings[encoding](body)
    sent = (mutated(sent, damage, honest=False) if sent else sent)[:cut]
    if way == "whole":
        code = target.send(sent, length=len(sent) + more, encoding=encoding, ends=True)
    else:
        end = b"0\r\n\r\n" if way == "chunks" else b"zz\r\n" * bool(more)
        half = len(sent) // 2
        parts = [chunk(part) for part in (sent[:half], sent[half:]) if part]
        code = target.send(*parts, end, encoding=encoding, ends=True)
    assert code in (0, *TAKEN)
    assert code or more or way == "broken chunks", "who says what they announced is answered"


def test_answers_are_unchanged_afterwards(target: Target) -> None:
    assert target.probe() == 200
    assert target.post(b"".join(FRAMES)) == 200


def zeros(size: int, *, announced: bool, window: int = 0) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, **({"window_log": window} if window else {}))
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    packing = compressor.compressobj(size=size if announced else -1)
    megabyte = bytes(1 << 20)
    parts = [packing.compress(megabyte) for _ in range(size >> 20)]
    return b"".join([*parts, packing.flush()])


def a_header(payload: int) -> bytes:
    return struct.pack("<2sBBII", b"HF", codec.VERSION, 1, payload, 0)


BOMBS: dict[str, Callable[[], tuple[bytes, str]]] = {
    "2 GiB of zeros, as announced": lambda: (zeros(2 << 30, announced=True), "zstd"),
    "2 GiB of zeros, not announced": lambda: (zeros(2 << 30, announced=False), "zstd"),
    "just below the limit": lambda: (zeros(codec.MAX_FRAME_BYTES, announced=True), "zstd"),
    "a window of 128 MiB": lambda: (zeros(60 << 20, announced=False, window=27), "zstd"),
    "a million zstd frames": lambda: (codec.compress(b"HF") * (ingest.MAX_BODY_BYTES // 12), "zstd"),
    "a frame that announces 64 MiB": lambda: (a_header(codec.MAX_FRAME_BYTES) + bytes(1000), ""),
    "a million empty frames": lambda: (codec.compress(a_header(0) * 1_000_000), "zstd"),
    "lists in lists": lambda: (codec.compress(_nested(b"\x91")), "zstd"),
    "a list of four billion": lambda: (_framed(b"\xdd\xff\xff\xff\xff"), ""),
    "as large as may be, and noise": lambda: (random.Random(1).randbytes(ingest.MAX_BODY_BYTES), "zstd"),
    "too large by one": lambda: (bytes(ingest.MAX_BODY_BYTES + 1), ""),
    "ten times too large": lambda: (bytes(10 * ingest.MAX_BODY_BYTES), ""),
}


def _framed(payload: bytes) -> bytes:
    return struct.pack("<2sBBII", b"HF", codec.VERSION, 1, len(payload), zlib.crc32(payload)) + payload


def _nested(opening: bytes) -> bytes:
    return _framed(opening * 10_000_000)


@pytest.mark.parametrize("bomb", BOMBS)
def test_decompression_bomb_is_rejected_within_memory_limits(
    target: Target, bomb: str, record_property: Callable[[str, object], None]
) -> None:
    """As many at the same time as are taken in."""
    body, encoding = BOMBS[bomb]()
    before = target.memory()
    Path(f"/proc/{target.worker()}/clear_refs").write_text("5")  # the highest mark is that of now
    with ThreadPoolExecutor(PLACES) as senders:
        codes = list(senders.map(lambda _: target.post(body, encoding), range(PLACES)))
    grown = target.memory("VmHWM") - before
    record_property("grown_mib", grown >> 20)
    print(f"{bomb}: {codes}, {len(body) >> 10} KiB sent, grown by {grown >> 20} MiB at most")
    assert set(codes) <= {0, 400, 413, 429}
    assert grown <= MOST_BYTES
    assert target.probe() == 200


def test_memory_is_released(target: Target) -> None:
    """What is held after all that is far from a leak of any of it."""
    assert target.memory() < 512 << 20


SLOW: dict[str, bytes] = {
    "no word": b"",
    "half a header": b"POST /ingest/v1/frames HTTP/1.1\r\nHo",
    "half a body": head(1000) + FRAMES[0][:20],
    "half a chunk": head(None) + b"ff\r\nxx",
}


@pytest.mark.parametrize("slow", SLOW)
def test_stalled_senders_do_not_block_others(target: Target, slow: str) -> None:
    """More of them than there are threads; afterwards a batch is taken and a question answered."""
    connections = [target.connect() for _ in range(SENDERS)]
    try:
        for connection in connections:
            connection.sendall(SLOW[slow])
        began = time.monotonic()
        assert target.probe() == 200, "meanwhile"
        eventually(lambda: target.post(b"".join(FRAMES)) == 200, "a batch to be taken", 60.0)
        print(f"{slow}: a batch is taken after {time.monotonic() - began:.1f} s")
    finally:
        for connection in connections:
            connection.close()


def test_slow_body_is_rejected_at_the_deadline(target: Target) -> None:
    """Each byte comes in time; the whole does not."""
    with target.connect() as connection:
        connection.sendall(head(1000))
        began = time.monotonic()
        while time.monotonic() - began < 20 * ARRIVAL_S:
            try:
                connection.sendall(b"x")
                connection.settimeout(0.1)
                if connection.recv(100):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - began < 20 * ARRIVAL_S


@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [
        (b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "RequestURITooLong"),
        (b"GET / HTTP/1.1\r\n" + b"Host: x\r\n" + b"x: y\r\n" * 200 + b"\r\n", 431, "Unknown"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, "BadRequest"),
        (b"\x16\x03\x01 hello\r\n\r\n", 400, "BadRequest"),
    ],
    ids=["a long path", "many headers", "no header", "TLS"],
)
def test_unparsable_request_is_answered_with_a_status(target: Target, sent: bytes, code: int, reason: str) -> None:
    with target.connect() as connection:
        connection.sendall(sent)
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    status = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % code)
    assert b"Content-Type: application/json" in head
    assert (status["kind"], status["code"], status["reason"]) == ("Status", code, reason)
    assert status["message"].startswith("cannot parse the request: ")
