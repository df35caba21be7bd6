"""One HTTP/1.1 connection on the event loop.

Owns: the phases of a connection, their deadlines, and the bytes that it holds. `parsing` parses HTTP, asyncio handles
the socket and TLS. Does not own: admission of connections (`listener`), what a request means (`messages.HttpService`).

A worker thread is busy with a request only between its complete arrival and its complete response. In every other phase
the connection waits for the client under a deadline and costs only memory. ASGI servers (uvicorn, gunicorn's asgi
worker) have no deadline for a request or a response and do not pass on client certificates. Adding both would replace
their protocol class, and this module is that class.

Invariant: one request at a time; a client that pipelines requests is answered once. Reading pauses while more than
READ_AHEAD bytes wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import io
import logging
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from email.utils import formatdate
from http.client import responses
from typing import Any, Final, Protocol, cast

import h11

from herodotus_serving.limits import ListenerLimits, RefusalPace
from herodotus_serving.messages import (
    STATUSES_WITHOUT_BODY,
    HttpService,
    PoolAssignment,
    Request,
    RequestHead,
    Response,
    with_retry_after,
)
from herodotus_serving.parsing import EVENTS_PER_STEP, MAX_FRAMING_BYTES, ParsingQueue, RequestParser

READ_AHEAD: Final = 64 << 10
READ_SIZE: Final = 64 << 10  # at once
TLS_READ_SIZE: Final = 512  # asyncio reads each record by itself, and a record may hold one byte: 1 ms at once
SLICE: Final = 256 << 10  # written at once: asyncio copies what the socket does not take
BUSY_STATUSES: Final = (429, 503)  # clients try again, so the next refusal follows at once
LINGER_S: Final = 2.0  # for a client to read that it is refused; closing earlier would reset the connection
CLOSE_S: Final = 2.0  # for the last bytes and TLS's close_notify
_log: Final = logging.getLogger(__name__)


class ClientDisconnectedError(Exception):
    """The error in a worker thread if the client closed the connection or missed a deadline."""


class Phase(enum.Enum):
    """The phases of an HTTP connection, from the TLS handshake to its end."""

    HANDSHAKE = enum.auto()  # until the transport is ready, with plain TCP too
    RECEIVING = enum.auto()
    WORKING = enum.auto()
    REFUSING = enum.auto()  # until the refusal is due
    SENDING = enum.auto()
    STREAMING = enum.auto()
    IDLE = enum.auto()
    LINGERING = enum.auto()
    CLOSED = enum.auto()


# Closing a connection in one of these phases loses no work of the server.
EVICTABLE: Final = {
    Phase.HANDSHAKE,
    Phase.RECEIVING,
    Phase.REFUSING,
    Phase.SENDING,
    Phase.IDLE,
    Phase.LINGERING,
}


class ConnectionOwner(Protocol):
    """The interface of a listener for its connections: they reserve memory and report that they are closed."""

    service: HttpService
    limits: ListenerLimits
    turns: ParsingQueue
    refusal_pace: RefusalPace
    read_buffer: memoryview

    def hold(self, connection: HttpConnection, size: int) -> bool:
        """Reserve `size` bytes of the listener's memory budget; return False if they are not available."""

    def release(self, connection: HttpConnection) -> None:
        """Release all bytes of the listener's memory budget that the connection holds."""

    def forget(self, connection: HttpConnection) -> None:
        """Remove a closed connection from the listener's open connections."""


class HttpConnection(asyncio.BufferedProtocol):
    """A server-side connection: reads requests, runs each in a worker pool and writes the responses.

    Not thread-safe. Its methods run on the event loop, except for `_handle`, `_post`, `_call`, `_stream` and `_await`,
    which run in a worker thread.
    """

    def __init__(
        self, listener: ConnectionOwner, accepted: socket.socket, peer: tuple[str, int], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.peer = peer
        self._accepted = accepted
        self.phase = Phase.HANDSHAKE
        self.since = loop.time()
        self.served = 0
        self.held = 0  # bytes of the listener's budget
        self._listener, self._service, self._limits = listener, listener.service, listener.limits
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser = RequestParser(self._limits)
        self._http = self._parser.http
        self._timer: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLObject | None = None
        self._certificate, self._subject = b"", cast("dict[str, object]", {})
        self._begin_request()

    # The transport's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request; asyncio calls this after the TLS handshake."""
        self._transport = cast("asyncio.Transport", transport)
        tls = transport.get_extra_info("ssl_object")
        # Writing is paused until the last byte is with the kernel. asyncio's TLS pauses at `high`, TCP beyond it.
        self._transport.set_write_buffer_limits(high=0 if tls is None else 1, low=0)
        if tls is not None:
            self._tls = tls
            self._certificate, self._subject = tls.getpeercert(True) or b"", tls.getpeercert() or {}
        self._enter(Phase.RECEIVING, self._limits.request_s)

    def get_buffer(self, _size_hint: int) -> memoryview:
        """Return the buffer into which asyncio reads the next bytes.

        All connections share it, so `buffer_updated` copies the bytes before another connection reads.
        """
        if self._tls is None:
            return self._listener.read_buffer
        return self._listener.read_buffer[: max(TLS_READ_SIZE, self._tls.pending())]  # the rest of a long record

    def buffer_updated(self, size: int) -> None:
        """Store the `size` bytes in the buffer, and queue the connection for parsing if it expects a request.

        The bytes of a further request are parsed after the response in progress.
        """
        if self.phase is Phase.LINGERING:
            self._discard(size)
        if self.phase in (Phase.LINGERING, Phase.CLOSED):
            return
        if self.phase is Phase.IDLE:
            self._enter(Phase.RECEIVING, self._limits.request_s)
        self._parser.receive(self._listener.read_buffer[:size])
        if self.phase is Phase.RECEIVING:
            self._listener.turns.add(self)
        if self._parser.unread > READ_AHEAD:
            self._open_transport.pause_reading()

    def eof_received(self) -> bool:
        """Handle the client's end of stream; return True to keep the socket open for a response in progress."""
        self._cancel_request()
        if self.phase in (Phase.LINGERING, Phase.CLOSED):
            return False
        self._parser.ended = True
        if self.phase is Phase.RECEIVING:
            self._listener.turns.add(self)
        return not self._tls and self.phase in (Phase.RECEIVING, Phase.WORKING, Phase.REFUSING, Phase.SENDING)

    def connection_lost(self, _error: Exception | None) -> None:
        """Cancel the request in progress, and release the memory that the connection holds."""
        self._enter(Phase.CLOSED, None)
        self._cancel_request()
        self._parts.clear()
        self._acknowledge(ClientDisconnectedError())
        self._listener.release(self)
        self._listener.forget(self)

    def _cancel_request(self) -> None:
        """Set the events by which the request in progress learns that its client has disconnected."""
        self._client_left.set()
        self._cancelled.set()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        """Continue the response; asyncio calls this when it has passed all written bytes to the kernel."""
        self._paused = False
        if self.phase is Phase.SENDING:
            self._write()
        elif self.phase is Phase.STREAMING:
            self._enter(Phase.STREAMING, None)
            self._acknowledge(None)

    # For the listener.

    @property
    def has_sent(self) -> bool:
        """Whether the client has sent a byte. With TLS, bytes of the handshake do not count."""
        return self._parser.received > 0

    @property
    def is_evictable(self) -> bool:
        """Whether the connection waits for its client, so that closing it would lose no work of the server."""
        return self.phase in EVICTABLE

    def abort(self) -> None:
        """Close the connection immediately and discard unwritten bytes."""
        if self._transport is not None:
            self._transport.abort()
        else:  # the handshake then fails with an end of file
            with contextlib.suppress(OSError):
                self._accepted.shutdown(socket.SHUT_RDWR)

    def free_bytes(self) -> None:
        """Refuse the request that is arriving, or else abort the connection, so that its memory becomes free."""
        if self.phase is Phase.RECEIVING:
            self._refuse_busy("the server's memory for requests and responses is exhausted; try again")
        else:
            self.abort()

    def stop(self) -> None:
        """Let a request in progress finish, and close the connection after it, or at once if there is none."""
        self._cancelled.set()
        self._stopping = True
        if self.phase in (Phase.RECEIVING, Phase.IDLE):
            self._close()
        elif self.phase is Phase.HANDSHAKE:
            self.abort()

    # Reading.

    _stopping = False

    def _begin_request(self) -> None:
        """Reset the attributes that belong to one request."""
        self._head: RequestHead | None = None
        self._route: PoolAssignment | None = None
        self._body = io.BytesIO()  # 16 MiB in parts of one byte would take 700 MiB in a list
        self._size = 0
        self._discardable: int | None = None  # bytes of a body that was refused because the server is busy
        self._cancelled, self._client_left = threading.Event(), threading.Event()
        self._parts: deque[bytes | memoryview] = deque()
        self._paused = False
        self._acknowledged: Future[None] | None = None

    def parse_step(self, until: float) -> bool:
        """Handle at most EVENTS_PER_STEP HTTP events of a request, and none after `until`; return whether more wait.

        An event is a head, a part of a body, an end or an error.
        """
        for _ in range(EVENTS_PER_STEP):
            if self.phase is not Phase.RECEIVING:
                return False
            if not self._parse_event():
                if self.phase is Phase.RECEIVING:
                    self._open_transport.resume_reading()
                return False
            if self._loop.time() >= until:
                break
        return True

    def _parse_event(self) -> bool:
        """Handle the next HTTP event that has arrived; return False if there is none."""
        try:
            event = self._parser.next_event()
            if isinstance(event, h11.Request):
                self._receive_head(event)
            elif isinstance(event, h11.Data):
                self._receive_body(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self._submit()
            elif event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    interim = h11.InformationalResponse(status_code=100, headers=[])
                    self._open_transport.write(self._http.send(interim) or b"")
                return False
            else:  # the client closed, or switched to another protocol
                self._close()
        except h11.RemoteProtocolError as e:
            self._refuse_unreadable(e.error_status_hint, str(e))
        return True

    def _receive_head(self, event: h11.Request) -> None:
        limits = self._limits
        if len(event.target) > limits.max_target:
            self._refuse_unreadable(414, f"the path and query are longer than {limits.max_target} bytes")
        else:
            headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in event.headers.raw_items()]
            version = event.http_version.decode()
            self._head = RequestHead(event.method.decode(), event.target.decode("latin-1"), headers, version)
            self._route = self._service.route(self._head)
            length = self._head.header("content-length")
            if length.isdecimal() and int(length) > self._route.max_body:
                self._refuse_too_large()

    def _receive_body(self, data: bytes | bytearray | memoryview) -> None:
        assert self._route is not None
        self._size += len(data)
        if self._size > self._route.max_body:
            self._refuse_too_large()
        elif self._listener.hold(self, len(data)):
            self._body.write(data)
        else:
            self._refuse_busy("the server's memory for requests is exhausted; try again")

    def _submit(self) -> None:
        """Submit the complete request to its worker pool, or answer 429 if the pool is full."""
        assert self._head is not None
        assert self._route is not None
        body = self._body.getvalue()
        self._body = io.BytesIO()
        pool = self._route.pool
        local = self._open_transport.get_extra_info("sockname")[:2]
        request = Request(
            self._head,
            body,
            self.peer,
            local,
            self._tls is not None,
            self._certificate,
            self._subject,
            self._cancelled,
            self._client_left,
            pool.name,
        )
        self._enter(Phase.WORKING, None)
        if not pool.submit(self.peer[0], lambda: self._handle(request), self._post):
            self._refuse_busy(f"too many requests of this kind ({pool.name}); try again", 429)

    # In the worker thread.

    def _handle(self, request: Request) -> Response | None:
        """Run the application in the worker thread and return its response.

        The result is None if the response was streamed or the client has disconnected.
        """
        if request.cancelled.is_set() and self.phase is Phase.CLOSED:
            return None
        try:
            response = self._service.handle(request)
        except Exception:  # an application answers its own errors, so this one is a fault of the server
            _log.exception("request failed: %s %s", request.head.method, request.head.path)
            return self._service.refuse(500, "unexpected error; see the server's log")
        if response.stream is None:
            return response
        self._stream(response)
        return None

    def _post(self, response: Response | None) -> None:
        if response is not None:
            with contextlib.suppress(ClientDisconnectedError):
                self._call(self._refuse if response.status in BUSY_STATUSES else self._respond, response)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError as e:  # the loop is closed
            raise ClientDisconnectedError from e

    def _stream(self, response: Response) -> None:
        """Send a streamed response from the worker thread; wait after each part until the client has read it."""
        assert response.stream is not None
        complete = False
        try:
            self._await(self._begin_stream, response)
            for part in response.stream:
                if part:
                    self._await(self._write_part, part)
            complete = True
        except ClientDisconnectedError:
            pass
        except Exception:
            _log.exception("a stream failed")
        finally:
            getattr(response.stream, "close", lambda: None)()
        with contextlib.suppress(ClientDisconnectedError):
            self._call(self._end_stream if complete else self.abort)

    def _await(self, function: Callable[..., None], argument: object) -> None:
        """Call `function(argument)` on the event loop, and block until the client has read what the function wrote.

        Raises ClientDisconnectedError if the connection is closed.
        """
        acknowledged: Future[None] = Future()
        self._call(self._write_and_acknowledge, function, argument, acknowledged)
        acknowledged.result()

    # Writing.

    def _write_and_acknowledge(
        self, function: Callable[[object], None], argument: object, acknowledged: Future[None]
    ) -> None:
        if self.phase is Phase.CLOSED:
            acknowledged.set_exception(ClientDisconnectedError())
            return
        self._acknowledged = acknowledged
        function(argument)
        if self._paused:
            self._enter(Phase.STREAMING, self._limits.response_s)
        else:
            self._acknowledge(None)

    def _acknowledge(self, error: Exception | None) -> None:
        waiting, self._acknowledged = self._acknowledged, None
        if waiting is not None:
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)

    def _begin_stream(self, response: Response) -> None:
        self._enter(Phase.STREAMING, None)
        self._listener.release(self)  # the request's bytes
        self._open_transport.write(self._encode_head(response))

    def _write_part(self, part: bytes) -> None:
        self._open_transport.write(self._http.send(h11.Data(data=part)) or b"")

    def _end_stream(self) -> None:
        if self.phase is Phase.STREAMING:
            self._parts.append(self._http.send(h11.EndOfMessage()) or b"")
            self._enter(Phase.SENDING, self._limits.response_s)
            self._write()

    def _respond(self, response: Response) -> None:
        """Begin to write a response that is not a stream, or a 503 if the memory for it is not available."""
        if self.phase is Phase.CLOSED:
            return
        self._listener.release(self)  # the request's bytes
        self._body = io.BytesIO()
        self._enter(Phase.SENDING, self._limits.response_s)
        if not self._listener.hold(self, len(response.body)):
            response = with_retry_after(
                self._service.refuse(503, "the server's memory for responses is exhausted; try again")
            )
        self._parts.append(self._encode_head(response))
        if response.body and (self._head is None or self._head.method != "HEAD"):
            for part in self._http.send_with_data_passthrough(h11.Data(data=response.body)) or ():
                whole = memoryview(part)
                self._parts.extend(whole[at : at + SLICE] for at in range(0, len(whole), SLICE))
        self._parts.append(self._http.send(h11.EndOfMessage()) or b"")
        self._write()

    def _encode_head(self, response: Response) -> bytes:
        """Return the encoded status line and headers of a response."""
        headers = [("Date", formatdate(usegmt=True)), *response.headers]
        names = {name.lower() for name, _ in response.headers}
        if response.stream is None and response.status not in STATUSES_WITHOUT_BODY and "content-length" not in names:
            headers.append(("Content-Length", str(len(response.body))))
        if self._stopping or self._http.their_state is not h11.DONE or self._parser.is_pipelined:
            headers.append(("Connection", "close"))
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        start = h11.Response(status_code=response.status, reason=responses.get(response.status, ""), headers=encoded)
        return self._http.send(start) or b""

    def _write(self) -> None:
        """Write parts of the response until the client stops reading; after the last part, call `_next`."""
        while self._parts and not self._paused:
            self._open_transport.write(self._parts.popleft())
        if not self._parts and not self._paused:
            self._next()

    def _next(self) -> None:
        """Wait for the client's next request after a complete response, or close the connection if none may follow."""
        self._listener.release(self)
        self.served += 1
        if self._http.their_state in (h11.SEND_BODY, h11.ERROR) or self._parser.is_pipelined:
            self._linger()
        elif self._stopping or self._parser.ended or {self._http.our_state, self._http.their_state} != {h11.DONE}:
            self._close()
        else:
            self._parser.start_next_cycle()
            self._begin_request()
            self._open_transport.resume_reading()
            self._enter(Phase.IDLE, self._limits.idle_s)

    def _refuse(self, response: Response) -> None:
        """Send `response`, a refusal, after the delay that `refusal_pace` sets for the client's address.

        Until then, nothing more is read from the client.
        """
        if self.phase is Phase.CLOSED:
            return
        self._listener.release(self)
        self._body = io.BytesIO()
        delay_s = self._listener.refusal_pace.delay_s(self.peer[0], self._loop.time())
        if not delay_s:
            self._respond(response)
            return
        self._enter(Phase.REFUSING, None)
        self._open_transport.pause_reading()
        self._loop.call_later(delay_s, self._respond, response)

    def _refuse_too_large(self) -> None:
        assert self._route is not None
        self._refuse(self._service.refuse(413, f"the body must be at most {self._route.max_body >> 10} KiB as sent"))

    def _refuse_busy(self, message: str, status: int = 503) -> None:
        assert self._route is not None
        self._discardable = self._route.max_body - self._size
        self._refuse(with_retry_after(self._service.refuse(status, message)))

    def _refuse_unreadable(self, status: int, reason: str) -> None:
        _log.debug("unreadable request from %s: %s", self.peer[0], reason)
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(self._service.refuse(status, f"cannot parse the request: {reason}"))
        else:
            self._close()

    # Ending.

    def _linger(self) -> None:
        """Discard what the client still sends, for at most LINGER_S seconds.

        The client can read the response only if the connection is not reset before. Many clients read only when they
        have sent everything, so after a refusal of a body for which there was no memory, the rest of it is discarded
        within the time for reading a response.
        """
        self._enter(Phase.LINGERING, LINGER_S if self._discardable is None else self._limits.response_s)
        self._open_transport.resume_reading()
        if self._open_transport.can_write_eof():
            try:
                self._open_transport.write_eof()
            except OSError:  # the client has closed: it answered the response with a reset
                self.abort()

    def _discard(self, size: int) -> None:
        """Count bytes that arrive after a refusal, and close the connection if they exceed the limit of a body."""
        if self._discardable is not None:
            self._discardable -= size
            if self._discardable + MAX_FRAMING_BYTES < 0:
                self.abort()

    def _close(self) -> None:
        self._enter(Phase.LINGERING, CLOSE_S)
        self._open_transport.close()

    def _enter(self, phase: Phase, deadline_s: float | None) -> None:
        """Begin a phase and abort the connection after `deadline_s` seconds in it; None sets no deadline."""
        self.phase, self.since = phase, self._loop.time()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if deadline_s is None else self._loop.call_later(deadline_s, self._expire)

    def _expire(self) -> None:
        _log.debug("closing a connection from %s: %s took too long", self.peer[0], self.phase.name.lower())
        self.abort()

    @property
    def _open_transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport
