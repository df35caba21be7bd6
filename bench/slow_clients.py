"""Clients that are slow, send nothing or never read, for tests and for `python -m bench.attack`.

python -m bench.slow_clients PORT [--tls] [--count 100] [--kind trickle] [--long-path PATH] [--post-path PATH]

The program prints `attacking` when its clients are connected, and runs until SIGTERM. Owns: the behaviour of each kind
of client. Does not own: the attacked server, and measurements.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import socket
import ssl
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
PIPELINED_REQUESTS: Final = 2000  # of a client that never reads
# Slow clients have another source address than the measured ones, as another pod has: servers limit connections by it.
SOURCE_ADDRESS: Final = "127.0.0.2"
RECEIVE_BUFFER_BYTES: Final = 4096  # small, so that the server's send buffer fills


@dataclass(frozen=True)
class Target:
    """A port under attack. `long_path` has a long response to GET; `post_path` takes a body."""

    port: int
    tls: bool = False
    long_path: str = "/"
    post_path: str = "/"

    def arguments(self) -> list[str]:
        """Return the command-line arguments of this program for the target."""
        paths = ["--long-path", self.long_path, "--post-path", self.post_path]
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


def run_client(target: Target, behave: Behaviour, on_connect: Callable[[], object]) -> None:
    """Act as one client for ever; connect again whenever the server closes the connection."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            connection.settimeout(5.0)
            connection.bind((SOURCE_ADDRESS, 0))
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection)


def wait_for_close(connection: socket.socket, timeout_s: float) -> bool:
    """Wait without reading; return whether the server closed the connection in time."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLRDHUP)
    return bool(poll.poll(timeout_s * 1000))


def main() -> int:
    """Start one thread per client and run until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m bench.slow_clients", description="Slow clients of one port.")
    parser.add_argument("port", type=int)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--count", type=int, default=100, help="number of clients (default %(default)s)")
    parser.add_argument(
        "--kind", action="append", choices=[*KINDS], help="repeatable (default: all kinds, alternating)"
    )
    parser.add_argument("--long-path", default="/", help="path with a long response (default %(default)s)")
    parser.add_argument("--post-path", default="/", help="path that takes a body (default %(default)s)")
    args = parser.parse_args()
    target = Target(args.port, args.tls, args.long_path, args.post_path)
    kinds = [KINDS[name] for name in args.kind or KINDS]
    connected = threading.Semaphore(0)
    for i in range(args.count):
        client = (target, kinds[i % len(kinds)], connected.release)
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
