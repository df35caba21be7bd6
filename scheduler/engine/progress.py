"""The interface through which an answer says how far it is.

Apart from what answers, because processes that only pass it on must not import that.
"""

from __future__ import annotations

from typing import Protocol


class ProgressReport(Protocol):
    """A function that receives how far an answer is."""

    def __call__(self, done: int, total: int, smallest: int = 0, /) -> None:
        """Take the number of pods that were decided, and of those known so far.

        A search has seconds in their place, and `smallest` is the number of changes of the smallest plan that it has
        found, 0 without one.
        """
        ...


def ignore_progress(_done: int, _total: int, _smallest: int = 0, /) -> None:
    """Do nothing with the progress of an answer."""
