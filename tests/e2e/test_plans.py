"""A plan that is carried out on a real control plane ends with the pod bound, whatever kube-scheduler draws.

PLAN_CLUSTERS is the number of random clusters (`make plans`), PLAN_FIRST_CLUSTER the first seed, DRAIN_ORDERS the
number of clusters with drains. Searches are compared with random changes in the same clusters in memory. With
DRAIN_NAIVE=1 the drains are carried out in the given order, and the test says how often that fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.kubelets import Kubelets
from tests.e2e.model_cluster import ModelTrial
from tests.e2e.plans import DrainOrderFigures, DrainOrderTrial, PlanFigures, PlanTrial
from tests.e2e.pod_group_parity import GATES, SERVED
from tests.e2e.real_cluster import run_real_cluster

SEEDS, FIRST = int(os.environ.get("PLAN_CLUSTERS", "4")), int(os.environ.get("PLAN_FIRST_CLUSTER", "1"))
ORDERS, NAIVE = int(os.environ.get("DRAIN_ORDERS", "1")), os.environ.get("DRAIN_NAIVE") == "1"
FOUND_SHARE = 0.95
MOST_CLUSTERS = 4  # tried for each that has an order
CONTROLLERS = ("deployment", "replicaset", "statefulset", "disruption", "garbage-collector", "resourceclaim")


@pytest.mark.e2e
@pytest.mark.timeout(300 * SEEDS)
def test_plans_hold_on_a_real_control_plane(tmp_path: Path) -> None:
    figures = PlanFigures()
    for seed in range(FIRST, FIRST + SEEDS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with run_real_cluster(directory, CONTROLLERS, SERVED, gates=GATES) as cluster:
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


@pytest.mark.slow
@pytest.mark.timeout(120 * SEEDS)
def test_a_plan_is_found_where_random_changes_solve_it() -> None:
    figures = PlanFigures()
    for seed in range(FIRST, FIRST + SEEDS):
        trial = ModelTrial(seed, figures)
        trial.populate()
        trial.search()
        print(f"\nseed {seed}: {figures}")
    assert figures.plans >= FOUND_SHARE * (figures.plans + figures.overlooked)


@pytest.mark.e2e
@pytest.mark.timeout(300 * MOST_CLUSTERS * ORDERS)
def test_orders_of_drains_hold_where_the_given_one_fails(tmp_path: Path) -> None:
    figures = DrainOrderFigures()
    for seed in range(FIRST, FIRST + MOST_CLUSTERS * ORDERS):  # some clusters have no such nodes
        if figures.orders + figures.naive == ORDERS:
            break
        directory = tmp_path / str(seed)
        directory.mkdir()
        with run_real_cluster(directory, CONTROLLERS, SERVED, gates=GATES) as cluster:
            kubelets = Kubelets(cluster)
            kubelets.start()
            try:
                trial = DrainOrderTrial(cluster, seed, figures)
                trial.populate()
                trial.carry_out_order(naive=NAIVE)
            finally:
                kubelets.stop()
        print(f"\nseed {seed}: {figures}", *figures.failures, sep="\n")
    assert not figures.failures, "\n".join(figures.failures)
    assert figures.orders or figures.naive
