"""A real HTTP extender for tests: on loopback, at a port of the system's choice; keeps what it was sent."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scheduler.config.extenders import ExtenderConfig
from scheduler.extenders.client import HttpExtender
from scheduler.extenders.transport import SPARE_BYTES, ExtenderTransport
from tests.scheduler.builders import make_pod
from tests.scheduler.extenders.recordings import node_of, pod_of


@dataclass(frozen=True)
class Request:
    """What came: the path, headers, and the body byte for byte."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply = Callable[[BaseHTTPRequestHandler, Request], None]


@dataclass
class Stub:
    """Answers each verb as it was told; `requests` is everything that came, in order."""

    url: str
    replies: dict[str, Reply] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def answer(self, verb: str, answer: Any, status: int = 200) -> None:
        """Answer a verb always with this: an object as JSON, or bytes."""
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.replies[verb] = lambda handler, _: send(handler, body, status)

    def reply(self, verb: str, reply: Reply) -> None:
        self.replies[verb] = reply


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, media_type: str = "application/json") -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", media_type)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def stub(tls: ssl.SSLContext | None = None) -> Iterator[Stub]:
    """Run a stub extender while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Request(self.path, dict(self.headers), body)
            served.requests.append(request)
            served.replies[self.path.rpartition("/")[2]](self, request)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Clients that hang up are what some tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    served = Stub(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}/ext")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def client(url: str, *, spare_bytes: int = SPARE_BYTES, **config: Any) -> Iterator[HttpExtender]:
    """Yield a client of an extender with all verbs but bind; `config` are fields of the configuration."""
    verbs = {"filter_verb": "filter", "prioritize_verb": "prioritize", "preempt_verb": "preempt", "weight": 1}
    settings = ExtenderConfig(url_prefix=url, **{**verbs, "http_timeout": "5s", **config})
    extender = HttpExtender(settings, url, ExtenderTransport(settings, spare_bytes=spare_bytes))
    try:
        yield extender
    finally:
        extender.close()


POD = pod_of(make_pod("p").request(cpu="1").json)


NODES = [node_of({"metadata": {"name": name}}) for name in ("a", "b", "c")]
