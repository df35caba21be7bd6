"""One question has the same answer from the scheduler, from an observer of it, and in local mode."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, node, pod
from tests.processes import ROOT, Process, eventually, free_port, python

pytestmark = pytest.mark.timeout(240)

Json = dict[str, Any]
API = "/apis/herodotus.dev/v1alpha1"
# who decided, when, what became of it, and when the API server was asked
OF_THE_RECORD = ("attempt", "live", "notes", "outcome", "reconstruction")
WAYS = ("scheduler", "observer", "local")


class ThreeWays:
    """A cluster with a scheduler and its service, an observer with a service of its own, and local mode."""

    def __init__(self, cluster: Cluster, herodotus: Herodotus, observed_by: str, directory: Path) -> None:
        """Take over the running processes. `observed_by` is the URL of the observer's service."""
        self.cluster, self._directory = cluster, directory
        self.services = {"scheduler": herodotus.endpoint_url, "observer": observed_by}
        config = directory / "local.yaml"
        config.write_text(configuration())
        self._flags: dict[str, tuple[str, ...]] = {
            **{way: ("--endpoint", url) for way, url in self.services.items()},
            "local": ("--local", "--config", str(config), "--kubeconfig", str(cluster.kubeconfig)),
        }

    def ask(self, *words: str) -> dict[str, Json]:
        """Return the plugin's answer to a question each way."""
        return {way: self._ask(*words, *flags) for way, flags in self._flags.items()}

    def _ask(self, *words: str) -> Json:
        command = [sys.executable, str(ROOT / "kubectl-herodotus"), *words, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (words, done.stderr)
        answer: Json = json.loads(done.stdout)
        return answer

    def manifest(self, content: Json) -> str:
        file = self._directory / f"{content['metadata']['name']}.json"
        file.write_text(json.dumps(content))
        return str(file)

    def wait_for_decision(self, namespace: str, name: str) -> None:
        path = f"{API}/namespaces/{namespace}/podexplanations/{name}"
        for way, url in self.services.items():

            def is_there(url: str = url) -> bool:
                return httpx.get(f"{url}{path}").status_code == 200

            eventually(is_there, f"the {way}'s record of {name}")

    def wait_for_nodes(self, namespace: str, count: int) -> None:
        """Wait until both processes answer reviews and know this number of nodes."""
        path = f"{API}/namespaces/{namespace}/placementreviews"
        for way, url in self.services.items():

            def is_ready(url: str = url) -> bool:
                said = httpx.post(f"{url}{path}", json={"spec": {"object": pod("probe")}}, timeout=30).json()
                return isinstance(said["status"], dict) and said["status"]["first"]["nodes"]["total"] == count

            eventually(is_ready, f"the {way} to answer reviews")


def configuration() -> str:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump(kind | {"profiles": [{"schedulerName": SCHEDULER}]})


@pytest.fixture
def ways(cluster: Cluster, herodotus: Herodotus, tmp_path: Path) -> Iterator[ThreeWays]:
    config, port = tmp_path / "observed.yaml", free_port()
    config.write_text(configuration())
    url = f"http://127.0.0.1:{port}"
    service = Process(
        "second-endpoint",
        python("herodotus_endpoint", "--bind", f"127.0.0.1:{port}", "--data", str(tmp_path / "observed-data")),
        tmp_path / "second-endpoint.log",
    )
    service.wait_for("listening on")
    observer = Process(
        "observer",
        python(
            *("scheduler", "observe", "--kubeconfig", str(cluster.kubeconfig), "--config", str(config), "--v", "3"),
            *("--endpoint", url, "--spool", str(tmp_path / "observed"), "--secure-port", "0"),
        ),
        tmp_path / "observer.log",
    )
    observer.wait_for("Everything was listed")
    yield ThreeWays(cluster, herodotus, url, tmp_path)
    observer.stop()
    service.stop()


@pytest.fixture
def filled(ways: ThreeWays, namespace: str) -> ThreeWays:
    """Return three ways over nodes of different sizes and labels, with a pod on some of them."""
    zones = [{"topology.kubernetes.io/zone": f"z{i % 3}"} for i in range(6)]
    nodes = [
        *(node(f"n{i}", cpu=str(3 + 2 * i), labels=zones[i]) for i in range(6)),
        node("tainted", cpu="64", taints=[{"key": "gpu", "value": "a", "effect": "NoSchedule"}]),
        node("cordoned", cpu="64", unschedulable=True),
    ]
    # in the order in which the API server lists them: of nodes with equal totals the earlier one comes first
    for each in sorted(nodes, key=lambda found: str(found["metadata"]["name"])):
        ways.cluster.create("/api/v1/nodes", each)
    ways.wait_for_nodes(namespace, 8)
    for i in range(4):  # one after the other: each decision sees the one before
        ways.cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod(f"p{i}", cpu=f"{700 + 110 * i}m"))
        ways.wait_for_decision(namespace, f"p{i}")
    return ways


def without_records(explanation: Json) -> Json:
    """Return what an explanation says about the decision, without what identifies the process and its record.

    When a pod is bound, a real API server labels it with the zone of its node. Local mode says when it evaluates.
    """
    explanation = json.loads(json.dumps(explanation).replace(". Evaluated now:", ":"))
    labels = explanation["pod"]["labels"]
    explanation["pod"]["labels"] = {k: v for k, v in labels.items() if not k.startswith("topology.kubernetes.io/")}
    return {key: value for key, value in explanation.items() if key not in OF_THE_RECORD}


def test_where_a_pod_is_and_why(filled: ThreeWays, namespace: str) -> None:
    """About the pod that was placed last: local mode evaluates it on the cluster as it is now."""
    answers = filled.ask("pod", "p3", "-n", namespace, "--all")
    node = filled.cluster.bound(namespace)["p3"]["spec"]["nodeName"]
    assert {way: answer["outcome"]["node"] for way, answer in answers.items()} == dict.fromkeys(WAYS, node)
    said = {way: without_records(answer) for way, answer in answers.items()}
    assert len(said["scheduler"]["ranking"]) == 6
    assert said["observer"] == said["scheduler"]
    assert said["local"] == said["scheduler"]


def test_why_a_pod_is_pending(filled: ThreeWays, namespace: str) -> None:
    filled.cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("large", cpu="50"))
    filled.wait_for_decision(namespace, "large")
    said = {way: without_records(a) for way, a in filled.ask("pod", "large", "-n", namespace, "--all").items()}
    assert said["scheduler"]["message"].startswith("0/8 nodes are available")
    assert said["observer"] == said["scheduler"]
    assert said["local"] == said["scheduler"]


def test_where_a_deployment_would_go(filled: ThreeWays, namespace: str) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", cpu="1500m")["spec"]}
    content = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 30, "template": template}}
    answers = filled.ask("whatif", "-f", filled.manifest(content), "-n", namespace, "--all")
    said = {way: answer["status"] for way, answer in answers.items()}
    for status in said.values():
        for explanation in (status["first"], status["stopped"]):
            explanation |= {"attempt": None, "notes": None, "outcome": None}
    assert 10 < said["scheduler"]["fits"] < 30
    assert said["observer"]["fits"] == said["scheduler"]["fits"] == said["local"]["fits"]
    assert said["observer"]["nodes"] == said["scheduler"]["nodes"] == said["local"]["nodes"]
    assert filled.cluster.items(f"/apis/apps/v1/namespaces/{namespace}/deployments") == []


def replaced_pod(name: str, cpu: str, labels: dict[str, str]) -> Json:
    """Return a pod of a ReplicaSet."""
    content = pod(name, cpu=cpu)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    content["metadata"] |= {"ownerReferences": [owner], "labels": labels}
    return content


@pytest.mark.slow
def test_what_a_drain_would_do(filled: ThreeWays, namespace: str) -> None:
    """The largest node's pods: those of a ReplicaSet move, one is held by a budget, and a bare pod blocks the drain."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "one"}}}
    meta = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "one"}}
    filled.cluster.create(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", meta | {"spec": budget})
    for i in range(3):
        filled.cluster.create(pods, replaced_pod(f"web-{i}", f"{610 + 90 * i}m", {"app": "web"}))
        filled.wait_for_decision(namespace, f"web-{i}")
    nodes = sorted({p["spec"]["nodeName"] for p in filled.cluster.bound(namespace).values()})
    questions = (
        ("whatif", "drain", nodes[0], "--force"),
        ("whatif", "remove", nodes[-1]),
        ("whatif", "add-nodes", "--like", "n5", "--count", "2"),
    )
    for question in questions:
        said = {way: answer["status"] for way, answer in filled.ask(*question, "--all").items()}
        notes = said["observer"].pop("notes")
        assert any(note.startswith("decided by an observer") for note in notes), notes
        for way in ("scheduler", "local"):
            said[way].pop("notes")
        assert said["scheduler"]["phase"] == "Complete"
        assert said["observer"] == said["scheduler"], question
        assert said["local"] == said["scheduler"], question
    assert all(p["spec"].get("nodeName") for p in filled.cluster.items(pods)), "nothing was moved"
