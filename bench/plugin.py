"""Compares `kubectl herodotus pod NAME` with `kubectl get pod NAME`, on a record of 5,000 nodes.

    python -m bench.plugin [--nodes 5000] [--rounds 25]

Owns: the simulated cluster on loopback, the order of runs, the table. Does not own: the plugin's speed.

Both use kubectl and the API server with warm caches, and write to a pipe or a terminal. The table has for each the
median wall time, and the median of user and system time with child processes, which other load does not increase.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.cluster import Cluster, Herodotus, node, pod
from tests.processes import ROOT, Process, eventually, python, run_on_terminal

BUDGET_MS: Final = 150.0  # wall time, on loopback
RATIO: Final = 3.0  # maximum ratio to kubectl get pod
NAMESPACE: Final = "bench"
POD: Final = "web-6d4cf56db6-x2k8z"  # a name like that of a Deployment's pod
BARE: Final = "payments-0"  # a reusable name, for which the plugin also looks up the current pod
SERVICE: Final = "herodotus-endpoint"
_SLOWER: Final = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")  # An installed plugin has compiled bytecode.


@dataclass
class TimedCommand:
    """A command line and the times of its runs."""

    name: str
    command: Sequence[str]
    terminal: bool = False
    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def run(self, environ: dict[str, str]) -> None:
        """Run the command once and add its times."""
        before, start = _children_s(), time.perf_counter()
        run = run_on_terminal if self.terminal else _piped
        written = run(self.command, environ).decode("utf-8", "replace")
        self.wall_ms.append((time.perf_counter() - start) * 1000)
        self.cpu_ms.append((_children_s() - before) * 1000)
        if POD not in written and BARE not in written:
            raise RuntimeError(f"{self.name} says nothing about the pod: {written[:500]}")

    def row(self, base: TimedCommand) -> str:
        """Return a table row with this command's median times and their ratios to those of `base`."""
        wall, cpu = statistics.median(self.wall_ms), statistics.median(self.cpu_ms)
        base_wall, base_cpu = statistics.median(base.wall_ms), statistics.median(base.cpu_ms)
        return f"{self.name:44}{wall:>9.0f}{wall / base_wall:>7.2f}{cpu:>9.0f}{cpu / base_cpu:>7.2f}"


def contenders() -> list[TimedCommand]:
    """Return the commands to compare; the first is kubectl's own, to which the others are compared."""
    get, ask, named = ("kubectl", "get", "pod"), ("kubectl", "herodotus", "pod"), ("-n", NAMESPACE)
    return [
        TimedCommand("kubectl get pod", (*get, POD, *named)),
        TimedCommand("kubectl herodotus pod -n, piped", (*ask, POD, *named)),
        TimedCommand("kubectl herodotus pod -n, terminal", (*ask, POD, *named), terminal=True),
        TimedCommand("kubectl herodotus pod, terminal", (*ask, POD), terminal=True),
        TimedCommand("kubectl herodotus pod --node, terminal", (*ask, POD, "--node", "n-17"), terminal=True),
        TimedCommand("kubectl herodotus pod, a StatefulSet's", (*ask, BARE), terminal=True),
    ]


def main() -> int:
    """Measure the commands and print their times; return 0 if the plugin is within its limits, else 1."""
    parser = argparse.ArgumentParser(prog="python -m bench.plugin", description="Measure the plugin.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=25)
    args = parser.parse_args()
    measured = contenders()
    with tempfile.TemporaryDirectory() as directory, run_decided_cluster(args.nodes, Path(directory)) as environ:
        for turn in range(args.rounds + 1):
            for contender in measured:
                contender.run(environ)
                if turn == 0:  # The first turn warms kubectl's discovery cache and the page cache.
                    contender.wall_ms.clear()
                    contender.cpu_ms.clear()
    print(f"{'':44}{'WALL MS':>9}{'×':>7}{'CPU MS':>9}{'×':>7}    {args.nodes} nodes, p50 of {args.rounds}")
    for contender in measured:
        print(contender.row(measured[0]))
    base = statistics.median(measured[0].wall_ms)
    walls = [statistics.median(c.wall_ms) for c in measured[1:]]
    return int(max(walls) > min(BUDGET_MS, RATIO * base))


@contextmanager
def run_decided_cluster(nodes: int, directory: Path) -> Iterator[dict[str, str]]:
    """Run a cluster with one decision over `nodes` nodes; yield the environment for kubectl."""
    with ExitStack() as running:
        kubeconfig = directory / "kubeconfig"
        command = python("herodotus_sim", "--port", "0", "--run-pods", "--write-kubeconfig", str(kubeconfig))
        sim = Process("sim", command, directory / "sim.log")
        running.callback(sim.stop)
        url = sim.wait_for(r"http://127\.0\.0\.1:\d+")[0]
        cluster = Cluster("simulated", url, {}, kubeconfig)
        running.callback(cluster.close)
        for name in (NAMESPACE, "herodotus"):
            cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
        zones = [{"topology.kubernetes.io/zone": f"zone-{i % 3}"} for i in range(nodes)]
        cluster.create_all("/api/v1/nodes", [node(f"n-{i}", labels=zones[i]) for i in range(nodes)])
        herodotus = Herodotus(cluster, directory)
        running.callback(herodotus.stop)
        _publish(cluster, herodotus.endpoint_url)
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        cluster.create_all(pods, [pod(POD), pod(BARE)])
        eventually(lambda: len(herodotus.decisions(NAMESPACE)) == 2, "the decisions", 120)
        # of a pod that does not run well, the plugin reads more
        eventually(lambda: all(map(_is_ready, cluster.get(pods)["items"])), "pods that run", 120)
        _use_namespace(kubeconfig)
        yield _environment(kubeconfig, directory)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _publish(cluster: Cluster, endpoint_url: str) -> None:
    """Create the service through which the API server's proxy reaches `endpoint_url`. Its port name selects plain HTTP.

    The simulated API server creates a TLS context per request, which would take longer than the response.
    """
    metadata = {"name": SERVICE, "namespace": "herodotus"}
    port = int(endpoint_url.rpartition(":")[2])
    spec = {"ports": [{"name": "plain-http", "port": 8000, "targetPort": port}]}
    cluster.create("/api/v1/namespaces/herodotus/services", {"metadata": metadata, "spec": spec})
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "plain-http", "port": port}]}]
    cluster.create("/api/v1/namespaces/herodotus/endpoints", {"metadata": metadata, "subsets": subsets})


def _use_namespace(kubeconfig: Path) -> None:
    """Set the namespace of the current context, as `kubectl config set-context --current --namespace` does."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = NAMESPACE
    kubeconfig.write_text(yaml.safe_dump(config))


def _environment(kubeconfig: Path, directory: Path) -> dict[str, str]:
    programs = directory / "bin"
    programs.mkdir()
    plugin = programs / "kubectl-herodotus"
    plugin.write_text(f"#!{sys.executable}\n" + (ROOT / "kubectl-herodotus").read_text().partition("\n")[2])
    plugin.chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if name not in _SLOWER}
    return {
        **inherited,
        "KUBECONFIG": str(kubeconfig),
        "KUBECACHEDIR": str(directory / "cache"),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm-256color",
    }


def _children_s() -> float:
    """Return user and system time of child processes that have exited."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _piped(command: Sequence[str], environ: Mapping[str, str] | None) -> bytes:
    return subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
