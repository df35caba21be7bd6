"""A review from question to answer: a loop, a decisions service and the API server's classes, in one process."""

from __future__ import annotations

import multiprocessing
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import sqlalchemy as sa

from herodotus_answers.cluster_review import ClusterReviewStatus
from herodotus_answers.placement_review import REVIEWED
from herodotus_endpoint.api import reviews
from herodotus_endpoint.api.review_queue import MAX_WAIT_S
from herodotus_endpoint.store.schema import REVIEWS as REVIEW_ROWS
from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiServer
from herodotus_record.model import Code
from herodotus_serving.wsgi import CANCELLED
from scheduler.engine.framework.extender import Extender
from scheduler.engine.objects.autoscaling import NodePool
from scheduler.engine.records.build import Origin
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.reviews import trials
from scheduler.reviews.review_client import (
    CLUSTER_REVIEW,
    KINDS,
    PLACEMENT_REVIEW,
    NobodyWaitsError,
    ReceivedReview,
    ReviewClient,
)
from scheduler.reviews.reviewed_state import ReviewedState
from scheduler.reviews.reviewer import ReviewWorker
from tests.endpoint.service import API, Service, a_service, envelope
from tests.scheduler.builders import PROFILE, NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.answers import a_status
from tests.support.scheduling_loop import LoopWorld

REVIEWS = f"{API}/namespaces/default/placementreviews"
URGENT = {"metadata": {"name": "urgent"}, "value": 1000}


@dataclass
class Rig:
    """Everything that a review passes through."""

    world: LoopWorld
    service: Service
    answers: list[httpx.Response] = field(default_factory=list)  # of the API server, instead of its classes
    autoscaling: dict[str, list[Any]] = field(default_factory=dict)  # objects by path; absent: not served
    forbidden: tuple[str, ...] = ()  # paths
    extenders: list[Extender] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)  # as if the scheduler's connections were closed

    def __post_init__(self) -> None:
        transport = httpx.WSGITransport(self._service)
        self.client = ReviewClient(ServiceEndpoint("http://service"), "c1", [PROFILE], transport)
        api = ApiServer(Credentials("http://api", None, dict), transport=httpx.MockTransport(self._api))
        scheduler = self.world.loop.scheduler
        state = ReviewedState(
            self.world.loop,
            scheduler.cluster,
            scheduler.frameworks,
            lambda: [queued.pod.pod for queued in scheduler.queue],
            extenders=lambda: self.extenders,
        )
        self.reviewer = ReviewWorker(state, self.client, api, Origin("c1", "here"))

    def _service(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self.service.client.application(environ | {CANCELLED: self.ended}, start_response)

    def _api(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path in self.forbidden:
            return httpx.Response(403, json={"message": "forbidden", "reason": "Forbidden"})
        if path in self.autoscaling:
            return httpx.Response(200, json={"items": self.autoscaling[path]})
        if path != "/apis/scheduling.k8s.io/v1/priorityclasses":
            return httpx.Response(404, json={"message": "not served", "reason": "NotFound"})
        return self.answers.pop() if self.answers else httpx.Response(200, json={"items": [URGENT]})

    def ask(self, object: Any, **spec: Any) -> Any:
        """Return the answer to a review, while the loop and the reviewer run."""
        return self.post(REVIEWS, {"kind": "PlacementReview", "spec": {"object": object, **spec}})

    def ask_about_cluster(self, **spec: Any) -> Any:
        """Return the answer to a question about the whole cluster, while the loop and the reviewer run."""
        return self.post(f"{API}/clusterreviews", {"kind": "ClusterReview", "spec": spec})

    def post(self, path: str, body: Any) -> Any:
        self.service.store.reviews.register("c1", [PROFILE, f"ClusterReview/{PROFILE}"])
        with ThreadPoolExecutor(2) as pool:
            answer = pool.submit(self.service.client.application.test_client().post, path, json=body)
            work = pool.submit(self._work, answer)
            while not (answer.done() and work.done()):
                self.world.loop.step(0.002)
            work.result()
        return answer.result()

    def _work(self, answer: Future[Any]) -> None:
        while not answer.done():
            for kind in KINDS:
                question = self.client.next_request(kind)
                if question is not None:
                    self.reviewer.review(question, self.client)
            time.sleep(0.005)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr("scheduler.reviews.review_client.WAIT_S", 0)
    world = LoopWorld(tmp_path / "spool")
    made = Rig(world, a_service(tmp_path))
    yield made
    world.loop.binder.close()
    made.service.store.close()


def node(name: str, cpu: str = "4") -> NodeBuilder:
    return make_node(name).allocatable(cpu=cpu, memory="8Gi", pods="9")


def manifest(pod: PodBuilder, **spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": pod.json["metadata"]["name"]}, "spec": pod.spec | spec}


def wanted(cpu: str, name: str = "web", **spec: Any) -> dict[str, Any]:
    return manifest(make_pod(name).request(cpu=cpu), **spec)


def status(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    return dict(answer.get_json()["status"])


def test_a_review_predicts_the_node_that_the_scheduler_chooses(rig: Rig) -> None:
    rig.world.start(node("small", "2"), node("large", "9"))
    told = status(rig.ask(wanted("1")))
    assert (told["fits"], told["pods"][0]["node"]) == (1, "large")
    assert rig.world.requested == {"small": 0, "large": 0}
    assert rig.world.decisions == [], "nothing is recorded"
    rig.world.pod("ADDED", make_pod("web").request(cpu="1"))
    rig.world.settle()
    assert [n for _, n in rig.world.writes.bound] == ["large"]
    told = told["first"]
    (decision,) = rig.world.decisions
    assert told["message"] == decision.message
    assert told["outcome"]["phases"] == [
        told["outcome"]["phases"][0]
        | {"phase": REVIEWED, "status": Code.SKIP.label, "message": "reviewed: nothing is created"}
    ]
    assert (told["attempt"]["scheduler"], told["attempt"]["source"]) == ("here", "reconstructed")


def test_unschedulable_pod_gets_the_message_of_its_attempt(rig: Rig) -> None:
    rig.world.start(node("a", "2"), node("b", "3"))
    told = status(rig.ask(wanted("5")))
    rig.world.pod("ADDED", make_pod("web").request(cpu="5"))
    rig.world.settle()
    (decision,) = rig.world.decisions
    assert (told["fits"], told["stopped"]["message"]) == (0, decision.message)
    change = "request at most 3 cpu (free now; b has 3 in all), or add a larger node"
    assert told["stopped"]["possibleChanges"] == [change]


def test_each_of_several_counts_on_its_node_for_the_next(rig: Rig) -> None:
    rig.world.start(node("a", "2"), node("b", "3"))
    told = status(rig.ask(wanted("1"), replicas=9))
    assert (told["fits"], told["nodes"]) == (5, [{"node": "b", "pods": 3}, {"node": "a", "pods": 2}])
    assert told["stopped"]["metadata"]["name"] == "web-5"
    assert "2 Insufficient cpu" in told["stopped"]["message"]
    assert [n["free"] for g in told["stopped"]["rejections"] for x in g["nodes"] for n in x["reasons"]] == [0, 0]


def test_victims_are_named_and_stay(rig: Rig) -> None:
    rig.world.start(node("a", "2"), pods=[make_pod("low").request(cpu="2").node("a")])
    told = status(rig.ask(wanted("2", priorityClassName="urgent")))["stopped"]
    assert told["pod"]["priority"] == 1000
    assert told["preemption"] | {"candidates": 0} == {
        "nominatedNode": "a", "evicted": False, "candidates": 0, "candidatesOmitted": 0,
    }  # fmt: skip
    assert told["preemption"]["candidates"][0]["victims"] == ["default/low"]
    rig.world.settle()
    assert [said for said in rig.world.writes.sent if said[0] in ("evicted", "preempted")] == []


def test_existing_pod_is_reviewed_as_if_it_were_absent(rig: Rig) -> None:
    rig.world.start(node("a", "2"), pods=[make_pod("web").request(cpu="2").node("a")])
    told = status(rig.ask(wanted("2", nodeName="a")))
    assert (told["fits"], told["first"]["notes"]) == (1, ["spec.nodeName is ignored"])
    assert rig.world.requested == {"a": 2000}


@pytest.mark.parametrize(
    ("object", "code", "says"),
    [
        (wanted("1", priorityClassName="low"), 422, "no PriorityClass with name low was found"),
        (wanted("many"), 422, "the pod: spec.containers[0]"),
    ],
)
def test_a_pod_that_would_not_be_created_is_refused(rig: Rig, object: Any, code: int, says: str) -> None:
    rig.world.start(node("a"))
    refused = envelope(rig.ask(object))
    assert (refused["code"], says in refused["message"]) == (code, True), refused["message"]


def test_unavailable_review_answers_with_an_error(rig: Rig) -> None:
    assert envelope(rig.ask(wanted("1")))["message"] == "the whole cluster has not been listed yet"
    rig.world.start(node("a"))
    rig.answers.append(httpx.Response(403, json={"kind": "Status", "message": "no right", "reason": "Forbidden"}))
    assert "no right" in envelope(rig.ask(wanted("1")))["message"]


def test_reviews_are_answered_one_after_the_other_and_pods_are_scheduled_meanwhile(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the reviewer's own thread."""
    monkeypatch.setattr(reviews, "PICKUP_S", reviews.WAIT_S)  # the last of five waits for the others
    rig.world.start(node("a", "200"), node("b", "200"))
    rig.world.until(lambda: rig.world.loop.synced)
    rig.reviewer.start()
    try:
        rig.world.until(lambda: rig.service.store.reviews.list_reviewers(60))
        with ThreadPoolExecutor(5) as pool:
            body = {"kind": "PlacementReview", "spec": {"object": wanted("1")}}
            clients = [rig.service.client.application.test_client() for _ in range(5)]
            answers = [pool.submit(client.post, REVIEWS, json=body) for client in clients]
            for i in range(12):
                rig.world.pod("ADDED", make_pod(f"p{i}").request(cpu="1"))
            while not all(a.done() for a in answers):
                rig.world.loop.step(0.002)
        rig.world.until(lambda: len(rig.world.writes.bound) == 12)
        assert [a.result().status_code for a in answers] == [201] * 5
    finally:
        rig.reviewer.close()
        for thread in rig.reviewer._threads:
            thread.join(5)


def owned(name: str, node: str) -> PodBuilder:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    pod = make_pod(name).request(cpu="1").node(node)
    pod.json["metadata"]["ownerReferences"] = [owner]
    return pod


def resource_names(count: int) -> dict[str, Any]:
    """Return a pod that requests so many resources, none of which a node offers."""
    pod = wanted("1")
    pod["spec"]["containers"][0]["resources"]["requests"] |= {f"example.com/r{i:05}": "0" for i in range(count)}
    return pod


def measure_review(rig: Rig, kind: str, question: bytes) -> int:
    """Return the peak of the memory that this process allocates while a question is received and answered."""
    sent = list[tuple[str, bytes]]()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, content=question)
        sent.append((request.headers["Content-Type"], request.content))
        return httpx.Response(204)

    def answer_next() -> None:
        received = client.next_request(kind)
        assert received is not None
        rig.reviewer.review(received, client)

    client = ReviewClient(ServiceEndpoint("http://service"), "c1", [PROFILE], httpx.MockTransport(answer))
    with ThreadPoolExecutor(1) as pool:
        tracemalloc.start()
        try:
            work = pool.submit(answer_next)
            while not work.done():
                rig.world.loop.step(0.002)
            work.result()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    media_type, content = sent[-1]
    assert media_type.startswith("application/vnd.herodotus."), content
    return peak


@pytest.mark.parametrize("kind", [PLACEMENT_REVIEW, CLUSTER_REVIEW])
def test_the_process_builds_nothing_of_a_question_but_its_envelope(
    rig: Rig, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a question describes is built in the forked copy, whose memory and time are limited."""
    monkeypatch.setattr("scheduler.reviews.forked_copies._PIECE", 1 << 12)  # the buffer for the answer would hide it
    rig.world.start(node("n0"))

    def ask(names: int) -> tuple[bytes, int]:
        pod = resource_names(names)
        template = {"kind": "Deployment", "name": "web", "namespace": "", "pod": {"metadata": {}, "spec": pod["spec"]}}
        body: dict[str, Any] = {"namespace": "default", "scheduler": PROFILE, "replicas": 2, "template": template}
        if kind == CLUSTER_REVIEW:
            body = {"spec": {"changes": [{"kind": "Create", "object": pod, "replicas": 2, "namespace": "default"}]}}
        question = msgspec.json.encode({"id": "1", "kind": kind, "deadlineSeconds": 60} | body)
        return question, measure_review(rig, kind, question)

    ask(20_000)  # imports and caches
    small, small_peak = ask(1)
    large, large_peak = ask(20_000)
    tracemalloc.start()
    decoded = msgspec.json.decode(large)
    decoded_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert decoded["id"] == "1"
    assert large_peak - small_peak < decoded_bytes / 10, (len(small), small_peak, len(large), large_peak, decoded_bytes)


def test_a_drain_moves_pods_in_the_copy_alone(rig: Rig) -> None:
    bare = make_pod("bare").request(cpu="1").node("b")
    rig.world.start(node("a"), node("b"), pods=[owned("web-1", "a"), owned("web-2", "a"), bare])
    told = status(rig.ask_about_cluster(changes=[{"kind": "Drain", "nodes": ["a"]}]))
    assert {(p["fromNode"], p["node"], p["owner"]) for p in told["placements"]} == {("a", "b", "ReplicaSet/web")}
    assert (len(told["placements"]), told["blocked"], told["phase"]) == (2, [], "Complete")
    assert {n["name"]: n["after"]["pods"] for n in told["nodes"]} == {"a": 0, "b": 3}
    assert rig.world.requested == {"a": 2000, "b": 1000}
    assert rig.world.decisions == [], "nothing is recorded"


def test_pending_pods_are_tried_after_the_changes(rig: Rig) -> None:
    rig.world.start(node("a", "2"))
    rig.world.pod("ADDED", make_pod("large").request(cpu="5"))
    rig.world.settle()
    told = status(rig.ask_about_cluster(changes=[{"kind": "AddNodes", "like": "a", "count": 1}]))
    assert told["pending"] == []
    rig.world.node("ADDED", node("b", "8").taint("reserved", "yes", "NoSchedule"))
    rig.world.settle()
    changes = [{"kind": "TaintNodes", "nodes": ["b"], "taints": ["reserved-"]}]
    (placed,) = status(rig.ask_about_cluster(changes=changes))["pending"]
    assert (placed["name"], placed["node"], placed["cause"]) == ("large", "b", "Pending")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "Drain", "nodes": ["nowhere"]}, 'change 1 (Drain): nodes "nowhere" not found'),
        ({"kind": "Create", "object": wanted("many")}, "the pod: spec.containers[0]"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(rig: Rig, change: dict[str, Any], says: str) -> None:
    rig.world.start(node("a"))
    refused = envelope(rig.ask_about_cluster(changes=[change]))
    assert (refused["code"], says in refused["message"]) == (422, True), refused["message"]


NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"


def test_node_groups_are_read_and_judged_in_the_copy_alone(rig: Rig) -> None:
    taint = {"key": "spot", "effect": "NoSchedule"}
    pool = {"metadata": {"name": "spot"}, "spec": {"template": {"spec": {"requirements": [], "taints": [taint]}}}}
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "waits"},
        "reason": "NotTriggerScaleUp",
        "source": {"component": "cluster-autoscaler"},
    }
    rig.autoscaling = {NODE_POOLS: [pool], "/api/v1/namespaces/default/events": [event]}
    small = node("a", "2").label("eks.amazonaws.com/nodegroup", "small")
    rig.world.start(small, pods=[make_pod("full").request(cpu="2").node("a")])
    rig.world.pod("ADDED", make_pod("waits").request(cpu="1"))
    rig.world.settle()
    before = dict(rig.world.requested)
    found = status(rig.ask_about_cluster(nodeGroups={"pods": ["default/waits"], "estimate": True}))
    (pod,) = found["nodeGroups"]["pods"]
    assert {v["group"]: v["verdict"] for v in pod["groups"]} == {"small": "Fits", "spot": "DoesNotFit"}
    assert [report["reason"] for report in pod["reports"]] == ["NotTriggerScaleUp"]
    assert [(e["group"], e["nodes"], e["pods"]) for e in found["nodeGroups"]["estimates"]] == [("small", 1, 1)]
    assert found["notes"] == []
    assert (rig.world.requested, list(rig.world.loop.scheduler.cluster.cache.node_names())) == (before, ["a"])
    assert rig.world.loop.scheduler.cluster.objects.all(NodePool) == []


def test_scale_down_names_the_annotations_that_a_scheduler_keeps(rig: Rig) -> None:
    kept = node("a").annotation("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true")
    precious = owned("web-1", "a")
    precious.json["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true", "other": "text"}
    rig.forbidden = (NODE_POOLS,)
    rig.world.start(kept, node("b"), pods=[precious])
    found = status(rig.ask_about_cluster(scaleDown={"nodes": ["a"]}))
    (a,) = found["scaleDown"]["nodes"]
    assert [b["cause"] for b in a["blockers"]] == ["ScaleDownDisabled", "DoNotDisrupt"]
    assert [note.partition(":")[0] for note in found["notes"]] == ["nodepools cannot be read"]


def test_a_plan_is_searched_and_proven_in_the_copy_alone(rig: Rig) -> None:
    rig.world.start(node("a"), node("b"), pods=[owned(f"web-{name}", name).phase("Running") for name in "ab"])
    rig.world.pod("ADDED", make_pod("large").request(cpu="4").with_spec(preemptionPolicy="Never"))
    rig.world.settle()
    before = dict(rig.world.requested)
    asked = {"pods": ["default/large"], "kinds": ["move"]}
    (moves,) = status(rig.ask_about_cluster(plan=asked))["plan"]["kinds"]
    steps = [(step["kind"], step["pod"], step["nodes"], step["landsOn"]) for step in moves["plans"][0]["steps"]]
    assert steps == [("Cordon", "", ["a"], []), ("Move", "web-a", [], ["b"]), ("Uncordon", "", ["a"], [])]
    assert rig.world.requested == before
    refused = envelope(rig.ask_about_cluster(plan={"pods": ["default/absent"]}))
    assert (refused["code"], refused["message"]) == (422, 'plan: pods "default/absent" not found')


def test_pods_of_other_schedulers_are_decided_with_the_first_profile(rig: Rig) -> None:
    rig.world.start(node("a"), node("b"))
    created = {"kind": "Create", "object": wanted("1", schedulerName="someone-else")}
    told = status(rig.ask_about_cluster(changes=[created]))
    assert [p["node"] for p in told["placements"]] in (["a"], ["b"])
    assert told["notes"] == [f"pods of scheduler someone-else are decided as those of {PROFILE}"]


def test_placement_reviews_are_answered_while_the_cluster_is_reviewed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question about the cluster that lasts has a thread of its own; its client gets the progress and a token."""
    may_end = multiprocessing.get_context("fork").Event()  # the review runs in a forked copy

    def slow(_state: Any, _spec: Any, report: Any, *_more: Any) -> ClusterReviewStatus:
        while not may_end.wait(0.05):
            report(10, 30)
        return a_status(notes=["slow"])

    monkeypatch.setattr("scheduler.reviews.trials.answer_review", slow)
    monkeypatch.setattr("herodotus_endpoint.api.cluster_reviews.WAIT_S", 1.5)
    rig.world.start(node("a"))
    rig.world.until(lambda: rig.world.loop.synced)
    rig.reviewer.start()
    post = rig.service.client.application.test_client().post
    path, question = f"{API}/clusterreviews", {"kind": "ClusterReview", "spec": {"changes": []}}
    try:
        rig.world.until(lambda: len(rig.service.store.reviews.list_reviewers(60)) == 2)
        with ThreadPoolExecutor(2) as pool:
            asked = pool.submit(post, path, json=question)
            rig.world.until(lambda: is_claimed(rig.service))
            placed = pool.submit(post, REVIEWS, json={"kind": "PlacementReview", "spec": {"object": wanted("1")}})
            while not (asked.done() and placed.done()):
                rig.world.loop.step(0.002)
            assert status(placed.result())["fits"] == 1
            running = status(asked.result())
            assert (running["phase"], running["progress"]["total"]) == ("Running", 30)
            assert running["progress"]["done"] == 10
            may_end.set()
            found = running
            while found["phase"] == "Running":
                found = status(post(path, json={"spec": {"continue": running["continue"]}}))
            assert found["notes"] == ["slow"]
            again = envelope(post(path, json={"spec": {"continue": running["continue"]}}))
            assert (again["code"], again["reason"]) == (410, "Expired")
    finally:
        may_end.set()
        rig.reviewer.close()
        for thread in rig.reviewer._threads:
            thread.join(5)


def test_a_review_of_the_cluster_ends_when_its_client_disconnects(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_state: Any, _spec: Any, report: Any, *_more: Any) -> ClusterReviewStatus:
        while True:
            report(1, 2)
            time.sleep(0.05)

    monkeypatch.setattr("scheduler.reviews.trials.answer_review", endless)
    rig.world.start(node("a"))
    rig.world.until(lambda: rig.world.loop.synced)
    request = ReceivedReview("0123-none", "ClusterReview", b'{"spec":{"changes":[]}}', 60.0)
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        review = pool.submit(rig.reviewer.review, request, rig.client)
        rig.world.until(review.done)
        with pytest.raises(NobodyWaitsError):
            review.result()
    assert time.monotonic() - started < 20


def test_a_question_is_answered_at_once_after_and_beside_others(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind has a request of its own at the service, which holds it until there is a question."""
    held_s = MAX_WAIT_S
    monkeypatch.setattr("scheduler.reviews.review_client.WAIT_S", held_s)
    may_end = multiprocessing.get_context("fork").Event()
    place = trials.place_pods

    def slow(*args: Any) -> bytes:
        may_end.wait()
        return place(*args)

    monkeypatch.setattr("scheduler.reviews.trials.place_pods", slow)
    rig.__post_init__()
    rig.world.start(node("a"))
    rig.world.until(lambda: rig.world.loop.synced)
    rig.reviewer.start()
    post = rig.service.client.application.test_client().post
    question = {"kind": "ClusterReview", "spec": {"changes": [{"kind": "Cordon", "nodes": ["a"]}]}}
    seconds = []
    try:
        rig.world.until(lambda: len(rig.service.store.reviews.list_reviewers(60)) == 2)
        with ThreadPoolExecutor(2) as pool:
            placed = pool.submit(post, REVIEWS, json={"kind": "PlacementReview", "spec": {"object": wanted("1")}})
            rig.world.until(lambda: is_claimed(rig.service))
            for _ in range(3):
                began = time.monotonic()
                asked = pool.submit(post, f"{API}/clusterreviews", json=question)
                rig.world.until(asked.done)
                assert [n["name"] for n in status(asked.result())["nodes"]] == ["a"]
                seconds.append(time.monotonic() - began)
            may_end.set()
            rig.world.until(placed.done)
            assert status(placed.result())["fits"] == 1
    finally:
        may_end.set()
        rig.reviewer.close()
        rig.ended.set()
        for thread in rig.reviewer._threads:
            thread.join(held_s)
    assert max(seconds) < held_s / 2, "no question waits until the request that the service holds is over"


def is_claimed(service: Service) -> bool:
    """Return whether a scheduler has claimed a question that is stored."""
    with service.store.reviews._reading.begin() as connection:
        return connection.execute(sa.select(REVIEW_ROWS.c.id).where(REVIEW_ROWS.c.taken)).first() is not None
