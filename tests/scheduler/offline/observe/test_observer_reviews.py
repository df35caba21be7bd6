"""An observer answers reviews with the observed scheduler's configuration, on a copy of its own state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from herodotus_kube.credentials import Credentials
from herodotus_kube.http import ApiServer
from scheduler.config import Configuration
from scheduler.config.load import parse_config
from scheduler.engine.records.build import Origin
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.reviews.review_client import ReviewClient
from scheduler.reviews.reviewed_state import ReviewedState
from scheduler.reviews.reviewer import ReviewWorker
from tests.endpoint.service import API, Service, a_service
from tests.scheduler.builders import PROFILE
from tests.support.observer_world import DEFAULT, LARGE, SMALL, ObserverWorld, waiting

REVIEWS = f"{API}/namespaces/default/placementreviews"
PACKED = parse_config(
    f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {PROFILE}
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: 1}}]}}}}
  plugins:
    score: {{disabled: [{{name: NodeResourcesBalancedAllocation}}]}}
"""
)
FOREIGN = parse_config(
    f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {PROFILE}
  plugins: {{filter: {{enabled: [{{name: TheirOwn}}]}}}}
extenders:
- urlPrefix: http://theirs.example
  filterVerb: filter
"""
)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr("scheduler.reviews.review_client.WAIT_S", 0)
    return a_service(tmp_path)


def ask(world: ObserverWorld, service: Service, **spec: Any) -> Any:
    """Return the answer to a review of one pod while the observer and its reviewer run."""
    transport = httpx.WSGITransport(service.client.application)
    client = ReviewClient(ServiceEndpoint("http://service"), "c1", [PROFILE], transport)
    classes = httpx.MockTransport(lambda _: httpx.Response(200, json={"items": []}))
    state = ReviewedState(
        world.observer,
        world.shared,
        world.observer.frameworks,
        world.observer.list_waiting_pods,
        notes=world.observer.build_review_notes,
    )
    worker = ReviewWorker(
        state, client, ApiServer(Credentials("http://api", None, dict), transport=classes), Origin("c1", "observer-0")
    )
    service.store.reviews.register("c1", [PROFILE])
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": waiting("web").spec}
    body = {"kind": "PlacementReview", "spec": {"object": pod, **spec}}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(service.client.application.test_client().post, REVIEWS, json=body)
        worker.start()
        while not answer.done():
            world.observer.step(0.005)
    worker.close()
    assert answer.result().status_code == 201, answer.result().text
    return answer.result().get_json()["status"]


@pytest.mark.parametrize(("config", "node"), [(DEFAULT, "large"), (PACKED, "small")])
def test_the_observed_configuration_decides(tmp_path: Path, service: Service, config: Configuration, node: str) -> None:
    world = ObserverWorld(tmp_path / "spool", config)
    world.start(SMALL, LARGE)
    answer = ask(world, service)
    assert [pod["node"] for pod in answer["pods"]] == [node]
    assert answer["first"]["attempt"]["scheduler"] == "observer-0"
    assert answer["first"]["notes"] == [
        f"decided by an observer of {PROFILE}, with the configuration that the observer has"
    ]


def test_the_state_is_copied(tmp_path: Path, service: Service) -> None:
    world = ObserverWorld(tmp_path / "spool")
    world.start(SMALL, LARGE)
    answer = ask(world, service, replicas=12)
    assert (answer["fits"], answer["stopped"]["metadata"]["name"]) == (10, "web-10")
    assert world.shared.cache.columns.requested("cpu").tolist()[:2] == [0, 0]
    assert world.found == [], "nothing is recorded"


def test_what_the_observer_lacks_of_the_scheduler_is_named(tmp_path: Path, service: Service) -> None:
    world = ObserverWorld(tmp_path / "spool", FOREIGN)
    world.start(SMALL, LARGE)
    assert ask(world, service)["first"]["notes"][1:] == [
        "plugins unknown to this version are left out: TheirOwn",
        "extender http://theirs.example was not called",
    ]
