"""A server for health probes alone: plain HTTP, in a thread of its own, without event loop, parser or worker pool.

Owns: its listening sockets and their connections. Does not own: what makes a process live or ready (the answers).

A kubelet has the address of its node, and so have pods in the host's network and what a network plugin masquerades. So
no limit on an address may hold here; instead a connection costs little, and none is waited for. asyncio and h11 take
0.55 ms of processor time for a probe, and this server 0.15 ms.

Invariant: a new connection is always accepted. If there are too many, the one that has waited longest for its request
is closed: a kubelet sends its request at once. No answer takes longer than its check, which must not block.
"""

from __future__ import annotations

import logging
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.client import responses
from typing import Final, NamedTuple

from herodotus_serving.sockets import get_bound_address

MAX_WAITING: Final = 512  # at 5,000 new connections a second, each has 0.1 s for its request
MAX_HEAD_BYTES: Final = 4096  # a kubelet's has 200, and headers that a manifest adds
REQUEST_S: Final = 5.0
FRESH_S: Final = 0.1  # an answer is given again for so long: a check takes 0.05 ms
ACCEPTS_PER_STEP: Final = 64
ACCEPT_PAUSE_S: Final = 0.1  # when the process has no file descriptor left
BACKLOG: Final = 4096  # a connection that the kernel drops is repeated only after a second
# A thread that waits for the interpreter gets it after this time, and a probe waits for it at every system call. Beside
# two busy threads and 32 clients this answers 670 probes a second, and 400 with Python's 5 ms (for throughput).
SWITCH_INTERVAL_S: Final = 0.0005
_ORDINARY_INTERVAL_S: Final = sys.getswitchinterval()
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,1000}) HTTP/1\.[01]\r\n")
_log: Final = logging.getLogger(__name__)


class ProbeAnswer(NamedTuple):
    """The HTTP status and the text of an answer to a probe."""

    status: int
    text: str


OK: Final = ProbeAnswer(200, "ok")


class _Connection:
    """An accepted connection whose request has not arrived completely."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.since = time.monotonic()
        self.received = b""


class ProbeServer:
    """A thread that answers GET and HEAD of the given paths on listening sockets, and closes each connection.

    `answers` maps each path to a function that returns the answer at once; it runs in this thread, at most every
    FRESH_S seconds.
    """

    def __init__(self, listening: Sequence[socket.socket], answers: Mapping[str, Callable[[], ProbeAnswer]]) -> None:
        self._listening = {each.fileno(): each for each in listening}
        self._answers = answers
        self.addresses = [get_bound_address(each) for each in listening]
        self._fresh: dict[str, tuple[float, ProbeAnswer]] = {}
        self._waiting: dict[int, _Connection] = {}  # by descriptor, in order of acceptance
        self._stopped, self._stop = socket.socketpair()
        self._poll = select.epoll()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    def start(self) -> None:
        """Start to accept connections."""
        for listening in self._listening.values():
            listening.setblocking(False)
            listening.listen(BACKLOG)
            self._poll.register(listening, select.EPOLLIN)
        self._poll.register(self._stopped, select.EPOLLIN)
        self._thread.start()

    def close(self) -> None:
        """Close the listening sockets and all connections, and wait for the thread."""
        self._stop.close()
        if self._thread.ident is not None:
            self._thread.join()
        for each in (*self._listening.values(), *(waiting.socket for waiting in self._waiting.values())):
            each.close()
        self._poll.close()
        self._stopped.close()

    def _run(self) -> None:
        stopped = self._stopped.fileno()
        while True:
            ready = [descriptor for descriptor, _ in self._poll.poll(REQUEST_S if self._waiting else None)]
            if stopped in ready:
                return
            with _shorten_switch_interval():
                for descriptor in ready:
                    if descriptor in self._listening:
                        self._accept(self._listening[descriptor])
                    elif descriptor in self._waiting:
                        self._receive(self._waiting[descriptor])
                self._close_late()

    def _accept(self, listening: socket.socket) -> None:
        """Accept connections, and answer those whose requests have arrived."""
        for _ in range(ACCEPTS_PER_STEP):
            try:
                accepted, _ = listening.accept()
            except BlockingIOError:
                return
            except OSError as e:  # the process has no descriptor left
                _log.warning("cannot accept a probe: %s", e)
                self._close_oldest() if self._waiting else time.sleep(ACCEPT_PAUSE_S)
                return
            accepted.setblocking(False)
            connection = _Connection(accepted)
            self._waiting[accepted.fileno()] = connection
            self._receive(connection, is_new=True)
            if len(self._waiting) > MAX_WAITING:
                self._close_oldest()

    def _receive(self, connection: _Connection, is_new: bool = False) -> None:
        """Read the bytes that have arrived. Answer and close the connection, unless more of the request is expected.

        A new connection (`is_new`) of which more is expected is added to the poll.
        """
        try:
            received = connection.socket.recv(MAX_HEAD_BYTES)
        except BlockingIOError:
            received = None
        except OSError:
            received = b""
        connection.received += received or b""
        is_complete = b"\r\n\r\n" in connection.received
        if received != b"" and not is_complete and len(connection.received) < MAX_HEAD_BYTES:
            if is_new:
                self._poll.register(connection.socket, select.EPOLLIN)
            return
        if connection.received:
            with suppress(OSError):  # the client has left
                connection.socket.send(self._respond(connection.received, is_complete))
        self._close(connection)

    def _respond(self, head: bytes, is_complete: bool) -> bytes:
        """Return the encoded response to a request."""
        match = _REQUEST_LINE.match(head)
        if match is None or not is_complete:
            return _encode(ProbeAnswer(400, "not a request of HTTP/1.1\n"))
        method, path = match[1], match[2].decode("ascii")
        if path not in self._answers:
            return _encode(ProbeAnswer(404, f"this port serves {', '.join(self._answers)}, without parameters\n"))
        if method not in (b"GET", b"HEAD"):
            return _encode(ProbeAnswer(405, "only GET and HEAD are allowed\n"))
        return _encode(self._answer(path), has_body=method == b"GET")

    def _answer(self, path: str) -> ProbeAnswer:
        """Return the answer of a path.

        An answer is reused for FRESH_S seconds; a check that raises an error gives a 500.
        """
        now = time.monotonic()
        expires, answer = self._fresh.get(path, (now, OK))
        if now >= expires:
            try:
                answer = self._answers[path]()
            except Exception:  # a fault of the server must not end the probes of other paths
                _log.exception("the check of %s failed", path)
                answer = ProbeAnswer(500, "internal server error\n")
            self._fresh[path] = now + FRESH_S, answer
        return answer

    def _close_late(self) -> None:
        """Close the connections whose request does not arrive within REQUEST_S seconds."""
        limit = time.monotonic() - REQUEST_S
        while self._waiting and next(iter(self._waiting.values())).since < limit:
            self._close_oldest()

    def _close_oldest(self) -> None:
        self._close(next(iter(self._waiting.values())))

    def _close(self, connection: _Connection) -> None:
        del self._waiting[connection.socket.fileno()]
        connection.socket.close()  # epoll forgets it


@contextmanager
def _shorten_switch_interval() -> Iterator[None]:
    """Let threads wait for the interpreter only SWITCH_INTERVAL_S seconds, so that others cannot delay this one."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(_ORDINARY_INTERVAL_S)


def _encode(answer: ProbeAnswer, has_body: bool = True) -> bytes:
    """Return a response as HTTP/1.1 that ends its connection."""
    body = answer.text.encode()
    lines = [
        f"HTTP/1.1 {answer.status} {responses[answer.status]}",
        f"Date: {formatdate(usegmt=True)}",
        "Content-Type: text/plain; charset=utf-8",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-store",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (body if has_body else b"")
