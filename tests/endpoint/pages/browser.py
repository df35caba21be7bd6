"""Chromium, driven at pages that a test serves; where it is not installed, what needs it says so and is skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from flask.testing import FlaskClient
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import WSGIRequestHandler, make_server

from herodotus_serving.threads import serve_in_thread

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
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


@contextmanager
def served(client: FlaskClient, prefix: str) -> Iterator[str]:
    """The application below a prefix, as behind the API server's proxy; its URL."""
    nowhere: Any = lambda _environ, start: start("404 Not Found", []) and []  # noqa: E731
    server = make_server("127.0.0.1", 0, DispatcherMiddleware(nowhere, {prefix: client.application}), True, 1, _Quiet)
    with serve_in_thread(server) as url:
        yield f"{url}{prefix}"


class _Quiet(WSGIRequestHandler):
    def log(self, *_args: Any) -> None:
        pass
