"""Decisions without scheduling: an observer beside a scheduler, and replays of a snapshot."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, node, pod
from tests.processes import ROOT, Process, eventually, python
from tests.support.configurations import PACKED

pytestmark = pytest.mark.timeout(120)

PODS = 12


@pytest.fixture
def observer(cluster: Cluster, herodotus: Herodotus, tmp_path: Path) -> Iterator[Process]:
    """Run an observer of our own scheduler's pods: it treats every scheduler alike."""
    config = tmp_path / "observed.yaml"
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump(kind | {"profiles": [{"schedulerName": SCHEDULER}]}))
    running = Process(
        "observer",
        python(
            *("scheduler", "observe", "--kubeconfig", str(cluster.kubeconfig), "--config", str(config), "--v", "3"),
            *("--endpoint", herodotus.endpoint_url, "--spool", str(tmp_path / "observed"), "--secure-port", "0"),
        ),
        tmp_path / "observer.log",
    )
    running.wait_for("Everything was listed")
    yield running
    running.stop()


def test_every_outcome_is_reconstructed(
    cluster: Cluster, namespace: str, herodotus: Herodotus, observer: Process
) -> None:
    herodotus.add_nodes(*(node(f"n{i}", cpu=str(2 + i)) for i in range(4)))
    for i in range(4):
        observer.wait_for(f'"Add event for node" node="n{i}"')
    path = f"/api/v1/namespaces/{namespace}/pods"
    cluster.create_all(path, [pod(f"p{i}", cpu="300m") for i in range(PODS)])
    cluster.create(path, pod("large", cpu="64"))
    eventually(lambda: len(cluster.bound(namespace)) == PODS, "every small pod to be bound")

    def reconstructed() -> dict[str, str | None]:
        found = [d for d in herodotus.decisions(namespace) if d["spec"]["key"]["source"] == "reconstructed"]
        return {d["spec"]["pod"]["name"]: d["status"]["node"] for d in found}

    eventually(lambda: len(reconstructed()) == PODS + 1, "a record of every pod", 30)
    bound = {name: found["spec"]["nodeName"] for name, found in cluster.bound(namespace).items()}
    assert reconstructed() == {**bound, "large": None}
    path = f"/apis/herodotus.dev/v1alpha1/namespaces/{namespace}/agreements"
    (rates,) = httpx.get(f"{herodotus.endpoint_url}{path}").json()["schedulers"]
    assert rates["outcomes"] == rates["agree"] + rates["agreeInWindow"] >= PODS + 1, rates


def test_a_snapshot_of_the_cluster_decides_as_the_cluster_did(
    cluster: Cluster, namespace: str, herodotus: Herodotus, tmp_path: Path
) -> None:
    """Each pod, removed from the snapshot and placed again, gets its node; with other weights some get another one."""
    herodotus.add_nodes(*(node(f"n{i}", cpu=str(2 + i)) for i in range(4)))
    path = f"/api/v1/namespaces/{namespace}/pods"
    for i in range(PODS):  # one after the other: the order of creation is the order of decisions
        cluster.create(path, pod(f"p{i:02}", cpu="300m"))

        def is_bound(expected: int = i + 1) -> bool:
            return len(cluster.bound(namespace)) == expected

        eventually(is_bound, "the pod to be bound")
    file = tmp_path / "cluster.json"
    taken = subprocess.run(
        python("scheduler", "snapshot", str(file), "--kubeconfig", str(cluster.kubeconfig)),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert taken.returncode == 0, taken.stderr

    def replayed(*flags: str) -> dict[str, Any]:
        command = python("scheduler", "replay", str(file), "--namespace", namespace, "-o", "json", *flags)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    answer = replayed()
    assert (answer["pods"], answer["same"]) == (PODS, PODS), answer
    packed = tmp_path / "packed.yaml"
    packed.write_text(PACKED)
    assert len(replayed("--config", str(packed))["moved"]) > 0
