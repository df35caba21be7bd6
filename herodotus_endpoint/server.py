"""gunicorn, started from Python: listening sockets, one worker process with threads, a graceful end.

Owns: sockets, the server's settings, what happens in the worker before the first request. Does not own: routes
(`app`), flags (`__main__`).

Invariant: whoever runs this process needs to watch only this process: the worker dies with it, even on SIGKILL, so
that a successor finds the port free.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from herodotus_endpoint.app import create_app
from herodotus_endpoint.metrics import Metrics
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store import Pruner, Pruning, Store

GRACE_S: Final = 10  # for requests under way when the end is asked for: twice the longest wait for the database
BACKLOG: Final = 256  # connections waiting to be accepted; a shipper holds one
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


def serve(
    settings: Settings, database_url: str, binds: Sequence[Address], ingest_binds: Sequence[Address], threads: int
) -> None:
    """Listen and answer until SIGTERM. ListenError when an address cannot be had."""
    queries, ingest = [listen(a) for a in binds], [listen(a) for a in ingest_binds]
    names = tuple("{}:{}".format(*s.getsockname()[:2]) for s in ingest)
    _Server(replace(settings, ingest_listeners=names), database_url, queries, ingest, threads).run()


def listen(address: Address) -> socket.socket:
    """A listening socket; ListenError when the address is in use, or not ours."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as e:
        why = os.strerror(e.errno) if e.errno and e.errno > 0 else e.strerror  # names are resolved with codes below 0
        raise ListenError(f"cannot listen on {address}: {why}") from e


class _Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's own way to be started by a program."""

    def __init__(
        self,
        settings: Settings,
        database_url: str,
        queries: Sequence[socket.socket],
        ingest: Sequence[socket.socket],
        threads: int,
    ) -> None:
        self._settings = settings
        self._database_url = database_url
        self._listening = [f"listening on {_url(s)} ({_serves(bool(ingest))})" for s in queries]
        self._listening += [f"listening on {_url(s)} (ingest)" for s in ingest]
        self._options: dict[str, Any] = {
            "bind": [f"fd://{s.detach()}" for s in (*queries, *ingest)],
            "workers": 1,  # SQLite has one writer, and metrics live in the process
            "worker_class": "gthread",
            "threads": threads,
            "graceful_timeout": GRACE_S,
            "control_socket_disable": True,
            "loglevel": "warning",
            "when_ready": self._ready,
            "post_fork": _die_with_parent,
        }
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """In the worker: the store is opened here, because connections do not survive a fork."""
        settings, metrics = self._settings, Metrics()
        store = Store(self._database_url, settings.clock)
        Pruning(Pruner(store.writer, settings.limits, settings.clock), metrics.pruned.inc).start()
        return create_app(store, settings, metrics)

    def _ready(self, _arbiter: object) -> None:
        for line in self._listening:
            print(line, flush=True)


def _serves(apart: bool) -> str:
    return "queries" if apart else "queries and ingest"


def _url(sock: socket.socket) -> str:
    return f"http://{Address(*sock.getsockname()[:2])}"


def _die_with_parent(arbiter: Any, _worker: object) -> None:
    """Ask Linux to kill this worker when its parent ends; elsewhere gunicorn's worker notices within a second."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != arbiter.pid:  # it ended before the line above
            os._exit(1)
