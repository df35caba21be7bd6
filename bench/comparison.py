"""kube-scheduler and Herodotus in turn: rounds of runs that begin alike, medians, and their ratios.

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
from bench.control_plane import Figures, Prepared, measure
from bench.workloads import Size, Workload
from tests.e2e.control_plane import assets
from tests.processes import ROOT

Json = dict[str, Any]
Start = Callable[[Path, Path], Contender]

ANCHOR: Final = "kube-scheduler"
ROOMS: Final = ("scheduler", "herodotus_record", "herodotus_serving", "herodotus_endpoint")  # what our processes import
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
    """Run, print, write; the exit code. `contenders`: of CONTENDERS; kube-scheduler is always there."""
    binaries = assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        raise SystemExit("etcd, kube-apiserver and kube-scheduler are needed in KUBEBUILDER_ASSETS")
    for room in ROOMS:  # as installed: where Python may write no bytecode, every start would compile everything
        compileall.compile_dir(ROOT / room, quiet=1)
    print(f"{os.cpu_count()} cores; CPU S, SHIPPER, SERVICE: seconds for 1,000 pods")
    results = []
    for workload, size in workloads:
        calibration = calibration_ms()
        with ExitStack() as closing:
            directory = keep or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            figures = compare(binaries, directory / workload.name, workload, size, rounds, contenders)
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
    binaries: Path, directory: Path, workload: Workload, size: Size, rounds: int, contenders: Sequence[str]
) -> dict[str, list[Figures]]:
    """The figures of every round, by contender."""
    prepared = Prepared(binaries, directory / "prepared", workload, size)
    starts: dict[str, Start] = {
        ANCHOR: lambda kubeconfig, folder: KubeScheduler(binaries / ANCHOR, kubeconfig, folder),
        DELIVERING: lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=True),
        SPOOLING: lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=False),
        FORGETTING: lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=False, records=False),
    }
    starts = {name: start for name, start in starts.items() if name == ANCHOR or name in contenders}
    figures: dict[str, list[Figures]] = {name: [] for name in starts}
    for number in range(rounds):
        for name, start in starts.items():
            folder = directory / f"{number}-{name}"
            with ExitStack() as closing:
                plane = prepared.start(folder)
                closing.callback(plane.stop)
                contender = start(plane.kubeconfig, folder)
                closing.callback(contender.stop)
                figures[name].append(measure(plane, contender, workload, size.pods))
    return figures


def _print(workload: Workload, size: Size, figures: dict[str, list[Figures]], calibration: float) -> None:
    rounds = f"{len(figures[ANCHOR])} rounds each; medians; calibration {calibration:.1f} ms"
    print(f"\n{workload.name}: {size.nodes} nodes, {size.before} pods before, {size.pods} pods, {rounds}")
    print(f"{'':15}" + "".join(f"{title:>{width}}" for title, width, _, _ in _COLUMNS) + "  PODS/S x   CPU x")
    for name, each in figures.items():
        cells = (f"{_median(each, of):>{width}.{digits}f}" for _, width, digits, of in _COLUMNS)
        ratios = (_ratio(figures, name, ANCHOR, of) for of in (_pods_per_s, _cpu))
        print(f"{name:15}" + "".join(cells) + "".join(f"{ratio:>{8}.2f}" for ratio in ratios), flush=True)
    for line in _reached(workload, figures):
        print(line, flush=True)


def _reached(workload: Workload, figures: dict[str, list[Figures]]) -> Iterator[str]:
    """The aims of a family, and of recording, held against what was measured."""
    if workload.name == "ColdStart" and DELIVERING in figures:
        first_s, peak = (_median(figures[DELIVERING], of) for of in (lambda f: f.first_binding_s, _peak))
        yield _against("first binding, s", first_s, COLD_START_S, least=False)
        yield _against("peak, MiB", peak, COLD_START_MIB, least=False)
    aim = AIMS.get(workload.name)
    if aim is None or DELIVERING not in figures:
        return
    yield _against("pods/s", _ratio(figures, DELIVERING, ANCHOR, _pods_per_s), aim.pods_per_s, least=True)
    yield _against("CPU", _ratio(figures, DELIVERING, ANCHOR, _cpu), aim.cpu, least=False)
    yield _against("p99", _ratio(figures, DELIVERING, ANCHOR, lambda f: f.attempt_p99_ms), 1.0, least=False)
    if FORGETTING in figures:
        yield _against("recording", _ratio(figures, DELIVERING, FORGETTING, _pods_per_s), RECORDING, least=True)


def _against(what: str, ratio: float, aim: float, *, least: bool) -> str:
    reached = ratio >= aim if least else ratio <= aim
    return f"  {what}: {ratio:.2f}, at {'least' if least else 'most'} {aim}{'' if reached else ': NOT REACHED'}"


def _ratio(figures: dict[str, list[Figures]], name: str, to: str, of: Callable[[Figures], float]) -> float:
    return _median(figures[name], of) / _median(figures[to], of)


def _pods_per_s(figures: Figures) -> float:
    return figures.pods_per_s


def _peak(figures: Figures) -> float:
    return figures.peak_mib["scheduler"]


def _cpu(figures: Figures) -> float:
    return figures.cpu_s["scheduler"]


def _median(figures: list[Figures], of: Callable[[Figures], float]) -> float:
    return statistics.median(of(f) for f in figures)
