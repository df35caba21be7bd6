"""A limit on the bind requests in flight, and on how far decisions may run ahead of them.

Owns: the queue of waiting requests and the number that may be in flight (`ConcurrencyLimit`). Does not own: the
requests (`binding`), connections (`kube.connection_pool`).

Invariants: requests begin in the order of `BindLimiter.put`, in one thread at a time. A waiting pod was decided on
older state and its attempt lasts until it is bound, so a longer queue adds no throughput once the server has enough to
do.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from herodotus_kube.connection_pool import MAX_CONNECTIONS

MAX_IN_FLIGHT: Final = MAX_CONNECTIONS  # more requests would wait for a connection
MIN_IN_FLIGHT: Final = 14
INITIAL_IN_FLIGHT: Final = 16
TARGET_QUEUED: Final = (
    10.0,
    16.0,
)  # requests queued in the server: fewer raise the limit, more lower it
MEMORY_S: Final = (
    10.0  # the shortest response time of the last one or two such periods counts as that of an idle server
)
MAX_WAITING: Final = 8  # so many waiting bindings stop the loop
RESUME_WAITING: Final = 2  # so few resume it: deciding several pods in a row costs less than one at a time


class ConcurrencyLimit:
    """The number of requests that may be in flight, adjusted to how many of them queue in the API server.

    Of n requests in flight, n * (1 - shortest / mean duration) queue in the server, because the shortest duration is
    that of a request that did not queue. Source: Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a
    Global Internet", 1995, section 3.2. Not thread-safe.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.limit = INITIAL_IN_FLIGHT
        self._clock = clock
        self._since = clock()
        self._shortest = self._shortest_before = math.inf
        self._responses = 0
        self._sum_s = 0.0

    def add_response(self, duration_s: float) -> None:
        """Count a response that took `duration_s` seconds, and adjust `limit` after every `limit` responses."""
        self._shortest = min(self._shortest, duration_s)
        self._responses += 1
        self._sum_s += duration_s
        if self._responses >= self.limit:
            self._adjust(self._sum_s / self._responses)
            self._responses, self._sum_s = 0, 0.0
        if self._clock() - self._since >= MEMORY_S:
            self._since = self._clock()
            self._shortest_before, self._shortest = self._shortest, math.inf

    def _adjust(self, mean_s: float) -> None:
        shortest_s = min(self._shortest, self._shortest_before)
        queued = self.limit * (1 - shortest_s / mean_s) if mean_s > 0 else 0.0
        if queued < TARGET_QUEUED[0]:
            self.limit = min(self.limit + 1, MAX_IN_FLIGHT)
        elif queued > TARGET_QUEUED[1]:
            self.limit = max(self.limit - 1, MIN_IN_FLIGHT)


class BindLimiter:
    """A queue of bind requests, each of which begins when fewer requests than the limit are in flight. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = ConcurrencyLimit(clock)
        self._waiting: deque[Callable[[], None]] = deque()
        self._in_flight = 0
        self._is_beginning = False
        self._closed = False
        self._changed = threading.Condition()
        self._has_room = threading.Event()

    def put(self, begin: Callable[[], None]) -> None:
        """Queue a request. As soon as the limit allows, `begin` is called, which sends it and does not wait.

        After `close` no request begins.
        """
        self._waiting.append(begin)
        self._begin_waiting()

    def enter(self) -> None:
        """Add one to the requests in flight, even above the limit, for a request that the caller sends itself."""
        with self._changed:
            self._in_flight += 1

    def leave(self, duration_s: float | None) -> None:
        """Count the end of a request, so that another one may begin.

        `duration_s` is the server's response time in seconds, or None if there was no response.
        """
        with self._changed:
            self._in_flight -= 1
            if duration_s is not None:
                self._limit.add_response(duration_s)
            if self._closed:
                self._changed.notify_all()
        self._begin_waiting()

    def wait_for_capacity(self, wait_s: float) -> bool:
        """Return whether few enough requests wait for more to be queued.

        If MAX_WAITING requests wait, first wait at most `wait_s` seconds until only RESUME_WAITING are left.
        """
        if len(self._waiting) < MAX_WAITING:
            return True
        self._has_room.clear()
        return len(self._waiting) <= RESUME_WAITING or self._has_room.wait(wait_s)

    def close(self, wait_s: float) -> None:
        """Let no waiting request begin, and wait at most `wait_s` seconds for the requests in flight."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._in_flight, wait_s)

    def _begin_waiting(self) -> None:
        """Begin waiting requests up to the limit.

        Only one thread does so at a time; other callers return at once, and it begins their requests too.
        """
        with self._changed:
            if self._is_beginning:
                return
            self._is_beginning = True
        while True:
            with self._changed:
                if self._closed or self._in_flight >= self._limit.limit or not self._waiting:
                    self._is_beginning = False
                    return
                self._in_flight += 1
                begin = self._waiting.popleft()
                if len(self._waiting) <= RESUME_WAITING:
                    self._has_room.set()
            begin()
