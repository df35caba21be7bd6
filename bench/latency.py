"""Creation to binding with both schedulers, pods created at the same constant rate on a real control plane.

Owns: the creator of the pods, the rate, the figures of a run, the table. Does not own: the control plane and its audit
log (`control_plane`), the schedulers (`contenders`), the order of runs and the JSON (`comparison`).

Invariant: all runs of a workload have the same rate and as many pods. The rate is given, or a share of what
kube-scheduler sustains in a run of its own, just before.

The latency of a pod begins when the API server receives its creation (`requestReceivedTimestamp`) and ends when it has
answered the binding (`stageTimestamp`), both from the audit log. The schedulers' own figures are the differences of
their histograms over the same pods. A creator that is late would hide latency, so its lateness is reported.
"""

from __future__ import annotations

import argparse
import os
import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from threading import Barrier
from typing import Final, Self

import numpy as np

from bench import workloads
from bench.comparison import (
    AIMS,
    ANCHOR,
    DELIVERING,
    Column,
    add_comparison_arguments,
    format_header,
    format_target,
    median,
    median_ratio,
    prepare_runs,
    print_table,
    write_report,
)
from bench.contenders import Contender
from bench.control_plane import PODS, POLL_S, AuditedControlPlane, FillClient, run_churn, wait_for_bindings
from bench.processes import SLI, attempt_buckets, cpu_s, histogram_buckets, peak_mib, quantile
from bench.workloads import MEASURED, PodShape, Workload
from tests.processes import eventually

LATENCY_P50: Final = 1.0  # of a pod, as a ratio to kube-scheduler; at most, in every family
LATENCY_P99: Final = 0.8
MIN_RATE_SHARE: Final = 0.98  # of the rate; with less the load was not equal
CREATORS: Final = 100  # connections: enough for 300 pods a second if the API server takes 0.3 s for each
WARM_UP: Final = 0.1  # pods that are created and bound before the measured ones, as a share of these
BACKLOG: Final = 500  # pods that wait meanwhile; kube-scheduler has up to 300 bindings in flight
SUSTAINED_S: Final = 10.0  # how long the sustained rate is measured
STALLED_S: Final = 300.0  # timeout of the sustained rate


@dataclass(frozen=True)
class Quantiles:
    """The distribution of a latency in milliseconds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float

    @classmethod
    def from_seconds(cls, seconds: Collection[float]) -> Quantiles:
        """Return the distribution of measured values."""
        return cls(*(float(ms) for ms in np.percentile(list(seconds), [50, 90, 99]) * 1000))

    @classmethod
    def from_buckets(cls, buckets: Mapping[float, float]) -> Quantiles:
        """Return the distribution of a histogram of seconds, interpolated in its buckets."""
        return cls(*(quantile(buckets, q) * 1000 for q in (0.5, 0.9, 0.99)))


@dataclass(frozen=True)
class LatencyFigures:
    """The figures of one run under constant load."""

    offered_per_s: float
    created_per_s: float  # what the API server received
    late: Quantiles  # from a creation's time in the plan to its request
    waiting: int  # pods without an answered binding when the last pod was created
    binding: Quantiles  # from creation to binding
    sli: Quantiles  # the scheduler's own pod_scheduling_sli_duration_seconds
    attempt: Quantiles  # its attempts that ended in a binding
    cpu_s: dict[str, float]  # per 1,000 pods, by process; of the creator including the reading of the audit log
    peak_mib: dict[str, float]
    reported: dict[str, float]  # Contender.reported_figures


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
    ("DROPPED", 9, 0, lambda f: f.reported.get("dropped", 0.0)),
)


@dataclass(frozen=True)
class ConstantLoad:
    """How many pods are measured, and how many of them are created per second."""

    pods: int
    per_s: float

    @property
    def warm_up(self) -> int:
        """The number of pods created at the same rate before the measured ones."""
        return max(1, round(self.pods * WARM_UP))


class PodCreator:
    """Creates consecutive pods of a template over connections that stay open."""

    def __init__(self, client: FillClient, template: PodShape, first: int = 0) -> None:
        """Prepare to create pods from number `first` on."""
        self._client, self._template, self._first = client, template, first
        self._pool = ThreadPoolExecutor(CREATORS, "creator")
        self._requests: list[Future[float]] = []
        self._answered = 0  # creations that `raise_if_refused` has found successful, without a gap

    def __enter__(self) -> Self:
        """Open every connection, so that no creation waits for a handshake."""
        together = Barrier(CREATORS)  # Without it one thread could make several of the calls, and others none.

        def connect() -> None:
            together.wait()
            self._client.get("/version")

        for connected in [self._pool.submit(connect) for _ in range(CREATORS)]:
            connected.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def requested(self) -> int:
        """The number of the next pod: how many were requested, plus the number of the first one."""
        return self._first + len(self._requests)

    def request(self, count: int) -> None:
        """Create more pods as soon as a connection is free, without waiting for them."""
        for _ in range(count):
            self._submit(time.monotonic())

    def create(self, count: int, per_s: float) -> list[float]:
        """Create `count` pods at a rate of `per_s` per second, and wait for the responses.

        Return how many seconds each request was late.
        """
        first, began = len(self._requests), time.monotonic()
        for number in range(count):
            due = began + number / per_s
            time.sleep(max(0.0, due - time.monotonic()))
            self._submit(due)
        return [request.result() for request in self._requests[first:]]

    def raise_if_refused(self) -> bool:
        """Raise the error of a creation that failed so far; return False if there is none."""
        while self._answered < len(self._requests) and self._requests[self._answered].done():
            self._requests[self._answered].result()
            self._answered += 1
        return False

    def _submit(self, at: float) -> None:
        self._requests.append(self._pool.submit(self._create, self.requested, at))

    def _create(self, number: int, at: float) -> float:
        late = time.monotonic() - at
        self._client.create(PODS.format(MEASURED), self._template.pod(number, MEASURED))
        return late


def measure_latency(
    plane: AuditedControlPlane, contender: Contender, workload: Workload, load: ConstantLoad
) -> LatencyFigures:
    """Create pods at a constant rate, wait until the scheduler has bound them, and return the figures."""
    contender.wait_until_ready()
    with PodCreator(plane.client, workload.measured) as creator, run_churn(plane.client, workload.churn):
        creator.create(load.warm_up, load.per_s)
        wait_for_bindings(plane, contender, load.warm_up)
        contender.settle()
        processes = {**contender.processes(), **plane.processes(), "creator": [os.getpid()]}
        sli, attempts = _histograms(contender, load.warm_up)
        before = {name: cpu_s(pids) for name, pids in processes.items()}
        late = creator.create(load.pods, load.per_s)
        wait_for_bindings(plane, contender, load.warm_up + load.pods)
        taken = {name: cpu_s(pids) - before[name] for name, pids in processes.items()}
    sli_after, attempts_after = _histograms(contender, load.warm_up + load.pods)
    contender.settle()
    for name in processes.keys() & {"shipper", "service"}:
        taken[name] = cpu_s(processes[name]) - before[name]
    names = [name for name in plane.created if int(name.rpartition("-")[2]) >= load.warm_up]
    created, bound = ([times[name] for name in names] for times in (plane.created, plane.bound))
    return LatencyFigures(
        offered_per_s=load.per_s,
        created_per_s=(load.pods - 1) / (max(created) - min(created)),
        late=Quantiles.from_seconds(late),
        waiting=sum(at > max(created) for at in bound),
        binding=Quantiles.from_seconds([until - since for since, until in zip(created, bound, strict=True)]),
        sli=Quantiles.from_buckets(subtract_buckets(sli_after, sli)),
        attempt=Quantiles.from_buckets(subtract_buckets(attempts_after, attempts)),
        cpu_s={name: seconds / load.pods * 1000 for name, seconds in taken.items()},
        peak_mib={name: peak_mib(pids) for name, pids in contender.processes().items()},
        reported=contender.reported_figures(),
    )


def measure_sustained_rate(plane: AuditedControlPlane, contender: Contender, workload: Workload, pods: int) -> float:
    """Return how many pods the scheduler binds per second while a creator keeps `backlog` pods waiting.

    A new pod is created for each binding, so creation takes its share of the cores, as under constant load. It ends
    after `pods` pods, or SUSTAINED_S seconds with a full backlog.
    """
    contender.wait_until_ready()
    backlog = min(BACKLOG, pods // 4)
    with PodCreator(plane.client, workload.measured) as creator, run_churn(plane.client, workload.churn):

        def refill() -> bool:
            bound = len(plane.bindings())
            if creator.requested >= pods or (plane.created and _full_for_s(plane, backlog) > SUSTAINED_S):
                return True
            creator.request(min(pods, bound + backlog) - creator.requested)
            return creator.raise_if_refused() or contender.raise_if_exited()

        eventually(refill, f"{contender.name} to bind under load", STALLED_S, POLL_S)
    plane.read_audit_log()
    return compute_rate(sorted(plane.created.values()), plane.bindings(), backlog)


def compute_rate(created: Sequence[float], bound: Sequence[float], backlog: int) -> float:
    """Return the bindings per second from when the backlog was full until the last creation; all times are sorted.

    Raises ValueError if fewer pods were created than the backlog holds.
    """
    if len(created) <= backlog:
        raise ValueError(f"{len(created)} pods were created: too few for a backlog of {backlog}")
    full, last = created[backlog], created[-1]
    return (bisect_right(bound, last) - bisect_right(bound, full)) / (last - full)


def subtract_buckets(after: Mapping[float, float], before: Mapping[float, float]) -> dict[float, float]:
    """Return the histogram of the observations between two readings of a histogram."""
    return {bound: count - before.get(bound, 0.0) for bound, count in after.items()}


def _full_for_s(plane: AuditedControlPlane, backlog: int) -> float:
    """Return for how many seconds the backlog has been full, or 0 if it is not full yet."""
    created = list(plane.created.values())
    return time.time() - created[backlog] if len(created) > backlog else 0.0


def _histograms(contender: Contender, pods: int) -> tuple[dict[float, float], dict[float, float]]:
    """Return the scheduler's histograms (SLI, attempts) once it has observed the bindings of `pods` pods."""

    def observed() -> tuple[dict[float, float], dict[float, float]] | None:
        exposed = contender.metrics()
        both = histogram_buckets(exposed, SLI), attempt_buckets(exposed)
        return both if all(each.get(inf) == pods for each in both) else None

    return eventually(observed, f"{contender.name} to observe {pods} bindings")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `python -m bench latency`."""
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--rate", type=float, metavar="N", help="pods a second; default: a share of what is sustained")
    share = f"of what {ANCHOR} sustains while pods are created; default %(default)s"
    rate.add_argument("--share", type=float, default=0.9, help=share)
    seconds = "how long pods are created, at most --pods; default %(default)s"
    parser.add_argument("--seconds", type=float, default=20.0, help=seconds)
    add_comparison_arguments(parser, (DELIVERING,), list(AIMS))


def run(arguments: argparse.Namespace) -> int:
    """Run the contenders, print the tables, write the JSON; return the exit code. kube-scheduler always takes part."""
    print(
        f"{os.cpu_count()} cores; P50 to P99: creation to binding; CPU seconds for 1,000 pods; LATE: p99 of the creator"
    )
    results = []
    for runs in prepare_runs(workloads.select(arguments), arguments.keep, backlog=False):
        workload, size = runs.prepared.workload, runs.prepared.size
        per_s, origin, sustained = arguments.rate, "given", None
        if per_s is None:
            measure_rate = partial(measure_sustained_rate, workload=workload, pods=size.pods)
            sustained = runs.run(ANCHOR, "sustained", measure_rate)
            per_s, origin = arguments.share * sustained, f"{arguments.share:.0%} of {ANCHOR}'s {sustained:.1f}"
        if not per_s:
            raise SystemExit(f"{ANCHOR} bound nothing while its rate was measured")
        load = ConstantLoad(min(size.pods, round(per_s * arguments.seconds)), per_s)
        measure_run = partial(measure_latency, workload=workload, load=load)
        figures = runs.compare(arguments.contenders, arguments.rounds, measure_run)
        print(format_header(runs, arguments.rounds))
        print(f"{load.pods} pods in {load.pods / per_s:.0f} s: {per_s:.1f} pods a second, {origin}")
        print_table(figures, _COLUMNS, {"P50 x": _p50, "P99 x": _p99, "CPU x": lambda f: f.cpu_s["scheduler"]})
        for line in compare_with_aims(figures):
            print(line, flush=True)
        results.append(runs.report(figures) | {"pods": load.pods, "perS": per_s, "sustainedPerS": sustained})
    write_report(arguments.json, results)
    return 0


def compare_with_aims(figures: dict[str, list[LatencyFigures]]) -> Iterator[str]:
    """Yield a line for each contender whose pods were created too slowly, and one for each aim with its result."""
    for name, each in figures.items():
        share = median(each, lambda f: f.created_per_s / f.offered_per_s)
        if share < MIN_RATE_SHARE:
            yield format_target(f"rate of {name}", share, MIN_RATE_SHARE, least=True)
    if DELIVERING in figures:
        p99 = median_ratio(figures, DELIVERING, ANCHOR, _p99)
        yield format_target("creation to binding, p99", p99, LATENCY_P99, least=False)
        p50 = median_ratio(figures, DELIVERING, ANCHOR, _p50)
        yield format_target("creation to binding, p50", p50, LATENCY_P50, least=False)


def _p50(figures: LatencyFigures) -> float:
    return figures.binding.p50_ms


def _p99(figures: LatencyFigures) -> float:
    return figures.binding.p99_ms
