"""What-if questions to a running scheduler have the same result as the pods that are created afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, node, pod
from tests.processes import ROOT, eventually

pytestmark = pytest.mark.timeout(240)

Json = dict[str, Any]
QUESTIONS = 50


def test_what_if_predicts_placements(cluster: Cluster, namespace: str, herodotus: Herodotus, tmp_path: Path) -> None:
    """Covers a pod that fits, a Deployment, a pod that fits nowhere, and fifty questions at once."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.create_all("/api/v1/nodes", [node("small", cpu="2"), node("middle", cpu="4"), node("large", cpu="8")])
    reviews = f"{herodotus.endpoint_url}/apis/herodotus.dev/v1alpha1/namespaces/{namespace}/placementreviews"

    def whatif(manifest: Json, *more: str) -> Json:
        file = tmp_path / "manifest.json"
        file.write_text(json.dumps(manifest))
        command = [sys.executable, str(ROOT / "kubectl-herodotus"), "whatif", "-f", str(file), "-n", namespace]
        command += ["-o", "json", "--endpoint", herodotus.endpoint_url, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout)["status"])

    def answers() -> bool:
        body = {"spec": {"object": pod("probe")}}
        answer = httpx.post(reviews, json=body, timeout=30).json().get("status", {})
        return isinstance(answer, dict) and answer["first"]["nodes"]["total"] == 3

    eventually(answers, "the scheduler to ask for reviews, and to know the nodes", 30.0)

    one = whatif(pod("one", cpu="1500m"))
    assert (one["fits"], cluster.items(pods)) == (1, []), "nothing is created"
    cluster.create(pods, pod("one", cpu="1500m"))
    bound = eventually(lambda: cluster.bound(namespace).get("one"), "the pod to be bound")
    assert bound["spec"]["nodeName"] == one["pods"][0]["node"] == "large"

    huge = whatif(pod("huge", cpu="16"))
    cluster.create(pods, pod("huge", cpu="16"))
    condition = eventually(lambda: cluster.condition(namespace, "huge") or None, "the condition")
    assert (huge["fits"], huge["stopped"]["message"]) == (0, condition["message"])

    template = {"metadata": pod("x")["metadata"], "spec": pod("x", cpu="1")["spec"]}
    deployment = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 30, "template": template}}
    several = whatif(deployment)
    assert several["stopped"]["metadata"]["name"] == f"web-{several['fits']}"
    cluster.create_all(pods, [pod(f"web-{i}", cpu="1") for i in range(several["fits"] + 1)])
    eventually(lambda: len(cluster.bound(namespace)) == several["fits"] + 1, "as many pods as predicted to be bound")
    there = Counter(p["spec"]["nodeName"] for name, p in cluster.bound(namespace).items() if name != "one")
    assert dict(there) == {n["node"]: n["pods"] for n in several["nodes"]}

    foreign = httpx.post(reviews, json={"spec": {"object": pod("x", scheduler="someone-else")}}, timeout=30)
    message = f'no scheduler named "someone-else" answers reviews; these do: {SCHEDULER}'
    assert (foreign.status_code, foreign.json()["message"]) == (404, message)

    with ThreadPoolExecutor(QUESTIONS) as many:
        answers_to_all = [
            many.submit(httpx.post, reviews, json={"spec": {"object": pod("q")}}, timeout=60) for _ in range(QUESTIONS)
        ]
        cluster.create_all(pods, [pod(f"meanwhile-{i}", cpu="10m") for i in range(20)])
        eventually(lambda: len(cluster.bound(namespace)) == several["fits"] + 21, "pods to be bound meanwhile", 60)
        codes = Counter(answer.result().status_code for answer in answers_to_all)
    assert codes.keys() <= {201, 429, 504}, codes
    assert codes[201], "some reviews are answered; on a busy machine others time out"
