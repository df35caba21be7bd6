"""docs/packages.md names every dependency of both packages, and which of them needs it."""

from __future__ import annotations

import re
import sys

import pytest

from tests.processes import ROOT

if sys.version_info < (3, 11):
    pytest.skip("tomllib", allow_module_level=True)
import tomllib

PYPROJECTS = {"plugin": ROOT / "pyproject.toml", "servers": ROOT / "packages/servers/pyproject.toml"}


def declared() -> dict[str, set[str]]:
    """Return what needs each third-party package: `plugin`, `servers`, or an extra of one."""
    found: dict[str, set[str]] = {}
    for room, path in PYPROJECTS.items():
        project = tomllib.loads(path.read_text())["project"]
        extras = project.get("optional-dependencies", {})
        for needs, lines in (
            (room, project["dependencies"]),
            *((f"{room}, optional (`{e}`)", extras[e]) for e in extras),
        ):
            for line in lines:
                name = re.match(r"[\w-]+", line)
                assert name
                if not name[0].startswith("herodotus"):
                    found.setdefault(name[0], set()).add(needs)
    return found


def test_the_table_equals_the_declared_dependencies() -> None:
    text = (ROOT / "docs/packages.md").read_text().partition("## What each dependency does")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    table = {row[0]: row[1] for row in rows[1:]}
    assert table == {name: ", ".join(sorted(needs)) for name, needs in declared().items()}
    assert all(len(row[2].split()) > 1 or row[2] == "`/metrics`" for row in rows[1:])
