"""Our client against a server that misbehaves: each fault alone, and all of them at once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from herodotus_kube import watch
from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiServer
from herodotus_kube.watch import ListResult, ListWatch, Reflector, WatchEvent
from herodotus_sim import SimulatedCluster
from herodotus_sim.fault_plan import FaultPlan, FaultRule
from scheduler.engine.objects.types import Pod
from scheduler.live.api_writes import ApiWrites
from scheduler.live.events import EventSender, build_failed_event
from scheduler.live.in_flight import BindRequests
from scheduler.live.scheduler import BackgroundThreads, WriteFence
from scheduler.live.unknown_bindings import DECISION_ANNOTATION
from tests.processes import eventually
from tests.scheduler.builders import make_pod
from tests.sim.client import a_pod

PODS = "/api/v1/pods"
WATCH = ("WATCH",)


class Model:
    """What a sink makes of the messages. `backwards`: an object that was shown older than before."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.lists = 0
        self.backwards: list[str] = []

    def apply(self, message: ListResult[Any] | WatchEvent[Any]) -> None:
        if isinstance(message, ListResult):
            self.lists += 1
            self.versions = {o.metadata.name: o.metadata.resource_version for o in message.objects}
            return
        name, version = message.object.metadata.name, message.object.metadata.resource_version
        if int(version) < int(self.versions.get(name, "0")):
            self.backwards.append(name)
        if message.type == "DELETED":
            self.versions.pop(name, None)
        else:
            self.versions[name] = version


@pytest.fixture
def sim() -> Iterator[SimulatedCluster]:
    with SimulatedCluster() as cluster:
        yield cluster


@pytest.fixture
def api(sim: SimulatedCluster) -> Iterator[ApiServer]:
    client = ApiServer(Credentials(sim.url, None, dict))
    yield client
    client.close()


def truth(sim: SimulatedCluster) -> dict[str, str]:
    return {p["metadata"]["name"]: p["metadata"]["resourceVersion"] for p in sim.list("Pod")}


def change_pods(sim: SimulatedCluster, changes: int = 60, prefix: str = "p") -> None:
    """Pods come, change and go, a little slower than they can be told of."""
    draw = random.Random(5)
    for number in range(changes):
        names = [p["metadata"]["name"] for p in sim.list("Pod")]
        if not names or draw.random() < 0.5:
            sim.create(a_pod(f"{prefix}{number}"))
        elif draw.random() < 0.5:
            sim.patch("Pod", "default", draw.choice(names), {"metadata": {"labels": {"n": str(number)}}})
        else:
            sim.delete("Pod", "default", draw.choice(names))
        time.sleep(0.005)


EACH = (
    FaultRule("cut", WATCH, events=(0, 5)),
    FaultRule("end", WATCH, events=(0, 5)),
    FaultRule("gone", WATCH, share=0.5),
    FaultRule("gone", WATCH, share=0.5, as_event=True),
    FaultRule("late", WATCH, seconds=(0.0, 0.1)),
    FaultRule("repeat", WATCH),
    FaultRule("bookmark", WATCH),
    FaultRule("compact", WATCH, share=0.5),
    FaultRule("hang up", share=0.5),
    FaultRule("slow", seconds=(0.0, 0.1)),
    FaultRule("refuse", share=0.5, code=500),
    FaultRule("refuse", share=0.5, code=503),
    FaultRule("refuse", share=0.5, code=429),
    FaultRule("lose answer", ("GET",), share=0.5),
)


@pytest.mark.parametrize(
    "faults", [*((fault,) for fault in EACH), EACH[:8], ()], ids=[*(f.fault for f in EACH), "all of a watch", "none"]
)
def test_a_reflector_ends_with_the_truth(
    sim: SimulatedCluster, api: ApiServer, faults: tuple[FaultRule, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens to its watches, and no object ever goes back in time."""
    monkeypatch.setattr(watch, "BACKOFF_S", (0.01, 0.05))
    sim.faults.set(FaultPlan(3, faults))
    model = Model()
    reflector = Reflector(api, ListWatch(PODS, "pods", Pod), model.apply)
    reflector.start()
    change_pods(sim)
    eventually(lambda: model.lists > 0 and model.versions == truth(sim), "the truth")
    reflector.stop()
    assert model.backwards == []


def test_a_reflector_survives_a_restart_of_the_server(
    sim: SimulatedCluster, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happened meanwhile is forgotten, so it lists again; what was deleted is gone."""
    monkeypatch.setattr(watch, "BACKOFF_S", (0.01, 0.05))
    model = Model()
    reflector = Reflector(api, ListWatch(PODS, "pods", Pod), model.apply)
    reflector.start()
    change_pods(sim, 20)
    eventually(lambda: model.versions == truth(sim), "the truth")
    sim.faults.restart(1.0)
    change_pods(sim, 20, "q")
    sim.compact()
    eventually(lambda: model.lists == 2 and model.versions == truth(sim), "the truth after the restart")
    reflector.stop()


def test_a_server_that_ends_each_watch_at_once_is_not_hurried(sim: SimulatedCluster, api: ApiServer) -> None:
    sim.faults.set(FaultPlan(0, (FaultRule("end", WATCH),)))
    reflector = Reflector(api, ListWatch(PODS, "pods", Pod), lambda message: None)
    began = time.monotonic()
    reflector.start()
    eventually(lambda: sim.faults.injected_counts()[0] >= 3, "the third watch")
    assert time.monotonic() - began >= 0.2 + 0.4  # each pause up to twice as long
    reflector.stop()


class RequestsOfTest(BindRequests):
    """Every pod is bound by the same decision."""

    def __init__(self) -> None:
        pass

    def decision_id(self, uid: str) -> str:
        return "decision"

    def mark_unknown(self, uid: str, why: str) -> None:
        pass


def result(sim: SimulatedCluster, api: ApiServer, *faults: FaultRule) -> str | None:
    """Return the reported result of a binding to n1."""
    uid = sim.create(a_pod("web"))["metadata"]["uid"]
    sim.faults.set(FaultPlan(0, faults))
    reported: list[str | None] = []
    writes = ApiWrites(api, None, RequestsOfTest(), BackgroundThreads(1), WriteFence(bind_timeout_s=2.0))
    writes.bind(make_pod("web").uid(uid).info(), "n1", reported.append)
    eventually(lambda: bool(reported), "the result of the binding")
    return reported[0]


BINDING: dict[str, Any] = {"methods": ("POST",), "path": "/binding$"}


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((FaultRule("lose answer", **BINDING),), id="the answer is lost"),
        pytest.param(
            (FaultRule("lose answer", **BINDING), FaultRule("hang up", ("GET",), times=3)), id="and so is the question"
        ),
        pytest.param((FaultRule("refuse", **BINDING, code=429, retry_after_s=1, times=1),), id="throttled once"),
        pytest.param((FaultRule("refuse", **BINDING, code=503, retry_after_s=1, times=1),), id="not ready once"),
        pytest.param((FaultRule("slow", seconds=(0.2, 0.2)),), id="slow"),
    ],
)
def test_a_binding_is_known_to_have_happened(
    sim: SimulatedCluster, api: ApiServer, faults: tuple[FaultRule, ...]
) -> None:
    assert result(sim, api, *faults) is None
    pod = sim.get("Pod", "default", "web")
    assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"]) == ("n1", {DECISION_ANNOTATION: "decision"})


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(FaultRule("hang up", **BINDING), id="never begun"),
        pytest.param(FaultRule("slow", **BINDING, seconds=(3.0, 3.0)), id="given up by both sides"),
        pytest.param(FaultRule("refuse", **BINDING, code=409), id="a conflict"),
        pytest.param(FaultRule("refuse", **BINDING, code=500), id="an error"),
    ],
)
@pytest.mark.slow
def test_a_binding_is_known_not_to_have_happened(sim: SimulatedCluster, api: ApiServer, fault: FaultRule) -> None:
    assert result(sim, api, fault) is not None
    assert "nodeName" not in sim.get("Pod", "default", "web")["spec"]


def test_events_wait_for_the_server_to_come_back(
    sim: SimulatedCluster, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.live.events.PAUSE_S", (0.05, 0.2))
    sim.faults.restart(0.5)
    sender = EventSender(api, "me")
    sender.send(make_pod("web").info(), "s", build_failed_event("no room"))
    eventually(lambda: len(sim.list("Event")) == 1, "the event")
    sender.close()
