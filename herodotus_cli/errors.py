"""Errors of the plugin: one line on stderr, hints below it, exit code 1.

Owns: the form of an error. Does not own: reading responses (`herodotus_client.responses`), usage errors (click, exit
code 2).

Invariant: every failure that a user can cause becomes one of these errors, never a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from threading import Lock
from typing import Any

from herodotus_client.responses import ServiceError, UnknownResponseError

Json = dict[str, Any]
INTERRUPTED = 130  # the exit code after Ctrl-C, as of shells


stderr_lock = Lock()  # threads that read the cluster report their progress meanwhile
progress_shown = False  # set by `progress`


class CliError(Exception):
    """An error that ends a command: a one-line message, and hints on what to try."""

    def __init__(self, message: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = tuple(hints)

    @property
    def lines(self) -> list[str]:
        """The lines to print on stderr: the message, then the hints, indented."""
        return [self.message, *(f"  {hint}" for hint in self.hints)]


class NoHistoryError(CliError):
    """The question is about past decisions, and nothing records them."""


class ServerError(CliError):
    """An error that a server returned as a Kubernetes Status, in the words in which kubectl prints it."""

    def __init__(self, reason: str, message: str, details: Json | None = None, hints: Sequence[str] = ()) -> None:
        self.reason, self.words, self.details = reason, message, details or {}
        first, *more = message.splitlines() or [""]
        super().__init__(f"Error from server ({reason}): {first}", [*(line.strip() for line in more), *hints])

    def with_hints(self, hints: Sequence[str]) -> ServerError:
        """Return a copy of this error with more hints."""
        return type(self)(self.reason, self.message.partition("): ")[2], self.details, [*self.hints, *hints])


class NotEvaluatedError(ServerError):
    """Local mode cannot evaluate the question: an object or a right is missing."""


class ConnectionFailedError(CliError):
    """An error for a connection that could not be opened or that broke; another attempt may succeed."""


class ServiceMissingError(ConnectionFailedError):
    """The error for a cluster that has no Service of the decisions service, and no APIService either."""


class ProxyStartError(CliError):
    """The error for a `kubectl proxy` that ended or was too slow before it could be used."""


def print_to_stderr(*lines: str) -> None:
    """Print each argument on standard error, with control characters escaped: as one line, on a terminal wrapped."""
    from herodotus_record.escaping import escape  # here, because only failures need it

    width = read_terminal_width()
    with stderr_lock:
        remove_progress()
        print("\n".join(_wrap(escape(line), width) for line in lines), file=sys.stderr)


def read_terminal_width() -> int:
    """Return the columns of the terminal that standard error is, or 0."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # no terminal, or no file
        return 0


def _wrap(line: str, width: int) -> str:
    """Return a line wrapped between words, continued below its text.

    A command stays on one line, so that it is copied: one at the end gets a line of its own.
    """
    if not width or len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    before, colon, command = line.rpartition(": kubectl ")
    if colon:
        return f"{_wrap(f'{before}:', width)}\n{indent}kubectl {command}"
    if "kubectl " in line:
        return line
    import textwrap  # here, because only failures need it

    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def remove_progress() -> None:
    """Remove the progress line from the terminal, if it is shown. The caller holds `stderr_lock`."""
    global progress_shown
    if progress_shown:
        progress_shown = False
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def from_service_error(error: ServiceError, source: str = "the decisions service") -> CliError:
    """Return the error to print for a response of a server. `source` names the server if it sent no document."""
    if isinstance(error, UnknownResponseError):
        return CliError(f"error: {source} {error.message}", [error.beginning])
    return ServerError(error.reason, error.message, error.details)


def unreachable(why: str, hints: Sequence[str]) -> ConnectionFailedError:
    """Return an error that says that the decisions service did not answer, and why."""
    return ConnectionFailedError(f"error: the decisions service did not answer ({why})", hints)
