"""The extender service's listener: the shared server in one worker process of gunicorn.

There is one process because some agents learn from every request.

Owns: worker pools and memory limits. Does not own: routes (`app`), flags (`__main__`), connections
(`herodotus_serving`).

Invariant: bodies in flight and the objects decoded from them fit in a container of 512 MiB for every possible request.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Sequence
from typing import Final

from flask import Flask

from herodotus_serving import workers, wsgi
from herodotus_serving.limits import ListenerLimits
from herodotus_serving.listener import Listener, Server
from herodotus_serving.memory import MemoryGate, estimate_json_bytes
from herodotus_serving.messages import HttpService, PoolAssignment, Request, RequestHead, Response, with_retry_after
from herodotus_serving.pools import WorkerPool
from herodotus_serving.probes import OK, ProbeServer
from herodotus_serving.sockets import Address, get_bound_address, listen
from scheduler.extenders import wire

PROBE_PATHS: Final = ("/livez", "/readyz")  # it serves only after its agents are loaded and its nodes are cached
GRACE_S: Final = 5  # for requests in progress at shutdown; a scheduler's own timeout is as long
MAX_BODY_BYTES: Final = 32 << 20  # 5,000 nodes of 6 kB; larger clusters send names (nodeCacheCapable)
LIMITS: Final = ListenerLimits(bytes_in_flight=96 << 20)  # three bodies of the maximum size
DECODED_BYTES: Final = 288 << 20  # memory for the objects of all running requests
MEMORY_WAIT_S: Final = 10.0
QUEUED_CALLS: Final = 64  # a scheduler calls all its extenders at once
BODY_COPIES: Final = 3  # a request's body, its nodes and the response, besides the decoded objects


def serve(address: Address, probes: Sequence[Address], threads: int, create_app: Callable[[], Flask]) -> None:
    """Run the extender service until SIGTERM. Raises ListenError if it cannot listen on an address.

    `create_app` is called in the worker process. `threads` is the number of requests that are processed at the same
    time. `probes` are addresses that serve only /livez and /readyz.
    """
    sockets = [listen(each) for each in (address, *probes)]

    def create_server(sockets: Sequence[socket.socket]) -> Server:
        listeners = [Listener(sockets[0], build_service(create_app(), threads), LIMITS)]
        gc.freeze()
        return Server(listeners, probes=ProbeServer(sockets[1:], dict.fromkeys(PROBE_PATHS, lambda: OK)))

    ready = [f"listening on http://{get_bound_address(sockets[0])}"]
    ready += [f"listening on http://{get_bound_address(each)} (probes)" for each in sockets[1:]]
    workers.run(sockets, create_server, ready, GRACE_S)


def build_service(app: Flask, threads: int) -> HttpService:
    """Return the extender application as an HTTP service with worker pools and a memory limit."""
    info = WorkerPool("info", 1, 64, per_address=16)
    calls = WorkerPool("calls", threads, QUEUED_CALLS, per_address=(threads + QUEUED_CALLS) // 2)
    run_app = wsgi.create_handler(app.wsgi_app)
    gate = MemoryGate(DECODED_BYTES)

    def route(head: RequestHead) -> PoolAssignment:
        return PoolAssignment(calls, MAX_BODY_BYTES) if head.method == "POST" else PoolAssignment(info, 0)

    def handle(request: Request) -> Response:
        needed = BODY_COPIES * len(request.body) + estimate_json_bytes(request.body)
        if needed > gate.maximum:
            return refuse(413, f"request of {len(request.body)} bytes has too many values; set nodeCacheCapable: true")
        with gate.hold(needed, MEMORY_WAIT_S) as held:
            if held:
                return run_app(request)
            return with_retry_after(refuse(503, "not enough memory while other requests run; try again"))

    return HttpService(route, handle, refuse)


def refuse(status: int, message: str) -> Response:
    """Build an error response in the form that kube-scheduler expects of an extender."""
    return Response(status, [("Content-Type", "application/json")], wire.encode({"Error": message}))
