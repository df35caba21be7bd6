"""The scripts of docs/examples ask a decisions service: three plot its answers, one writes them into a status."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest

from herodotus_client import Client
from herodotus_sim import SimulatedCluster
from tests.builders import bound
from tests.endpoint.service import Service, a_service, rows
from tests.processes import ROOT
from tests.sim.client import SimClient, a_pod
from tests.support.client_records import NOWHERE, POINTS, TABLE, decided
from tests.support.example_operator import HEADLINE, WAITS, a_recorded_service, load_example, report_pods

EXAMPLES = ROOT / "docs/examples"
PLUGINS = {"fragmentation_score"}  # tested with the simulation
SCRIPTS = {
    "pending_reasons": [],
    "placement_balance": ["--hours", "1000000"],
    "score_distributions": ["shop", "web-1"],
}
NO_MATPLOTLIB = "error: this example plots with matplotlib, which is not installed: pip install matplotlib"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = a_service(tmp_path)
    placed, other, waits = (
        decided("web-1", 1, points=POINTS),
        decided("web-3", 3, points=POINTS),
        decided("web-2", 5, rejected=NOWHERE),
    )
    outcomes = bound(placed, TABLE, sequence=2), bound(other, TABLE, sequence=4)
    made.stored(rows(TABLE), placed, outcomes[0], other, outcomes[1], waits)
    yield made
    made.store.close()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client("http://service.test", transport=httpx.WSGITransport(service.client.application)) as made:
        yield made


def test_every_script_is_tested() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {*SCRIPTS, *PLUGINS, "report_reason"}


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_writes_a_picture(service: Service, tmp_path: Path, name: str) -> None:
    picture = tmp_path / "plot.png"
    with make_server("127.0.0.1", 0, service.client.application, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            command = [sys.executable, str(EXAMPLES / f"{name}.py"), url, *SCRIPTS[name], "--output", str(picture)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)
        finally:
            server.shutdown()
            thread.join()
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(PNG)


def test_reasons_have_a_bar_each(client: Client) -> None:
    (axes,) = load_example("pending_reasons").plot(client, "shop").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["nodes have too little cpu"]
    assert [bar.get_width() for bar in axes.patches] == [1]


def test_balance_plots_placements_over_time_and_by_node(client: Client) -> None:
    over_time, by_node = load_example("placement_balance").plot(client, 1_000_000).axes
    placed, most = (line.get_ydata() for line in over_time.lines)
    assert sum(placed) == 2
    assert all(most <= placed)
    assert [bar.get_height() for bar in by_node.patches] == [2, 0, 0]


def test_scores_have_a_box_for_each_plugin_and_a_point_for_the_chosen_node(client: Client) -> None:
    (axes,) = load_example("score_distributions").plot(client, "shop", "web-1").axes
    plugins = [label.get_text() for label in axes.get_yticklabels()]
    (chosen,) = (line for line in axes.lines if line.get_label() == "chosen: worker-2")
    assert dict(zip(plugins, chosen.get_xdata(), strict=True))["NodeResourcesFit"] == 90


def test_a_pod_without_scores_is_refused_with_the_reason(client: Client) -> None:
    with pytest.raises(ValueError, match="no node was scored for shop/web-2"):
        load_example("score_distributions").plot(client, "shop", "web-2")


def test_operator_writes_the_reason_into_the_status_of_its_object(tmp_path: Path) -> None:
    """The simulated API server has no custom resources: Jobs stand in for the objects."""
    cluster, service = SimulatedCluster().start(), a_recorded_service(tmp_path)
    api, job = SimClient(cluster), "/apis/batch/v1/namespaces/shop/jobs"
    try:
        api("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
        template = {"spec": a_pod("any", restartPolicy="Never")["spec"]}
        code, owner = api("POST", job, document | {"spec": {"template": template}})
        assert code == 201, owner
        ready = {"type": "Ready", "status": "True"}
        api("PATCH", f"{job}/train/status", {"status": {"conditions": [ready]}}, "application/merge-patch+json")
        for name in (WAITS, "not-decided", "of-another"):
            pod = a_pod(name)
            if name != "of-another":
                reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}
                pod["metadata"]["ownerReferences"] = [reference | {"uid": owner["metadata"]["uid"]}]
            api("POST", "/api/v1/namespaces/shop/pods", pod)

        def conditions(*events: tuple[str, str]) -> list[Any]:
            report_pods(cluster.write_kubeconfig(tmp_path / "kubeconfig"), service, "jobs.v1.batch", [*events])
            return [without_time(c) for c in api("GET", f"{job}/train")[1]["status"]["conditions"]]

        waits = {"type": "Scheduled", "status": "False", "reason": "Insufficient", "message": HEADLINE}
        placed = {"type": "Scheduled", "status": "True", "reason": "Placed", "message": "Every pod has a node."}
        assert conditions(("ADDED", "of-another"), ("ADDED", "not-decided")) == [ready]
        assert conditions(("ADDED", WAITS), ("MODIFIED", WAITS)) == [ready, waits]
        assert conditions(("ADDED", WAITS), ("ADDED", "not-decided"), ("DELETED", "not-decided")) == [ready, waits]
        assert conditions(("ADDED", WAITS), ("DELETED", WAITS)) == [ready, placed]
    finally:
        cluster.stop()
        service.store.close()


def without_time(condition: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in condition.items() if key != "lastTransitionTime"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_matplotlib_a_script_says_what_to_install(tmp_path: Path, name: str) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not installed')\n")
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "http://127.0.0.1:1"]
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"{NO_MATPLOTLIB}\n")
