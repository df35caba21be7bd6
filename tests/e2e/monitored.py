"""A cluster with kube-scheduler, Herodotus and an observer, all scraped by a real Prometheus."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, Herodotus, node, pod
from tests.e2e.real_cluster import NOT_FOUND, run_api_server
from tests.e2e.real_scheduler import KubeScheduler
from tests.processes import Process, eventually, free_port, python

Json = dict[str, Any]

PROMETHEUS = shutil.which("prometheus")
THEIRS = "default-scheduler"
NAMESPACE = "shop"
CLUSTER = "e2e"  # label `cluster` of every target, as kubernetes-mixin expects it of several clusters
OURS_JOB, THEIRS_JOB = "kube-scheduler", "stock-kube-scheduler"
PODS = 4  # of each scheduler, in each of two rounds
COUNTED = (  # queries that have a result once the first round was counted and scraped
    f'scheduler_pod_scheduling_sli_duration_seconds_count{{job="{OURS_JOB}"}} > 0',
    f'scheduler_pod_scheduling_sli_duration_seconds_count{{job="{THEIRS_JOB}"}} > 0',
    f'rest_client_request_duration_seconds_count{{job="{OURS_JOB}",verb="POST"}} > 0',
    "herodotus_observer_decisions_total > 0",
    'herodotus_ingest_frames_total{kind="decisions"} > 0',
)


class Monitored:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[Json]:
        """Run an instant query and return the series that have a value, NaN included."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=30.0).json()
        assert answer["status"] == "success", (expression, answer)
        return list(answer["data"]["result"])

    def numbers(self, expression: str) -> list[float]:
        """Run an instant query and return its values that are numbers."""
        return [v for series in self.query(expression) if (v := float(series["value"][1])) == v]


@contextmanager
def run_monitored(directory: Path) -> Iterator[Monitored]:
    """Run everything with some placed and some pending pods; end it with the block.

    Skip the test if a program is missing.
    """
    binaries = control_plane.assets()
    if binaries is None or not (binaries / "kube-scheduler").exists():
        pytest.skip(NOT_FOUND)
    if PROMETHEUS is None:
        pytest.skip("NOT RUN WITH A REAL PROMETHEUS: it is not on PATH")
    with ExitStack() as closing:
        cluster = closing.enter_context(run_api_server(binaries, directory))
        theirs = KubeScheduler(
            binaries / "kube-scheduler", cluster.kubeconfig, _configuration(THEIRS), directory / "theirs"
        )
        closing.callback(theirs.stop)
        port, observer_port = free_port(), free_port()
        herodotus = Herodotus(cluster, directory, flags=("--secure-port", str(port), "--bind-address", "127.0.0.1"))
        closing.callback(herodotus.stop)
        observer = _start_observer(cluster, herodotus, directory, observer_port)
        closing.callback(observer.stop)
        targets = {
            OURS_JOB: ("https", port),
            THEIRS_JOB: ("https", theirs.port),
            "observer": ("https", observer_port),
            "endpoint": ("http", int(herodotus.endpoint_url.rpartition(":")[2])),
        }
        monitored, prometheus = _start_prometheus(directory, targets)
        closing.callback(prometheus.stop)
        observer.wait_for("Everything was listed")
        cluster.create_all("/api/v1/nodes", [node(f"n{i}", cpu=str(2 + i)) for i in range(4)])
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        cluster.create("/api/v1/namespaces", namespace)
        _schedule_pods(cluster, "first")
        eventually(
            lambda: all(map(monitored.numbers, COUNTED)), "Prometheus to know what every target counts", every_s=0.5
        )
        _schedule_pods(cluster, "second")  # a series has no rate before its second value
        yield monitored


def _configuration(scheduler: str) -> Json:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return kind | {"profiles": [{"schedulerName": scheduler}]}


def _start_observer(cluster: Cluster, herodotus: Herodotus, directory: Path, port: int) -> Process:
    config = directory / "observed.yaml"
    config.write_text(yaml.safe_dump(_configuration(THEIRS)))
    return Process(
        "observer",
        python(
            *("scheduler", "observe", "--kubeconfig", str(cluster.kubeconfig), "--config", str(config)),
            *("--endpoint", herodotus.endpoint_url, "--spool", str(directory / "observed")),
            *("--bind-address", "127.0.0.1", "--secure-port", str(port), "--v", "3"),
        ),
        directory / "observer.log",
    )


def _start_prometheus(directory: Path, targets: dict[str, tuple[str, int]]) -> tuple[Monitored, Process]:
    jobs = [
        {
            "job_name": job,
            "scheme": scheme,
            "authorization": {"credentials": control_plane.TOKEN},
            "tls_config": {"insecure_skip_verify": True},
            "static_configs": [
                {
                    "targets": [f"127.0.0.1:{port}"],
                    "labels": {"cluster": CLUSTER, "namespace": "herodotus", "pod": f"{job}-0"},
                }
            ],
        }
        for job, (scheme, port) in targets.items()
    ]
    config = directory / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
    port = free_port()
    command = [
        str(PROMETHEUS),
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = Process("prometheus", command, directory / "prometheus.log")
    monitored = Monitored(f"http://127.0.0.1:{port}")

    def is_ready() -> bool:
        try:
            return httpx.get(f"{monitored.url}/-/ready").status_code == 200
        except httpx.HTTPError:
            return False

    eventually(is_ready, "Prometheus to be ready")
    return monitored, process


def _schedule_pods(cluster: Cluster, round_: str) -> None:
    """Create pods of both schedulers: some are placed, one of each stays pending."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    schedulers = {f"{round_}-ours": "herodotus-scheduler", f"{round_}-theirs": THEIRS}
    for name, scheduler in schedulers.items():
        cluster.create_all(path, [pod(f"{name}-{i}", scheduler=scheduler) for i in range(PODS)])
        cluster.create(path, pod(f"{name}-large", cpu="64", scheduler=scheduler))

    def are_bound() -> bool:
        return {f"{name}-{i}" for name in schedulers for i in range(PODS)} <= set(cluster.bound(NAMESPACE))

    eventually(are_bound, "every small pod to be bound")
    for name in schedulers:

        def is_pending(pending: str = f"{name}-large") -> bool:
            return cluster.condition(NAMESPACE, pending).get("reason") == "Unschedulable"

        eventually(is_pending, f"{name}-large to be pending")
