"""A directory of wheels, without a network: our own, built, and those that `make test` fetched by the locks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

FETCHED = Path(sys.prefix) / "wheels"
PROJECTS = (ROOT, ROOT / "packages" / "servers")


def build(project: Path, directory: Path, target: str = "wheel") -> None:
    """A distribution's wheel or sdist, without isolation: the backend is the one that is locked."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(directory)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=100)


def wheels(directory: Path) -> Path:
    """What install.sh --wheels wants."""
    if not FETCHED.is_dir():
        pytest.skip(f"NOT RUN: no wheels in {FETCHED}; make test puts them there")
    for project in PROJECTS:
        build(project, directory)
    for wheel in FETCHED.glob("*.whl"):
        (directory / wheel.name).symlink_to(wheel)
    return directory
