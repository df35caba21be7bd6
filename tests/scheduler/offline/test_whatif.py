"""A review without a cluster: which object is asked about, priority classes among the files, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.commands.main import main
from scheduler.engine.manifests.cluster import ManifestError
from scheduler.offline.whatif import review_files
from tests.support.answers import as_json

NODE = {
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "9"}},
}
URGENT = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
LOW = {
    "kind": "Pod",
    "metadata": {"name": "low", "namespace": "shop"},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
}


def wanted(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container], **spec}}


class Files:
    """Writes files, and reviews them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.notes: list[str] = []

    def __call__(self, pods: list[Any], cluster: list[Any], **asked: Any) -> dict[str, Any]:
        for name, objects in (("pods.json", pods), ("cluster.json", cluster)):
            (self._folder / name).write_text(json.dumps({"kind": "List", "items": objects}))
        paths = [str(self._folder / "cluster.json")], str(self._folder / "pods.json")
        return as_json(review_files(*paths, self.notes.append, **asked))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_pod_template_of_an_object_is_reviewed(files: Files) -> None:
    told = files([{"kind": "Service", "metadata": {"name": "s"}}, wanted()], [NODE], replicas=3, namespace="shop")
    assert told["metadata"] == {"namespace": "shop", "name": "web"}
    assert (told["status"]["fits"], told["status"]["nodes"]) == (2, [{"node": "n", "pods": 2}])
    assert files.notes == []


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"])
def test_a_workload_s_pods_are_spread_by_default_as_they_are_once_it_exists(files: Files, kind: str) -> None:
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": wanted()["spec"]}
    workload = {"kind": kind, "metadata": {"name": "web"}, "spec": {"template": pod}}
    there = {
        "metadata": {"name": "old", "labels": {"app": "web"}},
        "spec": {"nodeName": "a", "containers": [{"name": "c"}]},
    }
    nodes = [NODE | {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}} for name in "ab"]
    told = files([workload], [*nodes, {"kind": "Pod"} | there])["status"]
    assert told["nodes"] == [{"node": "b", "pods": 1}]
    assert "PodTopologySpread" in told["first"]["headline"]


def test_a_priority_class_among_the_files_counts(files: Files) -> None:
    told = files([wanted(priorityClassName="urgent")], [NODE, URGENT, LOW])["status"]["stopped"]
    assert (told["pod"]["priority"], told["preemption"]["candidates"][0]["victims"]) == (9, ["shop/low"])
    marked = files([wanted(priorityClassName="urgent")], [NODE])["status"]["first"]["notes"]
    assert marked == ["priority class urgent does not exist here: the pod's priority counts as 0"]


@pytest.mark.parametrize(
    ("pods", "cluster", "asked", "says"),
    [
        ([], [NODE], {}, "expected one object that asks for pods, found none"),
        ([wanted(), LOW], [NODE], {}, "expected one object that asks for pods, found 2"),
        ([{"kind": "DaemonSet"}], [NODE], {}, "a DaemonSet has a pod for each node"),
        ([wanted()], [LOW], {}, "no Node in the cluster"),
        ([wanted()], [NODE], {"node": "m"}, 'nodes "m" not found'),
        ([wanted()], [NODE], {"replicas": 101}, "101 pods are asked about; it must be 1 to 100"),
        ([wanted()], [NODE, URGENT | {"value": "9"}], {}, "(PriorityClass): Expected `int`"),
    ],
)
def test_invalid_question_is_refused(
    files: Files, pods: list[Any], cluster: list[Any], asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(ManifestError) as refused:
        files(pods, cluster, **asked)
    assert says in str(refused.value)


def test_a_review_needs_both_kinds_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", "-o", "review"])
    assert "-o review goes with --cluster and --pod" in capsys.readouterr().err


def nominated(node: str, priority: int = 0, name: str = "urgent") -> dict[str, Any]:
    spec = wanted(priority=priority)["spec"]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": spec,
        "status": {"nominatedNodeName": node},
    }


@pytest.mark.parametrize(
    ("waiting", "fits"),
    [
        pytest.param([], 2, id="no pod waits"),
        pytest.param([nominated("n")], 1, id="a nominated pod of the same priority"),
        pytest.param([nominated("n", 5), nominated("n", 5, "second")], 0, id="two of a higher priority"),
        pytest.param([nominated("n", -5)], 2, id="one of a lower priority"),
        pytest.param([nominated("elsewhere")], 2, id="for a node that is not there"),
        pytest.param([nominated("n", name="web")], 2, id="the pod in question itself"),
    ],
)
def test_pods_that_are_nominated_for_a_node_count_there(files: Files, waiting: list[Any], fits: int) -> None:
    told = files([wanted()], [NODE, *waiting], replicas=2, namespace="shop")["status"]
    assert told["fits"] == fits
