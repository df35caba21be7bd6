"""A plan that is carried out on a real control plane ends with the pod bound, whatever kube-scheduler draws.

PLAN_SEEDS is the number of random clusters (`make plans`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.kubelets import Kubelets
from tests.e2e.plans import PlanFigures, PlanTrial
from tests.e2e.real_cluster import run_real_cluster

SEEDS, FIRST = int(os.environ.get("PLAN_CLUSTERS", "4")), int(os.environ.get("PLAN_FIRST_CLUSTER", "1"))
CONTROLLERS = ("deployment", "replicaset", "statefulset", "disruption", "garbage-collector")


@pytest.mark.e2e
@pytest.mark.timeout(300 * SEEDS)
def test_plans_hold_on_a_real_control_plane(tmp_path: Path) -> None:
    figures = PlanFigures()
    for seed in range(FIRST, FIRST + SEEDS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with run_real_cluster(directory, CONTROLLERS) as cluster:
            kubelets = Kubelets(cluster)
            kubelets.start()
            try:
                trial = PlanTrial(cluster, seed, figures)
                trial.populate()
                trial.carry_out()
            finally:
                kubelets.stop()
        print(f"\nseed {seed}: {figures}", *figures.failures, sep="\n")
    assert not figures.failures, "\n".join(figures.failures)
    assert figures.plans
