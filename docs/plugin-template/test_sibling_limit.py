"""SiblingLimit in a whole scheduling cycle: configuration, verdicts and scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sibling_limit import SiblingLimit

from scheduler.commands.main import main
from scheduler.config import load
from scheduler.engine.plugins.registry import Registry, with_plugin
from scheduler.offline.evaluate import evaluate

HERE = Path(__file__).parent
PLUGINS = [with_plugin("SiblingLimit", SiblingLimit)]
REGISTRY = Registry(PLUGINS)
CONFIG = load(HERE / "scheduler-config.yaml", registry=REGISTRY)
WEB = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "uid": name}, "status": {"allocatable": amounts}}


def pod(name: str, on: str = "") -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": [WEB]},
        "spec": {"nodeName": on, "schedulerName": "herodotus-scheduler", "containers": [{"name": "c"}]},
    }


def evaluated(*bound: dict[str, Any]) -> Any:
    case = {"id": "case", "objects": [node("a"), node("b"), *bound], "pod": pod("new")}
    return evaluate(case, CONFIG, REGISTRY)


def decide(*bound: dict[str, Any]) -> Any:
    return evaluated(*bound).outcome()


def test_a_node_with_the_maximum_of_siblings_is_rejected() -> None:
    outcome = decide(*(pod(f"old-{i}", on="a") for i in range(3)))
    assert outcome["feasible"] == ["b"]
    assert outcome["filters"]["a"]["SiblingLimit"] == {
        "code": "Unschedulable",
        "reasons": ["node(s) had too many pods of the same controller"],
    }


def test_a_pod_without_feasible_node_has_a_fit_error() -> None:
    outcome = decide(*(pod(f"old-{name}-{i}", on=name) for name in "ab" for i in range(3)))
    assert outcome["fitError"].startswith(
        "0/2 nodes are available: 2 node(s) had too many pods of the same controller."
    )


@pytest.mark.parametrize(("siblings", "points"), [(0, 100), (1, 67), (2, 34)])
def test_fewer_siblings_give_a_higher_score(siblings: int, points: int) -> None:
    outcome = decide(*(pod(f"old-{i}", on="a") for i in range(siblings)))
    assert outcome["scores"]["SiblingLimit"] == {
        "raw": {"a": points, "b": 100},
        "normalized": {"a": points, "b": 100},
        "weight": 2,
    }


def test_the_record_has_the_siblings_of_each_node() -> None:
    (inputs,) = evaluated(pod("old-1", on="a"), pod("old-2", on="a")).decision()["spec"]["inputs"]
    assert (inputs["plugin"], inputs["source"]) == ("SiblingLimit", "pods on the node")
    assert inputs["numbers"] == [{"name": "siblings", "unit": "", "values": {"a": 2, "b": 0}}]


def test_evaluate_reads_the_cluster_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    files = ["--config", "scheduler-config.yaml", "--cluster", "cluster.yaml", "--pod", "pod.yaml"]
    assert main(["evaluate", *files], plugins=PLUGINS) == 0
    assert json.loads(capsys.readouterr().out)["expect"]["feasible"] == ["b"]
