"""Probes on a listener of their own: they answer while every thread of the service is with a reader.

Owns: that listener's threads and limits. Does not own: what the probes say; the application answers, as on any
listener.

Invariant: nothing but the paths of PATHS is answered here, without TLS and without asking who it is.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATHS: Final = ("/livez", "/readyz")
MAX_CONNECTIONS: Final = 16  # a kubelet and some curious; more are closed at once
TIMEOUT_S: Final = 5.0  # of a client that says nothing


class Probes(ThreadingMixIn, WSGIServer):
    """Serves one listening socket, in threads of its own."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, application: WSGIApplication) -> None:
        """`listening` is shared with other processes, and stays open when this ends."""
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = (str(listening.getsockname()[0]), int(listening.getsockname()[1]))
        self.setup_environ()
        self.set_app(only_probes(application))
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def start(self) -> None:
        """Begin to answer."""
        threading.Thread(target=self.serve_forever, name="probes", daemon=True).start()

    def verify_request(self, _request: Any, _client: Any) -> bool:
        """Whether there is a place for another connection."""
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection and give its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        """A client that went away is no error of ours."""


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, format: str, *_args: Any) -> None:
        """Probes are not logged."""


def only_probes(application: WSGIApplication) -> WSGIApplication:
    """The application, for PATHS alone."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") in PATHS and environ.get("REQUEST_METHOD") in ("GET", "HEAD"):
            return application(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "0")])
        return []

    return answer
