"""The simulated controllers and kube-controller-manager create objects of the same shape in the same steps."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_sim import SimulatedCluster
from tests.e2e.control_plane import ControlPlane, assets
from tests.processes import Process, eventually

Json = dict[str, Any]
KUBECTL = str(Path(sys.executable).with_name("kubectl"))
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,job-controller,garbage-collector-controller"
)
CONTAINER = {"name": "main", "image": "registry.example/app:1"}
# Of kube-apiserver's own making, and named in docs/getting-started.md or of no consequence to what follows from an
# object.
# Nor is how often an object was changed: the steps of a rollout depend on when its pods become ready.
NOT_COMPARED = {
    "generation", "observedGeneration",
    "uid", "resourceVersion", "creationTimestamp", "managedFields", "startTime", "completionTime", "lastUpdateTime",
    "lastTransitionTime", "lastProbeTime", "hash", "terminationMessagePath", "terminationMessagePolicy",
    "imagePullPolicy", "terminatingReplicas", "finalizers", "maxUnavailable of sets",
}  # fmt: skip


class Side:
    """One of the two clusters, with kubectl."""

    def __init__(self, kubeconfig: Path) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [KUBECTL, *arguments], env=self._environment, input=stdin, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def get(self, *what: str) -> Any:
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def run_pods(self) -> None:
        """Bind every pod and report it ready, in place of a scheduler and a kubelet."""
        for pod in self.get("pods")["items"]:
            if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
                continue
            name = pod["metadata"]["name"]
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "n1"}}
            path = f"/api/v1/namespaces/default/pods/{name}/binding"
            self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))
            self.report(name, "Running", "True")

    def report(self, name: str, phase: str, ready: str) -> None:
        conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        patch = json.dumps({"status": {"phase": phase, "conditions": conditions}})
        self.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)

    def remove_terminating(self) -> None:
        """Delete terminating pods, as a kubelet does."""
        for pod in self.get("pods")["items"]:
            if pod["metadata"].get("deletionTimestamp"):
                self.kubectl(
                    "delete",
                    "pod",
                    pod["metadata"]["name"],
                    "--grace-period=0",
                    "--force",
                    "--wait=false",
                    "--ignore-not-found",
                )

    def roll_out(self, name: str) -> None:
        def done() -> bool:
            self.run_pods()
            self.remove_terminating()
            return "successfully rolled out" in self.kubectl("rollout", "status", name, "--watch=false")

        eventually(done, f"the rollout of {name}", every_s=0.2)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    binaries = assets()
    if binaries is None or not (binaries / "kube-controller-manager").exists():
        pytest.skip("no kube-controller-manager (setup-envtest)")
    directory = tmp_path_factory.mktemp("real")
    plane = ControlPlane(binaries, directory)
    controllers: Process | None = None
    try:
        plane.wait_until_ready()
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(plane.kubeconfig()))
        command = [str(binaries / "kube-controller-manager"), f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
        command += [f"--controllers={CONTROLLERS}", "--secure-port=0"]
        controllers = Process("kube-controller-manager", command, directory / "controllers.log")
        yield Side(kubeconfig)
    finally:
        if controllers is not None:
            controllers.kill()
        plane.stop()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with SimulatedCluster(run_controllers=True) as sim:
        yield Side(sim.write_kubeconfig(tmp_path_factory.mktemp("sim") / "kubeconfig"))


def shape(value: Any, names: dict[str, str] | None = None) -> Any:
    """Return a value without fields that differ between clusters, and with generated parts of names replaced."""
    if isinstance(value, dict):
        kept = {k: shape(v) for k, v in value.items() if k not in NOT_COMPARED}
        return {k: v for k, v in kept.items() if v not in ({}, [], None)}
    if isinstance(value, list):
        shaped = [shape(v) for v in value]
        return sorted(shaped, key=lambda v: json.dumps(v, sort_keys=True))
    if isinstance(value, str):
        value = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", value)
        return re.sub(r"\b(web|db)-[bcdfghjklmnpqrstvwxz2456789]{6,10}\b", r"\1-HASH", value)
    return value


def without_hashes(obj: Any) -> Any:
    """Return an object with the generated values in labels and names replaced by a word."""
    text = json.dumps(obj)
    text = re.sub(
        r'("(?:pod-template-hash|controller-revision-hash|controller.kubernetes.io/hash)": )"[^"]*"', r'\1"HASH"', text
    )
    text = re.sub(r"HASH-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "HASH-NAME", text)
    return json.loads(re.sub(r"\bonce-(?:\d-)?[bcdfghjklmnpqrstvwxz2456789]{5}\b", "once-NAME", text))


def compared(of: Side, *what: str) -> Any:
    items = [without_hashes(shape(o)) for o in of.get(*what)["items"]]
    return sorted(map(_by_controllers, items), key=lambda o: json.dumps(o, sort_keys=True))


def _by_controllers(obj: Json) -> Json:
    """Return only the fields of a pod that its controller sets: admission and status are not compared here."""
    if obj["kind"] != "Pod":
        return obj
    spec = {k: v for k, v in obj["spec"].items() if k in ("containers", "hostname", "subdomain", "restartPolicy")}
    return {"metadata": obj["metadata"], "spec": spec}


@pytest.fixture(autouse=True)
def empty(real: Side, simulated: Side) -> None:
    """Delete the objects of earlier tests."""
    for side in (real, simulated):
        side.kubectl("delete", "deployments,statefulsets,jobs", "--all")

        def is_empty(side: Side = side) -> bool:
            side.remove_terminating()
            return not side.get("pods,rs,controllerrevisions")["items"]

        eventually(is_empty, "an empty namespace")


def workload(kind: str, name: str, **spec: Any) -> str:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [CONTAINER]}}
    given = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return json.dumps({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": given})


def step_create(side: Side) -> None:
    side.kubectl("create", "-f", "-", stdin=workload("Deployment", "web", replicas=4))
    side.roll_out("deployment/web")


def step_scale(side: Side) -> None:
    side.kubectl("scale", "deployment/web", "--replicas=6")
    side.roll_out("deployment/web")


def step_update(side: Side) -> None:
    side.kubectl("set", "image", "deployment/web", "main=registry.example/app:2")
    side.roll_out("deployment/web")


def step_undo(side: Side) -> None:
    side.kubectl("rollout", "undo", "deployment/web")
    side.roll_out("deployment/web")


def step_stuck(side: Side) -> None:
    """Start a rollout whose new pods never become ready; wait until it stops at maxSurge and maxUnavailable."""
    side.kubectl("set", "image", "deployment/web", "main=registry.example/broken:1")

    def stopped() -> bool:
        side.remove_terminating()
        sizes = sorted(s["spec"]["replicas"] for s in side.get("rs")["items"])
        pods = [p for p in side.get("pods")["items"] if not p["metadata"].get("deletionTimestamp")]
        status = side.get("deployment", "web")["status"]
        return sizes == [0, 3, 5] and len(pods) == 8 and status.get("updatedReplicas") == 3

    eventually(stopped, "the rollout to stop")


STEPS: tuple[Callable[[Side], None], ...] = (step_create, step_scale, step_update, step_undo, step_stuck)


def test_deployment_steps_create_objects_of_the_same_shape(real: Side, simulated: Side) -> None:
    for step in STEPS:
        for side in (real, simulated):
            step(side)
        for what in ("deployments", "replicasets", "pods"):
            assert compared(simulated, what) == compared(real, what), (step.__name__, what)
    for side in (real, simulated):
        side.kubectl("delete", "deployment", "web")

        def gone(side: Side = side) -> bool:
            side.remove_terminating()
            return not side.get("rs,pods")["items"]

        eventually(gone, "what the deployment owned to go")


def job(**spec: Any) -> str:
    """Return the manifest of the Job `once` with a container and more fields of its spec."""
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    spec = {"template": template, **spec}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": spec})


@pytest.mark.parametrize(
    "spec", [{}, {"completionMode": "Indexed", "completions": 3, "parallelism": 3}], ids=["plain", "indexed"]
)
def test_job_steps_create_objects_of_the_same_shape(real: Side, simulated: Side, spec: Json) -> None:
    for side in (real, simulated):
        side.kubectl("create", "-f", "-", stdin=job(**spec))
        eventually(
            lambda side=side: len(side.get("pods")["items"]) == spec.get("completions", 1),  # type: ignore[misc]
            "the job's pods",
        )
        side.run_pods()
        for pod in side.get("pods")["items"]:
            side.report(pod["metadata"]["name"], "Succeeded", "False")
        side.kubectl("wait", "--for=condition=complete", "job/once", "--timeout=30s")
    for what in ("jobs", "pods"):
        assert compared(simulated, what) == compared(real, what)
    for side in (real, simulated):
        side.kubectl("delete", "job", "once")


def test_stateful_set_steps_create_objects_of_the_same_shape(real: Side, simulated: Side) -> None:
    for side in (real, simulated):
        side.kubectl("create", "-f", "-", stdin=workload("StatefulSet", "db", replicas=2, serviceName="db"))

        def complete(side: Side = side, count: int = 2) -> bool:
            side.run_pods()
            side.remove_terminating()
            status = side.get("sts", "db")["status"]
            return bool(status.get("readyReplicas") == count == status.get("replicas"))

        eventually(complete, "both pods")
    for what in ("statefulsets", "controllerrevisions", "pods"):
        assert compared(simulated, what) == compared(real, what), what
