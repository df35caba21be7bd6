"""Local mode on a real cluster where nothing of Herodotus runs, with the rights of `view` and with all rights."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.e2e.cluster import Cluster, node, pod
from tests.e2e.real_cluster import run_real_cluster
from tests.processes import Process, eventually
from tests.support.kubectls import KUBECTLS
from tests.support.local_mode import Json, ask_locally

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
UNREAD = "persistentvolumes, storageclasses"
QUESTIONS = (
    ("pending", "-A"),
    ("pod", "placed-0"),
    ("pod", "huge"),
    ("pod", "huge", "--node", "n1"),
    ("node", "n1"),
    ("compare", "pod", "placed-0", "placed-1"),
    ("whatif", "pod", "huge", "--replicas", "2"),
    ("whatif", "drain", "n1", "--force"),
    ("capacity", "pod", "placed-0"),
    ("consolidate",),
)


class Readers(NamedTuple):
    """The kubeconfigs of two users: one has the role `view` and may list nodes, the other may do everything."""

    viewer: Path
    admin: Path


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    """A cluster with placed and pending pods, among them one with a volume."""
    folder = tmp_path_factory.mktemp("local")
    with run_real_cluster(folder, ("clusterrole-aggregation",)) as cluster:
        populate(cluster)
        yield Readers(viewer(cluster, folder), cluster.kubeconfig)


def populate(cluster: Cluster) -> None:
    pods = "/api/v1/namespaces/default/pods"
    cluster.create_all("/api/v1/nodes", [node(f"n{i}") for i in range(1, 5)])
    claim: Json = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]}
    created = [pod(f"placed-{i}", scheduler="default-scheduler") for i in range(3)]
    created += [
        pod("huge", cpu="40", scheduler="default-scheduler"),
        pod("volume", scheduler="default-scheduler", **claim),
    ]
    cluster.create_all(pods, created)
    eventually(lambda: len(cluster.bound("default")) == 3, "the pods to be placed")
    eventually(lambda: cluster.condition("default", "huge").get("reason") == "Unschedulable", "a condition")


def viewer(cluster: Cluster, folder: Path) -> Path:
    """Give a user the role `view` and the right to list nodes, and return the user's kubeconfig."""
    role = f"{RBAC}/clusterroles/view"  # a controller collects its rules
    eventually(lambda: (cluster.find(role) or {}).get("rules"), "the rules of view")
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]
    cluster.create(f"{RBAC}/clusterroles", {"metadata": {"name": "list-nodes"}, "rules": rules})
    for name in ("view", "list-nodes"):
        subject = {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
        reference = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": f"ann-{name}"}, "subjects": [subject], "roleRef": reference}
        cluster.create(f"{RBAC}/clusterrolebindings", binding)
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "ann"
    kubeconfig = folder / "ann"
    kubeconfig.write_text(yaml.safe_dump(config))
    return kubeconfig


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_the_role_view_is_enough(readers: Readers, words: tuple[str, ...]) -> None:
    mine, full = ask_locally(readers.viewer, *words), ask_locally(readers.admin, *words)
    assert "evaluated now with kube-scheduler v1.36" in mine.notes
    assert drop_unequal(mine.document) == drop_unequal(full.document)
    assert "you may not" not in full.notes


def test_volumes_that_cannot_be_read_are_unknown(readers: Readers) -> None:
    mine, full = ask_locally(readers.viewer, "pod", "volume"), ask_locally(readers.admin, "pod", "volume")
    for kind in UNREAD.split(", "):
        assert kind in mine.notes
        assert kind not in full.notes
    assert full.document["outcome"]["node"] is None


def drop_unequal(value: Any) -> Any:
    """Return an answer without ids and times, and without what depends on unread kinds of storage."""
    if isinstance(value, list):
        return [drop_unequal(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: drop_unequal(item) for key, item in value.items() if key not in _UNEQUAL}


_UNEQUAL = (
    *("attempt", "notes", "outcome", "live"),  # who decided, when, and what the reader may not know
    *("id", "at", "startedAt", "window", "overTime", "seed", "secondsApart", "recent", "uid"),
    *("filters", "passed", "skipped"),  # filters of volumes are unknown to a reader of the role `view`
)


def test_web_pages_show_what_the_cluster_has_now(readers: Readers, tmp_path: Path) -> None:
    """Without --local too, since there is no decisions service."""
    environ = {"KUBECONFIG": str(readers.admin), "HOME": str(tmp_path), "KUBECTL_PATH": KUBECTLS[0]}
    ui = Process("ui", [sys.executable, "-m", "herodotus_cli", "ui"], tmp_path / "log", environ)
    try:
        url = ui.wait_for(r"http://127\.0\.0\.1:\d+/[\w-]+(?=/apis)")[0]

        def get(path: str) -> tuple[int, str, Json]:
            request = urllib.request.Request(f"{url}/{path}")
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    return response.status, response.headers["Herodotus-Live"], json.load(response)
            except urllib.error.HTTPError as e:
                return e.code, e.headers["Herodotus-Live"], json.load(e)

        def ask(path: str) -> tuple[int, Json]:
            code, live, document = get(f"apis/herodotus.dev/v1alpha1/{path}")
            assert live == "pods, local"
            return code, document

        nodes = ask("nodehistories?resources=true")[1]["items"]
        assert [node["metadata"]["name"] for node in nodes] == ["n1", "n2", "n3", "n4"]
        assert sum(node["resources"]["requested"]["pods"] for node in nodes) == 3
        pending = ask("pendingpods")[1]["pods"]
        assert {pod["pod"] for pod in pending} >= {"huge", "volume"}
        code, answer = ask("namespaces/default/podexplanations/huge?columns=true")
        assert (code, answer["outcome"]["state"], len(answer["columns"]["nodes"])) == (200, "Unschedulable", 4)
        assert ask("workloadplacements")[1]["workloads"]
        assert ask("decisions")[0] == 501
        assert get("live/pods/default/huge")[2]["live"]["state"]["code"] == "pod-waits-for-node"
        assert get("api/v1/nodes?limit=1")[2]["items"][0]["metadata"]["name"] == "n1"
        assert ui.stop() == 130
        notes = (tmp_path / "log").read_text()
        assert notes.count("evaluated now with") == 1
        assert "no decisions service is found in this cluster" in notes
    finally:
        ui.kill_all()
