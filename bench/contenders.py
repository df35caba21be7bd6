"""The compared schedulers as processes on one API server: the same profile, the same limits, `-v=2`.

Owns: the start of each, its processes, and figures that only it reports (nodes evaluated, decisions recorded). Does not
own: the cluster, external measurements (`control_plane`).
"""

from __future__ import annotations

import re
import ssl
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from bench.manifests import SCHEDULER
from bench.processes import DecisionsService, children, counter
from tests.processes import Process, eventually, free_port, python
from tests.support.pages import read_pages

Json = dict[str, Any]

QPS: Final = 5000  # the value of scheduler_perf
DELIVERED_S: Final = 120.0
READY_S: Final = 180.0  # timeout until the caches are filled
_EVALUATED: Final = re.compile(r"evaluatedNodes=(\d+)")
_UNVERIFIED: Final = ssl._create_unverified_context()  # The contenders serve self-signed certificates.


class Contender(ABC):
    """One scheduler process from start to stop."""

    name: str
    process: Process
    port: int
    _replicate: Callable[[Path], Contender]

    def raise_if_exited(self) -> bool:
        """Raise RuntimeError if the scheduler has exited; otherwise return False."""
        if not self.process.running:
            raise RuntimeError(f"{self.name} ended:\n{self.process.output()[-3000:]}")
        return False

    def wait_until_ready(self) -> None:
        """Wait until /readyz succeeds: the caches are filled, or Herodotus waits for the Lease and fills them later."""
        eventually(lambda: self._is_ready() or self.raise_if_exited(), f"{self.name} to be ready", READY_S, 0.02)

    def metrics(self) -> str:
        """Return the scheduler's metrics in the exposition format."""
        with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/metrics", context=_UNVERIFIED) as answer:
            text: str = answer.read().decode()
            return text

    def processes(self) -> dict[str, list[int]]:
        """Return the contender's process ids by role; `scheduler` is always present."""
        return {"scheduler": [self.process.pid]}

    def settle(self) -> None:  # noqa: B027  # A scheduler without later work need not wait.
        """Wait until the process has done all its work for the bound pods, such as delivering their records."""

    def start_replica(self, directory: Path) -> Contender:
        """Start another replica with the same settings and return it; its spool and its service are in `directory`."""
        return self._replicate(directory)

    @abstractmethod
    def reported_figures(self) -> dict[str, float]:
        """Return figures that the scheduler itself reports, such as the nodes evaluated per decision, by name.

        Call it after `settle` and before `stop`.
        """

    def stop(self) -> None:
        """Stop the processes of this contender."""
        self.process.stop()

    def _is_ready(self) -> bool:
        try:
            url = f"https://127.0.0.1:{self.port}/readyz"
            with urllib.request.urlopen(url, context=_UNVERIFIED, timeout=READY_S) as answer:
                return bool(answer.status == 200)
        except OSError:  # It does not listen yet, or it answers that it is not ready.
            return False


class KubeScheduler(Contender):
    """Kubernetes' own scheduler, with protobuf for its requests."""

    name = "kube-scheduler"

    def __init__(self, binary: Path, kubeconfig: Path, directory: Path, *, elects: bool = False) -> None:
        """Start kube-scheduler; with `elects`, it schedules only while it holds the Lease."""
        self._replicate = partial(KubeScheduler, binary, kubeconfig, elects=elects)
        connection = {
            "kubeconfig": str(kubeconfig),
            "qps": QPS,
            "burst": QPS,
            "contentType": "application/vnd.kubernetes.protobuf",
        }
        config = _configuration(directory, elects, clientConnection=connection)
        self.port = free_port()
        self.process = Process(
            self.name,
            [
                str(binary),
                f"--config={config}",
                f"--secure-port={self.port}",
                f"--cert-dir={directory / 'certs'}",
                "--bind-address=127.0.0.1",
                "--authorization-always-allow-paths=*",
                "-v=2",
            ],
            directory / "kube-scheduler.log",
        )

    def reported_figures(self) -> dict[str, float]:
        """Return the nodes evaluated per decision, from the log lines about bindings."""
        evaluated = [int(n) for n in _EVALUATED.findall(self.process.output())]
        return {"evaluated": sum(evaluated) / max(1, len(evaluated))}


class Herodotus(Contender):
    """Herodotus, which delivers to a decisions service with SQLite, only spools, or does not record."""

    def __init__(
        self, kubeconfig: Path, directory: Path, *, delivers: bool, records: bool = True, elects: bool = False
    ) -> None:
        """Start the scheduler and, with `delivers`, a decisions service that receives its records.

        With `records` False, it records nothing. With `elects`, it schedules only while it holds the Lease.
        """
        self._replicate = partial(Herodotus, kubeconfig, delivers=delivers, records=records, elects=elects)
        self.name = "herodotus"
        self.port = free_port()
        self._service = DecisionsService(directory, "--data", str(directory / "data")) if delivers else None
        config = _configuration(directory, elects)
        command = python(
            *("scheduler", "run", "--kubeconfig", str(kubeconfig), "--config", str(config)),
            *("--spool", str(directory / "spool"), "--secure-port", str(self.port), "--bind-address", "127.0.0.1"),
            *("--authorization-always-allow-paths", "/metrics", "--v", "2"),
            *(("--endpoint", self._service.url) if self._service else () if records else ("--no-record",)),
        )
        self.process = Process("herodotus", command, directory / "herodotus.log")

    def processes(self) -> dict[str, list[int]]:
        """Return the process ids of the scheduler and, if records are delivered, of the shipper and the service."""
        scheduler = self.process.pid
        if self._service is None:
            return {"scheduler": [scheduler]}
        return {"scheduler": [scheduler], "shipper": children(scheduler), "service": self._service.pids()}

    def settle(self) -> None:
        """Wait until the spool is delivered; do nothing without a decisions service."""
        if self._service is not None:
            eventually(
                lambda: counter(self.metrics(), "herodotus_spool_waiting_bytes") == 0,
                "the spool to be delivered",
                DELIVERED_S,
                every_s=0.2,
            )

    def reported_figures(self) -> dict[str, float]:
        """Return the numbers of written and dropped records and, with a decisions service, of stored decisions."""
        exposed = self.metrics()
        figures = {
            "records": counter(exposed, "herodotus_records_total"),
            "dropped": counter(exposed, "herodotus_records_dropped_total"),
        }
        return figures | (_stored_figures(self._service.url) if self._service else {})

    def stop(self) -> None:
        """Stop the scheduler, then the decisions service."""
        super().stop()
        if self._service is not None:
            self._service.stop()


def _stored_figures(url: str) -> dict[str, float]:
    """Return the number of stored decisions, and the nodes evaluated by each."""
    with httpx.Client(base_url=url, timeout=60.0) as service:
        evaluated = [item["spec"]["snapshot"]["evaluated"] for item in read_pages(service, "/decisions")]
    return {"decisions": float(len(evaluated)), "evaluated": sum(evaluated) / max(1, len(evaluated))}


def _configuration(directory: Path, elects: bool, **more: Json) -> Path:
    path = directory / "configuration.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": elects, "resourceName": SCHEDULER},
        "profiles": [{"schedulerName": SCHEDULER}],
        **more,
    }
    path.write_text(yaml.safe_dump(document))
    return path
