"""Worker processes that gunicorn starts, restarts and stops.

Owns: the worker class that runs listeners on an event loop, and gunicorn's settings. Does not own: what listeners
serve.

Invariant: a worker ends with its parent, even after SIGKILL, so that the next process finds the port free.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from gunicorn.workers.base import Worker  # type: ignore[import-untyped]

from herodotus_serving.listener import Server
from herodotus_serving.memory import return_large_blocks

HEARTBEAT_S: Final = 1.0
_BOOT_ERROR: Final = 3  # gunicorn stops instead of starting another worker that would fail likewise
_PR_SET_PDEATHSIG: Final = 1


class UnusableServerError(Exception):
    """The reason why no worker can ever create the server, such as an error in the program."""


def run(
    sockets: Sequence[socket.socket],
    create_server: Callable[[Sequence[socket.socket]], Server],
    ready: Sequence[str],
    grace_s: int,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Serve on listening sockets in gunicorn worker processes until SIGTERM.

    `create_server` runs in each worker, because threads and database connections do not survive a fork. If it raises
    UnusableServerError, the program prints the message and ends with exit code 3. `ready` holds the lines to print when
    the sockets accept connections. After SIGTERM, requests in progress have `grace_s` seconds. `options` holds further
    settings of gunicorn, such as the number of workers (default 1).
    """
    settings = {
        "bind": [f"fd://{each.detach()}" for each in sockets],
        "workers": 1,
        "worker_class": _LoopWorker,
        "graceful_timeout": grace_s,
        "control_socket_disable": True,
        "loglevel": "warning",
        "when_ready": lambda _: print("\n".join(ready), flush=True),
        "post_fork": _die_with_parent,
        **(options or {}),
    }
    _Application(settings, create_server).run()


class _Application(BaseApplication):  # type: ignore[misc]
    """A gunicorn application whose settings come from a mapping instead of the command line."""

    def __init__(self, settings: Mapping[str, Any], create_server: Callable[[Sequence[socket.socket]], Server]) -> None:
        self._settings, self._create_server = settings, create_server
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Callable[[Sequence[socket.socket]], Server]:
        return self._create_server


class _LoopWorker(Worker):  # type: ignore[misc]
    """A gunicorn worker process that runs a server on an event loop and sends heartbeats to its parent process."""

    def init_signals(self) -> None:
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def run(self) -> None:
        return_large_blocks()
        try:
            server = self.wsgi([each.sock for each in self.sockets])
        except UnusableServerError as e:
            print(f"error: {e}", file=sys.stderr, flush=True)
            sys.exit(_BOOT_ERROR)
        asyncio.run(self._serve(server))

    async def _serve(self, server: Server) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        graceful = [True]

        def end(with_grace: bool) -> None:
            graceful[0] = with_grace
            stop.set()

        loop.add_signal_handler(signal.SIGTERM, end, True)
        for number in (signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, end, False)
        server.start()
        while not stop.is_set() and self.ppid == os.getppid():
            self.notify()
            try:
                await asyncio.wait_for(stop.wait(), HEARTBEAT_S)
            except TimeoutError:
                continue
        await server.stop(self.cfg.graceful_timeout if graceful[0] else 0.0)


def _die_with_parent(arbiter: Any, _worker: object) -> None:
    """Make Linux kill this worker when its parent ends; on other systems `_serve` checks every HEARTBEAT_S."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != arbiter.pid:  # the parent ended before the line above
            os._exit(1)
