"""Decisions that an earlier scheduler left open: what their pods prove, and when a result is certain."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from herodotus_record.model import FOUND_LATER, Code, Outcome
from scheduler.engine.records.build import Origin
from scheduler.live import unknown_bindings
from scheduler.live.unknown_bindings import ABANDONED_S, EarlierBindings
from scheduler.recorder.endpoint import ServiceConnection, ServiceEndpoint
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from tests.kube.servers import Script, api_of, status
from tests.scheduler import spools
from tests.scheduler.builders import make_pod

Json = dict[str, Any]

EARLIER = "0f9b2a34-5c1d-4e8f-9a70-1b2c3d4e5f60"


def shown(uid: str = "uid-p", node: str = "", decision: str = "", **metadata: Any) -> httpx.Response:
    pod = make_pod("p", "shop").uid(uid).with_spec(nodeName=node).json
    if decision:
        metadata["annotations"] = {"herodotus.dev/decision": decision}
    return httpx.Response(200, json=pod | {"metadata": pod["metadata"] | metadata})


def left_open(age_s: float = 5.0) -> Json:
    return {
        "incarnation": EARLIER,
        "sequence": 7,
        "id": "d1",
        "namespace": "shop",
        "pod": "p",
        "podUID": "uid-p",
        "node": "n",
        "startedUs": int((time.time() - age_s) * 1e6),
    }


class World:
    """One decision that is open at the service, a pod, and what is recorded."""

    def __init__(self, spool: Path, monkeypatch: pytest.MonkeyPatch, *, elected: bool = True) -> None:
        self.spool = spool
        self.open: list[Json] = [left_open()]
        self.pod = Script(shown())
        self.leading = True
        self.asked: list[httpx.URL] = []

        def service(request: httpx.Request) -> httpx.Response:
            self.asked.append(request.url)
            return httpx.Response(200, json={"items": self.open})

        def connection(endpoint: ServiceEndpoint, timeout_s: float) -> ServiceConnection:
            return ServiceConnection(endpoint, timeout_s, httpx.MockTransport(service))

        monkeypatch.setattr(unknown_bindings, "ServiceConnection", connection)
        self.recorder = Recorder(lambda incarnation: Spool(spool, incarnation), Origin("c1", "me"), "0")
        self.earlier = EarlierBindings(
            ServiceEndpoint("http://service"),
            api_of(lambda request: self.pod(request)),
            self.recorder,
            lambda: self.leading,
            "c1",
            ["ours", "other"],
            elected=elected,
        )

    def settle(self, pod: httpx.Response | Exception) -> list[tuple[Code, str]]:
        """Ask once; all that was recorded until now."""
        self.pod = Script(pod)
        self.earlier.settle()
        return self.recorded

    @property
    def recorded(self) -> list[tuple[Code, str]]:
        outcomes = spools.of(Outcome, self.spool)
        for o in outcomes:
            assert (o.incarnation, o.sequence, o.decision_id, o.decision_sequence, o.phase, o.node, o.final) == (
                EARLIER,
                FOUND_LATER,
                "d1",
                7,
                "Bind",
                "n",
                True,
            )
        return [(o.status, o.message) for o in outcomes]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    yield made
    made.recorder.close()


def test_the_pod_proves_that_the_decision_bound_it(world: World) -> None:
    ((code, message),) = world.settle(shown(node="n", decision="d1"))
    assert code is Code.SUCCESS
    assert "found by a later scheduler" in message
    asked = world.asked[0]
    assert (asked.path, asked.params.get_list("scheduler")) == ("/ingest/v1/open-decisions", ["ours", "other"])
    assert (asked.params["cluster"], asked.params["exceptIncarnation"]) == ("c1", world.recorder.incarnation)


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        pytest.param(shown(node="m", decision="d2"), 'bound to node "m" by decision d2', id="by ours, meanwhile"),
        pytest.param(shown(node="n"), "by whom is unknown", id="without a decision's id"),
        pytest.param(shown(uid="again"), "whether it was bound before is unknown", id="another pod"),
        pytest.param(status(404, message="not found"), "whether it was bound before is unknown", id="gone"),
    ],
)
def test_the_pod_proves_that_it_did_not(world: World, pod: httpx.Response, message: str) -> None:
    ((code, said),) = world.settle(pod)
    assert code is Code.ERROR
    assert message in said


def test_an_unbound_pod_is_read_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_bindings, "CONFIRM_S", 0.2)
    assert world.settle(shown()) == []
    time.sleep(0.2)
    ((code, message),) = world.settle(shown())
    assert (code, message.partition(";")[0]) == (Code.ERROR, "the pod is not bound")


def test_without_leader_election_the_other_scheduler_may_be_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_bindings, "CONFIRM_S", 0.0)
    world = World(tmp_path, monkeypatch, elected=False)
    assert world.settle(shown()) == []
    world.open = [left_open(ABANDONED_S + 1)]
    assert [code for code, _ in world.settle(shown())] == [Code.ERROR]
    world.recorder.close()


def test_a_result_is_recorded_once(world: World) -> None:
    """It is listed until the shipper has delivered it."""
    for _ in range(3):
        world.settle(shown(node="n", decision="d1"))
    assert len(world.recorded) == 1


def test_unreadable_pod_keeps_its_decision_open(world: World) -> None:
    assert world.settle(status(503)) == []
    assert world.settle(httpx.ConnectError("refused")) == []
    assert len(world.settle(shown(node="n", decision="d1"))) == 1


def test_one_that_does_not_lead_records_nothing(world: World) -> None:
    world.leading = False
    assert world.settle(shown(node="n", decision="d1")) == []
