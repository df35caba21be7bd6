"""Decisions as kubectl takes them: tables, selectors, pages, watches, discovery."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from herodotus_endpoint.api.selectors import parse_field_selector
from herodotus_endpoint.kubeapi import watches
from herodotus_endpoint.kubeapi.representations import format_age
from herodotus_endpoint.kubeapi.watches import POLL_S, RESEND_WITHIN_S, Watch, iterate_polls
from tests.builders import INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.endpoint.reviewer import Reviewer, bearer
from tests.endpoint.service import API, Service, a_service, envelope, rows

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in TABLE.names}
AS_TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
FIRST = a_decision(pod="web-1", sequence=1)
SECOND = a_decision(pod="web-2", sequence=3, rejected=FULL)
THIRD = a_decision(pod="job-1", namespace="ci", sequence=4)


@pytest.fixture
def stored(service: Service) -> Service:
    service.stored(rows(TABLE), FIRST, bound(FIRST, TABLE, sequence=2), SECOND, THIRD)
    service.clock.now_s += 2 * RESEND_WITHIN_S
    return service


def pods(document: Any) -> list[str]:
    return [item["spec"]["pod"]["name"] for item in document["items"]]


def test_list_as_a_table(stored: Service) -> None:
    table = stored.client.get(f"{API}/decisions", headers=AS_TABLE).get_json()
    assert (table["kind"], table["apiVersion"], table["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": "3"},
    )
    shown = [c["name"] for c in table["columnDefinitions"] if not c["priority"]]
    wide = [c["name"] for c in table["columnDefinitions"] if c["priority"]]
    assert (shown, wide) == (
        ["Name", "Pod", "Attempt", "State", "Node", "Feasible", "Age"],
        ["Profile", "Path", "Evaluated", "Message"],
    )
    message = "0/3 nodes are available: 3 Insufficient cpu."
    unplaced = [SECOND.id, "web-2", 1, "Unschedulable", "<none>", "0/3", "60m"]
    assert [row["cells"] for row in table["rows"]] == [
        [THIRD.id, "job-1", 1, "Binding", "worker-1", "3/3", "60m", "herodotus-scheduler", "scored", 3, ""],
        [*unplaced, "herodotus-scheduler", "no-feasible-node", 3, message],
        [FIRST.id, "web-1", 1, "Bound", "worker-1", "3/3", "60m", "herodotus-scheduler", "scored", 3, ""],
    ]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Decision")]
)
def test_table_rows_include_the_requested_object(stored: Service, include: str, kind: str | None) -> None:
    path = f"{API}/namespaces/shop/decisions/web-1?includeObject={include}"
    (row,) = stored.client.get(path, headers=AS_TABLE).get_json()["rows"]
    assert (row["object"] or {}).get("kind") == kind


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "DecisionList"),
        ("*/*", "DecisionList"),
        ("application/vnd.kubernetes.protobuf,application/json", "DecisionList"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "DecisionList"),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "PartialObjectMetadataList"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io", "Table"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Table"),
        ("application/json,application/json;as=Table;v=v1;g=meta.k8s.io", "DecisionList"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io;q=0.5,application/json;q=0.9", "DecisionList"),
        ("application/json;q=0.1, application/json; as=Table; v=v1; g=meta.k8s.io; q=0.2", "Table"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io;q=0,application/json", "DecisionList"),
        ("*/*,application/json;as=Table;v=v1;g=meta.k8s.io", "Table"),
        ("text/html,*/*;q=0.1", "DecisionList"),
    ],
)
def test_negotiates_the_preferred_representation(stored: Service, accept: str, kind: str) -> None:
    headers = {"Accept": accept} if accept else {}
    assert stored.client.get(f"{API}/decisions", headers=headers).get_json()["kind"] == kind


@pytest.mark.parametrize("accept", ["application/vnd.kubernetes.protobuf", "text/html", "application/json;q=0"])
def test_client_without_json_is_406(stored: Service, accept: str) -> None:
    answer = stored.client.get(f"{API}/decisions", headers={"Accept": accept})
    assert envelope(answer)["reason"] == "NotAcceptable"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["job-1", "web-2", "web-1"]),
        ({"fieldSelector": "metadata.namespace=ci"}, ["job-1"]),
        ({"fieldSelector": "spec.pod=web-1"}, ["web-1"]),
        ({"fieldSelector": "spec.pod==web-1,status.state=Bound"}, ["web-1"]),
        ({"fieldSelector": "status.node!=worker-1"}, ["web-2"]),
        ({"fieldSelector": "status.node="}, ["web-2"]),
        ({"labelSelector": "herodotus.dev/state=Unschedulable"}, ["web-2"]),
        ({"labelSelector": "herodotus.dev/state in (Bound,Binding)"}, ["job-1", "web-1"]),
        ({"labelSelector": "herodotus.dev/state notin (Bound, Binding)"}, ["web-2"]),
        ({"labelSelector": "herodotus.dev/node"}, ["job-1", "web-1"]),
        ({"labelSelector": "!herodotus.dev/node"}, ["web-2"]),
        ({"labelSelector": "herodotus.dev/node!=worker-1"}, ["web-2"]),
        ({"labelSelector": "tier"}, []),
        ({"labelSelector": "tier!=web,app=checkout"}, ["job-1", "web-2", "web-1"]),
        ({"labelSelector": "!app"}, []),
        ({"labelSelector": "herodotus.dev/pod=web-1", "fieldSelector": "status.state=Error"}, []),
        ({"limit": 5000}, ["job-1", "web-2", "web-1"]),
        ({"limit": 0, "resourceVersion": "0", "pretty": "true"}, ["job-1", "web-2", "web-1"]),
    ],
    ids=str,
)
def test_selectors_select_decisions(stored: Service, query: dict[str, Any], found: list[str]) -> None:
    assert pods(stored.get(f"{API}/decisions", **query)) == found


def test_labels_of_an_object_select_it(stored: Service) -> None:
    for item in stored.get(f"{API}/decisions")["items"]:
        selector = ",".join(f"{k}={v}" for k, v in item["metadata"]["labels"].items())
        assert pods(stored.get(f"{API}/decisions", labelSelector=selector)) == [item["spec"]["pod"]["name"]]


def test_lists_nodes_by_name_with_counts(stored: Service) -> None:
    first = stored.get(f"{API}/nodehistories", limit=2)
    second = stored.get(f"{API}/nodehistories", limit=2, **{"continue": first["metadata"]["continue"]})
    items = first["items"] + second["items"]
    assert [item["metadata"]["name"] for item in items] == ["worker-1", "worker-2", "worker-3"]
    for item in items:
        whole = stored.history(item["metadata"]["name"])
        assert item == {key: whole[key] for key in item}


def test_discovery_lists_every_resource_in_both_forms(service: Service) -> None:
    resources = service.get(API)["resources"]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    whole = service.client.get("/apis", headers={"Accept": accept}).get_json()
    (version,) = whole["items"][0]["versions"]
    assert [r["name"] for r in resources] == [r["resource"] for r in version["resources"]]
    writable = {r["name"] for r in resources if not {"get", "list", "watch"} >= set(r["verbs"])}
    assert writable == {"placementreviews", "clusterreviews"}
    assert service.get("/apis")["groups"][0]["preferredVersion"]["groupVersion"] == "herodotus.dev/v1alpha1"
    assert service.get("/apis/herodotus.dev")["kind"] == "APIGroup"


# --- watches


def lines(answer: TestResponse, count: int) -> list[dict[str, Any]]:
    """Return the next `count` events of a watch, and end it."""
    with closing(answer):
        return list(islice(iterate_lines(answer), count))


def iterate_lines(answer: TestResponse) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for part in answer.iter_encoded() for line in part.splitlines())


def watch(service: Service, **query: Any) -> TestResponse:
    answer = service.client.get(f"{API}/decisions", query_string={"watch": "true", "timeoutSeconds": 1} | query)
    assert answer.status_code == 200, answer.text
    return answer


def seen(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(e["type"], e["object"]["spec"]["pod"]["name"], e["object"]["status"]["state"]) for e in found]


def test_watch_sends_decisions_and_their_results(stored: Service) -> None:
    followed = Watch(stored.listing, [], 3)
    assert list_changes(followed.begin()) == []
    stored.stored(a_decision(pod="late", sequence=5))
    assert list_changes(followed.poll()) == [("ADDED", "late")]
    stored.stored(bound(THIRD, TABLE, sequence=6))
    assert list_changes(followed.poll()) == [("MODIFIED", "job-1")]
    assert (list_changes(followed.poll()), followed.version) == ([], 4)


def list_changes(found: Iterable[Sequence[Any]]) -> list[tuple[str, str]]:
    return [(kind, row.pod) for kind, row, *_version in found]


def test_watch_continues_from_a_list(stored: Service) -> None:
    version = stored.get(f"{API}/decisions")["metadata"]["resourceVersion"]
    stored.stored(a_decision(pod="late", sequence=5))
    assert seen(lines(watch(stored, resourceVersion=version), 1)) == [("ADDED", "late", "Binding")]


def test_watch_without_a_version_sends_existing_decisions(stored: Service) -> None:
    assert seen(lines(watch(stored), 3)) == [
        ("ADDED", "web-1", "Bound"),
        ("ADDED", "web-2", "Unschedulable"),
        ("ADDED", "job-1", "Binding"),
    ]


def test_each_event_has_the_version_to_continue_from(stored: Service) -> None:
    assert [event["object"]["metadata"]["resourceVersion"] for event in lines(watch(stored), 3)] == ["1", "2", "3"]


def test_watch_ends_at_its_timeout(stored: Service) -> None:
    with closing(watch(stored, resourceVersion="3")) as answer:
        assert list(answer.iter_encoded()) == [b""]


def test_watch_sends_results_between_list_and_watch(stored: Service) -> None:
    stored.stored(bound(THIRD, TABLE, sequence=6))
    assert seen(lines(watch(stored, resourceVersion="3"), 1)) == [("MODIFIED", "job-1", "Bound")]


def test_result_changes_whether_a_selector_matches(stored: Service) -> None:
    followed = [Watch(stored.listing, parse_field_selector(f"status.state={s}"), 3) for s in ("Binding", "Bound")]
    assert [list_changes(w.begin()) for w in followed] == [[], []]
    stored.stored(bound(THIRD, TABLE, sequence=6))
    assert [list_changes(w.poll()) for w in followed] == [[("DELETED", "job-1")], [("ADDED", "job-1")]]


def test_watch_of_tables(stored: Service) -> None:
    answer = stored.client.get(f"{API}/decisions?watch=1&timeoutSeconds=1", headers=AS_TABLE)
    (first,) = lines(answer, 1)
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert first["object"]["rows"][0]["cells"][1] == "web-1"


@pytest.mark.parametrize(
    ("version", "code"), [("0", 200), ("3", 200), ("4", 410), ("99999999", 410), ("abc", 400), ("-1", 400)]
)
def test_rejects_versions_of_another_store(stored: Service, version: str, code: int) -> None:
    answer = stored.client.get(f"{API}/decisions?watch=1&timeoutSeconds=1&resourceVersion={version}")
    assert answer.status_code == code
    answer.close()


def test_version_before_pruned_decisions_is_expired(service: Service) -> None:
    service.stored(rows(TABLE), *(a_decision(pod=f"p-{i}", sequence=i + 1) for i in range(4)))
    with service.store.writer.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM decisions WHERE id <= 2")
    codes = {}
    for version in ("1", "2"):
        answer = service.client.get(f"{API}/decisions?watch=1&timeoutSeconds=1&resourceVersion={version}")
        codes[version] = answer.status_code
        answer.close()
    assert codes == {"1": 410, "2": 200}


def watch_as(service: Service, user: str) -> TestResponse:
    query = {"watch": "true", "timeoutSeconds": 1}
    return service.client.get(f"{API}/decisions", query_string=query, headers=bearer(user) if user else {})


def refusals(service: Service, users: Sequence[str]) -> list[str]:
    """Start a watch for each user, "" without a name, and return the messages of those that were refused."""
    answers = [watch_as(service, user) for user in users]
    refused = [envelope(answer)["message"] for answer in answers if answer.status_code == 429]
    assert service.metric("herodotus_watches") == len(users) - len(refused)
    for answer in answers:
        answer.close()
    assert service.metric("herodotus_watches") == 0
    assert service.metric("herodotus_watches_refused_total") == len(refused)
    return refused


NO_MORE = "and no more are served at the same time"


def test_watches_are_limited_per_user_and_in_total(tmp_path: Path) -> None:
    users = ("ann", "bob", "eve")
    allowed = {(user, verb, "decisions", "*") for user in users for verb in ("list", "watch", "get")}
    api = Reviewer(tokens={user: (user, "") for user in users}, allowed=allowed)
    service = a_service(tmp_path, max_watches=3, max_watches_per_user=2, access=api.access())
    assert refusals(service, ["ann", "ann", "ann", "bob", "eve"]) == [
        f"2 watches of this user run, {NO_MORE}",
        f"3 watches run, {NO_MORE}",
    ]
    service.store.close()


def test_readers_without_a_name_share_half_of_the_watches(tmp_path: Path) -> None:
    """Behind the service proxy all of them have the API server's address, so the limit of one user is too low."""
    service = a_service(tmp_path, max_watches=8, max_watches_per_user=2)
    assert refusals(service, [""] * 5) == [f"4 watches of this address run, {NO_MORE}"]
    service.store.close()


def test_a_watch_that_ended_makes_room_for_another(tmp_path: Path) -> None:
    service = a_service(tmp_path, max_watches=1, max_watches_per_user=1)
    running = watch(service)
    refused = service.client.get(f"{API}/decisions?watch=1")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    running.close()
    watch(service).close()
    service.store.close()


def test_watch_sends_bookmarks(stored: Service) -> None:
    now = [0.0]

    def sleep(seconds: float) -> bool:
        now[0] += seconds
        return False

    followed = Watch(stored.listing, [], 3)
    found = [event for events in iterate_polls(followed, 70.0, True, lambda: now[0], sleep) for event in events]
    assert found == [("BOOKMARK", None, 3), ("BOOKMARK", None, 3)]


class CountingWatch(Watch):
    """A watch that counts its polls."""

    polls = 0

    def poll(self) -> Iterator[Any]:
        self.polls += 1
        return super().poll()


def test_a_watch_waits_between_polls_while_decisions_arrive(stored: Service) -> None:
    """Otherwise 32 watches poll without a pause for as long as schedulers send."""
    now, sequences = [0.0], itertools.count(5)

    def sleep(seconds: float) -> bool:
        now[0] += seconds
        stored.stored(a_decision(pod=f"p-{now[0]}", sequence=next(sequences)))
        return False

    followed, polls = CountingWatch(stored.listing, [], 3), 7
    found = list_changes(chain.from_iterable(iterate_polls(followed, 3.0, False, lambda: now[0], sleep)))
    assert found == [("ADDED", f"p-{POLL_S * n}") for n in range(1, polls)]
    assert (now[0], followed.polls) == (3.0, polls)


def test_a_watch_that_is_behind_polls_again_at_once(stored: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "BATCH", 1)
    stored.stored(*(a_decision(pod=f"p-{n}", sequence=n) for n in range(5, 9)))
    pauses: list[float] = []

    def pause_and_end(seconds: float) -> bool:
        pauses.append(seconds)
        return True

    polls = iterate_polls(Watch(stored.listing, [], 3), 3.0, False, lambda: 0.0, pause_and_end)
    found = list_changes(chain.from_iterable(polls))
    assert found == [("ADDED", f"p-{n}") for n in range(5, 9)]
    assert pauses == [POLL_S]


def test_watches_end_with_the_process(stored: Service) -> None:
    stopping = threading.Event()
    stopping.set()
    assert list(iterate_polls(Watch(stored.listing, [], 3), 3600.0, True, lambda: 0.0, stopping.wait)) == [[]]


def test_watch_adds_each_decision_once_under_load(stored: Service) -> None:
    """While batches come, whoever watches sees each in the order of ingest."""

    def load() -> None:
        for i in range(20):
            stored.stored(*(a_decision(pod=f"l-{i * 10 + j}", sequence=100 + i * 10 + j) for j in range(10)))

    sender = threading.Thread(target=load)
    sender.start()
    answer = watch(stored, resourceVersion="3", timeoutSeconds=30, fieldSelector="metadata.namespace=shop")
    events = iterate_lines(answer)
    added: list[str] = []
    while len(added) < 200:
        event = next(events)
        added += [event["object"]["spec"]["pod"]["name"]] * (event["type"] == "ADDED")
    sender.join()
    answer.close()
    assert added == [f"l-{i}" for i in range(200)]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *[(0, "0s"), (119, "119s"), (120, "2m"), (185, "3m5s"), (3599, "59m"), (10_800, "3h"), (11_100, "3h5m")],
        *[(86_400, "24h"), (172_800, "2d"), (176_400, "2d1h"), (800_000, "9d")],
    ],
)
def test_ages_have_kubectls_format(seconds: int, words: str) -> None:
    assert format_age("2026-03-01T12:00:00Z", 1_772_366_400 + seconds) == words
