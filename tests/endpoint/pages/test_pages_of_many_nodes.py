"""Every page where the cluster has 5,000 nodes: usable soon, accessible, complete, fitting, and reached by keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.endpoint.pages.browser import Pages, StubApiServer
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
from tests.endpoint.service import a_service

pytestmark = [pytest.mark.slow, pytest.mark.wide]  # drives Chromium for minutes

NAMES = tuple(f"worker-{n}" for n in range(1, 5_001))
USABLE_MS = 5_000  # measured: see docs/pages.md


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    service = a_service(tmp_path_factory.mktemp("many"), pages_url="https://herodotus.example.com/ui")
    fill_service(service, NAMES)
    with a_tab(service, StubApiServer(present_objects(NAMES), live=True)) as made:
        yield made
    service.store.close()


@pytest.mark.parametrize("name", PAGES)
def test_page_of_5000_nodes_is_usable_accessible_and_reached_by_keyboard(tab: Pages, name: str) -> None:
    tab.complaints.clear()
    for width in WIDTHS:
        tab.page.set_viewport_size({"width": width, "height": 900})
        tab.page.emulate_media(color_scheme="light")
        page = tab.open(PAGES[name], complete=True)
        usable_ms = page.evaluate(USABLE)
        print(f"{name}, {width} px: usable after {usable_ms:.0f} ms, {page.evaluate(ELEMENTS)} elements")
        check_accessibility(page, f"{name} of many nodes", width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(FAULTS) == []
        assert usable_ms < USABLE_MS
    check_keyboard(tab.open(PAGES[name], complete=True))
    assert tab.complaints == []


USABLE = "performance.getEntriesByName('shown')[0].startTime"
ELEMENTS = "document.querySelectorAll('*').length"
