"""`kubectl herodotus podgroup`: its request and its errors. The screens are in tests/cli/render."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.cli.service import API, Service, command

PATH = f"{API}/namespaces/ml/podgroupplacements/train"


def answer() -> dict[str, Any]:
    counts = dict.fromkeys(
        ("members", "placed", "provisional", "blocked", "notRecorded", "missing", "reasonsOmitted"), 0
    )
    return {
        "apiVersion": "herodotus.dev/v1alpha1",
        "kind": "PodGroupPlacement",
        "metadata": {"namespace": "ml", "name": "train"},
        "source": "scheduler",
        "state": "Scheduled",
        "headline": "Both pods placed on 1 node.",
        "message": "",
        "minCount": 2,
        **counts,
        "cycle": None,
        "shortage": None,
        "reasons": [],
        "nodes": [],
        "pods": [],
    }


@pytest.mark.parametrize("name", ["train", "podgroup/train", "podgroups.scheduling.k8s.io/train"])
def test_the_screen_is_imported_while_the_request_runs(
    service: Service, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    before = set(threading.enumerate())
    service.answer(PATH, answer())
    ran = command("podgroup", name, "-n", "ml", "--endpoint", service.url, width=80)
    for thread in set(threading.enumerate()) - before:
        if thread.daemon and thread.name.endswith("(_import_renderers)"):
            thread.join()
    assert "Both pods placed on 1 node." in ran.out
    assert (ran.code, failed, capsys.readouterr().err) == (0, [], "")


def test_the_pods_of_a_group_are_sorted(service: Service) -> None:
    pods = [
        {**member, "namespace": "ml", "uid": "u", "state": "Bound", "provisional": False, "attempt": 1, "reason": None}
        for member in (
            {"pod": "b", "position": 1, "node": "n9"},
            {"pod": "a", "position": 2, "node": "n10"},
            {"pod": "c", "position": None, "node": "n2"},
        )
    ]
    service.answer(PATH, answer() | {"pods": pods})

    def list_pods(key: str) -> list[str]:
        ran = command("podgroup", "train", "-n", "ml", "--endpoint", service.url, "--sort-by", key, "-o", "json")
        return [pod["pod"] for pod in json.loads(ran.out)["pods"]]

    assert (list_pods("name"), list_pods("node")) == (["a", "b", "c"], ["c", "b", "a"])
    assert list_pods("position") == ["b", "a", "c"]


def test_an_unknown_group_is_named_with_similar_ones(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.refuse(PATH, 404, "NotFound", 'no decision for pod group "train" in namespace "ml"', similar=["training"])
    ran = command("podgroup", "train", "-n", "ml", "--endpoint", service.url)
    error = capsys.readouterr().err
    assert ran.code == 1
    assert 'Error from server (NotFound): no decision for pod group "train"' in error
    assert "training" in error


def test_a_name_of_another_kind_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("podgroup", "pod/train").code == 2
    assert "'pod/train' is not a podgroup" in capsys.readouterr().err
