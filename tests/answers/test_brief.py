"""The short form of an answer: its cause, its fix, and its length."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_answers.brief import MAX_BYTES, OUTCOMES, Brief, shorten
from herodotus_answers.live.declarations import UntriedPod
from herodotus_answers.live.objects import build_live_pending
from herodotus_answers.pending import apply_live, build_pending_pods
from herodotus_answers.reason_list import CAUSES, STATES
from herodotus_answers.workload import Placement, WorkloadName, build_workload_placement
from herodotus_record import reasons
from tests.answer_schemas import validate
from tests.cli.scenes import NOW, scenes
from tests.support.answers import as_json
from tests.support.documents import pending_pod
from tests.support.examples import examples
from tests.support.what_if_documents import review, review_with_victims, several

CONDITION_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")  # the API server's pattern
CODES = (*reasons.CATALOGUE, *OUTCOMES, *STATES, *CAUSES)
HEADLINE = (
    "No node fits: 8 of 12 nodes have too little cpu, 4 have the untolerated taint dedicated=gpu:NoSchedule"
    " (worker-9, …). Closest: worker-1 (cpu: requests 2; free 1700m of 8)."
)


def test_codes_are_unique_as_reasons_of_conditions() -> None:
    spelled = {reasons.format_condition_reason(code) for code in CODES}
    assert len(spelled) == len(CODES)
    assert all(CONDITION_REASON.fullmatch(reason) for reason in spelled)
    assert reasons.format_condition_reason("untolerated-taint") == "UntoleratedTaint"


@pytest.mark.parametrize("name", scenes())
def test_every_answer_with_a_headline_has_a_short_form(name: str) -> None:
    answer = scenes()[name]().answer
    brief = shorten(answer)
    validate(as_json(brief))
    assert (brief["of"], brief["truncated"]) == (answer["kind"], False)
    assert brief["code"] in (*CODES, None)


def test_short_form_of_a_pending_pod_has_cause_amounts_and_fix() -> None:
    brief = shorten(scenes()["pending-suggestions"]().answer)
    assert (brief["headline"], brief["code"], brief["conditionReason"]) == (HEADLINE, "insufficient", "Insufficient")
    assert (brief["params"], brief["plugin"], brief["nodes"]) == ({"resource": "cpu"}, "NodeResourcesFit", 8)
    assert brief["amounts"] == {
        "resource": "cpu",
        "unit": "millicores",
        "requested": 2000,
        "free": 1700,
        "allocatable": 8000,
    }
    assert brief["fix"] is not None
    assert brief["fix"]["checked"]
    assert brief["since"] == "2026-03-01T11:59:58.000000+00:00"
    assert brief["metadata"] == {"name": "payments-0", "namespace": "shop", "uid": brief["metadata"]["uid"]}


@pytest.mark.parametrize(
    ("scene", "code"),
    [
        ("placed", "placed"),
        ("binding", "binding"),
        ("dry-run", "dry-run"),
        ("bind-failed", "binding-failed"),
        ("prefilter-rejected", "not-built"),
        ("compared-pods", None),
    ],
)
def test_outcome_has_its_code(scene: str, code: str | None) -> None:
    assert shorten(scenes()[scene]().answer)["code"] == code


def test_failed_binding_is_the_headline() -> None:
    assert shorten(scenes()["bind-failed"]().answer)["headline"] == "Bind failed on worker-7: the API server said no"


def test_pod_that_waits_for_its_group_has_the_groups_headline() -> None:
    answer = scenes()["placed"]().answer
    waiting = answer | {"outcome": answer["outcome"] | {"state": "Binding"}, "groupHeadline": "6 of 8 pods fit."}
    assert shorten(waiting)["headline"] == "Fits on worker-7, but waits for its pod group. 6 of 8 pods fit."


def test_pending_pods_have_the_cause_of_most() -> None:
    document = build_pending_pods([pending_pod("a", None), pending_pod("b", "Job/b")], now_us=10**15)
    brief = shorten(document)
    assert (brief["about"], brief["code"], brief["params"]) == ("Cluster", "insufficient", {"resource": "cpu"})
    assert brief["headline"] == "2 pods wait for a node: Insufficient cpu."
    assert brief["decision"] == document["pods"][0]["id"]


@pytest.mark.parametrize(
    ("gates", "code", "params"),
    [
        (("a.test/one", "a.test/two"), "gated", {"gates": "[a.test/one a.test/two]"}),
        ((), "not-decided", {}),
    ],
)
def test_pods_without_an_attempt_have_a_code(gates: tuple[str, ...], code: str, params: Mapping[str, str]) -> None:
    pod: UntriedPod = {
        "namespace": "shop",
        "pod": "held",
        "uid": "u",
        "owner": None,
        "createdAt": "2000-01-01T00:00:00Z",
        "schedulerName": "p",
        "message": "",
        "schedulingGates": list(gates),
    }
    document = build_pending_pods([], now_us=10**15)
    document["live"] = build_live_pending(NOW, [], [pod])
    brief = shorten(apply_live(document))
    assert (brief["code"], brief["params"], brief["decision"]) == (code, params, None)


def test_no_pending_pods() -> None:
    assert shorten(build_pending_pods([], now_us=10**15))["code"] == "nothing-pending"


@pytest.mark.parametrize(
    ("answer", "about", "code", "fixed"),
    [
        (lambda: review(several(), replicas=3), "Deployment", "fits", False),
        (review_with_victims, "Deployment", "insufficient", True),
        (lambda: a_workload(["worker-1", None]), "Deployment", "insufficient", False),
        (lambda: a_workload(["worker-1"]), "Deployment", "placed", False),
        (lambda: a_workload([]), "Deployment", "unknown", False),
    ],
)
def test_answers_about_workloads_have_a_short_form(
    answer: Callable[[], Any], about: str, code: str, fixed: bool
) -> None:
    document = answer()
    brief = shorten(document)
    assert_bounded(brief)
    assert brief["headline"] == document.get("headline", document.get("status", {}).get("headline"))
    assert (brief["about"], brief["code"], brief["fix"] is not None, brief["truncated"]) == (about, code, fixed, False)


def a_workload(nodes: list[str | None]) -> Any:
    message = "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu."
    placements = [
        Placement.from_present_pod("shop", f"web-{i}", "shop/Deployment/web", node, 10**15, "" if node else message)
        for i, node in enumerate(nodes)
    ]
    return build_workload_placement(
        WorkloadName("shop", "Deployment/web"), placements, 3, since_us=10**15, complete=True
    )


@pytest.mark.parametrize("kind", ["Preemptions", "DecisionList", ""])
def test_document_without_a_headline_has_no_short_form(kind: str) -> None:
    with pytest.raises(ValueError, match="has no short form"):
        shorten({"kind": kind, "metadata": {}, "items": []})


ANY_TEXT = st.text(max_size=3000) | st.sampled_from(["x" * 3000, "€" * 3000, "\U0001f600" * 3000, '"' * 3000])


@settings(max_examples=examples(25))
@given(st.data())
def test_short_form_is_bounded(data: st.DataObject) -> None:
    def garble(value: Any) -> Any:
        if isinstance(value, str):
            return data.draw(ANY_TEXT)
        if isinstance(value, dict):
            return {key: garble(found) for key, found in value.items()}
        return [garble(found) for found in value] if isinstance(value, list) else value

    answer = dict(scenes()["pending-suggestions"]().answer)
    for key in ("headline", "metadata", "suggestions"):
        answer[key] = garble(answer[key])
    for group in answer["rejections"]:
        params = {data.draw(st.text(max_size=99)): "€" * 999 for _ in range(data.draw(st.integers(0, 20)))}
        for reason in (*group["reasons"], *(r for node in group["nodes"] for r in node["reasons"])):
            reason |= {"params": params, "code": "x" * 999}
    answer["attempt"] = {key: garble(value) for key, value in answer["attempt"].items()}
    assert_bounded(shorten(answer))


def assert_bounded(brief: Brief) -> None:
    assert len(json.dumps(brief)) <= MAX_BYTES
    validate(as_json(brief))
