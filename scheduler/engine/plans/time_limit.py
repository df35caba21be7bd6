"""The time limit of a search for plans, which is checked before each decision of the engine.

A caller that makes several decisions undoes them when TimeOverError ends them (`World.tried`), and returns what it has.

Owns: the limit, its shares, and the progress. Does not own: the clock, which the caller passes in.

Invariant: after the time is over, or the user ended the search, no decision begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from herodotus_answers.plans import INTERRUPTED, TIME_OVER
from scheduler.engine.progress import ProgressReport


class TimeOverError(Exception):
    """The search, or its present share of the time, has no time left, or the user interrupted it; see the message."""


class TimeLimit:
    """A limit in seconds, and the shares of it that parts of the search have."""

    def __init__(self, seconds: float, clock: Callable[[], float], report: ProgressReport) -> None:
        """`report` receives the seconds that passed, those of the limit and the size of the smallest plan so far.

        A KeyboardInterrupt that it raises ends the search.
        """
        self._seconds, self._clock, self._report = seconds, clock, report
        self._began = clock()
        self._until = self._share_until = self._began + seconds
        self._is_interrupted = False
        self._smallest = 0

    @property
    def elapsed_s(self) -> float:
        """The seconds since the search began."""
        return self._clock() - self._began

    def has_used(self, part: float) -> bool:
        """Return whether this fraction of the limit, 0 to 1, has passed."""
        return self.elapsed_s >= part * self._seconds

    @property
    def ended(self) -> str:
        """What ended the search early: TIME_OVER, INTERRUPTED, or "" while there is time."""
        if self._is_interrupted:
            return INTERRUPTED
        return "" if self._clock() < self._until else TIME_OVER

    def note_plan(self, changes: int) -> None:
        """Take the number of changes of a plan that was found, for the progress."""
        self._smallest = min(self._smallest or changes, changes)

    def check(self) -> None:
        """Report the progress.

        Raises TimeOverError if the search or its present share has no time left, or if it was interrupted.
        """
        if not self._is_interrupted:
            try:
                self._report(int(self.elapsed_s), int(self._seconds), self._smallest)
            except KeyboardInterrupt:
                self._is_interrupted = True
        if self._is_interrupted:
            raise TimeOverError("the search was interrupted")
        if self._clock() >= self._share_until:
            raise TimeOverError("the time is over")

    @contextmanager
    def share(self, part: float) -> Iterator[None]:
        """Limit the block to a fraction, 0 to 1, of the time that is left; shares nest."""
        before, now = self._share_until, self._clock()
        self._share_until = now + (before - now) * part
        try:
            yield
        finally:
            self._share_until = before
