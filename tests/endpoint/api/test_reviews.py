"""A review from its asker to the scheduler and back: what is refused, what is masked, and that nothing of it stays."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from herodotus_endpoint.api import reviews
from herodotus_endpoint.store.reviews import (
    ABANDONED_S,
    MAX_REVIEWERS,
    REVIEWER_KEPT_S,
    ReviewAnswer,
    ReviewingScheduler,
    ReviewQuestion,
)
from herodotus_endpoint.store.schema import REVIEWERS
from herodotus_endpoint.store.schema import REVIEWS as REVIEWS_TABLE
from herodotus_record import codec
from herodotus_serving.wsgi import CANCELLED
from tests.builders import CLUSTER
from tests.endpoint.reviewer import Reviewer as ApiServer
from tests.endpoint.reviewer import bearer
from tests.endpoint.service import API, Service, a_service, envelope
from tests.support.answering_scheduler import (
    DESK,
    OURS,
    POD,
    REVIEWS,
    AnsweringScheduler,
    answering,
    ask,
    packed,
    placed,
    review,
    stopped,
)

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"replicas": 2, "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD["spec"]}},
}


def test_review_is_answered_like_a_decision_and_not_stored(service: Service) -> None:
    scheduler = answering(service, *placed())
    with scheduler.working():
        answer = ask(service)
    assert answer.status_code == 201, answer.text
    document = answer.get_json()
    first = document["status"].pop("first")
    assert document == {
        "apiVersion": "herodotus.dev/v1alpha1",
        "kind": "PlacementReview",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"kind": "Pod", "replicas": 1, "schedulerName": OURS},
        "status": {
            "headline": first["headline"],
            "fits": 1,
            "nodes": [{"node": "worker-2", "pods": 1}],
            "pods": [{"pod": "web", "node": "worker-2", "decidedBy": "ImageLocality", "points": 9, "feasible": 3}],
            "stopped": None,
        },
    }
    assert first["headline"].startswith("On worker-2: best of 3 feasible nodes")
    assert (first["kind"], first["outcome"]["state"], len(first["perNode"])) == ("PodExplanation", "DryRun", 3)
    assert scheduler.asked[0] == scheduler.asked[0] | {"namespace": "shop", "scheduler": OURS, "replicas": 1}
    assert scheduler.asked[0]["template"]["pod"]["spec"] == POD["spec"]
    assert service.store.reviews.read_answer(scheduler.asked[0]["id"]) is None
    assert service.get(f"{API}/decisions")["items"] == []


def test_queued_review_omits_fields_that_scheduling_does_not_read(service: Service) -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": '{"env": "s3cret"}'}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}
    told = container | {"env": [{"name": "TOKEN", "value": "s3cret"}], "args": ["s3cret"], "command": ["s3cret"]}
    spec = {"schedulerName": OURS, "containers": [told], "initContainers": [told, 7], "nodeSelector": {"disk": "ssd"}}
    pod = POD | {"metadata": {"name": "web", "labels": {"app": "web"}, "annotations": annotations}, "spec": spec}
    laid_down: list[bytes] = []

    def answer(_: dict[str, Any]) -> tuple[bytes, str]:
        with service.store.snapshot() as connection:
            laid_down.extend(connection.scalars(sa.select(REVIEWS_TABLE.c.question)))
        return packed(*placed()), codec.CONTENT_TYPE

    scheduler = AnsweringScheduler(service, answer)
    with scheduler.working():
        assert ask(service, review(pod)).status_code == 201
    assert scheduler.asked[0]["template"]["pod"] == {
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": spec | {"containers": [container], "initContainers": [container, 7]},
    }
    assert laid_down == [b""]


def test_replicas_end_with_the_first_that_does_not_fit(service: Service) -> None:
    frames = [*placed("web-0"), *placed("web-1", 4), *stopped("web-2")]
    with answering(service, *frames).working():
        status = ask(service, review(DEPLOYMENT, replicas=5)).get_json()["status"]
    assert (status["fits"], status["nodes"]) == (2, [{"node": "worker-2", "pods": 2}])
    assert status["headline"].startswith("2 of 5 pods fit, on worker-2 (2). Number 3 does not: No node fits: ")
    assert status["stopped"]["metadata"]["name"] == "web-2"
    assert status["stopped"]["preemption"]["candidates"][0]["victims"] == ["shop/small", "ci/job-1"]


def test_default_replicas_are_those_of_the_object(service: Service) -> None:
    scheduler = answering(service, *placed("web-0"), *placed("web-1", 4))
    with scheduler.working():
        assert ask(service, review(DEPLOYMENT)).get_json()["status"]["headline"] == "Both pods fit, on worker-2 (2)."
    assert scheduler.asked[0]["replicas"] == 2


MANIFEST = """\
# a comment, and an object that defines no pods
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  creationTimestamp: 2026-01-01T00:00:00Z
spec:
  replicas: 2
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: herodotus-scheduler
      containers: [{name: c, image: i}]
"""


def as_text(manifest: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "PlacementReview", "spec": {"manifest": manifest, **spec}}


def test_manifest_as_text_is_the_object(service: Service) -> None:
    scheduler = answering(service, *placed())
    with scheduler.working():
        answer = ask(service, as_text(MANIFEST, replicas=1))
    assert (answer.status_code, answer.get_json()["spec"]["kind"]) == (201, "Deployment")
    (asked,) = scheduler.asked
    assert asked["template"]["pod"] == {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"schedulerName": OURS, "containers": [{"name": "c", "image": "i"}]},
    }


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ("a: b\nc: d: e", "spec.manifest: not valid YAML (line 2)"),
        ("kind: Service", "spec.manifest: no Pod, and no workload with a template of pods; found Service"),
        ("just text", "spec.manifest: no Pod, and no workload with a template of pods; found nothing"),
        (f"{MANIFEST}---\n{MANIFEST}", "spec.manifest: 2 objects define pods: give one"),
        ("a: &a [1]\nb: *a", "spec.manifest: aliases (*name) are not supported: write the part out"),
        ("[" * 100_000, "spec.manifest: nested deeper than 60 levels"),
        ("kind: !!python/object/apply:os.system [true]", "spec.manifest: not valid YAML (line 1)"),
        ("? [a]\n: b", "spec.manifest: not valid YAML (line 1)"),
        ("kind: Pod\nspec: {}", "spec.object: metadata: required"),
    ],
    ids=["syntax", "kinds", "text", "several", "alias", "deep", "tag", "key", "object"],
)
def test_rejects_manifests(service: Service, manifest: str, says: str) -> None:
    answer = ask(service, as_text(manifest))
    assert (answer.status_code, answer.get_json()["message"]) == (422, says)


def test_manifest_and_object_exclude_each_other(service: Service) -> None:
    answer = ask(service, as_text(MANIFEST, object=POD))
    assert (answer.status_code, answer.get_json()["message"]) == (422, "spec.manifest: not together with spec.object")


@pytest.mark.parametrize(
    ("site", "code"), [("cross-site", 403), ("same-site", 403), ("same-origin", 201), ("none", 201)]
)
def test_pages_of_other_sites_cannot_ask(service: Service, site: str, code: int) -> None:
    scheduler = answering(service, *placed())
    with scheduler.working():
        assert ask(service, headers={"Sec-Fetch-Site": site}).status_code == code
    assert len(scheduler.asked) == (code == 201)


def test_review_of_one_node(service: Service) -> None:
    with answering(service, *placed()).working():
        told = ask(service, review(node="worker-3")).get_json()["status"]["first"]["perNode"]
        assert [node["node"] for node in told] == ["worker-3"]
        missing = envelope(ask(service, review(node="worker-9")))
    assert (missing["code"], missing["message"]) == (404, 'nodes "worker-9" not found')


@pytest.mark.parametrize(
    ("document", "code", "says"),
    [
        ({"kind": "Pod", "spec": {"object": POD}}, 400, "kind: expected PlacementReview"),
        ({"spec": {}}, 400, "missing required field `object`"),
        (review(replica=3), 400, "unknown field `replica`"),
        (review(replicas=0), 422, "spec.replicas: expected 1 to 100, got 0"),
        (review(replicas=101), 422, "spec.replicas: expected 1 to 100, got 101"),
        (review({"kind": "Service"}), 422, "kind: expected Pod, Deployment"),
        (review({"kind": "DaemonSet"}), 422, "a DaemonSet has a pod for each node"),
        (review(POD | {"metadata": {"name": "web", "namespace": "ci"}}), 400, 'of the object, "ci", is not "shop"'),
        (review(POD | {"metadata": {}}), 422, "metadata.name: required"),
        (review(POD | {"spec": []}), 422, "spec: expected an object"),
        (review(POD, schedulerName="x"), 404, f'no scheduler named "x" answers reviews; these do: {OURS}, other'),
        (review(POD | {"spec": {}}), 404, 'no scheduler named "default-scheduler"'),
        (review(cluster="c2"), 404, f'no scheduler named "{OURS}"'),
        ([], 400, "not a PlacementReview"),
        (review(POD | {"data": "x" * (256 << 10)}), 413, "at most 256 KiB"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_rejects_invalid_reviews(service: Service, document: Any, code: int, says: str) -> None:
    assert answering(service).poll().status_code == 204
    status = envelope(ask(service, document))
    assert (status["code"], says in status["message"]) == (code, True), status["message"]


@pytest.mark.parametrize(
    ("body", "type", "code", "says"),
    [
        (b'{"code": 422, "message": "web: containers"}', "application/json", 422, "web: containers"),
        (b'{"code": 503, "message": "too late"}', "application/json", 503, "too late"),
        (b"no frames", codec.CONTENT_TYPE, 500, "the scheduler's answer is not zstd"),
        (packed(), codec.CONTENT_TYPE, 500, "a review needs an attempt"),
        (packed(*placed()[:2]), codec.CONTENT_TYPE, 500, "an attempt without its outcome"),
        (packed(*placed()[1:]), codec.CONTENT_TYPE, 500, "a Decision where an attempt is expected"),
    ],
)
def test_refusal_of_the_scheduler_is_returned(service: Service, body: bytes, type: str, code: int, says: str) -> None:
    with AnsweringScheduler(service, lambda _: (body, type)).working():
        status = envelope(ask(service))
    assert (status["code"], says in status["message"]) == (code, True), status["message"]


@pytest.mark.parametrize(
    ("body", "type", "code"),
    [
        (b"{}", "application/json", 400),
        (b'{"code": 200, "message": ""}', "application/json", 400),
        (b"x", "text/plain", 415),
        (packed(), codec.CONTENT_TYPE, 404),
    ],
)
def test_rejects_invalid_answers(service: Service, body: bytes, type: str, code: int) -> None:
    assert answering(service).lay_down("nobodys", body, type).status_code == code


def test_review_without_a_scheduler_fails_immediately(service: Service) -> None:
    answer = ask(service)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "no scheduler answers what-ifs" in envelope(answer)["message"]
    answering(service).poll()
    service.clock.now_s += 61
    assert ask(service).status_code == 503, "one that has not asked for a minute is gone"


@pytest.mark.parametrize("path", [REVIEWS, f"{API}/clusterreviews"])
def test_a_scheduler_that_has_ended_is_known_at_once_and_since_when(service: Service, path: str) -> None:
    over = threading.Event()
    over.set()
    kinds = {"kind": ["PlacementReview", "ClusterReview"]}
    poll = {"cluster": "c1", "scheduler": OURS, "wait": "20", **kinds}
    service.client.get(DESK, query_string=poll, environ_overrides={CANCELLED: over})
    service.clock.now_s += 40
    began = time.monotonic()
    body = {"spec": {"changes": []}} if path != REVIEWS else {"kind": "PlacementReview", "spec": {"object": POD}}
    refused = envelope(service.client.post(path, json=body))
    assert (refused["code"], refused["message"]) == (503, "no scheduler answers what-ifs (last seen 40 s ago)")
    assert time.monotonic() - began < 5
    service.client.get(DESK, query_string=poll | {"wait": "0"})
    assert len(service.store.reviews.list_reviewers(60)) == 2, "it is back"


def test_a_question_whose_client_has_left_is_removed(service: Service) -> None:
    answering(service).poll()
    over = threading.Event()
    over.set()
    body = {"kind": "PlacementReview", "spec": {"object": POD}}
    service.client.post(REVIEWS, json=body, environ_overrides={CANCELLED: over})
    assert answering(service).poll().status_code == 204


def test_silent_schedulers_expire(service: Service) -> None:
    for n in range(20):
        service.client.get(DESK, query_string={"cluster": "c1", "scheduler": [f"s-{n}-{i}" for i in range(10)]})
        service.clock.now_s += REVIEWER_KEPT_S / 2
    assert reviewers_stored(service) == 30  # of the last request, and of the two within the time


def test_schedulers_per_cluster_are_limited(service: Service) -> None:
    answers = [
        service.client.get(DESK, query_string={"cluster": "c1", "scheduler": [f"s-{n}-{i}" for i in range(64)]})
        for n in range(6)
    ]
    assert [answer.status_code for answer in answers] == [204] * 4 + [429] * 2
    assert reviewers_stored(service) == MAX_REVIEWERS
    again = service.client.get(DESK, query_string={"cluster": "c1", "scheduler": ["s-0-0", "s-0-1"]})
    assert again.status_code == 204  # those that are known go on
    assert service.client.get(DESK, query_string={"cluster": "c2", "scheduler": ["other"]}).status_code == 204


def reviewers_stored(service: Service) -> int:
    with service.store.snapshot() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(REVIEWERS)).scalar_one()


def test_several_clusters_require_a_name(service: Service) -> None:
    scheduler = answering(service, *placed())
    scheduler.poll(cluster="c2")
    with scheduler.working():
        message = envelope(ask(service))["message"]
        assert message.endswith(f"in several clusters; name one (--cluster of the plugin): {CLUSTER}, c2")
        assert ask(service, review(cluster=CLUSTER)).status_code == 201


def test_review_times_out_without_an_answer(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "WAIT_S", 0.5)
    taken: list[int] = []

    def take() -> None:
        while 200 not in taken:
            taken.append(scheduler.poll().status_code)

    scheduler = answering(service)
    scheduler.poll()
    thread = threading.Thread(target=take)
    thread.start()
    status = envelope(ask(service))
    thread.join()
    assert (status["code"], status["reason"]) == (504, "Timeout")


def test_review_that_is_not_taken_in_time_is_withdrawn(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "PICKUP_S", 0.1)
    scheduler = answering(service)
    scheduler.poll()
    first = ReviewQuestion("0-another", ReviewingScheduler(CLUSTER, OURS), b"{}")
    assert service.store.reviews.add_question(first, most=1)
    answer = ask(service)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert "other reviews have been queued before this one" in envelope(answer)["message"]
    service.store.reviews.remove_question(first.id)
    assert scheduler.poll().status_code == 204, "the question went with its asker"


def test_scheduler_that_takes_no_reviews_is_503(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "PICKUP_S", 0.1)
    answering(service).poll()
    status = envelope(ask(service))
    assert (status["code"], status["reason"]) == (503, "ServiceUnavailable")
    assert status["message"] == f'scheduler "{OURS}" has not taken a review for 0 s'


def test_waiting_reviews_are_limited(service: Service) -> None:
    kept = service.store.reviews
    who = ReviewingScheduler("c1", OURS)
    asked = [kept.add_question(ReviewQuestion(f"{i:03}", who, b"{}"), 2) for i in range(3)]
    assert asked == [True, True, False]
    assert kept.claim_question("c2", [OURS]) is None
    assert kept.claim_question("c1", ["other"]) is None
    assert [getattr(kept.claim_question("c1", [OURS]), "id", None) for _ in range(3)] == ["000", "001", None]
    assert not kept.store_answer("000", "c2", ReviewAnswer(b"x", "t")), "another cluster's scheduler does not answer it"
    assert [kept.store_answer("000", "c1", ReviewAnswer(b"x", "t")) for _ in range(2)] == [True, False], "once"
    assert kept.read_answer("000") == ReviewAnswer(b"x", "t")
    service.clock.now_s += ABANDONED_S + 1
    assert kept.add_question(ReviewQuestion("004", who, b"{}"), 1), "those whose askers are gone do not count"
    assert kept.read_answer("000") is None


def test_review_answer_is_masked(tmp_path: Path) -> None:
    api = ApiServer(tokens={"ada's": ("ada", "")}, allowed={("ada", "create", "placementreviews", "shop")})
    service = a_service(tmp_path, access=api.access())
    try:
        with answering(service, *stopped()).working():
            answer = ask(service, headers=bearer("ada's"))
        assert answer.status_code == 201, answer.text
        told = answer.get_json()["status"]["stopped"]
        assert told["preemption"]["candidates"][0]["victims"] == ["shop/small", "(hidden)"]
        assert told["metadata"]["name"] == "web"
        refused = envelope(ask(service, headers=bearer("bob's")))
        assert refused["code"] == 401
        api.allowed = set()
        api.tokens["eve's"] = ("eve", "")
        assert envelope(ask(service, headers=bearer("eve's")))["message"] == (
            'placementreviews.herodotus.dev is forbidden: User "eve" cannot create resource "placementreviews"'
            ' in API group "herodotus.dev" in the namespace "shop"'
        )
    finally:
        service.store.close()
