"""kube-scheduler and Herodotus in turn on etcd and kube-apiserver: rounds with the same start, medians, their ratios.

Owns: the order of runs, the targets, the table, the JSON. Does not own: a run (`control_plane`).
"""

from __future__ import annotations

import argparse
import compileall
import dataclasses
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from bench import workloads
from bench.algorithm import calibration_ms
from bench.contenders import Contender, Herodotus, KubeScheduler
from bench.control_plane import AuditedControlPlane, PreparedPlane, RunFigures, measure
from bench.workloads import Size, Workload
from tests.e2e.control_plane import assets
from tests.processes import ROOT

Json = dict[str, Any]
F = TypeVar("F")  # the figures of one run
Column = tuple[str, int, int, Callable[[F], float]]  # title, width, digits, figure
Measurement = Callable[[AuditedControlPlane, Contender], F]

ANCHOR: Final = "kube-scheduler"
PACKAGES: Final = ("scheduler", "herodotus_record", "herodotus_serving", "herodotus_endpoint")  # of the processes
DELIVERING, SPOOLING, FORGETTING = CONTENDERS = ("delivering", "spool-only", "no-record")

# Targets against kube-scheduler on the same cores and in the same run.
RECORDING: Final = 0.93  # the throughput with delivered records, as a ratio to that without records
COLD_START_S: Final = 20.0  # the time to the first binding, with 5,000 nodes and 50,000 pods
COLD_START_MIB: Final = 1024.0
AIMS: Final = {  # by workload, as ratios: at least of pods per second, and at most of scheduler CPU time per pod
    "SchedulingBasic": (1.2, 0.5),
    "SchedulingNodeAffinity": (1.6, 0.4),
    "PreferredTopologySpreading": (2.0, 0.3),
    "TopologySpreading": (2.3, 0.3),
    "SchedulingPreferredPodAffinity": (2.3, 0.3),
    "SchedulingPodAffinity": (3.5, 0.3),
    "SchedulingPodAntiAffinity": (3.0, 0.3),
}
_COLUMNS: Final[tuple[Column[RunFigures], ...]] = (
    ("PODS/S", 8, 0, lambda f: f.pods_per_s),
    ("P50 MS", 8, 1, lambda f: f.attempt_p50_ms),
    ("P99 MS", 8, 1, lambda f: f.attempt_p99_ms),
    ("CPU S", 8, 2, lambda f: f.cpu_s["scheduler"]),
    ("SHIPPER", 9, 2, lambda f: f.cpu_s.get("shipper", 0.0)),
    ("SERVICE", 9, 2, lambda f: f.cpu_s.get("service", 0.0)),
    ("PEAK MIB", 10, 0, lambda f: f.peak_mib["scheduler"]),
    ("FIRST S", 9, 1, lambda f: f.first_binding_s),
    ("NODES", 7, 0, lambda f: f.reported.get("evaluated", 0.0)),
    ("RECORDS", 9, 0, lambda f: f.reported.get("records", 0.0)),
    ("STORED", 8, 0, lambda f: f.reported.get("decisions", 0.0)),
    ("DROPPED", 9, 0, lambda f: f.reported.get("dropped", 0.0)),
)


@dataclass(frozen=True)
class WorkloadRuns:
    """The runs of one workload in `directory`, each on a copy of the same prepared control plane."""

    prepared: PreparedPlane
    directory: Path
    calibration_ms: float
    elects: bool = False  # whether the contenders elect a leader

    def run(self, name: str, folder: str, measure_run: Measurement[F]) -> F:
        """Start a contender on a copy of the control plane, and return what `measure_run(plane, contender)` returns.

        `folder` is the name of the run's folder. Both are stopped at the end.
        """
        with ExitStack() as closing:
            plane = self.prepared.start(self.directory / folder)
            closing.callback(plane.stop)
            contender = self._start(name, plane.kubeconfig, self.directory / folder)
            closing.callback(contender.stop)
            return measure_run(plane, contender)

    def compare(self, contenders: Sequence[str], rounds: int, measure_run: Measurement[F]) -> dict[str, list[F]]:
        """Run kube-scheduler and these contenders in each round; return the results of `measure_run` by contender."""
        names = (ANCHOR, *(name for name in CONTENDERS if name in contenders))
        figures: dict[str, list[F]] = {name: [] for name in names}
        for number in range(rounds):
            for name in names:
                figures[name].append(self.run(name, f"{number}-{name}", measure_run))
        return figures

    def report(self, figures: Mapping[str, Sequence[Any]]) -> Json:
        """Return this workload's part of the JSON: its size, the calibration, and each round's figures by contender."""
        return {
            "workload": self.prepared.workload.name,
            "size": dataclasses.asdict(self.prepared.size),
            "calibrationMs": self.calibration_ms,
            "rounds": {name: [dataclasses.asdict(f) for f in each] for name, each in figures.items()},
        }

    def _start(self, name: str, kubeconfig: Path, folder: Path) -> Contender:
        if name == ANCHOR:
            return KubeScheduler(self.prepared.binaries / ANCHOR, kubeconfig, folder, elects=self.elects)
        delivers, records = name == DELIVERING, name != FORGETTING
        return Herodotus(kubeconfig, folder, delivers=delivers, records=records, elects=self.elects)


def prepare_runs(
    sized: list[tuple[Workload, Size]], keep: Path | None, *, backlog: bool = True, elects: bool = False
) -> Iterator[WorkloadRuns]:
    """Yield the runs of each workload on its prepared control plane.

    With `keep`, the folders of the runs are created in that directory and not deleted. `backlog` and `elects` are as in
    `PreparedPlane` and `Herodotus`. Raises SystemExit if a workload has devices or a program is missing.
    """
    with_devices = [workload.name for workload, _ in sized if workload.measured.devices is not None]
    if with_devices:
        raise SystemExit(f"{', '.join(with_devices)}: no controller makes claims here; measure them with `algorithm`")
    binaries = assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        raise SystemExit("etcd, kube-apiserver and kube-scheduler are needed in KUBEBUILDER_ASSETS")
    for package in PACKAGES:  # Compile as an installation does; without bytecode every start would compile all modules.
        compileall.compile_dir(ROOT / package, quiet=1)
    for workload, size in sized:
        calibration = calibration_ms()
        with ExitStack() as closing:
            directory = keep or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            directory /= workload.name
            prepared = PreparedPlane(binaries, directory / "prepared", workload, size, backlog=backlog)
            yield WorkloadRuns(prepared, directory, calibration, elects)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m bench control-plane`."""
    parser.add_argument("--aims", action="store_true", help="the families that have aims, and what of them is reached")
    add_comparison_arguments(parser, CONTENDERS)


def add_comparison_arguments(
    parser: argparse.ArgumentParser, contenders: Sequence[str], default: Sequence[str] = ()
) -> None:
    """Declare the arguments that all comparisons share.

    `contenders` and `default` name the contenders and the workloads that run if the command line selects none.
    """
    workloads.add_arguments(parser, default)
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure of every round")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="logs and data of every run; default: none are kept")
    parser.add_argument(
        "--contenders",
        nargs="+",
        choices=CONTENDERS,
        default=contenders,
        metavar="NAME",
        help=f"beside {ANCHOR}, of {', '.join(CONTENDERS)}; default: {', '.join(contenders)}",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the contenders, print the tables, write the JSON; return the exit code. kube-scheduler always takes part."""
    print(f"{os.cpu_count()} cores; CPU S, SHIPPER, SERVICE: seconds for 1,000 pods")
    if arguments.aims:
        arguments.workloads = arguments.workloads or list(AIMS)
    results = []
    for runs in prepare_runs(workloads.select(arguments), arguments.keep):
        measure_run = partial(measure, workload=runs.prepared.workload, pods=runs.prepared.size.pods)
        figures = runs.compare(arguments.contenders, arguments.rounds, measure_run)
        print(format_header(runs, arguments.rounds))
        print_table(figures, _COLUMNS, {"PODS/S x": _pods_per_s, "CPU x": _cpu})
        for line in _compare_with_targets(runs.prepared.workload, figures):
            print(line, flush=True)
        results.append(runs.report(figures))
    write_report(arguments.json, results)
    return 0


def write_report(path: Path | None, results: Sequence[Json]) -> None:
    """Write the results of all workloads and a description of the machine as JSON to `path`; None writes nothing."""
    if path is not None:
        machine = {"cores": os.cpu_count(), "platform": platform.platform()}
        path.write_text(json.dumps({"machine": machine, "results": results}, indent=1))


def format_header(runs: WorkloadRuns, rounds: int) -> str:
    """Return the heading of a workload's table: its name, its size, the number of rounds and the calibration."""
    size = runs.prepared.size
    return (
        f"\n{runs.prepared.workload.name}: {size.nodes} nodes, {size.before} pods before, {size.pods} pods, "
        f"{rounds} rounds each; medians; calibration {runs.calibration_ms:.1f} ms"
    )


def print_table(
    figures: Mapping[str, Sequence[F]], columns: Sequence[Column[F]], compared: Mapping[str, Callable[[F], float]]
) -> None:
    """Print a row of medians for each contender.

    Each of `compared` adds a column: the ratio of a figure to kube-scheduler's.
    """
    print(f"{'':15}" + "".join(f"{title:>{width}}" for title, width, _, _ in columns), end="")
    print("".join(f"{title:>10}" for title in compared))
    for name, each in figures.items():
        cells = (f"{median(each, figure):>{width}.{digits}f}" for _, width, digits, figure in columns)
        ratios = (median_ratio(figures, name, ANCHOR, figure) for figure in compared.values())
        print(f"{name:15}" + "".join(cells) + "".join(f"{ratio:>{10}.2f}" for ratio in ratios), flush=True)


def _compare_with_targets(workload: Workload, figures: dict[str, list[RunFigures]]) -> Iterator[str]:
    """Yield a line with the result for each target of the workload; none if it has no target."""
    ours = figures.get(DELIVERING)
    if ours is not None and workload.name == "ColdStart":
        yield format_target("first binding, s", median(ours, lambda f: f.first_binding_s), COLD_START_S, least=False)
        yield format_target("peak, MiB", median(ours, lambda f: f.peak_mib["scheduler"]), COLD_START_MIB, least=False)
    if ours is not None and workload.name in AIMS:
        pods_per_s, cpu = AIMS[workload.name]
        ratio = partial(median_ratio, figures, DELIVERING, ANCHOR)
        yield format_target("pods/s", ratio(_pods_per_s), pods_per_s, least=True)
        yield format_target("CPU", ratio(_cpu), cpu, least=False)
        yield format_target("p99", ratio(lambda f: f.attempt_p99_ms), 1.0, least=False)
        if FORGETTING in figures:
            recording = median_ratio(figures, DELIVERING, FORGETTING, _pods_per_s)
            yield format_target("recording", recording, RECORDING, least=True)


def format_target(what: str, ratio: float, aim: float, *, least: bool) -> str:
    """Return a line with the result `ratio`, the aim, and a remark if the aim is missed.

    With `least`, the result must be at least the aim, and otherwise at most.
    """
    reached = ratio >= aim if least else ratio <= aim
    return f"  {what}: {ratio:.2f}, at {'least' if least else 'most'} {aim}{'' if reached else ': NOT REACHED'}"


def median_ratio(figures: Mapping[str, Sequence[F]], name: str, base: str, figure: Callable[[F], float]) -> float:
    """Return the median of a figure over the rounds of contender `name`, divided by that of contender `base`."""
    return median(figures[name], figure) / median(figures[base], figure)


def median(figures: Sequence[F], figure: Callable[[F], float]) -> float:
    """Return the median of a figure over the rounds."""
    return statistics.median(map(figure, figures))


def _pods_per_s(figures: RunFigures) -> float:
    return figures.pods_per_s


def _cpu(figures: RunFigures) -> float:
    return figures.cpu_s["scheduler"]
