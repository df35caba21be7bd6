"""The log of a real kube-scheduler, in both formats, says the same as the cluster."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_record.model import Decision
from scheduler.offline.read_log.reader import LogReader
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, node, pod
from tests.e2e.real_cluster import run_api_server
from tests.e2e.real_scheduler import PROGRAM
from tests.processes import Process, eventually, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NOT_FOUND = "NO LOG OF A REAL kube-scheduler READ: no kube-scheduler beside etcd and kube-apiserver"
NO_FORMAT = "NO LOG IN {} READ: this kube-scheduler does not write it"
SCHEDULER, URGENT = "logged", "urgent"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a control plane with a priority class."""
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip(NOT_FOUND)
    with run_api_server(binaries, tmp_path_factory.mktemp("logs")) as cluster:
        urgent = {"metadata": {"name": URGENT}, "value": 1000}
        cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
        yield cluster


@pytest.fixture(params=["text", "json"])
def log_format(request: pytest.FixtureRequest, real: Cluster) -> str:
    """Return a format of the log that this build of kube-scheduler writes: one without zap writes no JSON."""
    binaries = control_plane.assets()
    assert binaries is not None
    described = subprocess.run([binaries / "kube-scheduler", "--help"], check=True, capture_output=True, text=True)
    if f'"{request.param}"' not in described.stdout.partition("Permitted formats:")[2].partition("\n")[0]:
        pytest.skip(NO_FORMAT.format(request.param))
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["asynchronous preemption", "preemption within the attempt"])
def kube_scheduler(
    request: pytest.FixtureRequest, real: Cluster, log_format: str, tmp_path: Path
) -> Iterator[tuple[Process, str]]:
    """Run kube-scheduler with -v=10 on an empty cluster; return it and the namespace for its pods."""
    binaries = control_plane.assets()
    assert binaries is not None
    real.delete_all("/api/v1/nodes")
    namespace = f"logged-{uuid.uuid4().hex[:8]}"
    real.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    labelled = node(f"{namespace}-labelled", cpu="2", labels={ZONE: "a"})
    real.create_all("/api/v1/nodes", [labelled, node(f"{namespace}-unlabelled", cpu="8")])
    config = tmp_path / "config.yaml"
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    connection = {"clientConnection": {"kubeconfig": str(real.kubeconfig)}, "leaderElection": {"leaderElect": False}}
    config.write_text(yaml.safe_dump(kind | connection | {"profiles": [{"schedulerName": SCHEDULER}]}))
    process = Process(
        "kube-scheduler",
        [
            str(binaries / "kube-scheduler"),
            f"--config={config}",
            *("--bind-address=127.0.0.1", f"--secure-port={free_port()}", f"--cert-dir={tmp_path / 'certs'}"),
            *("-v=10", f"--logging-format={log_format}"),
            f"--feature-gates=SchedulerAsyncPreemption={str(request.param).lower()}",
        ],
        tmp_path / "kube-scheduler.log",
    )
    yield process, namespace
    process.stop()


def test_a_real_log_says_what_the_cluster_says(real: Cluster, kube_scheduler: tuple[Process, str]) -> None:
    process, namespace = kube_scheduler
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def place(name: str, **spec: Any) -> None:
        def has_node() -> bool:
            assert process.running, process.output()[-2000:]
            return name in real.bound(namespace)

        real.create(pods, pod(name, scheduler=SCHEDULER, terminationGracePeriodSeconds=0, **spec))
        eventually(has_node, f"{name} to have a node")

    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    constraint |= {"labelSelector": {"matchLabels": {"app": "e2e"}}}
    place("scored")
    place("spread", cpu="1900m", topologySpreadConstraints=[constraint])
    place("preempts", cpu="1900m", priorityClassName=URGENT, nodeSelector={ZONE: "a"})
    events = eventually(lambda: real.events(namespace, "preempts", "FailedScheduling"), "the event of the failure")
    process.stop()

    reader = LogReader()
    found: dict[str, list[Decision]] = {}
    for read in reader.all(process.output().splitlines()):
        assert read.decision.scheduler.version == str(PROGRAM)
        found.setdefault(read.decision.pod.name, []).append(read.decision)
    chosen = {name: decisions[-1].chosen for name, decisions in found.items()}
    for name, bound in real.bound(namespace).items():
        slot = chosen[name]
        assert slot is not None
        assert reader.nodes.names[slot] == bound["spec"]["nodeName"], name
    (scored,), (spread,), failed = found["scored"], found["spread"], found["preempts"][0]
    assert (scored.nodes_evaluated, scored.nodes_feasible) == (2, 2)
    assert {column.plugin for column in scored.scores} >= {"NodeResourcesFit", "TaintToleration"}
    assert [column.plugin for column in spread.filters] == ["PodTopologySpread"]
    assert failed.message == events[0]["note"]
    assert failed.preemption is not None
    preemption = failed.preemption.nominated_node, failed.preemption.candidates[0].victims
    assert preemption == (f"{namespace}-labelled", (f"{namespace}/spread",))
    assert [note.code for note in failed.notes if note.code.startswith("log-victims")] == []
