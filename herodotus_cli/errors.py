"""What the plugin says when it cannot answer: one clear line on stderr, hints below it, exit 1.

Owns: the shape of a failure and how a Status of the decisions service becomes one. Does not own: usage errors (click,
exit 2).

Invariant: every failure that a user can cause ends here, never in a traceback.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Json = dict[str, Any]

INTERRUPTED = 130  # the exit code after Ctrl-C, as of shells


class CliError(Exception):
    """One line that says what went wrong, and lines that say what to try."""

    def __init__(self, message: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = tuple(hints)

    @property
    def lines(self) -> list[str]:
        """What stands on stderr."""
        return [self.message, *(f"  {hint}" for hint in self.hints)]


class ServerError(CliError):
    """A server's answer that is an error, worded as kubectl words it."""

    def __init__(self, reason: str, message: str, details: Json | None = None, hints: Sequence[str] = ()) -> None:
        self.reason, self.words, self.details = reason, message, details or {}
        first, *more = message.splitlines() or [""]
        super().__init__(f"Error from server ({reason}): {first}", [*(line.strip() for line in more), *hints])

    def with_hints(self, hints: Sequence[str]) -> ServerError:
        """The same error with more to try."""
        return ServerError(self.reason, self.message.partition("): ")[2], self.details, [*self.hints, *hints])


class ConnectionFailedError(CliError):
    """A connection that could not be opened or that ended early: another attempt may succeed."""


def print_to_stderr(*lines: str) -> None:
    """Print each argument as one line on standard error, safe for a terminal."""
    import sys  # here and below, because only failures need it

    from herodotus_record.escaping import escape

    print("\n".join(map(escape, lines)), file=sys.stderr)


def is_status(document: Json) -> bool:
    """Whether a document is Kubernetes' envelope for an error."""
    return document.get("kind") == "Status"


def from_status(document: Json) -> ServerError:
    """The error that a Status envelope stands for."""
    details = document.get("details")
    return ServerError(
        str(document.get("reason") or f"code {document.get('code', 'unknown')}"),
        str(document.get("message") or "no message"),
        details if isinstance(details, dict) else None,
    )


def unreachable(why: str, hints: Sequence[str]) -> ConnectionFailedError:
    """Return the error of a decisions service that does not answer."""
    return ConnectionFailedError(f"error: the decisions service did not answer ({why})", hints)
