"""plugins/headlamp: what can be checked without npm. `make headlamp` runs the plugin's own tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from herodotus_answers.schema import build_json_schema
from herodotus_cli.connection import DEFAULT_SERVICE, PLAIN_HTTP_SERVICE
from herodotus_record.version import __version__
from scripts.headlamp_answers import ANSWERS, FAILURES, FOLDER
from scripts.headlamp_types import KINDS, format_module
from tests.answer_schemas import validate
from tests.processes import ROOT

PLUGIN = ROOT / "plugins/headlamp"
SOURCES = sorted(PLUGIN.glob("src/*.ts*"))
Json = dict[str, Any]


def read(path: Path) -> Json:
    document: Json = json.loads(path.read_text("utf-8"))
    return document


def test_types_have_every_kind_that_the_plugin_reads_with_all_its_fields() -> None:
    module = format_module()
    for kind in KINDS:
        interface = module.partition(f"export interface {kind} {{")[2].partition("\n}")[0]
        for field in build_json_schema()["$defs"][kind]["properties"]:
            assert re.search(rf"^  {field}\??: ", interface, re.MULTILINE), (kind, field)
    declared = set(re.findall(r"^export interface (\w+)", module, re.MULTILINE))
    named = re.findall(r"[:<|] ([A-Z]\w+)|Array<([A-Z]\w+)>", re.sub(r"/\*\*.*?\*/", "", module))
    assert {first or second for first, second in named} <= declared | {"Record", "Array"}
    used = set(re.findall(r"import {([^}]+)} from './answers'", "".join(map(Path.read_text, SOURCES))))
    assert {name.strip() for names in used for name in names.split(",")} <= set(KINDS)


@pytest.mark.parametrize("name", ANSWERS)
def test_recorded_answers_match_the_schemas(name: str) -> None:
    validate(read(FOLDER / f"{name}.json"))


@pytest.mark.parametrize("name", FAILURES)
def test_recorded_failures_are_statuses(name: str) -> None:
    status = read(FOLDER / f"{name}.json")
    assert (status["kind"], status["status"]) == ("Status", "Failure")


def test_every_recorded_document_is_used() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*ANSWERS, *FAILURES}
    tests = "".join(path.read_text("utf-8") for path in SOURCES if ".test." in path.name)
    for name in (*ANSWERS, *FAILURES):
        assert f"fixtures/{name}.json" in tests


def test_version_is_the_projects() -> None:
    lock = read(PLUGIN / "package-lock.json")
    versions = {read(PLUGIN / "package.json")["version"], lock["version"], lock["packages"][""]["version"]}
    assert versions == {__version__}


def test_lock_names_no_registry() -> None:
    """Each package comes from the installer's registry and is checked by its hash."""
    packages = read(PLUGIN / "package-lock.json")["packages"]
    assert not [name for name, package in packages.items() if "resolved" in package]
    assert not [name for name, package in packages.items() if name and "integrity" not in package]


def test_defaults_are_the_charts() -> None:
    settings = (PLUGIN / "src/settings.ts").read_text("utf-8")
    defaults = dict(re.findall(r"^  (\w+): '(.*)',$", settings.partition("DEFAULTS")[2], re.MULTILINE))
    service = DEFAULT_SERVICE
    assert defaults == {"namespace": service.namespace, "name": service.name, "port": service.port, "pages": ""}
    requests = (PLUGIN / "src/service.ts").read_text("utf-8")
    assert f"{DEFAULT_SERVICE.scheme}:${{s.name}}:${{s.port}}" in requests
    assert f"{PLAIN_HTTP_SERVICE.scheme}:${{s.name}}:{PLAIN_HTTP_SERVICE.port}" in requests


def test_documents_that_it_names_exist() -> None:
    parts = (PLUGIN / "src/parts.tsx").read_text("utf-8")
    pages = re.findall(r'DocsLink page="([^"]+)"', parts)
    assert pages
    assert not [page for page in pages if not (ROOT / "docs" / page).exists()]


@pytest.mark.parametrize("source", [path for path in SOURCES if ".test." not in path.name], ids=lambda path: path.name)
def test_texts_never_become_markup(source: Path) -> None:
    found = re.findall(
        r"dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|\beval\(", source.read_text("utf-8")
    )
    assert not found
