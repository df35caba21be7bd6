"""The extender service under load: 500 nodes a call, as names and as whole nodes of 4 kB, for every verb.

Owns: the requests, the service process, the measurement. Does not own: limits (`tests/agents/test_load.py` has them in
processor time).
"""

from __future__ import annotations

import argparse
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench import processes
from bench.algorithm import calibration_ms
from herodotus_sim import SimulatedCluster
from tests.processes import Process, python

Json = dict[str, Any]

NODES: Final = 500
WARM: Final = 5  # calls before the measurement
VERBS: Final = (
    "predicates/safe-overload",
    "priorities/safe-overload",
    "priorities/safe-balance",
    "priorities/congestion",
    "priorities/pigeon-holing",
    "priorities/rl-priority",
    "predicates/foo",
    "priorities/foo",
)
EXPLAINED: Final = "application/vnd.herodotus.extender+json"
REQUESTS: Final = {"cpu": "500m", "memory": "200Mi"}
POD: Final[Json] = {
    "metadata": {"name": "p", "namespace": "shop", "uid": "uid-p", "labels": {"app": "D"}},
    "spec": {"containers": [{"name": "main", "resources": {"requests": REQUESTS}}]},
}


def _node(i: int) -> Json:
    """Return a node with every annotation that an agent reads, and of a realistic size."""
    annotations = {
        "mean-free-cpu": str(2500 - i),
        "std-free-cpu": "400",
        "mean-free-memory": str((3 << 30) - i),
        "std-free-memory": str(200 << 20),
        "congestion-factor": str(i % 100),
        "requested-cpu": str(i),
        "requested-memory": str(i << 20),
        "herodotus.dev/rewards": json.dumps({"D": i / NODES}),
        "padding": "x" * 3500,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{i}", "annotations": annotations},
        "status": {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "110"}},
    }


NODE_LIST: Final = [_node(i) for i in range(NODES)]
NAMES: Final = json.dumps({"Pod": POD, "Nodes": None, "NodeNames": [f"n{i}" for i in range(NODES)]}).encode()
WHOLE: Final = json.dumps({"Pod": POD, "Nodes": {"metadata": {}, "items": NODE_LIST}, "NodeNames": None}).encode()
BODIES: Final = {"names": NAMES, "whole nodes": WHOLE}


@dataclass(frozen=True)
class ExtenderService:
    """A running service. `address` and `probes` are HOST:PORT."""

    address: str
    probes: str
    process: Process

    def calls(self, verb: str, body: bytes, count: int, accept: str = "*/*") -> list[float]:
        """Send `count` requests on one connection, and return the duration of each in seconds.

        Raises RuntimeError if a status is not 200.
        """
        connection = http.client.HTTPConnection(self.address, timeout=60)
        headers = {"Content-Type": "application/json", "Accept": accept}
        took = []
        for _ in range(count):
            began = time.perf_counter()
            connection.request("POST", f"/scheduler/{verb}", body, headers)
            response = connection.getresponse()
            answer = response.read()
            took.append(time.perf_counter() - began)
            if response.status != 200:
                raise RuntimeError(f"{verb}: {response.status} {answer[:300]!r}")
        connection.close()
        return took

    def pids(self) -> list[int]:
        """Return the ids of the arbiter and its workers."""
        return [self.process.pid, *processes.children(self.process.pid)]

    def processor_s(self) -> float:
        """Return the processor time in seconds that the service has used since its start."""
        return processes.cpu_s(self.pids())


@contextmanager
def run_extender_service(**environment: str) -> Iterator[ExtenderService]:
    """Run the service with every agent beside a simulated API server; stop it with the block."""
    with SimulatedCluster(objects=NODE_LIST) as cluster, TemporaryDirectory() as folder:
        command = python("herodotus_agents", "serve", "--address", "127.0.0.1", "--port", "0", "--watch-nodes")
        command += ["--probe-bind", "127.0.0.1:0"]
        environment = {"LOG_LEVEL": "WARNING", **environment}
        running = Process("agents", [*command, "--server", cluster.url], Path(folder) / "agents.log", environment)
        try:
            probes = running.wait_for(r"listening on http://([0-9.:]+) \(probes\)")[1]
            yield ExtenderService(running.wait_for(r"listening on http://([0-9.:]+)\n")[1], probes, running)
        finally:
            code = running.stop()
        if code != 0:
            raise RuntimeError(f"the service ended with {code}: {running.output()[-2000:]}")


@dataclass(frozen=True)
class CallTimes:
    """The times of one verb with one form of request."""

    processor_ms: float  # mean per call
    p50_ms: float
    p99_ms: float
    explained_ms: float  # mean processor time per call that requests the inputs too


def measure(running: ExtenderService, verb: str, form: str, count: int) -> CallTimes:
    """Measure `count` calls of a verb with the request body `form`, a key of BODIES, and return the times."""
    body = BODIES[form]
    running.calls(verb, body, WARM)
    before = running.processor_s()
    took = sorted(running.calls(verb, body, count))
    between = running.processor_s()
    running.calls(verb, body, count, EXPLAINED)
    after = running.processor_s()
    return CallTimes(
        processor_ms=1e3 * (between - before) / count,
        p50_ms=1e3 * took[count // 2],
        p99_ms=1e3 * took[int(count * 0.99) - 1],
        explained_ms=1e3 * (after - between) / count,
    )


def memory_mib(running: ExtenderService, rounds: int, count: int) -> list[float]:
    """Return the service's memory in MiB after each of `rounds` rounds.

    In a round, each verb is called `count` times with each body.
    """
    mib = []
    for _ in range(rounds):
        for verb in VERBS:
            for body in BODIES.values():
                running.calls(verb, body, count)
        mib.append(processes.resident_mib(running.pids()))
    return mib


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m bench extender`."""
    parser.add_argument("--calls", type=int, default=300, help="of each verb, in each form")
    parser.add_argument("--rounds", type=int, default=10, help="after each of which memory is looked at")


def run(arguments: argparse.Namespace) -> int:
    """Print a row for each verb and form, then the memory after each round."""
    print(f"calibration {calibration_ms():.1f} ms; {NODES} nodes a call")
    print(f"{'VERB':28}{'REQUEST':14}{'CPU MS':>8}{'WITH INPUTS':>13}{'P50 MS':>9}{'P99 MS':>9}")
    with run_extender_service() as running:
        for form in BODIES:
            for verb in VERBS:
                r = measure(running, verb, form, arguments.calls)
                figures = f"{r.processor_ms:>8.1f}{r.explained_ms:>13.1f}{r.p50_ms:>9.1f}{r.p99_ms:>9.1f}"
                print(f"{verb:28}{form:14}{figures}", flush=True)
        mib = memory_mib(running, arguments.rounds, arguments.calls // 10)
        print(f"resident MiB after each of {arguments.rounds} rounds: {' '.join(f'{each:.0f}' for each in mib)}")
    return 0
