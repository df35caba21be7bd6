"""The processes under test: an API server, replicas of the scheduler, the decisions service.

Owns: starting, killing, replacing them, as a kubelet would. Does not own: when (`disturbances`), what must hold
(`invariants`). Each replica has a spool of its own, which outlives it; each process has a log of its own.
"""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import httpx
import yaml

from bench.reliability.operations import PROFILE
from tests.e2e import control_plane
from tests.processes import Process, eventually, free_port, python

Json = dict[str, Any]

QUERIES: Final = "/apis/herodotus.dev/v1alpha1"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{PROFILE}"
ATTEMPT: Final = re.compile(r'"Attempting to schedule pod" pod="([^"]+)"')
SCHEDULING: Final = '"Scheduling" profiles'


@dataclass(frozen=True)
class Election:
    """The Lease's durations. Shorter than in production: a run must see many failovers."""

    lease_s: float = 3.0
    renew_s: float = 2.0
    retry_s: float = 0.5


class ApiProcess(Protocol):
    """An API server, simulated or real."""

    url: str
    headers: dict[str, str]
    faulty: bool
    """Whether it takes plans of faults."""

    def kubeconfig(self) -> Json:
        """For an administrator."""

    def stop(self) -> None:
        """End it."""


class Simulated:
    """`python -m herodotus_sim`."""

    faulty = True

    def __init__(self, directory: Path, *options: str) -> None:
        self.headers: dict[str, str] = {}
        self.process = Process("sim", python("herodotus_sim", "--port", "0", *options), directory / "sim.log")
        self.url = self.process.wait_for(r"http://127\.0\.0\.1:\d+")[0]

    def kubeconfig(self) -> Json:
        """Without credentials."""
        return _kubeconfig({"server": self.url}, {})

    def stop(self) -> None:
        """End it."""
        self.process.stop()


class Real:
    """etcd and kube-apiserver."""

    faulty = False

    def __init__(self, binaries: Path, directory: Path) -> None:
        self._plane = control_plane.ControlPlane(binaries, directory)
        self._plane.wait_until_ready()
        self.url = self._plane.url
        self.headers = {"Authorization": f"Bearer {control_plane.TOKEN}"}

    def kubeconfig(self) -> Json:
        """With the administrator's token."""
        server = {"server": self.url, "certificate-authority": str(self._plane.ca)}
        return _kubeconfig(server, {"token": control_plane.TOKEN})

    def stop(self) -> None:
        """End both."""
        self._plane.stop()


def _kubeconfig(server: Json, user: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "run", "cluster": server}],
        "users": [{"name": "run", "user": user}],
        "contexts": [{"name": "run", "context": {"cluster": "run", "user": "run"}}],
        "current-context": "run",
    }


@dataclass(frozen=True)
class Ended:
    """A leader was ended. `at`: wall clock, seconds; `how`: SIGKILL or SIGTERM."""

    at: float
    how: str
    replica: str


@dataclass
class Replica:
    """One of the schedulers: process after process, on one spool."""

    name: str
    directory: Path
    command: list[str]
    process: Process | None = None
    logs: list[Path] = field(default_factory=list)
    kills: int = 0
    asked: bool = False  # to end

    def start(self) -> None:
        """A new process, with a log of its own."""
        self.asked = False
        self.logs.append(self.directory / f"{self.name}-{len(self.logs) + 1}.log")
        self.process = Process(self.name, [*self.command, "--spool", str(self.directory / self.name)], self.logs[-1])

    @property
    def running(self) -> Process:
        """The process; it runs, or has ended by itself."""
        assert self.process is not None
        return self.process

    @property
    def leads(self) -> bool:
        """Whether it schedules."""
        return self.running.running and SCHEDULING in self.running.output()

    def kill(self) -> None:
        """SIGKILL, and no new one yet."""
        self.asked = True
        self.kills += 1
        self.running.kill()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.asked = True
        return self.running.stop()

    @property
    def lost_lease(self) -> bool:
        """Whether it ended, or is about to, because it was no longer the leader."""
        return "Leaderelection lost" in self.running.output()


class System:
    """Everything that runs."""

    def __init__(self, api: ApiProcess, directory: Path, replicas: int, election: Election, verbosity: int = 3) -> None:
        """`verbosity`: 3 logs every attempt, which `attempts` counts."""
        self.api = api
        self.election = election
        self.crashes: list[str] = []
        self.ended: list[Ended] = []
        self._directory = directory
        self._port = free_port()
        self.endpoint_url = f"http://127.0.0.1:{self._port}"
        self._http = httpx.Client(base_url=self.endpoint_url, timeout=30.0)
        (directory / "kubeconfig").write_text(yaml.safe_dump(api.kubeconfig()))
        (directory / "config.yaml").write_text(yaml.safe_dump(self._configuration()))
        self.endpoint = self._start_endpoint()
        command = python(
            *("scheduler", "run", "--kubeconfig", str(directory / "kubeconfig")),
            *(
                "--config",
                str(directory / "config.yaml"),
                "--endpoint",
                self.endpoint_url,
                "--secure-port",
                "0",
                "--v",
                str(verbosity),
            ),
        )
        self.replicas = [Replica(f"replica-{n}", directory, command) for n in range(replicas)]
        for replica in self.replicas:
            replica.start()

    def tend(self) -> None:
        """Start again what has ended. A lost Lease ends a scheduler with 1; anything else is a crash."""
        for replica in self.replicas:
            process = replica.running
            if not process.running:
                if not replica.asked and not replica.lost_lease:
                    self.crashes.append(f"{replica.logs[-1].name} ended by itself:\n{process.output()[-3000:]}")
                process.stop()
                replica.start()

    def leader(self) -> Replica | None:
        """The replica that schedules."""
        return next((r for r in self.replicas if r.leads), None)

    def restart_endpoint(self) -> None:
        """SIGKILL, and a new one on the same data."""
        self.endpoint.kill_all()  # with its workers, so that the port is free
        self.endpoint = self._start_endpoint()

    def kill_shipper(self) -> None:
        """SIGKILL to the leader's shipper; the scheduler starts another."""
        leader = self.leader()
        for pid in children(leader.running.pid) if leader else ():
            if "scheduler.shipping" in _arguments(pid):
                os.kill(pid, signal.SIGKILL)

    def query(self, path: str, **params: str) -> Json:
        """An answer of the decisions service."""
        response = self._http.get(f"{QUERIES}{path}", params=params)
        response.raise_for_status()
        answer: Json = response.json()
        return answer

    def listed(self, path: str) -> list[Json]:
        """Every page of a list."""
        found: list[Json] = []
        params = {"limit": "500"}
        while True:
            page = self.query(path, **params)
            found += page["items"]
            if not page["metadata"].get("continue"):
                return found
            params["continue"] = page["metadata"]["continue"]

    def attempts(self) -> Counter[str]:
        """How often each pod was tried, by what the schedulers logged."""
        return Counter(pod for r in self.replicas for log in r.logs for pod in ATTEMPT.findall(log.read_text()))

    def delivered(self) -> bool:
        """Whether the spools of all replicas are with the decisions service."""
        return all(not _undelivered(r.directory / r.name) for r in self.replicas)

    def stop(self) -> None:
        """End the replicas, then the decisions service."""
        for replica in self.replicas:
            replica.stop()
        self.endpoint.stop()
        self._http.close()

    def _start_endpoint(self) -> Process:
        data = str(self._directory / "data")
        command = python("herodotus_endpoint", "--bind", f"127.0.0.1:{self._port}", "--data", data)
        process = Process("endpoint", command, self._directory / "endpoint.log")
        eventually(self._endpoint_ready, "the endpoint to be ready", 60.0)
        return process

    def _endpoint_ready(self) -> bool:
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def _configuration(self) -> Json:
        e = self.election
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {
                "leaseDuration": f"{e.lease_s}s",
                "renewDeadline": f"{e.renew_s}s",
                "retryPeriod": f"{e.retry_s}s",
                "resourceName": PROFILE,
            },
            "profiles": [{"schedulerName": PROFILE}],
        }


def wait_for_leader(system: System, timeout_s: float = 60.0) -> Replica:
    """The replica that schedules, as soon as one does."""

    def leading() -> Replica | None:
        system.tend()
        return system.leader()

    return eventually(leading, "a replica to lead", timeout_s)


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + _by_threads(pid)
    except OSError:
        return []


def _by_threads(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid):
            found += [int(p) for p in (task / "children").read_text().split()]
    return found


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def _undelivered(spool: Path) -> bool:
    """Whether a segment holds more than was acknowledged."""
    for incarnation in spool.glob("*/"):
        segments = {int(s.stem): s.stat().st_size for s in incarnation.glob("*.seg")}
        try:
            number, offset = map(int, (incarnation / "ack").read_text().split())
        except (OSError, ValueError):
            number, offset = 0, 0
        if any(n > number or (n == number and size > offset) for n, size in segments.items()):
            return True
    return False


def memory_mib(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
