"""The version is in herodotus_record/version.py; builds read it there, and a script writes it everywhere else."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus_record.version import __version__
from tests.processes import ROOT

NUMBER = r"(\d+\.\d+\.\d+[\w.-]*)"
PLACES = {
    "herodotus_record/version.py": rf'^__version__ = "{NUMBER}"$',
    "packages/servers/pyproject.toml": rf'"kubectl-herodotus=={NUMBER}"',
    "plugins/headlamp/package-lock.json": rf'^(?:  |      "name": "herodotus",\n      )"version": "{NUMBER}"',
    "plugins/headlamp/package.json": rf'^  "version": "{NUMBER}"',
    "pyproject.toml": rf'"kubectl-herodotus-servers=={NUMBER}"',
}
IN_MANIFESTS = (rf"/herodotus-[a-z]+:{NUMBER}", rf"newTag: {NUMBER}")
IN_CHARTS = (rf"^version: {NUMBER}", rf'^appVersion: "{NUMBER}"')


def places(root: Path) -> Iterator[tuple[str, str]]:
    """Return every place with our version, and the version found there."""
    for file, pattern in PLACES.items():
        yield from ((file, found) for found in re.findall(pattern, (root / file).read_text(), re.MULTILINE))
    for path in sorted((root / "deploy").rglob("*.y*ml")):
        patterns = IN_CHARTS if path.name == "Chart.yaml" else IN_MANIFESTS
        for pattern in patterns:
            yield from (
                (str(path.relative_to(root)), found) for found in re.findall(pattern, path.read_text(), re.MULTILINE)
            )


def test_every_place_has_the_same_version() -> None:
    found = list(places(ROOT))
    assert {file for file, _ in found} >= {*PLACES, "deploy/kustomization.yaml", "deploy/herodotus-scheduler.yml"}
    assert {version for _, version in found} == {__version__}


def test_the_changelog_has_the_version() -> None:
    assert re.search(rf"^## .*{re.escape(__version__)}", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("version", ["1.20.3", "2.0.0-rc.1"])
def test_a_new_version_is_written_everywhere_by_one_command(version: str, tmp_path: Path) -> None:
    for part in ("deploy", "packages", "scripts", "herodotus_record"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "plugins/headlamp").mkdir(parents=True)
    for file in ("pyproject.toml", "plugins/headlamp/package.json", "plugins/headlamp/package-lock.json"):
        shutil.copy(ROOT / file, tmp_path / file)
    before = {file for file, _ in places(tmp_path)}
    command = ["sh", str(tmp_path / "scripts/set-version.sh"), version]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=100, check=True)
    assert (set(done.stdout.splitlines()), done.stderr) == (before, "")
    assert {found for _, found in places(tmp_path)} == {version}


@pytest.mark.parametrize("arguments", [[], ["next"], ["1.2"]], ids=" ".join)
def test_an_invalid_version_is_rejected(arguments: list[str]) -> None:
    command = ["sh", str(ROOT / "scripts/set-version.sh"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "scripts/set-version.sh 0.2.0" in done.stdout
