"""Lists of nodes, workloads, decisions and preemptions; questions about the cluster; keys and the search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from herodotus_answers.cluster_review import BlockedPod, ReviewedPlacement
from herodotus_record.model import Candidate, Owner, Preemption
from tests.builders import INSUFFICIENT_CPU, a_decision, a_table, bound
from tests.endpoint.pages.browser import PREFIX, Pages, StubApiServer, chromium, served, texts
from tests.endpoint.service import Service, a_service, rows
from tests.support.answers import a_status, fill
from tests.support.cluster_answering_scheduler import ClusterAnsweringScheduler

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.wide  # drives Chromium

MANY = [f"worker-{n}" for n in range(1, 5_001)]
MAX_ELEMENTS = 10_000  # of a page: 100 rows of a list, and names that a field offers
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
DEPLOYMENTS = {
    "kind": "Table",
    "columnDefinitions": [{"name": "Name"}, {"name": "Ready"}],
    "rows": [{"cells": ["web", "1/2"], "object": {"metadata": {"name": "web", "namespace": "shop"}}}],
}


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
    objects = {"/api/v1/nodes": {"items": NODES}, "/apis/apps/v1/deployments": DEPLOYMENTS}
    with served(service.client, PREFIX, StubApiServer(objects)) as url:
        tab = Pages(browser.new_page(viewport={"width": 1440, "height": 900}), url, roots={url})
        tab.page.set_default_timeout(30_000)
        tab.page.on("console", lambda said: tab.complaints.append(said.text) if said.type == "error" else None)
        tab.page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        yield tab
        tab.page.close()
        absent = "Failed to load resource: the server responded with a status of 404 (Not Found)"  # a pod that is gone
        assert [said for said in tab.complaints if said != absent] == []


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
    page.locator("tbody tr").first.get_by_role("link", name="worker-2", exact=True).wait_for()
    assert [row[0] for row in texts(page, "Nodes")] == ["worker-2", "worker-10", "worker-1"]
    assert page.get_by_role("columnheader", name="CPU").get_attribute("aria-sort") == "descending"
    assert pages.state()["sort"] == "cpu"
    page.get_by_label("Filter nodes").fill("zone-a")
    page.locator("tbody tr").nth(2).wait_for(state="detached")
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
    elements = page.evaluate("document.querySelectorAll('*').length")
    page.get_by_role("button", name="Next page").press("Enter")
    page.get_by_role("link", name="worker-101", exact=True).wait_for()
    page.get_by_label("Filter nodes").fill("worker-4999")
    page.locator("tbody tr").nth(1).wait_for(state="detached")
    assert [row[0] for row in texts(page, "Nodes")] == ["worker-4999"]
    took_ms = page.evaluate("performance.getEntriesByName('shown')[0].startTime")
    print(f"5,000 nodes: shown after {took_ms:.0f} ms; {elements} elements")
    assert elements < MAX_ELEMENTS
    assert took_ms < 20_000


WAITS = fill(
    ReviewedPlacement,
    namespace="ml",
    name="big",
    reason="0/12 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 9 node(s) didn't match"
    " Pod's node affinity/selector. preemption: 0/12 nodes are available: 12 Preemption is not helpful for scheduling.",
)


def store_web_and_db(service: Service) -> None:
    """Two placed pods and one that waits of a Deployment, and one placed pod of a StatefulSet."""
    names = [node["metadata"]["name"] for node in NODES]
    table = a_table(names)
    web: dict[str, Any] = {
        "nodes": names,
        "labels": {"pod-template-hash": "5d9f"},
        "owner": Owner("ReplicaSet", "web-5d9f"),
    }
    best = {"worker-1": {"ImageLocality": 9}}
    placed = [
        a_decision(pod="web-5d9f-a", points=best, sequence=1, **web),
        a_decision(pod="web-5d9f-b", points=best, sequence=3, **web),
        a_decision(pod="db-0", nodes=names, owner=Owner("StatefulSet", "db"), sequence=5),
    ]
    full = {name: {"NodeResourcesFit": INSUFFICIENT_CPU} for name in names}
    waits = a_decision(pod="web-5d9f-c", rejected=full, sequence=7, **web)
    outcomes = [bound(decision, table, sequence=decision.sequence + 1) for decision in placed]
    service.stored(rows(table), *(each for pair in zip(placed, outcomes, strict=True) for each in pair), waits)


def test_workloads_show_ready_waiting_and_spread(pages: Pages, service: Service) -> None:
    store_web_and_db(service)
    page = pages.open("view=workload")
    assert pages.answer() == "✗ Pods of 1 workload wait for a node."
    assert [row[:-1] for row in texts(page, "Workloads")] == [
        ["shop", "Deployment/web", "1/2", "1", "2", "1", "2"],
        ["shop", "StatefulSet/db", "–", "0", "1", "1", "1"],
    ]
    page.get_by_label("Order by").select_option("name")
    page.get_by_role("columnheader", name="Workload ▲").wait_for()
    page.get_by_role("link", name="StatefulSet/db").press("Enter")
    page.wait_for_url("**workload=StatefulSet*")
    assert pages.ready().locator("h1").inner_text() == "shop / StatefulSet/db"


def test_decisions_take_one_line_each(pages: Pages, service: Service) -> None:
    store_web_and_db(service)
    page = pages.open("view=decisions")
    heights = page.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.getBoundingClientRect().height)")
    assert len(heights) == 4
    assert max(heights) < 40
    assert texts(page, "Decisions, newest first")[0][1] == "Deployment/web"


def test_preemptions_name_victims_and_preemptors(pages: Pages, service: Service) -> None:
    names = [node["metadata"]["name"] for node in NODES]
    table = a_table(names)
    victim = a_decision(pod="web-0", nodes=names, sequence=1)
    full = {name: {"NodeResourcesFit": INSUFFICIENT_CPU} for name in names}
    big = a_decision(pod="big-0", namespace="ci", nodes=names, rejected=full, sequence=3)
    big = replace(big, preemption=Preemption("worker-1", (Candidate("worker-1", ("shop/web-0",), 0),), True))
    service.stored(rows(table), victim, bound(victim, table, sequence=2), big)
    page = pages.open("view=preemptions&since=2592000")
    assert pages.answer().startswith("1 preemption evicted 1 pod in the last 30 days")
    (row,) = texts(page, "Preemptions, newest first")
    assert row[1:4] == ["ci/big-0", "0", "worker-1"]
    assert row[4].startswith("shop/web-0")
    page = pages.open("view=decision&namespace=shop&name=web-0")
    assert page.locator("h1 .state").inner_text() == "✗ Evicted"


def test_drain_says_what_blocks_it_and_where_pods_go(pages: Pages, service: Service) -> None:
    store_web_and_db(service)
    blocked = fill(
        BlockedPod, namespace="shop", name="db-0", node="worker-1", cause="Budget", message="needs 1", budget="db"
    )
    moved = fill(ReviewedPlacement, namespace="shop", name="web-5d9f-a", fromNode="worker-1", node="worker-10")
    scheduler = ClusterAnsweringScheduler(
        service, a_status(placements=[moved], blocked=[blocked], stillPending=[WAITS])
    )
    with scheduler.working():
        page = pages.open("view=node&name=worker-1")
        page.get_by_role("link", name="What if it is drained?").press("Enter")
        page.wait_for_url("**ask=drain*")
        pages.ready()
        assert scheduler.asked == [], "a link asks nothing by itself"
        page.get_by_label("Nodes").press("Enter")
        page.get_by_role("heading", name="Answer").wait_for()
    (asked,) = scheduler.asked
    assert (asked["spec"]["changes"][0]["kind"], asked["spec"]["changes"][0]["nodes"]) == ("Drain", ["worker-1"])
    assert pages.answer().startswith("✗ ")
    assert [row[:2] for row in texts(page, "Blocks")] == [["shop/db-0", "worker-1"]]
    assert [row[:3] for row in texts(page, "Moves")] == [["shop/web-5d9f-a", "worker-1", "worker-10"]]
    assert page.get_by_role("heading", name="Was pending").count() == 0


def test_nodes_that_a_pod_excludes_come_last_in_its_reason(pages: Pages, service: Service) -> None:
    store_web_and_db(service)
    with ClusterAnsweringScheduler(service, a_status(stillPending=[WAITS])).working():
        page = pages.open("view=clusterwhatif&ask=cordon")
        page.get_by_label("Nodes").fill("worker-2")
        page.get_by_label("Nodes").press("Enter")
        page.get_by_role("heading", name="Answer").wait_for()
    said = "2 Insufficient cpu, 1 were unschedulable, 9 didn't match Pod's node affinity/selector"
    assert texts(page, "Was pending, stays so") == [["ml/big", said]]


@pytest.mark.parametrize(
    ("query", "fields", "spec"),
    [
        (
            "ask=cordon",
            {"Nodes": "worker-1, worker-2"},
            {"changes": [{"kind": "Cordon", "nodes": ["worker-1", "worker-2"]}]},
        ),
        (
            "ask=add&like=worker-1",
            {"Number": "3"},
            {"changes": [{"kind": "AddNodes", "like": "worker-1", "count": 3, "zone": ""}]},
        ),
        ("ask=consolidate", {}, {"consolidate": {"nodes": None, "force": False, "deleteEmptyDirData": True}}),
    ],
    ids=["cordon", "add", "consolidate"],
)
def test_questions_about_the_cluster_are_sent(
    pages: Pages, service: Service, query: str, fields: dict[str, str], spec: dict[str, Any]
) -> None:
    store_web_and_db(service)
    scheduler = ClusterAnsweringScheduler(service)
    with scheduler.working():
        page = pages.open(f"view=clusterwhatif&{query}")
        for label, value in fields.items():
            page.get_by_label(label, exact=True).fill(value)
        page.locator("form.question button").press("Enter")
        page.get_by_role("heading", name="Answer").wait_for()
    (asked,) = scheduler.asked
    assert {key: value for key, value in asked["spec"].items() if key in spec} == spec


def test_keys_lead_from_the_search_to_a_pod_and_on_to_its_node(pages: Pages, service: Service) -> None:
    store_web_and_db(service)
    page = pages.open("view=summary")
    page.keyboard.press("/")
    search = page.get_by_role("combobox", name="Go to")
    search.press_sequentially("pod db")
    page.get_by_role("option", name="pod shop/db-0").wait_for()
    search.press("Enter")
    page.wait_for_url("**view=decision*name=db-0*")
    pages.ready()
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_url("**view=node")
    pages.ready()
    page.keyboard.press("/")
    page.keyboard.type("worker-10")
    page.locator("tbody tr").nth(1).wait_for(state="detached")
    page.keyboard.press("Control+k")
    page.keyboard.type("workload web")
    page.get_by_role("option", name="workload shop/Deployment/web").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    page.locator("main").focus()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    dialog.get_by_label("switch off keys without Ctrl").check()
    dialog.get_by_role("button", name="Close").press("Enter")
    page.keyboard.press("g")
    page.keyboard.press("s")
    assert pages.state()["view"] == "node"
    page.keyboard.press("Control+k")
    search.wait_for()
    page.evaluate("localStorage.clear()")


@pytest.mark.parametrize("key", ["Control+k", "?"])
def test_dialogs_have_no_serious_accessibility_violation(pages: Pages, service: Service, key: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    store_web_and_db(service)
    page = pages.open("view=node")
    page.keyboard.press(key)
    page.get_by_role("dialog").wait_for()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page).response["violations"]
        assert [(f["id"], f["nodes"][0]["html"]) for f in found if f["impact"] in ("serious", "critical")] == []


def test_colour_of_a_score_says_what_decided(pages: Pages, service: Service) -> None:
    names = [node["metadata"]["name"] for node in NODES]
    points = {
        name: {"TaintToleration": 100, "NodeResourcesFit": n} for name, n in zip(names, (77, 72, 60), strict=True)
    }
    table = a_table(names)
    placed = a_decision(pod="db-0", nodes=names, points=points)
    service.stored(rows(table), placed, bound(placed, table, sequence=2))
    page = pages.open("view=decision&namespace=shop&name=db-0")
    cells = page.locator("table.heat tbody tr").evaluate_all(COLOURS)
    assert cells == [["s1"], ["b1"], ["b5"]]


@pytest.mark.parametrize(("is_placed", "places"), [(True, ["Rank", "Total"]), (False, [])], ids=["placed", "waiting"])
def test_ranks_and_totals_have_columns_if_a_node_has_them(
    pages: Pages, service: Service, is_placed: bool, places: list[str]
) -> None:
    names = [node["metadata"]["name"] for node in NODES]
    table = a_table(names)
    if is_placed:
        placed = a_decision(pod="db-0", nodes=names)
        service.stored(rows(table), placed, bound(placed, table, sequence=2))
    else:
        rejected = {name: {"NodeResourcesFit": INSUFFICIENT_CPU} for name in names}
        service.stored(rows(table), a_decision(pod="db-0", nodes=names, rejected=rejected))
    page = pages.open("view=decision&namespace=shop&name=db-0")
    heads = page.locator("table.heat thead .rank button").all_inner_texts()
    assert [head.removesuffix(" ▲") for head in heads] == places
    widths = page.locator("table.heat tbody tr:has(button)").evaluate_all("rows => rows.map((row) => row.cells.length)")
    assert set(widths) == {page.locator("table.heat thead tr:last-child th").count()}


COLOURS = r"""rows => rows.filter((row) => row.querySelector("button"))
  .map((row) => [...row.cells].map((cell) => cell.className).filter((name) => /^[sb]\d$/.test(name)))"""
