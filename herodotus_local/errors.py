"""Why local mode cannot answer."""

from __future__ import annotations


class ReadError(Exception):
    """The API server's refusal of a request: the HTTP status code and the message of the Status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class NodesForbiddenError(ReadError):
    """The user may not list nodes, so that nothing can be evaluated."""


class HistoryNeededError(Exception):
    """The question is about past decisions, of which local mode has none."""


class UnusableInputError(Exception):
    """An object of the cluster, or the scheduler's configuration, is invalid. The message is one line."""


class NoObjectError(Exception):
    """There is no such pod or node, or the pod has ended. `similar` holds the names of similar objects."""

    def __init__(self, message: str, similar: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.similar = similar
