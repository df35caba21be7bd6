"""No page of another site can post through a reader's browser, to any route."""

from __future__ import annotations

import pytest

from herodotus_endpoint.routing import Route
from tests.endpoint.service import Service, declared_routes, envelope

POSTS = [route for route in declared_routes() if route.method == "POST"]


@pytest.mark.parametrize("route", POSTS, ids=str)
@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_no_page_of_another_site_can_post(service: Service, route: Route, site: str) -> None:
    refused = service.client.post(_with_names(route), data=b"{}", headers={"Sec-Fetch-Site": site})
    assert envelope(refused)["code"] == 403
    assert "another site" in refused.get_json()["message"]


@pytest.mark.parametrize("route", POSTS, ids=str)
@pytest.mark.parametrize(
    "media", ["text/plain", "text/plain;charset=UTF-8", "multipart/form-data; boundary=x", "TEXT/Plain"]
)
def test_no_route_takes_what_a_form_of_another_site_can_post(service: Service, route: Route, media: str) -> None:
    refused = service.client.post(_with_names(route), data=b"{}", headers={"Content-Type": media})
    assert envelope(refused)["code"] == 415


@pytest.mark.parametrize("route", POSTS, ids=str)
@pytest.mark.parametrize("site", ["same-origin", "none", None])
def test_the_pages_of_this_site_and_other_clients_can_post(service: Service, route: Route, site: str | None) -> None:
    headers = {"Content-Type": "application/json"} | ({"Sec-Fetch-Site": site} if site else {})
    answer = service.client.post(_with_names(route), data=b"{", headers=headers)
    assert answer.status_code in (400, 415)  # of the view, which reads no JSON or not this one
    assert "another site" not in answer.text


def test_a_link_on_another_site_is_followed(service: Service) -> None:
    assert service.client.get("/version", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


def _with_names(route: Route) -> str:
    path = route.path
    for part in route.path_parts:
        path = path.replace(f"<{part}>", "x")
    return path
