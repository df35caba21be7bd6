"""The Lease: at most one holder, expired by our own clock, given back at the end."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import httpx
import pytest

from herodotus_kube.lease import LeaderElector, LeaseSettings
from tests.kube.servers import Json, api_of, status
from tests.support.clock import Clock

SETTINGS = LeaseSettings("ns", "lease", duration_s=15.0, renew_deadline_s=10.0, retry_period_s=0.002)
PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


class LeaseServer:
    """One Lease with its version; refuses a write that was based on another one."""

    def __init__(self, spec: Json | None = None) -> None:
        self.lease: Json | None = None
        self.version = 0
        self.down = False
        self.writes = 0
        self.wrote = threading.Event()
        if spec is not None:
            kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            self.put({**kind, "metadata": {"name": "lease", "namespace": "ns"}, "spec": spec})

    def put(self, lease: Json) -> None:
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.lease = lease
        self.writes += 1
        self.wrote.set()

    @property
    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("refused")
        if request.method == "GET":
            return httpx.Response(200, json=self.lease) if self.lease else status(404)
        sent: Json = json.loads(request.read())
        assert sent["apiVersion"] == "coordination.k8s.io/v1"
        if request.method == "POST":
            assert request.url.path == PATH
            if self.lease is not None:
                return status(409, "AlreadyExists")
        elif sent["metadata"].get("resourceVersion") != str(self.version):
            return status(409, "Conflict")
        self.put(sent)
        return httpx.Response(200, json=sent)


def election(server: LeaseServer, identity: str = "me", clock: Clock | None = None) -> LeaderElector:
    return LeaderElector(api_of(server), identity, SETTINGS, clock or Clock(0.0))


def held_by(other: str, **more: Any) -> Json:
    return {"holderIdentity": other, "leaseDurationSeconds": 15, "renewTime": "t0", "leaseTransitions": 3} | more


def test_the_first_candidate_creates_the_lease() -> None:
    server = LeaseServer()
    mine = election(server)
    assert mine.acquire(threading.Event())
    assert server.lease is not None
    spec = server.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("me", 15, 0)
    assert len(spec["renewTime"]) == len("2026-03-01T12:00:00.000000Z")
    mine.release()
    assert (server.holder, server.lease["spec"]["leaseDurationSeconds"]) == ("", 1)


def test_a_released_lease_is_acquired_at_once() -> None:
    server = LeaseServer(held_by(""))
    assert election(server)._try_acquire_or_renew()
    assert server.lease is not None
    assert (server.holder, server.lease["spec"]["leaseTransitions"]) == ("me", 4)


def test_a_living_holder_keeps_it_a_dead_one_loses_it() -> None:
    server, clock = LeaseServer(held_by("other")), Clock(0.0)
    mine = election(server, clock=clock)
    assert not mine._try_acquire_or_renew()
    clock.now_s = 15.0
    assert not mine._try_acquire_or_renew()
    server.put({**(server.lease or {}), "spec": held_by("other", renewTime="t1")})  # it renewed: alive
    clock.now_s = 15.1
    assert not mine._try_acquire_or_renew()
    clock.now_s = 30.2
    assert mine._try_acquire_or_renew()
    assert server.holder == "me"


def test_the_holders_own_duration_counts() -> None:
    server, clock = LeaseServer(held_by("other", leaseDurationSeconds=60)), Clock(0.0)
    mine = election(server, clock=clock)
    assert not mine._try_acquire_or_renew()
    clock.now_s = 59.0
    assert not mine._try_acquire_or_renew()
    clock.now_s = 60.1
    assert mine._try_acquire_or_renew()


def test_a_race_has_one_winner() -> None:
    server = LeaseServer(held_by(""))
    other = election(server, "other")
    stale = json.loads(json.dumps(server.lease))
    assert other._try_acquire_or_renew()
    mine = election(server)
    mine._get = lambda: stale  # type: ignore[method-assign]
    assert not mine._try_acquire_or_renew()
    assert server.holder == "other"


def test_it_is_renewed_with_the_time_of_its_acquisition_kept() -> None:
    server = LeaseServer()
    mine = election(server)
    mine.acquire(threading.Event())
    assert server.lease is not None
    first = dict(server.lease["spec"])
    for _ in range(2):
        server.wrote.clear()
        assert server.wrote.wait(60)
    now = server.lease["spec"]
    assert (now["acquireTime"], now["leaseTransitions"]) == (first["acquireTime"], 0)
    assert now["renewTime"] > first["renewTime"]
    assert not mine.lost.is_set()
    mine.release()


def test_it_is_lost_when_it_could_not_be_renewed_in_time() -> None:
    server, clock = LeaseServer(), Clock(0.0)
    mine = election(server, clock=clock)
    mine.acquire(threading.Event())
    server.down = True
    clock.now_s = 9.0
    assert not mine.lost.wait(0.02)
    clock.now_s = 10.1
    assert mine.lost.wait(60)
    mine.release()


@pytest.mark.parametrize("holder", ["other", ""], ids=["another", "nobody"])
def test_it_is_lost_at_once_when_another_took_it_or_emptied_it(holder: str) -> None:
    server = LeaseServer()
    mine = election(server)
    mine.acquire(threading.Event())
    server.put({**(server.lease or {}), "spec": held_by(holder)})
    assert mine.lost.wait(60)
    assert not mine.leading
    mine.release()
    assert server.holder == holder


def test_a_renewal_that_hangs_does_not_keep_it() -> None:
    """The API server takes the request and does not answer: the deadline is looked at all the same."""
    server, clock, go_on = LeaseServer(), Clock(0.0), threading.Event()
    hangs = threading.Event()

    def handler(request: httpx.Request) -> httpx.Response:
        if hangs.is_set():
            go_on.wait(60)
        return server(request)

    mine = LeaderElector(api_of(handler), "me", SETTINGS, clock)
    mine.acquire(threading.Event())
    hangs.set()
    clock.now_s = 10.1
    assert mine.lost.wait(60)
    assert (mine.leading, mine.seconds_since_renewal()) == (False, None)
    go_on.set()
    mine.release()


def test_annotations_of_others_are_kept() -> None:
    server = LeaseServer(held_by(""))
    assert server.lease is not None
    others = {"labels": {"team": "a"}, "annotations": {"note": "b"}, "ownerReferences": [{"kind": "Pod"}]}
    server.lease["metadata"] |= others
    server.lease["spec"]["strategy"] = "OldestEmulationVersion"
    mine = election(server)
    mine.acquire(threading.Event())
    mine.release()
    assert {key: server.lease["metadata"][key] for key in others} == others
    assert (server.holder, server.lease["spec"]["strategy"]) == ("", "OldestEmulationVersion")


def test_a_leader_writes_annotations_for_its_successor() -> None:
    server, count = LeaseServer(), iter(range(1, 1000))
    first = election(server, "first")
    first.acquire(threading.Event())
    assert first.previous_annotations == {}
    first.set_annotations(lambda: {"reached": str(next(count))})
    server.wrote.clear()
    assert server.wrote.wait(60)
    first.release()
    assert server.lease is not None
    annotation = server.lease["metadata"]["annotations"]["reached"]
    assert int(annotation) == next(count) - 1, "the last word is written when it is given back"
    second = election(server, "second")
    assert second._try_acquire_or_renew()
    assert second.previous_annotations == {"reached": annotation}


def test_annotations_survive_a_lost_response_to_the_acquisition() -> None:
    server = LeaseServer(held_by(""))
    assert server.lease is not None
    server.lease["metadata"]["annotations"] = {"reached": "7"}
    lost = iter([True])

    def handler(request: httpx.Request) -> httpx.Response:
        answer = server(request)
        if request.method == "PUT" and next(lost, False):
            raise httpx.ReadTimeout("the answer is lost")
        return answer

    mine = LeaderElector(api_of(handler), "me", SETTINGS, Clock(0.0))
    assert [mine._try_acquire_or_renew(), mine._try_acquire_or_renew()] == [False, True]
    assert mine.previous_annotations == {"reached": "7"}


def test_a_short_outage_does_not_lose_it() -> None:
    server, clock = LeaseServer(), Clock(0.0)
    mine = election(server, clock=clock)
    mine.acquire(threading.Event())
    server.down = True
    clock.now_s = 9.0
    server.down = False
    for _ in range(2):  # one may have begun before the clock moved
        server.wrote.clear()
        assert server.wrote.wait(60)
    clock.now_s = 18.0
    assert not mine.lost.wait(0.02)
    mine.release()


def test_lease_of_another_holder_is_not_released() -> None:
    server = LeaseServer()
    mine = election(server)
    mine.acquire(threading.Event())
    mine._stop.set()
    server.put({**(server.lease or {}), "spec": held_by("other")})
    mine.release()
    assert server.holder == "other"


def test_waiting_for_the_lease_ends_when_the_process_stops() -> None:
    server, stop = LeaseServer(held_by("other")), threading.Event()
    mine, answers = election(server), []
    thread = threading.Thread(target=lambda: answers.append(mine.acquire(stop)))
    thread.start()
    stop.set()
    thread.join(60)
    assert answers == [False]
    mine.release()
    assert server.holder == "other"


@pytest.mark.parametrize(
    "answer", [status(409, "Conflict"), status(429), status(500), httpx.ReadTimeout("slow")], ids=repr
)
def test_giving_it_back_is_tried_again(answer: httpx.Response | Exception) -> None:
    server, refusals = LeaseServer(), iter([True, True])

    def handler(request: httpx.Request) -> httpx.Response:
        if mine._stop.is_set() and request.method == "PUT" and next(refusals, False):
            if isinstance(answer, Exception):
                raise answer
            return answer
        return server(request)

    mine = LeaderElector(api_of(handler), "me", SETTINGS, Clock(0.0))
    mine.acquire(threading.Event())
    mine.release()
    assert server.holder == ""
    assert next(refusals, None) is None


def test_a_renewal_that_was_slow_does_not_take_back_what_was_given_back() -> None:
    server = LeaseServer(held_by(""))
    mine = election(server)
    mine._stop.set()
    assert not mine._try_acquire_or_renew()
    assert server.holder == ""


def test_release_twice_or_without_a_server_is_no_failure() -> None:
    server = LeaseServer()
    clock = iter(range(0, 1000, 4))
    mine = LeaderElector(api_of(server), "me", SETTINGS, lambda: float(next(clock)))
    assert mine.acquire(threading.Event())
    mine._stop.set()  # nothing else looks at the clock
    server.down = True
    mine.release()
    mine.release()


@pytest.mark.parametrize("answer", [status(403), status(500), httpx.ReadTimeout("slow")], ids=repr)
def test_refused_request_is_repeated_at_the_next_attempt(answer: httpx.Response | Exception) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert not LeaderElector(api_of(handler), "me", SETTINGS)._try_acquire_or_renew()


def test_a_leader_that_was_stopped_for_a_while_does_not_lead_when_it_runs_on() -> None:
    """Its threads may send what they were about to send before the one that watches the deadline has run."""
    server, clock = LeaseServer(), Clock(0.0)
    mine = LeaderElector(api_of(server), "me", replace(SETTINGS, retry_period_s=60.0), clock)
    assert mine.acquire(threading.Event())
    clock.now_s = SETTINGS.renew_deadline_s
    leading = mine.leading
    clock.now_s += 0.001
    assert (leading, mine.leading, mine.lost.is_set()) == (True, False, False)
    assert server.lease is not None
    server.put(server.lease | {"spec": held_by("other")})
    assert not mine._try_acquire_or_renew()
    assert mine.lost.is_set()
    assert server.holder == "other"
