"""What holds for every page at both widths and in both schemes: it is accessible, complete, and fits the screen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herodotus_answers.cluster_review import ReviewedPlacement
from herodotus_answers.plans import PlacedTarget, Plan, PlanReview, PlansOfKind, PlanStep
from tests.endpoint.pages.browser import Pages, StubApiServer, texts
from tests.endpoint.pages.checked_pages import (
    FAULTS,
    PAGES,
    WIDTHS,
    a_tab,
    check_accessibility,
    check_keyboard,
    fill_service,
    present_objects,
)
from tests.endpoint.service import Service, a_service
from tests.support.answers import a_status, fill
from tests.support.cluster_answering_scheduler import ClusterAnsweringScheduler

pytestmark = pytest.mark.wide  # drives Chromium


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = a_service(tmp_path_factory.mktemp("every-page"), pages_url="https://herodotus.example.com/ui")
    fill_service(made)
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def tab(service: Service) -> Iterator[Pages]:
    with a_tab(service, StubApiServer(present_objects(), live=True)) as made:
        yield made


@pytest.fixture
def pages(tab: Pages) -> Iterator[Pages]:
    tab.complaints.clear()
    yield tab
    tab.page.emulate_media(color_scheme="light")
    tab.page.set_viewport_size({"width": 1440, "height": 900})
    assert tab.complaints == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_complete_and_fits(pages: Pages, name: str, width: int) -> None:
    pages.page.set_viewport_size({"width": width, "height": 900})
    page = pages.open(PAGES[name], complete=True)
    check_accessibility(page, name, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(FAULTS) == []


@pytest.mark.parametrize("name", PAGES)
def test_tab_reaches_everything_in_the_order_of_the_page(pages: Pages, name: str) -> None:
    check_keyboard(pages.open(PAGES[name], complete=True))


def test_time_of_a_page_is_in_its_url(pages: Pages) -> None:
    page = pages.open("view=decisions")
    assert page.locator("tbody tr").count() == 10
    page.get_by_role("link", name="1 hour").press("Enter")
    page.wait_for_url("**since=3600*")
    assert (
        pages.ready().locator(".answer").inner_text() == "The newest 10 decisions in the last hour: there are no more."
    )
    page.get_by_text("From … until").press("Enter")
    page.get_by_label("From (UTC)").fill("2026-03-07T11:36")
    page.get_by_label("Until (UTC)").fill("2026-03-07T11:42")
    page.get_by_role("button", name="Show").press("Enter")
    page.wait_for_url("**until=2026-03-07T11*")
    said = pages.ready().locator(".answer").inner_text()
    assert said == "The newest 2 decisions from 2026-03-07 11:36 until 2026-03-07 11:42 UTC: there are no more."
    assert page.get_by_label("From (UTC)").input_value() == "2026-03-07T11:36"
    page.reload()
    assert pages.ready().locator(".answer").inner_text() == said
    assert page.get_by_role("navigation", name="Time").locator("[aria-current]").count() == 0
    page = pages.open("view=balance&until=2026-03-07T11:22")
    assert pages.answer().startswith("3 pods went to ")
    page = pages.open("view=summary&from=2026-03-07T11:40")
    assert "Decisions since 2026-03-07 11:40 UTC" in page.locator("main").inner_text()
    assert "web-5d9f" not in page.get_by_role("region", name="Last placements").inner_text()


def test_copied_link_lasts(pages: Pages, service: Service) -> None:
    page = pages.open("view=decision&namespace=shop&name=payments-0&sort=name")
    page.get_by_role("button", name="Copy link").press("Enter")
    page.get_by_role("button", name="Copied").wait_for()
    newest = service.explain("payments-0")["attempt"]["id"]
    link = f"https://herodotus.example.com/ui?view=decision&namespace=shop&name={newest}&sort=name"
    assert page.evaluate("navigator.clipboard.readText()") == link


def test_summary_without_an_observed_scheduler_does_not_speak_of_one(pages: Pages) -> None:
    page = pages.open("view=summary&namespace=ci")
    assert page.get_by_role("heading", name="Agreement of the observer").count() == 0


def test_preemptor_names_its_victims(pages: Pages) -> None:
    page = pages.open(PAGES["preemptor"])
    assert "evicted shop/small from worker-1" in page.locator("main").inner_text()


def test_answer_of_a_drain_is_accessible(pages: Pages, service: Service) -> None:
    moved = fill(ReviewedPlacement, namespace="shop", name="web-5d9f-1", fromNode="worker-1", node="worker-2")
    with ClusterAnsweringScheduler(service, a_status(placements=[moved])).working():
        page = pages.open("view=clusterwhatif&ask=drain&nodes=worker-1")
        page.get_by_label("Nodes").press("Enter")
        page.get_by_role("heading", name="Answer").wait_for()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        check_accessibility(page, "answer of a drain", width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_page_of_a_waiting_pod_leads_to_the_steps_of_a_plan(pages: Pages, service: Service) -> None:
    step = fill(PlanStep, kind="Move", namespace="shop", pod="web-0", node="worker-1", landsOn=["worker-2"])
    step["command"] = "kubectl -n shop delete pod web-0"
    target = fill(PlacedTarget, namespace="shop", name="payments-0", landsOn=["worker-1"])
    kind = fill(PlansOfKind, kind="move", plans=[fill(Plan, steps=[step], targets=[target])])
    review = fill(PlanReview, goal="Fit", verdict="Planned", pods=1, kinds=[kind])
    scheduler = ClusterAnsweringScheduler(service, a_status(plan=review))
    with scheduler.working():
        page = pages.open("view=decision&namespace=shop&name=payments-0")
        page.get_by_role("link", name="Which changes would make it fit?").press("Enter")
        page.wait_for_url("**ask=plan*")
        pages.ready()
        page.get_by_label("Waiting pod").press("Enter")
        page.get_by_role("heading", name="Answer").wait_for()
    assert scheduler.asked[0]["spec"]["plan"]["pods"] == ["shop/payments-0"]
    assert texts(page, "Plan move, steps") == [
        ["Move", "shop/web-0", "worker-1", "worker-2", "kubectl -n shop delete pod web-0"]
    ]
    assert texts(page, "Plan move, afterwards") == [["shop/payments-0", "worker-1"]]
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        check_accessibility(page, "answer of a plan", width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
