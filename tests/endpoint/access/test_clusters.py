"""Records of several clusters in one service: an answer is of one, and rights are of the API server's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from werkzeug.routing import Rule

from herodotus_endpoint.access.authentication import SenderAuthenticator
from herodotus_endpoint.store.query_results import PodIdentity
from herodotus_record.model import Decision, Gap, HighWater, NodeTable, Outcome, Retry
from tests.builders import CLUSTER, CORDONED, INCARNATION, a_decision, a_table, bound
from tests.endpoint.reviewer import Reviewer, bearer
from tests.endpoint.service import API, Service, a_service, envelope, rows
from tests.support.answering_scheduler import OURS, answering, ask, placed, review
from tests.support.two_clusters import ALL_OF_SHOP, ELSEWHERE, HERE, IN_SHOP, OF_NODES, OTHER, POD, THERE, here, there

SHOP = f"{API}/namespaces/shop"
YEAR_9999_US = 253_402_214_400_000_000
EVERYTHING = {("ada", verb, resource, "*") for verb, resource in IN_SHOP}


@pytest.fixture
def api() -> Reviewer:
    return Reviewer(tokens={"ada's": ("ada", "")})


@pytest.fixture
def service(tmp_path: Path, api: Reviewer) -> Iterator[Service]:
    opened = a_service(tmp_path, access=api.access())
    opened.stored(*here())
    opened.stored(*there())
    yield opened
    opened.store.close()


def code(service: Service, path: str, **query: Any) -> int:
    return service.client.get(path, query_string=query, headers=bearer("ada's")).status_code


def test_default_cluster_is_that_of_the_api_server(service: Service, api: Reviewer) -> None:
    api.allowed = ALL_OF_SHOP | OF_NODES | EVERYTHING
    for rule in service.client.application.url_map.iter_rules():
        if rule.rule.startswith("/ingest/") or "GET" not in (rule.methods or ()):
            continue
        for path in _paths(rule):
            for query in ({}, {"watch": "true", "timeoutSeconds": "0", "resourceVersion": "0"}, {"all": "true"}):
                if "watch" in query and "decisions" not in path:
                    continue
                query = query | ({"timeoutSeconds": "1"} if "watch" in query else {})
                text = service.client.get(path, query_string=query, headers=bearer("ada's")).text
                assert not {word for word in (OTHER, ELSEWHERE, *THERE) if word in text}, f"{path} {query}"


def _paths(rule: Rule) -> list[str]:
    (_, theirs) = there()
    assert isinstance(theirs, Decision)
    pods = (POD, theirs.id, "checkout")
    values = {
        "namespace": ("shop",),
        "pod": pods,
        "name": (*pods, "main.js"),
        "node": ("worker-1", "worker-3"),
        "workload": ("replicaset.checkout-7d9f", "deployment.checkout"),
        "podgroup": ("train",),
    }
    paths = [rule.rule]
    for name in sorted(rule.arguments):
        paths = [path.replace(f"<{name}>", value) for path in paths for value in values[name]]
    return paths


@pytest.mark.parametrize(
    ("rights", "answer"),
    [
        pytest.param(ALL_OF_SHOP, 403, id="a namespace of the same name in our cluster"),
        pytest.param(ALL_OF_SHOP | EVERYTHING, 403, id="every namespace of our cluster"),
        pytest.param({("ada", "get", "clusters", "")}, 200, id="the cluster"),
    ],
)
def test_other_clusters_require_a_right(
    service: Service, api: Reviewer, rights: set[tuple[str, str, str, str]], answer: int
) -> None:
    api.allowed = rights
    for path in (f"{SHOP}/podexplanations/{POD}", f"{SHOP}/decisions", f"{SHOP}/pendingpods", f"{API}/decisions"):
        assert code(service, path, cluster=OTHER) == answer, path
    review = api.asked[-1]["spec"]["resourceAttributes"]
    if answer == 200:
        assert (review["resource"], review["verb"], review["name"]) == ("clusters", "get", OTHER)
    assert code(service, "/metrics", cluster=OTHER) == 403


def test_right_to_a_cluster_shows_all_its_namespaces(service: Service, api: Reviewer) -> None:
    api.allowed = {("ada", "get", "clusters", "")}
    query = {"cluster": OTHER}
    found = service.client.get(f"{SHOP}/podexplanations/{POD}", query_string=query, headers=bearer("ada's"))
    assert found.get_json()["message"] == "0/2 nodes are available: 2 node(s) were unschedulable."
    assert code(service, f"{SHOP}/podexplanations/{POD}") == 403


def test_pods_of_equal_name_in_two_clusters_stay_separate(tmp_path: Path) -> None:
    """Of the same namespace, name and UID, and of the latest time there is."""
    for order in ((here(), there(started_us=YEAR_9999_US)), (there(started_us=YEAR_9999_US), here())):
        service = a_service(tmp_path / str(order[0] == here()), cluster=CLUSTER)
        for frames in order:
            service.stored(*frames)
        explained = service.explain(POD)
        assert (explained["outcome"]["node"], explained["attempt"]["attempts"]) == ("worker-1", 1)
        (_, theirs) = there()
        assert isinstance(theirs, Decision)
        path = f"{SHOP}/decisions/{theirs.id}"
        assert service.error(path)["code"] == 404
        assert service.get(path, cluster=OTHER)["spec"]["key"]["cluster"] == OTHER
        assert service.get(f"{SHOP}/pendingpods")["count"] == 0
        assert service.get(f"{SHOP}/pendingpods", cluster=OTHER)["count"] == 1
        service.store.close()


def test_without_an_api_server_several_clusters_require_a_name(tmp_path: Path) -> None:
    service = a_service(tmp_path)
    assert service.error(f"{SHOP}/podexplanations/{POD}")["details"]["noRecords"]
    service.stored(*here())
    assert service.explain(POD)["outcome"]["node"] == "worker-1"
    service.stored(*there())
    paths = (
        f"{SHOP}/podexplanations/{POD}",
        f"{SHOP}/decisions",
        "/pod",
        f"{API}/incarnations",
        f"{API}/nodehistories",
    )
    for path in paths:
        refused = service.error(path, **({"name": POD, "namespace": "shop"} if path == "/pod" else {}))
        assert (refused["code"], CLUSTER in refused["message"], OTHER in refused["message"]) == (400, True, True)
    assert service.explain(POD, cluster=CLUSTER)["outcome"]["node"] == "worker-1"
    assert service.explain(POD, cluster=OTHER)["outcome"]["node"] is None
    names = [node["metadata"]["name"] for node in service.get(f"{API}/nodehistories", cluster=OTHER)["items"]]
    assert names == list(THERE)
    service.store.close()


def test_access_control_requires_a_cluster(tmp_path: Path, api: Reviewer) -> None:
    with pytest.raises(ValueError, match="needs the cluster of the API server"):
        a_service(tmp_path, access=api.access(), cluster="")


def test_review_in_another_cluster_requires_a_right(tmp_path: Path, api: Reviewer) -> None:
    api.allowed = {("ada", "create", "placementreviews", "shop")}
    service = a_service(tmp_path, access=api.access())
    scheduler = answering(service, *placed())
    scheduler.poll(cluster=OTHER, scheduler=[OURS])
    refused = envelope(ask(service, review(cluster=OTHER), headers=bearer("ada's")))
    assert (refused["code"], "clusters.herodotus.dev" in refused["message"]) == (403, True)
    nobody = envelope(ask(service, review(), headers=bearer("ada's")))
    assert (nobody["code"], nobody["details"]["known"]) == (404, [])
    service.store.close()


class TestTimes:
    """What a sender says of the time is bounded by the service's clock."""

    @pytest.fixture
    def service(self, tmp_path: Path) -> Iterator[Service]:
        opened = a_service(tmp_path)
        yield opened
        opened.store.close()

    def test_a_decision_of_the_future_is_stored_as_of_now_and_counted(self, service: Service) -> None:
        now_us = int(service.clock() * 1e6)
        decision = a_decision(started_us=YEAR_9999_US, rejected={n: {"NodeName": CORDONED} for n in HERE})
        decision = replace(decision, retry=Retry("backoff", YEAR_9999_US + 1_000_000, None))
        service.stored(rows(a_table(HERE)), decision)
        attempt = service.explain(POD)["attempt"]
        assert attempt["startedAt"] == service.get(f"{SHOP}/decisions")["items"][0]["spec"]["times"]["startedAt"]
        (stored,) = service.store.reader.decisions_of_pod(PodIdentity("shop", POD))
        times = stored.decision.times
        assert (times.started_us, times.created_us) == (now_us, now_us - 2_000_000)
        assert stored.decision.retry == Retry("backoff", now_us + 1_000_000, None)
        assert service.metric("herodotus_ingest_future_times_total") == 1
        later = a_decision(sequence=2, attempt=2, started_us=now_us + 1)
        service.stored(later)
        assert service.explain(POD)["attempt"]["number"] == 2
        assert service.stored(decision)["duplicates"] == 1

    def test_a_clock_slightly_ahead_is_accepted(self, service: Service) -> None:
        started_us = int(service.clock() * 1e6) + 59_000_000
        service.stored(rows(a_table(HERE)), a_decision(started_us=started_us))
        (stored,) = service.store.reader.decisions_of_pod(PodIdentity("shop", POD))
        assert stored.decision.times.started_us == started_us
        assert service.metric("herodotus_ingest_future_times_total") == 0

    def test_other_frames_of_the_future_are_of_now_too(self, service: Service) -> None:
        table: NodeTable = a_table(HERE)
        decision = a_decision()
        outcome: Outcome = replace(bound(decision, table), at_us=YEAR_9999_US)
        others = (Gap(INCARNATION, 5, 3, 4, "full", YEAR_9999_US), HighWater(INCARNATION, 6, "before", 1, YEAR_9999_US))
        service.stored(rows(table), decision, outcome, *others)
        (stored,) = service.store.reader.decisions_of_pod(PodIdentity("shop", POD))
        assert stored.outcomes[0].at_us == int(service.clock() * 1e6)
        assert service.metric("herodotus_ingest_future_times_total") == 3


def test_bound_sender_cannot_send_records_of_another_cluster(tmp_path: Path, api: Reviewer) -> None:
    senders: SenderAuthenticator = api.senders({"them": OTHER})
    api.tokens["their's"] = ("them", "herodotus-endpoint")
    service = a_service(tmp_path, senders=senders, cluster=CLUSTER)
    assert service.send(*here(), headers=bearer("their's")).status_code == 403
    assert service.send(*there(), headers=bearer("their's")).status_code == 200
    assert service.error(f"{SHOP}/podexplanations/{POD}")["code"] == 404
    service.store.close()
