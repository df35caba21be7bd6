"""A rollout that waits for the room of its own old pod goes on after the first fix, on a real control plane."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases.fixes import KUBECTL_FOLDER, list_fix_commands
from tests.e2e.cluster import Cluster, node, pod
from tests.e2e.kubelets import Kubelets
from tests.e2e.real_cluster import run_real_cluster
from tests.processes import ROOT, eventually

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
STRATEGIES = {"Deployment": "strategy", "DaemonSet": "updateStrategy"}
CONTROLLERS = ("deployment", "replicaset", "daemonset", "garbage-collector")


def make_workload(kind: str) -> Json:
    """Return a workload with one pod that needs most of a node, and whose rollout surges."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    spec = pod("", "3", scheduler="default-scheduler")["spec"]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    workload: Json = {"selector": {"matchLabels": {"app": "web"}}, "template": template, STRATEGIES[kind]: rolling}
    if kind == "Deployment":
        workload["replicas"] = 1
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": workload}


def execute(cluster: Cluster, *command: str) -> str:
    environ = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.kubeconfig.parent), "NO_COLOR": "1"}
    environ = {k: v for k, v in os.environ.items() if not k.startswith("HERODOTUS")} | environ
    environ["PATH"] = f"{KUBECTL_FOLDER}:{environ['PATH']}"
    done = subprocess.run(command, env=environ, text=True, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_rollout_that_waits_for_its_own_old_pod_goes_on_after_the_first_fix(tmp_path: Path, kind: str) -> None:
    with run_real_cluster(tmp_path, CONTROLLERS) as cluster:
        kubelets = Kubelets(cluster)
        kubelets.start()
        try:
            roll_out(cluster, kind)
        finally:
            kubelets.stop()


def roll_out(cluster: Cluster, kind: str) -> None:
    cluster.create("/api/v1/nodes", node("n1"))
    cluster.create(f"/apis/apps/v1/namespaces/default/{kind.lower()}s", make_workload(kind))

    def list_running() -> list[str]:
        return [each["metadata"]["name"] for each in cluster.items(PODS) if each["status"].get("phase") == "Running"]

    def list_waiting() -> list[str]:
        """Return the pods that the scheduler has rejected."""
        return [
            each["metadata"]["name"]
            for each in cluster.items(PODS)
            if any(c["type"] == "PodScheduled" and c["status"] == "False" for c in each["status"].get("conditions", ()))
        ]

    eventually(lambda: len(list_running()) == 1, "the first pod to run")
    (old,) = list_running()
    image = '[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "registry.example/app:2"}]'
    execute(cluster, "kubectl", "patch", kind.lower(), "web", "--type=json", "-p", image)
    eventually(lambda: len(list_waiting()) == 1, "the new pod to be rejected")
    (new,) = list_waiting()
    answer = execute(cluster, sys.executable, str(ROOT / "kubectl-herodotus"), "pod", new)
    assert f"default/{old} of the earlier template holds its place" in answer
    (command,) = list_fix_commands(answer)
    execute(cluster, "bash", "-c", command)
    eventually(lambda: len(list_running()) == 1 and list_running() != [old], "a new pod to run in the old one's place")
    assert list_waiting() == []
