"""Replacing the default scheduler and back, as docs/replace-default-scheduler.md says, with a real kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, node, pod
from tests.processes import Process, eventually, free_port, python

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
STOCK = "default-scheduler"


def configuration(path: Path, **more: Any) -> Path:
    election = {"leaderElect": True, "resourceNamespace": "kube-system", "resourceName": "kube-scheduler"}
    whole = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(yaml.safe_dump(whole | {"profiles": [{"schedulerName": STOCK}], "leaderElection": election} | more))
    return path


@pytest.fixture
def started() -> Iterator[ExitStack]:
    """Collect started processes, and end them with the test."""
    with ExitStack() as processes:
        yield processes


def test_the_holder_of_the_lease_schedules(
    cluster: Cluster, namespace: str, tmp_path: Path, started: ExitStack
) -> None:
    """Ours waits for a running kube-scheduler, takes over when it ends, and returns the Lease."""
    binaries = control_plane.assets()
    if cluster.kind != "real" or binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip("needs a real kube-scheduler on a real kube-apiserver")
    connection = {"kubeconfig": str(cluster.kubeconfig)}
    theirs = configuration(tmp_path / "theirs.yaml", clientConnection=connection)
    ours = configuration(tmp_path / "ours.yaml")
    started.callback(cluster.delete, LEASE)

    def begin(name: str, command: list[str]) -> Process:
        process = Process(name, command, tmp_path / f"{name}.log")
        started.callback(process.kill_all)
        return process

    def kube_scheduler(name: str) -> Process:
        port, certificates = f"--secure-port={free_port()}", f"--cert-dir={tmp_path / name}"
        return begin(name, [str(binaries / "kube-scheduler"), f"--config={theirs}", port, certificates])

    def bound(name: str) -> None:
        cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod(name, scheduler=STOCK))
        eventually(lambda: name in cluster.bound(namespace), f"{name} to be bound", 60)

    def holder() -> str:
        return str((cluster.find(LEASE) or {"spec": {}})["spec"].get("holderIdentity") or "")

    cluster.create("/api/v1/nodes", node("n1"))
    first = kube_scheduler("first")
    first_holder = eventually(lambda: holder() or None, "kube-scheduler to lead", 60)
    run = ("scheduler", "run", "--kubeconfig", str(cluster.kubeconfig), "--config", str(ours), "--secure-port", "0")
    spool = ("--spool", str(tmp_path / "spool"))
    herodotus = begin("herodotus", python(*run, *spool, "--replace-default-scheduler", "--v", "2"))
    herodotus.wait_for("Attempting to acquire leader lease")
    bound("before")
    assert holder() == first_holder
    first.stop()
    bound("meanwhile")
    herodotus.wait_for(r'Successfully bound pod to node" pod="[^"]*/meanwhile"')
    kube_scheduler("second")
    assert herodotus.stop() == 0
    bound("after")
    assert '/after"' not in herodotus.output()
    assert '/before"' not in herodotus.output()
