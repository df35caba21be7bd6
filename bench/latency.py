"""Compares the latencies of kube-scheduler and Herodotus at equal load: pods created at the same constant rate.

Owns: the rate, the table. Does not own: the load and the figures of a run (`constant_load`), the order of runs and the
JSON (`comparison`).

Invariant: all runs of a workload have the same rate and as many pods. The rate is given, or a share of what
kube-scheduler sustains in a run of its own, just before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.aims import LATENCY_P50, LATENCY_P99
from bench.comparison import (
    ANCHOR,
    DELIVERING,
    Column,
    WorkloadRuns,
    format_header,
    format_target,
    median,
    median_ratio,
    prepare_runs,
    print_table,
    write_report,
)
from bench.constant_load import ConstantLoad, LatencyFigures, measure_latency, measure_sustained_rate
from bench.contenders import Contender
from bench.control_plane import AuditedControlPlane
from bench.workloads import Size, Workload

KEPT: Final = 0.98  # of the rate; the creator has not kept it with less, and the load was not equal
_COLUMNS: Final[tuple[Column[LatencyFigures], ...]] = (
    ("PODS/S", 8, 1, lambda f: f.created_per_s),
    ("LATE MS", 9, 1, lambda f: f.late.p99_ms),
    ("WAITING", 9, 0, lambda f: f.waiting),
    ("P50 MS", 9, 1, lambda f: f.binding.p50_ms),
    ("P90 MS", 9, 1, lambda f: f.binding.p90_ms),
    ("P99 MS", 9, 1, lambda f: f.binding.p99_ms),
    ("SLI P50", 9, 1, lambda f: f.sli.p50_ms),
    ("SLI P90", 9, 1, lambda f: f.sli.p90_ms),
    ("SLI P99", 9, 1, lambda f: f.sli.p99_ms),
    ("ATTEMPT P50", 13, 1, lambda f: f.attempt.p50_ms),
    ("ATTEMPT P99", 13, 1, lambda f: f.attempt.p99_ms),
    ("CPU S", 8, 2, lambda f: f.cpu_s["scheduler"]),
    ("SHIPPER", 9, 2, lambda f: f.cpu_s.get("shipper", 0.0)),
    ("SERVICE", 9, 2, lambda f: f.cpu_s.get("service", 0.0)),
    ("APISERVER", 11, 2, lambda f: f.cpu_s["apiserver"]),
    ("ETCD", 7, 2, lambda f: f.cpu_s["etcd"]),
    ("CREATOR", 9, 2, lambda f: f.cpu_s["creator"]),
    ("PEAK MIB", 10, 0, lambda f: f.peak_mib["scheduler"]),
    ("DROPPED", 9, 0, lambda f: f.said.get("dropped", 0.0)),
)


@dataclass(frozen=True)
class LatencyOptions:
    """The load and the runs.

    `per_s`: the rate; None stands for `share` of what kube-scheduler sustains. `seconds`: how long pods are created in
    a round, unless the workload has fewer.
    """

    per_s: float | None
    share: float
    seconds: float
    rounds: int
    contenders: tuple[str, ...]


def main(
    workloads: list[tuple[Workload, Size]], options: LatencyOptions, report: Path | None, keep: Path | None
) -> int:
    """Run the contenders, print the tables, write the JSON; return the exit code. kube-scheduler always takes part."""
    print(
        f"{os.cpu_count()} cores; P50 to P99: creation to binding; CPU seconds for 1,000 pods; LATE: p99 of the creator"
    )
    results = []
    for runs in prepare_runs(workloads, keep, backlog=False):
        sustained = runs.run(ANCHOR, "sustained", partial(_sustained, runs)) if options.per_s is None else None
        load = _load(runs.prepared.size, options, sustained)
        figures = runs.compare(options.contenders, options.rounds, partial(_measure, runs, load))
        _print(runs, figures, load, sustained)
        results.append(runs.report(figures) | {"pods": load.pods, "perS": load.per_s, "sustainedPerS": sustained})
    write_report(report, results)
    return 0


def compare_with_aims(figures: dict[str, list[LatencyFigures]]) -> Iterator[str]:
    """Yield a line for each contender whose creator was late, and one for each aim."""
    for name, each in figures.items():
        kept = median(each, lambda f: f.created_per_s / f.offered_per_s)
        if kept < KEPT:
            yield format_target(f"rate of {name}", kept, KEPT, least=True)
    if DELIVERING in figures:
        p99 = median_ratio(figures, DELIVERING, ANCHOR, _p99)
        yield format_target("creation to binding, p99", p99, LATENCY_P99, least=False)
        p50 = median_ratio(figures, DELIVERING, ANCHOR, _p50)
        yield format_target("creation to binding, p50", p50, LATENCY_P50, least=False)


def _load(size: Size, options: LatencyOptions, sustained: float | None) -> ConstantLoad:
    per_s = options.per_s if sustained is None else options.share * sustained
    if not per_s:
        raise SystemExit("kube-scheduler bound nothing while its rate was measured")
    return ConstantLoad(min(size.pods, round(per_s * options.seconds)), per_s)


def _sustained(runs: WorkloadRuns, plane: AuditedControlPlane, contender: Contender) -> float:
    return measure_sustained_rate(plane, contender, runs.prepared.workload, runs.prepared.size.pods)


def _measure(
    runs: WorkloadRuns, load: ConstantLoad, plane: AuditedControlPlane, contender: Contender
) -> LatencyFigures:
    return measure_latency(plane, contender, runs.prepared.workload, load)


def _print(
    runs: WorkloadRuns, figures: dict[str, list[LatencyFigures]], load: ConstantLoad, sustained: float | None
) -> None:
    print(format_header(runs, len(figures[ANCHOR])))
    origin = "given" if sustained is None else f"{load.per_s / sustained:.0%} of kube-scheduler's {sustained:.1f}"
    print(f"{load.pods} pods in {load.pods / load.per_s:.0f} s: {load.per_s:.1f} pods a second, {origin}")
    print_table(figures, _COLUMNS, {"P50 x": _p50, "P99 x": _p99, "CPU x": lambda f: f.cpu_s["scheduler"]})
    for line in compare_with_aims(figures):
        print(line, flush=True)


def _p50(figures: LatencyFigures) -> float:
    return figures.binding.p50_ms


def _p99(figures: LatencyFigures) -> float:
    return figures.binding.p99_ms
