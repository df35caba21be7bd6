"""How many bindings are with the API server at once, and how far decisions may run ahead of them.

Owns: who waits for a turn, in order; how many turns there are (`Pace`). Does not own: what is done in a turn
(`binding`), connections (`kube.wire`).

Invariants: work begins in the order it came, in one thread at a time. What waits here was decided on what was known
then, and its attempt lasts until it is over: more of it buys no throughput once the server has enough to do.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from scheduler.kube.wire import CONNECTIONS

MOST: Final = CONNECTIONS  # beyond, requests would wait for a connection
FEWEST: Final = 14
AT_FIRST: Final = 16
QUEUED: Final = (10.0, 16.0)  # of those under way, how many may wait for each other in the server: more or fewer turns
MEMORY_S: Final = 10.0  # the shortest answer of the last one or two such spans is what the way alone takes
AHEAD: Final = 8  # enough work waits: no more is decided
BEHIND: Final = 2  # few enough: the loop decides several pods at a stretch, which costs less than one at a time

T = TypeVar("T")


class Pace:
    """The number of turns: more while the server is only far away, fewer once requests wait for each other there.

    Of n requests under way, n * (1 - shortest / usual duration) wait in the server, for the shortest duration is that
    of a request that waits for none. Source: Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a
    Global Internet", 1995, section 3.2. Not thread-safe.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self.turns = AT_FIRST
        self._clock = clock
        self._since = clock()
        self._shortest = self._shortest_before = math.inf
        self._answers = 0
        self._sum_s = 0.0

    def answered(self, duration_s: float) -> None:
        """A request is over. What it tells is weighed once in a round, after as many answers as there are turns."""
        self._shortest = min(self._shortest, duration_s)
        self._answers += 1
        self._sum_s += duration_s
        if self._answers >= self.turns:
            self._weigh(self._sum_s / self._answers)
            self._answers, self._sum_s = 0, 0.0
        if self._clock() - self._since >= MEMORY_S:
            self._since = self._clock()
            self._shortest_before, self._shortest = self._shortest, math.inf

    def _weigh(self, usual_s: float) -> None:
        shortest_s = min(self._shortest, self._shortest_before)
        queued = self.turns * (1 - shortest_s / usual_s) if usual_s > 0 else 0.0
        if queued < QUEUED[0]:
            self.turns = min(self.turns + 1, MOST)
        elif queued > QUEUED[1]:
            self.turns = max(self.turns - 1, FEWEST)


class Turns(Generic[T]):
    """Work that begins when there is a turn for it, and is over some time later. Thread-safe."""

    def __init__(self, begin: Callable[[T], None], clock: Callable[[], float] = time.monotonic) -> None:
        """`begin`: begins a piece of work, and does not wait for it."""
        self._begin = begin
        self._pace = Pace(clock)
        self._waiting: deque[T] = deque()
        self._under_way = 0
        self._beginning = False
        self._closed = False
        self._changes = threading.Condition()
        self._room = threading.Event()

    def put(self, work: T) -> None:
        """Begin this when its turn comes. After `close` nothing begins any more."""
        self._waiting.append(work)
        self._take()

    def enter(self) -> None:
        """Work that waited elsewhere takes a turn, whether there is one or not."""
        with self._changes:
            self._under_way += 1

    def leave(self, duration_s: float | None) -> None:
        """Work is over. `duration_s`: how long the server took, None where it was not asked."""
        with self._changes:
            self._under_way -= 1
            if duration_s is not None:
                self._pace.answered(duration_s)
            if self._closed:
                self._changes.notify_all()
        self._take()

    def crowded(self, wait_s: float) -> bool:
        """Whether enough work waits. If so, wait for room first, at most so long."""
        if len(self._waiting) < AHEAD:
            return False
        self._room.clear()
        return len(self._waiting) > BEHIND and not self._room.wait(wait_s)

    def close(self, wait_s: float) -> None:
        """Drop what has not begun; wait for what is under way, at most so long."""
        with self._changes:
            self._closed = True
            self._changes.wait_for(lambda: not self._under_way, wait_s)

    def _take(self) -> None:
        """Begin what waits, as far as there are turns. In one thread at a time, which also does what others leave."""
        with self._changes:
            if self._beginning:
                return
            self._beginning = True
        while True:
            with self._changes:
                if self._closed or self._under_way >= self._pace.turns or not self._waiting:
                    self._beginning = False
                    return
                self._under_way += 1
                work = self._waiting.popleft()
                if len(self._waiting) <= BEHIND:
                    self._room.set()
            self._begin(work)
