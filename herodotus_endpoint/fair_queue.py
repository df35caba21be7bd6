"""The order in which work of several clients begins while there is more than may be in progress.

Owns: who is next, and who waits too long. Does not own: what the work is (`access.ingest_limits`, `reader_limits`,
`archive.reader`).

Of those that wait, the client with the least work in progress is next, and among these the one whose turn comes first:
a turn starts when the client's last one ended, in virtual time, or now if that is past (start-time fair queueing).

Invariant: no more than `concurrent` are in progress, of one client no more than `per_client`, and none waits longer
than `wait_s`.
"""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

LOOK_S: Final = 0.1  # between two looks at whether who waits has left


class TurnRefusedError(Exception):
    """Too much work waits. The message says how much."""


@dataclass(order=True)
class _Waiting:
    """Work that waits, ordered by its virtual start time."""

    start: float
    number: int
    client: str = field(compare=False)
    begins: threading.Event = field(compare=False, default_factory=threading.Event)


class FairQueue:
    """A queue of the work of all clients in this process. Safe for concurrent use."""

    def __init__(self, concurrent: int, per_client: int, waiting_per_client: int, wait_s: float) -> None:
        """Create a queue that lets `concurrent` pieces of work be in progress at a time, `per_client` of one client.

        Of one client, `waiting_per_client` pieces may wait, each for at most `wait_s` seconds.
        """
        self._concurrent, self._per_client = concurrent, per_client
        self._waiting_per_client, self._wait_s = waiting_per_client, wait_s
        self._lock = threading.Lock()
        self._numbers = count()
        self._in_progress: Counter[str] = Counter()
        self._waiting: list[_Waiting] = []  # sorted
        self._virtual = 0.0  # start of the latest in progress
        self._finish: dict[str, float] = {}  # by client: virtual end of its last turn

    @contextmanager
    def admit(self, client: str, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Wait for the client's turn, and let the next begin when the block ends.

        `check` is called while it waits, and may raise to leave the queue. Raises TurnRefusedError if too much work of
        the client waits, or if its turn does not come in time.
        """
        work = self._enter(client)
        try:
            self._wait(work, check)
            yield
        finally:
            self._leave(work)

    def _enter(self, client: str) -> _Waiting:
        with self._lock:
            start = max(self._virtual, self._finish.get(client, 0.0))
            self._finish[client] = start + 1
            if len(self._finish) > len(self._in_progress) + len(self._waiting) + 1:
                self._finish = {each: end for each, end in self._finish.items() if end > self._virtual}
            work = _Waiting(start, next(self._numbers), client)
            insort(self._waiting, work)
            self._begin_next()
            waiting = sum(each.client == client for each in self._waiting)
            if waiting > self._waiting_per_client:
                self._waiting.remove(work)
                running = self._in_progress[client]
                raise TurnRefusedError(f"{running} requests of this reader run and {waiting - 1} wait; try again")
            return work

    def _wait(self, work: _Waiting, check: Callable[[], None]) -> None:
        ends_s = time.monotonic() + self._wait_s
        while not work.begins.wait(LOOK_S):
            check()
            if time.monotonic() >= ends_s:
                raise TurnRefusedError(f"other requests have been served before this one for {self._wait_s:.0f} s")

    def _leave(self, work: _Waiting) -> None:
        with self._lock:
            if work.begins.is_set():
                self._in_progress[work.client] -= 1
                self._in_progress += Counter()  # clients without any are forgotten
                self._begin_next()
            else:
                self._waiting.remove(work)

    def _begin_next(self) -> None:
        while self._waiting and self._in_progress.total() < self._concurrent:
            work = min(self._waiting, key=lambda each: (self._in_progress[each.client], each))
            if self._in_progress[work.client] >= self._per_client:
                return
            self._waiting.remove(work)
            self._in_progress[work.client] += 1
            self._virtual = max(self._virtual, work.start)
            work.begins.set()
