"""A `kubectl proxy` on a Unix socket that only this user can reach.

Owns: the process, its socket, and HTTP over the socket. Does not own: kubectl's command line (`kubectl_command`), who
may use the socket beyond this process (`loopback_proxy`).

Invariant: the process ends when its owner closes it, also on SIGTERM; credentials stay with kubectl.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType

from herodotus_cli.errors import ProxyStartError
from herodotus_cli.transport.kubectl_command import kill_process

_PREFIX, _SOCKET = "herodotus-", "kubectl"
_RANDOM_LENGTH = 8  # characters that tempfile adds
_MAX_ADDRESS = 104  # bytes of a Unix socket's address on macOS, with the final 0; Linux has 108
_POLL_INTERVAL_S = 0.02
_START_TIMEOUT_S = 10.0
_TIMEOUT_S = 60.0
_SILENCE_S = 90.0  # the API server sends a bookmark about every minute


class UnixConnection(HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: str, timeout_s: float = _TIMEOUT_S) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class KubectlProxy(AbstractContextManager["KubectlProxy"]):
    """A running `kubectl proxy`, and GET requests through it with one connection for each thread.

    The output of the process goes to a file, because no thread would drain a pipe.
    """

    def __init__(self, command: Callable[[str], list[str]]) -> None:
        """Start the process without waiting for it. `command` returns the command line for the path of a socket."""
        _treat_sigterm_as_interrupt()
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_socket_folder()))
        self._path = os.path.join(folder, _SOCKET)  # in a folder that only this user can read
        self._log = Path(f"{self._path}.log")
        output = self._stack.enter_context(self._log.open("wb"))
        self.process = subprocess.Popen(command(self._path), stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self._stack.callback(kill_process, self.process)
        self._connections = threading.local()

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process and delete its files."""
        self._stack.close()

    def wait_for_socket(self) -> str:
        """Return the path of the socket, as soon as it accepts connections.

        Raises ProxyStartError if the process ends, or accepts none after _START_TIMEOUT_S seconds.
        """
        until = time.monotonic() + _START_TIMEOUT_S
        while not self._accepts_connections():
            if self.process.poll() is not None:
                lines = self._log.read_text(errors="replace").strip().splitlines()
                raise ProxyStartError(f"error: kubectl proxy: {lines[-1] if lines else 'it ended without a message'}")
            if time.monotonic() > until:
                raise ProxyStartError(f"error: kubectl proxy: no response within {_START_TIMEOUT_S:g}s")
            time.sleep(_POLL_INTERVAL_S)
        return self._path

    def _accepts_connections(self) -> bool:
        """Return whether the process listens: its socket exists a moment before."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(self._path)
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status code and the body of the response to a GET request.

        Raises OSError or HTTPException if there is none, and ProxyStartError as `wait_for_socket`.
        """
        connection: UnixConnection | None = getattr(self._connections, "one", None)
        if connection is None:
            connection = self._connections.one = UnixConnection(self.wait_for_socket())
            self._stack.callback(connection.close)
        try:
            connection.request("GET", path, headers={"Accept": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException):
            connection.close()  # otherwise the next request would fail too, because this one has no response
            raise

    def stream(self, path: str) -> Generator[bytes, None, None]:
        """Request a watch and yield the lines of the response until it ends. Closing the generator ends it too.

        If the API server refuses, the only line is its Status. Raises OSError or HTTPException if the connection breaks
        or is silent for longer than between two bookmarks, and ProxyStartError as `wait_for_socket`.
        """
        connection = UnixConnection(self.wait_for_socket(), _SILENCE_S)
        try:
            connection.request("GET", path, headers={"Accept": "application/json"})
            yield from connection.getresponse()
        finally:
            connection.close()


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
