"""A question about the whole cluster from its asker to the scheduler and back: rights, masking, progress and limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_answers.node_groups import NodeGroup, NodeGroupReview, PodVerdicts
from herodotus_endpoint.access.masking import VisibleNamespaces
from herodotus_endpoint.api import cluster_reviews
from herodotus_endpoint.api.review_queue import CLUSTER_ANSWER
from herodotus_endpoint.store.reviews import PROGRESS, SILENT_S
from herodotus_record import codec
from herodotus_record.disclosure import HIDDEN_TEXT, list_named_namespaces, mask_answer
from tests.endpoint.reviewer import Reviewer as ApiServer
from tests.endpoint.reviewer import bearer
from tests.endpoint.service import API, Service, a_service, envelope
from tests.support.answers import a_status, as_json, fill
from tests.support.cluster_answering_scheduler import BUSY, STATUS, ClusterAnsweringScheduler

PATH = f"{API}/clusterreviews"
DRAIN = {"kind": "Drain", "nodes": ["worker-1"]}
HEADLINE = "3 more pods fit, on 1 node. The next one fits nowhere (3 nodes: Insufficient cpu)."


def ask(service: Service, headers: dict[str, str] | None = None, **spec: Any) -> Any:
    document = {"apiVersion": "herodotus.dev/v1alpha1", "kind": "ClusterReview", "spec": spec}
    return service.client.application.test_client().post(PATH, json=document, headers=headers)


@pytest.fixture
def api() -> ApiServer:
    return ApiServer(tokens={"ada's": ("ada", ""), "bob's": ("bob", "")})


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = a_service(tmp_path)
    yield opened
    opened.store.close()


def test_a_question_is_answered_and_not_stored(service: Service) -> None:
    scheduler = ClusterAnsweringScheduler(service)
    with scheduler.working():
        answer = ask(service, changes=[DRAIN])
    assert (answer.status_code, answer.get_json()["kind"]) == (201, "ClusterReview")
    assert answer.get_json()["status"] == {**STATUS, "headline": HEADLINE, "refusals": []}
    (asked,) = scheduler.asked
    assert (asked["kind"], asked["deadlineSeconds"]) == ("ClusterReview", 300.0)
    assert asked["spec"]["changes"] == [
        DRAIN | {"force": False, "deleteEmptyDirData": False, "ignoreDaemonSets": True, "disableEviction": False}
    ]
    assert service.store.reviews.read_answer(asked["id"]) is None


def test_the_stored_question_omits_what_scheduling_does_not_read(service: Service) -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "TOKEN", "value": "s3cret"}], "args": ["s3cret"]}
    metadata = {"name": "web", "annotations": {"a": "s3cret"}}
    template = {"metadata": metadata, "spec": {"containers": [container]}}
    content = {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1, "template": template}}
    scheduler = ClusterAnsweringScheduler(service)
    with scheduler.working():
        assert ask(service, changes=[{"kind": "Create", "object": content}]).status_code == 201
    (asked,) = scheduler.asked
    assert "s3cret" not in str(asked)
    kept = asked["spec"]["changes"][0]["object"]["spec"]["template"]["spec"]["containers"]
    assert kept == [{"name": "c", "image": "i"}]


def test_a_long_answer_is_continued(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reviews, "WAIT_S", 0.2)
    scheduler = ClusterAnsweringScheduler(service)
    scheduler.poll()
    queued = ask(service, changes=[DRAIN]).get_json()["status"]
    assert (queued["phase"], queued["progress"]) == ("Running", {"done": 0, "total": 0})
    question = scheduler.poll().get_json()
    assert question["id"] == queued["continue"]
    assert scheduler.send(question["id"], b'{"done": 7, "total": 9}', PROGRESS).status_code == 200
    running = ask(service, **{"continue": queued["continue"]}).get_json()["status"]
    assert (running["phase"], running["progress"]) == ("Running", {"done": 7, "total": 9})
    assert running["continue"] == queued["continue"]
    found = {"done": 8, "total": 9, "smallestPlan": 2}
    assert scheduler.send(question["id"], msgspec.json.encode(found), PROGRESS).status_code == 200
    assert ask(service, **{"continue": queued["continue"]}).get_json()["status"]["progress"] == found
    scheduler.answer(question)
    complete = ask(service, **{"continue": queued["continue"]}).get_json()["status"]
    assert (complete["phase"], len(complete["placements"])) == ("Complete", 2)
    gone = envelope(ask(service, **{"continue": queued["continue"]}))
    assert (gone["code"], gone["reason"]) == (410, "Expired")


def test_a_scheduler_is_notified_when_the_client_disconnects(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reviews, "WAIT_S", 0.1)
    scheduler = ClusterAnsweringScheduler(service)
    scheduler.poll()
    ask(service, changes=[DRAIN])
    question = scheduler.poll().get_json()
    progress = b'{"done": 1, "total": 2}'
    assert scheduler.send(question["id"], progress, PROGRESS).status_code == 200
    service.clock.now_s += SILENT_S + 1
    assert scheduler.send(question["id"], progress, PROGRESS).status_code == 404
    assert scheduler.send(question["id"], b"[]", PROGRESS).status_code == 400


def test_a_busy_scheduler_gets_only_placement_reviews(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reviews, "WAIT_S", 0.1)
    scheduler = ClusterAnsweringScheduler(service)
    scheduler.poll()
    ask(service, changes=[DRAIN])
    assert scheduler.poll(busy=["ClusterReview"]).status_code == 204
    assert scheduler.poll(kind=["PlacementReview"]).status_code == 204
    assert scheduler.poll().status_code == 200


def test_a_scheduler_of_an_earlier_release_gets_no_question_about_the_cluster(service: Service) -> None:
    ClusterAnsweringScheduler(service).poll(kind=[])
    refused = envelope(ask(service, changes=[DRAIN]))
    assert (refused["code"], "no scheduler answers what-ifs" in refused["message"]) == (503, True)


def test_too_many_questions_are_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reviews, "WAIT_S", 0.01)
    ClusterAnsweringScheduler(service).poll()
    codes = [ask(service, changes=[DRAIN]).status_code for _ in range(cluster_reviews.MAX_WAITING + 1)]
    assert codes == [201] * cluster_reviews.MAX_WAITING + [429]


def test_silent_schedulers_are_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reviews, "PICKUP_S", 0.2)
    scheduler = ClusterAnsweringScheduler(service)
    scheduler.poll()
    refused = envelope(ask(service, changes=[DRAIN]))
    assert (refused["code"], "no scheduler has taken the review" in refused["message"]) == (503, True)
    monkeypatch.setattr(cluster_reviews, "ENDED_S", 0.2)
    with scheduler.working(lambda _question: None):
        refused = envelope(ask(service, changes=[DRAIN]))
    assert (refused["code"], "has not answered" in refused["message"]) == (504, True)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, "expected exactly one of changes, capacity, consolidate, nodeGroups, scaleDown, upgrade, plan,"),
        ({"changes": [], "consolidate": {}}, "expected exactly one of"),
        ({"changes": [{"kind": "Explode"}]}, "Invalid value 'Explode'"),
        ({"changes": [DRAIN | {"gracefully": True}]}, "unknown field `gracefully`"),
    ],
)
def test_invalid_questions_are_refused(service: Service, spec: dict[str, Any], says: str) -> None:
    refused = envelope(ask(service, **spec))
    assert (refused["code"], says in refused["message"]) == (400, True), refused["message"]


def test_a_refusal_of_the_scheduler_reaches_the_client(service: Service) -> None:
    scheduler = ClusterAnsweringScheduler(service)
    refusal = msgspec.json.encode({"code": 422, "message": 'nodes "worker-1" not found'})
    with scheduler.working(lambda question: scheduler.send(question["id"], refusal, "application/json")):
        refused = envelope(ask(service, changes=[DRAIN]))
    assert (refused["code"], refused["message"]) == (422, 'nodes "worker-1" not found')


def test_the_right_is_of_its_own_and_names_are_masked(tmp_path: Path, api: ApiServer) -> None:
    service = a_service(tmp_path, access=api.access())
    api.allowed = {("bob", "create", "placementreviews", "*"), ("bob", "get", "decisions", "*")}
    assert envelope(ask(service, bearer("bob's"), changes=[DRAIN]))["code"] == 403
    api.allowed |= {("ada", "create", "clusterreviews", ""), ("ada", "get", "decisions", "shop")}
    with ClusterAnsweringScheduler(service).working():
        answer = ask(service, bearer("ada's"), changes=[DRAIN])
    assert answer.status_code == 201, answer.text
    assert "secret" not in answer.text
    status = answer.get_json()["status"]
    assert (status.pop("headline"), status.pop("refusals")) == (HEADLINE, [])
    assert status == mask_answer(STATUS, ClusterReviewStatus, VisibleNamespaces(frozenset({"shop"})))
    names = [(p["namespace"], p["name"], p["owner"], p["fromNode"], p["node"]) for p in status["placements"]]
    assert names == [
        ("shop", "web-1", "ReplicaSet/web", "worker-1", "worker-2"),
        ("(hidden)", "(hidden)", "(hidden)", "worker-1", "worker-2"),
    ]
    assert status["pending"][0]["victims"] == ["shop/low", "(hidden)"]
    assert status["pending"][0]["reason"].startswith("0/3 nodes are available: 3 Insufficient cpu")
    assert [b["budget"] for b in status["blocked"]] == ["shop-budget", "(hidden)"]
    kept = status["consolidation"]["kept"][0]["pods"]
    assert [(p["pod"], p["reason"]) for p in kept] == [("shop/a", BUSY), ("(hidden)", ""), ("(hidden)", "")]
    shown, hidden = status["nodeGroups"]["pods"]
    assert (shown["name"], shown["groups"][0]["rejections"][0]["reasons"]) == (
        "waits",
        ["Insufficient cpu", HIDDEN_TEXT],
    )
    assert (hidden["name"], hidden["groups"][0]["verdict"], hidden["groups"][0]["rejections"], hidden["reports"]) == (
        "(hidden)",
        "DoesNotFit",
        [],
        [],
    )
    assert status["nodeGroups"]["groups"][0]["conditions"][0]["message"] == HIDDEN_TEXT
    assert [(b["pod"], b["message"], b["reason"]) for b in status["scaleDown"]["nodes"][0]["blockers"]] == [
        (None, "node group spot has size 1 of at least 1", ""),
        ("shop/waits", "fits on no other node", f"{BUSY[:-1]}. {HIDDEN_TEXT}"),
        ("(hidden)", "(hidden)", ""),
    ]
    service.store.close()


@pytest.mark.parametrize(
    "spec",
    [
        {"plan": {"pods": ["shop/web-0", "pay/ledger-0"]}},
        {"plan": {"workload": "Deployment/ledger", "namespace": "pay"}},
        {"plan": {"spread": "Deployment/web"}},  # in the namespace default
        {"nodeGroups": {"pods": ["pay/ledger-0"]}},
        {"capacity": {"object": {"kind": "Pod", "metadata": {"name": "p", "namespace": "pay"}}}},
        {"changes": [DRAIN, {"kind": "Scale", "workload": "Deployment/ledger", "replicas": 1, "namespace": "pay"}]},
        {"changes": [{"kind": "Create", "object": {"kind": "Pod"}, "namespace": "pay"}]},
    ],
)
def test_a_question_names_no_namespace_that_the_reader_may_not_see(
    tmp_path: Path, api: ApiServer, spec: dict[str, Any]
) -> None:
    service = a_service(tmp_path, access=api.access())
    api.allowed = {("ada", "create", "clusterreviews", ""), ("ada", "get", "decisions", "shop")}
    refused = envelope(ask(service, bearer("ada's"), **spec))
    hidden = "default" if "spread" in spec.get("plan", {}) else "pay"
    assert (refused["code"], refused["message"]) == (403, f'you may not get decisions in the namespace "{hidden}"')
    service.store.close()


def test_a_question_names_a_bounded_number_of_namespaces(service: Service) -> None:
    refused = envelope(ask(service, plan={"pods": [f"n{i}/p" for i in range(65)]}))
    assert (refused["code"], "names 65 namespaces" in refused["message"]) == (400, True)


def test_the_headline_names_nothing_that_is_masked(tmp_path: Path, api: ApiServer) -> None:
    service = a_service(tmp_path, access=api.access())
    api.allowed = {("ada", "create", "clusterreviews", ""), ("ada", "get", "decisions", "shop")}
    scheduler = ClusterAnsweringScheduler(service)
    pod = fill(PodVerdicts, namespace="secret", name="secret-1")
    scheduler.status = a_status(nodeGroups=fill(NodeGroupReview, groups=[fill(NodeGroup, name="spot")], pods=[pod]))
    with scheduler.working():
        answer = ask(service, bearer("ada's"), nodeGroups={"pods": ["shop/web-0"]})
    headline = "(hidden)/(hidden): None of 0 node groups fits with room to grow."
    assert answer.get_json()["status"]["headline"] == headline
    service.store.close()


def test_a_reader_of_every_namespace_sees_everything() -> None:
    assert mask_answer(STATUS, ClusterReviewStatus, VisibleNamespaces(everything=True)) is STATUS
    assert list_named_namespaces(STATUS, ClusterReviewStatus) == {"shop", "secret"}


def test_nothing_visible_leaves_counts_and_nodes() -> None:
    masked = as_json(mask_answer(STATUS, ClusterReviewStatus, VisibleNamespaces()))
    text = msgspec.json.encode(masked).decode()
    assert not any(word in text for word in ("shop", "secret", "web-1", "bare"))
    for name in ("placements", "pending", "blocked", "ignored", "deleted", "nodes"):
        assert len(masked[name]) == len(as_json(STATUS)[name])
    assert masked["nodes"] == STATUS["nodes"]
    assert (masked["capacity"]["fits"], masked["capacity"]["zones"]) == (3, {"z1": 3})
    groups = masked["nodeGroups"]
    assert (groups["groups"][0]["name"], groups["estimates"][0]["nodes"]) == ("spot", 2)


NEWER = as_json(STATUS)["placements"][0] | {"labels": {"app": "secret"}}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(msgspec.json.encode({**STATUS, "placements": [NEWER], "new": ["secret"]}), "", id="new fields"),
        pytest.param(msgspec.json.encode({**STATUS, "phase": "secret"}), "enum value (hidden)", id="a new constant"),
        pytest.param(msgspec.json.encode({**STATUS, "notes": {"secret": 1}}), "got `object`", id="another type"),
        pytest.param(b'{"secret":' + b"[" * 5000 + b"]" * 5000 + b"}", "recursion", id="nested too deeply"),
    ],
)
def test_an_answer_of_another_form_shows_nothing_unknown(
    tmp_path: Path, api: ApiServer, body: bytes, problem: str
) -> None:
    service = a_service(tmp_path, access=api.access())
    api.allowed = {("ada", "create", "clusterreviews", "")}
    scheduler = ClusterAnsweringScheduler(service)
    with scheduler.working(lambda asked: scheduler.send(asked["id"], codec.compress(body), CLUSTER_ANSWER)):
        answer = ask(service, bearer("ada's"), changes=[DRAIN])
    assert answer.status_code == (500 if problem else 201)
    assert problem in answer.text
    assert "secret" not in answer.text
    service.store.close()


def test_a_question_is_sent_without_the_fields_of_others(service: Service) -> None:
    """A scheduler of an earlier release refuses a question with a field that it does not know."""
    scheduler = ClusterAnsweringScheduler(service)
    with scheduler.working():
        ask(service, changes=[DRAIN])
        ask(service, nodeGroups={"pods": ["shop/waits"]})
    assert [sorted(asked["spec"]) for asked in scheduler.asked] == [
        ["changes", "cluster", "continue", "schedulerName"],
        ["cluster", "continue", "nodeGroups", "schedulerName"],
    ]
