"""The processes under test: an API server, scheduler replicas, the decisions service.

Owns: starting, killing and replacing them, as a kubelet would. Does not own: when (`disturbances`), what must hold
(`invariants`). Each replica has its own spool, which survives its processes; each process has its own log.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from bench.processes import API, children
from bench.reliability.operations import PROFILE
from tests.e2e import control_plane
from tests.processes import Process, eventually, free_port, python
from tests.support.pages import read_pages

Json = dict[str, Any]

LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{PROFILE}"
ATTEMPT: Final = re.compile(r'^I\d{4} ([\d:.]{15}) .*"Attempting to schedule pod" pod="([^"]+)"', re.M)
UNWRITTEN_S: Final = (
    2.0  # A count of repeats is kept for a second before it is written, at the next of two checks a second.
)
SCHEDULING: Final = '"Scheduling" profiles'


@dataclass(frozen=True)
class Election:
    """The Lease's durations, shorter than in production because a run needs many failovers."""

    lease_s: float = 3.0
    renew_s: float = 2.0
    retry_s: float = 0.5


class SimulatedApi:
    """The simulated API server, `python -m herodotus_sim`."""

    faulty = True  # it accepts plans of faults

    def __init__(self, directory: Path, *options: str) -> None:
        self.headers: dict[str, str] = {}
        self.kubeconfig = directory / "kubeconfig"
        command = python("herodotus_sim", "--port", "0", "--write-kubeconfig", str(self.kubeconfig), *options)
        self.process = Process("sim", command, directory / "sim.log")
        self.url = self.process.wait_for(r"http://127\.0\.0\.1:\d+")[0]

    def stall(self, seconds: float) -> None:
        """Stop the server itself, which has no separate storage, with SIGSTOP for some seconds."""
        _freeze(self.process.pid, seconds)

    def stop(self) -> None:
        """Stop the server and its storage."""
        self.process.stop()


class RealApi:
    """A real control plane: etcd and kube-apiserver."""

    faulty = False

    def __init__(self, binaries: Path, directory: Path) -> None:
        self._plane = control_plane.ControlPlane(binaries, directory)
        self._plane.wait_until_ready()
        self.url = self._plane.url
        self.headers = {"Authorization": f"Bearer {control_plane.TOKEN}"}
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self._plane.kubeconfig()))

    def stall(self, seconds: float) -> None:
        """Stop etcd with SIGSTOP for some seconds: requests are received but executed only later."""
        _freeze(self._plane.etcd_pid, seconds)

    def stop(self) -> None:
        """Stop kube-apiserver and etcd."""
        self._plane.stop()


ApiProcess = SimulatedApi | RealApi


def _freeze(pid: int, seconds: float) -> None:
    """Send SIGSTOP, and SIGCONT after some seconds even on an error."""
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True)
class LeaderEnd:
    """The end of a leader. `at`: wall clock in seconds since 1970; `how`: SIGKILL or SIGTERM."""

    at: float
    how: str
    replica: str


@dataclass
class Replica:
    """One scheduler replica: consecutive processes with one spool."""

    name: str
    directory: Path
    command: list[str]
    process: Process | None = None
    logs: list[Path] = field(default_factory=list)
    killed: list[Path] = field(default_factory=list)
    """The logs of the processes that `kill` ended."""
    end_requested: bool = False  # by `stop` or `kill`

    def start(self) -> None:
        """Start a new process with its own log."""
        self.end_requested = False
        self.logs.append(self.directory / f"{self.name}-{len(self.logs) + 1}.log")
        self.process = Process(self.name, [*self.command, "--spool", str(self.directory / self.name)], self.logs[-1])

    @property
    def running(self) -> Process:
        """The current process, which may have ended by itself."""
        assert self.process is not None
        return self.process

    @property
    def leads(self) -> bool:
        """Whether this replica's process runs and schedules."""
        return self.running.running and SCHEDULING in self.running.output()

    def kill(self) -> None:
        """Send SIGKILL without starting a new process."""
        self.end_requested = True
        self.killed.append(self.logs[-1])
        self.running.kill()

    def freeze(self, seconds: float) -> None:
        """Stop the process for some seconds with SIGSTOP."""
        _freeze(self.running.pid, seconds)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.end_requested = True
        return self.running.stop()

    @property
    def lost_lease(self) -> bool:
        """Whether the process ended, or is about to, because it lost the Lease."""
        return "Leaderelection lost" in self.running.output()


class System:
    """The processes under test: API server, scheduler replicas and decisions service."""

    clocks_differ_s = 0.0  # all run on one machine
    unreported_losses = 0  # no disk is full

    def __init__(self, api: ApiProcess, directory: Path, replicas: int, election: Election, verbosity: int = 3) -> None:
        """Create the processes; `verbosity` 3 logs every attempt, which `attempts` counts."""
        self.api = api
        self.election = election
        self.crashes: list[str] = []
        self.ended: list[LeaderEnd] = []
        self._directory = directory
        self._port = free_port()
        self.endpoint_url = f"http://127.0.0.1:{self._port}"
        self._http = httpx.Client(base_url=self.endpoint_url, timeout=30.0)
        (directory / "config.yaml").write_text(yaml.safe_dump(self._configuration()))
        self.endpoint = self._start_endpoint()
        command = python(
            *("scheduler", "run", "--kubeconfig", str(api.kubeconfig), "--config", str(directory / "config.yaml")),
            *("--endpoint", self.endpoint_url, "--secure-port", "0", "--verify-cache", "20", "--v", str(verbosity)),
        )
        self.replicas = [Replica(f"replica-{n}", directory, command) for n in range(replicas)]
        for replica in self.replicas:
            replica.start()

    def restart_ended(self) -> None:
        """Restart processes that have ended, and record an unexpected end in `crashes`.

        A scheduler may end when it was asked to or because it lost its Lease.
        """
        for replica in self.replicas:
            process = replica.running
            if not process.running:
                if not replica.end_requested and not replica.lost_lease:
                    self.crashes.append(f"{replica.logs[-1].name} ended by itself:\n{process.output()[-3000:]}")
                process.stop()
                replica.start()

    def leader(self) -> Replica | None:
        """Return the replica that schedules, or None."""
        return next((r for r in self.replicas if r.leads), None)

    def restart_endpoint(self) -> None:
        """Kill the decisions service and start a new one on the same data."""
        self.endpoint.kill_all()  # Kill its workers too, so that the port is free.
        self.endpoint = self._start_endpoint()

    def kill_shipper(self) -> None:
        """Kill the leader's shipper; the scheduler starts another one."""
        leader = self.leader()
        for pid in children(leader.running.pid) if leader else ():
            if "scheduler.commands.ship" in _arguments(pid):
                os.kill(pid, signal.SIGKILL)

    def query(self, path: str, **params: str) -> Json:
        """Return a response of the decisions service."""
        response = self._http.get(f"{API}{path}", params=params)
        response.raise_for_status()
        answer: Json = response.json()
        return answer

    def list_decisions(self, namespace: str, **params: str) -> list[Json]:
        """Return the stored decisions of a namespace."""
        return read_pages(self._http, f"/namespaces/{namespace}/decisions", **params)

    def read_record(self, namespace: str, name: str) -> Json:
        """Return the complete record of a decision."""
        return self.query(f"/namespaces/{namespace}/decisions/{name}")

    def attempts(self) -> Counter[str]:
        """Return the number of attempts per pod in the schedulers' logs."""
        return Counter(pod for r in self.replicas for log in r.logs for _, pod in ATTEMPT.findall(log.read_text()))

    def attempts_before_kills(self) -> Counter[str]:
        """Return the number of attempts per pod in the last UNWRITTEN_S seconds of each killed scheduler's log.

        The seconds count back from the log's last attempt.
        """
        return Counter(pod for r in self.replicas for log in r.killed for pod in _read_last_attempts(log, UNWRITTEN_S))

    def is_delivered(self) -> bool:
        """Return whether the spools of all replicas are delivered."""
        return all(not has_undelivered_frames(r.directory / r.name) for r in self.replicas)

    def stop(self) -> None:
        """Stop the replicas, then the decisions service."""
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


def wait_for_leader(system: System) -> Replica:
    """Wait until a replica schedules and return it."""

    def leading() -> Replica | None:
        system.restart_ended()
        return system.leader()

    return eventually(leading, "a replica to lead", 60.0)


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def has_undelivered_frames(spool: Path) -> bool:
    """Return whether a segment has unacknowledged frames."""
    for incarnation in spool.glob("*/"):
        segments = {int(s.stem): s.stat().st_size for s in incarnation.glob("*.seg")}
        try:
            number, offset = map(int, (incarnation / "ack").read_text().split())
        except (OSError, ValueError):
            number, offset = 0, 0
        if any(n > number or (n == number and size > offset) for n, size in segments.items()):
            return True
    return False


def _read_last_attempts(log: Path, seconds: float) -> list[str]:
    """Return the pods of the attempts in a log, as far as they are at most `seconds` before the last attempt.

    The time of the last line does not count, since the scheduler's shipper may write lines later.
    """
    attempts = [(datetime.strptime(at, "%H:%M:%S.%f"), pod) for at, pod in ATTEMPT.findall(log.read_text())]
    return [pod for at, pod in attempts if (attempts[-1][0] - at).total_seconds() <= seconds]
