"""Verdicts on node groups, judged by a real kube-scheduler: the node of each template is created, and a pod tries it.

For each group that fits, kube-scheduler places the pod on the template's node. For each that does not, it rejects the
node with the reasons of the first filter of the verdict.
"""

from __future__ import annotations

import copy
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from herodotus_local.cluster_reader import ClusterReader, Fetch
from herodotus_local.errors import ReadError
from herodotus_local.service import LocalService
from scheduler.config import Configuration
from tests.e2e.autoscaler_crds import DEFINITIONS, PATHS
from tests.e2e.cluster import Cluster
from tests.e2e.node_group_scenarios import NOT, SCENARIOS, UNKNOWN, Scenario
from tests.e2e.real_cluster import run_real_cluster
from tests.processes import eventually

Json = dict[str, Any]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODES, CSI_NODES, VOLUMES = "/api/v1/nodes", "/apis/storage.k8s.io/v1/csinodes", "/api/v1/persistentvolumes"
DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
PATIENCE_S = 60.0
_PART = re.compile(r"(\d+) (.+?)(?=, \d+ |$)")
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run kube-apiserver with the kinds of Karpenter and Cluster API, and kube-scheduler."""
    with run_real_cluster(Path(tmp_path_factory.mktemp("real")), ("namespace",)) as running:
        running.create("/api/v1/namespaces", {"metadata": {"name": "capi"}})
        for definition in DEFINITIONS:
            running.create(CRDS, definition)
        for path in PATHS.values():
            _wait_for_status(running, path, 200)
        yield running


def _wait_for_status(cluster: Cluster, path: str, status: int) -> None:
    eventually(lambda: cluster.status(path) == status, f"{path} to have status {status}", PATIENCE_S)


def ask(fetch: Fetch, namespace: str) -> Json:
    """Return local mode's answer about the pending pod."""
    document = {"kind": "ClusterReview", "spec": {"nodeGroups": {"pods": [f"{namespace}/waits"]}}}
    with (
        ClusterReader(fetch, lambda _kind, _count: None) as reader,
        LocalService(reader, Configuration(), lambda _note: None) as service,
    ):
        answer = service.post("/apis/herodotus.dev/v1alpha1/clusterreviews", document)
    assert answer.code == 201, answer.document
    status: Json = answer.document["status"]
    return status


class Trial:
    """One scenario in the real cluster."""

    def __init__(self, cluster: Cluster, number: int, scenario: Scenario) -> None:
        self._cluster, self._scenario = cluster, scenario
        self.namespace = f"scenario-{number}-{uuid.uuid4().hex[:6]}"
        self._pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self._tries = 0

    def create(self) -> None:
        """Create the objects of the scenario and the pod, and wait until kube-scheduler rejects the pod."""
        self._cluster.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for obj in self._scenario.objects:
            self._create(copy.deepcopy(obj))
        self._create(self._scenario.pod)

    def _create(self, obj: Json) -> None:
        kind, status = obj["kind"], obj.pop("status", None)
        if kind == "Pod":
            self._create_pod(obj)
        elif kind == "Node":
            self._cluster.create(NODES, obj | {"status": status})
        elif kind == "PersistentVolume":
            obj["spec"]["claimRef"]["namespace"] = self.namespace
            self._cluster.create(VOLUMES, obj)
        elif kind == "PersistentVolumeClaim":
            self._cluster.create(f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims", obj)
        elif kind == "DaemonSet":
            app = {"app": obj["metadata"]["name"]}
            obj["spec"]["selector"] = {"matchLabels": app}
            for container in obj["spec"]["template"]["spec"]["containers"]:
                container["image"] = "agent"
            self._cluster.create(DAEMON_SETS, obj)
        else:
            self._cluster.create(PATHS[kind], obj)
            if status:
                self._cluster.patch(f"{PATHS[kind]}/{obj['metadata']['name']}/status", {"status": status})

    def _create_pod(self, pod: Json, name: str = "") -> str:
        made = copy.deepcopy(pod)
        made.pop("status", None)
        made["metadata"] = {"name": name or pod["metadata"]["name"], "labels": pod["metadata"]["labels"]}
        return str(self._cluster.create(self._pods, made)["metadata"]["name"])

    def wait_for_verdict(self, name: str) -> tuple[str, str]:
        """Return the node on which kube-scheduler places the pod, or "" and its message."""

        def decided() -> tuple[str, str] | None:
            pod = self._cluster.get(f"{self._pods}/{name}")
            condition = self._cluster.condition(self.namespace, name)
            node = str(pod["spec"].get("nodeName") or "")
            return (node, condition.get("message", "")) if node or condition.get("status") == "False" else None

        return eventually(decided, f"{self._scenario.name}: a decision about {name}", PATIENCE_S, every_s=0.1)

    def compare(self, verdict: Json, templates: list[Json]) -> None:
        """Create the node of each template of a group, and let kube-scheduler judge it."""
        self._cluster.delete(f"{self._pods}/waits")
        before = _count_reasons(self._try_pod()[1])
        for template in templates:
            node = template["metadata"]["name"]
            self._add_node(template)
            placed, message = self._try_pod()
            where = f"{self._scenario.name}, group {verdict['group']}: {placed or message}"
            if verdict["verdict"] != NOT:
                assert placed == node, where
            else:
                assert placed == "", where
                found = _count_reasons(message) - before
                assert found == Counter(verdict["rejections"][0]["reasons"]), where
            self._remove_node(node)
        self._create_pod(self._scenario.pod)

    def _try_pod(self) -> tuple[str, str]:
        """Let kube-scheduler decide a new pod, once it knows how many nodes there are; return what it decided."""
        nodes = len(self._cluster.items(NODES))

        def decide() -> tuple[str, str] | None:
            name = self._create_pod(self._scenario.pod, f"try-{self._tries}")
            self._tries += 1
            placed, message = self.wait_for_verdict(name)
            self._cluster.delete(f"{self._pods}/{name}")
            return (placed, message) if placed or message.startswith(f"0/{nodes} nodes") else None

        return eventually(decide, f"{self._scenario.name}: a decision on {nodes} nodes", PATIENCE_S)

    def _add_node(self, node: Json) -> None:
        name = node["metadata"]["name"]
        limits = node.pop("volumeLimits", {})
        if limits:
            drivers = [{"name": d, "nodeID": name, "allocatable": {"count": n}} for d, n in limits.items()]
            self._cluster.create(CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": drivers}})
        daemons = node.pop("daemons", [])
        self._cluster.create(NODES, node)
        for daemon in daemons:
            self._cluster.create(self._pods, daemon)
            eventually(lambda: self._cluster.bound(self.namespace).get(f"daemon-{name}"), "the daemon's pod")

    def _remove_node(self, name: str) -> None:
        self._cluster.delete(f"{NODES}/{name}")
        self._cluster.delete(f"{CSI_NODES}/{name}")
        self._cluster.delete(f"{self._pods}/daemon-{name}")

    def build_nodes(self, group: str, described: Json) -> list[Json]:
        """Return the nodes of a group's templates with the pods of DaemonSets, or the stand-in of the scenario."""
        if group in self._scenario.stand_ins:
            return [copy.deepcopy(self._scenario.stand_ins[group])]
        return [self._build_node(template) for template in described["templates"]]

    def _build_node(self, template: Json) -> Json:
        labels = template["labels"]
        name = labels["kubernetes.io/hostname"]
        taints = []
        for text in template["taints"]:
            left, _, effect = text.rpartition(":")
            key, _, value = left.partition("=")
            taints.append({"key": key, "value": value, "effect": effect})
        daemons = [
            self._build_daemon(obj, name)
            for obj in self._scenario.objects
            if obj["kind"] == "DaemonSet" and template["daemonPods"]
        ]
        amounts = template["allocatable"]
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": amounts, "capacity": amounts},
            "volumeLimits": template["volumeLimits"],
            "daemons": daemons,
        }

    def _build_daemon(self, daemon_set: Json, node: str) -> Json:
        spec = copy.deepcopy(daemon_set["spec"]["template"]["spec"]) | {"nodeName": node}
        spec.pop("nodeSelector", None)
        for container in spec["containers"]:
            container["image"] = "agent"
        labels = daemon_set["spec"]["template"]["metadata"]["labels"]
        return {"metadata": {"name": f"daemon-{node}", "labels": labels}, "spec": spec}

    def delete(self) -> None:
        """Delete everything that the scenario created."""
        self._cluster.delete_all(self._pods)
        for path in (NODES, CSI_NODES, VOLUMES, DAEMON_SETS, *PATHS.values()):
            self._cluster.delete_all(path)
        for volume in self._cluster.items(VOLUMES):
            self._cluster.patch(f"{VOLUMES}/{volume['metadata']['name']}", {"metadata": {"finalizers": None}})
        self._cluster.delete(f"/api/v1/namespaces/{self.namespace}")


def _count_reasons(message: str) -> Counter[str]:
    """Return the reasons in kube-scheduler's message with the number of nodes that each rejects."""
    listed = message.partition("nodes are available: ")[2].partition(". ")[0].removesuffix(".")
    return Counter({reason: int(count) for count, reason in _PART.findall(listed)})


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda i: SCENARIOS[i].name.replace(" ", "-"))
def test_kube_scheduler_decides_as_the_verdicts_say(cluster: Cluster, number: int) -> None:
    scenario = SCENARIOS[number]
    trial = Trial(cluster, number, scenario)
    try:
        trial.create()
        assert trial.wait_for_verdict("waits")[0] == "", f"{scenario.name}: the pod fits without a new node"
        review = ask(cluster.fetch, trial.namespace)["nodeGroups"]
        verdicts = {verdict["group"]: verdict for verdict in review["pods"][0]["groups"]}
        assert {
            name: (verdict["verdict"], [rejection["plugin"] for rejection in verdict["rejections"]])
            for name, verdict in verdicts.items()
        } == scenario.verdicts
        for group in review["groups"]:
            verdict = verdicts[group["name"]]
            if verdict["verdict"] != UNKNOWN:
                nodes = trial.build_nodes(group["name"], group)
                assert nodes, group
                trial.compare(verdict, nodes)
    finally:
        trial.delete()


READER = {
    "role": {
        "metadata": {"name": "nodes-and-pods"},
        "rules": [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}],
    },
    "binding": {
        "metadata": {"name": "nodes-and-pods"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nodes-and-pods"},
        "subjects": [{"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}],
    },
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def test_a_user_without_rights_to_the_kinds_gets_one_line_and_no_error(cluster: Cluster) -> None:
    scenario = next(s for s in SCENARIOS if s.name == "the taint of a GPU group")
    trial = Trial(cluster, 100, scenario)
    cluster.create(f"{RBAC}/clusterroles", READER["role"])
    cluster.create(f"{RBAC}/clusterrolebindings", READER["binding"])
    client = httpx.Client(base_url=cluster.url, headers=cluster.headers | {"Impersonate-User": "ada"}, verify=False)

    def fetch(path: str) -> bytes:
        response = client.get(path)
        if response.status_code != 200:
            raise ReadError(response.status_code, response.text)
        return response.content

    def allowed() -> bool:
        with suppress(ReadError):
            return bool(fetch("/api/v1/nodes?limit=1"))
        return False

    try:
        trial.create()
        eventually(allowed, "the role to be known", PATIENCE_S)
        status = ask(fetch, trial.namespace)
        assert [v["verdict"] for v in status["nodeGroups"]["pods"][0]["groups"]] == ["DoesNotFit", "Fits"]
        (note,) = status["notes"]
        assert note.startswith("nodepools, nodeclaims, machinedeployments, machinesets cannot be read:")
    finally:
        client.close()
        trial.delete()


def test_a_cluster_without_any_autoscaler_gets_one_line_and_no_error(cluster: Cluster) -> None:
    for definition in DEFINITIONS:
        cluster.delete(f"{CRDS}/{definition['metadata']['name']}")
    for path in PATHS.values():
        _wait_for_status(cluster, path, 404)
    try:
        cluster.create(NODES, SCENARIOS[4].objects[0])
        cluster.create("/api/v1/namespaces", {"metadata": {"name": "plain"}})
        pod = copy.deepcopy(SCENARIOS[4].pod)
        pod["metadata"] = {"name": "waits"}
        cluster.create("/api/v1/namespaces/plain/pods", pod)
        status = ask(cluster.fetch, "plain")
        assert (status["nodeGroups"]["groups"], len(status["notes"])) == ([], 1)
        assert status["notes"][0].startswith("no node group is known here")
    finally:
        cluster.delete_all(NODES)
