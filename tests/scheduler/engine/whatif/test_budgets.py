"""Which budgets select a pod, by labels that their selectors require and by expressions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.selectors import label_selector_matches
from scheduler.engine.objects.types import LabelSelector, Pod
from scheduler.engine.objects.workloads import PodDisruptionBudget
from scheduler.engine.whatif import budgets as budgets_module
from scheduler.engine.whatif.budgets import Budgets
from tests.scheduler.engine.whatif.clusters import Json, a_budget, a_pod


def _make_budget(name: str, selector: Json | None) -> PodDisruptionBudget:
    budget = a_budget(name, "web", minAvailable=1)
    budget["spec"]["selector"] = selector
    return msgspec.convert(budget, PodDisruptionBudget)


def _make_pod(name: str, **labels: str) -> PodInfo:
    return PodInfo(msgspec.convert(a_pod(name, "n0", labels=labels), Pod))


def test_every_kind_of_selector_finds_its_pods() -> None:
    expression = {"key": "app", "operator": "In", "values": ["web"]}
    selectors: dict[str, Json | None] = {
        "all": {},
        "both": {"matchLabels": {"app": "web", "tier": "front"}},
        "expression": {"matchExpressions": [expression]},
        "label": {"matchLabels": {"app": "web"}},
        "mixed": {"matchLabels": {"tier": "back"}, "matchExpressions": [expression]},
        "none": None,
    }
    pods = [_make_pod("front", app="web", tier="front"), _make_pod("back", app="web", tier="back"), _make_pod("bare")]
    budgets = Budgets([_make_budget(name, each) for name, each in selectors.items()], pods)
    names = [[name.removeprefix("shop/") for name in budgets.names_of(pod.pod)] for pod in pods]
    assert names == [["all", "both", "expression", "label"], ["all", "expression", "label", "mixed"], ["all"]]
    bare = budgets.find_refusal(pods[2].pod)
    assert bare is None  # three pods are healthy, and one must be


def test_budgets_of_other_labels_are_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def count(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
        nonlocal calls
        calls += 1
        return label_selector_matches(selector, labels)

    monkeypatch.setattr(budgets_module, "label_selector_matches", count)
    pods = [_make_pod(f"p{i}", app=f"w{i}") for i in range(50)]
    budgets = Budgets([_make_budget(f"w{i}", {"matchLabels": {"app": f"w{i}"}}) for i in range(50)], pods)
    assert all(budgets.has_budget(pod.pod) for pod in pods)
    assert calls == 100  # 50 for the amounts, 50 for the pods
