"""The extender service's listener: the shared server in one worker process of gunicorn.

One process, because some agents learn from every request. Owns: worker pools, the bounds of memory. Does not own:
routes (`app`), flags (`__main__`), connections (`herodotus_serving`).

Invariant: bodies in flight and the objects decoded from them fit in a container of 512 MiB, whatever schedulers send.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Sequence
from typing import Final

from flask import Flask

from herodotus_serving import workers, wsgi
from herodotus_serving.limits import Limits
from herodotus_serving.listener import Listener, Server
from herodotus_serving.memory import MemoryGate
from herodotus_serving.messages import Request, RequestHead, Response, Route, Service, retry
from herodotus_serving.pools import WorkerPool
from herodotus_serving.sockets import Address, address_of, listen
from scheduler.extenders import wire

GRACE_S: Final = 5  # for requests in progress: a scheduler's own time-out
MAX_BODY_BYTES: Final = 32 << 20  # 5,000 nodes of 6 kB; larger clusters send names (nodeCacheCapable)
LIMITS: Final = Limits(bytes_in_flight=96 << 20)  # three bodies of the maximum size
DECODED_BYTES: Final = 288 << 20  # of requests that are worked on
MEMORY_WAIT_S: Final = 10.0
WAITING_CALLS: Final = 64  # a scheduler calls all its extenders at once
# Estimated memory of a request: its body, a copy of its nodes and the response; and the objects decoded, at most one a
# comma. Measured: 55 bytes a comma for nodes, 294 for victims.
COPIES: Final = 3
BYTES_OF_A_VALUE: Final = 256


def serve(address: str, port: int, threads: int, make: Callable[[], Flask]) -> None:
    """Listen and answer until SIGTERM; `make` is called in the worker process. Raises ListenError."""
    listening = listen(Address(address, port))

    def server(sockets: Sequence[socket.socket]) -> Server:
        listeners = [Listener(each, service(make(), threads), LIMITS) for each in sockets]
        gc.freeze()
        return Server(listeners)

    workers.run([listening], server, [f"listening on http://{address_of(listening)}"], GRACE_S)


def service(app: Flask, threads: int) -> Service:
    """Return the application as a service of the server."""
    about = WorkerPool("about", 1, 64, per_address=16)
    calls = WorkerPool("calls", threads, WAITING_CALLS, per_address=(threads + WAITING_CALLS) // 2)
    answer = wsgi.handler(app.wsgi_app, lambda request: route(request.head).pool.name)
    gate = MemoryGate(DECODED_BYTES)

    def route(head: RequestHead) -> Route:
        return Route(calls, MAX_BODY_BYTES) if head.method == "POST" else Route(about, 0)

    def handle(request: Request) -> Response:
        need = COPIES * len(request.body) + BYTES_OF_A_VALUE * request.body.count(b",")
        if need > gate.maximum:
            return refuse(413, f"a request of {len(request.body)} bytes has too many values; use nodeCacheCapable")
        with gate.hold(need, MEMORY_WAIT_S) as held:
            return answer(request) if held else retry(refuse(503, "other requests hold the memory; try again"))

    return Service(route, handle, refuse)


def refuse(status: int, message: str) -> Response:
    """Return an error where schedulers look for it."""
    return Response(status, [("Content-Type", "application/json")], wire.encode({"Error": message}))
