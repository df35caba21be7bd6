"""The schedulers that are compared, as processes on one API server: the same profile, the same limits, `-v=2`.

Owns: how each is started, which processes are its own, what it alone can say (nodes evaluated, decisions recorded).
Does not own: the cluster, what is measured from outside (`control_plane`).
"""

from __future__ import annotations

import re
import ssl
import urllib.request
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from bench.manifests import SCHEDULER
from bench.processes import counter
from bench.reliability.system import children
from tests.processes import Process, eventually, free_port, python

Json = dict[str, Any]

QPS: Final = 5000  # scheduler_perf's
DELIVERED_S: Final = 120.0
_EVALUATED: Final = re.compile(r"evaluatedNodes=(\d+)")
_UNVERIFIED: Final = ssl._create_unverified_context()  # certificates that the contenders made for themselves


class Contender(ABC):
    """One scheduler, from its start to its end."""

    name: str
    process: Process
    port: int

    def metrics(self) -> str:
        """What it exposes."""
        with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/metrics", context=_UNVERIFIED) as answer:
            text: str = answer.read().decode()
            return text

    def processes(self) -> dict[str, list[int]]:
        """Its processes, by what they are; `scheduler` is one."""
        return {"scheduler": [self.process.pid]}

    def settle(self) -> None:  # noqa: B027  # nothing to wait for is a proper answer
        """Return when all that it does about the bound pods is done."""

    @abstractmethod
    def said(self) -> dict[str, float]:
        """Nodes evaluated a decision, and what it recorded. Asked when it has settled, before it is stopped."""

    def stop(self) -> None:
        """End it."""
        self.process.stop()


class KubeScheduler(Contender):
    """kube-scheduler, protobuf."""

    name = "kube-scheduler"

    def __init__(self, binary: Path, kubeconfig: Path, directory: Path) -> None:
        connection = {
            "kubeconfig": str(kubeconfig),
            "qps": QPS,
            "burst": QPS,
            "contentType": "application/vnd.kubernetes.protobuf",
        }
        config = _configuration(directory, clientConnection=connection)
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

    def said(self) -> dict[str, float]:
        """From its log, which has a line for each binding."""
        evaluated = [int(n) for n in _EVALUATED.findall(self.process.output())]
        return {"evaluated": sum(evaluated) / max(1, len(evaluated))}


class Herodotus(Contender):
    """Ours, delivering to a decisions service of its own on SQLite; or keeping its records in the spool; or none."""

    def __init__(self, kubeconfig: Path, directory: Path, *, delivers: bool, records: bool = True) -> None:
        self.name = "herodotus"
        self.port = free_port()
        self._service = _Service(directory) if delivers else None
        config = _configuration(directory)
        command = python(
            *("scheduler", "run", "--kubeconfig", str(kubeconfig), "--config", str(config)),
            *("--spool", str(directory / "spool"), "--secure-port", str(self.port), "--bind-address", "127.0.0.1"),
            *("--authorization-always-allow-paths", "/metrics", "--v", "2"),
            *(("--endpoint", self._service.url) if self._service else () if records else ("--no-record",)),
        )
        self.process = Process("herodotus", command, directory / "herodotus.log")

    def processes(self) -> dict[str, list[int]]:
        """Shipper and decisions service too, where it delivers."""
        own = super().processes()
        if self._service is None:
            return own
        service = self._service.process.pid
        return own | {"shipper": children(self.process.pid), "service": [service, *children(service)]}

    def settle(self) -> None:
        """Until the spool is delivered."""
        if self._service is not None:
            eventually(
                lambda: counter(self.metrics(), "herodotus_spool_waiting_bytes") == 0,
                "the spool to be delivered",
                DELIVERED_S,
                every_s=0.2,
            )

    def said(self) -> dict[str, float]:
        """From its metrics, and from the service where there is one."""
        exposed = self.metrics()
        said = {
            "records": counter(exposed, "herodotus_records_total"),
            "dropped": counter(exposed, "herodotus_records_dropped_total"),
        }
        return said | (self._service.said() if self._service else {})

    def stop(self) -> None:
        """End the scheduler, then the service."""
        super().stop()
        if self._service is not None:
            self._service.process.stop()


class _Service:
    """A decisions service."""

    def __init__(self, directory: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = python("herodotus_endpoint", "--bind", f"127.0.0.1:{port}", "--data", str(directory / "data"))
        self.process = Process("service", command, directory / "service.log")
        try:
            eventually(self._ready, "the decisions service to be ready", 60.0)
        except BaseException:
            self.process.stop()
            raise

    def said(self) -> dict[str, float]:
        """How many decisions it stores, and how many nodes the last ones evaluated."""
        api = f"{self.url}/apis/herodotus.dev/v1alpha1"
        stored, evaluated, token = 0, 0.0, ""
        while True:
            page = httpx.get(f"{api}/decisions", params={"limit": "500", "continue": token}, timeout=60.0).json()
            stored += len(page["items"])
            for item in page["items"]:
                evaluated += item["spec"]["snapshot"]["evaluated"]
            token = page["metadata"].get("continue", "")
            if not token:
                return {"decisions": float(stored), "evaluated": evaluated / max(1, stored)}

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False


def _configuration(directory: Path, **more: Json) -> Path:
    path = directory / "configuration.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": SCHEDULER}],
        **more,
    }
    path.write_text(yaml.safe_dump(document))
    return path
