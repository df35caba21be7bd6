"""An observer beside a scheduler: it writes nothing, and explains every pod that the other one places or rejects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, node, pod
from tests.processes import Process, eventually, python

pytestmark = pytest.mark.timeout(120)

PODS = 12


@pytest.fixture
def observer(cluster: Cluster, herodotus: Herodotus, tmp_path: Path) -> Iterator[Process]:
    """Of the pods of our own scheduler: whose they are makes no difference to an observer."""
    config = tmp_path / "observed.yaml"
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump(kind | {"profiles": [{"schedulerName": SCHEDULER}]}))
    running = Process(
        "observer",
        python(
            *("scheduler", "observe", "--kubeconfig", str(cluster.kubeconfig), "--config", str(config), "--v", "2"),
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
    cluster.create_all("/api/v1/nodes", [node(f"n{i}", cpu=str(2 + i)) for i in range(4)])
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
