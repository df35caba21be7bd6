"""HTTP/1.1 on sockets: a thread per connection, keep-alive, chunked streams, limits, a prompt stop.

Does not own: what a request means (`routes`), injected faults (`faults`). It parses the request head itself, because
the standard library's parser costs more than the handling of most requests.

Invariant: every request gets exactly one response or a closed connection. After `close` no thread is left.
"""

from __future__ import annotations

import select
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from socketserver import StreamRequestHandler
from typing import Any

from herodotus_sim import errors
from herodotus_sim.options import MAX_BODY_BYTES, MAX_CONNECTIONS
from herodotus_sim.storage import ObjectStorage
from herodotus_sim.wire import SimulatedRequest, SimulatedResponse, encode

# The maximum of a request line or header; selectors of a thousand names fit.
_MAX_LINE_BYTES = 64 * 1024
# A larger body is read up to this limit, so that the client reads the response; then the connection is closed.
_MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
_MAX_HEADERS = 100  # the limit of http.client and http.server
# A connection without reads or writes for this long is closed (kube-apiserver's idle timeout is at least 90 s).
_SOCKET_TIMEOUT_S = 120.0
# How long `close` waits for threads that are busy, for example with a proxied request.
_JOIN_TIMEOUT_S = 5.0

_PHRASES = {int(status): status.phrase for status in HTTPStatus}


class SimulatedServer(ThreadingHTTPServer):
    """The HTTP server of a simulated cluster: its listening socket, and a thread for each connection."""

    daemon_threads = True
    block_on_close = False  # `close` waits for the threads, with a deadline.
    request_queue_size = 256

    def __init__(
        self,
        address: tuple[str, int],
        handle: Callable[[SimulatedRequest], SimulatedResponse],
        store: ObjectStorage,
        latency_s: float = 0.0,
    ) -> None:
        """Create a server; `handle` raises StatusError for an error response, or OSError to disconnect."""
        self.answer = handle
        self.store = store
        self.latency_s = latency_s
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, HttpRequestHandler)

    def server_bind(self) -> None:
        """Bind without looking up the host name, which may wait for a name server."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart takes the port at once
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a new connection, or close the connection if there are too many."""
        with self._lock:
            if len(self._connections) >= MAX_CONNECTIONS:
                self.shutdown_request(request)
                return
            thread = threading.Thread(
                target=self.process_request_thread, args=(request, client_address), name="sim-connection", daemon=True
            )
            self._connections[request] = thread
            thread.start()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection's socket."""
        super().shutdown_request(request)
        with self._lock:
            self._connections.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: a disconnect is not an error, and `HttpRequestHandler` handles all others."""

    def close(self) -> None:
        """Stop listening, end the watches, close every connection and wait a limited time for the threads."""
        self.shutdown()
        self.server_close()
        self.store.stop()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        deadline = time.monotonic() + _JOIN_TIMEOUT_S
        for thread in connections.values():
            thread.join(max(0.0, deadline - time.monotonic()))


class HttpRequestHandler(StreamRequestHandler):
    """The handler of one client connection, which serves its requests one after another."""

    server: SimulatedServer
    connection: socket.socket
    disable_nagle_algorithm = True
    timeout = _SOCKET_TIMEOUT_S

    def handle(self) -> None:
        """Serve requests until the client or the server closes the connection."""
        try:
            while not self.server.store.stopping and self._serve_request():
                pass
        except OSError:
            pass  # The client or the handler closed the connection.

    def _serve_request(self) -> bool:
        """Read and answer one request; return whether the connection stays open for another one."""
        try:
            request = self._read_request()
        except errors.StatusError as error:
            self._send(encode_error_response(error), "GET", False)
            return False
        if request is None:
            return False
        keep = request.headers.get("connection", "").lower() != "close"
        if self.server.latency_s:
            time.sleep(self.server.latency_s)
        try:
            response = self.server.answer(request)
        except errors.StatusError as error:
            response = encode_error_response(error)
        except OSError:
            raise
        except Exception as error:
            traceback.print_exc()
            response = encode_error_response(errors.internal(repr(error)))
        self._send(response, request.method, keep)
        return keep

    def _read_request(self) -> SimulatedRequest | None:
        """Return the next request of the connection, or None if the client has closed it.

        Raises StatusError if the request is malformed or too large.
        """
        line = self.rfile.readline(_MAX_LINE_BYTES + 1)
        while line in (b"\r\n", b"\n"):
            line = self.rfile.readline(_MAX_LINE_BYTES + 1)
        if not line:
            return None
        if len(line) > _MAX_LINE_BYTES:
            raise errors.StatusError(414, "RequestURITooLong", "the request line is too long")
        words = line.decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise errors.bad_request("no HTTP/1.1 request")
        headers = self._headers()
        if words[2] == "HTTP/1.0":
            headers["connection"] = "close"
        target = words[1]
        if not target.startswith("/"):  # absolute form, as sent to a proxy
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        if headers.get("expect", "").lower() == "100-continue":
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return SimulatedRequest(words[0], path, query, headers, self._body(headers), self._has_client_disconnected)

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        while (line := self.rfile.readline(_MAX_LINE_BYTES + 1)) not in (b"\r\n", b"\n"):
            if not line.endswith(b"\n") or len(headers) >= _MAX_HEADERS:
                raise errors.StatusError(431, "BadRequest", "the request's headers are too large")
            name, _, value = line.decode("latin-1").partition(":")
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked_body()
        length = headers.get("content-length", "0")
        if not length.isdigit():
            raise errors.bad_request("Content-Length is no number")
        if int(length) > MAX_BODY_BYTES:
            self._discard(int(length))
            raise errors.too_large(MAX_BODY_BYTES)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the body ended early")
        return body

    def _discard(self, length: int) -> None:
        """Read and discard a rejected body of `length` bytes, or the first part of it.

        A client that is still sending would not read the response.
        """
        left = min(length, _MAX_DISCARDED_BYTES)
        while left > 0 and (piece := self.rfile.read(min(left, _MAX_LINE_BYTES))):
            left -= len(piece)

    def _chunked_body(self) -> bytes:
        chunks: list[bytes] = []
        total = 0
        while True:
            try:
                size = int(self.rfile.readline(_MAX_LINE_BYTES).partition(b";")[0], 16)
            except ValueError:
                raise errors.bad_request("a chunk has no size") from None
            total += size
            if total > MAX_BODY_BYTES:
                raise errors.too_large(MAX_BODY_BYTES)
            chunks.append(self.rfile.read(size))
            self.rfile.readline(_MAX_LINE_BYTES)
            if size == 0:
                return b"".join(chunks)

    def _has_client_disconnected(self) -> bool:
        """Return whether the client has closed its side of the connection."""
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        try:
            return bool(poller.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _send(self, response: SimulatedResponse, method: str, keep: bool) -> None:
        head = f"HTTP/1.1 {response.status} {_PHRASES.get(response.status, '')}\r\n"
        head += f"Content-Type: {response.content_type}\r\n" if response.content_type else ""
        head += "".join(f"{name}: {value}\r\n" for name, value in response.headers)
        if not keep:
            head += "Connection: close\r\n"
        if response.stream is not None:
            self._send_stream(head, response.stream, method)
            return
        head += f"Content-Length: {len(response.body)}\r\n\r\n"
        body = b"" if method == "HEAD" else response.body
        self.connection.sendall(head.encode("latin-1") + body)

    def _send_stream(self, head: str, stream: Iterator[bytes], method: str) -> None:
        try:
            self.connection.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode("latin-1"))
            if method == "HEAD":
                return
            for chunk in stream:
                self.connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.connection.sendall(b"0\r\n\r\n")
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()


def encode_error_response(error: errors.StatusError) -> SimulatedResponse:
    """Return the response to a request that failed with this error."""
    details = error.details or {}
    wait_s = details.get("retryAfterSeconds") or (1 if error.code == 429 else None)
    headers = (("Retry-After", str(wait_s)),) if wait_s else ()
    return SimulatedResponse(error.code, encode(error.status()), headers=headers)
