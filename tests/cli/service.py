"""A decisions service with prepared answers on a loopback port, and command lines run in process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from typing import Any

from herodotus_cli.command_line import run
from herodotus_cli.environment import Environment
from herodotus_serving.threads import serve_in_thread
from tests.cli.scenes import NOW

API = "/apis/herodotus.dev/v1alpha1"
PROXY = "/api/v1/namespaces/herodotus/services/https:herodotus-endpoint:8000/proxy"


@dataclass
class Service:
    """`answers`: path with query -> (code, body). Everything else is not found. `requests`: the paths so far."""

    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)  # the documents of POST requests
    url: str = ""

    def answer(self, path: str, document: Any, code: int = 200) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.answers[path] = (code, body)
        self.answers[PROXY + path] = (code, body)

    def refuse(self, path: str, code: int, reason: str, message: str, **details: Any) -> None:
        self.answer(path, status(code, reason, message, **details), code)


def status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


@contextmanager
def serving() -> Iterator[Service]:
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            service.sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.do_GET()

        def do_GET(self) -> None:
            service.requests.append(self.path)
            unknown = status(404, "NotFound", "the server could not find the requested resource")
            code, body = service.answers.get(self.path, (404, json.dumps(unknown).encode()))
            self.send_response(code)
            if 300 <= code < 400:
                self.send_header("Location", "http://elsewhere.test/")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with serve_in_thread(server) as service.url:
        yield service


class Out(StringIO):
    """A standard output that may be a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@dataclass(frozen=True)
class Ran:
    """The exit code and output of a command line; stderr goes to capsys."""

    code: int
    out: str


def command(*arguments: str, environ: Mapping[str, str] | None = None, width: int = 0) -> Ran:
    """Run a command line in process, with a non-zero `width` on a terminal of that many columns."""
    out = Out(bool(width))
    code = run(arguments, Environment(environ or {}, out, lambda: NOW, lambda: width))
    return Ran(code, out.getvalue())
