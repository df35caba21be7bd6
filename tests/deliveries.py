"""A scheduler's records on their way to a decisions service that fails: a spool, and a real shipper that delivers it.

What was published and what was acknowledged is known, so that a test can find what was lost or stored twice.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from herodotus_record import codec
from herodotus_record.codec import deltas
from herodotus_record.model import Decision
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.shipper import Shipper
from scheduler.recorder.spool import Spool
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table, bound

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
MAX_BACKLOG = 2_000  # published and not acknowledged: hundreds of kills would otherwise fill the spool
BURST = 25  # decisions put into the spool at a time: small batches, so that kills meet many commits


class Acknowledged(httpx.BaseTransport):
    """A transport that notes which decisions were acknowledged, by sequence number, and when."""

    def __init__(self) -> None:
        self.sequences: set[int] = set()
        self.in_order: list[tuple[int, float]] = []  # highest sequence number of each batch, and the monotonic time
        self.refused: Counter[int] = Counter()  # batches that were not acknowledged, by status code
        self._network = httpx.HTTPTransport()
        self._begun: list[tuple[float, float]] = []  # of acknowledged batches: sent and answered, monotonic time

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        frames = list(deltas.decode_all(codec.decompress(request.read(), 1 << 30)))
        sent_s = time.monotonic()
        response = self._network.handle_request(request)
        if response.status_code != 200:
            self.refused[response.status_code] += 1
        elif new := {f.sequence for f in frames if isinstance(f, Decision)}:
            self.sequences |= new
            self.in_order.append((max(new), time.monotonic()))
            self._begun.append((sent_s, self.in_order[-1][1]))
        return response

    def first_after(self, moment_s: float) -> float | None:
        """Return when the first batch that was sent after a moment was acknowledged, or None if none was yet."""
        return next((answered for sent, answered in self._begun if sent > moment_s), None)

    def close(self) -> None:
        self._network.close()


@dataclass
class SendingScheduler:
    """Writes decisions with outcomes to a spool until it is stopped, while a shipper delivers them."""

    folder: Path
    endpoint: str
    burst: int = BURST
    network: Acknowledged = field(default_factory=Acknowledged)
    published: set[int] = field(default_factory=set)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.shipper = Shipper(self.folder, ServiceEndpoint(self.endpoint), self.network)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._write),
            threading.Thread(target=self.shipper.run, args=(self._ended, 60.0)),
        ]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Stop writing, and deliver what was written."""
        self.stop.set()
        self._threads[0].join()
        self._ended.set()
        self._threads[1].join()
        self.network.close()

    def _write(self) -> None:
        spool, sequence = Spool(self.folder, INCARNATION), 0
        spool.rotate(codec.encode(TABLE.rows(CLUSTER, INCARNATION)))
        while not self.stop.wait(0.02):
            if len(self.published) - len(self.network.sequences) > MAX_BACKLOG:
                continue
            for _ in range(self.burst):
                decision = a_decision(pod=f"p-{sequence + 1}", sequence=sequence + 1)
                outcome = bound(decision, TABLE)
                spool.append(codec.encode(decision) + codec.encode(outcome))
                self.published.add(sequence + 1)
                sequence = outcome.sequence
        spool.close()
