"""Chromium, driven at pages that a test serves; where it is not installed, what needs it says so and is skipped."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import WSGIRequestHandler, make_server

from herodotus_client import api_paths
from herodotus_endpoint.pages import HOME
from herodotus_serving.threads import serve_in_thread

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_APPS = tuple(f"/apis/apps/v1/{kind}" for kind in ("deployments", "statefulsets", "daemonsets"))
_LISTS = ("/api/v1/pods", "/api/v1/nodes", *_APPS)
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser that asks nobody for anything by itself."""
    if CHROMIUM is None:
        pytest.skip("THE PAGES ARE NOT TESTED IN A BROWSER: no chromium on PATH (Debian's package chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


@dataclass
class StubApiServer:
    """The API server around the decisions service: objects by path, of which lists ignore their selectors.

    Without `objects`, lists are empty and nothing else exists. A path in `forbidden` is answered with 403. With `away`,
    no API server is there. With `live`, it is `kubectl herodotus ui`, which answers about pods as they are now.
    """

    objects: dict[str, Any] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    away: bool = False
    live: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        path = environ["PATH_INFO"]
        self.asked.append(f"{path}?{environ['QUERY_STRING']}")
        code, body = self._answer(path)
        start(code, [("Content-Type", "application/json"), *[("Herodotus-Live", "pods")] * self.live])
        return [json.dumps(body).encode()]

    def _answer(self, path: str) -> tuple[str, Any]:
        plural = path.rpartition("/")[2] if path in _LISTS else path.split("/")[-2]
        status = {"kind": "Status", "details": {"kind": plural}}
        if self.away:
            return "404 Not Found", {"error": "not found"}
        if path in self.forbidden:
            return "403 Forbidden", status | {"message": f'User "ann" cannot list resource "{plural}"', "code": 403}
        if path in self.objects or path in _LISTS:
            return "200 OK", self.objects.get(path, {"items": []})
        return "404 Not Found", status | {"message": f"{plural} not found", "code": 404}


@contextmanager
def served(client: FlaskClient, prefix: str, cluster: StubApiServer) -> Iterator[str]:
    """The application below a prefix, as behind the API server's proxy; its URL."""
    around: Any = DispatcherMiddleware(cluster, {prefix: client.application})
    server = make_server("127.0.0.1", 0, around, True, 1, _Quiet)
    with serve_in_thread(server) as url:
        yield f"{url}{prefix}"


class _Quiet(WSGIRequestHandler):
    def log(self, *_args: Any) -> None:
        pass


PREFIX = "/api/v1/namespaces/herodotus/services/http:herodotus-endpoint:8000/proxy"


@dataclass
class Pages:
    """A tab, and what it said and asked for."""

    page: Page
    root: str
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    roots: set[str] = field(default_factory=set)  # of the services of this test

    def open(self, query: str, *, complete: bool = False) -> Page:
        """Open a page; `complete` also waits for the parts that are filled in after it is shown."""
        self.page.goto(f"{self.root}{HOME}?{query}")
        self.ready()
        if complete:
            self.page.wait_for_selector("main:not(:has([aria-busy=true]))")
        return self.page

    def ready(self) -> Page:
        self.page.wait_for_selector("main[data-ready]")
        return self.page

    def answer(self) -> str:
        return self.page.locator(".answer").inner_text()

    def asked_elsewhere(self) -> set[str]:
        """What it asked neither of the service nor of the API server as far as `kubectl herodotus ui` forwards it."""
        ours = tuple(f"{root}/" for root in self.roots)
        origins = {f"{part.scheme}://{part.netloc}" for part in map(urlsplit, self.roots)}
        read = re.compile(f"{api_paths.PAGES_READ}|/live/pods/[^/]+/[^/]+")
        elsewhere = {url for url in self.asked if not url.startswith(ours)}
        return {url for url in elsewhere if not (url.startswith(tuple(origins)) and read.fullmatch(urlsplit(url).path))}

    def state(self) -> dict[str, str]:
        """What the URL says."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.page.url).query).items()}


def texts(page: Page, region: str) -> list[list[str]]:
    """The cells of a table."""
    found = page.get_by_role("region", name=region).locator("tbody tr")
    return [[text.strip() for text in row.locator("td").all_inner_texts()] for row in found.all()]
