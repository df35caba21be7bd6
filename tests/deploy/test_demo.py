"""The demo as `install.sh --demo` runs it, in this environment: all pods are decided, and no crash loses a decision."""

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.processes import ROOT, eventually
from tests.support.pages import read_pages

Json = dict[str, Any]
README = ROOT / "README.md"
WITHOUT_END = {"watch", "top", "ui"}
PODS = "/api/v1/pods"
SERVICE = "/api/v1/namespaces/herodotus/services/http:herodotus-endpoint:plain-http/proxy"


class Demo:
    """The program in deploy/demo with its own state directory."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, str(ROOT / "deploy/demo/demo.py"), "--state", str(self.state), *arguments]
        env = {**os.environ, "PATH": self.path, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=250, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in a shell that sourced the demo's env file, as the demo suggests."""
        script = f'. "{self.state}/env" && exec kubectl "$@"'
        command = ["sh", "-c", script, "sh", *arguments]
        env = {"PATH": self.path, "HOME": str(self.state), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pods(self) -> list[Json]:
        items: list[Json] = httpx.get(f"{self._server}{PODS}", trust_env=False).json()["items"]
        return items

    def decisions(self) -> list[Json]:
        """Return every stored decision, newest first."""
        with httpx.Client(base_url=f"{self._server}{SERVICE}", trust_env=False) as http:
            return read_pages(http, "/decisions")

    def create_pods(self, base: str, count: int) -> None:
        for i in range(count):
            container = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "10m"}}}
            spec = {"schedulerName": "herodotus-scheduler", "containers": [container]}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{base}-{i}"}, "spec": spec}
            url = f"{self._server}/api/v1/namespaces/default/pods"
            assert httpx.post(url, json=pod, trust_env=False).status_code == 201

    @property
    def _server(self) -> str:
        config = yaml.safe_load((self.state / "kubeconfig").read_text())
        server: str = config["clusters"][0]["cluster"]["server"]
        return server


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Demo, str]]:
    """Run one demo for all tests of this file, in order; stop its processes in any case."""
    demo = Demo(tmp_path_factory.mktemp("demo") / "state")
    try:
        yield demo, demo.run("start")
    finally:
        demo.run("stop")
        assert demo.run("status", code=1).count("does not run") == 5


@pytest.fixture
def demo(started: tuple[Demo, str]) -> Demo:
    return started[0]


def each_bound_pod_is_stored_once(demo: Demo) -> None:
    """Check that one decision led to each pod's node; after a crash its result may be unrecorded."""
    states: dict[str, Counter[str]] = {}
    nodes: dict[str, set[str]] = {}
    for d in demo.decisions():
        states.setdefault(d["spec"]["pod"]["uid"], Counter())[d["status"]["state"]] += 1
        nodes.setdefault(d["spec"]["pod"]["uid"], set()).add(d["status"]["node"])
    for pod in demo.pods():
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if node:
            assert node in nodes[uid], pod["metadata"]["name"]
            assert states[uid]["Bound"] == 1 or (states[uid]["Bound"], states[uid]["Binding"]) == (0, 1), states[uid]


def test_every_pod_is_decided_and_both_screens_show_records(started: tuple[Demo, str]) -> None:
    demo, said = started
    pods, decisions = demo.pods(), demo.decisions()
    assert len(pods) > 70
    assert "\nStart here:\n" in said.partition("To end it: ")[2]
    (evicted,) = {d["spec"]["pod"]["uid"] for d in decisions} - {p["metadata"]["uid"] for p in pods}
    assert evicted in {d["spec"]["pod"]["uid"] for d in decisions if d["spec"]["pod"]["name"].startswith("rendering-")}
    assert {p["metadata"]["uid"] for p in pods} < {d["spec"]["pod"]["uid"] for d in decisions}
    each_bound_pod_is_stored_once(demo)
    _, pending, pod, *_ = said.split("$ kubectl herodotus ")
    waiting = [p for p in pods if not p["spec"].get("nodeName")]
    assert pending.startswith(f"pending -A\n{len(waiting)} pods are pending.")
    assert all(f"{p['metadata']['namespace']}/{p['metadata']['name']} " in pending for p in waiting)
    assert pod.startswith("pod payments-0 -n shop\npayments-0 (shop)  ")
    assert "payments-0" in {p["metadata"]["name"] for p in waiting}


def test_pods_that_fit_nowhere_have_different_reasons(demo: Demo) -> None:
    waiting = [p for p in demo.pods() if not p["spec"].get("nodeName")]
    assert len(waiting) == 7
    messages = {p["status"]["conditions"][0]["message"] for p in waiting}
    assert len(messages) == 7


def test_suggested_commands_work(demo: Demo) -> None:
    assert "worker-12" in demo.kubectl("get", "nodes", "-o", "wide")
    assert demo.kubectl("herodotus", "pod", "test-pod-1", "-n", "team-a").startswith("test-pod-1 (team-a)")
    assert "taint dedicated=gpu:NoSchedule not tolerated" in demo.kubectl("herodotus", "pod", "notebook", "-n", "ml")
    assert demo.kubectl("herodotus", "node", "worker-11").startswith("worker-11")
    refused = demo.kubectl("herodotus", "workload", "frontend", "-n", "team-b")
    assert "2 of 3 pods exist. Not created: ResourceQuota compute" in refused
    assert "All 11 pods" in demo.kubectl("herodotus", "workload", "log-agent", "-n", "monitoring")
    waits = demo.kubectl("herodotus", "workload", "image-cache", "-n", "ci")
    assert "2 of 3 pods are ready, 1 without a node" in waits
    assert "only worker-10 is eligible" in waits
    assert "All 4 pods placed" in demo.kubectl("herodotus", "podgroup", "simulation", "-n", "ml")
    assert "ml/urgent-training (priority 1000" in demo.kubectl("herodotus", "preemptions", "-n", "ml")
    assert "32 of at most 64" in demo.kubectl("herodotus", "nodegroups")
    assert "worker-1 is drainable" in demo.kubectl("herodotus", "whatif", "drain", "worker-1")
    demo.kubectl("apply", "-f", str(ROOT / "deploy/test/main-label-pod.yml"))
    assert "the only node of 12 that fits" in demo.kubectl("herodotus", "pod", "test-pod-main"), "it waits for it"


def test_an_observer_disagrees_with_the_second_scheduler_where_it_packs(demo: Demo) -> None:
    (summary,) = json.loads(demo.kubectl("herodotus", "disagreements", "-A", "-o", "json"))["schedulers"]
    assert (summary["scheduler"], summary["outcomes"]) == ("packing-scheduler", 4)
    assert summary["disagree"] >= 1
    assert summary["agree"] + summary["agreeInWindow"] >= 1
    packed = {p["spec"]["nodeName"] for p in demo.pods() if p["metadata"]["name"].startswith("convert-")}
    assert len(packed) == 1


def test_the_test_manifests_apply_and_workloads_roll_out(demo: Demo) -> None:
    demo.kubectl("apply", "-f", str(ROOT / "deploy/test/deploy-default-pod.yml"))
    demo.kubectl("apply", "-f", str(ROOT / "deploy/test/deploy-big-deployment.yml"))
    done = 'deployment "large-deploy" successfully rolled out\n'
    status = ("rollout", "status", "deployment/large-deploy", "--timeout=90s")
    assert demo.kubectl(*status).endswith(done)
    demo.kubectl("scale", "deployment/large-deploy", "--replicas=4")
    demo.kubectl("set", "image", "deployment/large-deploy", "pause=registry.k8s.io/pause:3.9")
    assert demo.kubectl(*status).endswith(done)
    pods = [p for p in demo.pods() if p["metadata"]["name"].startswith("large-deploy-")]
    assert [p["spec"]["containers"][0]["image"] for p in pods] == ["registry.k8s.io/pause:3.9"] * 4
    name = pods[0]["metadata"]["name"]
    assert demo.kubectl("herodotus", "pod", name).startswith(name)
    demo.kubectl("create", "job", "hello", "--image=registry.k8s.io/pause:3.10")
    assert demo.kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=60s")
    demo.kubectl("delete", "deployment/large-deploy", "job/hello")
    gone = ("large-deploy-", "hello-")
    eventually(lambda: not any(p["metadata"]["name"].startswith(gone) for p in demo.pods()), "the pods to go")


def test_commands_of_the_readme_work_unchanged(demo: Demo) -> None:
    block = README.read_text().partition("## Ask")[2].split("```")[1]
    asked = [shlex.split(line, comments=True) for line in block.splitlines() if line.startswith("kubectl herodotus ")]
    ends = [words[1:] for words in asked if words[2] not in WITHOUT_END]
    assert len(ends) == 14
    for words in ends:
        demo.kubectl(*words)  # exit code 0


def test_killing_the_endpoint_loses_no_decision(demo: Demo) -> None:
    before = {d["metadata"]["name"] for d in demo.decisions()}
    demo.run("kill", "endpoint")
    assert "error: the endpoint does not run" in demo.run("kill", "endpoint", code=1)
    demo.create_pods("while-away", 10)
    eventually(lambda: bound(demo, "while-away") == 10, "pods to be bound with nobody who stores it")
    demo.run("restart", "endpoint")
    each_bound_pod_is_stored_once(demo)
    assert {d["metadata"]["name"] for d in demo.decisions()} >= before


@pytest.mark.parametrize("after", [0, 3, 11])
def test_killing_the_scheduler_loses_no_decision(demo: Demo, after: int) -> None:
    base = f"killed-{after}"
    demo.create_pods(base, 15)
    eventually(lambda: bound(demo, base) >= after, "some of them to be bound", every_s=0.001)
    demo.run("kill", "scheduler")
    demo.create_pods(f"{base}-later", 5)
    demo.run("restart", "scheduler")
    eventually(lambda: bound(demo, base) == 20, "all of them to be bound")
    eventually(lambda: all(d["status"]["state"] != "Binding" for d in latest(demo, base)), "results to be delivered")
    each_bound_pod_is_stored_once(demo)


def bound(demo: Demo, base: str) -> int:
    return sum(p["metadata"]["name"].startswith(f"{base}-") and bool(p["spec"].get("nodeName")) for p in demo.pods())


def latest(demo: Demo, base: str) -> list[Json]:
    """Return the decisions of pods created after the crash, none of which may be lost."""
    return [d for d in demo.decisions() if d["spec"]["pod"]["name"].startswith(f"{base}-later-")]


def test_a_restart_begins_with_an_empty_cluster(demo: Demo) -> None:
    old = {p["metadata"]["uid"] for p in demo.pods()}
    assert "All are decided: 67 bound, 7 fit nowhere" in demo.run("start")
    assert not old & {p["metadata"]["uid"] for p in demo.pods()}
    assert not old & {d["spec"]["pod"]["uid"] for d in demo.decisions()}


def test_a_demo_that_cannot_run_reports_why_and_leaves_no_process(demo: Demo) -> None:
    said = demo.run("start", "--timeout", "0", code=1)
    assert "error: after 0 s only" in said
    assert "the end of " in said
    assert demo.run("status", code=1).count("does not run") == 5
    assert demo.run("stop") == "No demo runs\n"
    assert demo.run("stop", "--quiet") == ""
