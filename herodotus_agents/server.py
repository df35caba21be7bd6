"""gunicorn, started from Python: one worker process with threads, a graceful end.

One process, because some agents learn from every request. Owns: the socket, the server's settings. Does not own: routes
(`app`), flags (`__main__`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

GRACE_S: Final = 5  # for requests under way: a scheduler's own time-out
BACKLOG: Final = 256


class ListenError(Exception):
    """An address that cannot be listened on. The message says which and why."""


def serve(address: str, port: int, threads: int, make: Callable[[], Flask]) -> None:
    """Listen and answer until SIGTERM; `make` is called in the worker process. ListenError."""
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((address, port), family=family, backlog=BACKLOG)
    except OSError as e:
        why = os.strerror(e.errno) if e.errno and e.errno > 0 else e.strerror
        raise ListenError(f"cannot listen on {address}:{port}: {why}") from e
    _Server(listening, threads, make).run()


class _Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's own way to be started by a program."""

    def __init__(self, listening: socket.socket, threads: int, make: Callable[[], Flask]) -> None:
        self._make = make
        host, port = listening.getsockname()[:2]
        self._where = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._options: dict[str, Any] = {
            "bind": [f"fd://{listening.detach()}"],
            "workers": 1,
            "worker_class": "gthread",
            "threads": threads,
            "graceful_timeout": GRACE_S,
            "keepalive": 75,  # a scheduler keeps its connection between pods
            "control_socket_disable": True,
            "loglevel": "warning",
            "when_ready": lambda _: print(f"listening on {self._where}", flush=True),
        }
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """In the worker: threads do not survive a fork."""
        return self._make()
