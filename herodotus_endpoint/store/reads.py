"""What a request has read, from the primary or from replicas of the database.

Owns: the state of the current request. Does not own: choosing a replica (`replicas`), the response's header (`app`).
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class RequestReads:
    """The snapshots that one HTTP request has read: the newest heartbeat in them, and where they came from.

    `staleness_s` is the largest staleness of a snapshot of a replica in seconds, or None if there was none. `primary`
    is whether the request has read the primary because no replica was usable.
    """

    beat: int = 0
    staleness_s: float | None = None
    primary: bool = False


_request: ContextVar[RequestReads | None] = ContextVar("reads", default=None)


def track_reads() -> RequestReads:
    """Start to note the reads of the current HTTP request, and return the object that will contain them."""
    reads = RequestReads()
    _request.set(reads)
    return reads


def current_reads() -> RequestReads:
    """Return the object of `track_reads` for the current HTTP request, or a new one outside of a request."""
    return _request.get() or RequestReads()
