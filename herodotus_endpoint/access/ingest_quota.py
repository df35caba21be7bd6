"""A quota of records for each cluster, so that one cluster does not take the whole service.

Owns: counting the bytes of each cluster's batches. Does not own: who a sender is (`senders`), refusing (`api.ingest`).

The quota is a token bucket: a cluster may use up what it did not use in the last BURST_S. Each process counts alone.
What is refused waits in the spool of the cluster's scheduler, which sends it again.

Invariant: a cluster's quota does not depend on what other clusters send.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

BURST_S: Final = 10.0  # a scheduler's backlog after a short pause
MIN_WAIT_S: Final = 0.1  # of a refused cluster


class IngestQuota:
    """A token bucket of bytes for each cluster. Safe for concurrent use."""

    def __init__(self, bytes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a quota of `bytes_per_s` for each cluster; 0 means no limit. `clock` is monotonic, in seconds."""
        self._rate = bytes_per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}  # by cluster: bytes left at a time

    def take(self, cluster: str, size: int) -> float:
        """Count a batch of `size` bytes and return 0; if the cluster's quota is used up, count nothing.

        Then return the seconds after which the cluster has a quota again. A batch that is larger than what is left is
        accepted, and the cluster waits longer for its next one. Otherwise a batch above the burst would never be
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
