"""`python -m bench.churn`: a day's churn in minutes, and whether the processes' memory stays constant.

    python -m bench.churn [--pod-events 200000] [--nodes 50] [--pods 500]

Pods are created, bound and deleted as fast as the scheduler binds them, and nodes are replaced. It prints for each
process the resident memory after the warm-up (the middle fifth of the run) and at the end (the last fifth), and below
them the resident memory in each tenth of the run.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.processes import children, exit_on_sigterm, resident_mib
from bench.reliability.operations import NAMESPACE, NODES, PODS, PROFILE, ZONES, RetryingClient, node
from bench.reliability.system import Election, SimulatedApi, System, wait_for_leader
from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiServer
from herodotus_kube.watch import ListResult, ListWatch, Reflector, WatchEvent
from scheduler.engine.objects.types import Object, Struct

Json = dict[str, Any]

SAMPLE_S: Final = 1.0
HISTORY: Final = 5000  # changes that the simulated server retains; few, so that its memory is at its maximum early
AHEAD: Final = 300  # created pods that are not bound yet, so that the scheduler is always busy
NODE_EVERY_S: Final = 3.0  # interval of replacing a node
GROWTH: Final = (1.05, 4.0)  # accepted growth for the allocator: a factor and MiB
BINDERS_S: Final = 120.0  # time at the end for pods that are still pending


class _Spec(Struct, frozen=True):
    node_name: str = ""


class _Pod(Object, frozen=True):
    spec: _Spec = _Spec()


@dataclass
class ObservedPods:
    """The pods that the watch has delivered, and in `waiting` also those that are being created."""

    events: int = 0
    waiting: set[str] = field(default_factory=set)
    bound: OrderedDict[str, str] = field(default_factory=OrderedDict)  # node by pod, oldest first

    def apply(self, message: ListResult[Any] | WatchEvent[Any]) -> None:
        """Count a change of a pod and apply it. A list is ignored."""
        if isinstance(message, ListResult):
            return
        self.events += 1
        name, node_name = message.object.metadata.name, message.object.spec.node_name
        if message.type == "DELETED":
            self.waiting.discard(name)
            self.bound.pop(name, None)
        elif node_name:
            self.waiting.discard(name)
            self.bound.setdefault(name, node_name)


@dataclass
class Memory:
    """Samples of each process' memory, each with the number of events at that time."""

    samples: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def take(self, events: int, pids: dict[str, int]) -> None:
        """Store one sample of the memory of each process. `pids` maps names to process ids."""
        for name, pid in pids.items():
            self.samples.setdefault(name, []).append((events, resident_mib([pid])))

    def median(self, name: str, begin: float, end: float) -> float:
        """Return the median memory in MiB of a process in a part of the run, or NaN without a sample in it.

        `begin` and `end` are shares of the run's events, such as 0.5 and 1.
        """
        last = self.samples[name][-1][0]
        part = [mib for at, mib in self.samples[name] if begin * last <= at <= end * last]
        return statistics.median(part) if part else float("nan")


def main() -> int:
    """Run the benchmark and print the report; return 1 if memory grew or a pod stayed pending."""
    args = _parser().parse_args()
    exit_on_sigterm()
    directory = Path(tempfile.mkdtemp(prefix="churn-"))
    print(f"logs in {directory}", flush=True)
    api = SimulatedApi(directory, "--history-limit", str(HISTORY))
    try:
        system = System(api, directory, 1, Election(15.0, 10.0, 2.0), verbosity=0)
        try:
            return churn(system, args.pod_events, args.nodes, args.pods)
        finally:
            system.stop()
    finally:
        api.stop()


def churn(system: System, pod_events: int, nodes: int, pods: int) -> int:
    """Create the load, sample the memory and print the report; return the exit code."""
    assert isinstance(system.api, SimulatedApi)
    server = system.api.process.pid
    cluster, memory, stop = ObservedPods(), Memory(), threading.Event()
    api = RetryingClient(system.api.url, system.api.headers)
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for number in range(nodes):
        api.create(NODES, node(f"first-{number}", ZONES[number % 3], cpu="8"))
    scheduler = wait_for_leader(system).running.pid
    door = ApiServer(Credentials(system.api.url, None, dict))
    reflector = Reflector(door, ListWatch("/api/v1/pods", "pods", _Pod), cluster.apply)
    reflector.start()
    threads = [
        threading.Thread(target=each, args=(RetryingClient(system.api.url, {}), cluster, stop, pods), daemon=True)
        for each in (_create, _delete, _exchange_nodes)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    while cluster.events < pod_events:
        shippers = children(scheduler)
        pids = {"scheduler": scheduler, "simulated API server": server, "decisions service": system.endpoint.pid}
        memory.take(cluster.events, pids | ({"shipper": shippers[0]} if shippers else {}))
        if not scheduler or not system.replicas[0].running.running:
            raise SystemExit(f"the scheduler ended:\n{system.replicas[0].running.output()[-3000:]}")
        time.sleep(SAMPLE_S)
    stop.set()
    seconds = time.monotonic() - began
    pending = _count_pending(cluster)
    for thread in threads:
        thread.join()
    reflector.stop()
    door.close()
    return _report(cluster, memory, seconds, pending)


def _create(api: RetryingClient, cluster: ObservedPods, stop: threading.Event, pods: int) -> None:
    for number in itertools.count():
        while len(cluster.waiting) >= AHEAD:
            if stop.wait(0.01):
                return
        if stop.is_set():
            return
        name = f"pod-{number}"
        cluster.waiting.add(name)
        api.create(PODS, _pod(name))


def _delete(api: RetryingClient, cluster: ObservedPods, stop: threading.Event, pods: int) -> None:
    deleted: deque[str] = deque(maxlen=4 * AHEAD)  # deleted pods whose deletion the watch may not have delivered yet
    while not stop.is_set():
        surplus = list(itertools.islice(cluster.bound.copy(), max(0, len(cluster.bound) - pods)))
        requested = set(deleted)
        for name in surplus:
            if name not in requested:
                deleted.append(name)
                api.delete(f"{PODS}/{name}")
        stop.wait(0.02)


def _exchange_nodes(api: RetryingClient, cluster: ObservedPods, stop: threading.Event, pods: int) -> None:
    names = deque(["first-0"])
    for number in itertools.count():
        if stop.wait(NODE_EVERY_S):
            return
        names.append(f"later-{number}")
        api.create(NODES, node(names[-1], ZONES[number % 3], cpu="8"))
        going = names.popleft()
        api.delete(f"{NODES}/{going}")
        for name, where in cluster.bound.copy().items():
            if where == going:
                api.delete(f"{PODS}/{name}")


def _pod(name: str) -> Json:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "100m"}}}
    metadata = {"name": name, "labels": {"app": f"app-{hash(name) % 20}"}}
    return {"metadata": metadata, "spec": {"schedulerName": PROFILE, "containers": [container]}}


def _count_pending(cluster: ObservedPods) -> int:
    """Wait at most BINDERS_S seconds until no pod is pending, and return how many still are."""
    deadline = time.monotonic() + BINDERS_S
    while cluster.waiting and time.monotonic() < deadline:
        time.sleep(0.1)
    return len(cluster.waiting)


def _report(cluster: ObservedPods, memory: Memory, seconds: float, pending: int) -> int:
    print(
        f"{cluster.events} pod events in {seconds:.0f} s, {cluster.events / seconds:.0f} a second; {pending} pods left"
    )
    print(f"{'PROCESS':24}{'AFTER WARM-UP MiB':>18}{'AT THE END MiB':>16}")
    grown = []
    for name in sorted(memory.samples):
        middle, end = memory.median(name, 0.4, 0.6), memory.median(name, 0.8, 1.0)
        print(f"{name:24}{middle:>18.1f}{end:>16.1f}")
        tenths = (memory.median(name, tenth / 10, (tenth + 1) / 10) for tenth in range(10))
        print("  " + " ".join(f"{mib:.0f}" for mib in tenths))
        if end > max(middle * GROWTH[0], middle + GROWTH[1]):
            grown.append(name)
    print(f"grown: {', '.join(grown)}" if grown else "flat")
    return 1 if pending or grown else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.churn", description="Memory under a day's churn.")
    parser.add_argument("--pod-events", type=int, default=200_000)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--pods", type=int, default=500, help="on nodes at a time")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
