"""What happened to a pod: the latest attempt, other attempts, what is not there, what was lost."""

from dataclasses import replace
from typing import Any

import pytest

from herodotus_answers.decision import build_decision_document
from herodotus_answers.pod import build_pod_explanation
from herodotus_record.model import API_VERSION, Reason
from tests.builders import CORDONED, INSUFFICIENT_CPU, MONDAY_US, a_decision, a_table, bound
from tests.endpoint.service import API, Service, rows
from tests.support.answers import as_json

MINUTE_US = 60_000_000
TABLE = a_table(["worker-1", "worker-2", "worker-3"], used={"worker-1": 7900})
NOWHERE = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in TABLE.names}
FIRST = a_decision(rejected=NOWHERE, attempt=1, sequence=1)
SECOND = a_decision(points={"worker-2": {"ImageLocality": 50}}, attempt=2, sequence=2, started_us=MONDAY_US + MINUTE_US)
OTHER = "00000000-0000-4000-8000-0000000000bb"

METADATA = {
    "namespace": "shop",
    "creationTimestamp": "2026-03-01T12:01:00Z",
    "labels": {
        "app": "checkout",
        "herodotus.dev/pod": SECOND.pod.name,
        "herodotus.dev/profile": "herodotus-scheduler",
        "herodotus.dev/state": "Bound",
        "herodotus.dev/path": "scored",
        "herodotus.dev/node": "worker-2",
    },
}


@pytest.fixture
def placed(service: Service) -> Service:
    service.stored(rows(TABLE), FIRST, SECOND, bound(SECOND, TABLE, sequence=3))
    return service


def facts(ordinal: int, attempts: int, failed: int) -> dict[str, int]:
    return {"ordinal": ordinal, "lastOrdinal": ordinal, "attempts": attempts, "failedBefore": failed}


@pytest.mark.parametrize(
    ("query", "decision", "failed"),
    [({}, SECOND, 1), ({"attempt": 1}, FIRST, 0), ({"attempt": 2, "uid": SECOND.pod.uid}, SECOND, 1)],
    ids=["latest", "first attempt", "attempt and UID"],
)
def test_explanation_combines_record_and_store(
    placed: Service, query: dict[str, Any], decision: Any, failed: int
) -> None:
    outcomes = (bound(SECOND, TABLE, sequence=3),) if decision is SECOND else ()
    expected = as_json(build_pod_explanation(decision, outcomes, TABLE))
    expected["attempt"] |= facts(failed + 1, 2, failed)
    assert placed.explain(**query) == expected


def test_explanation_of_one_node_and_of_all_nodes(placed: Service) -> None:
    one = placed.explain(attempt=1, node="worker-1")
    assert [n["node"] for n in one["perNode"]] == ["worker-1"]
    assert one["perNode"][0]["rejectedBy"][0]["reasons"][0]["text"] == "cpu: requests 500m; free 100m of 8"
    assert placed.explain(all="true")["rankingOmitted"] == 0
    status = placed.error(f"{API}/namespaces/shop/podexplanations/checkout-7d9f-x2k", node="worker-9")
    assert status["message"] == 'node "worker-9" was not in the cluster when this decision was taken'
    assert (status["code"], status["details"]["similar"][0]) == (404, "worker-3")


def test_decision_uses_the_node_table_of_its_time(service: Service) -> None:
    later = a_table(list(TABLE.names), used={"worker-1": 0}, generation=8)
    later.since = [8, 8, 8]
    service.stored(rows(TABLE), FIRST, rows(later), replace(FIRST, sequence=2, generation=8, id="two"))
    documents = [service.get(f"{API}/namespaces/shop/decisions/{FIRST.pod.name}", attempt=1), service.explain()]
    assert documents[1]["perNode"][0]["rejectedBy"][0]["reasons"][0]["free"] == 8000
    by_id = service.get(f"{API}/namespaces/shop/decisions/{FIRST.id}")
    assert by_id == build_decision_document(FIRST, (), TABLE) | {"metadata": by_id["metadata"]}
    assert by_id["metadata"]["name"] == FIRST.id


def test_old_decision_is_found_by_its_id(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus_endpoint.store.attempts.MAX_ROWS", 2)
    tried = [
        a_decision(rejected=NOWHERE, attempt=n, sequence=n, started_us=MONDAY_US + n * MINUTE_US) for n in (1, 2, 3, 4)
    ]
    service.stored(rows(TABLE), *tried)
    found = [service.get(f"{API}/namespaces/shop/decisions/{d.id}")["metadata"]["name"] for d in tried]
    assert found == [d.id for d in tried]


def test_recreated_pod_has_separate_attempts(placed: Service) -> None:
    again = a_decision(uid="uid-2", sequence=4, started_us=MONDAY_US + 2 * MINUTE_US)
    placed.stored(again)
    assert placed.explain()["metadata"]["uid"] == "uid-2"
    assert placed.explain()["attempt"] | facts(1, 1, 0) == placed.explain()["attempt"]
    assert placed.explain(uid=SECOND.pod.uid)["attempt"]["number"] == 2


def test_attempts_of_several_incarnations_are_ordered_by_start(service: Service) -> None:
    """Each process counts from 1, so its number alone would not tell them apart; what is stored last started first."""
    second, third = (
        a_decision(
            incarnation=incarnation,
            rejected=rejected,
            attempt=1,
            sequence=sequence,
            started_us=MONDAY_US + n * MINUTE_US,
        )
        for n, incarnation, rejected, sequence in ((1, "second", NOWHERE, 2), (1, "third", None, 3))
    )
    for decision in (second, third, FIRST):
        service.stored(rows(TABLE, incarnation=decision.key.incarnation), decision)
    answers = [service.explain(attempt=n)["attempt"] for n in (1, 2, 3)]
    assert [(a["incarnation"], a["number"]) for a in answers] == [
        (FIRST.key.incarnation, 1),
        ("second", 1),
        ("third", 1),
    ]
    assert [a | facts(n, 3, n - 1) for n, a in enumerate(answers, start=1)] == answers
    assert service.explain()["attempt"] == answers[-1]
    record = service.get(f"{API}/namespaces/shop/decisions/{FIRST.pod.name}", attempt=2)
    assert record["spec"]["key"]["incarnation"] == "second"


def test_attempts_are_ordered_by_start_not_by_arrival(service: Service) -> None:
    service.stored(rows(TABLE), SECOND, replace(FIRST, sequence=9))
    assert service.explain()["attempt"]["number"] == 2


@pytest.mark.parametrize(
    ("namespace", "pod", "query", "message", "details"),
    [
        ("shop", "chekout", {}, 'no decision for pod "chekout" in namespace "shop"', {"similar": [FIRST.pod.name]}),
        (
            "test",
            FIRST.pod.name,
            {},
            f'no decision for pod "{FIRST.pod.name}" in namespace "test"',
            {"similar": [], "otherNamespaces": ["shop"]},
        ),
        ("shop", "zzz", {}, 'no decision for pod "zzz" in namespace "shop"', {"similar": []}),
        (
            "shop",
            FIRST.pod.name,
            {"attempt": 7},
            f'no decision for pod "{FIRST.pod.name}" in namespace "shop" with attempt 7',
            {},
        ),
    ],
    ids=["misspelt", "other namespace", "nothing like it", "no such attempt"],
)
def test_not_found_errors_have_helpful_details(
    placed: Service, namespace: str, pod: str, query: dict[str, Any], message: str, details: dict[str, Any]
) -> None:
    status = placed.error(f"{API}/namespaces/{namespace}/podexplanations/{pod}", **query)
    assert (status["code"], status["reason"], status["message"]) == (404, "NotFound", message)
    assert status["details"] == {"name": pod, "kind": "podexplanations", **details}


@pytest.mark.parametrize(
    ("later_start", "profile", "lost"),
    [
        (MONDAY_US + 2 * MINUTE_US, "herodotus-scheduler", True),
        (MONDAY_US + 2 * MINUTE_US, "another", False),
        (MONDAY_US, "herodotus-scheduler", False),
    ],
    ids=["replaced", "another profile", "began before"],
)
def test_result_lost_in_a_restart_is_marked(service: Service, later_start: int, profile: str, lost: bool) -> None:
    service.stored(rows(TABLE), SECOND)
    assert "lost" not in service.explain()["outcome"]
    service.stored(
        rows(TABLE, incarnation=OTHER),
        a_decision(pod="next", incarnation=OTHER, started_us=later_start, profile=profile),
    )
    outcome = service.explain()["outcome"]
    assert (outcome["state"], outcome.get("lost", False)) == ("Binding", lost)
    if lost:
        assert outcome["message"] == "result not recorded: the scheduler was restarted"
        said = " (its result was not recorded: the scheduler was restarted)."
        explained = service.explain()
        assert [explained[k].partition(":")[0] for k in ("headline", "summary")] == ["On worker-2"] * 2
        assert explained["headline"].endswith(said)
        assert explained["summary"].endswith(said)
    service.stored(bound(SECOND, TABLE, sequence=3))
    assert "lost" not in service.explain()["outcome"]


def test_unknown_reason_is_shown_by_its_code(service: Service) -> None:
    strange = replace(CORDONED, reasons=(Reason("moon-phase", {"phase": "full"}), CORDONED.reasons[0]))
    known = a_decision(rejected={"worker-1": {"NodeName": CORDONED}})
    filters = tuple(replace(f, verdicts=(f.verdicts[0], strange)) if len(f.ids) else f for f in known.filters)
    service.stored(rows(TABLE), replace(known, filters=filters))
    (node, *_) = service.explain()["perNode"]
    sentences = [r["sentence"] for r in node["rejectedBy"][0]["reasons"]]
    assert sentences == ["moon-phase (phase=full)", "node(s) were unschedulable"]


def test_node_without_a_row_is_unknown(service: Service) -> None:
    service.stored(rows(a_table(["worker-1"])), SECOND)
    assert service.explain()["outcome"]["node"] == "unknown (slot 1)"
    assert service.history("worker-1")["considered"] == 1


def test_pages_of_a_list_have_a_stable_order(service: Service) -> None:
    def pods(page: Any) -> list[str]:
        return [item["spec"]["pod"]["name"] for item in page["items"]]

    decisions = [a_decision(pod=f"p-{i}", namespace=("shop", "ci")[i % 2], sequence=i + 1) for i in range(5)]
    service.stored(rows(TABLE), *decisions)
    first = service.get(f"{API}/decisions", limit=2)
    service.stored(a_decision(pod="newer", sequence=6))
    second = service.get(f"{API}/decisions", **{"limit": 2, "continue": first["metadata"]["continue"]})
    third = service.get(f"{API}/decisions", **{"limit": 2, "continue": second["metadata"]["continue"]})
    assert [pods(p) for p in (first, second, third)] == [["p-4", "p-3"], ["p-2", "p-1"], ["p-0"]]
    assert third["metadata"] == {"resourceVersion": "6"}
    assert pods(service.get(f"{API}/namespaces/ci/decisions")) == ["p-3", "p-1"]
    assert pods(service.get(f"{API}/namespaces/shop/decisions", pod="p-2")) == ["p-2"]


def test_list_item_has_the_state(placed: Service) -> None:
    document = placed.get(f"{API}/decisions", limit=1)
    assert document == {
        "apiVersion": API_VERSION,
        "kind": "DecisionList",
        "metadata": document["metadata"],
        "items": [
            {
                "apiVersion": API_VERSION,
                "kind": "Decision",
                "metadata": METADATA | {"name": SECOND.id, "uid": SECOND.id, "resourceVersion": "2"},
                "spec": {
                    "key": {
                        "cluster": SECOND.key.cluster,
                        "source": "scheduler",
                        "podUID": SECOND.pod.uid,
                        "attempt": 2,
                    },
                    "scheduler": {"profile": "herodotus-scheduler"},
                    "pod": {"namespace": "shop", "name": SECOND.pod.name, "uid": SECOND.pod.uid, "owner": None},
                    "times": {"startedAt": "2026-03-01T12:01:00.000000+00:00"},
                    "snapshot": {"generation": 7, "nodes": 3, "evaluated": 3, "feasible": 3},
                },
                "status": {"state": "Bound", "path": "scored", "node": "worker-2", "message": ""},
            }
        ],
    }


def test_fields_of_a_list_item_have_the_same_path_in_the_object(placed: Service) -> None:
    (item,) = placed.get(f"{API}/decisions", limit=1)["items"]
    whole = placed.get(f"{API}/namespaces/shop/decisions/{SECOND.id}")
    assert within(item, whole) == item


def within(part: Any, whole: Any) -> Any:
    """What `whole` says where `part` says something."""
    return {key: within(part[key], whole[key]) for key in part} if isinstance(part, dict) and part else whole
