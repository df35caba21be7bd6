"""Answers over many decisions: pending pods, placements, and decisions with other weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus_answers.balance import UnknownPluginError, build_balance
from herodotus_answers.pending import PendingPod, build_pending_pods, find_dominant_reason
from herodotus_answers.preemptions import PreemptionEntry
from herodotus_answers.wording import ShortReason
from herodotus_answers.workload import (
    NOMINATED,
    ONLY,
    OUTSCORED,
    TIE,
    UNSCORED,
    DecidingFactor,
    Placement,
    PlacementCount,
    WorkloadName,
    build_workload_placement,
    build_workload_placements,
    describe_other_nodes,
    find_deciding_factor,
    find_pod_of_only_node,
    get_kind_name,
    list_top_workloads,
)
from herodotus_record.model import Decision, NodeTable, Outcome, Retry
from tests.builders import INSUFFICIENT_CPU, MONDAY_US, SCORES, a_decision, a_table
from tests.support.examples import examples

SECOND_US = 1_000_000
NODES = ("worker-1", "worker-2", "worker-3")


@dataclass(frozen=True)
class SurveyedDecision:
    decision: Decision
    table: NodeTable
    outcomes: tuple[Outcome, ...] = ()


def recorded(**given: Any) -> SurveyedDecision:
    return SurveyedDecision(a_decision(**given), a_table(given.get("nodes", NODES)))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/12 nodes are available: 4 node(s) had untolerated taint(s), 8 Insufficient cpu.", "Insufficient cpu"),
        (
            "0/3 nodes are available: 2 Insufficient cpu, 1 Too many pods. preemption: 0/3 nodes are available: 3 No"
            " preemption victims found for incoming pod.",
            "Insufficient cpu",
        ),
        (
            "0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints (missing required label).",
            "node(s) didn't match pod topology spread constraints (missing required label)",
        ),
        ('0/3 nodes are available: persistentvolumeclaim "data" not found.', 'persistentvolumeclaim "data" not found'),
        (
            "0/9 nodes are available: 1 Too many pods, 8 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            "Too many pods",
        ),
        (
            "0/9 nodes are available: 2 Insufficient cpu, 7 node(s) didn't match Pod's node affinity/selector.",
            "Insufficient cpu",
        ),
        (
            "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector.",
            "node(s) didn't match Pod's node affinity/selector",
        ),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ("", "no reason given"),
    ],
    ids=["most", "with-preemption", "brackets", "prefilter", "restricted", "selected", "excluded", "no-nodes", "none"],
)
def test_the_dominant_reason_is_that_of_most_nodes(message: str, reason: str) -> None:
    assert find_dominant_reason(message) == reason


def a_pending_pod(pod: str, message: str = "0/1 nodes are available: 1 Insufficient cpu.", **more: Any) -> PendingPod:
    given: dict[str, Any] = {"started_us": MONDAY_US, "message": message, "decision_id": "d"}
    return PendingPod("shop", pod, f"uid-{pod}", None, "p", "Unschedulable", 1, **given | more)


def test_a_pod_whose_binding_failed_has_its_own_reason() -> None:
    (pod,) = build_pending_pods([replace(a_pending_pod("a", ""), state="Failed")], now_us=MONDAY_US)["pods"]
    assert pod["reason"] == "a node was chosen, but the pod could not be bound to it"


def test_every_pod_is_in_one_group_and_the_largest_is_first() -> None:
    taint = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    document = build_pending_pods(
        [a_pending_pod("a", taint), *(a_pending_pod(f"b-{i}") for i in range(7))], now_us=MONDAY_US, omitted=3
    )
    assert [(g["code"], g["count"], len(g["pods"]), g["podsOmitted"]) for g in document["groups"]] == [
        ("insufficient", 7, 5, 2),
        ("untolerated-taint", 1, 1, 0),
    ]
    assert (document["count"], len(document["pods"]), document["podsOmitted"]) == (8, 8, 3)


@pytest.mark.parametrize(
    ("retry", "seconds", "overdue"),
    [
        (None, 999, False),
        (Retry("backoff", MONDAY_US, None), 59, False),
        (Retry("backoff", MONDAY_US, None), 61, True),
        (Retry("unschedulable", MONDAY_US, MONDAY_US + 300 * SECOND_US), 359, False),
        (Retry("unschedulable", MONDAY_US, MONDAY_US + 300 * SECOND_US), 361, True),
    ],
    ids=["unknown", "soon", "missed", "waits", "missed-the-latest"],
)
def test_a_pod_whose_retry_is_late_is_overdue(retry: Retry | None, seconds: int, overdue: bool) -> None:
    document = build_pending_pods([a_pending_pod("a", retry=retry)], now_us=MONDAY_US + seconds * SECOND_US)
    assert (document["overdue"], document["pods"][0]["overdue"]) == (overdue, overdue)


POINTS = {"worker-1": {"NodeResourcesFit": 90}, "worker-2": {"NodeResourcesFit": 80}}


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (a_decision(points=POINTS), DecidingFactor("NodeResourcesFit", 10)),
        (a_decision(points={**POINTS, "worker-2": POINTS["worker-1"]}), DecidingFactor(TIE, 0)),
        (
            a_decision(rejected={n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in NODES[1:]}),
            DecidingFactor(ONLY, None),
        ),
        (replace(a_decision(points=POINTS), chosen=NODES.index("worker-2")), DecidingFactor(OUTSCORED, None)),
    ],
    ids=["plugin", "tie", "only", "outscored"],
)
def test_the_deciding_factor_of_a_placement(decision: Decision, reason: DecidingFactor) -> None:
    assert find_deciding_factor(decision) == reason
    assert NOMINATED  # a nominated node follows from the path, see test_explain


def placed(pod: str, node: str | None, by: str = "NodeResourcesFit", points: int = 4) -> Placement:
    state = "Bound" if node else "Unschedulable"
    reason = DecidingFactor(by, points) if node else None
    return Placement("shop", pod, "shop/Deployment/web", node, MONDAY_US, state, "" if node else "no room", reason)


def test_placements_of_a_workload_are_counted_by_node() -> None:
    pods = [placed("a", "worker-1"), placed("b", "worker-1", TIE, 0), placed("c", "worker-2"), placed("d", None)]
    document = build_workload_placement(
        WorkloadName("shop", "Deployment/web"), pods, 3, since_us=MONDAY_US, complete=True
    )
    assert document["headline"] == (
        "3 pods went to 2 of 3 nodes, at most 2 to one (worker-1). NodeResourcesFit decided 2 of 3."
        " 1 pod found no node."
    )
    assert [(n["node"], n["pods"], n["meanMargin"], n["decidedBy"]) for n in document["nodes"]] == [
        ("worker-1", 2, 2.0, {"NodeResourcesFit": 1, TIE: 1}),
        ("worker-2", 1, 4.0, {"NodeResourcesFit": 1}),
    ]
    assert document["skew"] == 2  # a node of the cluster has none
    assert [p["pod"] for p in document["pending"]] == ["d"]


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        (TIE, "A draw among equals decided 2 of 2."),
        (ONLY, "Why: only one node fitted, 2 of 2 times."),
        (NOMINATED, "Why: preemption made room on the node, 2 of 2 times."),
        (OUTSCORED, "Why is not on record: another node scored higher, 2 of 2 times."),
        (UNSCORED, "Why is not on record: no node was scored, 2 of 2 times."),
    ],
)
def test_the_headline_of_a_workload_says_in_words_what_decided(by: str, reason: str) -> None:
    pods = [placed("a", "worker-1", by), placed("b", "worker-1", by)]
    workload = WorkloadName("shop", "Deployment/web")
    document = build_workload_placement(workload, pods, 3, since_us=MONDAY_US, complete=True)
    assert document["headline"] == f"2 pods went to worker-1, 1 of 3 nodes. {reason}"


def test_a_preempted_pod_is_not_counted_as_placed() -> None:
    by: PreemptionEntry = {
        "at": "2026-03-02T00:00:00Z",
        "node": "worker-1",
        "evicted": True,
        "source": "recorded",
        "profile": "default-scheduler",
        "preemptor": None,
        "victims": [],
        "pdbViolations": 0,
    }
    name = WorkloadName("shop", "Deployment/web")
    pods = [placed("a", "worker-1"), replace(placed("b", "worker-1"), preempted_by=by), placed("c", None)]
    document = build_workload_placement(name, pods, 3, since_us=MONDAY_US, complete=True)
    assert (document["placed"], [n["pods"] for n in document["nodes"]]) == (1, [1])
    assert document["preempted"] == [{"pod": "b", "preemptedBy": by}]
    assert document["headline"].endswith(" 1 pod was preempted by a pod of another namespace. 1 pod found no node.")
    assert [p["pod"] for p in document["recent"]] == ["a"]
    (listed,) = build_workload_placements(pods, since_us=MONDAY_US, complete=True, namespace="shop")["workloads"]
    assert (listed["placed"], listed["preempted"], listed["pending"], listed["mostOnOneNode"]) == (1, 1, 1, 1)
    lost = build_workload_placement(name, pods[1:2], 3, since_us=MONDAY_US, complete=True)
    assert lost["headline"].startswith("No pod of Deployment/web has kept its node. 1 pod was preempted")


def test_a_pending_pod_of_a_workload_has_the_reason_of_its_decision_or_of_its_message() -> None:
    message = "0/3 nodes are available: 3 Insufficient cpu."
    read = ShortReason("nodes have too little cpu", "insufficient", {"resource": "cpu"})
    pods = [replace(placed("a", None), message=message, reason=read), replace(placed("b", None), message=message)]
    document = build_workload_placement(WorkloadName("shop", "Job/a"), pods, 3, since_us=MONDAY_US, complete=True)
    assert [p["reason"] for p in document["pending"]] == ["nodes have too little cpu", "Insufficient cpu"]


def test_kinds_are_named_as_the_api_server_does() -> None:
    assert get_kind_name("replicationcontroller") == "ReplicationController"


def test_top_workloads_of_a_node_are_ordered_by_placements() -> None:
    decided = {
        "shop/Job/a": {ONLY: PlacementCount(1, None)},
        "shop/Deployment/web": {
            TIE: PlacementCount(1, 0),
            "NodeResourcesFit": PlacementCount(2, 9),
            ONLY: PlacementCount(1, None),
        },
    }
    web, job = list_top_workloads(decided)
    assert web == {
        "workload": "shop/Deployment/web",
        "placements": 4,
        "decidedBy": {"NodeResourcesFit": 2, TIE: 1, ONLY: 1},
        "meanMargin": 3.0,
    }
    assert list(web["decidedBy"]) == ["NodeResourcesFit", ONLY, TIE], "the most first, then by name"
    assert (job["workload"], job["meanMargin"]) == ("shop/Job/a", None)


POINT = st.integers(0, 100)
NODE_POINTS = st.fixed_dictionaries(dict.fromkeys(NODES, st.fixed_dictionaries(dict.fromkeys(SCORES, POINT))))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(NODE_POINTS, min_size=1, max_size=5), st.fixed_dictionaries(dict.fromkeys(SCORES, st.integers(0, 9))))
def test_the_winner_with_other_weights_has_the_best_total(
    points: list[dict[str, dict[str, int]]], weights: dict[str, int]
) -> None:
    sample = [recorded(points=p, pod=f"pod-{i}") for i, p in enumerate(points)]
    document = build_balance(sample, weights, since_us=0, until_us=1, complete=True)
    would_win = dict.fromkeys(NODES, 0.0)
    moved = 0
    for r, of in zip(sample, points, strict=True):
        sums = {node: sum(of[node][p] * weights[p] for p in SCORES) for node in NODES}
        best = [node for node in NODES if sums[node] == max(sums.values())]
        chosen = NODES[r.decision.chosen or 0]
        moved += chosen not in best
        for node in [chosen] if chosen in best else best:
            would_win[node] += 1 / (1 if chosen in best else len(best))
    assert {n["node"]: n["wouldWin"] for n in document["nodes"]} == pytest.approx(would_win, abs=1e-3)
    assert document["moved"] == moved
    same = build_balance(sample, SCORES, since_us=0, until_us=1, complete=True)
    assert (same["moved"], [n["won"] for n in same["nodes"]]) == (0, [n["wouldWin"] for n in same["nodes"]])
    assert sum(n["won"] for n in document["nodes"]) == len(sample)
    assert sum(n["expected"] for n in document["nodes"]) == pytest.approx(len(sample), abs=0.01)


def test_moves_without_a_plugin_count_changed_winners() -> None:
    document = build_balance([recorded(points=POINTS)], {}, since_us=0, until_us=1, complete=True)
    parts = {p["plugin"]: (p["weight"], p["decided"], p["movesWithout"]) for p in document["plugins"]}
    assert parts == {"TaintToleration": (3, 0, 0), "NodeResourcesFit": (1, 1, 0), "ImageLocality": (1, 0, 0)}
    other = {**POINTS, "worker-2": {"NodeResourcesFit": 80, "ImageLocality": 5}}
    document = build_balance([recorded(points=other)], {}, since_us=0, until_us=1, complete=True)
    assert {p["plugin"]: p["movesWithout"] for p in document["plugins"]}["NodeResourcesFit"] == 1


def test_a_weight_for_a_plugin_that_did_not_score_is_refused() -> None:
    with pytest.raises(UnknownPluginError, match="no decision was scored by Nope; there are: TaintToleration"):
        build_balance([recorded(points=POINTS)], {"Nope": 1}, since_us=0, until_us=1, complete=True)


def test_a_balance_without_placements() -> None:
    document = build_balance([], {}, since_us=0, until_us=1, complete=True)
    assert (document["headline"], document["nodes"]) == ("No pod was placed.", [])


def test_of_many_nodes_the_winners_are_listed() -> None:
    nodes = tuple(f"worker-{i}" for i in range(1, 302))
    best = {"worker-301": {"NodeResourcesFit": 90}}
    document = build_balance([recorded(nodes=nodes, points=best)], {}, since_us=0, until_us=1, complete=True)
    assert (len(document["nodes"]), document["nodesOmitted"]) == (200, 101)
    assert document["nodes"][0]["node"] == "worker-301"
    assert document["headline"].startswith("1 pod went to 1 of 301 nodes.")


def test_other_nodes_of_a_pod_that_one_node_fitted_have_their_filters() -> None:
    recent = [
        {"pod": "a", "decidedBy": "NodeAffinity"},
        {"pod": "b", "decidedBy": ONLY},
        {"pod": "c", "decidedBy": ONLY},
    ]
    assert (find_pod_of_only_node({"recent": recent}), find_pod_of_only_node({"recent": recent[:1]})) == ("b", "")
    groups = [("NodeAffinity", 4), ("TaintToleration", 3), ("TaintToleration", 2)]
    explanation = {
        "metadata": {"name": "b", "namespace": "shop"},
        "rejections": [{"plugin": plugin, "count": count} for plugin, count in groups],
    }
    text = "rejected by TaintToleration 5, NodeAffinity 4 (kubectl herodotus pod b -n shop)"
    assert describe_other_nodes(explanation) == text
    assert describe_other_nodes({}) == ""
