"""Our decisions equal the recorded ones of kube-scheduler v1.36 (README.md beside this file), aspect by aspect."""

import contextlib
import json
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.offline.evaluate import CaseError, evaluate, evaluate_lines
from tests.cached_results import differences_when_repeated
from tests.support.breadth import widen
from tests.support.recordings import HERE, Json, cases_of

DEVICE_FAMILIES = ("admin", "all", "allocated", "basic", "cel", "celerror", "classes", "constraints", "consumable", "edge", "missing", "mixed", "multi", "partitionable", "preemption", "prioritized", "slices", "taints")
FAMILIES = {
    **dict.fromkeys(("resources", "taints", "nodeaffinity", "ports", "images", "mixed", "profiles", "volumes"), 70),
    **dict.fromkeys(("spread", "defaultspread", "podaffinity", "preemption", "preemption-affinity"), 70),
    "edge": 49,
    "found/differences": 13,
    "found/nominated": 200,
    "found/plugins-off": 139,
    "found/prefvalues": 100,
    "found/pvfields": 92,
    "found/round3/differences": 4,
    **dict.fromkeys((f"dra/dra-{family}" for family in DEVICE_FAMILIES), 20),
    "dra/dra-extended": 19,
}

# recorded with kube-schedulers v1.31 to v1.35; the key `kubernetesVersion` of each case chooses the rules
OLDER = sorted(str(file.relative_to(HERE)).removesuffix(".jsonl.gz") for file in HERE.glob("v1.*/**/*.jsonl.gz"))



def same(value: Any) -> Any:
    return value


def verdict_of(verdict: Json | None) -> Any:
    """Return code and sorted reasons: kube-scheduler iterates over a map of one plugin's reasons."""
    return ("Success", []) if not verdict else (verdict["code"], sorted(verdict.get("reasons") or []))


def verdicts_per_node(nodes: Json | None) -> Any:
    rows = {node: {plugin: verdict_of(v) for plugin, v in row.items()} for node, row in (nodes or {}).items()}
    return {node: row for node, row in rows.items() if row}


def first_failures(nodes: Json | None) -> Any:
    return {node: (v["plugin"], *verdict_of(v)) for node, v in (nodes or {}).items()}


def points(plugins: Json | None) -> Any:
    given = {name: (s["raw"], s["normalized"], s["weight"]) for name, s in (plugins or {}).items()}
    return {name: p for name, p in given.items() if any(p[0].values()) or any(p[1].values())}


def preempted(answer: Json | None) -> Any:
    answer = answer or {}
    written = sorted(answer.get("claimWrites") or [])
    return answer.get("nominatedNode") or "", sorted(answer.get("victims") or []), written


# aspect -> the one form of everything that means the same
ASPECTS: dict[str, Callable[[Any], Any]] = {
    "preFilter": verdict_of,
    "filters": verdicts_per_node,
    "firstFailure": first_failures,
    "feasible": lambda nodes: sorted(nodes or []),
    "scores": points,
    "totals": lambda totals: totals or {},
    "fitError": lambda message: message or "",
    "cycleError": lambda message: message or "",
    "preemption": preempted,
}
# compared where they were recorded
OF_CLAIMS = ("preEnqueue", "allocations", "allocationNodeSelectors", "extendedResourceRequests")


def differences(case: Json, outcome: Mapping[str, Any] | CaseError) -> list[str]:
    if isinstance(outcome, CaseError):
        return [f"{case['id']}: {outcome}"]
    assert outcome["id"] == case["id"]
    want, got = case["expect"], outcome["expect"]
    for other in want.get("alternatives", ()):  # PostFilter draws the claim that it deallocates
        if preempted(other["preemption"]) == preempted(got.get("preemption")):
            want = {**want, **other}
    if got.get("cycleError") in want.get("cycleErrors", ()):  # nodes end in different errors: any of them
        want = {**want, "cycleError": got["cycleError"]}
    return [
        f"{case['id']} {aspect}: kube-scheduler {form(want.get(aspect))!r}, ours {form(got.get(aspect))!r}"
        for aspect, form in (ASPECTS | {aspect: same for aspect in OF_CLAIMS if aspect in want}).items()
        if form(want.get(aspect)) != form(got.get(aspect))
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_recorded_decision_equals_ours(family: str) -> None:
    cases = cases_of(family)
    questions = (json.dumps({k: v for k, v in case.items() if k != "expect"}) for case in cases)
    outcomes = list(evaluate_lines(questions, None))

    assert len(cases) == len(outcomes) == FAMILIES[family]
    wrong = [line for case, outcome in zip(cases, outcomes, strict=True) for line in differences(case, outcome)]
    assert not wrong, "\n".join(wrong[:10])


@pytest.mark.parametrize("family", widen(OLDER, every=5))
def test_every_recorded_decision_of_an_older_version_equals_ours(family: str) -> None:
    cases = cases_of(family)
    questions = (json.dumps({k: v for k, v in case.items() if k != "expect"}) for case in cases)
    outcomes = list(evaluate_lines(questions, None))

    assert len(cases) == len(outcomes) > 0
    assert all(case["kubernetesVersion"] in family for case in cases)
    wrong = [line for case, outcome in zip(cases, outcomes, strict=True) for line in differences(case, outcome)]
    assert not wrong, "\n".join(wrong[:10])


def test_every_older_version_is_held_to_recordings() -> None:
    assert {family.partition("/")[0] for family in OLDER} == {f"v1.{minor}" for minor in range(31, 36)}


@pytest.mark.parametrize("family", widen(FAMILIES, every=5))
def test_cached_results_equal_those_computed_anew(family: str) -> None:
    found = {}
    for case in cases_of(family):
        with contextlib.suppress(CaseError):
            found[case["id"]] = differences_when_repeated(evaluate(case))
    assert {case: differences for case, differences in found.items() if differences} == {}
    assert found


def test_a_difference_names_its_case_and_aspect() -> None:
    case = next(c for c in cases_of("resources") if len(c["expect"]["feasible"] or []) > 1)
    (outcome,) = evaluate_lines([json.dumps({k: v for k, v in case.items() if k != "expect"})], None)
    assert not isinstance(outcome, CaseError)

    lost = outcome["expect"]["feasible"].pop()
    (line,) = differences(case, outcome)

    assert line.startswith(f"{case['id']} feasible: ")
    assert lost in line
