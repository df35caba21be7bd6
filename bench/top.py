"""Measures `kubectl herodotus top` on a large cluster, in a terminal of 80 by 24.

    python -m bench.top [--nodes 5000] [--pods 15000] [--keys 60] [--local]

Owns: the simulated cluster on loopback, keys and times. Does not own: the program's speed.

It prints the time until the first nodes are on the screen, until every node has its requests, the time from a key to
the repaint while updates run, and the program's highest memory.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.plugin import run_decided_cluster
from tests.e2e.cluster import Cluster, pod
from tests.processes import ROOT, eventually

LIMITS: Final = {"first nodes": 2000.0, "key to repaint, p95": 100.0}  # milliseconds


class Terminal:
    """The program in a pseudo terminal."""

    def __init__(self, words: list[str], environ: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "kubectl-herodotus"), "top", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ | {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def wait_for(self, pattern: str, timeout_s: float = 120) -> float:
        """Return the time at which the output matched, in milliseconds since the start."""
        until = time.monotonic() + timeout_s
        while not re.search(pattern, self.text):
            if time.monotonic() > until:
                raise RuntimeError(f"no {pattern!r} in the last output: {self.text[-2000:]!r}")
            self._read(0.1)
        return (time.perf_counter() - self.started) * 1000

    def press(self, key: str) -> float:
        """Press a key and return the time until the next output, in milliseconds. Output before it is read first."""
        while self._read(0.02):
            continue
        start = time.perf_counter()
        os.write(self._master, key.encode())
        while not self._read(1):
            continue
        return (time.perf_counter() - start) * 1000

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._master], [], [], timeout_s)[0]:
            return False
        with suppress(OSError):  # the program has ended and closed its side
            self.text += os.read(self._master, 65_536).decode("utf-8", "replace")
        return True

    def peak_memory_mb(self) -> float:
        """Return the highest resident memory of the program so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024

    def end(self) -> None:
        """Press q and wait for the end."""
        os.write(self._master, b"q")
        while self.process.poll() is None:
            self._read(0.1)
        os.close(self._master)


def main() -> int:
    """Measure; return 0 if the program is within its limits."""
    parser = argparse.ArgumentParser(prog="python -m bench.top", description="Measure top.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=15_000)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--local", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, run_decided_cluster(args.nodes, Path(directory)) as environ:
        fill(environ, args.nodes, args.pods)
        terminal = Terminal(["--interval=2s", *(["--local"] if args.local else [])], environ)
        figures = {"first nodes": terminal.wait_for(r"n-1\b")}
        figures["all requests"] = terminal.wait_for(r"█")
        keys = sorted(terminal.press("\x1b[B") for _ in range(args.keys))
        figures["key to repaint, median"] = statistics.median(keys)
        figures["key to repaint, p95"] = keys[int(len(keys) * 0.95) - 1]
        figures["key to repaint, highest"] = keys[-1]
        memory = terminal.peak_memory_mb()
        terminal.end()
    for name, milliseconds in figures.items():
        print(f"{name:26}{milliseconds:>8.0f} ms")
    print(f"{'highest memory':26}{memory:>8.0f} MB    {args.nodes} nodes, {args.pods} pods")
    return int(any(figures[name] > limit for name, limit in LIMITS.items()))


def fill(environ: dict[str, str], nodes: int, pods: int) -> None:
    """Create pods on the nodes of the cluster of a kubeconfig."""
    kubeconfig = Path(environ["KUBECONFIG"])
    url = re.findall(r"http://127\.0\.0\.1:\d+", kubeconfig.read_text())[0]
    cluster = Cluster("simulated", url, {}, kubeconfig)
    try:
        placed = [pod(f"filler-{i}", nodeName=f"n-{i % nodes}") for i in range(pods)]
        cluster.create_all("/api/v1/namespaces/bench/pods", placed)
        eventually(lambda: len(cluster.get("/api/v1/nodes?limit=1")["items"]) == 1, "the API server", 60)
    finally:
        cluster.close()


if __name__ == "__main__":
    sys.exit(main())
