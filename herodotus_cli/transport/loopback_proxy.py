"""A loopback HTTP server through which one user's browser, and no other client, reaches a Unix socket.

Owns: which requests are accepted and forwarded. Does not own: the server on the socket (`kubectl proxy`, with the
user's credentials), the pages, the answers of local mode.

Any client that knows the port could use the user's rights: other users of the machine, and every web page that the user
visits. So each path starts with a random token that only the user gets, and the Host header must name this server,
which rules out DNS rebinding.

Invariant: a request without the token or with another Host is refused, and so is every method or path that the
`ForwardingRules` do not name. No other headers than `_REQUEST_HEADERS` are forwarded.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from herodotus_cli.transport.kubectl_proxy import UnixConnection

_REQUEST_HEADERS = ("Accept", "If-None-Match", "Content-Type", "Sec-Fetch-Site")
_MAX_BODY = 1 << 20  # bytes; the service accepts less
_RESPONSE_HEADERS = (
    "Content-Type",
    "Content-Length",
    "ETag",
    "Cache-Control",
    "Content-Security-Policy",
    "X-Content-Type-Options",
    "Referrer-Policy",
    "Retry-After",
)
_LIVE_POD = re.compile(r"live/pods/([a-z0-9][a-z0-9.-]{0,252})/([a-z0-9][a-z0-9.-]{0,252})")
_LIVE_HEADER = "Herodotus-Live"  # says what this server answers itself
_LINK_HEADER = "Herodotus-Pages"  # the address of the pages that lasts longer than this server
_IDLE_S = 60.0  # after which a connection without bytes is closed
_CHUNK = 65_536  # bytes


# Returns the HTTP status and the document about the pod with a namespace and a name.
ExplainPod = Callable[[str, str], tuple[int, dict[str, Any]]]


class ServiceAnswer(Protocol):
    """An answer in place of the decisions service: the HTTP status code, headers and body."""

    @property
    def code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def body(self) -> bytes: ...


# Answers a request of the pages by method, path with query string, headers and body.
AnswerRequest = Callable[[str, str, Mapping[str, str], bytes], ServiceAnswer]


class LiveAnswers(NamedTuple):
    """What this server answers itself, and tells the pages of.

    `explain_pod` answers `GET live/pods/NAMESPACE/NAME`. Without a decisions service `answer_request` answers in its
    place. `pages_url` is the lasting address of the pages, or "".
    """

    explain_pod: ExplainPod
    answer_request: AnswerRequest | None = None
    pages_url: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every response."""
        kind = {_LIVE_HEADER: "pods" if self.answer_request is None else "pods, local"}
        return kind | ({_LINK_HEADER: self.pages_url} if self.pages_url else {})


@dataclass(frozen=True)
class ForwardingRules:
    """The paths that are forwarded.

    Those below `service` reach the decisions service; those that match `cluster` reach the API server itself. Both only
    for GET and HEAD. Paths of the service that match `posted` are forwarded for POST too.
    """

    service: str
    cluster: re.Pattern[str]
    posted: re.Pattern[str]


class LoopbackProxy(ThreadingHTTPServer):
    """An HTTP server on 127.0.0.1 that forwards requests with a secret token to a Unix socket.

    Port 0 chooses a free port. The constructor raises OSError if the port is taken.
    """

    daemon_threads = True

    def __init__(
        self,
        port: int,
        unix_socket: str,
        upstream_prefix: str,
        rules: ForwardingRules,
        live: LiveAnswers | None = None,
    ) -> None:
        """Listen on `port` and forward the requests that `rules` allow to the server behind `unix_socket`.

        `upstream_prefix` is the path under which that server serves the decisions service; "" if it is that service.
        `live` has the answers that this server gives itself, if any.
        """
        self.live = live
        self.token = secrets.token_urlsafe(24)
        self.unix_socket = unix_socket
        self.upstream_prefix, self.rules = upstream_prefix, rules
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """The base URL of this server, with the token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}"

    def accepted_path(self, path: str, host: str) -> str | None:
        """Return the path behind the token, without a slash before it; None for a wrong token or Host header."""
        token, slash, rest = path[1:].partition("/")
        ours = hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        named = host in (f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}")
        return rest if ours and named and slash else None

    def find_target(self, method: str, path: str, host: str) -> tuple[bool, str] | None:
        """Return (True, PATH) for a request to the decisions service, (False, PATH) for one to the API server itself.

        PATH is the path without the token. Returns None if the token, Host, method or path is not accepted.
        """
        rest = self.accepted_path(path, host)
        if rest is None:
            return None
        plain = unquote(f"/{rest}".partition("?")[0])
        if ".." in plain.split("/"):
            return None
        if method == "POST":
            return (True, f"/{rest}") if self.rules.posted.fullmatch(plain) else None
        if self.rules.cluster.fullmatch(plain):
            return False, f"/{rest}"
        return (True, f"/{rest}") if plain.startswith(self.rules.service) else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of a request, as when a browser closes its connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    server: LoopbackProxy

    def do_GET(self) -> None:
        path = self.server.accepted_path(self.path, self.headers.get("Host", ""))
        pod = _LIVE_POD.fullmatch(path) if path and self.server.live else None
        if pod is None or self.server.live is None:
            self._answer(b"")
            return
        code, document = self.server.live.explain_pod(pod[1], pod[2])
        self._send(code, "application/json", json.dumps(document).encode())

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MAX_BODY:
            self.close_connection = True
            self._refuse(413, f"a body must state its length, at most {_MAX_BODY >> 10} KiB")
            return
        self._answer(self.rfile.read(int(length)))

    def _answer(self, body: bytes) -> None:
        """Forward the request with its body, answer it in place of the decisions service, or refuse it."""
        target = self.server.find_target(self.command, self.path, self.headers.get("Host", ""))
        if target is None:
            self._refuse(404, "not found: use the link that kubectl herodotus ui printed, with its token")
            return
        is_of_service, path = target
        live = self.server.live
        if is_of_service and live is not None and live.answer_request is not None:
            self._relay(live.answer_request(self.command, path, self._forwarded_headers(), body))
            return
        try:
            self._forward(f"{self.server.upstream_prefix}{path}" if is_of_service else path, body)
        except (OSError, HTTPException) as e:
            self.close_connection = True
            self._refuse(502, f"kubectl did not answer: {e}")

    def _forwarded_headers(self) -> dict[str, str]:
        return {name: self.headers[name] for name in _REQUEST_HEADERS if name in self.headers}

    def _relay(self, answer: ServiceAnswer) -> None:
        """Send an answer that was given in place of the decisions service."""
        self.send_response(answer.code)
        headers = {name: answer.headers[name] for name in _RESPONSE_HEADERS if name in answer.headers}
        headers |= self.server.live.headers if self.server.live else {}
        for name, value in (headers | {"Content-Length": str(len(answer.body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _forward(self, path: str, body: bytes) -> None:
        connection = UnixConnection(self.server.unix_socket)
        try:
            headers = {"Host": "localhost", **self._forwarded_headers()}
            connection.request(self.command, path, body or None, headers=headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name in _RESPONSE_HEADERS:
                if answer.headers[name] is not None:
                    self.send_header(name, answer.headers[name])
            for name, value in (self.server.live.headers if self.server.live else {}).items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Connection", "close")
            self.end_headers()
            while chunk := answer.read(_CHUNK):
                self.wfile.write(chunk)
        finally:
            connection.close()

    def _refuse(self, code: int, why: str) -> None:
        self._send(code, "text/plain; charset=utf-8", f"{why}\n".encode())

    def _send(self, code: int, content_type: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the path contains the token."""
