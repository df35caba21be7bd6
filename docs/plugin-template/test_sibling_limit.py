"""SiblingLimit in a whole scheduling cycle: the configuration, the verdicts, the points."""

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
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "uid": name}, "status": {"allocatable": room}}


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


def test_a_node_with_three_siblings_takes_no_fourth() -> None:
    said = decide(*(pod(f"old-{i}", on="a") for i in range(3)))
    assert said["feasible"] == ["b"]
    assert said["filters"]["a"]["SiblingLimit"] == {
        "code": "Unschedulable",
        "reasons": ["node(s) had too many pods of the same controller"],
    }


def test_nobody_has_room() -> None:
    said = decide(*(pod(f"old-{name}-{i}", on=name) for name in "ab" for i in range(3)))
    assert said["fitError"].startswith("0/2 nodes are available: 2 node(s) had too many pods of the same controller.")


@pytest.mark.parametrize(("siblings", "points"), [(0, 100), (1, 67), (2, 34)])
def test_fewer_siblings_are_more_points(siblings: int, points: int) -> None:
    said = decide(*(pod(f"old-{i}", on="a") for i in range(siblings)))
    assert said["scores"]["SiblingLimit"] == {
        "raw": {"a": points, "b": 100},
        "normalized": {"a": points, "b": 100},
        "weight": 2,
    }


def test_the_record_says_how_many_siblings_each_node_had() -> None:
    (told,) = evaluated(pod("old-1", on="a"), pod("old-2", on="a")).decision()["spec"]["inputs"]
    assert (told["plugin"], told["source"]) == ("SiblingLimit", "pods on the node")
    assert told["numbers"] == [{"name": "siblings", "unit": "", "values": {"a": 2, "b": 0}}]


def test_the_cluster_in_a_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    files = ["--config", "scheduler-config.yaml", "--cluster", "cluster.yaml", "--pod", "pod.yaml"]
    assert main(["evaluate", *files], plugins=PLUGINS) == 0
    assert json.loads(capsys.readouterr().out)["expect"]["feasible"] == ["b"]
