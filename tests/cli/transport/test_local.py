"""Local mode from the command line: a simulated cluster without a decisions service, and a real kubectl."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from herodotus_sim import SimulatedCluster
from tests.processes import ROOT, eventually

Json = dict[str, Any]


def manifests() -> list[tuple[str, Json]]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    nodes = [{"metadata": {"name": f"worker-{i}"}, "status": {"allocatable": amounts}} for i in (1, 2)]

    def pod(name: str, cpu: str) -> Json:
        container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        return {"metadata": {"name": name}, "spec": {"containers": [container], "schedulerName": "default-scheduler"}}

    pods = [pod("fits", "1"), pod("huge", "40")]
    return [("/api/v1/nodes", n) for n in nodes] + [("/api/v1/namespaces/default/pods", p) for p in pods]


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Run a cluster with two nodes and two pending pods, and return the environment of a plugin that uses it."""
    import httpx

    sim = SimulatedCluster().start()
    try:
        for path, manifest in manifests():
            assert httpx.post(sim.url + path, json=manifest).status_code == 201
        kubectl = Path(sys.executable).with_name("kubectl")
        folder = tmp_path / "tmp"
        folder.mkdir()
        yield {
            "KUBECONFIG": str(sim.write_kubeconfig(tmp_path / "kubeconfig")),
            "KUBECTL_PATH": str(kubectl),
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "TMPDIR": str(folder),
        }
    finally:
        sim.stop()


def run(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "herodotus_cli", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)


HEADER = "evaluated now with kube-scheduler v1.36.0 rules; default profile assumed"


def test_a_cluster_without_a_service_is_evaluated(environ: dict[str, str]) -> None:
    done = run(environ, "pending", "-A", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [HEADER]
    reasons = {pod["pod"]: pod["reason"] for pod in json.loads(done.stdout)["pods"]}
    assert reasons == {"fits": "fits now; default-scheduler has not placed it yet", "huge": "nodes have too little cpu"}


def test_the_screen_of_a_pod_says_that_it_was_evaluated(environ: dict[str, str]) -> None:
    done = run(environ, "pod", "huge", "--local")
    assert re.match(r"huge \(default\)  Pending \S+, evaluated now\n", done.stdout), done.stdout + done.stderr
    assert "cpu: requests 40; free 4 of 4)" in done.stdout


def test_lists_of_evaluated_pods_show_no_attempts(environ: dict[str, str]) -> None:
    done = run(environ, "pending", "-A")
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == ["POD", "default/fits", "default/huge"]
    assert done.stdout.splitlines()[2].split() == ["POD", "AGE", "REASON"]
    of_node = run(environ, "node", "worker-1").stdout.splitlines()
    assert of_node[0] == "worker-1  evaluated now, for its pods and the pending ones"
    assert of_node[1].startswith("Now not ready. Requested: 0 pods of 110")
    evaluated = r"Evaluated for \d+ pods: feasible for \d+ \(\d+%\), runs \d+\."
    assert any(re.fullmatch(evaluated, line) for line in of_node)


def test_an_unknown_pod_is_not_found(environ: dict[str, str]) -> None:
    done = run(environ, "pod", "hug", "--local")
    assert done.returncode == 1
    assert 'Error from server (NotFound): pods "hug" not found among the pods that have not ended' in done.stderr
    assert "  similar: huge" in done.stderr


def test_the_past_needs_an_observer(environ: dict[str, str]) -> None:
    done = run(environ, "pod", "huge", "--attempts")
    assert done.returncode == 1
    assert "error: this question needs past decisions, and nothing records them in this cluster" in done.stderr


def test_local_mode_has_no_past_decisions(environ: dict[str, str]) -> None:
    past = run(environ, "pod", "huge", "--attempts", "--local").stderr
    assert past.startswith("error: this question needs past decisions, and local mode has none\n")
    watched = run(environ, "watch", "-A", "--local")
    assert (watched.returncode, watched.stdout) == (1, "")  # no header of a table before the error


def test_nothing_is_left_behind(environ: dict[str, str]) -> None:
    run(environ, "pending", "-A")
    run(environ, "pod", "hug", "--local")
    assert os.listdir(environ["TMPDIR"]) == []

    def processes() -> list[str]:
        lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in lines if environ["TMPDIR"] in line]

    eventually(lambda: not processes(), "kubectl proxy to end")


def test_a_missing_engine_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    """The plugin alone, as its own wheel has it: no other package of the project can be imported."""
    alone = tmp_path / "plugin"
    alone.mkdir()
    for package in ("herodotus_answers", "herodotus_cli", "herodotus_client", "herodotus_record"):
        (alone / package).symlink_to(ROOT / package)
    command = [sys.executable, "-P", "-c", _ALONE, str(alone)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=alone, timeout=60, check=False)
    assert done.returncode == 1
    install = f"{sys.executable} -m pip install 'kubectl-herodotus[local]'"
    assert f"to evaluate the cluster from here, without any service: {install}" in done.stderr


_ALONE = """
import sys
sys.path[:] = [sys.argv[1], *(p for p in sys.path if "site-packages" in p or "lib/python" in p)]
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__ + getattr(f, "__module__", "")]
sys.argv = ["kubectl-herodotus", "pending", "-A"]
from herodotus_cli.main import main
main()
"""


POOL_LABEL = "eks.amazonaws.com/nodegroup"


def add_group(environ: dict[str, str]) -> None:
    """Make the two nodes a group, and fill worker-1 so that another pod waits."""
    kubectl = environ["KUBECTL_PATH"]
    for name in ("worker-1", "worker-2"):
        subprocess.run(
            [kubectl, "label", "node", name, f"{POOL_LABEL}=small"], env=environ, check=True, capture_output=True
        )


def test_the_screen_of_a_pending_pod_has_a_line_about_node_groups(environ: dict[str, str]) -> None:
    add_group(environ)
    done = run(environ, "pod", "huge", "--local")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("NODE GROUPS")]
    assert line.split(None, 2)[2] == "small: does not fit (NodeResourcesFit) (--node-groups)"
    assert "NODE GROUPS" not in run(environ, "pod", "fits", "--local", "-o", "json").stdout


def test_node_groups_of_a_pod_are_a_table_and_a_document(environ: dict[str, str], tmp_path: Path) -> None:
    add_group(environ)
    file = tmp_path / "groups.yaml"
    file.write_text("nodeGroups:\n- {name: big, allocatable: {cpu: 64, memory: 64Gi, pods: 110}}\n")
    words = ("pod", "huge", "--local", "--node-groups", "--node-groups-file", str(file))
    screen = run(environ, *words).stdout
    assert "default/huge: 1 of 2 node groups fits: big." in screen
    assert "fix: lower the cpu request of container app from 40 to 4" in screen
    document = json.loads(run(environ, *words, "-o", "json").stdout)
    verdicts = document["live"]["nodeGroups"]["pods"][0]["groups"]
    assert {verdict["group"]: verdict["verdict"] for verdict in verdicts} == {"big": "Fits", "small": "DoesNotFit"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pod", "huge", "--node-groups", "--attempts"), "--node-groups excludes"),
        (("pod", "huge", "--label-key", "pool"), "--node-groups-file and --label-key go with --node-groups"),
        (("pod", "--node-groups"), "--node-groups needs the name of a pod"),
    ],
)
def test_node_groups_are_a_question_of_their_own(environ: dict[str, str], words: tuple[str, ...], message: str) -> None:
    done = run(environ, *words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
