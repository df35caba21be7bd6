"""The web pages: static files whose scripts fetch data from the API with the browser user's rights.

The files are served below the API group's path, because it is the one path that reaches the service directly, through
the service proxy and through an APIService. They refer to each other and to the API by relative URLs, so that any
prefix works.

Owns: the list of files, how they are served, and the security headers of all responses. Does not own: the contents of
the pages (`files`), access control (`access`).

Invariant: a file contains no data of the cluster, so it requires no right. A browser loads nothing from other sites and
runs no script but these files.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flask import Blueprint, Flask, Response, request
from werkzeug.exceptions import NotFound

from herodotus_endpoint.resources import PREFIX
from herodotus_endpoint.routing import Access, Answer, PoolKind, Route, build_blueprint, declare

FOLDER: Final = Path(__file__).with_name("files")
SHELL: Final = "index.html"
FILES: Final = (
    SHELL,
    "pages.css",
    "icon.svg",
    "main.js",
    "api.js",
    "dom.js",
    "keys.js",
    "live.js",
    "livestate.js",
    "pickers.js",
    "words.js",
    "plots.js",
    "summary.js",
    "decisions.js",
    "decision.js",
    "answer.js",
    "undecided.js",
    "list.js",
    "timerange.js",
    "copylink.js",
    "sheet.js",
    "columns.js",
    "heatmap.js",
    "node.js",
    "nodes.js",
    "pending.js",
    "workload.js",
    "workloads.js",
    "whatif.js",
    "clusterwhatif.js",
    "preemptions.js",
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
_MEDIA_TYPES: Final = tuple(kind.partition(";")[0] for kind in TYPES.values())
_NOT_MODIFIED: Final = Answer(304, "The browser's copy is current.", ())

# Headers of every response. `frame-ancestors` and `form-action` do not fall back to `default-src`.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True)
class StaticFile:
    """The content of one static file of the web pages, with its content type and entity tag (ETag)."""

    body: bytes
    content_type: str
    etag: str


def blueprint() -> Blueprint:
    """Return the Flask blueprint of the web pages' static files, and of `/ui`, which redirects to them.

    Raises FileNotFoundError if a file is missing.
    """
    files = {name: _read(name) for name in FILES}

    @declare(
        Route(
            "GET",
            "/ui",
            "ui",
            "A short path of the web pages.",
            right=Access.DISCLOSES_NOTHING,
            pool=PoolKind.DISCOVERY,
            answers=(Answer(302, "Redirect to the web pages.", ()),),
        )
    )
    def short() -> Response:
        query = request.query_string.decode("latin-1")
        return Response(status=302, headers={"Location": f"{HOME.lstrip('/')}{'?' if query else ''}{query}"})

    @declare(
        Route(
            "GET",
            HOME,
            "home",
            "The web pages.",
            right=Access.DISCLOSES_NOTHING,
            pool=PoolKind.DISCOVERY,
            answers=(Answer(description="The start page.", content_types=_MEDIA_TYPES[:1]), _NOT_MODIFIED),
        )
    )
    def home() -> Response:
        return _serve(files[SHELL])

    @declare(
        Route(
            "GET",
            f"{HOME}<name>",
            "page",
            "A file of the web pages.",
            right=Access.DISCLOSES_NOTHING,
            pool=PoolKind.DISCOVERY,
            answers=(Answer(description="The file.", content_types=_MEDIA_TYPES), _NOT_MODIFIED),
            errors=(404,),
        )
    )
    def file(name: str) -> Response:
        if name not in files:
            raise NotFound
        return _serve(files[name])

    return build_blueprint("pages", (short, home, file))


def build_files_app() -> Flask:
    """Return a Flask application that serves the pages' files alone, for a program that answers the API otherwise."""
    app = Flask("herodotus_pages", static_folder=None)
    app.register_blueprint(blueprint())

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    return app


def _read(name: str) -> StaticFile:
    body = (FOLDER / name).read_bytes()
    return StaticFile(body, TYPES[Path(name).suffix], hashlib.sha256(body).hexdigest()[:32])


def _serve(file: StaticFile) -> Response:
    """Return a response with the file, or 304 if the request's ETag shows that the browser's copy is current."""
    response = Response(file.body, content_type=file.content_type, headers={"Cache-Control": "no-cache"})
    response.set_etag(file.etag)
    return response.make_conditional(request)  # type: ignore[return-value]
