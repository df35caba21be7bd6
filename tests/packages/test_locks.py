"""The lock names all dependencies of the distributions, by hash, and no index."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import distribution
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import tomllib
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from herodotus_record.version import __version__
from scripts.lock import INSTALLATIONS, LOCK
from tests.packages.lock import locked
from tests.processes import ROOT

LEFT_OUT = ROOT / "packages" / "images"


def project(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path / "pyproject.toml").read_text())


PLUGIN, SERVERS = project("."), project("packages/servers")


def group(name: str) -> list[str]:
    """Return a dependency group with the groups that it includes."""
    lines = PLUGIN["dependency-groups"][name]
    return [r for line in lines for r in (group(line["include-group"]) if isinstance(line, dict) else [line])]


def needs(found: dict[str, Any]) -> list[str]:
    return [line for line in found["project"]["dependencies"] if line != f"kubectl-herodotus=={__version__}"]


EXTRAS = [
    line
    for found in (PLUGIN, SERVERS)
    for line in chain.from_iterable(found["project"]["optional-dependencies"].values())
    if not line.startswith("kubectl-herodotus")
]
SERVED = needs(PLUGIN) + needs(SERVERS)
DIRECT = {
    "plugin": needs(PLUGIN),
    "mcp": needs(PLUGIN) + PLUGIN["project"]["optional-dependencies"]["mcp"],
    "top": needs(PLUGIN) + PLUGIN["project"]["optional-dependencies"]["top"],
    "tune": needs(PLUGIN) + PLUGIN["project"]["optional-dependencies"]["tune"],
    "servers": SERVED,
    "scheduler": SERVED,
    "endpoint": SERVED,
    "agents": SERVED,
    "otlp": SERVED + SERVERS["project"]["optional-dependencies"]["otlp"],
    "archive": SERVED
    + [line for extra in ("otlp", "archive") for line in SERVERS["project"]["optional-dependencies"][extra]],
    "build": group("build"),
    "kubectl": group("kubectl"),
    "dev": SERVED + EXTRAS + group("dev"),
    "s3": group("s3"),
}
TOGETHER = DIRECT.keys() - {"s3"}  # that one is installed in an environment of its own
IMAGES = {
    "scheduler": "scheduler",
    "endpoint": "endpoint",
    "agents": "agents",
    "otlp": "endpoint",
    "archive": "endpoint",
}


def left_out(installation: str) -> set[str]:
    """Return the packages that the image of an installation does not install although its requirements name them."""
    files = ("common.txt", f"{IMAGES[installation]}.txt") if installation in IMAGES else ()
    lines = [line for name in files for line in (LEFT_OUT / name).read_text().splitlines()]
    return {canonicalize_name(line) for line in lines if not line.startswith("#")}


def closure(requirements: list[str], without: set[str]) -> set[tuple[str, str]]:
    """Return the distributions that these need on this machine, by the metadata of the installed ones.

    Each with each of its extras that are needed, and with "". Those of `without` are not needed.
    """
    seen: set[tuple[str, str]] = set()
    todo = [(Requirement(line), "") for line in requirements]
    while todo:
        requirement, extra = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name in without:
            continue
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                todo += [(Requirement(line), wanted) for line in distribution(name).requires or ()]
    return seen


def test_every_installation_is_in_the_lock() -> None:
    assert INSTALLATIONS.keys() == DIRECT.keys()
    assert {
        name for line in re.findall(r"^# for: (.*)$", LOCK.read_text(), re.MULTILINE) for name in line.split()
    } == set(DIRECT)
    assert PLUGIN["build-system"]["requires"] == SERVERS["build-system"]["requires"] == group("build")


def test_an_unknown_installation_is_an_error() -> None:
    run = subprocess.run(
        [ROOT / "packages/locked.sh", "plugin", "serversx"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (1, "error: no installation is called serversx\n")


@pytest.mark.parametrize("installation", DIRECT)
def test_the_lock_agrees_with_the_pins(installation: str) -> None:
    """After a change of a pin, run `make lock`."""
    versions = {entry.name: entry.version for entry in locked(installation)}
    pinned = [
        r for r in map(Requirement, DIRECT[installation]) if canonicalize_name(r.name) not in left_out(installation)
    ]
    assert all(str(r.specifier) == f"=={versions[canonicalize_name(r.name)]}" for r in pinned)


@pytest.mark.parametrize("installation", sorted(TOGETHER))
def test_an_installation_takes_exactly_the_needed_packages(installation: str) -> None:
    """Extras too: pip takes no hash from a line without the extra, and prefers a newer release that has none."""
    here = {e for e in locked(installation) if not e.marker or Marker(e.marker).evaluate()}
    named = {(canonicalize_name(e.name), extra) for e in here for extra in {"", *filter(None, e.extras.split(","))}}
    assert named == closure(DIRECT[installation], left_out(installation))


def test_the_lock_has_a_hash_for_every_package_and_no_index() -> None:
    text = LOCK.read_text()
    for entry in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]:
        assert re.search(r"^    --hash=sha256:[0-9a-f]{64}", entry, re.MULTILINE), entry
    assert "://" not in text
    assert not re.search(r"^\s*-(?!-hash)", text, re.MULTILINE)  # no option of pip's: no index, no folder


@pytest.mark.parametrize("installation", sorted(TOGETHER))
def test_installations_have_the_versions_that_are_tested(installation: str) -> None:
    tested = {(entry.name, entry.version) for entry in locked("dev")}
    only_elsewhere = {e.name for e in locked(installation) if e.marker and not Marker(e.marker).evaluate()}
    assert {(e.name, e.version) for e in locked(installation) if e.name not in only_elsewhere} <= tested


def test_installed_versions_are_the_locked_ones() -> None:
    here = {e for e in locked("dev") if not e.marker or Marker(e.marker).evaluate()}
    assert {(e.name, distribution(e.name).version) for e in here} == {(e.name, e.version) for e in here}


def test_every_dependency_has_a_reason() -> None:
    """The reason is in the same line."""
    for path in (ROOT / "pyproject.toml", ROOT / "packages/servers/pyproject.toml"):
        silent = re.findall(r'^    "[^"]+==[^"]+",\s*$', path.read_text(), re.MULTILINE)
        assert not silent, Path(path).relative_to(ROOT)
