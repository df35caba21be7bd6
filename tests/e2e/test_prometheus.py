"""With a real Prometheus and real node exporters: measurements reach nodes, scores and records.

There are two nodes: `busy` is this machine, `quiet` one whose figures never change (an exporter of copies of /proc).
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from herodotus_agents.command_line import main
from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, node, pod
from tests.processes import Process, eventually, free_port

PROMETHEUS, EXPORTER = shutil.which("prometheus"), shutil.which("prometheus-node-exporter")

pytestmark = [
    pytest.mark.skipif(
        PROMETHEUS is None or EXPORTER is None,
        reason="NOT RUN WITH A REAL PROMETHEUS: no prometheus and prometheus-node-exporter on PATH",
    ),
]

ADDRESSES = {"busy": "127.0.0.1", "quiet": "127.0.0.2"}
NAMES = "node_uname_info"  # the metric that carries them
Scores = dict[str, dict[str, int]]
COLLECTORS = ("netdev", "uname", "cpu", "meminfo")


@dataclass
class Measured:
    """A running Prometheus that scrapes both exporters."""

    url: str
    exporter_port: int
    process: Process

    def ask(self, query: str) -> dict[str, float]:
        """Run a query and return its values by the label `nodename`."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}).json()
        return {r["metric"].get("nodename", ""): float(r["value"][1]) for r in answer["data"]["result"]}


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Measured]:
    frozen = tmp_path / "proc"
    for file in ("stat", "meminfo", "net/dev", "cpuinfo"):
        copy = frozen / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(Path("/proc", file).read_bytes())
    port = free_port()
    proc = {"busy": "/proc", "quiet": str(frozen)}
    started = [
        Process(
            f"exporter of {name}",
            [
                str(EXPORTER),
                f"--web.listen-address={address}:{port}",
                f"--path.procfs={proc[name]}",
                "--collector.disable-defaults",
                "--no-collector.netdev.netlink",
                "--collector.netdev.device-exclude=^none$",  # some builds leave out lo
                *(f"--collector.{collector}" for collector in COLLECTORS),
            ],
            tmp_path / f"exporter-{name}.log",
        )
        for name, address in ADDRESSES.items()
    ]
    own_port = free_port()
    started.append(_prometheus(tmp_path, port, own_port))
    running = Measured(f"http://127.0.0.1:{own_port}", port, started[-1])
    try:
        eventually(lambda: _ready(running), "Prometheus to have both nodes", 60)
        yield running
    finally:
        for process in started:
            process.stop()


def _prometheus(directory: Path, exporters: int, port: int) -> Process:
    named = [
        {
            "source_labels": ["__name__", "instance"],
            "regex": f"node_uname_info;{address}:.*",
            "target_label": "nodename",
            "replacement": name,
        }
        for name, address in ADDRESSES.items()
    ]
    job = {
        "job_name": "nodes",
        "static_configs": [{"targets": [f"{address}:{exporters}" for address in ADDRESSES.values()]}],
        "metric_relabel_configs": named,
    }
    config = directory / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    command = [
        str(PROMETHEUS),
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    return Process("prometheus", command, directory / "prometheus.log")


def _ready(measured: Measured) -> bool:
    try:
        received = "rate(node_network_receive_bytes_total{device='lo'}[1m])"
        rates = measured.ask(f"{received} * on(instance) group_left(nodename) {NAMES}")
    except (httpx.HTTPError, ValueError):  # not up yet
        return False
    return rates.keys() == ADDRESSES.keys()


@pytest.fixture
def loopback() -> Iterator[None]:
    """Send traffic over the loopback device until the test ends."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def receive() -> None:
            connection, _ = server.accept()
            with connection:
                while connection.recv(1 << 16):
                    pass

        def send() -> None:
            with socket.create_connection(server.getsockname()) as connection:
                while not done.wait(0.01):
                    connection.sendall(bytes(1 << 16))

        threads = [threading.Thread(target=work) for work in (receive, send)]
        for thread in threads:
            thread.start()
        yield
        done.set()
        for thread in threads:
            thread.join()


def nodes(cluster: Cluster) -> None:
    for name, address in ADDRESSES.items():
        made = node(name)
        made["status"]["addresses"] = [{"type": "InternalIP", "address": address}]
        cluster.create("/api/v1/nodes", made)
        if cluster.kind == "real":  # the status of a new object is not taken from the request
            cluster.patch(f"/api/v1/nodes/{name}/status", {"status": made["status"]})


def network_traffic(url: str, **args: Any) -> dict[str, Any]:
    plugins = {
        "preScore": {"enabled": [{"name": "NetworkTraffic"}]},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NetworkTraffic"}]},
    }
    given = {"ip": url, "deviceName": "lo", "timeRange": 1, "refreshSeconds": 1, **args}
    config = [{"name": "NetworkTraffic", "args": given}]
    return {"profiles": [{"schedulerName": SCHEDULER, "plugins": plugins, "pluginConfig": config}]}


@pytest.mark.usefixtures("loopback")
def test_replicas_prefer_the_quiet_node_and_are_placed_without_prometheus_too(
    cluster: Cluster, namespace: str, measured: Measured, tmp_path: Path
) -> None:
    nodes(cluster)
    running = Herodotus(cluster, tmp_path, **network_traffic(measured.url, maxAgeSeconds=4))
    try:

        def scored() -> tuple[str, Scores] | None:
            """Return the node and scores of a new pod once Prometheus knows the traffic, else None."""
            node, scores, notes = _placed(running, cluster, namespace)
            return (node, scores) if not _unanswered(notes) and scores["busy"].get("raw", 0) > 10_000 else None

        for _ in range(2):
            node, scores = eventually(scored, "a pod whose nodes were scored by their traffic", every_s=0.5)
            assert node == "quiet"
            assert scores["busy"]["normalized"] == 0
            assert scores["quiet"] == {"raw": 0, "normalized": 100, "weighted": 100}
        measured.process.kill()
        eventually(
            lambda: _unanswered(_placed(running, cluster, namespace)[2]),
            "a record that says why nothing was scored",
            every_s=0.5,
        )
    finally:
        running.stop()


def _placed(running: Herodotus, cluster: Cluster, namespace: str) -> tuple[str, Scores, list[str]]:
    """Create one more pod; return its node, and from its record the plugin's scores by node and the notes."""
    name = f"nginx-{os.urandom(3).hex()}"
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod(name, cpu="1m"))
    bound = eventually(lambda: cluster.bound(namespace).get(name), "the pod to be bound")
    eventually(lambda: name in {d["spec"]["pod"]["name"] for d in running.decisions(namespace)}, "the decision")
    record = running.explanation(namespace, name, all="true")
    scores = {row["node"]: row["scores"].get("NetworkTraffic", {}) for row in record["ranking"]}
    assert all(source["source"].startswith("Prometheus: rate(node_network") for source in record["inputs"])
    for row in record["ranking"]:
        for told in row.get("inputs", []):  # none where nothing was scored
            if told["values"]["received"] is not None:  # Prometheus may have no series yet
                assert told["measuredAt"] is not None
                assert told["values"]["received"] == pytest.approx(scores[row["node"]]["raw"], abs=1)  # which is cut
    return bound["spec"]["nodeName"], scores, record["notes"]


def _unanswered(notes: list[str]) -> bool:
    """Return whether a record says that Prometheus did not answer."""
    return any(note.startswith("NetworkTraffic: ") and "answer of Prometheus" in note for note in notes)


def test_the_usage_annotator_writes_the_measured_values(
    cluster: Cluster, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes(cluster)
    for key, value in {
        "NODE_EXP_PORT": str(measured.exporter_port),
        "RATE_SECONDS": "60",
        "CPU_WINDOW_SECONDS": "10",
        "MEMORY_WINDOW_SECONDS": "10",
    }.items():
        monkeypatch.setenv(key, value)
    where = ["--kubeconfig", str(cluster.kubeconfig), "--prometheus", measured.url]
    assert main(["annotate", "usage", "--once", *where]) == 0
    written = {name: cluster.get(f"/api/v1/nodes/{name}")["metadata"]["annotations"] for name in ADDRESSES}
    keys = {f"{statistic}-free-{resource}" for statistic in ("mean", "std") for resource in ("cpu", "memory")}
    assert all(keys <= found.keys() for found in written.values())
    least, most = (
        measured.ask(f"{f}_over_time(node_memory_MemAvailable_bytes[5m]) * on(instance) group_left(nodename) {NAMES}")
        for f in ("min", "max")
    )
    assert least["busy"] - 1 <= float(written["busy"]["mean-free-memory"]) <= most["busy"] + 1
    assert written["quiet"]["std-free-memory"] == written["quiet"]["mean-free-cpu"] == "0"  # nothing moves there
