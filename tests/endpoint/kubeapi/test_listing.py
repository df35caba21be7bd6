"""Lists and watches on either database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from herodotus_endpoint.kubeapi.watches import Watch
from herodotus_endpoint.store.labels import LabelCondition
from tests.builders import INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.endpoint.service import API, Service, a_service, rows

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
FULL = {node: {"NodeResourcesFit": INSUFFICIENT_CPU} for node in TABLE.names}
FIRST = a_decision(pod="web-1", sequence=1)
THIRD = a_decision(pod="job-1", namespace="ci", sequence=4)


@pytest.fixture(params=["sqlite", "postgresql"])
def service(
    request: pytest.FixtureRequest, tmp_path: Path, postgresql_database: Callable[[], str]
) -> Iterator[Service]:
    url = ""
    if request.param == "postgresql":
        url = postgresql_database()
    opened = a_service(tmp_path, url=url)
    labels = {"app": "web", "ver_sion": "1.0", "empty": ""}
    second = a_decision(pod="web-2", sequence=3, rejected=FULL, labels=labels)
    opened.stored(rows(TABLE), FIRST, bound(FIRST, TABLE, sequence=2), second, THIRD)
    opened.clock.now_s += 60
    yield opened
    opened.store.close()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["job-1", "web-2", "web-1"]),
        ({"fieldSelector": "status.node!=worker-1"}, ["web-2"]),
        ({"fieldSelector": "status.node="}, ["web-2"]),
        ({"labelSelector": "herodotus.dev/state in (Bound,Binding)"}, ["job-1", "web-1"]),
        ({"labelSelector": "!herodotus.dev/node"}, ["web-2"]),
        ({"since": "2026-03-01T00:00:00Z", "until": "2027-03-01T00:00:00Z"}, ["job-1", "web-2", "web-1"]),
        ({"since": "2027-03-01T00:00:00Z"}, []),
        ({"until": "2026-03-01T00:00:00Z"}, []),
        ({"labelSelector": "tier"}, []),
        ({"labelSelector": "app=web"}, ["web-2"]),
        ({"labelSelector": "app=Web"}, []),
        ({"labelSelector": "app=we"}, []),
        ({"labelSelector": "app in (web, checkout),!empty"}, ["job-1", "web-1"]),
        ({"labelSelector": "empty=,ver_sion"}, ["web-2"]),
        ({"labelSelector": "verxsion"}, []),
        ({"labelSelector": "app notin (web),ver_sion!=1.0"}, ["job-1", "web-1"]),
        ({"labelSelector": "app=checkout", "fieldSelector": "status.state=Bound"}, ["web-1"]),
    ],
    ids=str,
)
def test_conditions_select_decisions(service: Service, query: dict[str, Any], found: list[str]) -> None:
    items = service.get(f"{API}/decisions", **query)["items"]
    assert [item["spec"]["pod"]["name"] for item in items] == found


def test_pages_continue_at_the_cursor(service: Service) -> None:
    found, more = [], ""
    while True:
        page = service.get(f"{API}/decisions", limit=1, **({"continue": more} if more else {}))
        found += [item["spec"]["pod"]["name"] for item in page["items"]]
        more = page["metadata"].get("continue", "")
        if not more:
            break
    assert found == ["job-1", "web-2", "web-1"]


def test_invalid_labels_are_left_out(service: Service) -> None:
    labels = {"app": "shop", "note": "a\napp=web", "app=web": "", "tier": "b\n"}
    service.stored(a_decision(pod="odd", sequence=5, labels=labels))
    (item,) = service.get(f"{API}/decisions", pod="odd")["items"]
    assert [label for label in item["metadata"]["labels"].items() if "/" not in label[0]] == [("app", "shop")]
    assert [i["spec"]["pod"]["name"] for i in service.get(f"{API}/decisions", labelSelector="app=web")["items"]] == [
        "web-2"
    ]


def test_decision_has_the_labels_of_its_pod(service: Service) -> None:
    (item,) = service.get(f"{API}/decisions", labelSelector="app=web")["items"]
    ours = {"pod": "web-2", "profile": "herodotus-scheduler", "state": "Unschedulable", "path": "no-feasible-node"}
    expected = {"app": "web", "ver_sion": "1.0", "empty": ""} | {f"herodotus.dev/{k}": v for k, v in ours.items()}
    assert item["metadata"]["labels"] == expected


def test_watch_and_list_select_the_same_labels(service: Service) -> None:
    condition = LabelCondition("app", ("late",))
    followed = Watch(service.listing, [condition], service.listing.id_range()[1])
    service.stored(a_decision(pod="other", sequence=7), a_decision(pod="late", sequence=8, labels={"app": "late"}))
    assert [(kind, row.pod) for kind, row in followed.poll()] == [("ADDED", "late")]


def test_watch_follows_ingest(service: Service) -> None:
    followed = Watch(service.listing, [], service.listing.id_range()[1])
    assert list(followed.begin()) == []
    service.stored(a_decision(pod="late", sequence=5), bound(THIRD, TABLE, sequence=6))
    assert [(kind, row.pod) for kind, row in followed.poll()] == [("MODIFIED", "job-1"), ("ADDED", "late")]
    assert list(followed.poll()) == []


def test_node_counts_equal_those_of_their_histories(service: Service) -> None:
    items = service.get(f"{API}/nodehistories")["items"]
    assert [(i["metadata"]["name"], i["considered"], i["feasible"], i["chosen"]) for i in items] == [
        ("worker-1", 3, 2, 2),
        ("worker-2", 3, 2, 0),
        ("worker-3", 3, 2, 0),
    ]


def test_rejects_text_that_the_database_cannot_store(service: Service) -> None:
    for path in ("namespaces/a%00b/decisions", "decisions?fieldSelector=spec.pod%3D%00", "decisions?continue=djFuOgA"):
        assert service.client.get(f"{API}/{path}").status_code == 400, path
