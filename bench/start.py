"""Start and failover of both schedulers: how soon they schedule after a start, and after the end of a leader.

Owns: the starts, the ends of leaders, the gaps, the table. Does not own: the control plane (`control_plane`), the
schedulers (`contenders`), the order of runs and the JSON (`comparison`).

A run has one control plane. A first replica starts with a backlog, then each leader ends while pods are created at a
low constant rate and a second replica waits: once by SIGTERM, once by SIGKILL. The gap is the longest time without a
binding after the signal, by the API server's audit log. The Lease has kube-scheduler's defaults: it lasts 15 s and is
tried every 2 s.
"""

from __future__ import annotations

import argparse
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Final

from bench import workloads
from bench.comparison import (
    DELIVERING,
    Column,
    add_comparison_arguments,
    format_header,
    prepare_runs,
    print_table,
    write_report,
)
from bench.contenders import Contender
from bench.control_plane import AuditedControlPlane, wait_for_bindings
from bench.latency import PodCreator
from bench.processes import peak_mib
from bench.workloads import Workload

PER_S: Final = 20.0  # pods: a gap is known to 0.05 s
BEFORE_S: Final = 2.0  # load before the signal
AFTER_S: Final = 4.0  # and after it; the pods that are still pending then end the gap as well


@dataclass(frozen=True)
class StartFigures:
    """The figures of one run. `ready_s` and `first_binding_s` begin with the start of the scheduler's process."""

    ready_s: float  # until /readyz succeeds
    first_binding_s: float
    gap_sigterm_s: float  # without a binding, from the signal to the leader until the other replica binds
    gap_sigkill_s: float
    peak_mib: float  # of the first replica


_COLUMNS: Final[tuple[Column[StartFigures], ...]] = (
    ("READY S", 9, 2, lambda f: f.ready_s),
    ("FIRST BINDING S", 17, 2, lambda f: f.first_binding_s),
    ("GAP SIGTERM S", 15, 2, lambda f: f.gap_sigterm_s),
    ("GAP SIGKILL S", 15, 2, lambda f: f.gap_sigkill_s),
    ("PEAK MIB", 10, 0, lambda f: f.peak_mib),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m bench start`."""
    add_comparison_arguments(parser, (DELIVERING,), ["ColdStart"])


def run(arguments: argparse.Namespace) -> int:
    """Run the contenders, print the tables, write the JSON; return the exit code. kube-scheduler always takes part."""
    print(f"{os.cpu_count()} cores; gaps: the longest time without a binding after the signal to the leader")
    results = []
    for runs in prepare_runs(workloads.select(arguments), arguments.keep, elects=True):
        measure_run = partial(measure_start, workload=runs.prepared.workload, backlog=runs.prepared.size.pods)
        figures = runs.compare(arguments.contenders, arguments.rounds, measure_run)
        print(format_header(runs, arguments.rounds))
        print_table(figures, _COLUMNS, {"FIRST x": lambda f: f.first_binding_s, "SIGTERM x": lambda f: f.gap_sigterm_s})
        results.append(runs.report(figures))
    write_report(arguments.json, results)
    return 0


def measure_start(plane: AuditedControlPlane, first: Contender, workload: Workload, backlog: int) -> StartFigures:
    """Wait until the scheduler has bound the backlog, end two leaders under load, and return the figures.

    Times of the start count from this call: call it right after the contender's start.
    """
    started, numbers = time.time(), count(1)
    first.wait_until_ready()
    ready_s = time.time() - started
    wait_for_bindings(plane, first, backlog)
    first_binding_s, peak = plane.bindings()[0] - started, peak_mib(first.processes()["scheduler"])
    with ExitStack() as closing:
        creator = closing.enter_context(PodCreator(plane.client, workload.measured, backlog))

        def start_standby(leader: Contender) -> Contender:
            directory = plane.kubeconfig.parent / f"replica-{next(numbers)}"
            directory.mkdir()
            standby = leader.start_replica(directory)
            closing.callback(standby.stop)
            standby.wait_until_ready()
            return standby

        second = start_standby(first)
        gap_sigterm_s = _end_leader(plane, creator, second, first.process.stop)
        third = start_standby(second)
        gap_sigkill_s = _end_leader(plane, creator, third, second.process.kill_all)
    return StartFigures(ready_s, first_binding_s, gap_sigterm_s, gap_sigkill_s, peak)


def compute_gap_s(bound: Sequence[float], since: float) -> float:
    """Return the longest time without a binding after `since`; the times of the bindings are sorted.

    Raises ValueError if there is no binding after it.
    """
    after = bound[bisect_right(bound, since) :]
    if not after:
        raise ValueError("nothing was bound after the leader had ended")
    return max(later - earlier for earlier, later in pairwise([since, *after]))


def _end_leader(
    plane: AuditedControlPlane, creator: PodCreator, standby: Contender, end: Callable[[], object]
) -> float:
    """Create pods at a constant rate, call `end` to end the leader, and wait until the standby has bound every pod.

    Return the longest time without a binding after the leader's end, in seconds.
    """
    pods = round(PER_S * (BEFORE_S + AFTER_S))
    with ThreadPoolExecutor(1) as pool:
        creation = pool.submit(creator.create, pods, PER_S)
        time.sleep(BEFORE_S)
        signalled = time.time()
        end()
        creation.result()
    wait_for_bindings(plane, standby, creator.requested)
    return compute_gap_s(plane.bindings(), signalled)
