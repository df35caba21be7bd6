"""What is written to the API server, to the letter: bindings, conditions, events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from herodotus_kube.http import ApiError
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.framework.writes import PodGroupCondition
from scheduler.engine.objects.pod_groups import PodGroup, PodGroupMetadata
from scheduler.live import events, unknown_bindings
from scheduler.live.api_writes import ApiWrites, NotLeadingError
from scheduler.live.events import EventSender
from scheduler.live.in_flight import BindRequests
from scheduler.live.scheduler import BackgroundThreads, WriteFence
from scheduler.live.unknown_bindings import CONFIRM_S
from tests.kube.servers import Json, Script, api_of, status
from tests.processes import eventually
from tests.scheduler.builders import PodBuilder, make_pod
from tests.scheduler.storage import claim, volume

OK = httpx.Response(201, json={})
POD = make_pod("p", "shop").info()
PATH = "/api/v1/namespaces/shop/pods/p"


DECISION_ID = "0192f0c1-0000-7000-8000-000000000001"


def shown(uid: str = "uid-p", node: str = "n", decision: str = DECISION_ID, **metadata: Any) -> httpx.Response:
    """Return the response to a read of the pod, bound by a decision; empty values leave node or annotation out."""
    pod = make_pod("p", "shop").uid(uid).with_spec(nodeName=node).json
    if node and decision:
        metadata["annotations"] = {"herodotus.dev/decision": decision}
    return httpx.Response(200, json=pod | {"metadata": pod["metadata"] | metadata})


class RequestsOfTest(BindRequests):
    """The bind request of one pod, which decision `DECISION_ID` binds."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def decision_id(self, uid: str) -> str:
        assert uid == POD.uid
        return DECISION_ID

    def mark_unknown(self, uid: str, why: str) -> None:
        self.unknown.append(why)


class ThreadsOfTest(BackgroundThreads):
    """Runs work at once, in the thread that submits it."""

    def __init__(self) -> None:
        pass

    def submit(self, work: Callable[[], object]) -> None:
        work()


def writes_to(
    server: Script, *, leading: Callable[[], bool] = lambda: True, threads: BackgroundThreads | None = None
) -> ApiWrites:
    """Return the writes to a server, without events."""
    return ApiWrites(api_of(server), None, RequestsOfTest(), threads or ThreadsOfTest(), WriteFence(leading))


class Binding:
    """One request to bind POD to n, and what is reported of it."""

    def __init__(self, server: Script, timeout_s: float = 0.2, *, leading: Callable[[], bool] = lambda: True) -> None:
        self.bindings = RequestsOfTest()
        self.reported: list[str | None] = []
        self.writes = ApiWrites(api_of(server), None, self.bindings, ThreadsOfTest(), WriteFence(leading, timeout_s))
        self.writes.bind(POD, "n", self.reported.append)

    @property
    def result(self) -> str | None:
        eventually(lambda: bool(self.reported), "the result of the binding")
        assert len(self.reported) == 1
        return self.reported[0]


def test_a_binding_names_uid_node_and_decision() -> None:
    server = Script(OK)
    assert Binding(server).result is None
    (request,) = server.requests
    assert (request.method, request.url.path) == ("POST", f"{PATH}/binding")
    assert request.headers["Authorization"] == "Bearer t"
    assert server.bodies() == [
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": "shop",
                "name": "p",
                "uid": "uid-p",
                "annotations": {"herodotus.dev/decision": DECISION_ID},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
        }
    ]


UNKNOWN = [
    httpx.ReadTimeout("slow"),
    httpx.RemoteProtocolError("reset"),
    status(500, message="no"),
    status(503, message="no"),
    status(504, message="no"),
    status(409, message="no"),
]


@pytest.mark.parametrize("answer", UNKNOWN, ids=repr)
def test_where_the_answer_proves_nothing_the_pod_is_read(answer: httpx.Response | Exception) -> None:
    server = Script(answer, shown())
    binding = Binding(server)
    assert binding.result is None
    assert [(r.method, r.url.path) for r in server.requests] == [("POST", f"{PATH}/binding"), ("GET", PATH)]
    assert len(binding.bindings.unknown) == 1


@pytest.mark.parametrize(
    ("now", "failure"),
    [
        pytest.param(shown(node=""), "slow", id="not bound"),
        pytest.param(shown(uid="again"), "was deleted", id="another pod of the name"),
        pytest.param(shown(node="", deletionTimestamp="2026-03-01T12:00:00Z"), "is being deleted", id="deleted"),
        pytest.param(status(404, message='pods "p" not found'), 'pods "p" not found', id="gone"),
        pytest.param(shown(node="m", decision=""), 'bound to node "m" by another scheduler', id="bound elsewhere"),
        pytest.param(shown(decision="other"), 'bound to node "n" by decision other', id="bound by another decision"),
        pytest.param(shown(decision=""), "by whom is unknown", id="bound to the same node without a decision's id"),
    ],
)
def test_a_binding_that_is_not_proved_fails(now: httpx.Response, failure: str) -> None:
    result = Binding(Script(httpx.ReadTimeout("slow"), now)).result
    assert result is not None
    assert failure in result


def test_of_two_schedulers_that_choose_the_same_node_the_second_does_not_claim_the_binding() -> None:
    """Its request is refused with 409, and the pod is on the node that it asked for."""
    server = Script(status(409, message='pod p is already assigned to node "n"'), shown(decision="the first one's"))
    result = Binding(server).result
    assert result is not None
    assert "by decision the first one's, not by this one" in result


@pytest.mark.parametrize("answer", [httpx.ReadTimeout("slow"), status(504)], ids=repr)
def test_a_binding_that_lands_late_is_waited_for(answer: httpx.Response | Exception) -> None:
    """The server goes on with a request that was given up, until the time-out that it was sent."""
    server = Script(answer, shown(node=""), shown())
    began = time.monotonic()
    assert Binding(server, 0.3).result is None
    assert time.monotonic() - began >= 0.3
    assert [r.method for r in server.requests] == ["POST", "GET", "GET"]


@pytest.mark.parametrize("answer", UNKNOWN[:-1], ids=repr)
def test_an_unbound_pod_is_read_twice_before_its_binding_fails(answer: httpx.Response | Exception) -> None:
    """After a stall, etcd may execute an earlier write just after the first successful read."""
    server = Script(answer, shown(node=""))
    began = time.monotonic()
    assert Binding(server, 0.1).result in ("slow", "reset", "no", "504 Gateway Timeout")
    assert time.monotonic() - began >= CONFIRM_S
    assert [r.method for r in server.requests].count("GET") >= 2


def test_the_pod_is_read_until_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A binding that is taken for failed would give its room to another pod."""
    monkeypatch.setattr(unknown_bindings, "UNAVAILABLE_PAUSE_S", (0.001, 0.002))
    monkeypatch.setattr(unknown_bindings, "REFUSED_PAUSE_S", 0.01)
    kinds: list[httpx.Response | Exception] = [httpx.ConnectError("refused"), *map(status, (503, 504, 500, 403))]
    away = kinds * 8
    server = Script(httpx.ReadTimeout("slow"), *away, shown())
    assert Binding(server).result is None
    assert [r.method for r in server.requests] == ["POST", *["GET"] * (len(away) + 1)]


def test_many_unknown_bindings_are_read_by_one_thread() -> None:
    """While the API server does not answer, no thread and no turn of other bindings waits."""
    answered = threading.Event()

    def stalled(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            assert answered.wait(30)
            return shown()
        return status(504)

    before = threading.active_count()
    first = Binding(Script(stalled), 0.1)
    reported: list[str | None] = []
    for _ in range(50):
        first.writes.bind(POD, "n", reported.append)
    eventually(lambda: len(first.bindings.unknown) == 51, "every request to be over")
    assert threading.active_count() - before <= 3  # the reader, and one that stands in for the connection
    assert reported == []
    answered.set()
    eventually(lambda: reported == [None] * 50, "every result")


def test_a_result_that_stays_unknown_at_the_end_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.live.api_writes.FINISH_S", 0.2)
    binding = Binding(Script(httpx.ReadTimeout("slow"), status(503)))
    eventually(lambda: bool(binding.bindings.unknown), "the end of the request")
    binding.writes.finish_bindings()
    time.sleep(0.3)
    assert binding.reported == []


@pytest.mark.parametrize("code", [400, 403, 404, 422, 429])
def test_a_refusal_is_final(code: int) -> None:
    server = Script(status(code, message="no"))
    assert Binding(server).result == "no"
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [429, 503])
def test_a_request_that_the_server_put_off_is_sent_again(code: int) -> None:
    server = Script(status(code, message="later", **{"Retry-After": "1"}), OK)
    assert Binding(server, 10.0).result is None
    assert [r.method for r in server.requests] == ["POST", "POST"]


class TestCondition:
    def patched(self, pod: PodBuilder, reason: str = "Unschedulable", message: str = "m") -> list[Json]:
        server = Script(OK)
        writes_to(server).not_scheduled(pod.info(), reason, message, None)
        for request in server.requests:
            assert (request.method, request.url.path) == ("PATCH", "/api/v1/namespaces/default/pods/p/status")
            assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
        return server.bodies()

    def test_the_first_condition_is_written(self) -> None:
        (body,) = self.patched(make_pod())
        assert body["metadata"] == {"uid": "uid-p"}
        (condition,) = body["status"]["conditions"]
        assert condition.pop("lastTransitionTime").endswith("Z")
        assert condition == {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}

    def test_the_same_again_is_not_written(self) -> None:
        assert self.patched(make_pod().condition("PodScheduled", "False", "Unschedulable", "m")) == []

    def test_another_message_keeps_the_time_of_the_transition(self) -> None:
        (body,) = self.patched(make_pod().condition("PodScheduled", "False", "Unschedulable", "old"))
        assert body["status"]["conditions"] == [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
        ]

    def test_a_message_of_any_length_is_whole(self) -> None:
        (body,) = self.patched(make_pod(), message="x" * 5000)
        assert body["status"]["conditions"][0]["message"] == "x" * 5000


@pytest.mark.parametrize(
    ("note", "written"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 512, "é" * 512),
        ("é" * 513, "é" * 510 + " ..."),
        ("x" + "é" * 512, "x" + "é" * 509 + " ..."),  # no character is cut in two
    ],
)
def test_a_note_is_cut_to_what_the_api_takes(note: str, written: str) -> None:
    body = events.build_event(POD, "s", "i", events.build_failed_event(note))
    assert body["note"] == written
    assert len(body["note"].encode()) <= 1024


def test_the_fields_of_an_event() -> None:
    body = events.build_event(POD, "herodotus-scheduler", "i" * 200, events.build_scheduled_event(POD, "n"))
    name = body["metadata"].pop("name")
    assert name.startswith("p.")
    int(name.removeprefix("p."), 16)
    assert len(body.pop("eventTime")) == len("2026-03-01T12:00:00.000000Z")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "reportingController": "herodotus-scheduler",
        "reportingInstance": "i" * 128,
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "Successfully assigned shop/p to n",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "p",
            "uid": "uid-p",
            "resourceVersion": "",
        },
    }


class TestSeries:
    FAILED = events.build_failed_event("first")

    def sent(self, *events: tuple[str, str, str, str], server: Script | None = None) -> list[tuple[str, str]]:
        """Return (method, what) of the requests that these events cause."""
        server = server or Script(OK)
        sender = EventSender(api_of(server), "me")
        for event in events:
            sender.send(POD, "s", event)
        sender.close()
        return [
            (r.method, str(b["series"]["count"]) if r.method == "PATCH" else b["note"])
            for r, b in zip(server.requests, server.bodies(), strict=True)
        ]

    def test_repeats_are_counted_and_the_first_note_stays(self) -> None:
        repeats = [self.FAILED, events.build_failed_event("second"), *[self.FAILED] * 20]
        assert self.sent(*repeats) == [("POST", "first"), ("PATCH", "2")]

    def test_another_reason_is_another_event(self) -> None:
        assert self.sent(self.FAILED, events.build_scheduled_event(POD, "n")) == [
            ("POST", "first"),
            ("POST", "Successfully assigned shop/p to n"),
        ]

    def test_an_expired_event_is_created_again(self) -> None:
        server = Script(OK, status(404, message="gone"), OK)
        assert self.sent(self.FAILED, events.build_failed_event("again"), server=server) == [
            ("POST", "first"),
            ("PATCH", "2"),
            ("POST", "again"),
        ]

    def test_event_is_repeated_while_the_server_is_down(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("scheduler.live.events.PAUSE_S", (0.001, 0.002))
        away = httpx.ConnectError("refused")
        server = Script(away, away, OK, away, OK)
        sender = EventSender(api_of(server), "me")
        for _ in range(2):
            sender.send(POD, "s", self.FAILED)
        eventually(lambda: len(server.requests) == 5, "every try")
        sender.close()
        assert [(r.method, b.get("note"), b.get("series", {}).get("count")) for r, b in
                zip(server.requests, server.bodies(), strict=True)] == [
            *[("POST", "first", None)] * 3, *[("PATCH", None, 2)] * 2
        ]  # fmt: skip

    def test_stop_does_not_wait_for_events(self) -> None:
        began = time.monotonic()
        self.sent(self.FAILED, self.FAILED, server=Script(httpx.ConnectError("refused")))
        assert time.monotonic() - began < 2

    def test_only_so_many_series_are_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("scheduler.live.events.LANES", 1)
        monkeypatch.setattr("scheduler.live.events.SERIES", 3)
        sender = EventSender(api_of(Script(OK)), "me")
        for number in range(50):
            sender.send(make_pod(f"p{number}", "shop").info(), "s", self.FAILED)
        sender.close()
        assert sender.series == 3

    @pytest.mark.parametrize("answer", [status(404), status(403), status(500)], ids=repr)
    def test_a_refused_event_does_not_stop_the_others(self, answer: httpx.Response | Exception) -> None:
        assert len(self.sent(self.FAILED, events.build_scheduled_event(POD, "n"), server=Script(answer, OK))) == 2

    def test_events_over_the_limit_are_dropped_and_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("scheduler.live.events.LANES", 1)
        monkeypatch.setattr("scheduler.live.events.BACKLOG", 1)
        answered = threading.Event()

        def slow(_: httpx.Request) -> httpx.Response:
            answered.wait(10)
            return OK

        sender = EventSender(api_of(Script(slow)), "me")
        for _ in range(4):  # one is under way, one waits
            sender.send(POD, "s", self.FAILED)
        assert sender.dropped == 2
        answered.set()
        sender.close()


class TestWrites:
    def written(self, server: Script, *, events: bool = True) -> list[tuple[str, str]]:
        api = api_of(server)
        sender = EventSender(api, "me") if events else None
        api_writes = ApiWrites(api, sender, RequestsOfTest(), ThreadsOfTest(), WriteFence())
        api_writes.not_scheduled(POD, "Unschedulable", "no room", None)
        api_writes.skipped(POD, "being deleted")
        api_writes.scheduled(POD, "n")
        if sender is not None:
            sender.close()
        return sorted((r.method, r.url.path.rpartition("/")[2]) for r in server.requests)

    def test_events_and_the_condition(self) -> None:
        """The second FailedScheduling is counted in the series of the first."""
        (series, *rest) = self.written(Script(OK))
        assert series[0] == "PATCH"
        assert series[1].startswith("p.")
        assert rest == [("PATCH", "status"), ("POST", "events"), ("POST", "events")]

    def test_without_the_api_of_events_only_the_condition(self) -> None:
        assert self.written(Script(OK), events=False) == [("PATCH", "status")]

    @pytest.mark.parametrize("code", [404, 409, 422, 500])
    def test_a_condition_that_is_refused_is_no_failure(self, code: int) -> None:
        assert self.written(Script(status(code)), events=False) == [("PATCH", "status")]


class TestEviction:
    HIGH = make_pod("high", "shop").with_spec(schedulerName="s").info()

    def test_victim_gets_its_condition_before_it_is_deleted(self) -> None:
        server = Script(OK)
        writes_to(server).evict(POD, self.HIGH, "n")
        status_, deletion = server.requests
        assert [(r.method, r.url.path) for r in (status_, deletion)] == [("PATCH", f"{PATH}/status"), ("DELETE", PATH)]
        patch, options = server.bodies()
        (condition,) = patch["status"]["conditions"]
        assert condition.pop("lastTransitionTime").endswith("Z")
        assert (patch["metadata"], condition) == (
            {"uid": "uid-p"},
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": "s: preempting to accommodate a higher priority pod",
            },
        )
        assert options["preconditions"] == {"uid": "uid-p"}

    def test_deleting_an_absent_pod_succeeds_and_other_errors_fail(self) -> None:
        writes_to(Script(status(404))).evict(POD, self.HIGH, "n")
        with pytest.raises(ApiError, match="no"):
            writes_to(Script(OK, status(403, message="no"))).evict(POD, self.HIGH, "n")

    def test_the_victims_event_names_the_preemptor(self) -> None:
        body = events.build_event(
            POD, "s", "i", events.build_preempted_event(self.HIGH, "n", in_memory=False), self.HIGH
        )
        assert (body["type"], body["reason"], body["action"], body["note"]) == (
            "Normal",
            "Preempted",
            "Preempting",
            "Preempted by pod uid-high on node n",
        )
        assert (body["regarding"]["name"], body["related"]["name"]) == ("p", "high")
        assert events.build_preempted_event(self.HIGH, "n", in_memory=True)[3].endswith(
            "on node n (in kube-scheduler memory)."
        )


@pytest.mark.parametrize(
    ("was", "nominated", "written"),
    [
        ("", "n", {"nominatedNodeName": "n"}),
        ("n", "", {"nominatedNodeName": None}),
        ("n", None, {}),
        ("", "", {}),
    ],
)
def test_the_nominated_node_is_written_with_the_condition_where_it_changes(
    was: str, nominated: str | None, written: Json
) -> None:
    server = Script(OK)
    nomination = None if nominated is None else Nomination(nominated)
    writes_to(server).not_scheduled(make_pod().nominated(was).info(), "Unschedulable", "m", nomination)
    (body,) = server.bodies()
    assert {k: v for k, v in body["status"].items() if k != "conditions"} == written


@pytest.mark.parametrize("by_controller", [True, False])
def test_volume_is_bound_to_a_claim_unless_it_changed(by_controller: bool) -> None:
    server = Script(httpx.Response(200, json={"metadata": {"name": "v", "resourceVersion": "12"}}))
    version = writes_to(server).bind_volume(
        volume("v", version="7"), claim("c", version="3"), by_controller=by_controller
    )
    assert version == 12
    (request,), (body,) = server.requests, server.bodies()
    assert (request.method, request.url.path) == ("PATCH", "/api/v1/persistentvolumes/v")
    marked = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}} if by_controller else {}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": "uid-c",
        "resourceVersion": "3",
    }
    assert body == {"metadata": {"resourceVersion": "7", **marked}, "spec": {"claimRef": reference}}


def test_claim_gets_the_selected_node_unless_it_changed() -> None:
    server = Script(httpx.Response(200, json={"metadata": {"resourceVersion": "4"}}))
    assert writes_to(server).select_node(claim("c", version="3"), "n") == 4
    (request,), (body,) = server.requests, server.bodies()
    assert request.url.path == "/api/v1/namespaces/default/persistentvolumeclaims/c"
    annotations = {"volume.kubernetes.io/selected-node": "n"}
    assert body == {"metadata": {"resourceVersion": "3", "annotations": annotations}}


def test_nothing_is_sent_once_another_may_lead() -> None:
    server = Script(OK)
    api_writes = writes_to(server, leading=lambda: False)
    high = make_pod("high").info()
    for write in (
        lambda: api_writes.bind(POD, "n", lambda error: pytest.fail(f"bound: {error}")),
        lambda: api_writes.evict(POD, high, "n"),
        lambda: api_writes.bind_volume(volume("v"), claim("c"), by_controller=True),
        lambda: api_writes.select_node(claim("c"), "n"),
    ):
        with pytest.raises(NotLeadingError):
            write()
    api_writes.nominate(POD, "n")
    api_writes.not_scheduled(POD, "Unschedulable", "m", None)
    assert server.requests == []


class HeldThreads(BackgroundThreads):
    """Threads that run nothing until `run`, then everything in reverse order."""

    def __init__(self) -> None:
        self.held: list[Callable[[], object]] = []

    def submit(self, work: Callable[[], object]) -> None:
        self.held.append(work)

    def run(self) -> None:
        for work in reversed(self.held):
            work()


def test_the_last_condition_of_a_pod_group_is_written_whichever_thread_is_first() -> None:
    server, threads = Script(OK), HeldThreads()
    api_writes = writes_to(server, threads=threads)
    metadata = PodGroupMetadata(name="g", namespace="default", uid="uid-g", generation=3)
    group = PodGroup(metadata=metadata)
    waits = PodGroupCondition("False", "Unschedulable", "m")
    api_writes.set_pod_group_condition(group, waits, changes_status=True)
    api_writes.set_pod_group_condition(group, waits._replace(message="n"), changes_status=False)
    threads.run()
    (request,), (body,) = server.requests, server.bodies()
    path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups/g/status"
    assert (request.method, request.url.path) == ("PATCH", path)
    (condition,) = body["status"]["conditions"]
    assert condition.pop("lastTransitionTime").endswith("Z")
    assert (body["metadata"], condition) == (
        {"uid": "uid-g"},
        {
            "type": "PodGroupScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "n",
            "observedGeneration": 3,
        },
    )
