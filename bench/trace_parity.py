"""Compares the simulation of a recorded trace with the kube-scheduler that made it, on a real control plane.

    python -m bench trace-parity --strategy MostAllocated --minutes 40 --directory DIR

Hours of a cluster's life, compressed in time (`compressed_hours`), run under a real kube-scheduler, whose timers are
not compressed. `observe --trace` records them. Then the trace is followed: each attempt in kube-scheduler's log at
-v=10 is made again, in the state in which kube-scheduler made it. Compared are its feasible nodes, the best ones, and
the node that preemption chose. The figures of what was followed, and of free simulations, are compared with those of
what was recorded.

A trace has the times at which the recorder saw changes. kube-scheduler sees them some milliseconds before or after. So
the pods of the followed trace are there when, by its log, kube-scheduler first tried them, and end when it saw that.

Owns: the processes, the comparison. Does not own: the workload (`compressed_hours`), the simulation.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import yaml

from bench.compressed_hours import CompressedHours
from herodotus_record.model import DecisionPath, Preemption
from scheduler.config import Configuration, parse_config
from scheduler.engine.plugins import IN_TREE
from scheduler.offline.simulate.following import FollowedAttempt, FollowedTrace
from scheduler.offline.simulate.metrics import RunMetrics, SimulationFigures
from scheduler.offline.simulate.simulation import TraceSimulation
from scheduler.offline.simulate.virtual_cluster import SimulatedAttempt
from scheduler.offline.traces.document import Event, PodArrived, read_trace, sort_events
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster
from tests.processes import Process, free_port, python

Json = dict[str, Any]

STRATEGIES: Final = ("LeastAllocated", "MostAllocated")
_TEXT: Final = r'"((?:[^"\\]|\\.)*)"'
_BEGUN: Final = re.compile(rf'"Attempting to schedule pod" pod={_TEXT}')
_SCORED: Final = re.compile(rf'"Calculated node\'s final score for pod" pod={_TEXT} node={_TEXT} score=(-?\d+)')
# A pod counts on its node before its binding ends. The end of the log may cut off what became of the binding.
_BINDING: Final = re.compile(rf'"Attempting to bind pod to node" pod={_TEXT} node={_TEXT}')
_FAILED: Final = re.compile(rf'"Unable to schedule pod; no fit; waiting" pod={_TEXT}')
_NOMINATED: Final = re.compile(
    rf'"Updating pod condition and nominated node name" pod={_TEXT} .*nominatedNodeName={_TEXT}'
)
_ENDED: Final = re.compile(rf'"Delete event for scheduled pod" pod={_TEXT}')
_TIME: Final = re.compile(r"[IWE](\d{4} [\d:.]+) ")
_RESOLUTION_S: Final = 1e-6  # of the log's times
SETTLE_S: Final = 12.0  # the longest backoff and 2 s: then no binding is under way that the end would cancel
_FIGURES: Final = ("arrived", "placed", "never_placed", "preempted", "nodes_in_use", "most_nodes_in_use")
_LARGEST_DIFFERENCE: Final = 0.01


@dataclass
class KubeSchedulerAttempt:
    """An attempt in kube-scheduler's log: the chosen or the nominated node, or "", and the totals of several nodes."""

    pod: str  # NAMESPACE/NAME
    at_s: float  # since the start of the trace
    node: str = ""
    nominated_node: str = ""
    totals: dict[str, int] = field(default_factory=dict)
    is_over: bool = False


@dataclass
class Comparison:
    """Counts of what was compared, and the first differences of each kind in words."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def compare(self, what: str, pod: str, theirs: object, ours: object) -> bool:
        """Count a comparison and keep both values if they differ; return whether they are equal."""
        self.counts[what] += 1
        if theirs != ours:
            self.differences[what].append(f"{pod}: kube-scheduler {theirs}, simulation {ours}")
        return theirs == ours

    def __str__(self) -> str:
        lines = []
        for what, count in self.counts.items():
            of = self.differences.get(what, [])
            lines += [f"{what}: {count - len(of)} of {count} equal", *(f"  {each}"[:400] for each in of[:12])]
        return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m bench trace-parity`."""
    parser.add_argument("--strategy", choices=STRATEGIES, default=STRATEGIES[0], help="scoring of NodeResourcesFit")
    parser.add_argument("--minutes", type=float, default=40.0, help="how long the control plane runs (default 40)")
    parser.add_argument("--hours", type=float, default=5.0, help="recorded hours, compressed (default 5)")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5, help="free simulations (default 5)")
    parser.add_argument("--directory", type=Path, help="for logs and the trace; default: a new temporary one")
    parser.add_argument(
        "--compare-only", action="store_true", help="compare the files of an earlier run in --directory"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the hours, print the comparison, and return 1 if a decision differs, or a figure as it ran by 1 % or more."""
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="trace-parity-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"{arguments.strategy}: seed {arguments.seed}; logs and the trace are in {directory}", flush=True)
    document = build_configuration(arguments.strategy)
    if not arguments.compare_only:
        record_hours(arguments, document, directory)
    config = parse_config(yaml.safe_dump(document))
    trace = read_trace([directory / "trace"])
    events = trace.events
    log = SchedulerLog(directory / "kube-scheduler.log", datetime.fromisoformat(trace.started))
    comparison, followed = compare_decisions(log.correct_times(events), config, log)
    print(comparison, flush=True)
    recorded = measure_recorded(events, config)
    free = [simulate_freely(events, config, seed) for seed in range(arguments.seeds)]
    largest = print_figures(recorded, followed, free)
    return int(bool(comparison.differences) or largest >= _LARGEST_DIFFERENCE)


def build_configuration(strategy: str) -> Json:
    """Return a KubeSchedulerConfiguration with this scoring strategy, in which chance decides between equals alone.

    By default kube-scheduler ends its search when enough nodes fit, and 16 threads decide which ones.
    """
    fit = {"type": strategy, "resources": [{"name": name, "weight": 1} for name in ("cpu", "memory")]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": fit}},
                    {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}},
                ],
            }
        ],
    }


# --- the real cluster -----------------------------------------------------------------------------------------------


def record_hours(arguments: argparse.Namespace, document: Json, directory: Path) -> None:
    """Run the hours on a control plane, and leave the trace and kube-scheduler's log in the directory."""
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        raise SystemExit("no etcd, kube-apiserver and kube-scheduler: see tests/e2e/control_plane.py")
    plane = control_plane.ControlPlane(binaries, directory)
    processes: list[Process] = []
    try:
        plane.wait_until_ready()
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(plane.kubeconfig()))
        headers = {"Authorization": f"Bearer {control_plane.TOKEN}"}
        api = Cluster("real", plane.url, headers, kubeconfig)
        hours = CompressedHours(api, arguments.seed, arguments.nodes, arguments.pods, arguments.hours)
        hours.create_cluster()
        config = directory / "config.yaml"
        connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000}
        config.write_text(
            yaml.safe_dump({**document, "clientConnection": connection, "leaderElection": {"leaderElect": False}})
        )
        observer = Process(
            "observer",
            python(
                *("scheduler", "observe", "--kubeconfig", str(kubeconfig), "--config", str(config)),
                *("--spool", str(directory / "spool"), "--secure-port", "0"),
                *("--trace", str(directory / "trace"), "--trace-size", "1Gi"),
            ),
            directory / "observer.log",
        )
        processes.append(observer)
        observer.wait_for("Observing")
        scheduler = Process(
            "kube-scheduler",
            [
                *(str(binaries / "kube-scheduler"), f"--config={config}", f"--secure-port={free_port()}"),
                *(f"--cert-dir={directory / 'certs-scheduler'}", "--bind-address=127.0.0.1"),
                *("-v=3", "--vmodule=schedule_one=10"),
            ],
            directory / "kube-scheduler.log",
        )
        processes.append(scheduler)
        scheduler.wait_for("Caches are synced|Starting Kubernetes Scheduler")
        hours.run(arguments.minutes)
        time.sleep(SETTLE_S)
    finally:
        for process in reversed(processes):
            process.stop()
        plane.stop()


class SchedulerLog:
    """What kube-scheduler's log says: its attempts in their order, and by NAMESPACE/NAME when a pod's end was seen."""

    def __init__(self, path: Path, started: datetime) -> None:
        """Read a log at -v=10. `started` is the start of the trace."""
        self._started = started
        self._latest_s = 0.0
        self._last: dict[str, KubeSchedulerAttempt] = {}
        self._first_s: dict[str, float] = {}
        attempts: list[KubeSchedulerAttempt] = []
        self.ended_s: dict[str, float] = {}
        with path.open(encoding="utf-8", errors="replace") as log:
            for line in log:
                if '"Plugin scored node for pod"' not in line:  # nine of ten lines
                    self._read(line, attempts)
        self.attempts = [each for each in attempts if each.is_over]

    def _read(self, line: str, attempts: list[KubeSchedulerAttempt]) -> None:
        if match := _SCORED.search(line):
            self._last[match[1]].totals[match[2]] = int(match[3])
        elif match := _BEGUN.search(line):
            begun = self._last[match[1]] = KubeSchedulerAttempt(match[1], self._parse_time(line))
            self._first_s.setdefault(begun.pod, begun.at_s)
            attempts.append(begun)
        elif match := _BINDING.search(line):
            self._last[match[1]].node, self._last[match[1]].is_over = match[2], True
        elif match := _FAILED.search(line):
            self._last[match[1]].is_over = True
        elif match := _NOMINATED.search(line):
            self._last[match[1]].nominated_node = match[2]
        elif match := _ENDED.search(line):
            self.ended_s[match[1]] = self._parse_time(line)

    def _parse_time(self, line: str) -> float:
        """Return the time of a line in seconds since the start of the trace, after that of each line parsed before.

        A line may be written after one with a later time. The order of the lines is that of what they log.
        """
        match = _TIME.search(line)
        assert match is not None, line
        at = datetime.strptime(f"{self._started.year}{match[1]}", "%Y%m%d %H:%M:%S.%f")
        at_s = (at.replace(tzinfo=timezone.utc) - self._started).total_seconds()
        self._latest_s = max(at_s, self._latest_s + _RESOLUTION_S)
        return self._latest_s

    def correct_times(self, events: Iterable[Event]) -> list[Event]:
        """Return the events with pods that arrive no later than they were first tried, and end when that was seen."""
        return sort_events(self._correct_time(each) if isinstance(each, PodArrived) else each for each in events)

    def _correct_time(self, event: PodArrived) -> PodArrived:
        at_s = min(event.at_s, self._first_s.get(event.name, event.at_s))
        ended_s = None if event.ended_at_s is None else self.ended_s.get(event.name, event.ended_at_s)
        return msgspec.structs.replace(event, at_s=at_s, ended_at_s=ended_s)


# --- the comparison -------------------------------------------------------------------------------------------------


def compare_decisions(
    events: Sequence[Event], config: Configuration, log: SchedulerLog
) -> tuple[Comparison, SimulationFigures]:
    """Follow a trace through the attempts of kube-scheduler's log, and compare each of them."""
    uids = {event.name: event.pod.metadata.uid for event in events if isinstance(event, PodArrived)}
    attempts = [FollowedAttempt(each.at_s, uids[each.pod], each.node, each.nominated_node) for each in log.attempts]
    comparison, logged = Comparison(), iter(log.attempts)
    metrics = RunMetrics.from_events(events)
    FollowedTrace(
        config, IN_TREE, lambda ours: _compare_attempt(comparison, next(logged), ours), starts_pods=False
    ).run(events, attempts, metrics)
    return comparison, metrics.figures()


def _compare_attempt(comparison: Comparison, theirs: KubeSchedulerAttempt, ours: SimulatedAttempt) -> None:
    names, trace = ours.snapshot.nodes.names, ours.result.trace
    slots = np.flatnonzero(trace.feasible)
    best = slots if trace.totals is None else slots[trace.totals[slots] == trace.totals[slots].max(initial=0)]
    if ours.result.path is DecisionPath.NOMINATED:
        slots = best = np.array([ours.result.chosen])
    feasible, ours_best = (frozenset(names[slot] for slot in each) for each in (slots, best))
    named = frozenset(theirs.totals) if theirs.totals else frozenset(filter(None, [theirs.node]))
    at = f"{theirs.pod} at {theirs.at_s:.3f} s"
    if not comparison.compare("feasible sets", at, *_shorten(named, feasible)):
        return
    if not theirs.node:
        _compare_preemption(comparison, at, theirs.nominated_node, trace.preemption)
        return
    comparison.counts["feasible sets of an attempt with a node"] += 1
    comparison.counts["feasible sets of several nodes"] += len(feasible) > 1
    highest = max(theirs.totals.values(), default=0)
    winners = frozenset(name for name, total in theirs.totals.items() if total == highest) or named
    comparison.compare("best nodes", at, *_shorten(winners, ours_best))
    if len(winners) == 1:
        comparison.compare("nodes where no tie decided", at, theirs.node, ", ".join(sorted(ours_best)))


def _compare_preemption(comparison: Comparison, at: str, theirs: str, ours: Preemption | None) -> None:
    """Compare whether preemption nominates a node, and whether that of kube-scheduler is one of the best here.

    As the victims of the workload have one priority, no budget and no start time, only their number counts, and chance
    decides between nodes with equally many. The pods that a node spares depend on the order in which kube-scheduler has
    them, which changes with each update of a pod.
    """
    candidates = ours.candidates if ours is not None and ours.nominated_node else ()
    if not theirs and not candidates:
        return
    fewest = min((len(each.victims) for each in candidates), default=0)
    best = [each.node for each in candidates if len(each.victims) == fewest]
    comparison.compare("nodes of preemption", at, theirs, theirs if theirs in best else f"one of {best[:5]}")


def _shorten(theirs: frozenset[str], ours: frozenset[str]) -> tuple[str, str]:
    """Return the two sets in words, equal if the sets are: what one of them has alone, and the sizes."""
    return (
        f"{len(theirs)} nodes {sorted(theirs - ours)[:5] or ''}",
        f"{len(ours)} nodes {sorted(ours - theirs)[:5] or ''}",
    )


def simulate_freely(events: Sequence[Event], config: Configuration, seed: int) -> SimulationFigures:
    """Return the figures of a simulation that draws between equal nodes itself."""
    metrics = RunMetrics.from_events(events)
    TraceSimulation(config, IN_TREE, seed).run(events, metrics, lambda _: None)
    return metrics.figures()


def measure_recorded(events: Sequence[Event], config: Configuration) -> SimulationFigures:
    """Return the figures of what a trace recorded, from its times and nodes alone: no pod is decided."""
    metrics = RunMetrics.from_events(events)
    FollowedTrace(config, IN_TREE).run(events, (), metrics)
    return metrics.figures()


def print_figures(recorded: SimulationFigures, followed: SimulationFigures, free: Sequence[SimulationFigures]) -> float:
    """Print the figures side by side; return the largest difference of the followed trace, as a share."""
    rows = [_list_figures(each) for each in (recorded, followed, *free)]
    largest = 0.0
    print(f"{'FIGURE':34}{'RECORDED':>12}{'AS IT RAN':>12}{'DIFFERENCE':>12}{'FREE, MEAN':>12}{'DIFFERENCE':>12}")
    for name, value in rows[0].items():
        mean = statistics.fmean(each[name] for each in rows[2:])
        is_wait = name.startswith("waited")
        differences = [each - value if is_wait else (each - value) / (value or 1.0) for each in (rows[1][name], mean)]
        largest = largest if is_wait else max(largest, abs(differences[0]))
        shown = [f"{each:+.3f} s" if is_wait else f"{each:+.2%}" for each in differences]
        print(f"{name:34}{value:12.4f}{rows[1][name]:12.4f}{shown[0]:>12}{mean:12.4f}{shown[1]:>12}")
    return largest


def _list_figures(figures: SimulationFigures) -> dict[str, float]:
    listed = {name: float(getattr(figures, name)) for name in _FIGURES}
    for name, share in figures.resources.items():
        of = {"mean": share.mean, "peak": share.peak, "fragmentation": share.fragmentation}
        listed |= {f"{name} {figure}": value for figure, value in of.items()}
    listed |= {f"skew {label}": value for label, value in figures.skew.items()}
    return listed | {"waited_p50_s": figures.waited_p50_s, "waited_p99_s": figures.waited_p99_s}
