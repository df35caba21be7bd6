"""Questions about a record: each on a small decision, with the whole answer."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace

import pytest
from hypothesis import given, settings

from herodotus_answers import explain, headlines, node_results
from herodotus_answers.decision import build_decision_document
from herodotus_answers.pod import MAX_NAMED, MAX_RANKED, build_pod_explanation, explain_node
from herodotus_answers.rejection_sentences import find_short_reason
from herodotus_record import reasons
from herodotus_record.model import (
    Candidate,
    Code,
    Decision,
    DecisionPath,
    Evaluation,
    NodeTable,
    PluginVerdict,
    Preemption,
    Reason,
    Suggestion,
    Verdict,
)
from tests.builders import CORDONED, INSUFFICIENT_CPU, TAINTED, a_decision, a_table, bound
from tests.support.examples import examples
from tests.support.record_strategies import decisions

NODES = ("worker-1", "worker-2", "worker-3")
TABLE = a_table(NODES, used={"worker-1": 7600, "worker-2": 7900})
POINTS = {
    "worker-1": {"TaintToleration": 100, "NodeResourcesFit": 40},
    "worker-3": {"TaintToleration": 100, "NodeResourcesFit": 90},
}
PLACED = a_decision(points=POINTS)  # totals 340, 0, 390
PENDING = a_decision(
    rejected={
        "worker-1": {"NodeResourcesFit": INSUFFICIENT_CPU},
        "worker-2": {"NodeResourcesFit": INSUFFICIENT_CPU, "TaintToleration": TAINTED},
        "worker-3": {"NodeUnschedulable": CORDONED},
    }
)
HOST = "kubernetes.io/hostname"


def a_verdict(code: str, **params: str) -> Verdict:
    return Verdict(Code.UNSCHEDULABLE, (Reason(code, params),))


NO = PluginVerdict("DynamicResources", Verdict(Code.UNSCHEDULABLE, (Reason("text", {"text": "no claims"}),)))


def test_the_state_of_a_decision() -> None:
    waiting = bound(PLACED, TABLE)
    assert explain.derive_state(PLACED, []) == "Binding"
    assert explain.derive_state(PLACED, [replace(waiting, final=False)]) == "Binding"
    assert explain.derive_state(PLACED, [waiting]) == "Bound"
    assert explain.derive_state(PLACED, [bound(PLACED, TABLE, status=Code.ERROR)]) == "Failed"
    assert explain.derive_state(PENDING, []) == "Unschedulable"
    assert explain.derive_state(replace(PENDING, path=DecisionPath.ERROR), []) == "Error"


def test_ranking_margin_and_shares() -> None:
    assert explain.rank_slots(PLACED) == [2, 0, 1]
    assert explain.weigh_scores(PLACED, 2) == {"TaintToleration": 300, "NodeResourcesFit": 90, "ImageLocality": 0}
    assert explain.compute_margin(PLACED) == explain.Margin(2, 0, 50, (("NodeResourcesFit", 50),))


def test_named_points_add_up_to_the_difference() -> None:
    shares = (("A", 9), ("B", 2), ("C", 1), ("D", -8))
    assert explain.format_shares(shares) == "A +9, D -8, B +2, C +1"
    assert explain.format_shares((*shares, ("E", -3))) == "A +9, D -8, E -3, 2 others +3"


def test_a_margin_includes_negative_shares() -> None:
    points = {"worker-1": {"NodeResourcesFit": 90}, "worker-2": {"TaintToleration": 50, "ImageLocality": 10}}
    assert explain.compute_margin(a_decision(points=points)) == explain.Margin(
        1, 0, 70, (("TaintToleration", 150), ("ImageLocality", 10), ("NodeResourcesFit", -90))
    )


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(PENDING, id="nothing fits"),
        pytest.param(a_decision(nodes=["only"]), id="one fits"),
    ],
)
def test_there_is_no_margin_with_fewer_than_two_scored_nodes(decision: Decision) -> None:
    assert explain.compute_margin(decision) is None


def test_all_rejections_of_a_node_are_listed_in_order() -> None:
    assert node_results.list_rejections(PENDING, 1) == [
        ("TaintToleration", TAINTED),
        ("NodeResourcesFit", INSUFFICIENT_CPU),
    ]
    assert [plugin for plugin, v in node_results.list_verdicts(PENDING, 1) if v.code is Code.SUCCESS] == [
        *("NodeUnschedulable", "NodeName", "NodeAffinity", "NodePorts"),
    ]
    narrowed = replace(PENDING, evaluation=type(PENDING.evaluation)("B", [0, Evaluation.RESTRICTED, 0]))
    assert node_results.list_verdicts(narrowed, 1) == []


def test_a_reason_has_the_numbers_of_its_node() -> None:
    (reason,) = INSUFFICIENT_CPU.reasons
    assert node_results.build_reason_detail(PENDING, TABLE, 0, reason) == {
        "code": "insufficient",
        "sentence": "Insufficient cpu",
        "params": {"resource": "cpu"},
        "resource": "cpu",
        "requested": 500,
        "free": 400,
        "allocatable": 8000,
        "text": "cpu: requests 500m; free 400m of 8",
    }
    assert (
        node_results.build_reason_detail(PENDING, TABLE, 0, Reason("too-many-pods"))["text"]
        == "pods: requests 1; free 107 of 110"
    )
    assert (
        node_results.build_reason_detail(PENDING, TABLE, 0, TAINTED.reasons[0])["text"]
        == "taint dedicated=gpu:NoSchedule not tolerated"
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason("unschedulable"), "uncordon worker-1"),
        (TAINTED.reasons[0], "tolerate dedicated=gpu:NoSchedule (worker-1)"),
        (Reason("untolerated-taint", {"key": "k", "effect": "NoExecute"}), "tolerate k:NoExecute (worker-1)"),
        (
            Reason("untolerated-taint", {"key": "k", "effect": "NoExecute", "others": "l=1:NoSchedule"}),
            "tolerate k:NoExecute and l=1:NoSchedule (worker-1)",
        ),
        (
            Reason("node-affinity", {"wants": "disk=ssd"}),
            "change what the pod selects, or label worker-1 with disk=ssd if that is true of it",
        ),
        (Reason("ports", {"ports": "80/TCP"}), "free host port 80/TCP on worker-1"),
        (Reason("too-many-pods"), "remove a pod from worker-1: its limit of 110 pods is reached"),
        (Reason("insufficient", {"resource": "cpu"}), "free 100m cpu on worker-1"),
        (
            Reason("insufficient", {"resource": "memory"}),
            "request at most 32Gi memory (free now; worker-1 has 32Gi in all), or add a larger node",
        ),
        (Reason("insufficient", {"resource": "example.com/gpu"}), "add a node that has example.com/gpu"),
        (Reason("node-name"), "resolve on worker-1: node(s) didn't match the requested node name"),
    ],
    ids=lambda v: v.code if isinstance(v, Reason) else "",
)
def test_the_remedy_of_each_reason(reason: Reason, words: str) -> None:
    decision = a_decision(
        rejected={"worker-1": {"NodeName": Verdict(Code.UNSCHEDULABLE, (reason,))}},
        requests={"cpu": 500, "memory": 64 << 30, "example.com/gpu": 1},
    )
    assert node_results.list_possible_node_changes(decision, TABLE, 0) == [words]
    assert node_results.list_possible_node_changes(decision, TABLE, 1) == []


def test_suggestions_are_the_fewest_changes_on_the_nearest_node() -> None:
    assert explain.list_possible_changes(PENDING, TABLE) == ["uncordon worker-3"]
    full = {n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in NODES[:2]}
    decision = a_decision(rejected=full, nodes=NODES[:2])
    assert explain.list_possible_changes(decision, TABLE) == ["free 100m cpu on worker-1"]
    assert explain.list_possible_changes(PLACED, TABLE) == []


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        pytest.param(
            PLACED,
            "On worker-3: best of 3 feasible nodes out of 3, 50 points ahead of worker-1 (NodeResourcesFit +50).",
            id="scored",
        ),
        pytest.param(
            a_decision(points={n: {"NodeResourcesFit": 5} for n in NODES[:2]}),
            "On worker-1: drawn among 2 nodes with the best total (5 points), 3 feasible nodes out of 3.",
            id="drawn",
        ),
        pytest.param(
            a_decision(rejected={n: {"NodeUnschedulable": CORDONED} for n in NODES[1:]}),
            "On worker-1: the only node of 3 that fits; scoring was not needed.",
            id="only one",
        ),
        pytest.param(
            replace(PLACED, path=DecisionPath.NOMINATED),
            "On worker-3: nominated by an earlier attempt's preemption, and it fits.",
            id="nominated",
        ),
        pytest.param(
            a_decision(nodes=[]),
            "No node fits: the cluster has no nodes, so add one or see why none has joined.",
            id="no nodes",
        ),
        pytest.param(
            a_decision(pre_filters=(NO,)),
            "No node fits: DynamicResources rejected the pod before any node was evaluated: no claims.",
            id="PreFilter",
        ),
        pytest.param(
            replace(PENDING, path=DecisionPath.ERROR, message="it broke"),
            "The attempt ended in an error: it broke",
            id="error",
        ),
        pytest.param(
            a_decision(rejected={n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in NODES}),
            "No node fits: 3 of 3 nodes have too little cpu. Closest: worker-3 (cpu: requests 500m; free 8 of 8).",
            id="all full",
        ),
        pytest.param(
            a_decision(nodes=NODES[:1], rejected={NODES[0]: {"NodeResourcesFit": INSUFFICIENT_CPU}}),
            "No node fits: the only node has too little cpu (cpu: requests 500m; free 400m of 8).",
            id="one node, full",
        ),
        pytest.param(
            PENDING,
            "No node fits: 1 of 3 nodes is cordoned (worker-3), 1 has the untolerated taint dedicated=gpu:NoSchedule"
            " (worker-2), 1 has too little cpu (worker-1: cpu: requests 500m; free 400m of 8).",
            id="each reason with its own nodes",
        ),
        pytest.param(
            replace(PENDING, suggestions=(Suggestion("worker-2", (Reason("uncordon"),)),)),
            "No node fits: 1 of 3 nodes has the untolerated taint dedicated=gpu:NoSchedule (worker-2), 1 is cordoned"
            " (worker-3), 1 has too little cpu (worker-1: cpu: requests 500m; free 400m of 8). worker-2 also has too"
            " little cpu.",
            id="the node of the first suggestion is told first and whole",
        ),
        pytest.param(
            a_decision(
                rejected={n: {"NodeAffinity": a_verdict("node-affinity", wants="disk=ssd")} for n in NODES[:2]}
                | {NODES[2]: {"NodeResourcesFit": INSUFFICIENT_CPU}}
            ),
            "No node fits: 1 of 3 nodes has too little cpu (worker-3: cpu: requests 500m; free 8 of 8), 2 do not match"
            " disk=ssd (worker-1, worker-2).",
            id="nodes that the pod leaves out are told last",
        ),
        pytest.param(
            a_decision(
                rejected={
                    NODES[0]: {"TaintToleration": TAINTED, "NodeAffinity": a_verdict("node-affinity", wants="disk=ssd")}
                }
                | {n: {"NodeAffinity": a_verdict("node-affinity", wants="disk=ssd")} for n in NODES[1:]}
            ),
            "No node fits: 2 of 3 nodes do not match disk=ssd (worker-2, worker-3), 1 has the untolerated taint"
            " dedicated=gpu:NoSchedule (worker-1).",
            id="a taint of a node that the pod leaves out is told after what leaves it out",
        ),
        pytest.param(
            a_decision(
                rejected={
                    n: {"NodeAffinity": a_verdict("pod-affinity", key="zone", wants="app=redis", lacks="pods")}
                    for n in NODES
                }
            ),
            "No node fits: 3 of 3 nodes have no pod that matches app=redis in the same zone. No pod on any node"
            " satisfies this pod affinity: check its labels and namespaces.",
            id="no pod for an affinity",
        ),
        pytest.param(
            replace(
                a_decision(nodes=NODES[:1], rejected={NODES[0]: {"NodeResourcesFit": a_verdict("too-many-pods")}}),
                restricted_by=("NodeAffinity",),
                nodes_total=9,
            ),
            "No node fits: only worker-1 is eligible (NodeAffinity), and it has no room for another pod (pods: requests"
            " 1; free 107 of 110).",
            id="the only node that the pod may use",
        ),
        pytest.param(
            a_decision(
                rejected={
                    n: {"NodeAffinity": a_verdict("existing-anti-affinity", key="zone", pod=f"db/guard-{n[-1]}")}
                    for n in NODES
                }
            ),
            "No node fits: 3 of 3 nodes have a pod in the same zone whose anti-affinity keeps this pod away (worker-1:"
            " db/guard-1, worker-2: db/guard-2, worker-3: db/guard-3).",
            id="the pods that stand against each node",
        ),
        pytest.param(
            a_decision(
                rejected={n: {"NodeAffinity": a_verdict("node-affinity", wants=f"{HOST}=worker-9")} for n in NODES}
            ),
            f"No node fits: 3 of 3 nodes do not match {HOST}=worker-9. Node worker-9 is not in the cluster.",
            id="a node that is gone",
        ),
    ],
)
def test_the_headline_of_a_decision(decision: Decision, words: str) -> None:
    assert headlines.format_headline(decision, TABLE) == words


@pytest.mark.parametrize(
    ("decision", "text", "code"),
    [
        (PENDING, "nodes are cordoned; others have the untolerated taint dedicated=gpu:NoSchedule", "unschedulable"),
        (
            a_decision(
                rejected={
                    NODES[0]: {"TaintToleration": TAINTED, "NodeAffinity": a_verdict("node-affinity", wants="disk=ssd")}
                }
                | {n: {"NodeAffinity": a_verdict("node-affinity", wants="disk=ssd")} for n in NODES[1:]}
            ),
            "nodes do not match disk=ssd",
            "node-affinity",
        ),
        (
            replace(
                a_decision(nodes=NODES[:1], rejected={NODES[0]: {"NodePorts": a_verdict("ports", ports="TCP 443")}}),
                restricted_by=("NodeAffinity",),
            ),
            "its node has host port TCP 443 taken",
            "ports",
        ),
    ],
)
def test_the_short_reason_is_what_the_headline_begins_with(decision: Decision, text: str, code: str) -> None:
    reason = find_short_reason(decision, table_of(decision))
    assert reason is not None
    assert (reason.text, reason.code) == (text, code)
    predicate = text.partition(";")[0].partition(" ")[2].removeprefix("node ").removeprefix("are ")
    assert predicate in headlines.format_headline(decision, table_of(decision))


def test_a_placed_pod_has_no_short_reason() -> None:
    assert find_short_reason(PLACED, TABLE) is None


def test_resources_under_other_names_are_told() -> None:
    table = a_table(NODES)
    table.allocatable[1]["nvidia.com/mig-1g.10gb"] = 7  # type: ignore[index]
    table.allocatable[2]["amd.com/gpu"] = 1  # type: ignore[index]
    lacking = {n: {"NodeResourcesFit": a_verdict("insufficient", resource="nvidia.com/gpu")} for n in NODES}
    decision = a_decision(rejected=lacking, requests={"nvidia.com/gpu": 1})
    assert headlines.format_headline(decision, table) == (
        "No node fits: 3 of 3 nodes have too little nvidia.com/gpu. Closest: worker-1 (nvidia.com/gpu: requests 1; the"
        " node has none). Offered instead: nvidia.com/mig-1g.10gb (worker-2)."
    )


def test_nodes_without_a_resource_are_told_after_those_that_are_full_of_it() -> None:
    full = a_verdict("insufficient", resource="nvidia.com/gpu")
    none = a_verdict("insufficient", resource="nvidia.com/gpu", allocatable="0")
    table = a_table(NODES)
    table.allocatable[2]["nvidia.com/gpu"] = 4  # type: ignore[index]
    lacking = {n: {"NodeResourcesFit": none} for n in NODES[:2]} | {NODES[2]: {"NodeResourcesFit": full}}
    decision = a_decision(rejected=lacking, requests={"nvidia.com/gpu": 1})
    assert headlines.format_headline(decision, table) == (
        "No node fits: 1 of 3 nodes has too little nvidia.com/gpu (worker-3: nvidia.com/gpu: requests 1; free 4 of 4),"
        " 2 have no nvidia.com/gpu (worker-1, worker-2)."
    )
    answer = build_pod_explanation(decision, (), table)
    assert [(group["count"], group["reasons"][0]["text"]) for group in answer["rejections"]] == [
        (2, "nvidia.com/gpu: requests 1; the node has none"),
        (1, "nvidia.com/gpu: requests 1"),
    ]
    nowhere = a_decision(rejected={n: {"NodeResourcesFit": none} for n in NODES}, requests={"nvidia.com/gpu": 1})
    assert headlines.format_headline(nowhere, table) == "No node fits: 3 of 3 nodes have no nvidia.com/gpu."


def test_spread_domains_are_told_with_what_stops_the_emptiest() -> None:
    domains = {"domains": "z3=0, z1=1, z2=1", "emptiest": "worker-3", "matches": "true", "nodeTaintsPolicy": "Ignore"}
    full = a_verdict("spread", key="zone", pods="2", fewest="0", maxSkew="1", **domains)
    rejected = {n: {"NodeAffinity": full} for n in NODES[:2]} | {NODES[2]: {"TaintToleration": TAINTED}}
    answer = build_pod_explanation(a_decision(rejected=rejected), (), TABLE)
    assert [each["text"] for each in answer["spread"]] == [
        "zone, maxSkew 1: matching pods in the domains that count: z3 0, z1 1, z2 1. worker-3 counts as emptiest, but"
        " has the untolerated taint dedicated=gpu:NoSchedule. nodeTaintsPolicy Ignore counts tainted nodes; Honor would"
        " leave out those with taints that the pod does not tolerate."
    ]
    assert "spread" not in build_pod_explanation(PENDING, (), TABLE)


def test_devices_that_a_node_does_not_offer_are_told() -> None:
    table = a_table(NODES)
    broken = a_verdict("insufficient", resource="x.example/npu", capacity="8")
    none = a_verdict("insufficient", resource="x.example/npu")
    rejected = {n: {"NodeResourcesFit": none} for n in NODES[:2]} | {NODES[2]: {"NodeResourcesFit": broken}}
    decision = a_decision(rejected=rejected, requests={"x.example/npu": 1})
    assert "worker-3: x.example/npu: requests 1; 8 of 8 are not allocatable" in headlines.format_headline(
        decision, table
    )
    assert explain.list_possible_changes(decision, table) == [
        "find out why worker-3 offers 0 of its 8 x.example/npu: its device plugin reports the others as unhealthy, or"
        " has stopped"
    ]


def test_the_summary_of_a_pending_pod_is_its_events_message() -> None:
    assert (
        headlines.format_summary(PENDING, TABLE)
        == PENDING.message
        == (
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s)"
            " were unschedulable."
        )
    )
    assert headlines.format_summary(PLACED, TABLE) == headlines.format_headline(PLACED, TABLE)


def test_rejections_are_grouped_by_filter_and_reason() -> None:
    groups = explain.group_rejections(PENDING, TABLE, named=1)
    assert [(g["plugin"], g["count"], [n["node"] for n in g["nodes"]], g["nodesOmitted"]) for g in groups] == [
        ("NodeUnschedulable", 1, ["worker-3"], 0),
        ("TaintToleration", 1, ["worker-2"], 0),
        ("NodeResourcesFit", 1, ["worker-1"], 0),
    ]
    assert groups[1]["nodes"][0]["alsoRejectedBy"] == ["NodeResourcesFit"]


def test_the_nearest_node_is_first_in_its_group_and_others_are_counted() -> None:
    names = [f"n{i}" for i in range(20)]
    table = a_table(names, used={n: 8000 - i for i, n in enumerate(names)})
    decision = a_decision(nodes=names, rejected={n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in names})
    (group,) = explain.group_rejections(decision, table, named=3)
    assert ([n["node"] for n in group["nodes"]], group["nodesOmitted"], group["count"]) == (
        ["n19", "n18", "n17"],
        17,
        20,
    )
    (group,) = explain.group_rejections(decision, table)
    assert (len(group["nodes"]), group["nodesOmitted"]) == (20, 0)


def table_of(decision: Decision) -> NodeTable:
    return a_table([f"node-{i}" if e != Evaluation.ABSENT else "" for i, e in enumerate(decision.evaluation)])


@settings(max_examples=examples(60), deadline=None)
@given(decisions())
def test_invariants_of_every_answer(decision: Decision) -> None:
    table = table_of(decision)
    order = explain.rank_slots(decision)
    assert len(order) == decision.nodes_feasible
    rejected = [s for s in range(decision.slots) if node_results.list_rejections(decision, s)]
    assert not set(order) & set(rejected)
    assert len(order) + len(rejected) == decision.nodes_evaluated
    assert sum(g["count"] for g in explain.group_rejections(decision, table)) == len(rejected)
    lead = explain.compute_margin(decision)
    if lead is not None:
        assert sum(points for _, points in lead.shares) == lead.points >= 0
        assert (lead.points == 0) is bool(decision.ties)
    if len(decision.totals):
        assert all(sum(explain.weigh_scores(decision, s).values()) == decision.totals[s] for s in order)
    if decision.chosen is not None:
        assert order[0] == decision.chosen
        assert decision.chosen in (decision.ties or (decision.chosen,))

    answer = build_pod_explanation(decision, [], table)
    json.dumps(answer)
    assert len(answer["ranking"]) + answer["rankingOmitted"] == len(order)
    assert all(
        f["passed"] + f["rejected"] == (0 if f["skipped"] else decision.nodes_evaluated) for f in answer["filters"]
    )
    document = build_decision_document(decision, [], table)
    json.dumps(document)


def test_the_answer_for_5000_nodes_is_small() -> None:
    names = [f"worker-{i}" for i in range(5000)]
    rejected = {n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in names[:4000]}
    points = {n: {"NodeResourcesFit": i % 101} for i, n in enumerate(names)}
    decision, table = a_decision(nodes=names, rejected=rejected, points=points), a_table(names)
    answer = build_pod_explanation(decision, [], table)
    assert len(json.dumps(answer)) < 20_000
    assert (len(answer["ranking"]), answer["rankingOmitted"]) == (MAX_RANKED, 990)
    (group,) = answer["rejections"]
    assert (group["count"], len(group["nodes"]), group["nodesOmitted"]) == (4000, MAX_NAMED, 4000 - MAX_NAMED)
    assert "perNode" not in answer

    whole = build_pod_explanation(decision, [], table, every_node=True)
    assert (len(whole["ranking"]), whole["rankingOmitted"], len(whole["perNode"])) == (1000, 0, 5000)


def test_the_answer_for_one_node() -> None:
    answer = build_pod_explanation(PENDING, [], TABLE, node="worker-2")
    (row,) = answer["perNode"]
    assert (row["node"], row["feasible"], row["evaluation"]) == ("worker-2", False, "evaluated")
    assert [(r["plugin"], r["code"]) for r in row["rejectedBy"]] == [
        ("TaintToleration", "UnschedulableAndUnresolvable"),
        ("NodeResourcesFit", "Unschedulable"),
    ]
    assert row["possibleChanges"] == ["tolerate dedicated=gpu:NoSchedule (worker-2)", "free 400m cpu on worker-2"]
    with pytest.raises(KeyError, match="worker-9"):
        build_pod_explanation(PENDING, [], TABLE, node="worker-9")


def test_the_answer_of_a_bound_pod() -> None:
    answer = build_pod_explanation(PLACED, [bound(PLACED, TABLE)], TABLE)
    assert answer["outcome"] == {
        "state": "Bound",
        "path": "scored",
        "node": "worker-3",
        "final": True,
        "phases": [
            {
                "phase": "Bind",
                "status": "Success",
                "message": "",
                "at": "2026-03-01T12:00:00.020000+00:00",
                "durationSeconds": 0.004,
            }
        ],
    }
    assert answer["nodes"] == {"total": 3, "evaluated": 3, "feasible": 3, "notEvaluated": {}}
    margin = answer["margin"]
    assert margin is not None
    (made_up,) = margin["reasons"]
    assert (margin["points"], margin["best"], margin["runnerUp"]) == (50, "worker-3", "worker-1")
    assert margin["shares"] == {"NodeResourcesFit": 50}
    assert (made_up["plugin"], made_up["points"], made_up["best"], made_up["runnerUp"]) == (
        "NodeResourcesFit",
        50,
        [],
        [],
    )
    assert " requested against " in made_up["text"]
    assert answer["ranking"][0] == {
        "rank": 1,
        "node": "worker-3",
        "chosen": True,
        "total": 390,
        "scores": {
            "TaintToleration": {"raw": 100, "normalized": 100, "weighted": 300},
            "NodeResourcesFit": {"raw": 90, "normalized": 90, "weighted": 90},
            "ImageLocality": {"raw": 0, "normalized": 0, "weighted": 0},
        },
    }
    assert answer["pod"]["requests"] == {"cpu": "500m"}


def test_nodes_that_were_not_evaluated_are_counted_by_reason() -> None:
    decision = replace(PENDING, evaluation=type(PENDING.evaluation)("B", [0, 2, 3]), nodes_evaluated=1)
    assert build_pod_explanation(decision, [], TABLE)["nodes"]["notEvaluated"] == {"restricted": 1, "not-sampled": 1}


def test_the_document_is_complete() -> None:
    text = json.dumps(build_decision_document(PENDING, [bound(PLACED, TABLE)], TABLE))
    for name in NODES:
        assert name in text
    for verdict in (INSUFFICIENT_CPU, CORDONED, TAINTED):
        assert all(reasons.format_reason(r) in text or r.code in text for r in verdict.reasons)
    assert PENDING.id in text
    assert PENDING.key.incarnation in text
    assert PENDING.message in text


@pytest.mark.parametrize(
    ("decision", "slot", "words"),
    [
        (PLACED, 2, headlines.format_headline(PLACED, TABLE)),
        (PLACED, 0, "worker-1 fits, and ranks 2 of 3, 50 points behind worker-3 (NodeResourcesFit -50)."),
        (PENDING, 1, "worker-2 does not fit: rejected by TaintToleration and NodeResourcesFit, 2 of 6 filters."),
        (
            replace(PENDING, evaluation=array("B", [2, 2, 2]), restricted_by=("NodeAffinity",)),
            0,
            "worker-1 was not evaluated: NodeAffinity restricted the pod to other nodes.",
        ),
        (
            replace(PLACED, evaluation=array("B", [3, 0, 0])),
            0,
            "worker-1 was not evaluated: enough feasible nodes were found first (percentageOfNodesToScore: 100"
            " evaluates every node).",
        ),
    ],
    ids=["chosen", "outscored", "rejected", "narrowed", "not-sampled"],
)
def test_the_headline_of_one_node(decision: Decision, slot: int, words: str) -> None:
    assert headlines.format_node_headline(decision, TABLE, slot) == words


def test_the_victims_on_a_node_are_listed_with_the_node() -> None:
    found = Preemption("worker-2", (Candidate("worker-2", ("shop/batch-3",), 0),), evicted=False)
    decision = replace(PENDING, preemption=found)
    evictions = [explain_node(decision, TABLE, slot)["eviction"] for slot in range(3)]
    assert evictions == [
        None,
        {"node": "worker-2", "victims": ["shop/batch-3"], "pdbViolations": 0, "rejectedBy": None},
        None,
    ]


def test_the_remedy_of_a_cordoned_node_names_only_its_other_taints() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule", "others": "a=b:NoExecute"}
    tainted = Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (Reason("untolerated-taint", taint),))
    decision = a_decision(rejected={"worker-1": {"NodeUnschedulable": CORDONED, "TaintToleration": tainted}})
    assert node_results.list_possible_node_changes(decision, TABLE, 0) == [
        "uncordon worker-1",
        "tolerate a=b:NoExecute (worker-1)",
    ]


@pytest.mark.parametrize(("free", "words"), [(6 << 30, "2Gi"), ((6 << 30) + 1, "2Gi"), ((6 << 30) - 1, "2.1Gi")])
def test_the_amount_to_free_is_never_understated(free: int, words: str) -> None:
    reason = Verdict(Code.UNSCHEDULABLE, (Reason("insufficient", {"resource": "memory"}),))
    decision = a_decision(rejected={"worker-1": {"NodeResourcesFit": reason}}, requests={"memory": 8 << 30})
    table = a_table(NODES)
    table.requested = [{"memory": (32 << 30) - free}, *table.requested[1:]]
    assert node_results.list_possible_node_changes(decision, table, 0) == [f"free {words} memory on worker-1"]


@pytest.mark.parametrize(
    "points",
    [{}, {"worker-2": {"ImageLocality": 1}}, {"worker-1": {"ImageLocality": 1}, "worker-3": {"ImageLocality": 1}}],
    ids=["all-equal", "one-best", "two-best"],
)
def test_a_margin_is_between_the_first_two_of_the_ranking(points: dict[str, dict[str, int]]) -> None:
    decision = a_decision(points=points)
    best, next_ = explain.rank_slots(decision)[:2]
    lead = explain.compute_margin(decision)
    assert lead == explain.Margin(
        best, next_, decision.totals[best] - decision.totals[next_], explain.compare_scores(decision, best, next_)
    )


def test_a_margin_among_equals_without_a_chosen_node() -> None:
    """An extender may fail after the scores, which leaves a ranking without a chosen node."""
    decision = replace(a_decision(), chosen=None, path=DecisionPath.ERROR)
    assert explain.compute_margin(decision) == explain.Margin(0, 1, 0, ())
