"""A kube-scheduler that emulates an older version: its feature gates, and how Herodotus finds its version."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.engine.rules.feature_gates import FEATURE_GATES
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, node, pod
from tests.e2e.real_cluster import run_api_server
from tests.e2e.real_scheduler import GateSettings, KubeScheduler
from tests.processes import ROOT, Process, eventually, free_port, python
from tests.scheduler.spools import read_decisions
from tests.support.local_mode import ask_locally

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Json = dict[str, Any]
NOT_FOUND = "NO kube-scheduler EMULATES A VERSION: none beside etcd and kube-apiserver"
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
PODS, SYSTEM_PODS = (f"/api/v1/namespaces/{namespace}/pods" for namespace in ("default", "kube-system"))
CANDIDATES = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
COORDINATED = ("--feature-gates=CoordinatedLeaderElection=true", "--runtime-config=coordination.k8s.io/v1beta1=true")


def find_binaries() -> Path:
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip(NOT_FOUND)
    return binaries


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run an API server that elects leaders among LeaseCandidates, with a node and a pending pod."""
    with run_api_server(find_binaries(), tmp_path_factory.mktemp("real"), *COORDINATED) as cluster:
        cluster.create("/api/v1/nodes", node("n1"))
        cluster.create(PODS, pod("web", scheduler="default-scheduler"))
        yield cluster


@pytest.mark.parametrize(
    ("emulated", "column"), [("", "v1.36"), *((f"1.{minor}", f"emulated 1.{minor}") for minor in (33, 34, 35))]
)
def test_effective_gates_are_those_of_the_table(real: Cluster, tmp_path: Path, emulated: str, column: str) -> None:
    settings = GateSettings(emulated=emulated)
    scheduler = KubeScheduler(find_binaries() / "kube-scheduler", real.kubeconfig, CONFIGURATION, tmp_path, settings)
    try:
        effective = scheduler.read_feature_gates()
    finally:
        scheduler.stop()
    with (ROOT / "tests/golden/gates.tsv").open(newline="") as file:
        recorded = {row["gate"]: row[column] for row in csv.DictReader(file, delimiter="\t")}
    assert effective == {gate: value == "on" for gate, value in recorded.items() if value != "-"}
    declared = {gate.name: settings.rules.enabled(gate.name) for gate in FEATURE_GATES}
    assert {name: effective.get(name, False) for name in declared} == declared


@contextmanager
def run_scheduler_pod(cluster: Cluster, version: str, *flags: str) -> Iterator[None]:
    """Let the cluster have a pod of kube-scheduler, as kubeadm creates it, while the block runs."""
    container = {
        "name": "kube-scheduler",
        "image": f"registry.k8s.io/kube-scheduler:{version}",
        "command": ["kube-scheduler", *flags],
    }
    metadata = {"name": "kube-scheduler-n1", "labels": {"component": "kube-scheduler", "tier": "control-plane"}}
    cluster.create(SYSTEM_PODS, {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [container]}})
    try:
        yield
    finally:
        cluster.delete(f"{SYSTEM_PODS}/kube-scheduler-n1")


@contextmanager
def run_candidate(cluster: Cluster, directory: Path, emulated: str) -> Iterator[None]:
    """Run a kube-scheduler that is a candidate of coordinated leader election while the block runs."""
    config = directory / "kube-scheduler.yaml"
    config.write_text(yaml.safe_dump({**CONFIGURATION, "clientConnection": {"kubeconfig": str(cluster.kubeconfig)}}))
    process = Process(
        "kube-scheduler",
        [
            str(find_binaries() / "kube-scheduler"),
            f"--config={config}",
            *("--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={directory / 'certs'}"),
            *("--leader-elect=true", COORDINATED[0], f"--emulated-version={emulated}"),
        ],
        directory / "kube-scheduler.log",
    )
    try:
        eventually(lambda: cluster.items(CANDIDATES), "the candidate")
        yield
    finally:
        process.stop()
        cluster.delete_all(CANDIDATES)


def ask_for_rules(cluster: Cluster) -> tuple[str, str, str]:
    """Return what local mode says about its rules: on stderr, and the two fields of the answer."""
    answer = ask_locally(cluster.kubeconfig, "pod", "web")
    attempt = answer.document["attempt"]
    rules = answer.notes.partition("with kube-scheduler ")[2].partition("\n")[0]
    return rules, attempt["rules"], attempt["rulesSource"]


def test_beside_no_scheduler_the_rules_are_those_of_the_api_server(real: Cluster) -> None:
    assert ask_for_rules(real) == ("v1.36.2 rules; default profile assumed", "v1.36.2", "api-server")


def test_beside_a_pod_of_kube_scheduler_the_rules_are_those_of_its_image(real: Cluster) -> None:
    with run_scheduler_pod(real, "v1.34.2"):
        assert ask_for_rules(real) == ("v1.34.2 rules; its default profile", "v1.34.2", "scheduler-image")


def test_the_version_that_a_command_line_emulates_sets_the_gates(real: Cluster) -> None:
    with run_scheduler_pod(real, "v1.36.2", "--emulated-version=1.34"):
        rules = "v1.36.2 (emulating v1.34)"
        assert ask_for_rules(real) == ("v1.34 rules; its default profile", rules, "scheduler-image")


def test_beside_a_candidate_the_rules_are_those_of_its_versions(real: Cluster, tmp_path: Path) -> None:
    with run_candidate(real, tmp_path, "1.34"):
        rules = "v1.36.2 (emulating v1.34)"
        assert ask_for_rules(real) == ("v1.34 rules; default profile assumed", rules, "lease-candidate")


def test_an_observer_beside_a_control_plane_that_emulates_a_version_says_so_in_its_records(tmp_path: Path) -> None:
    binaries, emulated = find_binaries(), "--emulated-version=1.33"
    with run_api_server(binaries, tmp_path, emulated) as cluster, run_scheduler_pod(cluster, "v1.36.2", emulated):
        cluster.create_all("/api/v1/nodes", [node(f"n{i}") for i in (1, 2)])
        spool = tmp_path / "spool"
        observer = Process(
            "observer",
            python(
                *("scheduler", "observe", "--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0"),
                *("--endpoint", "http://127.0.0.1:9", "--spool", str(spool), "--v", "3"),
            ),
            tmp_path / "observer.log",
        )
        observer.wait_for("Everything was listed")
        settings = GateSettings(emulated="1.33")
        theirs = KubeScheduler(
            binaries / "kube-scheduler", cluster.kubeconfig, CONFIGURATION, tmp_path / "theirs", settings
        )
        try:
            cluster.create_all(
                PODS, [pod("fits", scheduler="default-scheduler"), pod("huge", "64", "default-scheduler")]
            )
            rules = ("v1.36.2 (emulating v1.33)", "scheduler-image")
            eventually(lambda: read_decisions(spool).keys() == {"fits", "huge"}, "a record of each pod")
            for decision in read_decisions(spool).values():
                assert (decision.scheduler.rules, decision.scheduler.rules_source) == rules
        finally:
            theirs.stop()
            observer.stop()
