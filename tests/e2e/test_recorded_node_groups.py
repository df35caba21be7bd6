"""With --record-node-groups, the verdicts of node groups on a pending pod stay when the scheduler ends."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, Herodotus, node, pod
from tests.processes import ROOT, eventually

pytestmark = pytest.mark.timeout(240)
Json = dict[str, Any]
GROUP = "eks.amazonaws.com/nodegroup"


def ask(herodotus: Herodotus, namespace: str, name: str, *more: str) -> str:
    command = [sys.executable, str(ROOT / "kubectl-herodotus"), "pod", name, "-n", namespace]
    command += ["--endpoint", herodotus.endpoint_url, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_verdicts_are_recorded_with_the_option_alone(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.create_all(
        "/api/v1/nodes", [node("s", cpu="2", labels={GROUP: "small"}), node("l", cpu="8", labels={GROUP: "large"})]
    )
    cluster.create(pods, pod("full", cpu="7", nodeName="l"))
    cluster.create(pods, pod("before", cpu="4"))
    eventually(lambda: cluster.condition(namespace, "before") or None, "the condition")
    eventually(lambda: herodotus.decisions(namespace) or None, "the record of the scheduler without the option")
    assert "nodeGroups" not in herodotus.explanation(namespace, "before")
    herodotus.scheduler.kill_all()
    scheduler = herodotus.start_scheduler("--record-node-groups", name="recording")
    cluster.create(pods, pod("waits", cpu="4"))

    def recorded() -> Json | None:
        if not any(d["spec"]["pod"]["name"] == "waits" for d in herodotus.decisions(namespace)):
            return None
        found: Json | None = herodotus.explanation(namespace, "waits").get("nodeGroups")
        return found

    eventually(recorded, "the verdicts to be recorded", 60.0)
    scheduler.kill_all()
    found = json.loads(ask(herodotus, namespace, "waits", "-o", "json"))["nodeGroups"]
    (judged,) = found["pods"]
    assert {v["group"]: v["verdict"] for v in judged["groups"]} == {"small": "DoesNotFit", "large": "Fits"}
    assert judged["groups"][1]["rejections"][0]["reasons"] == ["Insufficient cpu"]
    assert (judged["name"], found["omittedGroups"]) == ("waits", 0)
    screen = ask(herodotus, namespace, "waits")
    (line,) = [line for line in screen.splitlines() if line.startswith("NODE GROUPS")]
    assert "large: fits" in line
    assert "as of" in line
