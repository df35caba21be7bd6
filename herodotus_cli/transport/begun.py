"""kubectl processes: begun when they are needed, or before it is certain that they are.

Owns: starting and ending them. Does not own: their command lines (`kubectl_command`), what they print (`kubectl`).

Invariant: a process is taken for exactly the command line that it was begun with; what nobody takes is killed.
"""

from __future__ import annotations

import os

from herodotus_cli.transport.spawned import POSSIBLE, Spawned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from herodotus_cli.transport.child import Child

    Process = Spawned | Child

# Go collects garbage while kubectl builds up its commands, and finds none: a fifth of its time.
_LAZY = {"GOGC": "400"}


class Begun:
    """Processes that were begun ahead, until they are taken."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, ...], Process] = {}

    def begin(self, command: Sequence[str], *, alone: bool = True) -> None:
        """Starts a command ahead. One that cannot be started fails when it is taken."""
        try:
            self._waiting[tuple(command)] = start(command, alone=alone)
        except OSError:
            return

    def take(self, command: Sequence[str], *, alone: bool = True) -> Process:
        """The process of a command: the one that was begun ahead, or a new one. OSError where it cannot be started.

        `alone`: it may read what we may read; a credential plugin may ask something. Of two processes only one may.
        """
        return self._waiting.pop(tuple(command), None) or start(command, alone=alone)

    def close(self) -> None:
        """Ends what nobody has taken."""
        for process in self._waiting.values():
            process.end()
        self._waiting.clear()


def start(command: Sequence[str], *, alone: bool = True, sent: bytes | None = None) -> Process:
    """A process. `sent`: what it reads on its standard input. OSError where it cannot be started."""
    environ = _LAZY | dict(os.environ)
    if POSSIBLE and sent is None:
        return Spawned(command, environ, alone=alone)
    from herodotus_cli.transport.child import Child

    return Child(command, environ, alone=alone, sent=sent)
