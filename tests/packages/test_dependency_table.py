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


def declared() -> dict[str, str]:
    """Return what needs each third-party package, in the table's words: `plugin`, `servers`, or extras of one."""
    found: dict[str, list[str]] = {}
    optional: dict[tuple[str, str], list[str]] = {}
    for room, path in PYPROJECTS.items():
        project = tomllib.loads(path.read_text())["project"]
        extras = project.get("optional-dependencies", {})
        for extra, lines in (("", project["dependencies"]), *extras.items()):
            for line in lines:
                name = re.match(r"[\w-]+", line)
                assert name
                if name[0].startswith("kubectl-herodotus"):
                    continue
                if extra:
                    optional.setdefault((name[0], room), []).append(f"`{extra}`")
                else:
                    found.setdefault(name[0], []).append(room)
    for (package, room), names in optional.items():
        found.setdefault(package, []).append(f"{room}, optional ({', '.join(sorted(names))})")
    return {package: ", ".join(needs) for package, needs in found.items()}


def test_the_table_equals_the_declared_dependencies() -> None:
    text = (ROOT / "docs/packages.md").read_text().partition("## What each dependency does")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    table = {row[0]: row[1] for row in rows[1:]}
    assert table == declared()
    assert all(len(row[2].split()) > 1 or row[2] == "`/metrics`" for row in rows[1:])
