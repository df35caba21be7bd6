"""`python -m bench.attack`: throughput, probes and memory while slow clients occupy every port.

python -m bench.attack [--seconds 300] [--clients 200]

The program starts a decisions service, a scheduler and the extender service. It measures ingest, queries, agent calls
and probes with --clients slow clients on each port, and without them for a fifth of the time (at most 30 s) before and
afterwards. It prints rates, the longest probe, peak memory and restarts. Then it sends 100 bodies of the maximum size
at once to the extender service. Exit code 1 if a target is missed: probes below 1 s, rates at least 0.9 of the
undisturbed ones, memory within the limits of the manifests.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import re
import ssl
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import extender
from bench.slow_clients import Target
from herodotus_agents.server import MAX_BODY_BYTES
from herodotus_record import codec
from herodotus_sim import SimulatedCluster
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table
from tests.processes import Process, free_port, in_session, python

MAX_PROBE_S: Final = 1.0
MIN_RATE_SHARE: Final = 0.9  # of the undisturbed rate
MEMORY_LIMITS_MIB: Final = {"decisions service": 1024, "scheduler": 1024, "agents": 512}  # of the manifests
LARGE_BODIES: Final = 100
PROBE_PAUSE_S: Final = 0.2
REQUEST_TIMEOUT_S: Final = 30.0
UNDISTURBED_S: Final = 30.0  # at most, before the attack and after it
API: Final = "/apis/herodotus.dev/v1alpha1"
JSON_TYPE: Final = {"Content-Type": "application/json"}

Request = tuple[str, str, bytes | None, dict[str, str]]
"""Method, path, body and headers."""


@dataclass
class RequestLoop:
    """Requests of one kind, sent one after the other until the loop is stopped.

    `build_request` gets the number of the request, from 1. With `reconnect` each request has a new connection.
    """

    name: str
    target: Target
    build_request: Callable[[int], Request]
    reconnect: bool = False
    pause_s: float = 0.0
    durations_s: list[float] = field(default_factory=list)
    results: Counter[str] = field(default_factory=Counter)
    """Requests by HTTP status or name of the exception."""

    @property
    def is_probe(self) -> bool:
        """Whether the duration of each request counts, and not their rate."""
        return self.name.startswith("probe")

    def run(self, stop: threading.Event) -> None:
        """Send requests until `stop` is set."""
        connection = connect(self.target)
        for number in itertools.count(1):
            if stop.wait(self.pause_s):
                break
            began = time.perf_counter()
            self.results[send_request(connection, self.build_request(number))] += 1
            self.durations_s.append(time.perf_counter() - began)
            if self.reconnect:
                connection.close()
        connection.close()


def connect(target: Target) -> http.client.HTTPConnection:
    """Return a connection to the target that the first request opens."""
    if not target.tls:
        return http.client.HTTPConnection("127.0.0.1", target.port, timeout=REQUEST_TIMEOUT_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", target.port, timeout=REQUEST_TIMEOUT_S, context=context)


def send_request(connection: http.client.HTTPConnection, request: Request) -> str:
    """Send a request and read the response; return its status, or the name of the exception that ended it."""
    try:
        connection.request(*request)
        response = connection.getresponse()
        response.read()
    except (OSError, http.client.HTTPException) as e:
        connection.close()
        return type(e).__name__
    return str(response.status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, attack and print; return 1 if a target is missed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.attack", description="Slow clients on every port.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--clients", type=int, default=200, help="on each port (default %(default)s)")
    args = parser.parse_args(arguments)
    undisturbed_s = min(UNDISTURBED_S, args.seconds / 5)
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        service, service_ports = running.enter_context(run_decisions_service(folder))
        scheduler, scheduler_port = running.enter_context(_run_scheduler(folder))
        agents = running.enter_context(extender.run_extender_service())
        agents_port = Target(int(agents.address.rpartition(":")[2]), post_path="/scheduler/predicates/foo")
        processes = {"decisions service": service, "scheduler": scheduler, "agents": agents.process}
        sequences = itertools.count(1)
        pids = {name: _pids(process) for name, process in processes.items()}

        def measure(seconds: float) -> tuple[list[RequestLoop], dict[str, float]]:
            return _measure(_request_loops(service_ports, scheduler_port, agents_port, sequences), processes, seconds)

        before, _ = measure(undisturbed_s)
        with _attacked(folder, [*service_ports, scheduler_port, agents_port], args.clients):
            disturbed, peak_mib = measure(args.seconds)
        after, _ = measure(undisturbed_s)
        restarts = {name: len(set(_pids(process)) - set(pids[name])) for name, process in processes.items()}
        answered = Counter[str]()
        for loop in (*before, *after):
            answered[loop.name] += loop.results["200"]
        rates = {name: count / (2 * undisturbed_s) for name, count in answered.items()}
        missed = _print_rates(rates, disturbed, args.seconds)
        missed |= _print_processes(peak_mib, restarts)
        missed |= _send_large_bodies(agents_port, agents)
        return int(missed)


def _request_loops(
    service: Sequence[Target], scheduler: Target, agents: Target, sequences: Iterator[int]
) -> list[RequestLoop]:
    """Return a loop for ingest, queries, agent calls and each probe; `sequences` numbers the decisions."""
    queries, ingest, probes = service
    node_rows = codec.encode(a_table(["worker-1", "worker-2", "worker-3"]).rows(CLUSTER, INCARNATION))

    def build_batch(_number: int) -> Request:
        sequence = next(sequences)
        decision = a_decision(pod=f"p-{sequence}", sequence=sequence)
        return "POST", "/ingest/v1/frames", node_rows + codec.encode(decision), {"Content-Type": codec.CONTENT_TYPE}

    def get(path: str) -> Callable[[int], Request]:
        return lambda _: ("GET", path, None, {})

    agent_call: Request = ("POST", "/scheduler/priorities/foo", extender.NAMES, JSON_TYPE)
    probe_paths = (
        ("probe service /livez", probes, "/livez"),
        ("probe service /readyz", probes, "/readyz"),
        ("probe scheduler /livez", scheduler, "/livez"),
        ("probe scheduler /readyz", scheduler, "/readyz"),
        ("probe agents /version", agents, "/version"),
    )
    return [
        RequestLoop("ingest", ingest, build_batch),
        RequestLoop("queries", queries, get(f"{API}/decisions?limit=10")),
        RequestLoop("agents", agents, lambda _: agent_call, pause_s=0.01),
        *(RequestLoop(name, target, get(path), True, PROBE_PAUSE_S) for name, target, path in probe_paths),
    ]


def _measure(
    loops: list[RequestLoop], processes: dict[str, Process], seconds: float
) -> tuple[list[RequestLoop], dict[str, float]]:
    """Run the loops for some seconds; return them with the peak memory of each process in MiB."""
    stop = threading.Event()
    threads = [threading.Thread(target=loop.run, args=(stop,), daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    peak_mib = dict.fromkeys(processes, 0.0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, process in processes.items():
            peak_mib[name] = max(peak_mib[name], _memory_mib(process))
        time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    return loops, peak_mib


def _print_rates(undisturbed: dict[str, float], disturbed: Sequence[RequestLoop], seconds: float) -> bool:
    """Print a row per kind of request; return whether a probe is too slow or a rate too low."""
    missed = False
    print(f"{'REQUESTS':26} {'UNDISTURBED/S':>13} {'DISTURBED/S':>11} {'SHARE':>6} {'P50 MS':>7} {'MAX MS':>8}  CODES")
    for loop in disturbed:
        alone, rate = undisturbed[loop.name], loop.results["200"] / seconds
        share, longest_s = rate / alone if alone else 0.0, max(loop.durations_s)
        p50_s = sorted(loop.durations_s)[len(loop.durations_s) // 2]
        if loop.is_probe:
            missed |= longest_s >= MAX_PROBE_S or set(loop.results) != {"200"}
        else:
            missed |= share < MIN_RATE_SHARE
        results = ", ".join(f"{result}: {count}" for result, count in loop.results.items())
        figures = f"{alone:13.1f} {rate:11.1f} {share:6.2f} {p50_s * 1e3:7.1f} {longest_s * 1e3:8.0f}"
        print(f"{loop.name:26} {figures}  {results}")
    return missed


def _print_processes(peak_mib: dict[str, float], restarts: dict[str, int]) -> bool:
    """Print a row per program; return whether one exceeded its memory limit or was restarted."""
    missed = False
    print(f"{'PROCESS':26} {'PEAK MIB':>13} {'LIMIT MIB':>11} {'RESTARTS':>9}")
    for name, mib in peak_mib.items():
        print(f"{name:26} {mib:13.0f} {MEMORY_LIMITS_MIB[name]:11} {restarts[name]:9}")
        missed |= mib >= MEMORY_LIMITS_MIB[name] or restarts[name] > 0
    return missed


def _send_large_bodies(target: Target, agents: extender.ExtenderService) -> bool:
    """Send bodies of the maximum size at once; print results and memory; return whether the limit is exceeded."""
    missed = False
    for name, body in _large_bodies().items():
        request: Request = ("POST", "/scheduler/priorities/foo", body, JSON_TYPE)
        with _PeakMemory(agents.process) as peak, ThreadPoolExecutor(LARGE_BODIES) as senders:
            sent = [senders.submit(_send_once, target, request) for _ in range(LARGE_BODIES)]
            results = Counter(future.result() for future in sent)
        size_mib = len(body) >> 20
        print(f"{LARGE_BODIES} bodies of {size_mib} MiB at once ({name}): {dict(results)}, peak {peak.mib:.0f} MiB")
        missed |= peak.mib >= MEMORY_LIMITS_MIB["agents"]
    return missed


def _large_bodies() -> dict[str, bytes]:
    """Return bodies just below the size limit: whole nodes, and as many empty nodes as possible."""
    node = json.dumps(extender.NODE_LIST[0])
    nodes = {
        "whole nodes": [node] * ((MAX_BODY_BYTES - 4096) // (len(node) + 1)),
        "many empty nodes": ["{}"] * 10_000_000,
    }
    pod = json.dumps(extender.POD)
    return {
        name: f'{{"Pod": {pod}, "Nodes": {{"items": [{",".join(items)}]}}}}'.encode() for name, items in nodes.items()
    }


def _send_once(target: Target, request: Request) -> str:
    connection = connect(target)
    try:
        return send_request(connection, request)
    finally:
        connection.close()


class _PeakMemory:
    """A context manager that samples a program's memory from a thread; `mib` is the largest sample."""

    def __init__(self, process: Process) -> None:
        self.mib = 0.0
        self._process = process
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> _PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.05):
            self.mib = max(self.mib, _memory_mib(self._process))


@contextmanager
def run_decisions_service(folder: Path) -> Iterator[tuple[Process, list[Target]]]:
    """Run the service while the block runs; yield it with its ports for queries, ingest and probes."""
    binds = [word for flag in ("--bind", "--ingest-bind", "--probe-bind") for word in (flag, "127.0.0.1:0")]
    command = python("herodotus_endpoint", "--data", str(folder / "data"), *binds)
    process = Process("service", command, folder / "service.log", {"HERODOTUS_DATABASE_URL": ""})
    try:
        names = ("queries", "ingest", "probes")
        found = [process.wait_for(rf"listening on http://127\.0\.0\.1:(\d+) \({name}\)") for name in names]
        yield process, [Target(int(m[1]), long_path="/openapi.json", post_path="/ingest/v1/frames") for m in found]
    finally:
        process.stop()


@contextmanager
def _run_scheduler(folder: Path) -> Iterator[tuple[Process, Target]]:
    """Run a scheduler of a simulated cluster while the block runs; yield it with its HTTPS port."""
    with SimulatedCluster(objects=extender.NODE_LIST) as cluster:
        kubeconfig, port = cluster.write_kubeconfig(folder / "kubeconfig"), free_port()
        flags = ["--kubeconfig", str(kubeconfig), "--secure-port", str(port), "--bind-address", "127.0.0.1"]
        command = python("scheduler", "run", *flags, "--no-record")
        process = Process("scheduler", command, folder / "scheduler.log")
        try:
            process.wait_for("Serving securely")
            yield process, Target(port, tls=True, long_path="/livez", post_path="/debug/flags/v")
        finally:
            process.stop()


@contextmanager
def _attacked(folder: Path, targets: Sequence[Target], count: int) -> Iterator[None]:
    """Run `count` slow clients of every kind against each target while the block runs."""
    clients = []
    try:
        for target in targets:
            command = python("bench.slow_clients", *target.arguments(), "--count", str(count))
            clients.append(Process("clients", command, folder / f"clients-{target.port}.log"))
        for process in clients:
            process.wait_for("attacking")
        yield
    finally:
        for process in clients:
            process.stop()


def _pids(process: Process) -> list[int]:
    return in_session(process.pid)


def _memory_mib(process: Process) -> float:
    """Return the memory of a program and its children; shared pages count once, as they do for a container."""
    total_kb = 0
    for pid in _pids(process):
        with suppress(OSError):  # the process has just ended
            pss = re.search(r"Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())
            total_kb += int(pss[1]) if pss else 0
    return total_kb / 1024


if __name__ == "__main__":
    sys.exit(main())
