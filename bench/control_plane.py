"""One scheduler drains a backlog on a real etcd and kube-apiserver, everything on the same machine.

Owns: the state that every run begins with, the clock, the figures of one run. Does not own: the schedulers
(`contenders`), who runs when and how runs are compared (`comparison`).

Invariant: runs of a workload begin with copies of one etcd: the same objects, in the same order, under the same names.

The clock is the API server's audit log of bindings, from the first one answered to the last: neither scheduler is asked
anything while it works, and the log costs both the same. CPU time is taken over the same span; of the shipper and the
decisions service until the last record is delivered.
"""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from bench.contenders import Contender
from bench.filling import Client, churning, fill
from bench.processes import attempt_buckets, cpu_s, peak_mib, quantile
from bench.workloads import MEASURED, Size, Workload
from tests.e2e.control_plane import ControlPlane
from tests.processes import eventually

Json = dict[str, Any]

POLL_S: Final = 0.02
FULL_S: Final = 300.0  # until an API server has read 55,000 objects; ten seconds where it has the machine to itself
FIRST_S: Final = 180.0  # until the first binding
WHOLE_S: Final = 1800.0  # until the last
FLAGS: Final = (
    "--enable-priority-and-fairness=false",  # the administrators' own requests, which nothing shall queue
    "--max-requests-inflight=0",
    "--max-mutating-requests-inflight=0",
)


@dataclass(frozen=True)
class Figures:
    """Of one run."""

    pods_per_s: float
    first_binding_s: float  # since the scheduler was started
    attempt_p50_ms: float
    attempt_p99_ms: float
    cpu_s: dict[str, float]  # for 1,000 pods, by process
    peak_mib: dict[str, float]
    said: dict[str, float]  # see Contender.said


class Prepared:
    """A workload's objects in an etcd that can be copied."""

    def __init__(self, binaries: Path, directory: Path, workload: Workload, size: Size) -> None:
        self._binaries = binaries
        self.workload, self.size = workload, size
        directory.mkdir(parents=True)
        plane = ControlPlane(binaries, directory, *FLAGS)
        try:
            plane.wait_until_ready()
            with closing(Client(plane.url)) as client:
                fill(client, workload, size)
        finally:
            plane.stop()
        self._etcd = directory / "etcd"

    def start(self, directory: Path) -> Plane:
        """An API server on a copy."""
        directory.mkdir(parents=True)
        shutil.copytree(self._etcd, directory / "etcd")
        return Plane(self._binaries, directory)


class Plane:
    """etcd and kube-apiserver, whose bindings are logged."""

    def __init__(self, binaries: Path, directory: Path) -> None:
        policy = directory / "audit.yaml"
        bindings = {
            "level": "Metadata",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding"]}],
        }
        policy.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "audit.k8s.io/v1",
                    "kind": "Policy",
                    "omitStages": ["RequestReceived"],
                    "rules": [bindings, {"level": "None"}],
                }
            )
        )
        log = directory / "audit.log"
        log.touch()
        self._log = log.open("rb")
        self._rest = b""
        self._bindings: list[float] = []
        self._plane = ControlPlane(
            binaries, directory, *FLAGS, f"--audit-policy-file={policy}", f"--audit-log-path={log}"
        )
        try:
            self._plane.wait_until_ready(FULL_S)
        except BaseException:
            self._plane.stop()
            raise
        self.client = Client(self._plane.url)
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self._plane.kubeconfig()))

    def bindings(self) -> list[float]:
        """When each measured pod's binding was answered so far, in order: seconds since the epoch."""
        *lines, self._rest = (self._rest + self._log.read()).split(b"\n")
        for event in map(msgspec.json.decode, lines):
            if event["responseStatus"]["code"] == 201 and event["objectRef"]["namespace"] == MEASURED:
                self._bindings.append(datetime.fromisoformat(event["stageTimestamp"]).timestamp())
        return sorted(self._bindings)

    def waiting(self) -> int:
        """Measured pods without a node, as the API server has them."""
        listed = self.client.get(f"/api/v1/namespaces/{MEASURED}/pods?fieldSelector=spec.nodeName%3D")
        return len(listed["items"])

    def stop(self) -> None:
        """End both."""
        self.client.close()
        self._plane.stop()
        self._log.close()


def measure(plane: Plane, contender: Contender, workload: Workload, pods: int) -> Figures:
    """Let it drain the backlog. The clock of `first_binding_s` starts with this call: right after its start."""
    started = time.time()
    with churning(plane.client, workload.churn):
        eventually(lambda: bool(plane.bindings()) or _ended(contender), "a first binding", FIRST_S, POLL_S)
        processes = contender.processes()
        before = {name: cpu_s(pids) for name, pids in processes.items()}
        eventually(
            lambda: len(plane.bindings()) >= pods or _ended(contender),
            "the last binding",
            WHOLE_S,
            POLL_S,
        )
        scheduling_s = cpu_s(processes["scheduler"]) - before["scheduler"]
    exposed = contender.metrics()
    contender.settle()
    taken = {name: cpu_s(pids) - before[name] for name, pids in processes.items()} | {"scheduler": scheduling_s}
    times = plane.bindings()
    left = plane.waiting()
    if left or len(times) != pods:
        raise RuntimeError(f"{contender.name}: {len(times)} of {pods} pods bound, {left} still wait")
    buckets = attempt_buckets(exposed)
    return Figures(
        pods_per_s=(pods - 1) / (times[-1] - times[0]),
        first_binding_s=times[0] - started,
        attempt_p50_ms=quantile(buckets, 0.5) * 1000,
        attempt_p99_ms=quantile(buckets, 0.99) * 1000,
        cpu_s={name: seconds / pods * 1000 for name, seconds in taken.items()},
        peak_mib={name: peak_mib(pids) for name, pids in processes.items()},
        said=contender.said(),
    )


def _ended(contender: Contender) -> bool:
    """Never true: raises when the scheduler is gone."""
    if not contender.process.running:
        raise RuntimeError(f"{contender.name} ended:\n{contender.process.output()[-3000:]}")
    return False
