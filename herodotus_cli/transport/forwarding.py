"""A loopback server through which one user's browser, and nobody else's, reaches a Unix socket.

Owns: who may come in, which paths go on. Does not own: what listens on the socket (`kubectl proxy`, with the user's
credentials), or what is served.

Whoever knows the port could ask with the user's rights: other users of the machine, and any web page that the user
looks at. So every path begins with a token that is made at the start and told to the user alone, and the Host header
must be ours, which a page elsewhere cannot bring about by rebinding its own name to 127.0.0.1.

Invariant: without the token, or with another Host, nothing is passed on; only GET and HEAD are, only below one path,
and no header of the browser's but those of `_ASKED`.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

_ASKED = ("Accept", "If-None-Match")
_ANSWERED = (
    "Content-Type",
    "Content-Length",
    "ETag",
    "Cache-Control",
    "Content-Security-Policy",
    "X-Content-Type-Options",
    "Referrer-Policy",
    "Retry-After",
)
_PIECE = 65_536  # bytes
_TIMEOUT_S = 60.0


class Forwarding(ThreadingHTTPServer):
    """Listens on 127.0.0.1; port 0 asks the kernel for a free one. OSError where the port is taken."""

    daemon_threads = True

    def __init__(self, port: int, unix_socket: str, before: str, within: str) -> None:
        """`before`: what goes before each path on the way; `within`: the one path, below the token, that is served."""
        self.token = secrets.token_urlsafe(24)
        self.unix_socket, self.before, self.within = unix_socket, before, within
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """Where the user is let in."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}"

    def way_of(self, path: str, host: str) -> str | None:
        """The path to ask for on the socket; None where the request is not the user's own, or of nothing served."""
        token, slash, rest = path[1:].partition("/")
        ours = hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        named = host in (f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}")
        served = f"/{rest}".startswith(self.within) and ".." not in unquote(rest.partition("?")[0]).split("/")
        return f"{self.before}/{rest}" if ours and named and slash and served else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Forwarding

    def do_GET(self) -> None:
        way = self.server.way_of(self.path, self.headers.get("Host", ""))
        if way is None:
            self._refuse(404, "not here: the link has a token that kubectl herodotus ui printed")
            return
        try:
            self._pass_on(way)
        except (OSError, HTTPException) as e:
            self.close_connection = True
            self._refuse(502, f"kubectl did not answer: {e}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _pass_on(self, way: str) -> None:
        upstream = _Unix(self.server.unix_socket)
        try:
            asked = {name: self.headers[name] for name in _ASKED if name in self.headers}
            upstream.request(self.command, way, headers={"Host": "localhost", **asked})
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name in _ANSWERED:
                if answer.headers[name] is not None:
                    self.send_header(name, answer.headers[name])
            if "Content-Length" not in answer.headers:
                self.send_header("Connection", "close")
            self.end_headers()
            while piece := answer.read(_PIECE):
                self.wfile.write(piece)
        finally:
            upstream.close()

    def _refuse(self, code: int, why: str) -> None:
        body = f"{why}\n".encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: a line would hold the token."""


class _Unix(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
