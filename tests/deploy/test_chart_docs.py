"""Helm's commands in the documents work, and those that should be rejected are."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import helm_python
import pytest
import yaml

from scripts.manifests import CHART, VALUES
from tests.deploy.charts import COMBINATIONS, Json, merged, objects, refusal
from tests.processes import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def commands() -> Iterator[tuple[str, str, str]]:
    """Return document, command, and the output printed below it."""
    for document in DOCUMENTS:
        for block in re.findall(r"```\n(.*?)```", document.read_text(), re.DOTALL):
            lines = block.splitlines()
            for i, line in enumerate(lines):
                if re.match(r"helm (install|upgrade|template) ", line):
                    below = lines[i + 1 :] if lines[i + 1 : i + 2] and lines[i + 1].startswith("Error") else []
                    yield document.name, line, " ".join(below)


COMMANDS = list(commands())


@pytest.mark.parametrize(("document", "command", "said"), COMMANDS, ids=[f"{d}: {c}" for d, c, _ in COMMANDS])
def test_documented_helm_commands_render(document: str, command: str, said: str) -> None:
    words = shlex.split(command)
    assert ROOT / words[3] == CHART
    assert words[2] == "herodotus"
    values: Json = {}
    for option, value in itertools.pairwise(words):
        if option == "-f":
            values = merged(values, yaml.safe_load((ROOT / value).read_text()))
        elif option == "--set":
            values = merged(values, helm_python.parse_set_string(value))
    if said:
        assert said.partition("… ")[2] in refusal(values)
    else:
        assert objects(values)


def test_documents_have_commands_and_one_is_rejected() -> None:
    assert len(COMMANDS) > 4
    assert [said for *_, said in COMMANDS if said]


def test_every_values_file_has_its_row() -> None:
    rows = re.findall(r"^\| `([\w-]+)\.yaml` \|", (ROOT / "docs/installing.md").read_text(), re.MULTILINE)
    assert sorted(rows) == list(COMBINATIONS)


def test_values_files_begin_with_their_purpose() -> None:
    assert all(path.read_text().startswith("# ") for path in VALUES.glob("*.yaml"))


def test_every_plain_manifest_has_its_row() -> None:
    rows = re.findall(r"^\| `(deploy/[\w./-]+)` \|", (ROOT / "docs/installing.md").read_text(), re.MULTILINE)
    assert all((ROOT / row).exists() for row in rows)
    beside = {"chart", "demo", "test"}
    there = {path.name for path in (ROOT / "deploy").iterdir() if not path.name.startswith(("_", "."))}
    assert {Path(row).name for row in rows} == there - beside
