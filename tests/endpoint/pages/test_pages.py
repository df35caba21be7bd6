"""The pages' files: what a browser gets, what it may do with it, and that nothing is fetched from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from herodotus_endpoint.pages import FILES, FOLDER, HEADERS, HOME, SHELL
from tests.builders import a_decision
from tests.endpoint.service import API, Service, rows, table_of

TEXTS = {name: (FOLDER / name).read_text() for name in FILES}
MAX_BYTES = 220_000
NAMESPACE = "http://www.w3.org/2000/svg"  # a name and no address: nothing is fetched from there
ELSEWHERE = re.compile(r"""(?:\w+:)?//[\w.-]+|url\(|@import|["'(]/\w""")
INLINE = re.compile(
    r"""<style|style=|\son\w+="|javascript:|<script(?![^>]*src=)|innerHTML|outerHTML|insertAdjacent|\beval\b"""
)
NAMED = re.compile(r"""(?:href|src)="([\w.-]+)"|from "\./([\w.-]+)\"""")


def test_folder_contains_exactly_the_listed_files() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(FILES)


def test_all_files_together_are_small() -> None:
    assert sum(len(text.encode()) for text in TEXTS.values()) < MAX_BYTES


@pytest.mark.parametrize("name", FILES)
def test_browser_caches_a_file_until_it_changes(service: Service, name: str) -> None:
    first = service.client.get(f"{HOME}{name}")
    kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    assert (first.status_code, first.mimetype, first.text) == (200, kinds[Path(name).suffix], TEXTS[name])
    assert first.headers["Cache-Control"] == "no-cache"
    again = service.client.get(f"{HOME}{name}", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert service.client.get(f"{HOME}{name}", headers={"If-None-Match": '"another"'}).status_code == 200


def test_folder_serves_the_start_page_and_404_for_unknown_files(service: Service) -> None:
    assert service.client.get(HOME).text == TEXTS[SHELL]
    for name in ("none.js", "..%2f__init__.py", "__init__.py"):
        assert service.client.get(f"{HOME}{name}").status_code == 404


def test_ui_redirects_to_the_pages_below_any_prefix(service: Service) -> None:
    short = service.client.get("/ui")
    assert (short.status_code, short.headers["Location"]) == (302, HOME.lstrip("/"))


@pytest.mark.parametrize(
    "path", [HOME, f"{HOME}main.js", "/ui", f"{API}/decisions", "/livez", "/nowhere", f"{API}/nodehistories/x"]
)
def test_every_response_has_security_headers(service: Service, path: str) -> None:
    answer = service.client.get(path)
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    policy = dict(part.strip().partition(" ")[::2] for part in HEADERS["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }


@pytest.mark.parametrize("name", FILES)
def test_files_have_no_external_references_and_no_inline_code(name: str) -> None:
    text = re.sub(r"^\s*(//|/\*).*$", "", TEXTS[name].replace(NAMESPACE, ""), flags=re.MULTILINE)
    assert ELSEWHERE.findall(text) == []
    assert INLINE.findall(text) == []


def test_references_between_files_are_complete() -> None:
    named = {a or b for text in TEXTS.values() for a, b in NAMED.findall(text)}
    assert named == set(FILES) - {SHELL}


def test_explanation_includes_columns_by_pod_and_by_id(service: Service) -> None:
    decision = a_decision()
    service.stored(rows(table_of(decision)), decision)
    by_pod = service.explain(columns="true")
    assert by_pod["columns"]["nodes"] == ["worker-1", "worker-2", "worker-3"]
    assert service.explain(decision.id, columns="true") == by_pod
    assert "columns" not in service.explain()


def test_finds_decisions_by_workload(service: Service) -> None:
    from herodotus_record.model import Owner

    mine, other = a_decision(owner=Owner("ReplicaSet", "web-5d9f")), a_decision(pod="other", sequence=2)
    service.stored(rows(table_of(mine)), mine, other)
    found = service.get(f"{API}/decisions", fieldSelector="spec.pod.owner=ReplicaSet/web-5d9f")["items"]
    assert [item["spec"]["pod"]["name"] for item in found] == [mine.pod.name]
