"""`kubectl herodotus top` in local mode, in a pseudo terminal, on a real API server with a real kube-scheduler."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="NOT RUN: textual is not installed; make setup does that")

from tests.e2e.cluster import Cluster, node, pod
from tests.e2e.real_cluster import run_real_cluster
from tests.processes import ROOT, eventually
from tests.support.pseudo_terminal import ALTERNATE_SCREEN, PseudoTerminal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with two nodes, a Deployment's placed pod and a pod that fits nowhere."""
    with run_real_cluster(tmp_path_factory.mktemp("top"), ("deployment", "replicaset")) as cluster:
        cluster.create_all("/api/v1/nodes", [node(f"worker-{i}") for i in (1, 2)])
        template = pod("web", cpu="2", scheduler="default-scheduler")
        spec = {"replicas": 1, "selector": {"matchLabels": template["metadata"]["labels"]}, "template": template}
        cluster.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
        cluster.create(PODS, pod("huge", cpu="40", scheduler="default-scheduler"))
        eventually(lambda: len(cluster.bound("default")) == 1, "the pod to be placed")
        eventually(lambda: cluster.condition("default", "huge").get("reason") == "Unschedulable", "a condition")
        yield cluster


@pytest.fixture
def terminal(cluster: Cluster) -> Iterator[PseudoTerminal]:
    environ = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "TERM": "xterm-256color"}
    environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, str(ROOT / "kubectl-herodotus"), "top", "--local", "--interval=2s"]
    terminal = PseudoTerminal(command, environ)
    yield terminal
    terminal.close()


def test_from_nodes_to_the_decision_of_a_waiting_pod_and_back(terminal: PseudoTerminal) -> None:
    terminal.wait_for(r"worker-1 ")
    terminal.wait_for(r"worker-2 ")
    terminal.wait_for(r"default/huge ")
    assert ALTERNATE_SCREEN in terminal.text
    terminal.press("\t\r")  # to the waiting pods, and into the first
    terminal.wait_for(r"kubectl herodotus pod huge -n default --all")
    terminal.wait_for(r"No node fits")
    terminal.press("\x1b")
    terminal.wait_for(r"WAITING POD")
    terminal.press("q")
    assert terminal.wait_for_end() == 0
    terminal.check_restored()


def test_drain_moves_the_pod_to_the_other_node(terminal: PseudoTerminal, cluster: Cluster) -> None:
    (placed,) = cluster.bound("default").values()
    full = placed["spec"]["nodeName"]
    empty = "worker-1" if full == "worker-2" else "worker-2"
    terminal.wait_for(r"default/huge ")
    terminal.press(f"/{full}\r")
    terminal.wait_for(f"nodes .* /{full}")
    terminal.press("d")
    terminal.wait_for(f"SIMULATED, nothing is changed: drain {full}")
    terminal.wait_for(rf"{placed['metadata']['name']} +{full} → {empty}")
    terminal.press("+")  # no pod is chosen: nothing happens but a message
    terminal.wait_for("choose a pod first")
    terminal.press("\x1b")
    terminal.wait_for(r"PLACED POD")
    terminal.press("\x03")
    assert terminal.wait_for_end() == 0
    terminal.check_restored()
