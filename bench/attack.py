"""`python -m bench.attack`: throughput, probes and memory while slow and wasteful clients occupy every port.

python -m bench.attack [--seconds 300] [--clients 200] [--attacks chunks slow floods watches bodies]

The program starts a decisions service, a scheduler and the extender service. It measures ingest, queries, agent calls
and probes undisturbed, for a fifth of the time (at most 30 s) before everything and afterwards, and meanwhile under
four attacks, all but the second for a fifth of the time (at most 60 s):

1. 32 clients on each port send bodies in chunks of one byte;
2. --clients slow clients of all kinds on each port;
3. 32 clients on each port send TLS records of one byte, reset new connections, or repeat what is refused;
4. 200 watches of two users, in several spellings.

On ports for probes the clients have the address of the probes. It prints rates, the longest answer, peak memory and
restarts. Then it sends 100 bodies of the maximum size at once to the extender service (`bodies`). Exit code 1 if a
target is missed: probes, discovery and lists below 1 s, rates at least 0.8 of the undisturbed ones (without floods and
watches), memory within the limits of the manifests.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from bench import extender
from bench.processes import API, DecisionsService, PeakMemory, connect, exit_on_sigterm, proportional_mib
from herodotus_agents.server import MAX_BODY_BYTES
from herodotus_record import codec
from herodotus_sim import SimulatedCluster
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table
from tests.processes import Process, free_port, in_session, python
from tests.slow_clients import FLOODS, KUBELET_ADDRESS, SOURCE_ADDRESS, WATCH, Target

DEADLINE_S: Final = 1.0  # for probes, and under watches for discovery and lists
MIN_RATE_SHARE: Final = 0.8  # of the undisturbed rate
CHUNKING_CLIENTS: Final = 32  # on each port, 1.2 MB/s
FLOODING_CLIENTS: Final = 32  # on each port
BODIES: Final = "bodies"
ATTACKS: Final = ("chunks", "slow", "floods", "watches", BODIES)
WATCHES: Final = 200
WATCHING_ADDRESSES: Final = ("127.0.0.2", "127.0.0.3")  # of two users: without authentication an address is a user
MEMORY_LIMITS_MIB: Final = {"decisions service": 1024, "scheduler": 1024, "agents": 512}  # of the manifests
LARGE_BODIES: Final = 100
PROBE_PAUSE_S: Final = 0.2
REQUEST_TIMEOUT_S: Final = 30.0
UNDISTURBED_S: Final = 30.0  # at most, before the attacks and after them
SHORT_ATTACK_S: Final = 60.0  # at most
JSON_TYPE: Final = {"Content-Type": "application/json"}

Request = tuple[str, str, bytes | None, dict[str, str]]
"""Method, path, body and headers."""


@dataclass
class RequestLoop:
    """Requests of one kind, sent one after the other until the loop is stopped.

    `build_request` gets the number of the request, from 1. With `reconnect` each request has a new connection. If
    `has_deadline`, the duration of each request counts, and not their rate.
    """

    name: str
    target: Target
    build_request: Callable[[int], Request]
    reconnect: bool = False
    pause_s: float = 0.0
    has_deadline: bool = False
    durations_s: list[float] = field(default_factory=list)
    results: Counter[str] = field(default_factory=Counter)
    """Requests by HTTP status or name of the exception."""

    def run(self, stop: threading.Event) -> None:
        """Send requests until `stop` is set."""
        connection = _connect(self.target)
        for number in itertools.count(1):
            if stop.wait(self.pause_s):
                break
            began = time.perf_counter()
            self.results[send_request(connection, self.build_request(number))] += 1
            self.durations_s.append(time.perf_counter() - began)
            if self.reconnect:
                connection.close()
        connection.close()


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


@dataclass(frozen=True)
class Ports:
    """The open ports of the three programs."""

    queries: Target
    ingest: Target
    scheduler: Target
    agents: Target
    probes: Sequence[Target]
    """Of the service, the scheduler and the agents."""

    def attacks(self, count: int, *kinds: str) -> list[Attack]:
        """Return an attack on each port by `count` clients of these kinds, or of all kinds if `kinds` is empty.

        On ports for probes, the clients have the address from which the kubelet sends probes.
        """
        ordinary = [Attack(each, count, kinds) for each in (self.queries, self.ingest, self.scheduler, self.agents)]
        return ordinary + [Attack(each, count, kinds, KUBELET_ADDRESS) for each in self.probes]


@dataclass(frozen=True)
class Attack:
    """Slow clients of one port; without `kinds` they are of all kinds."""

    target: Target
    count: int
    kinds: Sequence[str] = ()
    source: str = SOURCE_ADDRESS

    def command(self) -> list[str]:
        """Return the command that runs the clients."""
        kinds = [word for kind in self.kinds for word in ("--kind", kind)]
        options = ["--count", str(self.count), "--source", self.source, *kinds]
        return python("tests.slow_clients", *self.target.arguments(), *options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the programs without and with attacks, and print the figures; return 1 if a target is missed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.attack", description="Slow clients on every port.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--clients", type=int, default=200, help="on each port (default %(default)s)")
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=ATTACKS, help="default: all")
    args = parser.parse_args(arguments)
    exit_on_sigterm()
    undisturbed_s, short_s = min(UNDISTURBED_S, args.seconds / 5), min(SHORT_ATTACK_S, args.seconds / 5)
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        binds = ("--ingest-bind", "127.0.0.1:0", "--probe-bind", "127.0.0.1:0")
        service = DecisionsService(folder, "--data", str(folder / "data"), *binds)
        running.callback(service.stop)
        queries, ingest, service_probes = (
            _service_target(service.find_port(use)) for use in ("queries", "ingest", "probes")
        )
        scheduler, scheduler_port, scheduler_probes = running.enter_context(_run_scheduler(folder))
        agents = running.enter_context(extender.run_extender_service())
        agents_port, agents_probes = (
            Target(int(address.rpartition(":")[2]), post_path="/scheduler/predicates/foo")
            for address in (agents.address, agents.probes)
        )
        ports = Ports(queries, ingest, scheduler_port, agents_port, (service_probes, scheduler_probes, agents_probes))
        processes = {"decisions service": service.process, "scheduler": scheduler, "agents": agents.process}
        sequences = itertools.count(1)
        pids = {name: _pids(process) for name, process in processes.items()}

        def measure(seconds: float) -> tuple[list[RequestLoop], dict[str, float]]:
            return _measure(_request_loops(ports, sequences), processes, seconds)

        watchers = [Attack(queries, WATCHES // 2, [WATCH], address) for address in WATCHING_ADDRESSES]
        chunking, flooding = f"{CHUNKING_CLIENTS} clients on each port", f"{FLOODING_CLIENTS} clients on each port"
        scenarios = {
            "chunks": (
                f"{chunking} send chunks of one byte",
                ports.attacks(CHUNKING_CLIENTS, "tiny-chunks"),
                short_s,
                True,
            ),
            "slow": (f"{args.clients} slow clients on each port", ports.attacks(args.clients), args.seconds, True),
            "floods": (f"{flooding} flood it", ports.attacks(FLOODING_CLIENTS, *FLOODS), short_s, False),
            "watches": (f"{WATCHES} watches of two users", watchers, short_s, False),
        }
        before, _ = measure(undisturbed_s)
        disturbed = []
        for key in (each for each in scenarios if each in args.attacks):
            name, attacks, seconds, has_rate_aim = scenarios[key]
            with _attacked(folder, attacks):
                disturbed.append((name, seconds, has_rate_aim, *measure(seconds)))
        after, _ = measure(undisturbed_s)
        restarts = {name: len(set(_pids(process)) - set(pids[name])) for name, process in processes.items()}
        answered = Counter[str]()
        for loop in (*before, *after):
            answered[loop.name] += loop.results["200"]
        rates = {name: count / (2 * undisturbed_s) for name, count in answered.items()}
        missed = False
        for name, seconds, has_rate_aim, loops, peak_mib in disturbed:
            print(f"\n{name}, {seconds:.0f} s")
            missed |= _print_rates(rates, loops, seconds, has_rate_aim=has_rate_aim)
            missed |= _print_processes(peak_mib, restarts)
        if BODIES in args.attacks:
            missed |= _send_large_bodies(agents_port, agents)
        return int(missed)


def _request_loops(ports: Ports, sequences: Iterator[int]) -> list[RequestLoop]:
    """Return a loop for ingest, queries, agent calls, discovery and each probe; `sequences` numbers the decisions."""
    node_rows = codec.encode(a_table(["worker-1", "worker-2", "worker-3"]).rows(CLUSTER, INCARNATION))

    def build_batch(_number: int) -> Request:
        sequence = next(sequences)
        decision = a_decision(pod=f"p-{sequence}", sequence=sequence)
        return "POST", "/ingest/v1/frames", node_rows + codec.encode(decision), {"Content-Type": codec.CONTENT_TYPE}

    def get(path: str) -> Callable[[int], Request]:
        return lambda _: ("GET", path, None, {})

    def ask(name: str, target: Target, path: str) -> RequestLoop:
        return RequestLoop(name, target, get(path), True, PROBE_PAUSE_S, True)

    agent_call: Request = ("POST", "/scheduler/priorities/foo", extender.NAMES, JSON_TYPE)
    service, scheduler, agents = ports.probes
    return [
        RequestLoop("ingest", ports.ingest, build_batch),
        RequestLoop("queries", ports.queries, get(f"{API}/decisions?limit=10")),
        RequestLoop("agents", ports.agents, lambda _: agent_call, pause_s=0.01),
        ask("discovery", ports.queries, API),
        ask("list", ports.queries, f"{API}/decisions?limit=10"),
        ask("probe service /livez", service, "/livez"),
        ask("probe service /readyz", service, "/readyz"),
        ask("probe scheduler /livez", scheduler, "/livez"),
        ask("probe scheduler /readyz", scheduler, "/readyz"),
        ask("probe agents /livez", agents, "/livez"),
        ask("scheduler's HTTPS /livez", ports.scheduler, "/livez"),
    ]


def _measure(
    loops: list[RequestLoop], processes: dict[str, Process], seconds: float
) -> tuple[list[RequestLoop], dict[str, float]]:
    """Run the loops for some seconds; return them with the peak memory of each process in MiB, by name."""
    stop = threading.Event()
    threads = [threading.Thread(target=loop.run, args=(stop,), daemon=True) for loop in loops]
    with ExitStack() as sampling:
        peaks = {
            name: sampling.enter_context(PeakMemory(partial(_memory_mib, process), 0.5))
            for name, process in processes.items()
        }
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        stop.set()
        for thread in threads:
            thread.join()
    return loops, {name: peak.mib for name, peak in peaks.items()}


def _print_rates(
    undisturbed: dict[str, float], disturbed: Sequence[RequestLoop], seconds: float, *, has_rate_aim: bool
) -> bool:
    """Print a row per kind of request; return True if a request with a deadline was late or failed.

    With `has_rate_aim`, also return True if the rate of other requests fell below MIN_RATE_SHARE of `undisturbed`,
    their rates per second without attacks.
    """
    missed = False
    print(f"{'REQUESTS':26} {'UNDISTURBED/S':>13} {'DISTURBED/S':>11} {'SHARE':>6} {'P50 MS':>7} {'MAX MS':>8}  CODES")
    for loop in disturbed:
        alone, rate = undisturbed[loop.name], loop.results["200"] / seconds
        share, longest_s = rate / alone if alone else 0.0, max(loop.durations_s)
        p50_s = sorted(loop.durations_s)[len(loop.durations_s) // 2]
        if loop.has_deadline:
            missed |= longest_s >= DEADLINE_S or set(loop.results) != {"200"}
        elif has_rate_aim:
            missed |= share < MIN_RATE_SHARE
        results = ", ".join(f"{result}: {count}" for result, count in loop.results.items())
        figures = f"{alone:13.1f} {rate:11.1f} {share:6.2f} {p50_s * 1e3:7.1f} {longest_s * 1e3:8.0f}"
        print(f"{loop.name:26} {figures}  {results}")
    return missed


def _print_processes(peak_mib: dict[str, float], restarts: dict[str, int]) -> bool:
    """Print a row per program; return whether one reached its memory limit or was restarted."""
    missed = False
    print(f"{'PROCESS':26} {'PEAK MIB':>13} {'LIMIT MIB':>11} {'RESTARTS':>9}")
    for name, mib in peak_mib.items():
        print(f"{name:26} {mib:13.0f} {MEMORY_LIMITS_MIB[name]:11} {restarts[name]:9}")
        missed |= mib >= MEMORY_LIMITS_MIB[name] or restarts[name] > 0
    return missed


def _send_large_bodies(target: Target, agents: extender.ExtenderService) -> bool:
    """Send LARGE_BODIES bodies of nearly the maximum size at once to the extender service, and print the results.

    Return whether the service reached its memory limit.
    """
    missed = False
    for name, body in _large_bodies().items():
        request: Request = ("POST", "/scheduler/priorities/foo", body, JSON_TYPE)
        with PeakMemory(partial(_memory_mib, agents.process)) as peak, ThreadPoolExecutor(LARGE_BODIES) as senders:
            sent = [senders.submit(_send_once, target, request) for _ in range(LARGE_BODIES)]
            results = Counter(future.result() for future in sent)
        size_mib = len(body) >> 20
        print(f"{LARGE_BODIES} bodies of {size_mib} MiB at once ({name}): {dict(results)}, peak {peak.mib:.0f} MiB")
        missed |= peak.mib >= MEMORY_LIMITS_MIB["agents"]
    return missed


def _large_bodies() -> dict[str, bytes]:
    """Return two request bodies by name: one with many ordinary nodes, and one with as many empty nodes as possible."""
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
    with closing(_connect(target)) as connection:
        return send_request(connection, request)


def _connect(target: Target) -> http.client.HTTPConnection:
    return connect(target.port, tls=target.tls, timeout_s=REQUEST_TIMEOUT_S)


def _service_target(port: int) -> Target:
    return Target(port, long_path="/openapi.json", post_path="/ingest/v1/frames", watch_path=f"{API}/decisions")


@contextmanager
def _run_scheduler(folder: Path) -> Iterator[tuple[Process, Target, Target]]:
    """Run a scheduler of a simulated cluster while the block runs; yield it, its HTTPS port and its port for probes."""
    with SimulatedCluster(objects=extender.NODE_LIST) as cluster:
        kubeconfig, port = cluster.write_kubeconfig(folder / "kubeconfig"), free_port()
        flags = ["--kubeconfig", str(kubeconfig), "--secure-port", str(port), "--bind-address", "127.0.0.1"]
        command = python("scheduler", "run", *flags, "--probe-bind", "127.0.0.1:0", "--no-record")
        process = Process("scheduler", command, folder / "scheduler.log")
        try:
            process.wait_for("Serving securely")
            probes = process.wait_for(r'"Serving probes" addresses="127\.0\.0\.1:(\d+)"')
            https = Target(port, tls=True, long_path="/livez", post_path="/debug/flags/v")
            yield process, https, Target(int(probes[1]), long_path="/livez", post_path="/livez")
        finally:
            process.stop()


@contextmanager
def _attacked(folder: Path, attacks: Sequence[Attack]) -> Iterator[None]:
    """Run the clients of every attack while the block runs."""
    clients = []
    try:
        for number, attack in enumerate(attacks):
            clients.append(Process("clients", attack.command(), folder / f"clients-{number}.log"))
        for process in clients:
            process.wait_for("attacking")
        yield
    finally:
        for process in clients:
            process.stop()


def _pids(process: Process) -> list[int]:
    return in_session(process.pid)


def _memory_mib(process: Process) -> float:
    return proportional_mib(_pids(process))


if __name__ == "__main__":
    sys.exit(main())
