"""Compares kube-scheduler and Herodotus: rounds of runs with the same start, medians, and their ratios.

Owns: the order of runs, the table, the JSON. Does not own: a run (`control_plane`).
"""

from __future__ import annotations

import compileall
import dataclasses
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.aims import AIMS, COLD_START_MIB, COLD_START_S, RECORDING
from bench.algorithm import calibration_ms
from bench.contenders import Contender, Herodotus, KubeScheduler
from bench.control_plane import PreparedPlane, RunFigures, measure
from bench.workloads import Size, Workload
from tests.e2e.control_plane import assets
from tests.processes import ROOT

Json = dict[str, Any]
Start = Callable[[Path, Path], Contender]

ANCHOR: Final = "kube-scheduler"
PACKAGES: Final = (
    "scheduler",
    "herodotus_record",
    "herodotus_serving",
    "herodotus_endpoint",
)  # packages that the processes import
DELIVERING, SPOOLING, FORGETTING = CONTENDERS = ("delivering", "spool-only", "no-record")
_COLUMNS: Final = (
    ("PODS/S", 8, 0, lambda f: f.pods_per_s),
    ("P50 MS", 8, 1, lambda f: f.attempt_p50_ms),
    ("P99 MS", 8, 1, lambda f: f.attempt_p99_ms),
    ("CPU S", 8, 2, lambda f: f.cpu_s["scheduler"]),
    ("SHIPPER", 9, 2, lambda f: f.cpu_s.get("shipper", 0.0)),
    ("SERVICE", 9, 2, lambda f: f.cpu_s.get("service", 0.0)),
    ("PEAK MIB", 10, 0, lambda f: f.peak_mib["scheduler"]),
    ("FIRST S", 9, 1, lambda f: f.first_binding_s),
    ("NODES", 7, 0, lambda f: f.said.get("evaluated", 0.0)),
    ("RECORDS", 9, 0, lambda f: f.said.get("records", 0.0)),
    ("STORED", 8, 0, lambda f: f.said.get("decisions", 0.0)),
    ("DROPPED", 9, 0, lambda f: f.said.get("dropped", 0.0)),
)


def main(
    workloads: list[tuple[Workload, Size]],
    rounds: int,
    contenders: Sequence[str],
    report: Path | None,
    keep: Path | None,
) -> int:
    """Run the contenders, print the tables, write the JSON; return the exit code. kube-scheduler always takes part."""
    with_devices = [workload.name for workload, _ in workloads if workload.measured.devices is not None]
    if with_devices:
        raise SystemExit(f"{', '.join(with_devices)}: no controller makes claims here; measure them with `algorithm`")
    binaries = assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        raise SystemExit("etcd, kube-apiserver and kube-scheduler are needed in KUBEBUILDER_ASSETS")
    for package in PACKAGES:  # Compile as an installation does; without bytecode every start would compile all modules.
        compileall.compile_dir(ROOT / package, quiet=1)
    print(f"{os.cpu_count()} cores; CPU S, SHIPPER, SERVICE: seconds for 1,000 pods")
    results = []
    for workload, size in workloads:
        calibration = calibration_ms()
        with ExitStack() as closing:
            directory = keep or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            prepared = PreparedPlane(binaries, directory / workload.name / "prepared", workload, size)
            figures = compare(prepared, directory / workload.name, rounds, contenders)
        _print(workload, size, figures, calibration)
        results.append(
            {
                "workload": workload.name,
                "size": dataclasses.asdict(size),
                "calibrationMs": calibration,
                "rounds": {name: [dataclasses.asdict(f) for f in each] for name, each in figures.items()},
            }
        )
    if report is not None:
        machine = {"cores": os.cpu_count(), "platform": platform.platform()}
        report.write_text(json.dumps({"machine": machine, "results": results}, indent=1))
    return 0


def compare(
    prepared: PreparedPlane, directory: Path, rounds: int, contenders: Sequence[str]
) -> dict[str, list[RunFigures]]:
    """Return the figures of every round on copies of the prepared control plane, by contender."""
    starts: dict[str, Start] = {
        ANCHOR: lambda kubeconfig, folder: KubeScheduler(prepared.binaries / ANCHOR, kubeconfig, folder),
        DELIVERING: lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=True),
        SPOOLING: lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=False),
        FORGETTING: lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=False, records=False),
    }
    starts = {name: start for name, start in starts.items() if name == ANCHOR or name in contenders}
    figures: dict[str, list[RunFigures]] = {name: [] for name in starts}
    for number in range(rounds):
        for name, start in starts.items():
            folder = directory / f"{number}-{name}"
            with ExitStack() as closing:
                plane = prepared.start(folder)
                closing.callback(plane.stop)
                contender = start(plane.kubeconfig, folder)
                closing.callback(contender.stop)
                figures[name].append(measure(plane, contender, prepared.workload, prepared.size.pods))
    return figures


def _print(workload: Workload, size: Size, figures: dict[str, list[RunFigures]], calibration: float) -> None:
    rounds = f"{len(figures[ANCHOR])} rounds each; medians; calibration {calibration:.1f} ms"
    print(f"\n{workload.name}: {size.nodes} nodes, {size.before} pods before, {size.pods} pods, {rounds}")
    print(f"{'':15}" + "".join(f"{title:>{width}}" for title, width, _, _ in _COLUMNS) + "  PODS/S x   CPU x")
    for name, each in figures.items():
        cells = (f"{_median(each, figure):>{width}.{digits}f}" for _, width, digits, figure in _COLUMNS)
        ratios = (_ratio(figures, name, ANCHOR, figure) for figure in (_pods_per_s, _cpu))
        print(f"{name:15}" + "".join(cells) + "".join(f"{ratio:>{8}.2f}" for ratio in ratios), flush=True)
    for line in _compare_with_targets(workload, figures):
        print(line, flush=True)


def _compare_with_targets(workload: Workload, figures: dict[str, list[RunFigures]]) -> Iterator[str]:
    """Yield a line for each target of the family and of recording, compared with the result."""
    if workload.name == "ColdStart" and DELIVERING in figures:
        first_s, peak = (_median(figures[DELIVERING], figure) for figure in (lambda f: f.first_binding_s, _peak))
        yield _format_target("first binding, s", first_s, COLD_START_S, least=False)
        yield _format_target("peak, MiB", peak, COLD_START_MIB, least=False)
    aim = AIMS.get(workload.name)
    if aim is None or DELIVERING not in figures:
        return
    yield _format_target("pods/s", _ratio(figures, DELIVERING, ANCHOR, _pods_per_s), aim.pods_per_s, least=True)
    yield _format_target("CPU", _ratio(figures, DELIVERING, ANCHOR, _cpu), aim.cpu, least=False)
    yield _format_target("p99", _ratio(figures, DELIVERING, ANCHOR, lambda f: f.attempt_p99_ms), 1.0, least=False)
    if FORGETTING in figures:
        yield _format_target("recording", _ratio(figures, DELIVERING, FORGETTING, _pods_per_s), RECORDING, least=True)


def _format_target(what: str, ratio: float, aim: float, *, least: bool) -> str:
    reached = ratio >= aim if least else ratio <= aim
    return f"  {what}: {ratio:.2f}, at {'least' if least else 'most'} {aim}{'' if reached else ': NOT REACHED'}"


def _ratio(figures: dict[str, list[RunFigures]], name: str, base: str, figure: Callable[[RunFigures], float]) -> float:
    return _median(figures[name], figure) / _median(figures[base], figure)


def _pods_per_s(figures: RunFigures) -> float:
    return figures.pods_per_s


def _peak(figures: RunFigures) -> float:
    return figures.peak_mib["scheduler"]


def _cpu(figures: RunFigures) -> float:
    return figures.cpu_s["scheduler"]


def _median(figures: list[RunFigures], figure: Callable[[RunFigures], float]) -> float:
    return statistics.median(figure(f) for f in figures)
