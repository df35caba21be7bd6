"""Bounded pools of worker threads.

Owns: the threads and the queue of each kind of request. Does not own: which request goes to which pool.

Invariant: a pool accepts at most `threads + queue` tasks at a time; `submit` never waits.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeVar

T = TypeVar("T")
_log: Final = logging.getLogger(__name__)


class WorkerPool:
    """A bounded pool of daemon threads, started when first needed, that run tasks in order of submission."""

    def __init__(
        self,
        name: str,
        threads: int,
        queue: int,
        on_refused: Callable[[], None] = lambda: None,
        per_address: int | None = None,
    ) -> None:
        """Create a pool that runs at most `threads` tasks at a time and lets at most `queue` further tasks wait.

        `on_refused` is called for each refused task. `per_address` limits the tasks of one client address, waiting and
        running; if it is None, one address may use the whole pool.
        """
        self.name, self.threads = name, threads
        self._capacity = threads + queue
        self._per_address = per_address or self._capacity
        self._pending_by_address: Counter[str] = Counter()
        self._on_refused = on_refused
        self._lock = threading.Lock()
        self._pending = 0
        self._started = 0
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def submit(self, address: str, work: Callable[[], T], then: Callable[[T], None]) -> bool:
        """Queue `then(work())` for a thread; return False if the pool is full or the client address has its limit.

        The task's place becomes free before `then` runs, so that a client that has its response finds room for its next
        request.
        """
        with self._lock:
            accepted = self._pending < self._capacity and self._pending_by_address[address] < self._per_address
            if accepted:
                self._pending += 1
                self._pending_by_address[address] += 1
                starts = self._started < min(self._pending, self.threads)
                self._started += starts
        if not accepted:
            self._on_refused()
            return False
        self._tasks.put(lambda: self._perform(address, work, then))
        if starts:
            threading.Thread(target=self._run, name=f"{self.name}-{self._started}", daemon=True).start()
        return True

    def _perform(self, address: str, work: Callable[[], T], then: Callable[[T], None]) -> None:
        try:
            result = work()
        finally:
            with self._lock:
                self._pending -= 1
                self._pending_by_address[address] -= 1
                self._pending_by_address += Counter()  # forget addresses without a task
        then(result)

    def _run(self) -> None:
        while True:
            task = self._tasks.get()
            try:
                task()
            except Exception:
                _log.exception("a task of the pool %s failed", self.name)
            del task  # its request and response may be large
