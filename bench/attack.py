"""`python -m bench.attack`: slow, silent and never-reading clients on every port, beside ingest, queries and probes.

python -m bench.attack [--seconds 300] [--clients 200]

The program starts a decisions service, a scheduler and the extender service. It measures them with --clients slow
clients on each port, and undisturbed for a fifth of the time (at most 30 s) before and afterwards. It prints rates, the
longest probe, the largest memory and restarts; then it sends 100 bodies of the maximum size at once to the extender
service. Exit code 1 where a target is missed: probes below 1 s, rates at least 0.9 of the undisturbed ones, memory
within the manifests' limits.
"""

from __future__ import annotations

import argparse
import http.client
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
from typing import Any, Final

from bench import extender
from herodotus_agents.server import MAX_BODY_BYTES
from herodotus_record import codec
from herodotus_sim import SimulatedCluster
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table
from tests.processes import Process, free_port, in_session, python

PROBE_S: Final = 1.0
SHARE: Final = 0.9
LIMITS_MIB: Final = {"decisions service": 1024, "scheduler": 1024, "agents": 512}  # of the manifests
BODIES: Final = 100
PROBE_PAUSE_S: Final = 0.2
PATIENCE_S: Final = 30.0
PREFIX: Final = "/apis/herodotus.dev/v1alpha1"


@dataclass(frozen=True)
class Port:
    """Where slow clients and others connect."""

    port: int
    tls: bool = False
    reads: str = "/"
    posts: str = "/"

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection that is not open yet."""
        if not self.tls:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=context)


@dataclass
class Work:
    """Requests of one kind, one after the other. `fresh`: each on a new connection."""

    name: str
    port: Port
    request: Callable[[int], tuple[str, str, bytes | None, dict[str, str]]]
    fresh: bool = False
    pause_s: float = 0.0
    taken: list[float] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)

    def run(self, stop: threading.Event) -> None:
        """Send requests until `stop`."""
        connection, number = self.port.connect(), 0
        while not stop.wait(self.pause_s):
            number += 1
            began = time.perf_counter()
            try:
                connection.request(*self.request(number))
                response = connection.getresponse()
                response.read()
                self.codes[str(response.status)] += 1
            except (OSError, http.client.HTTPException) as e:
                self.codes[type(e).__name__] += 1
                connection.close()
            self.taken.append(time.perf_counter() - began)
            if self.fresh:
                connection.close()
        connection.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the attack; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.attack", description="Slow clients on every port.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--clients", type=int, default=200, help="on each port (default %(default)s)")
    given = parser.parse_args(arguments)
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        service, ports = running.enter_context(_decisions_service(folder))
        scheduler, https = running.enter_context(_scheduler(folder))
        agents = running.enter_context(extender.run_extender_service())
        extenders = Port(int(agents.address.rpartition(":")[2]), posts="/scheduler/predicates/foo")
        processes = {"decisions service": service, "scheduler": scheduler, "agents": agents.process}
        every = [*ports, https, extenders]
        works = _works(ports, https, extenders)
        before = {name: _pids(each) for name, each in processes.items()}
        undisturbed, _ = _measure(works, processes, min(30.0, given.seconds / 5))
        with _attacked(folder, every, given.clients):
            disturbed, memory = _measure(works, processes, given.seconds)
        afterwards, _ = _measure(works, processes, min(30.0, given.seconds / 5))
        alone = {name: (rate + afterwards[name][1]) / 2 for name, (_, rate) in undisturbed.items()}
        restarts = {name: len(set(_pids(each)) - set(before[name])) for name, each in processes.items()}
        missed = _report(alone, disturbed, memory, restarts)
        return int(_bodies(extenders, agents) or missed)


def _works(service: Sequence[Port], https: Port, agents: Port) -> list[Callable[[], Work]]:
    queries, ingest, probes = service
    table = a_table(["worker-1", "worker-2", "worker-3"])
    rows = codec.encode(table.rows(CLUSTER, INCARNATION))
    sent = {"Content-Type": codec.CONTENT_TYPE}
    counter = iter(range(1, sys.maxsize))

    def batch(_number: int) -> tuple[str, str, bytes, dict[str, str]]:
        first = next(counter)
        decision = a_decision(pod=f"p-{first}", sequence=first)
        return "POST", "/ingest/v1/frames", rows + codec.encode(decision), sent

    get: Callable[[str], Callable[[int], tuple[str, str, bytes | None, dict[str, str]]]]
    get = lambda path: lambda _: ("GET", path, None, {})  # noqa: E731
    call = ("POST", "/scheduler/priorities/foo", extender.NAMES, {"Content-Type": "application/json"})
    return [
        lambda: Work("ingest", ingest, batch),
        lambda: Work("queries", queries, get(f"{PREFIX}/decisions?limit=10")),
        lambda: Work("agents", agents, lambda _: call, pause_s=0.01),
        *(
            lambda port=port, path=path, name=name: Work(name, port, get(path), True, PROBE_PAUSE_S)
            for name, port, path in (
                ("probe service /livez", probes, "/livez"),
                ("probe service /readyz", probes, "/readyz"),
                ("probe scheduler /livez", https, "/livez"),
                ("probe scheduler /readyz", https, "/readyz"),
                ("probe agents /version", agents, "/version"),
            )
        ),
    ]


def _measure(
    works: Sequence[Callable[[], Work]], processes: dict[str, Process], seconds: float
) -> tuple[dict[str, tuple[Work, float]], dict[str, float]]:
    """Return each kind of request with its rate, and the largest memory of each process in MiB."""
    stop, run = threading.Event(), [make() for make in works]
    threads = [threading.Thread(target=work.run, args=(stop,), daemon=True) for work in run]
    for thread in threads:
        thread.start()
    memory: dict[str, float] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, process in processes.items():
            memory[name] = max(memory.get(name, 0.0), _memory_mib(process))
        time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    return {work.name: (work, work.codes["200"] / seconds) for work in run}, memory


def _report(
    undisturbed: dict[str, float],
    disturbed: dict[str, tuple[Work, float]],
    memory: dict[str, float],
    restarts: dict[str, int],
) -> bool:
    """Print the figures; return whether a target is missed."""
    missed = False
    print(f"{'REQUESTS':26} {'UNDISTURBED/S':>13} {'DISTURBED/S':>11} {'SHARE':>6} {'P50 MS':>7} {'MAX MS':>8}  CODES")
    for name, (work, rate) in disturbed.items():
        alone = undisturbed[name]
        share, longest = rate / alone if alone else 0.0, max(work.taken)
        p50 = sorted(work.taken)[len(work.taken) // 2]
        probe = name.startswith("probe")
        missed |= longest >= PROBE_S or set(work.codes) != {"200"} if probe else share < SHARE
        codes = ", ".join(f"{code}: {count}" for code, count in work.codes.items())
        print(f"{name:26} {alone:13.1f} {rate:11.1f} {share:6.2f} {p50 * 1e3:7.1f} {longest * 1e3:8.0f}  {codes}")
    print(f"{'PROCESS':26} {'PEAK MIB':>13} {'LIMIT MIB':>11} {'RESTARTS':>9}")
    for name, mib in memory.items():
        print(f"{name:26} {mib:13.0f} {LIMITS_MIB[name]:11} {restarts[name]:9}")
        missed |= mib >= LIMITS_MIB[name] or restarts[name] > 0
    return missed


def _bodies(port: Port, agents: extender.ExtenderService) -> bool:
    """Send bodies of the maximum size at once; print codes and memory; return whether the limit is exceeded."""
    node = json.dumps(extender.NODE_LIST[0])
    items = ",".join([node] * ((MAX_BODY_BYTES - 4096) // (len(node) + 1)))
    whole = f'{{"Pod": {json.dumps(extender.POD)}, "Nodes": {{"items": [{items}]}}}}'.encode()
    values = f'{{"Pod": {json.dumps(extender.POD)}, "Nodes": {{"items": [{",".join(["{}"] * 10_000_000)}]}}}}'.encode()
    missed = False
    for name, body in (("whole nodes", whole), ("many empty nodes", values)):
        codes: Counter[str] = Counter()

        def send(_number: int, body: bytes = body, codes: Counter[str] = codes) -> None:
            connection = port.connect()
            try:
                connection.request("POST", "/scheduler/priorities/foo", body, {"Content-Type": "application/json"})
                codes[str(connection.getresponse().status)] += 1
            except (OSError, http.client.HTTPException) as e:
                codes[type(e).__name__] += 1
            finally:
                connection.close()

        peak, stop = [0.0], threading.Event()

        def watch(peak: list[float] = peak, stop: threading.Event = stop) -> None:
            while not stop.wait(0.05):
                peak[0] = max(peak[0], _memory_mib(agents.process))

        watcher = threading.Thread(target=watch)
        watcher.start()
        with ThreadPoolExecutor(BODIES) as senders:
            list(senders.map(send, range(BODIES)))
        stop.set()
        watcher.join()
        print(f"{BODIES} bodies of {len(body) >> 20} MiB at once ({name}): {dict(codes)}, peak {peak[0]:.0f} MiB")
        missed |= peak[0] >= LIMITS_MIB["agents"]
    return missed


@contextmanager
def _decisions_service(folder: Path) -> Iterator[tuple[Process, list[Port]]]:
    binds = [word for flag in ("--bind", "--ingest-bind", "--probe-bind") for word in (flag, "127.0.0.1:0")]
    command = python("herodotus_endpoint", "--data", str(folder / "data"), *binds)
    process = Process("service", command, folder / "service.log", {"HERODOTUS_DATABASE_URL": ""})
    try:
        names = ("queries", "ingest", "probes")
        found = [process.wait_for(rf"listening on http://127\.0\.0\.1:(\d+) \({name}\)") for name in names]
        yield process, [Port(int(each[1]), reads="/openapi.json", posts="/ingest/v1/frames") for each in found]
    finally:
        process.stop()


@contextmanager
def _scheduler(folder: Path) -> Iterator[tuple[Process, Port]]:
    with SimulatedCluster(objects=extender.NODE_LIST) as cluster:
        kubeconfig, port = cluster.write_kubeconfig(folder / "kubeconfig"), free_port()
        flags = ["--kubeconfig", str(kubeconfig), "--secure-port", str(port), "--bind-address", "127.0.0.1"]
        command = python("scheduler", "run", *flags, "--no-record")
        process = Process("scheduler", command, folder / "scheduler.log")
        try:
            process.wait_for("Serving securely")
            yield process, Port(port, tls=True, reads="/livez", posts="/debug/flags/v")
        finally:
            process.stop()


@contextmanager
def _attacked(folder: Path, ports: Sequence[Port], count: int) -> Iterator[None]:
    clients = []
    try:
        for port in ports:
            flags = [str(port.port), "--count", str(count), "--reads", port.reads, "--posts", port.posts]
            command = python("bench.slow_clients", *flags, *(["--tls"] if port.tls else []))
            clients.append(Process("clients", command, folder / f"clients-{port.port}.log"))
        for each in clients:
            each.wait_for("attacking")
        yield
    finally:
        for each in clients:
            each.stop()


def _pids(process: Process) -> list[int]:
    return in_session(process.pid)


def _memory_mib(process: Process) -> float:
    """Return the memory of a program; what its processes share counts once, as for a container."""
    total = 0
    for pid in _pids(process):
        with suppress(OSError):  # it has just ended
            found: Any = re.search(r"Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())
            total += int(found[1]) if found else 0
    return total / 1024


if __name__ == "__main__":
    sys.exit(main())
