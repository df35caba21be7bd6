"""kube-scheduler and Herodotus in turn: rounds of runs that begin alike, medians, and their ratios.

Owns: the order of runs, the table, the JSON. Does not own: a run (`control_plane`).
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bench.algorithm import calibration_ms
from bench.contenders import Contender, Herodotus, KubeScheduler
from bench.control_plane import Figures, Prepared, measure
from bench.workloads import Size, Workload
from tests.e2e.control_plane import assets

Json = dict[str, Any]
Start = Callable[[Path, Path], Contender]

ANCHOR: Final = "kube-scheduler"
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
    ("STORED", 8, 0, lambda f: f.said.get("decisions", 0.0)),
    ("DROPPED", 9, 0, lambda f: f.said.get("dropped", 0.0)),
)


def main(workloads: list[tuple[Workload, Size]], rounds: int, report: Path | None, keep: Path | None) -> int:
    """Run, print, write; the exit code."""
    binaries = assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        raise SystemExit("etcd, kube-apiserver and kube-scheduler are needed in KUBEBUILDER_ASSETS")
    calibration = calibration_ms()
    print(f"calibration {calibration:.1f} ms; {os.cpu_count()} cores; CPU S, SHIPPER, SERVICE: seconds for 1,000 pods")
    results = []
    for workload, size in workloads:
        with ExitStack() as closing:
            directory = keep or Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            figures = compare(binaries, directory / workload.name, workload, size, rounds)
        _print(workload, size, figures)
        results.append(
            {
                "workload": workload.name,
                "size": dataclasses.asdict(size),
                "rounds": {name: [dataclasses.asdict(f) for f in each] for name, each in figures.items()},
            }
        )
    if report is not None:
        machine = {"cores": os.cpu_count(), "platform": platform.platform(), "calibrationMs": calibration}
        report.write_text(json.dumps({"machine": machine, "results": results}, indent=1))
    return 0


def compare(binaries: Path, directory: Path, workload: Workload, size: Size, rounds: int) -> dict[str, list[Figures]]:
    """The figures of every round, by contender."""
    prepared = Prepared(binaries, directory / "prepared", workload, size)
    contenders: dict[str, Start] = {
        ANCHOR: lambda kubeconfig, folder: KubeScheduler(binaries / ANCHOR, kubeconfig, folder),
        "herodotus": lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=True),
        "herodotus, spool only": lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=False),
        "herodotus, no record": lambda kubeconfig, folder: Herodotus(kubeconfig, folder, delivers=False, records=False),
    }
    figures: dict[str, list[Figures]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, start in contenders.items():
            folder = directory / f"{number}-{name.replace(', ', '-').replace(' ', '-')}"
            with ExitStack() as closing:
                plane = prepared.start(folder)
                closing.callback(plane.stop)
                contender = start(plane.kubeconfig, folder)
                closing.callback(contender.stop)
                figures[name].append(measure(plane, contender, workload, size.pods))
    return figures


def _print(workload: Workload, size: Size, figures: dict[str, list[Figures]]) -> None:
    print(f"\n{workload.name}: {size.nodes} nodes, {size.pods} pods, {len(figures[ANCHOR])} rounds each; medians")
    print(f"{'':24}" + "".join(f"{title:>{width}}" for title, width, _, _ in _COLUMNS) + "   RATIO")
    anchor = _median(figures[ANCHOR], lambda f: f.pods_per_s)
    for name, each in figures.items():
        cells = (f"{_median(each, of):>{width}.{digits}f}" for _, width, digits, of in _COLUMNS)
        print(f"{name:24}" + "".join(cells) + f"{_median(each, lambda f: f.pods_per_s) / anchor:>8.2f}", flush=True)


def _median(figures: list[Figures], of: Callable[[Figures], float]) -> float:
    return statistics.median(of(f) for f in figures)
