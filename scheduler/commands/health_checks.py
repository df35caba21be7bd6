"""The health checks of a scheduler process.

Owns: the checks and what fails them. Does not own: the endpoints (`scheduler.serving`), the metrics of records
(`scheduler.recorder.metrics`).

Names are kube-scheduler's where it has the check. Checks of history are advisory: a service that is away, or a full
spool, makes no scheduler unready. The fields of `ProcessHealth` are filled in as the process starts; until then a check
passes or names what it waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from herodotus_kube.lease import LeaderElector
from scheduler.recorder.metrics import collect_metrics
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.supervisor import Progress, Supervisor
from scheduler.serving.health import PING, HealthCheck
from scheduler.serving.routes import Content

if TYPE_CHECKING:
    from scheduler.reviews.node_group_recorder import NodeGroupRecorder

LATE_S: Final = 20.0  # kube-scheduler's: so long after its end a Lease may still be ours unrenewed
HANGS_S: Final = 60.0  # the loop goes round twice a second; a first list of a large cluster takes seconds
FULL_SHARE: Final = 0.9  # of the spool


class Thread(Protocol):
    """The thread that updates the cache: the scheduling loop or an observer."""

    @property
    def synced(self) -> bool:
        """Whether every watched kind was listed at least once."""


class Heartbeat(Protocol):
    """The metrics of the process, by which the thread that updates the cache reports that it is running."""

    registry: CollectorRegistry

    def heartbeat_age_s(self) -> float:
        """Return the seconds since the thread last reported that it is running."""


M = TypeVar("M", bound=Heartbeat)


@dataclass(eq=False)
class ProcessHealth(Collector, Generic[M]):
    """The health checks of the process, and the parts of the process that they read.

    It also exports the metrics of records, spool and shipper. `elects_s` is the duration of the Lease in seconds, or
    None if the process schedules without leader election.
    """

    stop: threading.Event
    metrics: M
    spool: Path
    spool_limit_bytes: int
    elects_s: float | None
    election: LeaderElector | None = None
    loop: Thread | None = None
    recorder: Recorder | None = None
    supervisor: Supervisor | None = None
    node_groups: NodeGroupRecorder | None = None

    @property
    def healthz(self) -> tuple[HealthCheck, ...]:
        """The checks of /healthz: leader election and the scheduling loop.

        If one fails, the process should be restarted.
        """
        return HealthCheck("leaderElection", self._lease), HealthCheck("scheduling-loop", self._looping)

    @property
    def livez(self) -> tuple[HealthCheck, ...]:
        """The checks of /livez, the kubelet's liveness probe: the process responds and the scheduling loop runs."""
        return PING, HealthCheck("scheduling-loop", self._looping)

    @property
    def readyz(self) -> tuple[HealthCheck, ...]:
        """The checks of /readyz, which fail if the process cannot work, for example before its caches are filled.

        A standby is ready, because its work is to wait.
        """
        return (
            *self.healthz,
            HealthCheck("shutdown", lambda: "process is shutting down" if self.stop.is_set() else None),
            HealthCheck("sched-handler-sync", self._synced),
            HealthCheck("shipper", self._shipping, advisory=True),
            HealthCheck("spool", self._room, advisory=True),
        )

    def content(self, configuration: Mapping[str, Any], *, profiling: bool) -> Content:
        """Return what the HTTPS port serves about this process. The arguments are those of `Content`."""
        return Content(configuration, self.metrics.registry, self.healthz, self.readyz, self.livez, profiling)

    def _lease(self) -> str | None:
        unrenewed_s = self.election.seconds_since_renewal() if self.election is not None else None
        if unrenewed_s is None or self.elects_s is None or unrenewed_s <= self.elects_s + LATE_S:
            return None
        return f"failed election to renew leadership: last renewed {unrenewed_s:.0f} s ago"

    def _looping(self) -> str | None:
        age_s = self.metrics.heartbeat_age_s()
        return f"the loop last went round {age_s:.0f} s ago" if self.loop is not None and age_s > HANGS_S else None

    def _synced(self) -> str | None:
        if self.loop is not None:
            return None if self.loop.synced else "handlers are not fully synchronized"
        standby = self.election is not None and not self.election.leading
        return None if standby else "the API server was not reached yet"

    def _shipping(self) -> str | None:
        if self.supervisor is None:
            return None
        if not self.supervisor.running:
            return "the shipper's process does not run"
        return Progress.read(self.spool).error or None

    def _room(self) -> str | None:
        if self.recorder is None:
            return None
        if self.recorder.spool_fault:
            return self.recorder.spool_fault
        held = self.recorder.spool_bytes
        if held < FULL_SHARE * self.spool_limit_bytes:
            return None
        return f"the spool holds {held} bytes of at most {self.spool_limit_bytes}"

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of records, spool and shipper, at each scrape."""
        yield from collect_metrics(self.spool, self.spool_limit_bytes, self.recorder, self.supervisor)
        verdicts = CounterMetricFamily(
            "herodotus_node_group_verdicts",
            "Attempts without a node by what became of the verdicts of node groups (--record-node-groups).",
            labels=["result"],
        )
        for result, count in (self.node_groups.results if self.node_groups is not None else {}).items():
            verdicts.add_metric([result], count)
        yield verdicts
