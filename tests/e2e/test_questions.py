"""The plugin's answers about a real cluster, checked by the API server and a stock kube-scheduler.

QUESTIONS_NODES makes the cluster larger (`make questions`: 200 nodes, 2,000 pods).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, Herodotus
from tests.e2e.questions import Questions

NODES = int(os.environ.get("QUESTIONS_NODES", "10"))
ASKED = int(os.environ.get("QUESTIONS_ASKED", "8"))  # of each kind


@pytest.mark.e2e
@pytest.mark.timeout(3600 if NODES > 50 else 240)
@pytest.mark.parametrize("api_server", ["real"], indirect=True)
def test_answers_agree_with_the_api_server_and_kube_scheduler(
    cluster: Cluster, namespace: str, herodotus: Herodotus, tmp_path: Path
) -> None:
    """Covers outcomes, proposed changes and other weights."""
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip("NOT JUDGED BY A REAL kube-scheduler: there is none beside etcd and kube-apiserver")
    questions = Questions(cluster, namespace, herodotus, binaries / "kube-scheduler", tmp_path)
    questions.fill(seed=1, nodes=NODES)
    questions.check_outcomes(ASKED)
    questions.check_proposals(ASKED)
    questions.check_weights(ASKED)
    print(f"\n{NODES} nodes: {questions.figures}")
