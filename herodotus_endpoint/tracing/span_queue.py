"""The bounded queue between ingest and the exporter of spans.

Owns: the records that wait for export, and their bound. Does not own: spans (`spans`), sending (`exporter`).

Invariant: `put` never waits. Records are in the order in which they were stored.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from herodotus_endpoint.metrics import EndpointMetrics
from herodotus_endpoint.tracing.traced_records import TracedRecord

MAX_WAITING: Final = 16_384  # records, 1 kB each: twenty seconds of a scheduler that binds 400 pods a second
MAX_TAKEN: Final = 512  # records in one export request: 1,000 to 3,000 spans, well below 4 MiB
DELAY_S: Final = 1.0  # for which the first record of a request waits for others


class SpanQueue:
    """Records that wait to be exported as spans, at most `capacity` of them. Thread-safe.

    Metrics count the spans of records that found no room.
    """

    def __init__(self, metrics: EndpointMetrics, capacity: int = MAX_WAITING, delay_s: float = DELAY_S) -> None:
        self._metrics = metrics
        self._capacity = capacity
        self._delay_s = delay_s
        self._waiting: deque[TracedRecord] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, records: Sequence[TracedRecord]) -> None:
        """Add the records of one stored batch until the queue is full, and count the spans of the others as dropped.

        After `close`, all of them are dropped.
        """
        with self._changed:
            room = 0 if self._closed else max(0, self._capacity - len(self._waiting))
            self._waiting.extend(islice(records, room))
            self._changed.notify()
        if dropped := sum(each.spans for each in islice(records, room, None)):
            self._metrics.spans_dropped.labels("queue-full").inc(dropped)

    def take(self) -> list[TracedRecord]:
        """Wait for records, then remove and return at most MAX_TAKEN of them.

        The result is empty only after `close`, when no record waits any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            until = time.monotonic() + self._delay_s
            while not self._closed and len(self._waiting) < MAX_TAKEN and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return [self._waiting.popleft() for _ in range(min(MAX_TAKEN, len(self._waiting)))]

    def close(self) -> None:
        """Make `take` return the waiting records without blocking, and `put` drop all further records."""
        with self._changed:
            self._closed = True
            self._changed.notify()
