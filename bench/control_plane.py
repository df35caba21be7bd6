"""One scheduler schedules a backlog on a real etcd and kube-apiserver, everything on the same machine.

Owns: the initial state of every run and the requests that make it, the clock, the figures of one run. Does not own:
which objects (`workloads`), the schedulers (`contenders`), the order of runs and their comparison (`comparison`).

Invariant: runs of a workload start with copies of one etcd: the same objects in the same order with the same names.

The API server's audit log of bindings is the clock, from the first response to the last. No scheduler is queried while
it works, and the log costs both the same. CPU time is measured over the same span, for the shipper and the decisions
service until the last record is delivered.
"""

from __future__ import annotations

import http.client
import shutil
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import yaml

from bench import manifests
from bench.contenders import Contender
from bench.processes import attempt_buckets, cpu_s, peak_mib, quantile
from bench.workloads import MEASURED, Churn, Size, Workload
from tests.e2e.control_plane import TOKEN, ControlPlane
from tests.processes import eventually

Json = dict[str, Any]

CLIENTS: Final = 8  # More threads do not help on two cores.
MAX_IDLE_S: Final = 60.0  # the API server closes connections that are idle for 90 s
PODS: Final = "/api/v1/namespaces/{}/pods"
NODES: Final = "/api/v1/nodes"
SERVICES: Final = f"/api/v1/namespaces/{MEASURED}/services"
_HEADERS: Final = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
POLL_S: Final = 0.02
FULL_S: Final = 300.0  # until an API server has read 55,000 objects, which takes ten seconds on an idle machine
FIRST_S: Final = 180.0  # timeout of the first binding
WHOLE_S: Final = 1800.0  # timeout of the last binding
FLAGS: Final = (
    "--enable-priority-and-fairness=false",  # Requests of the benchmark must not queue.
    "--max-requests-inflight=0",
    "--max-mutating-requests-inflight=0",
)
_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods", "pods/binding"]}],
            "namespaces": [MEASURED],
        },
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run."""

    pods_per_s: float
    first_binding_s: float  # since the start of the scheduler
    attempt_p50_ms: float
    attempt_p99_ms: float
    cpu_s: dict[str, float]  # per 1,000 pods, by process
    peak_mib: dict[str, float]
    reported: dict[str, float]  # Contender.reported_figures


class PreparedPlane:
    """A workload's objects in an etcd whose data can be copied; without `backlog` all but the measured pods."""

    def __init__(
        self, binaries: Path, directory: Path, workload: Workload, size: Size, *, backlog: bool = True
    ) -> None:
        self.binaries = binaries
        self.workload, self.size = workload, size
        directory.mkdir(parents=True)
        plane = ControlPlane(binaries, directory, *FLAGS)
        try:
            plane.wait_until_ready()
            with closing(FillClient(plane.url)) as client:
                fill(client, workload, size, backlog=backlog)
        finally:
            plane.stop()
        self._etcd = directory / "etcd"

    def start(self, directory: Path) -> AuditedControlPlane:
        """Start a control plane on a copy of the data."""
        directory.mkdir(parents=True)
        shutil.copytree(self._etcd, directory / "etcd")
        return AuditedControlPlane(self.binaries, directory)


class AuditedControlPlane:
    """An etcd and a kube-apiserver that logs creations and bindings of measured pods.

    `created` and `bound` have the times by pod, in seconds since 1970, as of the last `read_audit_log`: when the API
    server received the creation, and when it had answered the binding.
    """

    def __init__(self, binaries: Path, directory: Path) -> None:
        policy = directory / "audit.yaml"
        policy.write_text(yaml.safe_dump(_AUDIT_POLICY))
        log = directory / "audit.log"
        log.touch()
        self._log = log.open("rb")
        self._rest = b""
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self._plane = ControlPlane(
            binaries, directory, *FLAGS, f"--audit-policy-file={policy}", f"--audit-log-path={log}"
        )
        try:
            self._plane.wait_until_ready(FULL_S)
        except BaseException:
            self._plane.stop()
            raise
        self.client = FillClient(self._plane.url)
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(self._plane.kubeconfig()))

    def read_audit_log(self) -> None:
        """Read the lines added to the audit log since the last call, and add their times to `created` and `bound`."""
        *lines, self._rest = (self._rest + self._log.read()).split(b"\n")
        for event in map(msgspec.json.decode, lines):
            if event["responseStatus"]["code"] != 201:
                continue
            pod = event["objectRef"]
            binding = pod.get("subresource") == "binding"
            times, key = (self.bound, "stageTimestamp") if binding else (self.created, "requestReceivedTimestamp")
            times[pod["name"]] = datetime.fromisoformat(event[key]).timestamp()

    def bindings(self) -> list[float]:
        """Read the audit log, and return the sorted times at which bindings of measured pods were answered.

        They are in seconds since 1970.
        """
        self.read_audit_log()
        return sorted(self.bound.values())

    def processes(self) -> dict[str, list[int]]:
        """Return the process ids of kube-apiserver and etcd."""
        return {"apiserver": [self._plane.apiserver_pid], "etcd": [self._plane.etcd_pid]}

    def waiting(self) -> int:
        """Return how many measured pods have no node in the API server."""
        listed = self.client.get(f"/api/v1/namespaces/{MEASURED}/pods?fieldSelector=spec.nodeName%3D")
        return len(listed["items"])

    def stop(self) -> None:
        """Stop kube-apiserver and etcd."""
        self.client.close()
        self._plane.stop()
        self._log.close()


def wait_for_bindings(plane: AuditedControlPlane, contender: Contender, pods: int, timeout_s: float = 300.0) -> None:
    """Wait until `pods` measured pods are bound. Raises RuntimeError if the scheduler exits before."""
    eventually(
        lambda: len(plane.bindings()) >= pods or contender.raise_if_exited(), "the last binding", timeout_s, POLL_S
    )


def measure(plane: AuditedControlPlane, contender: Contender, workload: Workload, pods: int) -> RunFigures:
    """Wait until the scheduler has bound the backlog and return the figures.

    `first_binding_s` counts from this call: call it right after the contender's start.
    """
    started = time.time()
    with run_churn(plane.client, workload.churn):
        eventually(lambda: bool(plane.bindings()) or contender.raise_if_exited(), "a first binding", FIRST_S, POLL_S)
        processes = contender.processes()
        before = {name: cpu_s(pids) for name, pids in processes.items()}
        wait_for_bindings(plane, contender, pods, WHOLE_S)
        scheduling_s = cpu_s(processes["scheduler"]) - before["scheduler"]
    exposed = contender.metrics()
    contender.settle()
    taken = {name: cpu_s(pids) - before[name] for name, pids in processes.items()} | {"scheduler": scheduling_s}
    times = plane.bindings()
    left = plane.waiting()
    if left or len(times) != pods:
        raise RuntimeError(f"{contender.name}: {len(times)} of {pods} pods bound, {left} still wait")
    buckets = attempt_buckets(exposed)
    return RunFigures(
        pods_per_s=(pods - 1) / (times[-1] - times[0]),
        first_binding_s=times[0] - started,
        attempt_p50_ms=quantile(buckets, 0.5) * 1000,
        attempt_p99_ms=quantile(buckets, 0.99) * 1000,
        cpu_s={name: seconds / pods * 1000 for name, seconds in taken.items()},
        peak_mib={name: peak_mib(pids) for name, pids in processes.items()},
        reported=contender.reported_figures(),
    )


class FillClient:
    """A client with administrator rights that fills the API server. Each thread has its own connection."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._tls = ssl._create_unverified_context()  # The server has a self-signed certificate.
        self._of_thread = threading.local()
        self._opened: list[http.client.HTTPSConnection] = []

    def create(self, path: str, body: Json) -> None:
        """Send a POST. Raises RuntimeError if it is rejected."""
        status, text = self._request("POST", path, msgspec.json.encode(body))
        if status != 201:
            raise RuntimeError(f"POST {path}: {status} {text[:500]!r}")

    def delete(self, path: str) -> None:
        """Send a DELETE without a grace period; a missing object is not an error."""
        status, text = self._request("DELETE", path, b'{"gracePeriodSeconds":0}')
        if status not in (200, 202, 404):
            raise RuntimeError(f"DELETE {path}: {status} {text[:500]!r}")

    def get(self, path: str) -> Any:
        """Return the decoded JSON of a GET."""
        status, text = self._request("GET", path, None)
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {text[:500]!r}")
        return msgspec.json.decode(text)

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._opened:
            connection.close()

    def _request(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection: http.client.HTTPSConnection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._of_thread.connection = http.client.HTTPSConnection(
                self._host, timeout=60.0, context=self._tls
            )
            self._opened.append(connection)
        elif time.monotonic() - self._of_thread.used > MAX_IDLE_S:
            connection.close()  # the request opens it again
        self._of_thread.used = time.monotonic()
        connection.request(method, path, body, _HEADERS)
        response = connection.getresponse()
        return response.status, response.read()


def fill(client: FillClient, workload: Workload, size: Size, *, backlog: bool = True) -> None:
    """Create every object of a workload: dependencies first, the measured pods last and only with `backlog`."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        for objects in (
            workload.others(size),
            ((NODES, node) for node in workload.nodes(size)),
            _pods(workload.pods_before(size)),
            _pods(workload.pods(size) if backlog else ()),
        ):
            for _ in pool.map(lambda each: client.create(*each), objects):
                pass


@contextmanager
def run_churn(client: FillClient, churn: Churn | None) -> Iterator[None]:
    """Run the workload's churn in a thread while the block runs; raise its error at the end."""
    if churn is None:
        yield
        return
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(_churn, client, churn, stop)
        try:
            yield
        finally:
            stop.set()
        work.result()


def _churn(client: FillClient, churn: Churn, stop: threading.Event) -> None:
    number = 0
    while not stop.wait(churn.every_s):
        made = [(PODS.format("sched-0"), churn.template.pod(number, "sched-0"))]
        if churn.replaced:
            made += [(NODES, manifests.node(99_999, zones=())), (SERVICES, manifests.service("churn", MEASURED))]
            for path, body in made if number else ():
                name = body["metadata"]["name"]
                client.delete(f"{path}/{name.replace(f'-{number}', f'-{number - 1}')}")
        for path, body in made:
            client.create(path, body)
        number += 1


def _pods(pods: Iterable[Json]) -> Iterator[tuple[str, Json]]:
    return ((PODS.format(pod["metadata"]["namespace"]), pod) for pod in pods)
