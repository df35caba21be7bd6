"""Child processes that are started when they are needed, or ahead of time.

Owns: starting and killing them. Does not own: command lines (`kubectl_command`), the meaning of outputs (`kubectl`).

Invariant: a process started ahead is used only for exactly its command line; a process that is not used is killed.
"""

from __future__ import annotations

import os

from herodotus_cli.transport.spawned_process import IS_SUPPORTED, SpawnedProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from herodotus_cli.transport.popen_process import PopenProcess

    Process = SpawnedProcess | PopenProcess

# kubectl spends a fifth of its time on collecting garbage while it sets up its commands, and finds none.
_KUBECTL_VARIABLES = {"GOGC": "400"}


class PrefetchedProcesses:
    """Child processes that were started ahead of time, by command line, until a caller takes them."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, ...], Process] = {}

    def start(self, command: Sequence[str], *, inherits_stdin: bool = True) -> None:
        """Start a command ahead of time. If it cannot be started, `take` tries again and reports the error."""
        try:
            self._waiting[tuple(command)] = start_process(command, inherits_stdin=inherits_stdin)
        except OSError:
            return

    def take(self, command: Sequence[str], *, inherits_stdin: bool = True) -> Process:
        """Return the process that was started ahead of time for a command line, or start one now.

        With `inherits_stdin`, a credential plugin of kubectl can prompt the user; only one process at a time may do so.
        Raises OSError if the command cannot be started.
        """
        return self._waiting.pop(tuple(command), None) or start_process(command, inherits_stdin=inherits_stdin)

    def close(self) -> None:
        """Kill the processes that no caller took."""
        for process in self._waiting.values():
            process.kill()
        self._waiting.clear()


def start_process(command: Sequence[str], *, inherits_stdin: bool = True, stdin: bytes | None = None) -> Process:
    """Start a command and return the process. Raises OSError if it cannot be started.

    Its standard input is `stdin` if that is given, the parent's with `inherits_stdin`, and otherwise empty.
    """
    environ = _KUBECTL_VARIABLES | dict(os.environ)
    if IS_SUPPORTED and stdin is None:
        return SpawnedProcess(command, environ, inherits_stdin=inherits_stdin)
    from herodotus_cli.transport.popen_process import PopenProcess

    return PopenProcess(command, environ, inherits_stdin=inherits_stdin, stdin=stdin)
