"""A backlog on a real control plane: every pod is bound and recorded, with all nodes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.contenders import Herodotus
from bench.control_plane import PreparedPlane, measure
from bench.workloads import BY_NAME
from tests.e2e.control_plane import assets

BINARIES = assets()


@pytest.mark.e2e
@pytest.mark.skipif(BINARIES is None, reason="no etcd and kube-apiserver")
def test_every_pod_of_a_short_workload_is_bound_and_recorded_with_all_nodes(tmp_path: Path) -> None:
    assert BINARIES is not None
    workload = BY_NAME["SchedulingPodAffinity"]
    prepared = PreparedPlane(BINARIES, tmp_path / "prepared", workload, workload.short)
    with ExitStack() as closing:
        plane = prepared.start(tmp_path / "run")
        closing.callback(plane.stop)
        scheduler = Herodotus(plane.kubeconfig, tmp_path / "run", delivers=True)
        closing.callback(scheduler.stop)
        figures = measure(plane, scheduler, workload, workload.short.pods)
    size = workload.short
    assert figures.reported | {"records": 0.0} == {
        "records": 0.0,
        "dropped": 0.0,
        "decisions": size.pods,
        "evaluated": size.nodes,
    }
    assert figures.pods_per_s > 0
    assert figures.cpu_s.keys() == {"scheduler", "shipper", "service"}
    assert 0 < figures.attempt_p50_ms <= figures.attempt_p99_ms
