"""What each cluster may send: its quota, and the order in which batches are stored while too many arrive.

Owns: counting the bytes of each cluster's batches, which batch is next, which is refused, and when its sender should
send it again. Does not own: who a sender is (`authentication`), storing (`store.writer`), refusing (`api.ingest`), how
many requests the server reads at a time (`pools`).

The quota is a token bucket: a cluster may use up what it did not use in the last BURST_S. Each process counts alone.
What is refused waits in the spool of the cluster's scheduler, which sends it again.

The order is start-time fair queueing (Goyal, Vin, Cheng 1996): a batch starts at the virtual time at which the
cluster's last one ended, or now if that is past. Virtual time is the bytes that each waiting cluster has had stored, so
clusters take turns by bytes, and batches of one cluster stay in order. A cluster that sends less than its share waits
for the batches in progress, and for at most one batch of each other cluster.

Where too many wait, the batch that would be last is refused. Its cluster keeps its place in the order for KEEP_S, so
that coming back late costs it nothing: otherwise the cluster that tries most often would get the places.

Invariant: a cluster's quota does not depend on what other clusters send. No more than `concurrent` batches are in
progress, and a batch waits at most MAX_WAIT_S.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final

BURST_S: Final = 10.0  # a scheduler's backlog after a short pause
MIN_WAIT_S: Final = 0.1  # of a refused cluster
MAX_WAITING: Final = 64  # batches, each with its body in memory and a thread
MAX_WAITING_BYTES: Final = 48 << 20  # half of what a listener holds, so that others are not refused for it
MAX_WAIT_S: Final = 10.0  # a shipper gives up after 30 s; storing the batch takes some seconds of them
MAX_RETRY_AFTER_S: Final = 30.0  # the estimate may be wrong
KEEP_S: Final = 120.0  # four times as long, for senders that back off on their own
MIN_COST: Final = 64 << 10  # bytes: a commit costs as much as this, however small the batch
_FIRST_INTERVAL_S: Final = 0.05  # until the first measurement
_WEIGHT: Final = 0.1  # of a new measurement of the interval


class IngestQuota:
    """A token bucket of bytes for each cluster. Safe for concurrent use."""

    def __init__(self, bytes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a quota of `bytes_per_s` for each cluster; 0 means no limit. `clock` is monotonic, in seconds."""
        self._rate = bytes_per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}  # by cluster: bytes left at a time

    def take(self, cluster: str, size: int) -> float:
        """Count a batch of `size` bytes and return 0, or return after how many seconds to send it again.

        It is refused, and not counted, only if the cluster's quota is used up. A batch that is larger than the rest of
        the quota is accepted, and delays the cluster's next one. Otherwise a batch above the burst would never be
        accepted.
        """
        if not self._rate:
            return 0.0
        with self._lock:
            now_s = self._clock()
            left, at_s = self._left.get(cluster, (self._rate * BURST_S, now_s))
            left = min(self._rate * BURST_S, left + (now_s - at_s) * self._rate)
            accepted = left > 0
            self._left[cluster] = (left - size if accepted else left, now_s)
            return 0.0 if accepted else max(MIN_WAIT_S, -left / self._rate)

    def refund(self, cluster: str, size: int) -> None:
        """Give back what `take` counted for a batch of `size` bytes that was refused for another reason."""
        with self._lock:
            if cluster in self._left:
                left, at_s = self._left[cluster]
                self._left[cluster] = (left + size, at_s)


class QueueFullError(Exception):
    """Too many batches wait. `after_s` is the number of seconds after which there should be room for this one."""

    def __init__(self, after_s: float) -> None:
        super().__init__(f"too many batches wait to be stored; send again after {after_s:.0f} s")
        self.after_s = after_s


@dataclass(order=True)
class _Waiting:
    """A batch that waits, ordered by its virtual start time. `refused_s` is set with `decision` if it is refused."""

    start: float
    number: int
    cluster: str = field(compare=False)
    size: int = field(compare=False)
    decision: threading.Event = field(compare=False, default_factory=threading.Event)
    refused_s: float = field(compare=False, default=0.0)

    @property
    def cost(self) -> int:
        return max(self.size, MIN_COST)


class FairIngestQueue:
    """The queue of batches of all clusters in this process. Safe for concurrent use."""

    def __init__(self, concurrent: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a queue that lets `concurrent` batches be in progress. `clock` is monotonic, in seconds."""
        self._concurrent = concurrent
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = count()
        self._in_progress = 0
        self._waiting: list[_Waiting] = []  # sorted
        self._virtual = 0.0  # start of the latest batch in progress
        self._finish: dict[str, float] = {}  # by cluster: virtual end of its last batch
        self._keeps_place_until: dict[str, float] = {}  # by cluster that was refused and has not come back
        self._interval_s = _FIRST_INTERVAL_S  # mean time between two ends while batches wait
        self._busy_since: float | None = None  # the last end, if batches waited then

    @contextmanager
    def admit(self, cluster: str, size: int) -> Iterator[None]:
        """Wait for the turn of a batch of `size` bytes, and let the next batch begin when the block ends.

        Raises QueueFullError if too many batches of other clusters wait before it, or if its turn does not come within
        MAX_WAIT_S.
        """
        batch = self._enter(cluster, size)
        if not batch.decision.wait(MAX_WAIT_S):
            with self._lock:
                if not batch.decision.is_set():
                    self._waiting.remove(batch)
                    self._refuse(batch)
        if batch.refused_s:
            raise QueueFullError(batch.refused_s)
        try:
            yield
        finally:
            self._leave()

    @property
    def waiting(self) -> int:
        """The number of batches that wait for their turn."""
        return len(self._waiting)

    def _enter(self, cluster: str, size: int) -> _Waiting:
        with self._lock:
            start = self._finish.get(cluster, self._virtual)
            if self._clock() >= self._keeps_place_until.pop(cluster, 0.0):
                start = max(start, self._virtual)
            batch = _Waiting(start, next(self._numbers), cluster, size)
            self._finish[cluster] = start + batch.cost
            insort(self._waiting, batch)
            self._begin_next()
            while self._is_too_long():
                self._refuse(self._waiting.pop())
            return batch

    def _leave(self) -> None:
        with self._lock:
            now_s = self._clock()
            if self._busy_since is not None:
                self._interval_s += (now_s - self._busy_since - self._interval_s) * _WEIGHT
            self._busy_since = now_s if self._waiting else None
            self._in_progress -= 1
            self._begin_next()

    def _begin_next(self) -> None:
        while self._waiting and self._in_progress < self._concurrent:
            batch = self._waiting.pop(0)
            self._in_progress += 1
            self._virtual = max(self._virtual, batch.start)
            batch.decision.set()

    def _capacity(self) -> int:
        """Return how many batches may wait: as many as are stored within MAX_WAIT_S, and at least one."""
        return max(1, min(MAX_WAITING, int(MAX_WAIT_S / max(self._interval_s, 1e-9))))

    def _is_too_long(self) -> bool:
        waiting = len(self._waiting)
        return waiting > self._capacity() or (
            waiting > 1 and sum(batch.size for batch in self._waiting) > MAX_WAITING_BYTES
        )

    def _refuse(self, batch: _Waiting) -> None:
        """Refuse a waiting batch, and set `refused_s`: after how many seconds its sender should send it again.

        By then at most half of `_capacity` batches should be before it, those of other refused clusters included. The
        cluster keeps its place in the order for KEEP_S seconds.
        """
        self._finish[batch.cluster] -= batch.cost
        now_s = self._clock()
        self._keeps_place_until[batch.cluster] = now_s + KEEP_S
        refused = [c for c, until_s in self._keeps_place_until.items() if until_s > now_s and c != batch.cluster]
        before = len(self._waiting) + sum(self._finish[c] <= batch.start for c in refused)
        after_s = (before + 1 - self._capacity() / 2) * self._interval_s
        batch.refused_s = float(math.ceil(min(MAX_RETRY_AFTER_S, max(1.0, after_s))))
        batch.decision.set()
