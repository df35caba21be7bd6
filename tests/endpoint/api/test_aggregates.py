"""Answers over many decisions: contents, selection and refused requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from herodotus_cli.render import plain_text
from herodotus_cli.render import pod as pod_screen
from herodotus_record.model import (
    Agreement,
    Candidate,
    Cause,
    Code,
    Decision,
    DecisionPath,
    Outcome,
    Owner,
    Preemption,
    Reason,
    Reconstruction,
    Retry,
    Source,
)
from tests.builders import INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.service import API, Service, rows
from tests.support.screens import VIEWS

MINUTE_US = 60_000_000
TABLE = a_table(["worker-1", "worker-2", "worker-3"])
NOWHERE = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in TABLE.names}
WEB = Owner("ReplicaSet", "web-5484d601e6")


def decided(pod: str, sequence: int, **given: Any) -> Decision:
    return a_decision(pod=pod, sequence=sequence, started_us=MONDAY_US + sequence * MINUTE_US, **given)


FIRST = decided("web-1", 1, rejected=NOWHERE, owner=WEB)
THEN = decided("web-1", 2, attempt=2, owner=WEB, points={"worker-2": {"NodeResourcesFit": 9}})
WAITS = replace(
    decided("web-2", 4, rejected=NOWHERE, owner=WEB, labels={"pod-template-hash": "5484d601e6", "version": "2"}),
    retry=Retry("backoff", MONDAY_US + 9 * MINUTE_US, None),
)
OTHER = decided("web-canary-1", 5, owner=Owner("ReplicaSet", "web-canary-abcde"))
SECRET = decided("db-0", 7, namespace="vault", rejected=NOWHERE, owner=Owner("StatefulSet", "db"))


@pytest.fixture
def served(service: Service) -> Service:
    results = bound(THEN, TABLE, sequence=3), bound(OTHER, TABLE, sequence=6)
    service.stored(rows(TABLE), FIRST, THEN, WAITS, OTHER, SECRET, *results)
    return service


def test_pod_that_was_placed_later_is_not_pending(served: Service) -> None:
    assert [p["pod"] for p in served.get(f"{API}/pendingpods")["pods"]] == ["web-2", "db-0"]
    document = served.get(f"{API}/namespaces/shop/pendingpods")
    assert [(p["pod"], p["queue"], p["overdue"]) for p in document["pods"]] == [("web-2", "backoff", True)]
    assert document["groups"][0]["reason"] == "nodes have too little cpu"


@pytest.mark.parametrize(
    ("workload", "pods", "waiting"),
    [
        ("deployment.web", {"worker-2": 1}, ["web-2"]),
        ("Deployment.web-canary", {"worker-1": 1}, []),
        ("replicaset.web-5484d601e6", {"worker-2": 1}, ["web-2"]),
    ],
)
def test_a_workload_has_only_its_own_pods(
    served: Service, workload: str, pods: dict[str, int], waiting: list[str]
) -> None:
    document = served.get(f"{API}/namespaces/shop/workloadplacements/{workload}")
    assert {n["node"]: n["pods"] for n in document["nodes"]} == pods
    assert [p["pod"] for p in document["pending"]] == waiting


@pytest.mark.parametrize(
    ("path", "selector", "pods"),
    [
        ("pendingpods", "version=2", ["web-2"]),
        ("pendingpods", "version!=2", ["db-0"]),
        ("pendingpods", "version=3", []),
        ("namespaces/shop/workloadplacements/deployment.web", "version=2", ["web-2"]),
    ],
)
def test_label_selector_selects_pods(served: Service, path: str, selector: str, pods: list[str]) -> None:
    document = served.get(f"{API}/{path}", labelSelector=selector)
    assert [p["pod"] for p in document.get("pods", document.get("pending"))] == pods


def test_labels_select_the_pods_of_a_balance(served: Service) -> None:
    assert served.get(f"{API}/balances", labelSelector="app=checkout")["decisions"] == 2
    assert served.get(f"{API}/balances", labelSelector="!app")["decisions"] == 0


def test_a_deployment_is_recognized_by_its_template_hash(service: Service) -> None:
    """`web-blue` with the hash `abcde12345` is not a ReplicaSet of `web`, although its name could be that of one."""
    owner, labels = Owner("ReplicaSet", "web-blue-abcde12345"), {"pod-template-hash": "abcde12345"}
    lone = decided("w", 1, owner=Owner("ReplicaSet", "web-abcde12345"), labels={"pod-template-hash": "other"})
    service.stored(rows(TABLE), decided("b", 2, owner=owner, labels=labels), lone)
    path = f"{API}/namespaces/shop/workloadplacements/deployment"
    assert service.get(f"{path}.web-blue")["placed"] == 1
    assert service.error(f"{path}.web")["code"] == 404


def test_an_unknown_workload_gives_similar_names(served: Service) -> None:
    status = served.error(f"{API}/namespaces/shop/workloadplacements/deployment.wep")
    assert (status["code"], status["message"]) == (404, 'no decision for deployment "wep" in namespace "shop"')
    assert status["details"]["similar"] == ["web"]
    status = served.error(f"{API}/namespaces/shop/workloadplacements/deployment.web-canari")
    assert status["details"]["similar"] == ["web-canary", "web-canary-abcde"]


def test_a_balance_counts_placed_pods(served: Service) -> None:
    document = served.get(f"{API}/balances", weights="NodeResourcesFit=0")
    assert {n["node"]: (n["won"], n["wouldWin"]) for n in document["nodes"]} == {
        "worker-1": (1, 1.0),
        "worker-2": (1, 1.0),  # still among the best
        "worker-3": (0, 0.0),
    }
    assert served.get(f"{API}/balances", profile="another")["decisions"] == 0
    assert served.get(f"{API}/balances", limit=1)["complete"] is False


def test_a_node_history_has_its_share_and_an_equal_share(served: Service) -> None:
    document = served.history("worker-2")
    assert document["share"] == {"placements": 2, "nodes": 3}
    assert document["keepsGetting"] == [
        {
            "workload": "shop/ReplicaSet/web-5484d601e6",
            "placements": 1,
            "decidedBy": {"NodeResourcesFit": 1},
            "meanMargin": 9.0,
        }
    ]


def test_a_history_has_the_newest_attempts(served: Service) -> None:
    path = f"{API}/namespaces/shop/podhistories/web-1"
    assert [a["ordinal"] for a in served.get(path)["attempts"]] == [1, 2]
    document = served.get(path, limit=1)
    assert ([a["ordinal"] for a in document["attempts"]], document["attemptsOmitted"]) == ([2], 1)


def test_compares_pods_and_nodes(served: Service) -> None:
    pods = served.get(f"{API}/namespaces/shop/podcomparisons/web-1", **{"with": "web-2"})
    assert [(p["name"], p["node"], p["attempt"]["ordinal"]) for p in pods["pods"]] == [
        ("web-1", "worker-2", 2),
        ("web-2", None, 1),
    ]
    query = {"with": "web-1", "attempt": "1", "withAttempt": "2"}
    attempts = served.get(f"{API}/namespaces/shop/podcomparisons/web-1", **query)
    assert [each["attempt"]["ordinal"] for each in attempts["pods"]] == [1, 2]
    assert (attempts["differences"]["from"], attempts["differences"]["to"]) == ("Attempt 1", "Attempt 2")
    nodes = served.get(f"{API}/namespaces/shop/nodecomparisons/web-1", a="worker-1", b="worker-2")
    assert [n["rank"] for n in nodes["nodes"]] == [2, 1]


@pytest.mark.parametrize(
    ("path", "query", "code", "words"),
    [
        ("balances", {"weights": "Fit"}, 400, "weights must be PLUGIN=NUMBER,…, not 'Fit'"),
        ("balances", {"weights": "Nope=1"}, 400, "no decision was scored by Nope"),
        ("balances", {"limit": "1001"}, 400, "limit must be a whole number from 1 to 1000"),
        ("namespaces/shop/workloadplacements/web", {}, 400, "'web' is not a workload"),
        ("namespaces/shop/podcomparisons/web-1", {}, 400, "with must name another pod"),
        ("namespaces/shop/podcomparisons/web-1", {"with": "web-1"}, 400, "one attempt at one pod cannot be compared"),
        ("namespaces/shop/podcomparisons/web-1", {"with": "x"}, 404, 'no decision for pod "x" in namespace "shop"'),
        ("namespaces/shop/nodecomparisons/web-1", {"a": "worker-1", "b": "worker-1"}, 400, "a and b must name two"),
        ("namespaces/shop/nodecomparisons/web-1", {"a": "worker-1", "b": "x"}, 404, 'node "x" was not in the cluster'),
        ("namespaces/shop/podhistories/x", {}, 404, 'no decision for pod "x" in namespace "shop"'),
        ("pendingpods", {"limit": "3"}, 400, "unknown parameter 'limit'"),
    ],
    ids=str,
)
def test_invalid_requests_are_refused_with_the_reason(
    served: Service, path: str, query: dict[str, str], code: int, words: str
) -> None:
    status = served.error(f"{API}/{path}", **query)
    assert (status["code"], status["message"].startswith(words)) == (code, True), status["message"]


def test_agreement_with_other_schedulers_is_counted_and_disagreements_are_listed(service: Service) -> None:
    source = replace(THEN.key, source=Source.RECONSTRUCTED)
    agrees = replace(THEN, key=source, reconstruction=Reconstruction(Agreement.IN_WINDOW, None, -1))
    otherwise = Reconstruction(Agreement.DISAGREE, Cause.SAMPLING)
    other = replace(OTHER, key=replace(OTHER.key, source=Source.RECONSTRUCTED), reconstruction=otherwise)
    service.stored(rows(TABLE), FIRST, agrees, other, SECRET)  # FIRST and SECRET are our own: nothing to compare
    document = service.get(f"{API}/agreements")
    assert document["complete"]
    assert document["schedulers"] == [
        {
            "scheduler": THEN.scheduler.profile,
            "outcomes": 2,
            "agree": 0,
            "agreeInWindow": 1,
            "disagree": 1,
            "unknown": 0,
            "causes": {"sampling": 1},
        }
    ]
    (told,) = document["disagreements"]
    assert (told["namespace"], told["pod"], told["node"], told["cause"]) == (
        "shop",
        OTHER.pod.name,
        "worker-1",
        "sampling",
    )
    assert told["headline"].endswith("it may not have evaluated every node (percentageOfNodesToScore).")
    assert service.get(f"{API}/namespaces/vault/agreements")["schedulers"] == []
    assert service.get(f"{API}/agreements", profile="another")["schedulers"] == []


def preempting(pod: str, sequence: int, *victims: str, evicted: bool = True, **given: Any) -> Decision:
    found = Preemption("worker-2", (Candidate("worker-1", ("shop/no",), 0), Candidate("worker-2", victims, 1)), evicted)
    return replace(decided(pod, sequence, rejected=NOWHERE, **given), preemption=found)


def eviction(decision: Decision, sequence: int, victim: str, code: str, **more: str) -> Outcome:
    return Outcome(
        incarnation=decision.key.incarnation,
        sequence=sequence,
        decision_id=decision.id,
        decision_sequence=decision.sequence,
        phase="Evict",
        status=Code.SUCCESS if code == "evicted" else Code.ERROR,
        node="worker-2",
        message="",
        at_us=decision.times.started_us + 1_000_000,
        duration_s=0.1,
        final=False,
        reason=Reason(code, {"victim": victim, **more}),
    )


@pytest.fixture
def preempted(service: Service) -> Service:
    """Store two preemptions, one that another scheduler would make, and one that was only a dry run."""
    first = preempting("big-0", 1, "shop/low-0", "batch/job-1", owner=Owner("StatefulSet", "big"))
    second = preempting("big-1", 5, "batch/job-2")
    watched = preempting("big-2", 6, "batch/job-3", evicted=False)
    watched = replace(watched, key=replace(watched.key, source=Source.RECONSTRUCTED))
    dry_run = preempting("big-3", 7, "shop/low-0", evicted=False)
    refused = decided("big-4", 8, rejected=NOWHERE)
    refused = replace(refused, message=f"{refused.message} preemption: 0/3 nodes are available: 3 No victims found.")
    results = [
        eviction(first, 2, "shop/low-0", "evicted"),
        eviction(first, 3, "batch/job-1", "eviction-failed", error="Forbidden"),
    ]
    service.stored(rows(TABLE), first, *results, second, watched, dry_run, refused)
    return service


def test_preemptions_have_victims_with_their_state(preempted: Service) -> None:
    document = preempted.get(f"{API}/preemptions")
    listed = [(p["preemptor"]["pod"], p["node"], p["evicted"], p["pdbViolations"]) for p in document["preemptions"]]
    assert (document["complete"], listed) == (
        True,
        [("big-2", "worker-2", False, 1), ("big-1", "worker-2", True, 1), ("big-0", "worker-2", True, 1)],
    )
    oldest = document["preemptions"][-1]
    assert oldest["victims"] == [
        {"namespace": "shop", "pod": "low-0", "state": "Evicted", "at": "2026-03-01T12:01:01.000000+00:00"},
        {"namespace": "batch", "pod": "job-1", "state": "Failed", "at": "2026-03-01T12:01:01.000000+00:00"},
    ]
    assert document["preemptions"][1]["victims"][0]["state"] == "Unknown"
    assert (oldest["preemptor"]["owner"], oldest["preemptor"]["decision"]) == (
        "StatefulSet/big",
        "01900000-0000-7000-8000-000000000001",
    )


@pytest.mark.parametrize(
    ("namespace", "query", "preemptors"),
    [
        ("shop", {}, ["big-2", "big-1", "big-0"]),
        ("batch", {}, ["big-2", "big-1", "big-0"]),
        ("vault", {}, []),
        ("batch", {"victim": "job-1"}, ["big-0"]),
        ("batch", {"victim": "low-0"}, []),
        ("shop", {"victim": "low-0"}, ["big-0"]),
        ("shop", {"since": "2026-03-01T12:04:00Z"}, ["big-2", "big-1"]),
        ("shop", {"until": "2026-03-01T12:04:00Z"}, ["big-0"]),
    ],
    ids=str,
)
def test_preemptions_are_selected_by_namespace_victim_and_time(
    preempted: Service, namespace: str, query: dict[str, str], preemptors: list[str]
) -> None:
    document = preempted.get(f"{API}/namespaces/{namespace}/preemptions", **query)
    assert [p["preemptor"]["pod"] for p in document["preemptions"]] == preemptors


def test_an_explanation_on_a_nominated_node_names_the_preemption_that_made_room(preempted: Service) -> None:
    first = preempting("big-0", 1)
    later = a_decision(pod="big-0", sequence=110, uid=first.pod.uid, started_us=MONDAY_US + 9 * MINUTE_US)
    preempted.stored(rows(TABLE, incarnation=later.key.incarnation), replace(later, path=DecisionPath.NOMINATED))
    answer = preempted.explain("big-0")
    listed = preempted.get(f"{API}/preemptions")["preemptions"]
    assert answer["madeRoom"] == listed[-1]
    screen = plain_text.draw(pod_screen.build_screen(answer, VIEWS["piped"]), VIEWS["piped"])
    assert "EVICTED" in screen
    assert "shop/low-0 from worker-2" in screen
    assert "job-1" not in screen  # its eviction failed
    assert "madeRoom" not in preempted.explain("big-0", attempt=1)


def test_an_explanation_names_the_preemption_that_evicted_the_pod(preempted: Service) -> None:
    """A victim whose eviction failed was not evicted, and a pod that had the name of a later victim was not either."""
    jobs: dict[str, Any] = {"incarnation": "of-jobs", "namespace": "batch"}
    placed = [
        a_decision(pod="low-0", sequence=101, incarnation="of-jobs"),
        a_decision(pod="job-1", sequence=102, **jobs),
        a_decision(pod="job-2", sequence=103, uid="former", **jobs),
        a_decision(pod="job-2", sequence=104, uid="present", started_us=MONDAY_US + 3 * MINUTE_US, **jobs),
    ]
    preempted.stored(rows(TABLE, incarnation="of-jobs"), *placed)
    listed = preempted.get(f"{API}/preemptions")["preemptions"]
    assert preempted.explain("low-0")["preemptedBy"] == listed[-1]
    assert "preemptedBy" not in preempted.explain("job-1", "batch")
    assert "preemptedBy" not in preempted.explain("job-2", "batch", uid="former")
    assert preempted.explain("job-2", "batch")["preemptedBy"] == listed[1]


def test_a_workload_names_the_pods_that_were_preempted_and_does_not_count_them_as_placed(preempted: Service) -> None:
    """Neither a failed eviction nor an observer's evaluation takes a pod's node."""
    of: dict[str, Any] = {"incarnation": "of-jobs", "owner": Owner("StatefulSet", "low")}
    placed = [
        a_decision(pod="low-0", sequence=101, uid="former", **of),
        a_decision(pod="low-0", sequence=102, uid="present", started_us=MONDAY_US + 30 * MINUTE_US, **of),
        a_decision(pod="job-1", sequence=103, namespace="batch", **of),
        a_decision(pod="job-3", sequence=104, namespace="batch", **of),
    ]
    preempted.stored(rows(TABLE, incarnation="of-jobs"), *placed)
    listed = preempted.get(f"{API}/preemptions")["preemptions"]
    document = preempted.get(f"{API}/namespaces/shop/workloadplacements/statefulset.low")
    assert document["preempted"] == [{"pod": "low-0", "preemptedBy": listed[-1]}]
    assert document["placed"] == 1
    assert "1 pod was preempted by shop/big-0." in document["headline"]
    others = preempted.get(f"{API}/namespaces/batch/workloadplacements/statefulset.low")
    assert ("preempted" in others, others["placed"]) == (False, 2)
    counts = preempted.get(f"{API}/workloadplacements")["workloads"]
    found = {(w["namespace"], w["workload"]): (w["placed"], w["preempted"]) for w in counts}
    assert found["shop", "StatefulSet/low"] == (1, 1)
    assert found["batch", "StatefulSet/low"] == (2, 0)


def test_a_workload_names_the_preference_that_keeps_its_pods_from_other_nodes(service: Service) -> None:
    """The plugin that separates the two best nodes decided. The preference keeps the third one, which has more room."""
    points = {
        "worker-1": {"TaintToleration": 60, "NodeResourcesFit": 40},
        "worker-2": {"TaintToleration": 60, "NodeResourcesFit": 30},
        "worker-3": {"TaintToleration": 0, "NodeResourcesFit": 90},
    }
    owner = Owner("StatefulSet", "web")
    pods = [a_decision(pod=f"web-{i}", sequence=101 + i, owner=owner, points=points) for i in range(2)]
    service.stored(rows(TABLE), *pods)
    path = f"{API}/namespaces/shop/workloadplacements/statefulset.web"
    document = service.get(path)
    assert document["decidedBy"] == {"NodeResourcesFit": 2}
    assert document["movesWithout"] == {"TaintToleration": 2}, "without NodeResourcesFit it is a tie"
    assert document["headline"].endswith(
        "NodeResourcesFit decided 2 of 2. Without the score of TaintToleration, another node would have won 2 of 2."
    )
    other = a_decision(pod="web-9", sequence=109, owner=owner, points=points)
    key = replace(other.key, source=Source.RECONSTRUCTED)
    otherwise = Reconstruction(Agreement.DISAGREE, Cause.UNEXPLAINED)
    service.stored(replace(other, key=key, reconstruction=otherwise, chosen=2))
    assert service.get(path)["movesWithout"] == document["movesWithout"], (
        "no plugin explains another scheduler's choice"
    )
    moves = {each["plugin"]: each["movesWithout"] for each in service.get(f"{API}/balances")["plugins"]}
    assert moves == {"TaintToleration": 2, "NodeResourcesFit": 0, "ImageLocality": 0}


def test_a_workload_names_the_scheduler_that_placed_its_pods_and_recorded_nothing(service: Service) -> None:
    owner = Owner("StatefulSet", "convert")
    otherwise = Reconstruction(Agreement.DISAGREE, Cause.UNEXPLAINED)
    own = a_decision(pod="convert-0", sequence=101, owner=owner)
    other = a_decision(pod="convert-1", sequence=102, owner=owner)
    key, scheduler = replace(other.key, source=Source.RECONSTRUCTED), replace(other.scheduler, profile="packing")
    other = replace(other, key=key, scheduler=scheduler, reconstruction=otherwise, chosen=0)
    service.stored(rows(TABLE), own)
    path = f"{API}/namespaces/shop/workloadplacements/statefulset.convert"
    assert "observed" not in service.get(path)
    service.stored(other)
    document = service.get(path)
    assert [(s["scheduler"], s["outcomes"], s["disagree"]) for s in document["observed"]] == [("packing", 1, 1)]
    assert document["headline"].endswith(
        "packing decided 1 pod and recorded nothing: an observer's evaluation, with the configuration that the observer"
        " has, agrees for 0; what packing knew when it decided the others is not recorded."
    )
