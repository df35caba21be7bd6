"""A real control plane with kube-scheduler and some of kube-controller-manager's controllers.

Pods are bound and nothing runs: a test that needs running pods plays the kubelets (`kubelets`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import yaml

from tests.e2e import control_plane
from tests.e2e.cluster import Cluster
from tests.e2e.real_scheduler import format_gates
from tests.processes import Process, free_port

NOT_FOUND = "NOT JUDGED BY A REAL kube-scheduler: it or kube-controller-manager is not beside kube-apiserver"


@contextmanager
def run_api_server(binaries: Path, directory: Path, *flags: str) -> Iterator[Cluster]:
    """Run etcd and kube-apiserver with further flags of kube-apiserver, and end them with the block."""
    plane = control_plane.ControlPlane(binaries, directory, *flags)
    try:
        plane.wait_until_ready()
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(plane.kubeconfig()))
        cluster = Cluster("real", plane.url, {"Authorization": f"Bearer {control_plane.TOKEN}"}, kubeconfig)
        yield cluster
        cluster.close()
    finally:
        plane.stop()


@contextmanager
def run_real_cluster(
    directory: Path, controllers: Sequence[str], *flags: str, gates: Mapping[str, bool] | None = None
) -> Iterator[Cluster]:
    """Run etcd, kube-apiserver, kube-scheduler and these controllers, such as `deployment`; end them with the block.

    `flags` are further flags of kube-apiserver, `gates` the feature gates of kube-apiserver and kube-scheduler. Without
    controllers, a test may run them for a while (`run_controllers`). Skips the test if one of the programs is missing.
    """
    binaries = control_plane.assets()
    programs = ("kube-scheduler", "kube-controller-manager")
    if binaries is None or not all((binaries / program).exists() for program in programs):
        pytest.skip(NOT_FOUND)
    gate_flags = [f"--feature-gates={format_gates(gates)}"] if gates else []
    with run_api_server(binaries, directory, *gate_flags, *flags) as cluster:
        scheduler = _start_scheduler(binaries, directory, cluster.kubeconfig, gate_flags)
        try:
            with run_controllers(directory, cluster, controllers) if controllers else nullcontext():
                yield cluster
        finally:
            scheduler.kill()


@contextmanager
def run_controllers(directory: Path, cluster: Cluster, controllers: Sequence[str]) -> Iterator[None]:
    """Run kube-controller-manager with these controllers during the block."""
    binaries = control_plane.assets()
    assert binaries is not None  # the cluster runs
    command = [str(binaries / "kube-controller-manager"), f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false"]
    command += [f"--controllers={','.join(f'{name}-controller' for name in controllers)}", "--secure-port=0"]
    command += ["--kube-api-qps=200", "--kube-api-burst=400"]
    process = Process("kube-controller-manager", command, directory / "controllers.log")
    try:
        yield
    finally:
        process.kill()


def _start_scheduler(binaries: Path, directory: Path, kubeconfig: Path, flags: Sequence[str]) -> Process:
    """Start kube-scheduler with further flags."""
    config = directory / "scheduler.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
                "leaderElection": {"leaderElect": False},
                "podMaxBackoffSeconds": 1,
            }
        )
    )
    port = ("--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={directory / 'certs-s'}")
    command = [str(binaries / "kube-scheduler"), f"--config={config}", "-v=3", *port, *flags]
    return Process("kube-scheduler", command, directory / "scheduler.log")
