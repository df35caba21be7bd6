"""Web pages: static files that draw the API's answers in the browser of the reader.

Owns: the files, how they are served, and the headers that restrict what a browser does with any response. Does not own:
the contents of the pages (`files`), access control (`access`).

The files are below the API group's path, because that path leads here in all three ways: directly, through the service
proxy, and through an APIService. They refer to each other and to the API by relative URLs, so any prefix works.

Invariant: a file contains nothing of the cluster, so it needs no right. A browser loads nothing from other hosts and
runs no script that is not one of these files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from herodotus_endpoint.api.resources import PREFIX

FOLDER: Final = Path(__file__).with_name("files")
SHELL: Final = "index.html"
FILES: Final = (
    SHELL,
    "pages.css",
    "icon.svg",
    "main.js",
    "api.js",
    "dom.js",
    "words.js",
    "plots.js",
    "decisions.js",
    "decision.js",
    "sheet.js",
    "columns.js",
    "heatmap.js",
    "node.js",
    "pending.js",
    "balance.js",
    "disagreements.js",
)
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HOME: Final = f"{PREFIX}/pages/"

# Of every answer. `frame-ancestors` and the like do not fall back to `default-src`.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True)
class File:
    """A static file with its media type and ETag."""

    body: bytes
    content_type: str
    etag: str


def blueprint() -> Blueprint:
    """Return the blueprint of the files and of `/ui`, a short path. Raises FileNotFoundError if one is missing."""
    routes = Blueprint("pages", __name__)
    files = {name: _read(name) for name in FILES}

    @routes.get("/ui", provide_automatic_options=False)
    def short() -> Response:
        return Response(status=302, headers={"Location": HOME.lstrip("/")})

    @routes.get(HOME, provide_automatic_options=False)
    def home() -> Response:
        return _served(files[SHELL])

    @routes.get(f"{HOME}<name>", provide_automatic_options=False)
    def file(name: str) -> Response:
        if name not in files:
            raise NotFound
        return _served(files[name])

    return routes


def _read(name: str) -> File:
    body = (FOLDER / name).read_bytes()
    return File(body, TYPES[Path(name).suffix], hashlib.sha256(body).hexdigest()[:32])


def _served(found: File) -> Response:
    """Return the file, or 304 if the browser's copy is current. Browsers keep copies and ask each time."""
    response = Response(found.body, content_type=found.content_type, headers={"Cache-Control": "no-cache"})
    response.set_etag(found.etag)
    return response.make_conditional(request)  # type: ignore[return-value]
