"""Clients that are slow, silent or never read, for tests and for `python -m bench.attack`.

python -m bench.slow_clients PORT [--tls] [--count 100] [--kind trickle] [--reads PATH] [--posts PATH]

The program prints `attacking` when its clients are connected, and ends on SIGTERM. Owns: how such a client behaves.
Does not own: which server it meets, what is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PATIENCE_S: Final = 5.0  # for the first connections
REOPEN_S: Final = 0.5  # after the server closed the connection
TRICKLE_S: Final = 0.5  # between two bytes
PIPELINED: Final = 2000  # requests of a client that never reads
ADDRESS: Final = "127.0.0.2"  # another than that of those who are to be answered, as a pod's is
LITTLE: Final = 4096  # bytes that such a client's kernel takes


@dataclass(frozen=True)
class Target:
    """A port under attack. `reads`: a path whose response is long; `posts`: one that takes a body."""

    port: int
    tls: bool = False
    reads: str = "/"
    posts: str = "/"


def silent(connection: socket.socket, _target: Target) -> None:
    """Send nothing."""


def one_byte(connection: socket.socket, target: Target) -> None:
    """Send the first byte of a TLS handshake, or of a request."""
    connection.sendall(b"\x16" if target.tls else b"G")


def trickle(connection: socket.socket, target: Target) -> None:
    """Send the headers of a request byte by byte, and never the last one."""
    connection = shake_hands(connection, target)
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
    while not is_closed(connection, TRICKLE_S):
        connection.sendall(b"x")


def incomplete_body(connection: socket.socket, target: Target) -> None:
    """Announce a body and send ten bytes of it."""
    connection = shake_hands(connection, target)
    head = f"POST {target.posts} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    connection.sendall(head.encode() + b"x" * 10)
    while not is_closed(connection, 5.0):
        continue


def never_reads(connection: socket.socket, target: Target) -> None:
    """Send many requests at once and read no response."""
    connection = shake_hands(connection, target)
    request = f"GET {target.reads} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    connection.settimeout(1.0)
    with contextlib.suppress(TimeoutError):
        connection.sendall(request * PIPELINED)
    while not is_closed(connection, 5.0):
        continue


Behaviour = Callable[[socket.socket, Target], None]
KINDS: Final[dict[str, Behaviour]] = {
    "silent": silent,
    "one-byte": one_byte,
    "trickle": trickle,
    "incomplete-body": incomplete_body,
    "never-reads": never_reads,
}


def attack(target: Target, behave: Behaviour, connected: Callable[[], object]) -> None:
    """Be one client for ever; connect again whenever the server closes the connection."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LITTLE)
            connection.settimeout(5.0)
            connection.bind((ADDRESS, 0))
            connection.connect(("127.0.0.1", target.port))
            connected()
            behave(connection, target)
            while not is_closed(connection, 5.0):
                continue
        time.sleep(REOPEN_S)


def shake_hands(connection: socket.socket, target: Target) -> socket.socket:
    """Return the connection, over TLS if the target speaks it."""
    if not target.tls:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection)


def is_closed(connection: socket.socket, wait_s: float) -> bool:
    """Wait, without reading; return whether the server has closed the connection."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLRDHUP)
    return bool(poll.poll(wait_s * 1000))


def main() -> int:
    """Attack until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m bench.slow_clients", description="Slow clients of one port.")
    parser.add_argument("port", type=int)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--kind", action="append", choices=[*KINDS], help="repeatable (default: all in turn)")
    parser.add_argument("--reads", default="/", help="path with a long response (default %(default)s)")
    parser.add_argument("--posts", default="/", help="path that takes a body (default %(default)s)")
    given = parser.parse_args()
    target = Target(given.port, given.tls, given.reads, given.posts)
    kinds = [KINDS[name] for name in given.kind or KINDS]
    opened = threading.Semaphore(0)
    for i in range(given.count):
        arguments = (target, kinds[i % len(kinds)], opened.release)
        threading.Thread(target=attack, args=arguments, daemon=True).start()
    end = time.monotonic() + PATIENCE_S
    for _ in range(given.count):  # those that the server does not accept are not waited for
        opened.acquire(timeout=max(0.0, end - time.monotonic()))
    print("attacking", flush=True)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
