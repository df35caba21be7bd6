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
_UNPRINTABLE = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"


class CliError(Exception):
    """One line that says what went wrong, and lines that say what to try."""

    def __init__(self, message: str, hints: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hints = tuple(hints)

    @property
    def text(self) -> str:
        """What stands on stderr."""
        return "\n".join([self.message, *(f"  {hint}" for hint in self.hints)])


class ServerError(CliError):
    """A server's answer that is an error, worded as kubectl words it."""

    def __init__(self, reason: str, message: str, details: Json | None = None, hints: Sequence[str] = ()) -> None:
        self.reason, self.words, self.details = reason, message, details or {}
        first, *more = message.splitlines() or [""]
        super().__init__(f"Error from server ({reason}): {first}", [*(line.strip() for line in more), *hints])

    def with_hints(self, hints: Sequence[str]) -> ServerError:
        """The same error with more to try."""
        return ServerError(self.reason, self.message.partition("): ")[2], self.details, [*self.hints, *hints])


def printable(text: str) -> str:
    """A text that cannot move a terminal's cursor and that every stream can encode, line by line."""
    import re  # here, because only failures need it

    return re.sub(_UNPRINTABLE, "?", text)


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


def unreachable(why: str, hints: Sequence[str]) -> CliError:
    """The decisions service cannot be asked at all."""
    return CliError(f"error: the decisions service did not answer ({why})", hints)
