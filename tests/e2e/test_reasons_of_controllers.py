"""What the real admission plugins and controllers say, and what the plugin makes of it: pods that are not created.

A real kube-apiserver and kube-controller-manager refuse the pods of workloads, and `workload` explains each refusal.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane, assets
from tests.processes import ROOT, Process, eventually

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
KUBECTL: Final = str(Path(sys.executable).with_name("kubectl"))
CONTAINER: Final = {"name": "main", "image": "registry.example/app:1"}
CONTROLLERS: Final = (
    "deployment-controller,replicaset-controller,statefulset-controller,job-controller,cronjob-controller,"
    "serviceaccount-controller,resourcequota-controller,disruption-controller,daemonset-controller"
)
NOTHING: Final[Json] = {}
QUOTA: Final = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "team-cpu"},
    "spec": {"hard": {"requests.cpu": "1"}},
}
LIMITS: Final = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small-pods"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]},
}
WEBHOOK: Final = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "mesh-injector"},
    "webhooks": [
        {
            "name": "inject.mesh.example",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "timeoutSeconds": 2,
            "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "webhook"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }
    ],
}


class Refusal(NamedTuple):
    """A workload whose pods are refused or not wanted, and what an answer about it says.

    `name` is its namespace too. `objects` are created before it.
    """

    name: str
    kind: str
    patterns: tuple[str, ...]
    pod: Json = NOTHING
    spec: Json = NOTHING
    objects: tuple[Json, ...] = ()
    labels: Json = NOTHING
    event: str = "FailedCreate"


def _requests(cpu: str) -> Json:
    return {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]}


MISSING: Final = "not exist|not found|no "
REFUSALS: Final = (
    Refusal(
        "quota",
        "Deployment",
        ("team-cpu", "quota", r"1 of 3|0 of 3", r"requests\.cpu"),
        _requests("800m"),
        {"replicas": 3},
        (QUOTA,),
    ),
    Refusal("quota-without-requests", "StatefulSet", ("team-cpu", r"requests\.cpu"), objects=(QUOTA,)),
    Refusal("limits", "Job", (r"\bcpu\b", "small-pods|LimitRange|maximum"), _requests("3"), objects=(LIMITS,)),
    Refusal(
        "security",
        "StatefulSet",
        ("PodSecurity", "hostNetwork"),
        {"hostNetwork": True, "containers": [CONTAINER]},
        labels={"pod-security.kubernetes.io/enforce": "baseline"},
    ),
    Refusal("account", "Deployment", ("builder", "service ?account", MISSING), {"serviceAccountName": "builder"}),
    Refusal("priority", "StatefulSet", ("gold", "priority ?class", MISSING), {"priorityClassName": "gold"}),
    Refusal("runtime", "Deployment", ("gvisor", "runtime ?class", MISSING), {"runtimeClassName": "gvisor"}),
    Refusal("webhook", "Deployment", (r"inject\.mesh\.example", "refused|reach|call"), objects=(WEBHOOK,)),
    Refusal("paused", "Deployment", ("paused", "resume"), spec={"paused": True}, event=""),
    Refusal("none", "Deployment", ("0 replicas|scaled to 0|0 pods",), spec={"replicas": 0}, event=""),
    Refusal("suspended", "Job", ("suspend",), spec={"suspend": True}, event=""),
    Refusal("cron", "CronJob", ("suspend",), spec={"suspend": True, "schedule": "0 3 * * *"}, event=""),
)


class RealCluster:
    """kubectl and the plugin on a real kube-apiserver."""

    def __init__(self, kubeconfig: Path) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HERODOTUS")}
        self._environ = kept | {"KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent), "NO_COLOR": "1"}
        self._environ["PATH"] = f"{Path(KUBECTL).parent}:{kept['PATH']}"

    def kubectl(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [KUBECTL, *words], env=self._environ, input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def create(self, document: Json, namespace: str) -> None:
        self.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(document))

    def ask(self, *words: str) -> str:
        command = [sys.executable, str(ROOT / "kubectl-herodotus"), *words]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return " ".join((done.stderr + done.stdout).split())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    binaries = assets()
    if binaries is None or not (binaries / "kube-controller-manager").exists():
        pytest.skip("no kube-controller-manager (setup-envtest)")
    directory = tmp_path_factory.mktemp("real")
    plane = ControlPlane(binaries, directory, disabled_admission=["DefaultStorageClass"])
    controllers: Process | None = None
    try:
        plane.wait_until_ready()
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(plane.kubeconfig()))
        command = [str(binaries / "kube-controller-manager"), f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
        command += [f"--controllers={CONTROLLERS}", "--secure-port=0"]
        controllers = Process("kube-controller-manager", command, directory / "controllers.log")
        real = RealCluster(kubeconfig)
        real.kubectl("create", "-f", "-", stdin=json.dumps(_node()))
        yield real
    finally:
        if controllers is not None:
            controllers.kill()
        plane.stop()


@pytest.mark.parametrize("refusal", REFUSALS, ids=[r.name for r in REFUSALS])
def test_the_answer_names_what_keeps_pods_from_being_created(cluster: RealCluster, refusal: Refusal) -> None:
    meta = {"name": refusal.name, "labels": refusal.labels}
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, "default")
    for document in refusal.objects:
        cluster.create(document, refusal.name)
    if any(document["kind"] == "ResourceQuota" for document in refusal.objects):
        eventually(lambda: "hard" in cluster.kubectl("get", "quota", "-n", refusal.name, "-o", "yaml"), "the quota")
    eventually(lambda: cluster.kubectl("get", "sa", "-n", refusal.name, "-o", "name"), "the service account")
    cluster.create(_workload(refusal), refusal.name)
    if refusal.event:
        reasons = ("get", "events", "-n", refusal.name, "-o", "jsonpath={.items[*].reason}")
        eventually(lambda: refusal.event in cluster.kubectl(*reasons), "the event")
    short = {"Deployment": "deploy", "StatefulSet": "sts", "DaemonSet": "ds", "Job": "job", "CronJob": "cj"}
    answer = cluster.ask("workload", f"{short[refusal.kind]}/{refusal.name}", "-n", refusal.name)
    missing = [p for p in refusal.patterns if not re.search(p, answer, re.IGNORECASE)]
    assert not missing, (missing, answer)


def _workload(refusal: Refusal) -> Json:
    labels = {"app": refusal.name}
    pod = {"containers": [CONTAINER], **refusal.pod}
    batch = refusal.kind in ("Job", "CronJob")
    template: Json = {"metadata": {"labels": labels}, "spec": pod | ({"restartPolicy": "Never"} if batch else {})}
    spec: Json = {"template": template, **refusal.spec}
    if refusal.kind == "CronJob":
        spec = {**refusal.spec, "jobTemplate": {"spec": {"template": template}}}
    elif not batch:
        spec["selector"] = {"matchLabels": labels}
    if refusal.kind == "StatefulSet":
        spec["serviceName"] = refusal.name
    version = "batch/v1" if batch else "apps/v1"
    return {"apiVersion": version, "kind": refusal.kind, "metadata": {"name": refusal.name}, "spec": spec}


def _node() -> Json:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    labels = {"kubernetes.io/hostname": "n1"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}, "status": status}
