"""Start and failover: the gap is what the audit log shows after the leader's end, and the standby binds every pod."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.contenders import Herodotus
from bench.control_plane import PreparedPlane
from bench.start import AFTER_S, BEFORE_S, PER_S, compute_gap_s, measure_start
from bench.workloads import BY_NAME
from tests.e2e.control_plane import assets

BINARIES = assets()
LEASE_S, RETRY_S = 15.0, 2.0  # of the Lease: its duration, and how often a standby looks


@pytest.mark.parametrize(
    ("bound", "since", "expected"),
    [
        ([1.0, 9.0, 9.5], 2.0, 7.0),
        ([1.0, 2.5, 3.0, 8.0, 8.5], 2.0, 5.0),
        ([1.0, 2.0], 1.5, 0.5),
    ],
    ids=["nothing after the signal", "the leader still bound some", "no gap"],
)
def test_the_gap_is_the_longest_time_without_a_binding_after_the_signal(
    bound: list[float], since: float, expected: float
) -> None:
    assert compute_gap_s(bound, since) == expected


def test_a_leader_without_a_successor_has_no_gap() -> None:
    with pytest.raises(ValueError, match="nothing was bound"):
        compute_gap_s([1.0, 2.0], 2.0)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.skipif(BINARIES is None, reason="no etcd and kube-apiserver")
def test_a_standby_takes_over_from_a_leader_that_ends_and_from_one_that_is_killed(tmp_path: Path) -> None:
    assert BINARIES is not None
    workload = BY_NAME["ColdStart"]
    prepared = PreparedPlane(BINARIES, tmp_path / "prepared", workload, workload.short)
    with ExitStack() as closing:
        plane = prepared.start(tmp_path / "run")
        closing.callback(plane.stop)
        scheduler = Herodotus(plane.kubeconfig, tmp_path / "run", delivers=True, elects=True)
        closing.callback(scheduler.stop)
        figures = measure_start(plane, scheduler, workload, workload.short.pods)
    assert len(plane.bound) == workload.short.pods + 2 * PER_S * (BEFORE_S + AFTER_S)
    assert figures.ready_s > 0
    assert figures.first_binding_s > 0
    assert figures.gap_sigterm_s < figures.gap_sigkill_s
    assert figures.gap_sigkill_s > LEASE_S - RETRY_S
