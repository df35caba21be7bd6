"""Each invariant of the reliability run reports a violation, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bench.reliability import invariants
from bench.reliability.invariants import INVARIANTS, LAG_S, Evidence
from bench.reliability.journal import GANG_SIZE, ClusterHistory, ObservedChange

Json = dict[str, Any]

CONTAINER = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "600m"}}}


def node(version: int, cpu: str = "1", *, at: float = 0.0, **spec: Any) -> ObservedChange:
    metadata = {"name": "n", "uid": "uid-n", "resourceVersion": str(version), "labels": {}}
    status = {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "10"}}
    return ObservedChange(at, version, "Node", "MODIFIED", {"metadata": metadata, "spec": spec, "status": status})


def pod(
    version: int, name: str = "a", node: str = "", type: str = "MODIFIED", decision: str = "", **spec: Any
) -> ObservedChange:
    metadata: Json = {"name": name, "namespace": "x", "uid": f"uid-{name}", "resourceVersion": str(version)}
    if decision:
        metadata["annotations"] = {"herodotus.dev/decision": decision}
    bound = {"nodeName": node} if node else {}
    body = {"metadata": metadata, "spec": {"containers": [CONTAINER], **bound, **spec}, "status": {"phase": "Pending"}}
    return ObservedChange(100.0, version, "Pod", type, body)


def decision(name: str = "a", node: str | None = "n", attempt: int = 1, state: str = "Bound") -> Json:
    return {
        "metadata": {"name": f"decision-{name}-{attempt}", "namespace": "x"},
        "spec": {
            "key": {"attempt": attempt},
            "pod": {"name": name, "uid": f"uid-{name}"},
            "times": {"startedAt": "1970-01-01T00:01:39+00:00"},
        },
        "status": {"node": node, "state": state, "message": ""},
    }


def record(finals: int = 1, message: str = "", **rejected: Json) -> Callable[[Json], Json]:
    filters = [{"plugin": plugin, "rejected": nodes} for plugin, nodes in rejected.items()]
    spec = {"filters": filters, "evaluation": {"n": "evaluated"}}
    bind = {"phase": "Bind", "final": True, "message": message}
    outcomes = [{"phase": "Permit", "final": False, "message": ""}, *[bind] * finals]
    return lambda decision: {"spec": spec, "status": {"outcomes": outcomes}}


GOOD = Evidence(
    history=[node(1), pod(2), pod(3, node="n")],
    decisions=[decision()],
    incarnations=[{"missing": 0, "explainedByGaps": 0}],
    record=record(),
    attempts=Counter({"x/a": 1}),
)
BOTH: dict[str, Any] = {"decisions": [decision(), decision("b")], "attempts": Counter({"x/a": 1, "x/b": 1})}
NOTHING: dict[str, Any] = {"decisions": [], "attempts": Counter()}
TAINT: dict[str, Any] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}


GANG: Json = {"schedulingGroup": {"podGroupName": "g"}}


def gang_pod(version: int, name: str, node: str = "", type: str = "MODIFIED", cpu: str = "600m") -> ObservedChange:
    """Return the change of a pod of a gang of two."""
    seen = pod(version, name, node, type, **GANG)
    seen.object["metadata"]["labels"] = {GANG_SIZE: "2"}
    seen.object["spec"]["containers"] = [{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}]
    return seen


UNTRUE = "every_record_agrees_with_the_api_server"
DELETED = [node(1), pod(2), pod(3, node="n"), pod(4, node="n", type="DELETED")]


def violated_invariants(evidence: Evidence) -> list[str]:
    """Return the name of an invariant for each of its violations."""
    return [check.__name__ for check in INVARIANTS for _ in check(evidence)]


def with_history(*history: ObservedChange, **more: Any) -> Evidence:
    return replace(GOOD, history=list(history), **more)


CASES: dict[str, tuple[Evidence, list[str]]] = {
    "no violation": (GOOD, []),
    "a process crashed": (replace(GOOD, crashes=["it died"]), ["no_process_crashed"]),
    "bound to two nodes, of which one does not exist": (
        with_history(node(1), pod(2), pod(3, node="n"), pod(4, node="m")),
        ["no_pod_is_bound_twice", "no_node_is_overcommitted", "no_pod_is_on_a_node_that_does_not_admit_it"],
    ),
    "two Bound decisions": (
        replace(GOOD, decisions=[decision(), decision(attempt=2)], attempts=Counter({"x/a": 2})),
        ["no_pod_is_bound_twice", UNTRUE],
    ),
    "bound, and its decision failed": (replace(GOOD, decisions=[decision(state="Failed")]), [UNTRUE]),
    "bound, and its decision is open": (replace(GOOD, decisions=[decision(state="Binding")]), [UNTRUE, UNTRUE]),
    "bound by the decision that its annotation names": (
        with_history(node(1), pod(2), pod(3, node="n", decision="decision-a-1")),
        [],
    ),
    "bound by another decision than the Bound one": (
        with_history(node(1), pod(2), pod(3, node="n", decision="decision-a-2")),
        [UNTRUE],
    ),
    "not bound, but its decision is Bound": (with_history(node(1, "0"), pod(2)), [UNTRUE]),
    "one decision failed, a later one bound it": (
        replace(GOOD, decisions=[decision(state="Failed"), decision(attempt=2)], attempts=Counter({"x/a": 2})),
        [],
    ),
    "bound, deleted before it could be read, and its decision names the deletion": (
        with_history(
            *DELETED,
            decisions=[decision(state="Failed")],
            record=record(message="the pod was deleted; whether it was bound before is unknown (not found)"),
        ),
        [],
    ),
    "bound, deleted, and its decision failed for another reason": (
        with_history(*DELETED, decisions=[decision(state="Failed")], record=record(message="timed out")),
        [UNTRUE],
    ),
    "bound, deleted, and only a decision for another node names the deletion": (
        with_history(
            *DELETED,
            decisions=[decision(node="m", state="Failed")],
            record=record(message="the pod was deleted"),
        ),
        [UNTRUE, "every_bound_pod_has_its_decision"],
    ),
    "bound by a decision and deleted": (with_history(*DELETED), []),
    "two final outcomes": (replace(GOOD, record=record(finals=2)), ["no_decision_has_two_outcomes"]),
    "two pods need more than the node has": (
        with_history(node(1), pod(2, node="n"), pod(3, "b", "n"), **BOTH),
        ["no_node_is_overcommitted"],
    ),
    "the first pod was deleted before the second was bound": (
        with_history(node(1), pod(2, node="n"), pod(3, node="n", type="DELETED"), pod(4, "b", "n"), **BOTH),
        [],
    ),
    "the node shrank less than LAG_S before the decision": (
        with_history(node(1, "2"), node(2, at=99.0 - LAG_S + 1), pod(3, node="n"), pod(4, "b", "n"), **BOTH),
        [],
    ),
    "the node shrank more than LAG_S before the decision": (
        with_history(node(1, "2"), node(2, at=99.0 - LAG_S - 1), pod(3, node="n"), pod(4, "b", "n"), **BOTH),
        ["no_node_is_overcommitted"],
    ),
    "a taint not tolerated": (
        with_history(node(1, **TAINT), pod(2, node="n")),
        ["no_pod_is_on_a_node_that_does_not_admit_it"],
    ),
    "tainted just before the decision": (with_history(node(1), node(2, at=98.0, **TAINT), pod(3, node="n")), []),
    "node selector does not match": (
        with_history(node(1), pod(2, node="n", nodeSelector={"zone": "z"})),
        ["no_pod_is_on_a_node_that_does_not_admit_it"],
    ),
    "bound to another node than its decision's": (
        replace(GOOD, decisions=[decision(node="m")]),
        [UNTRUE, "every_bound_pod_has_its_decision"],
    ),
    "a filter rejected the node": (
        replace(GOOD, record=record(NodePorts={"n": {}})),
        ["no_pod_is_on_a_node_that_a_filter_rejected"],
    ),
    "pending although a node is feasible": (
        with_history(node(1), pod(2), **NOTHING),
        ["no_schedulable_pod_is_pending"],
    ),
    "pending without a feasible node": (with_history(node(1, "0"), pod(2), **NOTHING), []),
    "pending with a scheduling gate": (with_history(node(1), pod(2, schedulingGates=[{"name": "g"}]), **NOTHING), []),
    "bound without a stored decision, and its record is known to be lost": (
        replace(GOOD, incarnations=[{"missing": 0, "explainedByGaps": 1}], **NOTHING),
        [],
    ),
    "a part of a gang waits, and fits": (
        with_history(node(1, "2"), gang_pod(2, "a", "n"), gang_pod(3, "b")),
        ["no_gang_is_bound_in_part"],
    ),
    "a part of a gang waits without room": (with_history(node(1), gang_pod(2, "a", "n"), gang_pod(3, "b")), []),
    "sequences missing without a gap": (
        replace(GOOD, incarnations=[{"missing": 1, "explainedByGaps": 1}]),
        ["every_attempt_is_stored_once"],
    ),
    "sequences explained by a gap": (replace(GOOD, incarnations=[{"missing": 0, "explainedByGaps": 2}]), []),
    "an attempt without a record": (replace(GOOD, attempts=Counter({"x/a": 2})), ["every_attempt_is_stored_once"]),
    "killed before it was counted": (
        replace(GOOD, attempts=Counter({"x/a": 4}), attempts_before_kills=Counter({"x/a": 3})),
        [],
    ),
    "another pod was tried before a kill": (
        replace(GOOD, attempts=Counter({"x/a": 2, "x/b": 1}), attempts_before_kills=Counter({"x/b": 1})),
        ["every_attempt_is_stored_once"],
    ),
    "a record without an attempt": (replace(GOOD, attempts=Counter()), ["every_attempt_is_stored_once"]),
}


@pytest.mark.parametrize(("evidence", "violated"), CASES.values(), ids=CASES)
def test_invariants_report_their_violations(evidence: Evidence, violated: list[str]) -> None:
    assert violated_invariants(evidence) == violated


@pytest.mark.parametrize(
    ("history", "violations"),
    [
        ([gang_pod(1, "a"), gang_pod(2, "b"), gang_pod(3, "a", "n")], 0),
        ([gang_pod(1, "a"), gang_pod(3, "a", "n")], 1),
        ([gang_pod(1, "a"), gang_pod(2, "b", cpu="64"), gang_pod(3, "a", "n")], 1),
        ([gang_pod(1, "a"), gang_pod(2, "b", type="DELETED"), gang_pod(3, "a", "n")], 0),
    ],
    ids=["in full", "alone", "the other one is too big", "the other one was deleted just before"],
)
def test_a_pod_of_a_gang_is_bound_only_with_the_others(history: list[ObservedChange], violations: int) -> None:
    past = ClusterHistory()
    for seen in history:
        past.apply(seen)
    assert len(list(invariants.gang_was_placed_in_full(history[-1], past, since=50.0))) == violations


def test_every_invariant_is_checked() -> None:
    defined = {name for name, f in vars(invariants).items() if name.startswith(("no_", "every_")) and callable(f)}
    assert {check.__name__ for check in INVARIANTS} == defined


def test_a_violation_includes_the_history_of_the_pod() -> None:
    (violation,) = invariants.no_pod_is_bound_twice(with_history(node(1), pod(2), pod(3, node="n"), pod(4, node="m")))
    assert [line.split()[0:2] for line in violation.splitlines()[1:]] == [["seen", "100.000"]] * 3 + [
        ["decided", "1970-01-01T00:01:39+00:00"]
    ]
