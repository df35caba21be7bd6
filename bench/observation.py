"""Runs the observer beside kube-scheduler and reports how often and in which scores they agree.

    python -m bench.observation [--nodes 100] [--pods 2000] [--per-s 50] [--seed 1] [--directory DIR]

A random cluster on a real kube-apiserver: pods with all kinds of constraints are created at a steady rate and scheduled
by kube-scheduler, whose log at -v=10 is read afterwards. Owns: the run and its report. Does not own: the cluster and
its pods (`tests.e2e`), reconstruction (`scheduler.offline.observe`), reading the log (`scheduler.offline.read_log`).
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from herodotus_answers.headlines import format_headline
from herodotus_record.codec import deltas
from herodotus_record.model import Agreement, Decision, NodeRows, NodeTable
from scheduler.offline.read_log.reader import LogReader
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster
from tests.e2e.parity_cluster import ParityCluster, pods_of
from tests.e2e.random_cluster import RandomCluster
from tests.processes import Process, eventually, free_port, python

QUIET_S = 6.0  # seconds without a new binding after which the run is complete
SETTLE_EVERY_S = 0.1  # interval of the volume controller


@dataclass
class Report:
    """The result of a run: how many decisions of kube-scheduler the observer reconstructed, and how many are the same.

    `cells` counts the weighted scores, one per node and plugin, that were compared with kube-scheduler's log. Only
    decisions for the same node are compared.
    """

    pods: int = 0
    placed: int = 0
    reconstructed: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    tried: int = 0
    unrecorded: list[str] = field(default_factory=list)  # pods with an attempt in the log but no record
    compared: int = 0
    cells: int = 0
    equal: int = 0
    differing: Counter[str] = field(default_factory=Counter)  # by plugin
    disagreements: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        share = {name: f"{n} ({n / max(1, self.reconstructed):.2%})" for name, n in self.classes.most_common()}
        return "\n".join(
            [
                f"{self.pods} pods, {self.placed} placed by kube-scheduler;"
                f" {self.reconstructed} outcomes reconstructed",
                *(f"  {name}: {count}" for name, count in share.items()),
                f"{len(self.unrecorded)} of {self.tried} pods that were tried have no reconstruction"
                f" {self.unrecorded[:5]}",
                f"{self.compared} agreeing decisions are in the log with scores: {self.equal} of {self.cells} cells"
                f" equal ({self.equal / max(1, self.cells):.3%}) {dict(self.differing)}",
                *self.disagreements[:40],
            ]
        )


def main() -> int:
    """Measure how many of kube-scheduler's decisions the observer reconstructs, and print the report.

    Return 1 if a pod that kube-scheduler tried has no reconstruction.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.observation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--per-s", type=float, default=50.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="for logs and records; default: a new temporary one")
    args = parser.parse_args()
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        raise SystemExit("no etcd, kube-apiserver and kube-scheduler: see tests/e2e/control_plane.py")
    directory = args.directory or Path(tempfile.mkdtemp(prefix="observation-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {args.seed}; logs in {directory}", flush=True)
    plane = control_plane.ControlPlane(binaries, directory)
    try:
        plane.wait_until_ready()
        with ExitStack() as closing:
            run = Run(plane, binaries, directory, args.seed, args.nodes)
            closing.callback(run.stop)
            report = run.report(args.pods, args.per_s)
    finally:
        plane.stop()
    print(report)
    return 1 if report.unrecorded else 0


class RoomyCluster(RandomCluster):
    """A random cluster in which most pods fit."""

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes of the random cluster, each with 64 cpu, 256Gi and room for 110 pods."""
        made = super().nodes()
        for node in made:
            node["status"]["allocatable"] |= {"cpu": "64", "memory": "256Gi", "pods": "110"}
        return made


class Run:
    """One cluster with kube-scheduler and the observer."""

    def __init__(
        self, plane: control_plane.ControlPlane, binaries: Path, directory: Path, seed: int, nodes: int
    ) -> None:
        self._directory = directory
        self._random = RoomyCluster(seed, nodes)
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(plane.kubeconfig()))
        self._api = Cluster("real", plane.url, {"Authorization": f"Bearer {control_plane.TOKEN}"}, kubeconfig)
        self._cluster = ParityCluster(self._api, self._random)
        config = directory / "kube-scheduler.yaml"
        connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000}
        leader = {"leaderElect": False}
        whole = {**self._random.configuration(), "clientConnection": connection, "leaderElection": leader}
        config.write_text(yaml.safe_dump(whole))
        self._observer = Process(
            "observer",
            python(
                *("scheduler", "observe", "--kubeconfig", str(kubeconfig), "--config", str(config), "--v", "2"),
                *("--spool", str(directory / "spool"), "--secure-port", "0"),
            ),
            directory / "observer.log",
        )
        self._observer.wait_for("Observing")
        time.sleep(2.0)  # Wait for the observer's lists and its window.
        self._scheduler = Process(
            "kube-scheduler",
            [
                *(str(binaries / "kube-scheduler"), f"--config={config}", f"--secure-port={free_port()}", "-v=10"),
                *(f"--cert-dir={directory / 'certs'}", "--bind-address=127.0.0.1"),
            ],
            directory / "kube-scheduler.log",
        )

    def report(self, pods: int, per_s: float) -> Report:
        """Create `pods` pods, `per_s` per second, wait until no more are bound, and return the comparison."""
        stop = threading.Event()
        volumes = threading.Thread(target=self._settle, args=(stop,))
        volumes.start()
        try:
            self._create(pods, per_s)
            placed = self._wait()
        finally:
            stop.set()
            volumes.join()
        self._scheduler.stop()
        eventually(self._settled, "the observer's last records", 300.0)
        self.stop()
        return self._build_report(pods, placed)

    def stop(self) -> None:
        """Stop the scheduler and the observer."""
        for process in (self._scheduler, self._observer):
            if process.running:
                process.stop()

    def _create(self, pods: int, per_s: float) -> None:
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            for number in range(pods):
                time.sleep(max(0.0, began + number / per_s - time.monotonic()))
                pod = self._random.incoming(number)
                pool.submit(self._api.create, pods_of(pod), pod).add_done_callback(lambda done: done.result())

    def _settle(self, stop: threading.Event) -> None:
        while not stop.wait(SETTLE_EVERY_S):
            self._cluster.settle_volumes()

    def _wait(self) -> dict[str, str]:
        """Wait until no more pods are bound; return the node of each bound pod of the run, by UID."""
        seen, since = -1, time.monotonic()
        while True:
            nodes = {
                pod["metadata"]["uid"]: pod["spec"]["nodeName"]
                for pod in self._api.items("/api/v1/pods")
                if pod["metadata"]["name"].startswith("new-") and pod["spec"].get("nodeName")
            }
            if len(nodes) != seen:
                seen, since = len(nodes), time.monotonic()
            if time.monotonic() - since > QUIET_S:
                return nodes
            time.sleep(1.0)

    def _settled(self) -> bool:
        """Return whether the observer's spool did not grow for QUIET_S seconds."""
        before = _bytes(self._directory / "spool")
        time.sleep(QUIET_S)
        return _bytes(self._directory / "spool") == before

    def _build_report(self, pods: int, placed: dict[str, str]) -> Report:
        report = Report(pods, len(placed))
        tried: set[str] = set()
        logged: dict[str, list[tuple[Decision, dict[tuple[str, str], int]]]] = {}
        reader = LogReader()
        with (self._directory / "kube-scheduler.log").open(errors="replace") as log:
            for read in reader.all(line.rstrip("\n") for line in log):
                d = read.decision
                tried.add(f"{d.pod.namespace}/{d.pod.name}")
                if d.chosen is not None:
                    names = reader.nodes.names
                    logged.setdefault(f"{d.pod.namespace}/{d.pod.name}", []).append(
                        (d, _scores_by_node_and_plugin(d, names))
                    )
        seen: set[str] = set()
        for decision, table in _decisions(self._directory / "spool"):
            reconstruction = decision.reconstruction
            assert reconstruction is not None
            report.reconstructed += 1
            what = "placed" if decision.chosen is not None else "rejected"
            cause = f" ({reconstruction.cause.value})" if reconstruction.cause else ""
            report.classes[f"{what}: {reconstruction.agreement.value}{cause}"] += 1
            seen.add(f"{decision.pod.namespace}/{decision.pod.name}")
            if reconstruction.agreement is Agreement.DISAGREE:
                report.disagreements.append(_format_decision(decision, table))
            elif decision.chosen is not None and reconstruction.agreement is not Agreement.UNKNOWN:
                _compare(report, decision, table, logged.get(f"{decision.pod.namespace}/{decision.pod.name}", []))
        report.tried, report.unrecorded = len(tried), sorted(tried - seen)
        return report


def _compare(
    report: Report, ours: Decision, table: NodeTable, theirs: list[tuple[Decision, dict[tuple[str, str], int]]]
) -> None:
    mine, last = _scores_by_node_and_plugin(ours, table.names), theirs[-1][1] if theirs else {}
    if not mine or not last:
        return
    report.compared += 1
    for cell in mine.keys() | last.keys():
        report.cells += 1
        if mine.get(cell) == last.get(cell):
            report.equal += 1
        else:
            report.differing[cell[1]] += 1


def _scores_by_node_and_plugin(d: Decision, names: list[str]) -> dict[tuple[str, str], int]:
    """Return the weighted score of each feasible node by (node, plugin)."""
    feasible = [slot for slot, rank in enumerate(d.rank) if rank]
    return {
        (names[slot], s.plugin): s.normalized[slot] * s.weight
        for s in d.scores
        if not s.skipped and len(s.normalized)
        for slot in feasible
    }


def _format_decision(d: Decision, table: NodeTable) -> str:
    reconstruction = d.reconstruction
    assert reconstruction is not None
    return (
        f"{d.pod.namespace}/{d.pod.name} {reconstruction.cause} {format_headline(d, table)} {d.text_notes} {d.message}"
    )


def _decisions(spool: Path) -> Iterator[tuple[Decision, NodeTable]]:
    """Yield every decision of the spool with the node table at its time.

    The table is valid until the next step, which may change it.
    """
    table = NodeTable()
    for frame in _frames(sorted(spool.glob("*/*.seg"))):
        if isinstance(frame, NodeRows):
            table = NodeTable() if frame.base == -1 else table
            table.apply(frame)
        elif isinstance(frame, Decision):
            yield frame, table


def _bytes(spool: Path) -> int:
    return sum(segment.stat().st_size for segment in spool.glob("*/*.seg"))


def _frames(segments: Iterable[Path]) -> Iterator[object]:
    for segment in segments:
        yield from deltas.decode_all(segment.read_bytes())


if __name__ == "__main__":
    raise SystemExit(main())
