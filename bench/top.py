"""Measures `kubectl herodotus top` on a large cluster, in a terminal of 80 by 24.

    python -m bench.top [--nodes 5000] [--pods 15000] [--keys 60] [--local]

Owns: the simulated cluster on loopback, keys and times. Does not own: the program's speed.

It prints the time until the first nodes are on the screen, until every node has its requests, the time from a key to
the repaint while updates run, the program's highest memory, and how many bytes a key and a second without keys send to
the terminal, which counts on a slow connection.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.plugin import run_decided_cluster
from tests.e2e.cluster import Cluster, pod
from tests.processes import ROOT, eventually
from tests.support.pseudo_terminal import PseudoTerminal

LIMITS: Final = {"first nodes": 2000.0, "key to repaint, p95": 100.0}  # milliseconds
_IDLE_S: Final = 10.0
_WAITING: Final = 5


def measure_key(terminal: PseudoTerminal, key: str) -> tuple[float, int]:
    """Press a key once the terminal is quiet; return the milliseconds until the next output, and its bytes."""
    while terminal.read(0.02):
        continue
    before, start = terminal.count_bytes(), time.perf_counter()
    terminal.press(key)
    while not terminal.read(1):
        continue
    return (time.perf_counter() - start) * 1000, terminal.count_bytes() - before


def measure_idle(terminal: PseudoTerminal) -> float:
    """Return the bytes that the program sends in a second while no key is pressed and updates run."""
    before, until = terminal.count_bytes(), time.monotonic() + _IDLE_S
    while time.monotonic() < until:
        terminal.read(0.1)
    return (terminal.count_bytes() - before) / _IDLE_S


def read_peak_memory_mb(pid: int) -> float:
    """Return the highest resident memory of a process so far."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) / 1024


def main() -> int:
    """Measure `kubectl herodotus top` and print the figures; return 0 if it is within its limits, else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench.top", description="Measure top.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=15_000)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--local", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, run_decided_cluster(args.nodes, Path(directory)) as environ:
        fill(environ, args.nodes, args.pods)
        command = [sys.executable, str(ROOT / "kubectl-herodotus"), "top", "--interval=2s"]
        environ = environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        terminal = PseudoTerminal([*command, *(["--local"] if args.local else [])], environ)
        figures = {}
        for name, pattern in {"first nodes": r"n-1\b", "all requests": "█"}.items():
            terminal.wait_for(pattern, timeout_s=120)
            figures[name] = (time.perf_counter() - terminal.started) * 1000
        first_bytes = terminal.count_bytes()
        measured = [measure_key(terminal, "\x1b[B") for _ in range(args.keys)]
        keys = sorted(milliseconds for milliseconds, _ in measured)
        figures["key to repaint, median"] = statistics.median(keys)
        figures["key to repaint, p95"] = keys[int(len(keys) * 0.95) - 1]
        figures["key to repaint, highest"] = keys[-1]
        sizes = {"until all requests": float(first_bytes)}
        sizes["key, median"] = statistics.median(size for _, size in measured)
        sizes["second without keys"] = measure_idle(terminal)
        memory = read_peak_memory_mb(terminal.process.pid)
        terminal.press("q")
        terminal.wait_for_end()
        terminal.close()
    for name, milliseconds in figures.items():
        print(f"{name:26}{milliseconds:>8.0f} ms")
    print(f"{'highest memory':26}{memory:>8.0f} MB    {args.nodes} nodes, {args.pods} pods")
    for name, size in sizes.items():
        print(f"{name:26}{size:>8.0f} bytes to the terminal")
    print(f"load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
    return int(any(figures[name] > limit for name, limit in LIMITS.items()))


def fill(environ: dict[str, str], nodes: int, pods: int) -> None:
    """Create pods on the nodes of the cluster of a kubeconfig, and _WAITING pods that fit on none."""
    kubeconfig = Path(environ["KUBECONFIG"])
    url = re.findall(r"http://127\.0\.0\.1:\d+", kubeconfig.read_text())[0]
    cluster = Cluster("simulated", url, {}, kubeconfig)
    try:
        waiting = [pod(f"huge-{i}", cpu="40") for i in range(_WAITING)]
        cluster.create_all("/api/v1/namespaces/bench/pods", waiting)
        placed = [pod(f"filler-{i}", nodeName=f"n-{i % nodes}") for i in range(pods)]
        cluster.create_all("/api/v1/namespaces/bench/pods", placed)
        eventually(lambda: len(cluster.get("/api/v1/nodes?limit=1")["items"]) == 1, "the API server", 60)
    finally:
        cluster.close()


if __name__ == "__main__":
    sys.exit(main())
