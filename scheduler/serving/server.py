"""The HTTPS listener of the scheduler: runs the HTTP server of `herodotus_serving` in a thread of this process.

Invariant: probes that need no review by the API server run in a pool of their own, so that no client and no slow API
server delays them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import parse_qs

from herodotus_record import klog
from herodotus_serving.limits import ListenerLimits
from herodotus_serving.listener import Listener, ServerThread
from herodotus_serving.listener import Server as Listeners
from herodotus_serving.messages import HttpService, PoolAssignment, RequestHead
from herodotus_serving.messages import Request as Received
from herodotus_serving.messages import Response as Sent
from herodotus_serving.pools import WorkerPool
from herodotus_serving.sockets import Address, listen
from scheduler.serving.access import ALWAYS_ALLOWED_PATHS
from scheduler.serving.http import TEXT, HttpStatusError, StatusRequest, StatusResponse

MAX_BODY_BYTES: Final = 1024  # a number is the longest body that means anything here
MAX_QUERY_FIELDS: Final = 20  # verbose, and an exclude for each check
LIMITS: Final = ListenerLimits(connections=128, per_address=64, bytes_in_flight=32 << 20)
REASONS: Final = {413: "RequestEntityTooLarge", 429: "TooManyRequests", 503: "ServiceUnavailable"}

Handler = Callable[[StatusRequest], StatusResponse]


class StatusServer:
    """The HTTPS server for health, metrics and configuration on one address, running from `start` to `close`."""

    def __init__(
        self,
        address: tuple[str, int],
        contexts: Callable[[], ssl.SSLContext],
        handler: Handler,
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

    def _handle(self, received: Received) -> Sent:
        head = received.head
        try:
            query = parse_qs(head.query, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
        except ValueError as e:
            return _refuse(400, str(e))
        peer = cast("dict[str, Any] | None", received.subject or None)
        token, accept = head.header("authorization"), head.header("accept")
        request = StatusRequest(head.method, head.path, query, token, received.body, peer, accept)
        klog.info(4, "HTTP", peer=received.peer[0], method=head.method, path=head.path)
        try:
            return _sent(self._handler(request))
        except HttpStatusError as e:
            return _sent(e.response())
        except Exception as e:  # a fault of ours must not look like an answer
            klog.error(e, "Request failed", path=request.path)
            return _sent(StatusResponse(500, b"internal server error\n", TEXT))


def _refuse(status: int, message: str) -> Sent:
    return _sent(HttpStatusError(status, REASONS.get(status, "BadRequest"), message).response())


def _sent(response: StatusResponse) -> Sent:
    headers = [
        ("Content-Type", response.content_type),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-cache, private"),
        ("Connection", "close"),
    ]
    return Sent(response.code, headers, response.body)
