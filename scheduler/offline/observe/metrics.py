"""What an observer counts.

Owns: names and labels. Does not own: how they are served. No label's values grow with the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest
from prometheus_client.process_collector import ProcessCollector

from herodotus_record.model import Reconstruction


class ObserverMetrics:
    """One process' metrics, in a registry of their own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # as the scheduler's
        self.registry = r = CollectorRegistry()
        self._clock = clock
        self._beat = clock()
        ProcessCollector(registry=r)
        self._decisions = Counter(
            "herodotus_observer_decisions_total",
            "Outcomes of other schedulers that were reconstructed: whether they follow, and why not.",
            ["scheduler", "agreement", "cause"],
            registry=r,
        )
        self._waiting = Gauge("herodotus_observer_waiting_pods", "Pods that wait for their scheduler.", registry=r)
        self._held = Gauge("herodotus_observer_held_messages", "Changes held back for a moment.", registry=r)

    def beat(self, waiting: int, held: int) -> None:
        """The thread goes round."""
        self._beat = self._clock()
        self._waiting.set(waiting)
        self._held.set(held)

    def heartbeat_age_s(self) -> float:
        """Since the thread last went round."""
        return self._clock() - self._beat

    def reconstructed(self, scheduler: str, found: Reconstruction) -> None:
        """An outcome was compared."""
        self._decisions.labels(scheduler, found.agreement.value, found.cause.value if found.cause else "").inc()

    def exposition(self) -> bytes:
        """The text form."""
        text: bytes = generate_latest(self.registry)
        return text
