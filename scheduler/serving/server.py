"""The HTTPS listener: connections in, requests to a handler, answers out.

Owns: sockets, threads, limits. Does not own: paths (`routes`), who may ask (`access`), certificates.

The standard library's server, a thread a connection. The TLS handshake runs in that thread and under its deadline:
servers that shake hands where they accept (cheroot does) are stopped by one client that connects and is silent, and
then the kubelet's probes fail. ASGI servers do not hand on the client certificate.

Limits: connections at a time, one request each, seconds from accept to close, bytes of a body. What is over is cut off.
"""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from scheduler import klog
from scheduler.serving.http import TEXT, RefusedError, Request, Response

MAX_CONNECTIONS: Final = 64  # probes, and a scraper or two; each is a thread for some milliseconds
DEADLINE_S: Final = 30.0  # of a whole connection: longer than two reviews that time out
MAX_BODY_BYTES: Final = 1024  # a number is the longest body that means anything here
LINGER_BYTES: Final = 64 << 10  # of a refused body, read so that its sender sees the refusal
LINGER_S: Final = 1.0  # between its pieces
MAX_QUERY_FIELDS: Final = 20  # verbose, and an exclude for each check
POLL_S: Final = 0.5  # how often deadlines and the end are looked for
BACKLOG: Final = 128

Handler = Callable[[Request], Response]


class Server(http.server.ThreadingHTTPServer):
    """Serves in threads of its own from `start` to `close`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = BACKLOG

    def __init__(
        self,
        address: tuple[str, int],
        contexts: Callable[[], ssl.SSLContext],
        handler: Handler,
        max_connections: int = MAX_CONNECTIONS,
        deadline_s: float = DEADLINE_S,
        poll_s: float = POLL_S,
    ) -> None:
        """Listen on (host, port). `contexts`: the TLS context of the next connection. OSError when it cannot."""
        self._poll_s = poll_s
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.handler = handler
        self._contexts = contexts
        self._max_connections = max_connections
        self._deadline_s = deadline_s
        self._open: dict[socket.socket, float] = {}  # accepted, and when it is cut off
        self._lock = threading.Lock()
        super().__init__(address, _Connection)

    @property
    def port(self) -> int:
        """The port listened on, also where the system chose it."""
        return int(self.server_address[1])

    def start(self) -> None:
        """Begin to accept."""
        threading.Thread(target=self.serve_forever, args=(self._poll_s,), name="https", daemon=True).start()

    def close(self) -> None:
        """Accept no more; connections under way end by themselves or with the process."""
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        """Without looking up the host's name, as the base class would: that may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.port

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for one more connection."""
        with self._lock:
            if len(self._open) >= self._max_connections:
                klog.info(2, "Too many connections, closing one", limit=self._max_connections)
                return False
            self._open[request] = time.monotonic() + self._deadline_s
        return True

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's thread: handshake, then the one request."""
        request.settimeout(self._deadline_s)
        try:
            with self._contexts().wrap_socket(request, server_side=True, suppress_ragged_eofs=True) as tls:
                with self._lock:
                    self._open[tls] = self._open.pop(request)
                try:
                    super().finish_request(tls, client_address)
                finally:
                    with self._lock:
                        self._open.pop(tls, None)
        except OSError as e:  # no TLS, a certificate that is not believed, a client that went, or was too slow
            klog.info(4, "Connection failed", peer=str(client_address[0]), err=str(e))

    def shutdown_request(self, request: Any) -> None:
        """The connection is over."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called by the accepting thread between connections: cut off who is over the deadline."""
        now = time.monotonic()
        with self._lock:
            late = [connection for connection, until in self._open.items() if now > until]
        for connection in late:
            try:
                # of the descriptor: a TLS object would first say good-bye, and wait for the answer
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A fault of ours; the base class prints it to standard error."""
        klog.error("unexpected", "Request failed", peer=str(client_address[0]))


class _Connection(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version = "herodotus"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self._body()
        if body is not None:
            self._answer(self._handled(body))

    do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are logged at verbosity 4; the base class writes them all to standard error."""
        klog.info(4, "HTTP", peer=self.address_string(), said=format % args)

    def _body(self) -> bytes | None:
        """The request's body; None when it was refused."""
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding") or not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self._answer(RefusedError(413, "RequestEntityTooLarge", "the body is too large").response())
            self._linger()
            return None
        return self.rfile.read(int(length))

    def _linger(self) -> None:
        """Throw away what still comes: closed with it unread, the connection is reset, and the answer lost with it."""
        self.connection.settimeout(LINGER_S)
        left = LINGER_BYTES
        with contextlib.suppress(OSError):
            while left > 0 and (piece := self.connection.recv(left)):
                left -= len(piece)

    def _handled(self, body: bytes) -> Response:
        peer = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        try:
            target = urlsplit(self.path)
            query = parse_qs(target.query, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
        except ValueError as e:
            return RefusedError(400, "BadRequest", str(e)).response()
        request = Request(
            self.command, target.path, query, self.headers.get("Authorization", ""), body, peer=peer or None
        )
        try:
            return self.server.handler(request)
        except RefusedError as e:
            return e.response()
        except Exception as e:  # a fault of ours must not look like an answer
            klog.error(e, "Request failed", path=request.path)
            return Response(500, b"internal server error\n", TEXT)

    def _answer(self, response: Response) -> None:
        self.close_connection = True
        self.send_response(response.code)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache, private")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)
