"""`whatif deschedule` says what the descheduler of kubernetes-sigs then does on a real API server.

DESCHEDULE_SEEDS is the number of random clusters and policies (`make deschedule`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e import control_plane
from tests.e2e.descheduling import NAMESPACES, DescheduleFigures, DescheduleTrial
from tests.e2e.real_cluster import run_api_server

SEEDS, FIRST = int(os.environ.get("DESCHEDULE_SEEDS", "5")), int(os.environ.get("DESCHEDULE_FIRST_SEED", "1"))
NOT_FOUND = "NOT COMPARED WITH A REAL descheduler: it is not beside kube-apiserver"


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(120 + 30 * SEEDS)
def test_the_descheduler_evicts_what_was_answered(tmp_path: Path) -> None:
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "descheduler").exists():
        pytest.skip(NOT_FOUND)
    figures = DescheduleFigures()
    with run_api_server(binaries, tmp_path) as cluster:
        for name in NAMESPACES:
            cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
        cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
        for seed in range(FIRST, FIRST + SEEDS):
            DescheduleTrial(cluster, binaries / "descheduler", tmp_path, seed, figures).compare()
    print(f"\n{figures}", *figures.failures, sep="\n")
    assert not figures.failures, "\n".join(figures.failures)
    assert figures.evictions
