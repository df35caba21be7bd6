"""The lists of nodes, workloads and decisions: their columns, order, filter and pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from herodotus_record.model import Owner
from tests.builders import a_decision, a_table, bound
from tests.endpoint.pages.browser import PREFIX, Pages, StubApiServer, chromium, served
from tests.endpoint.pages.test_answers_in_a_browser import texts
from tests.endpoint.service import Service, a_service, rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MANY = [f"worker-{n}" for n in range(1, 5_001)]
ZONE = "topology.kubernetes.io/zone"


def a_node(name: str, *, zone: str = "zone-a", ready: str = "True", **spec: Any) -> dict[str, Any]:
    """A Node object of the API server."""
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "spec": spec,
        "status": {"conditions": conditions},
    }


NODES = [
    a_node("worker-1"),
    a_node("worker-2", zone="zone-b", unschedulable=True),
    a_node("worker-10", taints=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}], ready="Unknown"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = a_service(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def pages(browser: Browser, service: Service) -> Iterator[Pages]:
    with served(service.client, PREFIX, StubApiServer({"/api/v1/nodes": {"items": NODES}})) as url:
        tab = Pages(browser.new_page(viewport={"width": 1440, "height": 900}), url, roots={url})
        tab.page.set_default_timeout(30_000)
        tab.page.on("console", lambda said: tab.complaints.append(said.text) if said.type == "error" else None)
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        yield tab
        tab.page.close()
        assert tab.complaints == []


def test_nodes_show_requests_state_zone_and_taints(pages: Pages, service: Service) -> None:
    names = [node["metadata"]["name"] for node in NODES]
    table = a_table(names, used={"worker-2": 7500, "worker-10": 4000})
    placed = a_decision(pod="web-0", nodes=names)
    service.stored(rows(table), placed, bound(placed, table, sequence=2))
    page = pages.open("view=node")
    assert texts(page, "Nodes") == [
        ["worker-1", "✓ Ready", "zone-a", "0 of 8", "0 of 32Gi", "3 of 110", "", "0%", "1"],
        ["worker-2", "✗ Ready, cordoned", "zone-b", "7500m of 8", "0 of 32Gi", "3 of 110", "", "0%", "0"],
        ["worker-10", "✗ NotReady", "zone-a", "4 of 8", "0 of 32Gi", "3 of 110", "dedicated=gpu:NoSchedule", "0%", "0"],
    ]
    page.get_by_role("button", name="CPU").press("Enter")
    page.wait_for_function("document.querySelector('td').innerText === 'worker-2'")
    assert [row[0] for row in texts(page, "Nodes")] == ["worker-2", "worker-10", "worker-1"]
    assert page.get_by_role("columnheader", name="CPU").get_attribute("aria-sort") == "descending"
    assert pages.state()["sort"] == "cpu"
    page.get_by_label("Filter nodes").fill("zone-a")
    page.wait_for_function("document.querySelectorAll('tbody tr').length === 2")
    assert page.get_by_text("2 of 3 nodes").count() == 1
    page.reload()
    assert [row[0] for row in texts(pages.ready(), "Nodes")] == ["worker-10", "worker-1"]
    page = pages.open("view=node&show=full")
    assert [row[0] for row in texts(page, "Nodes")] == ["worker-2"]
    page = pages.open("view=node&name=worker-10")
    assert page.locator(".facts").first.inner_text().split("\n")[:8] == [
        "State", "✗ NotReady", "Zone", "zone-a", "Taints", "dedicated=gpu:NoSchedule", "CPU requested", "4 of 8",
    ]  # fmt: skip


def test_list_of_5000_nodes_draws_one_page_of_rows(pages: Pages, service: Service) -> None:
    table = a_table(MANY)
    placed = a_decision(pod="web-0", nodes=MANY, owner=Owner("ReplicaSet", "web-5d9f"))
    service.stored(rows(table), placed, bound(placed, table, sequence=2))
    page = pages.open("view=node")
    assert page.get_by_text("5,000 nodes, page 1 of 50").count() == 1
    assert page.locator("tbody tr").count() == 100
    page.get_by_role("button", name="Next page").press("Enter")
    page.wait_for_function("document.querySelector('td').innerText === 'worker-101'")
    page.get_by_label("Filter nodes").fill("worker-4999")
    page.wait_for_function("document.querySelectorAll('tbody tr').length === 1")
    took_ms = page.evaluate("performance.getEntriesByName('shown')[0].startTime")
    print(f"5,000 nodes: shown after {took_ms:.0f} ms")
    assert took_ms < 20_000
