"""The in-process door, files, and the command line."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from herodotus_sim import SimulatedCluster, StatusError
from herodotus_sim.files import FileError, read_file
from tests.sim.client import a_node, a_pod, select_keys

ROOT = Path(__file__).parents[2]
OBJECTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi}}
---
# nothing here
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: team-a}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: l}
spec: {renewTime: 2026-01-02T03:04:05.000006Z}
"""


def test_objects_are_the_same_in_process_and_over_http() -> None:
    with SimulatedCluster(objects=[a_node("n1"), a_pod("web", labels={"a": "b"})]) as sim:
        pod = sim.get("po", "default", "web")
        with urllib.request.urlopen(f"{sim.url}/api/v1/namespaces/default/pods/web") as answer:
            assert json.load(answer) == pod
        pod["status"] = {"phase": "Running"}
        assert sim.update(pod)["status"] == {"phase": "Running"}
        sim.patch("Pod", "default", "web", {"metadata": {"labels": {"a": "c"}}})
        assert [p["metadata"]["labels"] for p in sim.list("pods", labels="a=c")] == [{"a": "c"}]
        sim.delete("Pod", "default", "web")
        with pytest.raises(StatusError, match='pods "web" not found'):
            sim.get("Pod", "default", "web")


def test_returned_objects_are_copies() -> None:
    sim = SimulatedCluster(objects=[a_pod("web")])
    before = sim.get("Pod", "default", "web")
    sim.get("Pod", "default", "web")["spec"].clear()
    assert sim.get("Pod", "default", "web") == before


def test_a_seeded_pod_keeps_its_status_and_a_seeded_node_becomes_ready() -> None:
    running = {**a_pod("web", nodeName="n1"), "status": {"phase": "Running"}}
    sim = SimulatedCluster(objects=[running, a_node("n1", allocatable={"cpu": "4"})])
    node = sim.get("Node", "", "n1")["status"]
    wanted = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    assert sim.get("Pod", "default", "web")["status"] == {"phase": "Running"}
    assert (node["capacity"], [select_keys(c, wanted) for c in node["conditions"]]) == ({"cpu": "4"}, [wanted])


def test_a_kind_outside_the_table_is_an_error() -> None:
    with pytest.raises(KeyError, match="batch/v2 CronJob is not in the table of supported kinds"):
        SimulatedCluster(objects=[{"apiVersion": "batch/v2", "kind": "CronJob", "metadata": {"name": "j"}}])


def test_files_hold_many_documents_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(OBJECTS)
    objects = read_file(path)
    assert [o["kind"] for o in objects] == ["Node", "Pod", "Lease"]
    assert objects[2]["spec"] == {"renewTime": "2026-01-02T03:04:05.000006Z"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "while parsing", id="broken"),
        pytest.param("- a", "a document is no object", id="no object"),
        pytest.param("{apiVersion: v1, kind: Widget}", "v1 Widget is not in the table", id="unknown kind"),
    ],
)
def test_an_invalid_file_is_named_in_the_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    with pytest.raises(FileError, match=message) as refused:
        read_file(path)
    assert str(path) in str(refused.value)


def run(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "herodotus_sim", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_files_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    config = tmp_path / "kubeconfig"
    with run("--port", "0", str(tmp_path / "objects.yaml"), "--write-kubeconfig", str(config)) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.removeprefix("The simulated API server listens on ").strip()
        with urllib.request.urlopen(f"{url}/api/v1/namespaces/team-a/pods") as answer:
            assert [p["metadata"]["name"] for p in json.load(answer)["items"]] == ["web"]
        assert url in config.read_text()
        os.kill(process.pid, number)
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output, errors) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["--host", "0.0.0.0"],
            "herodotus_sim: 0.0.0.0 is not a loopback address; the simulated API server has no authentication\n",
            id="open to others",
        ),
        pytest.param(["none.yaml"], "herodotus_sim: none.yaml: No such file or directory\n", id="no file"),
    ],
)
def test_invalid_arguments_give_one_line(arguments: list[str], message: str) -> None:
    with run(*arguments) as process:
        output, errors = process.communicate(timeout=60)
        assert (process.returncode, output, errors) == (1, "", message)
