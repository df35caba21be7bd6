"""A `kubectl proxy` on a Unix socket that only this user can reach.

Owns: the process, its socket, and HTTP over the socket. Does not own: kubectl's command line (`kubectl_command`), who
may use the socket beyond this process (`loopback_proxy`).

Invariant: the process ends with the block that started it, also on SIGTERM; credentials stay with kubectl.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path

from herodotus_cli.errors import ProxyStartError

_PREFIX, _SOCKET = "herodotus-", "kubectl"
_RANDOM_LENGTH = 8  # characters that tempfile adds
_MAX_ADDRESS = 104  # bytes of a Unix socket's address on macOS, with the final 0; Linux has 108
_POLL_INTERVAL_S = 0.02
_START_TIMEOUT_S = 10.0
_TIMEOUT_S = 60.0


class UnixConnection(HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@contextmanager
def running_proxy(
    command: Callable[[str], list[str]], meanwhile: Callable[[], object] = lambda: None
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run `kubectl proxy` during the block and yield its process and the path of its socket, as soon as it exists.

    `command` returns the command line for a socket, and `meanwhile` is called while the process starts. The output of
    the process goes to a file, because no thread would drain a pipe. Raises ProxyStartError if the process ends, or has
    no socket after _START_TIMEOUT_S seconds.
    """
    _treat_sigterm_as_interrupt()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_socket_folder()) as folder:  # readable by this user only
        path = os.path.join(folder, _SOCKET)
        log = Path(f"{path}.log")
        with (
            log.open("wb") as output,
            subprocess.Popen(command(path), stdin=subprocess.DEVNULL, stdout=output, stderr=output) as kubectl,
        ):
            try:
                meanwhile()
                _wait_for_socket(kubectl, path, log)
                yield kubectl, path
            finally:
                kubectl.kill()


def _wait_for_socket(kubectl: subprocess.Popen[bytes], path: str, log: Path) -> None:
    until = time.monotonic() + _START_TIMEOUT_S
    while not os.path.exists(path):
        if kubectl.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise ProxyStartError(f"error: kubectl proxy: {lines[-1] if lines else 'it ended without a message'}")
        if time.monotonic() > until:
            raise ProxyStartError(f"error: kubectl proxy: no response within {_START_TIMEOUT_S:g}s")
        time.sleep(_POLL_INTERVAL_S)


def _socket_folder() -> str | None:
    """Return the folder for a Unix socket: /tmp if paths in TMPDIR are too long for one, otherwise None for TMPDIR."""
    path = os.path.join(tempfile.gettempdir(), f"{_PREFIX}{'x' * _RANDOM_LENGTH}", _SOCKET)
    return "/tmp" if len(os.fsencode(path)) >= _MAX_ADDRESS else None


def _treat_sigterm_as_interrupt() -> None:
    """Make SIGTERM end the command as Ctrl-C does, because its child processes would outlive it."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with suppress(ValueError):  # not in the main thread, which alone can set handlers
        signal.signal(signal.SIGTERM, interrupt)
