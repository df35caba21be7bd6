"""The Prometheus metrics of an observer.

No label gets more values as the cluster grows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.process_collector import ProcessCollector

from herodotus_record.model import Reconstruction


class ObserverMetrics:
    """The Prometheus metrics of one observer process, in a registry that no other instance shares."""

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
        """Record that the observer's thread runs, and export the numbers of pending pods and of held-back messages."""
        self._beat = self._clock()
        self._waiting.set(waiting)
        self._held.set(held)

    def heartbeat_age_s(self) -> float:
        """Return the seconds since the observer's thread last called `beat`."""
        return self._clock() - self._beat

    def reconstructed(self, scheduler: str, reconstruction: Reconstruction) -> None:
        """Count one reconstructed decision by scheduler name, agreement and cause."""
        self._decisions.labels(
            scheduler, reconstruction.agreement.value, reconstruction.cause.value if reconstruction.cause else ""
        ).inc()
