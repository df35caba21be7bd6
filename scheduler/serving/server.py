"""The HTTPS listener of the scheduler: runs the HTTP server of `herodotus_serving` in a thread of this process.

Invariant: probes that need no review by the API server run in a pool of their own, so that no client and no slow API
server delays them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

from herodotus_record import klog
from herodotus_serving.limits import ListenerLimits
from herodotus_serving.listener import Listener, ServerThread
from herodotus_serving.listener import Server as Listeners
from herodotus_serving.messages import HttpService, PoolAssignment, Request, RequestHead, Response
from herodotus_serving.pools import WorkerPool
from herodotus_serving.sockets import Address, listen
from scheduler.serving.access import ALWAYS_ALLOWED_PATHS
from scheduler.serving.http import HttpStatusError, build_text_response

MAX_BODY_BYTES: Final = 1024  # a number is the longest body that means anything here
LIMITS: Final = ListenerLimits(connections=128, per_address=64, bytes_in_flight=32 << 20)
REASONS: Final = {413: "RequestEntityTooLarge", 429: "TooManyRequests", 503: "ServiceUnavailable"}


class StatusServer:
    """The HTTPS server for health, metrics and configuration on one address, running from `start` to `close`."""

    def __init__(
        self,
        address: tuple[str, int],
        contexts: Callable[[], ssl.SSLContext],
        handler: Callable[[Request], Response],
        limits: ListenerLimits = LIMITS,
    ) -> None:
        """Listen on the address (host, port). Raise ListenError if that is impossible.

        `contexts` returns the TLS context of the next connection, and `handler` the response to a request.
        """
        self._handler = handler
        self._probes = WorkerPool("probes", 1, 256, per_address=16)
        self._others = WorkerPool(
            "requests", 8, 32, per_address=16
        )  # metrics, configuration, and what is reviewed by the API server
        listening = listen(Address(*address))
        self.port = int(listening.getsockname()[1])
        self.listener = Listener(listening, HttpService(self._route, self._handle, _refuse), limits, contexts)
        self._thread = ServerThread(Listeners([self.listener]))

    def start(self) -> None:
        """Start to accept connections."""
        self._thread.start()

    def close(self) -> None:
        """Stop accepting connections, and close those that are open."""
        self._thread.close()

    def _route(self, head: RequestHead) -> PoolAssignment:
        reviewed = head.path not in ALWAYS_ALLOWED_PATHS or bool(head.header("authorization"))
        return PoolAssignment(self._others if reviewed else self._probes, MAX_BODY_BYTES)

    def _handle(self, request: Request) -> Response:
        head = request.head
        klog.info(4, "HTTP", peer=request.peer[0], method=head.method, path=head.path)
        try:
            return self._handler(request)
        except HttpStatusError as e:
            return e.response()
        except Exception as e:  # an error of this program must not look like an answer
            klog.error(e, "Request failed", path=head.path)
            return build_text_response(500, "internal server error\n")


def _refuse(status: int, message: str) -> Response:
    return HttpStatusError(status, REASONS.get(status, "BadRequest"), message).response()
