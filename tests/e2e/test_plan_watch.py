"""`plan --watch` on a real control plane: a plan that is carried out, and one whose place another pod takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, node, pod
from tests.e2e.kubelets import Kubelets
from tests.e2e.real_cluster import run_real_cluster
from tests.processes import ROOT, eventually

Json = dict[str, Any]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
CONTROLLERS = ("deployment", "replicaset", "garbage-collector")


class FollowedPlan:
    """A running `plan deploy/big --watch -o json`, and the commands of its plan."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self._cluster, self._file = cluster, folder / "lines"
        command = [sys.executable, str(ROOT / "kubectl-herodotus"), "plan", "deploy/big", "--kinds", "move"]
        command += ["--local", "--watch", "-o", "json", "--kubeconfig", str(cluster.kubeconfig)]
        with self._file.open("w") as out, (folder / "errors").open("w") as errors:
            self.process = subprocess.Popen(command, stdout=out, stderr=errors)
        eventually(lambda: self._file.read_text().endswith("\n") or self.process.poll() is not None, "the plan", 60.0)
        review = json.loads(self._file.read_text().splitlines()[0])["status"]["plan"]
        self.steps: list[Json] = review["kinds"][0]["plans"][0]["steps"]
        self.target: Json = review["kinds"][0]["plans"][0]["targets"][0]

    @property
    def events(self) -> list[Json]:
        """The complete events so far."""
        return [json.loads(line) for line in self._file.read_text().split("\n")[1:-1]]

    def carry_out(self, number: int) -> None:
        """Run the command of a step and wait until the step is ticked."""
        environ = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}
        command = self.steps[number - 1]["command"]
        subprocess.run(["bash", "-c", command], env=environ, check=True, capture_output=True, timeout=60)
        eventually(lambda: any((e["state"], e["step"]) == ("Done", number) for e in self.events), command, 60.0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two nodes with a pod of 2 CPUs each, and a waiting pod of 3."""
    with run_real_cluster(tmp_path, CONTROLLERS) as cluster:
        kubelets = Kubelets(cluster)
        kubelets.start()
        try:
            cluster.create_all("/api/v1/nodes", [node(f"n{i}", cpu="4") for i in range(2)])
            cluster.create(DEPLOYMENTS, deployment("web", "2", 2))
            eventually(lambda: {p["spec"].get("nodeName") for p in cluster.items(PODS)} == {"n0", "n1"}, "web", 60.0)
            cluster.create(DEPLOYMENTS, deployment("big", "3", 1))
            eventually(lambda: len(cluster.items(PODS)) == 3, "the waiting pod", 60.0)
            yield cluster
        finally:
            kubelets.stop()


@pytest.fixture
def plan(cluster: Cluster, tmp_path: Path) -> Iterator[FollowedPlan]:
    followed = FollowedPlan(tmp_path, cluster)
    yield followed
    followed.process.kill()
    followed.process.wait()


def deployment(name: str, cpu: str, replicas: int) -> Json:
    labels = {"app": name}
    spec = {**pod(name, cpu=cpu, scheduler="default-scheduler")["spec"], "terminationGracePeriodSeconds": 1}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": whole}


def test_plan_is_ticked_step_by_step_until_the_pod_is_bound(plan: FollowedPlan) -> None:
    for number in range(1, len(plan.steps) + 1):
        plan.carry_out(number)
    assert plan.process.wait(60) == 0
    assert [each["kind"] for each in plan.steps] == ["Cordon", "Move", "Uncordon"]
    ends = [(e["state"], e["step"]) for e in plan.events if e["state"] in ("Done", "Finished")]
    assert [end for end in ends if end != ("Done", None)] == [("Done", 1), ("Done", 2), ("Done", 3), ("Finished", None)]
    assert ends.count(("Done", None)) == 1, "the pod is bound, before the node is uncordoned or after"


def test_pod_that_takes_the_place_ends_it_at_once(plan: FollowedPlan, cluster: Cluster) -> None:
    plan.carry_out(1)
    place = plan.target["landsOn"][0]
    cluster.create(PODS, pod("intruder", cpu="2", scheduler="default-scheduler", nodeName=place))
    assert plan.process.wait(60) == 1
    last = plan.events[-1]
    assert (last["state"], last["step"]) == ("Deviated", 2)
    assert last["message"].endswith(f"has no room any more: {place} has 2 of 3 cpu")
