"""A directory of wheels without a network: ours, built, and the locked ones that `make test` fetched."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

FETCHED = Path(sys.prefix) / "wheels"
PROJECTS = (ROOT, ROOT / "packages" / "servers")


def build(project: Path, directory: Path, target: str = "wheel") -> None:
    """Build a distribution's wheel or sdist without isolation, by the locked backend."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(directory)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=100)


def wheels(directory: Path) -> Path:
    """Fill a directory with the wheels that install.sh --wheels needs."""
    if not FETCHED.is_dir():
        pytest.skip(f"NOT RUN: no wheels in {FETCHED}; make test puts them there")
    for project in PROJECTS:
        build(project, directory)
    for wheel in FETCHED.glob("*.whl"):
        (directory / wheel.name).symlink_to(wheel)
    return directory
