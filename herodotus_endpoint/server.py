"""gunicorn, started from Python: listening sockets, worker processes with threads, a graceful end.

Owns: sockets, the server's settings, what happens in a worker before the first request, how long a request may take to
arrive. Does not own: routes (`app`), flags (`options`).

Invariant: a client that sends slowly or not at all holds a thread for ARRIVAL_S at most. Whoever runs this process
needs to watch only this process: a worker dies with it, even on SIGKILL, so that a successor finds the port free.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

from herodotus_endpoint.access.delegation import Delegation, opened
from herodotus_endpoint.access.identity import pack_headers
from herodotus_endpoint.errors import unreadable
from herodotus_endpoint.probes import Probes
from herodotus_endpoint.settings import MAX_POLLS, Settings
from herodotus_endpoint.store import Pruner, Pruning, Store
from herodotus_endpoint.tls import Tls, TlsFiles

if TYPE_CHECKING:
    from herodotus_endpoint.metrics import Metrics

GRACE_S: Final = 10  # for requests under way when the end is asked for: twice the longest wait for the database
ARRIVAL_S: Final = 30.0  # a TLS handshake, the headers and a batch: a shipper gives up after as long
BACKLOG: Final = 256  # connections waiting to be accepted; a shipper holds one
SHARED_METRICS: Final = "PROMETHEUS_MULTIPROC_DIR"  # where workers share their numbers (`metrics.SHARED`)
_PR_SET_PDEATHSIG: Final = 1


class ListenError(Exception):
    """An address that cannot be listened on. The message says which and why."""


@dataclass(frozen=True)
class Address:
    """HOST:PORT; port 0 asks the kernel for a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Listening:
    """Where to listen, and how many requests to answer at the same time. `tls`: None is plain HTTP."""

    queries: Sequence[Address]
    ingest: Sequence[Address] = ()
    probes: Sequence[Address] = ()
    threads: int = 8
    workers: int = 1
    tls: TlsFiles | None = None


def serve(settings: Settings, database_url: str, where: Listening, delegation: Delegation | None = None) -> None:
    """Listen and answer until SIGTERM. ListenError, TlsError when an address or a certificate cannot be had."""
    if where.tls:
        Tls(where.tls)  # refused now, and not at the first connection
    sockets = {name: [listen(a) for a in getattr(where, name)] for name in ("queries", "ingest", "probes")}
    names = tuple("{}:{}".format(*s.getsockname()[:2]) for s in sockets["ingest"])
    _Server(replace(settings, ingest_listeners=names), database_url, where, sockets, delegation).run()


def listen(address: Address) -> socket.socket:
    """A listening socket; ListenError when the address is in use, or not ours."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as e:
        why = os.strerror(e.errno) if e.errno and e.errno > 0 else e.strerror  # names are resolved with codes below 0
        raise ListenError(f"cannot listen on {address}: {why}") from e


class _Worker(ThreadWorker):  # type: ignore[misc]
    """Ends its watches when it is told to end, and what of a request has not arrived in time."""

    def init_process(self) -> None:
        self._arriving: dict[int, tuple[Any, float]] = {}  # thread -> connection that it reads from, until when
        super().init_process()

    def handle(self, conn: Any) -> Any:
        self._arriving[threading.get_ident()] = (conn, time.monotonic() + ARRIVAL_S)
        try:
            return super().handle(conn)
        finally:
            self.arrived()

    def arrived(self) -> None:
        """Nothing more is read by this thread."""
        self._arriving.pop(threading.get_ident(), None)

    def notify(self) -> None:
        """Once a second, by the main thread: whoever reads in vain reads an end, and can still answer."""
        super().notify()
        now = time.monotonic()
        for conn, until in list(self._arriving.values()):
            if now > until:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(conn.sock, socket.SHUT_RD)  # of the socket below TLS

    def handle_error(self, request: Any, sock: Any, peer: Any, error: Exception) -> None:
        """What cannot be read as a request is answered as every other error is; gunicorn's own answer is HTML."""
        if not isinstance(error, ParseException):
            super().handle_error(request, sock, peer, error)
            return
        self.log.warning("not a request, from %s: %s", peer[0] if peer else "an unknown peer", error)
        with contextlib.suppress(OSError):
            sock.sendall(unreadable(error))

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.app.stopping.set()
        super().handle_exit(sig, frame)


class _Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's own way to be started by a program."""

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        where: Listening,
        sockets: dict[str, list[socket.socket]],
        delegation: Delegation | None,
    ) -> None:
        self.stopping = threading.Event()
        self._settings, self._database_url, self._where, self._delegation = settings, database_url, where, delegation
        self._probes = sockets["probes"]
        self._tls: Tls | None = None
        self._listening = [f"listening on {self._url(s)} ({_serves(bool(where.ingest))})" for s in sockets["queries"]]
        self._listening += [f"listening on {self._url(s)} (ingest)" for s in sockets["ingest"]]
        self._listening += [f"listening on http://{_address(s)} (probes)" for s in self._probes]
        self._options: dict[str, Any] = {
            "bind": [f"fd://{s.detach()}" for s in (*sockets["queries"], *sockets["ingest"])],
            "workers": where.workers,
            "worker_class": _Worker,
            # a watch, a review, a scheduler that waits for one: each holds a thread, and takes none from the others
            "threads": where.threads + settings.max_watches + settings.max_reviews + MAX_POLLS,
            "graceful_timeout": GRACE_S,
            "control_socket_disable": True,
            "loglevel": "warning",
            "when_ready": self._ready,
            "post_fork": _die_with_parent,
            "pre_request": _begin,
        }
        if where.tls:
            files = {"certfile": str(where.tls.certificate), "keyfile": str(where.tls.key)}
            self._options |= files | {"ssl_context": self._context}
        if where.workers > 1:
            self._options |= {"child_exit": _forget_worker, "on_exit": _forget_metrics}
            os.environ[SHARED_METRICS] = tempfile.mkdtemp(prefix="herodotus-metrics-")
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """In the worker: the store is opened here, because connections do not survive a fork."""
        # here, because prometheus_client decides at its import whether its numbers are shared with other workers
        from herodotus_endpoint.app import create_app
        from herodotus_endpoint.metrics import Metrics

        settings, metrics = self._settings, Metrics()
        authorities = None
        if self._delegation:
            settings, authorities = opened(settings, self._delegation, self._client_authority)
        if self._where.tls:
            self._tls = Tls(self._where.tls, authorities or tuple)
        store = Store(self._database_url, settings.clock)
        self._prune(store, settings, metrics)
        app = create_app(store, settings, metrics, self.stopping)
        for listening in self._probes:
            Probes(listening, app.wsgi_app).start()
        gc.freeze()  # a collection that walks all that was loaded stops every request for 20 ms and more
        return app

    def _prune(self, store: Store, settings: Settings, metrics: Metrics) -> None:
        Pruning(Pruner(store, settings.limits, settings.clock), metrics.left).start()

    def _context(self, _config: object, _default: object) -> ssl.SSLContext:
        assert self._tls is not None
        return self._tls.context()

    def _client_authority(self) -> str:
        return self._tls.client_authority() if self._tls else ""

    def _ready(self, _arbiter: object) -> None:
        for line in self._listening:
            print(line, flush=True)

    def _url(self, sock: socket.socket) -> str:
        return f"{'https' if self._where.tls else 'http'}://{_address(sock)}"


def _serves(apart: bool) -> str:
    return "queries" if apart else "queries and ingest"


def _address(sock: socket.socket) -> Address:
    return Address(*sock.getsockname()[:2])


def _begin(worker: Any, request: Any) -> None:
    if request.method != "POST":  # a watch stays for long, and its request has no body
        worker.arrived()
    request.headers = pack_headers(request.headers)


def _forget_worker(_arbiter: object, worker: Any) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def _forget_metrics(_arbiter: object) -> None:
    shutil.rmtree(os.environ[SHARED_METRICS], ignore_errors=True)


def _die_with_parent(arbiter: Any, _worker: object) -> None:
    """Ask Linux to kill this worker when its parent ends; elsewhere gunicorn's worker notices within a second."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != arbiter.pid:  # it ended before the line above
            os._exit(1)
