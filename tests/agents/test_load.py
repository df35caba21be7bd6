"""The service under load, as a process: 500 nodes a call, by names and with whole nodes of 4 kB."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from herodotus_sim import SimulatedCluster
from tests.agents.builders import a_pod, asked
from tests.processes import Process, python

NODES = 500
CALLS = 100
BY_NAME_S, WHOLE_S = 0.025, 0.080  # of processor time: what a call takes on a machine that has nothing else to do
VERBS = (
    "predicates/safe-overload",
    "priorities/safe-overload",
    "priorities/safe-balance",
    "priorities/congestion",
    "priorities/pigeon-holing",
    "priorities/rl-priority",
    "predicates/foo",
    "priorities/foo",
)


def a_large_node(i: int) -> dict[str, Any]:
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
    amounts = {"cpu": "4", "memory": "4Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{i}", "annotations": annotations},
        "status": {"allocatable": amounts},
    }


NODE_LIST = [a_large_node(i) for i in range(NODES)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Process]]:
    log = tmp_path_factory.mktemp("load") / "agents.log"
    with SimulatedCluster(objects=NODE_LIST) as sim:
        command = python("herodotus_agents", "serve", "--address", "127.0.0.1", "--port", "0", "--watch-nodes")
        running = Process("agents", [*command, "--server", sim.url], log, {"LOG_LEVEL": "WARNING"})
        yield running.wait_for(r"listening on http://([0-9.:]+)")[1], running
        assert running.stop() == 0


def calls(address: str, verb: str, body: bytes, count: int) -> list[float]:
    """How long each call took, in seconds."""
    connection = http.client.HTTPConnection(address, timeout=10)
    took = []
    for _ in range(count):
        began = time.perf_counter()
        connection.request("POST", f"/scheduler/{verb}", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        took.append(time.perf_counter() - began)
        assert response.status == 200, answer[:300]
    connection.close()
    return took


def p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99) - 1]


def workers(pid: int) -> list[int]:
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def processor_s(pid: int) -> float:
    """Used so far by a process and its children."""
    fields = [Path(f"/proc/{p}/stat").read_text().rpartition(")")[2].split() for p in workers(pid)]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


WHOLE = json.dumps(asked(a_pod(), NODE_LIST)).encode()
NAMES = json.dumps({"Pod": a_pod(), "Nodes": None, "NodeNames": [f"n{i}" for i in range(NODES)]}).encode()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("body", "limit_s"), [(NAMES, BY_NAME_S), (WHOLE, WHOLE_S)], ids=["names", "whole nodes"])
def test_calls_are_answered_in_time(service: tuple[str, Process], verb: str, body: bytes, limit_s: float) -> None:
    address, running = service
    calls(address, verb, body, 5)
    before = processor_s(running.pid)
    took = p99(calls(address, verb, body, CALLS))
    used = (processor_s(running.pid) - before) / CALLS
    print(f"{verb}: {1e3 * used:.1f} ms of processor, p99 {1e3 * took:.1f} ms, request {len(body) / 1e3:.0f} kB")
    assert used < limit_s


def resident_bytes(pid: int) -> int:
    """Of a process and its children."""
    pages = [int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in workers(pid)]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def test_memory_does_not_grow(service: tuple[str, Process]) -> None:
    """Once the allocator has what it takes, two thousand calls need no more room (4 MiB are its own business)."""
    address, running = service
    rounds = []
    for _ in range(6):
        for verb in VERBS:
            calls(address, verb, WHOLE, 60)
            calls(address, verb, NAMES, 60)
        rounds.append(resident_bytes(running.pid))
    assert rounds[-1] - rounds[3] < 4 << 20, rounds
