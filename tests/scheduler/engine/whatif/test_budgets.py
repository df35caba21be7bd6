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


UNCOUNTED = {
    "type": "DisruptionAllowed",
    "status": "False",
    "reason": "SyncFailed",
    "message": "rays.ray.io does not implement the scale subresource",
}


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        ({"maxUnavailable": 1}, "give spec.minAvailable as a number of pods instead of maxUnavailable 1"),
        ({"minAvailable": "50%"}, "give spec.minAvailable as a number of pods instead of minAvailable 50%"),
        ({"minAvailable": 1}, ""),
    ],
)
@pytest.mark.parametrize("allowed", [0, 1])
def test_a_budget_that_its_controller_cannot_compute_allows_nothing(spec: Json, advice: str, allowed: int) -> None:
    budget = a_budget("web", "web", {"disruptionsAllowed": allowed, "conditions": [UNCOUNTED]}, **spec)
    pods = [_make_pod("a", app="web"), _make_pod("b", app="web")]
    budgets = Budgets([msgspec.convert(budget, PodDisruptionBudget)], pods)
    refusal = budgets.evict(pods[0].pod)
    assert refusal is not None
    assert refusal.is_uncomputed
    assert "failed sync: rays.ray.io does not implement the scale subresource" in refusal.message
    assert advice in refusal.message
    assert ("countable" in refusal.message) == bool(advice)
    budgets.add_ready(pods[0].pod)
    budgets.scale(pods[0].pod, 1)
    assert budgets.find_refusal(pods[0].pod) is not None  # more pods do not make it countable


@pytest.mark.parametrize(("observed", "is_allowed"), [(1, False), (2, True)])
def test_a_budget_allows_nothing_before_its_present_spec_is_observed(observed: int, is_allowed: bool) -> None:
    status = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    budget = a_budget("web", "web", {**status, "observedGeneration": observed}, minAvailable=1)
    budget["metadata"]["generation"] = 2
    pod = _make_pod("a", app="web")
    refusal = Budgets([msgspec.convert(budget, PodDisruptionBudget)], [pod]).find_refusal(pod.pod)
    assert (refusal is None) == is_allowed
    assert refusal is None or "still being processed by the server" in refusal.message


def test_a_budget_without_a_status_is_computed_whatever_its_generation() -> None:
    budget = a_budget("web", "web", minAvailable=1)
    budget["metadata"]["generation"] = 1
    pods = [_make_pod("a", app="web"), _make_pod("b", app="web")]
    budgets = Budgets([msgspec.convert(budget, PodDisruptionBudget)], pods)
    assert budgets.evict(pods[0].pod) is None
    assert budgets.evict(pods[1].pod) is not None
