"""A pool of connections for requests whose callers do not block, served by one thread.

Owns: the connections, their TLS handshakes, timeouts. Does not own: the content of requests and responses (`http`),
retries: a request that was sent is never sent again here, because the server may have executed it.

Invariant: each request ends once, with its response or an OSError, which is NotSentError if it was never sent. Its
timeout begins when it is sent.

One thread, because threads that each wait for a response cost more in switching the interpreter's lock than the
requests themselves. No HTTP library, because the available ones cost ten times the rest of a binding.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from herodotus_kube.responses import ApiResponse, ResponseParser
from herodotus_record import klog

MAX_CONNECTIONS: Final = 32  # requests under way; an API server that takes longer than 30 ms for each is the bottleneck
MAX_CONNECTING: Final = 4  # connections made at a time: a handshake costs both sides a millisecond
QUEUE_TIMEOUT_S: Final = 10.0  # for a connection: a server to which none can be made in that time is not there
EXPIRE_INTERVAL_S: Final = 0.1  # at time-outs
READ_BYTES: Final = 64 << 10

Done = Callable[[ApiResponse | OSError], None]


class NotSentError(OSError):
    """The request was never sent, so it had no effect."""


@dataclass(slots=True)
class PooledRequest:
    """A request that waits for a connection or for its response. `data` holds the request's head and body.

    The pool's thread calls `done`, which must not block, with the response or an error. Deadlines are monotonic
    seconds.
    """

    data: bytes
    done: Done
    precondition: Callable[[], bool]
    timeout_s: float
    queue_deadline_s: float
    deadline_s: float = 0.0


class ConnectionPool:
    """Connections to one server, through which requests are sent without waiting for responses. Thread-safe."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        """Prepare the pool without connecting; the first request opens a connection."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._tls = tls
        self._host = parts.hostname
        self._port = parts.port or (80 if tls is None else 443)
        self._waiting: deque[PooledRequest] = deque()
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._selector: selectors.BaseSelector  # it and the next are made with the thread, which few programs need
        self._wakeup: int
        self._asleep = False
        self._closed = False
        self._expired_at = 0.0
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def send(self, data: bytes, timeout_s: float, done: Done, precondition: Callable[[], bool]) -> None:
        """Queue the request `data` (head and body) for the next free connection and return at once.

        The pool's thread calls `done` with the response or an OSError. `precondition` is evaluated just before sending;
        if it returns False, the request ends with NotSentError. `timeout_s` counts from sending.
        """
        self._waiting.append(PooledRequest(data, done, precondition, timeout_s, time.monotonic() + QUEUE_TIMEOUT_S))
        if self._closed:
            self._refuse_waiting()
        elif self._thread is None:
            self._start()
        elif self._asleep:
            self._asleep = False
            self._wake()

    def close(self) -> None:
        """Close every connection. Requests that wait or are in flight fail."""
        self._closed = True
        with self._starting:
            thread = self._thread
        if thread is not None:
            self._wake()
            thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._selector = selectors.DefaultSelector()
                self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
                self._selector.register(self._wakeup, selectors.EVENT_READ)
                self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
                self._thread.start()

    def _refuse_waiting(self) -> None:
        while True:
            try:
                request = self._waiting.popleft()
            except IndexError:
                return
            _complete(request, NotSentError("the connection is closed"))

    def _wake(self) -> None:
        os.eventfd_write(self._wakeup, 1)

    # --- in the wire's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            self._asleep = True
            wait_s = 0.0 if self._waiting and self._idle else EXPIRE_INTERVAL_S if self._waiting or self._busy else None
            ready = self._selector.select(wait_s)
            self._asleep = False
            for key, _ in ready:
                if key.data is None:
                    os.eventfd_read(self._wakeup)
                else:
                    self._serve(key.data)
            now = time.monotonic()
            self._dispatch(now)
            if now - self._expired_at >= EXPIRE_INTERVAL_S:
                self._expire(now)
        for connection in [*self._all]:
            self._drop(connection, OSError("the connection is closed"))
        self._refuse_waiting()

    @property
    def _busy(self) -> bool:
        return len(self._all) > len(self._idle)

    def _serve(self, connection: _Connection) -> None:
        """Continue the handshake, writing or reading on a connection that is ready.

        A complete response ends its request.
        """
        try:
            answer = connection.proceed()
        except OSError as e:
            self._drop(connection, e)
            return
        self._watch(connection)
        if answer is None:
            if connection.is_idle and connection not in self._idle:
                self._idle.append(connection)  # it was being made until now
            return
        request, connection.request = connection.request, None
        if answer.last:
            self._drop(connection, OSError("closed"))
        else:
            self._idle.append(connection)
        if request is not None:
            _complete(request, answer)

    def _dispatch(self, now: float) -> None:
        """Send waiting requests on idle connections, and open connections if there are too few."""
        while self._waiting and self._idle:
            request = self._waiting.popleft()
            if not request.precondition():
                _complete(request, NotSentError("it may not be sent any more"))
                continue
            connection = self._idle.pop()
            connection.request, request.deadline_s = request, now + request.timeout_s
            try:
                connection.send(request.data)
            except OSError as e:
                self._drop(connection, e)
                continue
            self._watch(connection)
        is_connecting = sum(connection.is_connecting for connection in self._all) if self._waiting else 0
        while (
            self._waiting
            and is_connecting < min(MAX_CONNECTING, len(self._waiting))
            and len(self._all) < MAX_CONNECTIONS
        ):
            is_connecting += 1
            try:
                connection = _Connection(self._host, self._port, self._tls, now + QUEUE_TIMEOUT_S)
            except OSError as e:
                _complete(self._waiting.popleft(), NotSentError(str(e)))
                continue
            self._all.add(connection)
            self._selector.register(connection.socket, connection.events, connection)

    def _expire(self, now: float) -> None:
        """Fail the requests and connection attempts whose deadline is over. `now` is in monotonic seconds."""
        self._expired_at = now
        for connection in [*self._all]:
            deadline_s = connection.connect_deadline_s if connection.request is None else connection.request.deadline_s
            if (connection.is_connecting or connection.request is not None) and deadline_s < now:
                self._drop(connection, TimeoutError("timed out"))
        while self._waiting and self._waiting[0].queue_deadline_s < now:
            _complete(self._waiting.popleft(), NotSentError("no connection was free in time"))

    def _watch(self, connection: _Connection) -> None:
        if self._selector.get_key(connection.socket).events != connection.events:
            self._selector.modify(connection.socket, connection.events, connection)

    def _drop(self, connection: _Connection, error: OSError) -> None:
        """Close a connection and fail its request with `error`.

        If the connection was never established, fail the request that has waited longest instead.
        """
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        request = connection.request
        if request is None and connection.is_connecting and self._waiting:
            request, error = self._waiting.popleft(), NotSentError(str(error))
        if request is not None:
            _complete(request, error)


class _Connection:
    """One non-blocking connection, which is connecting, in the TLS handshake, idle or busy with a request.

    A method that raises OSError leaves it unusable.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, connect_deadline_s: float) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.request: PooledRequest | None = None
        self.is_connecting = True
        self.connect_deadline_s = connect_deadline_s
        self.events = selectors.EVENT_WRITE
        self._unsent = memoryview(b"")
        self._reader = ResponseParser()
        self.socket: socket.socket = socket.socket(family, kind, protocol)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(address)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host, do_handshake_on_connect=False)

    @property
    def is_idle(self) -> bool:
        return not self.is_connecting and self.request is None

    def send(self, data: bytes) -> None:
        """Start to send the bytes of a request. `proceed` sends the rest and receives the response."""
        self._unsent = memoryview(data)
        self._write()

    def proceed(self) -> ApiResponse | None:
        """Continue the handshake, sending or receiving without blocking.

        Return the response once it is complete, else None.
        """
        if self.is_connecting:
            self._make()
            return None
        if self._unsent:
            self._write()
        return self._read()

    def _make(self) -> None:
        error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        if isinstance(self.socket, ssl.SSLSocket) and not self._try_handshake(self.socket):
            return
        self.is_connecting, self.events = False, selectors.EVENT_READ

    def _try_handshake(self, secure: ssl.SSLSocket) -> bool:
        try:
            secure.do_handshake()
        except ssl.SSLWantReadError:
            self.events = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            self.events = selectors.EVENT_WRITE
        else:
            return True
        return False

    def _write(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        self.events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def _read(self) -> ApiResponse | None:
        while True:
            try:
                piece = self.socket.recv(READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return None
            if self.request is None:
                raise OSError("the server closed an idle connection")
            answer = self._reader.feed(piece) if piece else self._reader.finish()
            if answer is not None:
                return answer


def _complete(request: PooledRequest, answer: ApiResponse | OSError) -> None:
    try:
        request.done(answer)
    except Exception as e:  # the thread serves everybody else too
        klog.error(e, "What should follow an answer failed")
