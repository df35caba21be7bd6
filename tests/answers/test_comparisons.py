"""Comparisons of attempts, siblings and nodes name exactly what differs."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import Any

import pytest

from herodotus_answers.changes import compare_decisions
from herodotus_answers.comparison import build_node_comparison, build_pod_comparison
from herodotus_answers.pod_history import build_pod_history
from herodotus_record.model import Decision, DecisionPath, Evaluation, NodeTable, Outcome
from tests.builders import CORDONED, INSUFFICIENT_CPU, MONDAY_US, TAINTED, a_decision, a_table, bound

NODES = ("worker-1", "worker-2", "worker-3")
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in NODES}
FULL_OR_TAINTED = FULL | {"worker-3": {"TaintToleration": TAINTED, "NodeResourcesFit": INSUFFICIENT_CPU}}
POINTS = {"worker-1": {"NodeResourcesFit": 40, "ImageLocality": 9}, "worker-2": {"NodeResourcesFit": 60}}
SECOND_US = 1_000_000


@dataclass(frozen=True)
class ComparedDecision:
    decision: Decision
    table: NodeTable
    outcomes: tuple[Outcome, ...] = ()


def recorded(used: dict[str, int] | None = None, *, late_s: int = 0, **given: Any) -> ComparedDecision:
    """Return a decision `late_s` seconds after the builders' Monday noon; bound if it found a node."""
    nodes = given.get("nodes", NODES)
    decision, table = a_decision(started_us=MONDAY_US + late_s * SECOND_US, **given), a_table(nodes, used=used)
    return ComparedDecision(decision, table, (bound(decision, table),) if decision.chosen is not None else ())


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (recorded(), recorded(), []),
        (recorded(requests={"cpu": 500}), recorded(requests={"cpu": 700}), ["requests cpu 500m → 700m"]),
        (recorded(), recorded(nodes=(*NODES, "worker-4")), ["worker-4 is new"]),
        (recorded(), recorded(nodes=("worker-2", "")), ["worker-1, worker-3 are gone"]),
        (
            recorded(dict.fromkeys(NODES, 8000), rejected=FULL),
            recorded({"worker-1": 8000, "worker-2": 8000}, rejected={n: FULL[n] for n in NODES[:2]}),
            [
                "worker-3 fits now, no longer rejected by NodeResourcesFit",
                "largest free cpu on a node: 0 (worker-1) → 8 (worker-3)",
            ],
        ),
        (  # worker-3 is closed to the pod: what it has free, and that this changes, is of no use
            recorded({"worker-1": 7000, "worker-2": 8000}, rejected=FULL_OR_TAINTED),
            recorded({"worker-1": 7000, "worker-2": 8000, "worker-3": 8000}, rejected=FULL_OR_TAINTED),
            [],
        ),
        (
            recorded({"worker-1": 7000, "worker-2": 8000}, rejected=FULL_OR_TAINTED, requests={"cpu": 9000}),
            recorded({"worker-1": 8000, "worker-2": 6000}, rejected=FULL_OR_TAINTED, requests={"cpu": 9000}),
            ["largest free cpu on a node: 1 (worker-1) → 2 (worker-2)"],
        ),
        (
            recorded(),
            recorded(rejected={"worker-1": {"TaintToleration": TAINTED}, "worker-3": {"TaintToleration": TAINTED}}),
            ["worker-1, worker-3 fit no more: TaintToleration"],
        ),
        (
            recorded(rejected={"worker-1": {"TaintToleration": TAINTED}}),
            recorded(rejected={"worker-1": {"NodeUnschedulable": CORDONED}}),
            ["worker-1: rejected by NodeUnschedulable, before by TaintToleration"],
        ),
        (recorded(incarnation="a"), recorded(incarnation="b"), ["another scheduler process"]),
    ],
    ids=[
        "nothing",
        "requests",
        "added",
        "removed",
        "fits",
        "room-of-closed-node",
        "room",
        "fits-no-more",
        "other-filter",
        "restarted",
    ],
)  # fmt: skip
def test_changes_between_two_attempts(before: ComparedDecision, after: ComparedDecision, expected: list[str]) -> None:
    assert [change["text"] for change in compare_decisions(before, after)] == expected


def test_many_changed_nodes_are_counted_and_two_are_named() -> None:
    nodes = tuple(f"worker-{i}" for i in range(1, 13))
    (change,) = compare_decisions(recorded(nodes=nodes[:1]), recorded(nodes=nodes))
    assert change == {
        "what": "nodes-added",
        "about": "cluster",
        "nodes": ["worker-2", "worker-3", "worker-4", "worker-5", "worker-6"],
        "count": 11,
        "text": "11 nodes (worker-2, worker-3, …) are new",
    }


def test_nodes_are_compared_by_name_not_by_slot() -> None:
    before = recorded(nodes=("worker-1", "worker-2"), rejected={"worker-1": FULL["worker-1"]})
    after = recorded(nodes=("worker-2", "worker-1"), rejected={"worker-1": FULL["worker-1"]})
    assert compare_decisions(before, after) == []


def test_a_history_counts_omitted_attempts() -> None:
    attempts = [recorded(rejected=FULL, attempt=3), recorded(late_s=60, attempt=4)]
    document = build_pod_history(attempts, [(3, 3), (4, 4)])
    assert document["attemptsOmitted"] == 2
    assert [(a["ordinal"], a["state"], a["node"], len(a["changes"])) for a in document["attempts"]] == [
        (3, "Unschedulable", None, 0),
        (4, "Bound", "worker-1", 1),
    ]
    assert document["attempts"][0]["rejectedBy"] == {"NodeResourcesFit": 3}
    assert document["attempts"][1]["changes"][0]["what"] == "fits"


def test_two_feasible_nodes_are_compared_by_points() -> None:
    document = build_node_comparison(recorded(points=POINTS), ["worker-1", "worker-2"])
    assert document["headline"] == (
        "worker-2 (rank 1) is 11 points ahead of worker-1 (rank 2): NodeResourcesFit +20, ImageLocality -9."
    )
    assert document["totals"] == [49, 60]
    assert sum(score["difference"] for score in document["scores"]) == 49 - 60
    assert {f["plugin"]: f["verdicts"] for f in document["filters"]}["NodeResourcesFit"] == ["pass", "pass"]


def test_an_infeasible_node_has_no_points_to_compare() -> None:
    of = recorded(rejected={"worker-3": {"NodeUnschedulable": CORDONED}}, points=POINTS)
    document = build_node_comparison(of, ["worker-1", "worker-3"])
    assert (document["scores"], document["totals"]) == ([], None)
    assert document["headline"] == (
        "worker-1 fits, and ranks 2 of 2, 11 points behind worker-2 (NodeResourcesFit -20, ImageLocality +9)."
        " worker-3 does not fit: rejected by NodeUnschedulable, 1 of 6 filters."
    )


def test_an_unknown_node_is_named() -> None:
    with pytest.raises(KeyError, match="worker-9"):
        build_node_comparison(recorded(), ["worker-1", "worker-9"])


A: dict[str, Any] = {"pod": "a", "points": {"worker-1": {"NodeResourcesFit": 90}, "worker-2": {"NodeResourcesFit": 80}}}
LESS = {"worker-1": {"NodeResourcesFit": 70}, "worker-2": {"NodeResourcesFit": 80}}
B: dict[str, Any] = {"pod": "b", "sequence": 5}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            recorded(late_s=9, points=LESS, **B),
            "a is on worker-1, b is on worker-2. When b was decided, worker-1 ranked 2, 10 points behind worker-2"
            " (NodeResourcesFit -10).",
        ),
        (
            recorded({"worker-1": 7900}, late_s=9, rejected={"worker-1": FULL["worker-1"]}, **B),
            "a is on worker-1, b is on worker-2. When b was decided, worker-1 did not fit: NodeResourcesFit, cpu:"
            " requests 500m; free 100m of 8.",
        ),
        (
            recorded(dict.fromkeys(NODES, 8000), late_s=9, rejected=FULL, **B),
            "a is on worker-1, b fits nowhere. When b was decided, worker-1 did not fit: NodeResourcesFit, cpu:"
            " requests 500m; free 0 of 8.",
        ),
        (
            recorded(late_s=9, nodes=("", "worker-2", "worker-3"), **B),
            "a is on worker-1, b is on worker-2. When b was decided, worker-1 was not in the cluster.",
        ),
    ],
    ids=["outscored", "rejected", "pending", "gone"],
)  # fmt: skip
def test_why_a_sibling_is_on_another_node(other: ComparedDecision, expected: str) -> None:
    document = build_pod_comparison([recorded(**A), other])
    assert document["headline"] == expected
    assert build_pod_comparison([other, recorded(**A)])["headline"] == expected
    assert document["secondsApart"] == 9
    assert next(n["node"] for n in document["nodes"]) == "worker-1"


def test_siblings_on_the_same_node() -> None:
    same = recorded(late_s=9, **A | B)
    assert build_pod_comparison([recorded(**A), same])["headline"].startswith(
        "Both are on worker-1. For b: On worker-1: best"
    )


def test_one_pod_in_two_simulations_is_named_with_its_variant() -> None:
    full = recorded(dict.fromkeys(NODES, 8000), rejected=FULL, **A | {"points": None})
    document = build_pod_comparison([full, recorded(**A)], ["stock.yaml", "packed.yaml"])
    assert document["headline"] == (
        "a with stock.yaml fits nowhere, a with packed.yaml is on worker-1. When a with stock.yaml was decided,"
        " worker-1 did not fit: NodeResourcesFit, cpu: requests 500m; free 0 of 8."
    )
    assert [pod["variant"] for pod in document["pods"]] == ["stock.yaml", "packed.yaml"]
    differences = document["differences"]
    assert (differences["from"], differences["to"]) == ("a with stock.yaml", "a with packed.yaml")
    assert differences["changes"][0]["text"] == (
        "worker-1, worker-2, worker-3: fit a with packed.yaml, not a with stock.yaml (NodeResourcesFit)"
    )


def test_variants_stay_in_their_order_even_if_the_second_decided_earlier() -> None:
    document = build_pod_comparison([recorded(late_s=9, **A), recorded(**A)], ["x", "y"])
    assert (document["differences"]["from"], document["secondsApart"]) == ("a with x", 9)


def test_pods_with_equal_digests_are_the_same_question() -> None:
    one = recorded(**A)
    other = replace(one, decision=replace(one.decision, pod=replace(one.decision.pod, digest="d2")))
    assert [build_pod_comparison([one, x])["sameQuestion"] for x in (one, other)] == [True, False]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            {},
            [("verdict", "worker-1: fits b, not a (NodeResourcesFit)")],
        ),
        (
            {"rejected": {"worker-1": {"NodeUnschedulable": CORDONED}, "worker-2": FULL["worker-2"]}},
            [
                ("verdict", "worker-2: fits a, not b (NodeResourcesFit)"),
                ("verdict", "worker-1: NodeResourcesFit rejects a, NodeUnschedulable rejects b"),
            ],
        ),
        (
            {"nodes": (*NODES, "worker-4"), "rejected": {"worker-1": FULL["worker-1"]}, "requests": {"cpu": 700}},
            [("pod", "requests cpu 500m → 700m"), ("cluster", "worker-4 is new")],
        ),
    ],
    ids=["fits-one", "other-filter", "cluster"],
)  # fmt: skip
def test_two_pods_differ_and_only_the_cluster_changes(other: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    pods = [recorded(pod="a", rejected={"worker-1": FULL["worker-1"]}), recorded(late_s=9, **B | other)]
    changes = build_pod_comparison(pods)["differences"]["changes"]
    assert [(change["about"], change["text"]) for change in changes] == expected


def test_free_amounts_of_nodes_that_one_pod_may_not_use_are_no_change_of_the_cluster() -> None:
    used = {"worker-1": 7900, "worker-2": 7900, "worker-3": 0}
    a, b = recorded(used, pod="a"), recorded(used, late_s=9, **B)
    restricted = array("B", [Evaluation.EVALUATED, Evaluation.EVALUATED, Evaluation.RESTRICTED])
    b = replace(b, decision=replace(b.decision, evaluation=restricted))
    changes = build_pod_comparison([a, b])["differences"]["changes"]
    assert [change["text"] for change in changes] == ["worker-3: fits a, not evaluated for b"]


def test_an_attempt_that_ended_before_ranking_is_compared_with_a_placed_pod() -> None:
    placed, ended = recorded(points=POINTS), recorded(late_s=60, pod="another")
    unranked = replace(ended.decision, path=DecisionPath.ERROR, chosen=None, rank=array("B", bytes(len(NODES))))
    document = build_pod_comparison([placed, ComparedDecision(unranked, ended.table)])
    assert document["headline"].endswith(
        "worker-2 passed every filter that ran; the attempt ended before it was ranked."
    )
