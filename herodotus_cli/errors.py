"""Errors of the plugin: one line on stderr, hints below it, exit code 1.

Owns: the form of an error, and turning a Status document into one. Does not own: usage errors (click, exit code 2).

Invariant: every failure that a user can cause becomes one of these errors, never a traceback.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Json = dict[str, Any]

INTERRUPTED = 130  # the exit code after Ctrl-C, as of shells


class CliError(Exception):
    """An error with a one-line message and hints on what to try."""

    def __init__(self, message: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = tuple(hints)

    @property
    def lines(self) -> list[str]:
        """The lines for stderr: the message, then the hints, indented."""
        return [self.message, *(f"  {hint}" for hint in self.hints)]


class ServerError(CliError):
    """A Status that a server returned, worded as kubectl words it."""

    def __init__(self, reason: str, message: str, details: Json | None = None, hints: Sequence[str] = ()) -> None:
        self.reason, self.words, self.details = reason, message, details or {}
        first, *more = message.splitlines() or [""]
        super().__init__(f"Error from server ({reason}): {first}", [*(line.strip() for line in more), *hints])

    def with_hints(self, hints: Sequence[str]) -> ServerError:
        """Return the same error with more hints."""
        return ServerError(self.reason, self.message.partition("): ")[2], self.details, [*self.hints, *hints])


class ConnectionFailedError(CliError):
    """A connection that could not be opened or that ended early: another attempt may succeed."""


def print_to_stderr(*lines: str) -> None:
    """Print each argument as one line on standard error, safe for a terminal."""
    import sys  # here and below, because only failures need it

    from herodotus_record.escaping import escape

    print("\n".join(map(escape, lines)), file=sys.stderr)


def is_status(document: Json) -> bool:
    """Return whether a document is a Kubernetes Status, which stands for an error."""
    return document.get("kind") == "Status"


def from_status(document: Json) -> ServerError:
    """Return the error that a Status document stands for."""
    details = document.get("details")
    return ServerError(
        str(document.get("reason") or f"code {document.get('code', 'unknown')}"),
        str(document.get("message") or "no message"),
        details if isinstance(details, dict) else None,
    )


def unreachable(why: str, hints: Sequence[str]) -> ConnectionFailedError:
    """Return the error for a decisions service that did not answer because of `why`."""
    return ConnectionFailedError(f"error: the decisions service did not answer ({why})", hints)
