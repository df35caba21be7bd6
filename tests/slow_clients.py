"""Clients that are slow or wasteful, send nothing or never read, for tests and for `python -m bench.attack`.

python -m tests.slow_clients PORT [--tls] [--count 100] [--kind trickle] [--long-path PATH] [--post-path PATH]

The program prints `attacking` when its clients are connected, and runs until SIGTERM. Owns: the behaviour of each kind
of client. Does not own: the attacked server, and measurements.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

CONNECT_DEADLINE_S: Final = 5.0  # for the first connection of every client
RECONNECT_PAUSE_S: Final = 0.5  # after the server closed the connection
BYTE_PAUSE_S: Final = 0.5  # between two bytes of a slow request
CHUNKS_AT_ONCE: Final = 4096  # of one byte, 24 KiB in all
CHUNKS_PAUSE_S: Final = 0.65  # 32 clients then send 1.2 MB/s
RECORDS_AT_ONCE: Final = 1000  # TLS records of one byte, 23 KiB in all
FLOOD_PAUSE_S: Final = 0.03  # 32 clients then make a thousand connections a second
WATCH_SPELLINGS: Final = ("watch=true", "watch", "watch=1", "%77atch=1", "limit=1&w%61tch", "watch=%31", "watch=")
PIPELINED_REQUESTS: Final = 2000  # of a client that never reads
# Slow clients have another source address than the measured ones, as another pod has: servers limit connections by it.
SOURCE_ADDRESS: Final = "127.0.0.2"
KUBELET_ADDRESS: Final = "127.0.0.1"  # of the measured clients: pods in the host's network have a kubelet's
RECEIVE_BUFFER_BYTES: Final = 4096  # small, so that the server's send buffer fills


@dataclass(frozen=True)
class Target:
    """A port under attack. `long_path` has a long response, `post_path` takes a body, `watch_path` can be watched."""

    port: int
    tls: bool = False
    long_path: str = "/"
    post_path: str = "/"
    watch_path: str = "/"

    def arguments(self) -> list[str]:
        """Return the command-line arguments of this program for the target."""
        paths = ["--long-path", self.long_path, "--post-path", self.post_path, "--watch-path", self.watch_path]
        return [str(self.port), *paths, *(["--tls"] if self.tls else [])]


def send_nothing(connection: socket.socket, _target: Target) -> None:
    """Leave the connection open without a byte."""
    while not wait_for_close(connection, 5.0):
        continue


def send_one_byte(connection: socket.socket, target: Target) -> None:
    """Send the first byte of a TLS handshake, or of a request."""
    connection.sendall(b"\x16" if target.tls else b"G")
    while not wait_for_close(connection, 5.0):
        continue


def trickle_headers(connection: socket.socket, target: Target) -> None:
    """Send the headers of a request byte by byte without ever completing them."""
    with wrap_in_tls(connection, target) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        while not wait_for_close(connection, BYTE_PAUSE_S):
            connection.sendall(b"x")


def send_incomplete_body(connection: socket.socket, target: Target) -> None:
    """Announce a body of 1000 bytes and send ten of them."""
    with wrap_in_tls(connection, target) as connection:
        lines = [
            f"POST {target.post_path} HTTP/1.1",
            "Host: x",
            "Content-Type: application/json",
            "Content-Length: 1000",
        ]
        connection.sendall("\r\n".join([*lines, "", "x" * 10]).encode())
        while not wait_for_close(connection, 5.0):
            continue


def send_tiny_chunks(connection: socket.socket, target: Target) -> None:
    """Send a body in chunks of one byte, until the server closes the connection."""
    with wrap_in_tls(connection, target) as connection:
        lines = [f"POST {target.post_path} HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        while not wait_for_close(connection, CHUNKS_PAUSE_S):
            connection.sendall(b"1\r\nx\r\n" * CHUNKS_AT_ONCE)


def send_tiny_records(connection: socket.socket, target: Target) -> None:
    """Send a body in TLS records of one byte, or in segments of one byte without TLS, and another body after it."""
    head = f"POST {target.post_path} HTTP/1.1\r\nHost: x\r\nContent-Length: {RECORDS_AT_ONCE}\r\n\r\n".encode()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not target.tls:
        while not wait_for_close(connection, CHUNKS_PAUSE_S):
            connection.sendall(head)
            for _ in range(RECORDS_AT_ONCE // 10):
                connection.sendall(b"x")
        return
    arrived, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = _lenient_context().wrap_bio(arrived, sent)
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            connection.sendall(sent.read())
            arrived.write(connection.recv(1 << 16))
    while not wait_for_close(connection, CHUNKS_PAUSE_S):
        session.write(head)
        for _ in range(RECORDS_AT_ONCE):
            session.write(b"x")
        connection.sendall(sent.read())


def reconnect(connection: socket.socket, target: Target) -> None:
    """Connect and reset the connection, again and again."""
    while True:
        with socket.socket() as each:
            each.bind((connection.getsockname()[0], 0))
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no port waits afterwards
            each.connect(("127.0.0.1", target.port))
        time.sleep(FLOOD_PAUSE_S)


def repeat_refused(connection: socket.socket, target: Target) -> None:
    """Send a request with a path that is too long, and the next one when the server has closed the connection."""
    while True:
        with wrap_in_tls(connection, target) as connection:
            connection.sendall(b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            source = connection.getsockname()[0]
            while connection.recv(1 << 16):
                continue
        connection = socket.create_connection(("127.0.0.1", target.port), 5.0, (source, 0))


def watch(connection: socket.socket, target: Target) -> None:
    """Watch the target's list, in a random spelling, until the server ends it."""
    spelling = random.choice(WATCH_SPELLINGS)
    with wrap_in_tls(connection, target) as connection:
        connection.sendall(f"GET {target.watch_path}?{spelling} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        connection.settimeout(None)
        while connection.recv(1 << 16):
            continue


def read_no_response(connection: socket.socket, target: Target) -> None:
    """Send many requests at once and read no response."""
    with wrap_in_tls(connection, target) as connection:
        request = f"GET {target.long_path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        connection.settimeout(1.0)
        with contextlib.suppress(TimeoutError):
            connection.sendall(request * PIPELINED_REQUESTS)
        while not wait_for_close(connection, 5.0):
            continue


Behaviour = Callable[[socket.socket, Target], None]
KINDS: Final[dict[str, Behaviour]] = {
    "silent": send_nothing,
    "one-byte": send_one_byte,
    "trickle": trickle_headers,
    "incomplete-body": send_incomplete_body,
    "tiny-chunks": send_tiny_chunks,
    "never-reads": read_no_response,
}
FLOODS: Final[dict[str, Behaviour]] = {
    "tiny-records": send_tiny_records,
    "reconnect": reconnect,
    "refused": repeat_refused,
}
WATCH: Final = "watch"
ALL_KINDS: Final = {**KINDS, **FLOODS, WATCH: watch}


def run_client(target: Target, behave: Behaviour, source: str, on_connect: Callable[[], object]) -> None:
    """Act as one client of a source address for ever; connect again whenever the server closes the connection."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            connection.settimeout(5.0)
            connection.bind((source, 0))
            connection.connect(("127.0.0.1", target.port))
            on_connect()
            behave(connection, target)
        time.sleep(RECONNECT_PAUSE_S)


def wrap_in_tls(connection: socket.socket, target: Target) -> socket.socket:
    """Return the connection after a TLS handshake, or unchanged if the target speaks plain HTTP.

    The TLS socket takes the descriptor of the given one, which is then closed.
    """
    if not target.tls:
        return connection
    return _lenient_context().wrap_socket(connection)


def _lenient_context() -> ssl.SSLContext:
    """Return a TLS context that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def wait_for_close(connection: socket.socket, timeout_s: float) -> bool:
    """Wait without reading; return whether the server closed the connection in time."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLRDHUP)
    return bool(poll.poll(timeout_s * 1000))


def main() -> int:
    """Start one thread per client and run until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.slow_clients", description="Slow clients of one port.")
    parser.add_argument("port", type=int)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--count", type=int, default=100, help="number of clients (default %(default)s)")
    parser.add_argument(
        "--kind", action="append", choices=ALL_KINDS, help="repeatable (default: all slow kinds, alternating)"
    )
    parser.add_argument("--source", default=SOURCE_ADDRESS, help="address of the clients (default %(default)s)")
    parser.add_argument("--long-path", default="/", help="path with a long response (default %(default)s)")
    parser.add_argument("--post-path", default="/", help="path that takes a body (default %(default)s)")
    parser.add_argument("--watch-path", default="/", help="path that can be watched (default %(default)s)")
    args = parser.parse_args()
    target = Target(args.port, args.tls, args.long_path, args.post_path, args.watch_path)
    kinds = [ALL_KINDS[name] for name in args.kind or KINDS]
    connected = threading.Semaphore(0)
    for i in range(args.count):
        client = (target, kinds[i % len(kinds)], args.source, connected.release)
        threading.Thread(target=run_client, args=client, daemon=True).start()
    deadline = time.monotonic() + CONNECT_DEADLINE_S
    for _ in range(args.count):  # the server may refuse some of them until then
        connected.acquire(timeout=max(0.0, deadline - time.monotonic()))
    os.nice(19)  # Slow clients are other machines: they must not compete with the servers for the processors.
    print("attacking", flush=True)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
