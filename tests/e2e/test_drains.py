"""What `whatif drain`, `capacity` and `whatif add-nodes` say is what a real control plane then does.

DRAIN_SEEDS is the number of random clusters (`make drains`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.drains import DrainFigures, DrainTrial
from tests.e2e.kubelets import Kubelets
from tests.e2e.real_cluster import run_real_cluster

SEEDS, FIRST = int(os.environ.get("DRAIN_SEEDS", "1")), int(os.environ.get("DRAIN_FIRST_SEED", "1"))
CONTROLLERS = ("deployment", "replicaset", "statefulset", "job", "daemonset", "disruption", "garbage-collector")


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(300 * SEEDS)
def test_a_real_cluster_does_what_was_answered(tmp_path: Path) -> None:
    figures = DrainFigures()
    for seed in range(FIRST, FIRST + SEEDS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        with run_real_cluster(directory, CONTROLLERS) as cluster:
            kubelets = Kubelets(cluster)
            kubelets.start()
            try:
                trial = DrainTrial(cluster, seed, figures)
                trial.populate()
                trial.drain(["node-01"], force=seed % 3 > 0, delete_empty_dir_data=seed % 4 > 0)
                if SEEDS > 1:
                    trial.drain(["node-03", "node-04"], force=True, delete_empty_dir_data=True)
                trial.fill()
                trial.add_nodes("node-02", 1)
            finally:
                kubelets.stop()
        print(f"\nseed {seed}: {figures}", *figures.failures, sep="\n")
    assert not figures.failures, "\n".join(figures.failures)
    assert figures.displaced
    assert figures.placements
    assert figures.capacity
