"""Latency at equal load: the creator keeps its rate, and every figure follows from the audit log of the same pods."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from datetime import datetime
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

from bench.comparison import ANCHOR, DELIVERING
from bench.contenders import Herodotus
from bench.control_plane import FillClient, PreparedPlane
from bench.latency import (
    CREATORS,
    ConstantLoad,
    LatencyFigures,
    PodCreator,
    Quantiles,
    compare_with_aims,
    compute_rate,
    measure_latency,
    measure_sustained_rate,
    subtract_buckets,
)
from bench.workloads import BY_NAME, DEFAULT, MEASURED
from tests.e2e.control_plane import assets

BINARIES = assets()


def read_audit_log(path: Path) -> tuple[dict[str, datetime], dict[str, datetime]]:
    """Return by pod when its creation was received and when the answer to its binding was complete."""
    created, bound = {}, {}
    for event in map(json.loads, path.read_text().splitlines()):
        assert (event["stage"], event["responseStatus"]["code"]) == ("ResponseComplete", 201)
        pods, _, rest = event["requestURI"].partition(f"/namespaces/{MEASURED}/pods")
        assert pods == "/api/v1"
        if rest.partition("?")[0].endswith("/binding"):
            bound[rest.split("/")[1]] = datetime.fromisoformat(event["stageTimestamp"])
        else:
            created[event["objectRef"]["name"]] = datetime.fromisoformat(event["requestReceivedTimestamp"])
    return created, bound


class SlowClient(FillClient):
    """A client whose API server takes `takes_s` for each creation."""

    def __init__(self, takes_s: float) -> None:
        super().__init__("https://127.0.0.1:1")
        self.takes_s = takes_s
        self.created: list[tuple[float, str, str]] = []
        self._lock = Lock()

    def get(self, path: str) -> Any:
        return {}

    def create(self, path: str, body: dict[str, Any]) -> None:
        with self._lock:
            self.created.append((time.monotonic(), path, body["metadata"]["name"]))
        time.sleep(self.takes_s)


def test_the_creator_keeps_its_rate_although_each_answer_takes_longer_than_the_interval() -> None:
    client = SlowClient(takes_s=0.05)
    with PodCreator(client, DEFAULT) as creator:
        creator.create(2, 100.0)
        began = time.monotonic()
        late = creator.create(60, 200.0)
    assert {path for _, path, _ in client.created} == {f"/api/v1/namespaces/{MEASURED}/pods"}
    assert sorted(name for _, _, name in client.created) == sorted(f"pod-{i}" for i in range(62))
    times = {name: at for at, _, name in client.created}
    for number, late_s in enumerate(late):
        assert times[f"pod-{number + 2}"] >= began + number / 200
        assert late_s >= 0
    assert len(late) == 60


def test_a_creator_without_free_connections_reports_how_late_it_is() -> None:
    with PodCreator(SlowClient(takes_s=1.0), DEFAULT) as creator:
        late = creator.create(2 * CREATORS, 10_000.0)
    assert max(late[:CREATORS]) < 1.0
    assert min(late[CREATORS:]) > 0.9


def test_a_refused_creation_fails_the_run() -> None:
    class Refusing(SlowClient):
        def create(self, path: str, body: dict[str, Any]) -> None:
            raise RuntimeError("POST: 403")

    with PodCreator(Refusing(0), DEFAULT) as creator:
        with pytest.raises(RuntimeError, match="403"):
            creator.create(1, 1.0)
        with pytest.raises(RuntimeError, match="403"):
            creator.raise_if_refused()


def test_the_sustained_rate_counts_bindings_while_the_backlog_is_full() -> None:
    created = [0.0, 0.1, 0.2, 1.0, 2.0, 3.0, 4.0]  # full with the fourth
    bound = [0.5, 1.0, 1.5, 2.5, 3.5, 4.0, 4.5]
    assert compute_rate(created, bound, 3) == pytest.approx(4 / 3)


def test_a_backlog_that_was_never_full_gives_no_rate() -> None:
    with pytest.raises(ValueError, match="3 pods were created"):
        compute_rate([0.0, 1.0, 2.0], [1.0], 3)


def test_buckets_of_the_warm_up_are_not_counted() -> None:
    after, before = {0.01: 5.0, 0.02: 9.0, inf: 9.0}, {0.01: 5.0, 0.02: 5.0, inf: 5.0}
    left = subtract_buckets(after, before)
    assert left == {0.01: 0.0, 0.02: 4.0, inf: 4.0}
    assert Quantiles.from_buckets(left).p50_ms == pytest.approx(15.0)
    assert subtract_buckets(before, {}) == before


def test_quantiles_of_measured_seconds() -> None:
    found = Quantiles.from_seconds([i / 1000 for i in range(101)])
    assert (found.p50_ms, found.p90_ms, found.p99_ms) == pytest.approx((50.0, 90.0, 99.0))


def _figures(p50_ms: float, p99_ms: float, created_per_s: float = 90.0) -> LatencyFigures:
    binding = Quantiles(p50_ms, p99_ms, p99_ms)
    late = Quantiles(0.0, 0.0, 0.0)
    return LatencyFigures(90.0, created_per_s, late, 0, binding, binding, binding, {}, {}, {})


def test_the_medians_of_the_rounds_are_compared_with_the_aims() -> None:
    theirs = [_figures(10.0, 100.0), _figures(12.0, 100.0), _figures(99.0, 999.0)]
    ours = [_figures(6.0, 80.0), _figures(6.0, 80.0), _figures(99.0, 999.0)]
    assert list(compare_with_aims({ANCHOR: theirs, DELIVERING: ours})) == [
        "  creation to binding, p99: 0.80, at most 0.8",
        "  creation to binding, p50: 0.50, at most 1.0",
    ]


def test_missed_aims_and_a_late_creator_are_reported() -> None:
    assert list(compare_with_aims({ANCHOR: [_figures(10.0, 100.0)], DELIVERING: [_figures(11.0, 90.0, 45.0)]})) == [
        "  rate of delivering: 0.50, at least 0.98: NOT REACHED",
        "  creation to binding, p99: 0.90, at most 0.8: NOT REACHED",
        "  creation to binding, p50: 1.10, at most 1.0: NOT REACHED",
    ]


@pytest.mark.e2e
@pytest.mark.skipif(BINARIES is None, reason="no etcd and kube-apiserver")
def test_every_measured_pod_has_a_latency_from_the_audit_log_and_the_scheduler_agrees(tmp_path: Path) -> None:
    assert BINARIES is not None
    workload = BY_NAME["SchedulingPodAffinity"]
    load = ConstantLoad(pods=40, per_s=40.0)
    prepared = PreparedPlane(BINARIES, tmp_path / "prepared", workload, workload.short, backlog=False)
    with ExitStack() as closing:
        plane = prepared.start(tmp_path / "run")
        closing.callback(plane.stop)
        scheduler = Herodotus(plane.kubeconfig, tmp_path / "run", delivers=True)
        closing.callback(scheduler.stop)
        figures = measure_latency(plane, scheduler, workload, load)
    names = [f"affinity-{i}" for i in range(load.warm_up, load.warm_up + load.pods)]
    created, bound = read_audit_log(tmp_path / "run/audit.log")
    assert created.keys() == bound.keys() == {*names, *(f"affinity-{i}" for i in range(load.warm_up))}
    latencies = [(bound[name] - created[name]).total_seconds() for name in names]
    assert min(latencies) > 0
    assert figures.binding.p99_ms == pytest.approx(float(np.percentile(latencies, 99)) * 1000, abs=0.01)
    assert figures.binding.p50_ms <= figures.binding.p90_ms <= figures.binding.p99_ms
    times = sorted(created[name] for name in names)
    assert figures.created_per_s == pytest.approx(39 / (times[-1] - times[0]).total_seconds(), rel=1e-4)
    assert figures.waiting == sum(bound[name] > times[-1] for name in names)
    # The scheduler's time is a part of the audit log's, and buckets double from 10 ms.
    assert 0 < figures.sli.p50_ms < 2 * max(latencies) * 1000 + 10
    assert figures.reported["decisions"] == load.warm_up + load.pods
    assert figures.cpu_s.keys() == {"scheduler", "shipper", "service", "apiserver", "etcd", "creator"}
    assert figures.cpu_s["apiserver"] > 0


@pytest.mark.e2e
@pytest.mark.skipif(BINARIES is None, reason="no etcd and kube-apiserver")
def test_the_sustained_rate_is_measured_with_a_backlog_of_constant_length(tmp_path: Path) -> None:
    assert BINARIES is not None
    workload = BY_NAME["SchedulingBasic"]
    pods = 100
    prepared = PreparedPlane(BINARIES, tmp_path / "prepared", workload, workload.short, backlog=False)
    with ExitStack() as closing:
        plane = prepared.start(tmp_path / "run")
        closing.callback(plane.stop)
        scheduler = Herodotus(plane.kubeconfig, tmp_path / "run", delivers=False)
        closing.callback(scheduler.stop)
        rate = measure_sustained_rate(plane, scheduler, workload, pods)
    assert rate > 0
    created, bound = sorted(plane.created.values()), sorted(plane.bound.values())
    assert len(created) == pods
    waiting = [number + 1 - sum(until <= since for until in bound) for number, since in enumerate(created)]
    assert max(waiting) <= pods // 4
