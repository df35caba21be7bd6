"""A directory of wheels without a network: ours, built, and the locked ones that `make test` fetched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from herodotus_record.version import __version__
from tests.packages.lock import export
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


PACKAGES = {
    "kubectl-herodotus": {"herodotus_answers", "herodotus_cli", "herodotus_client", "herodotus_record"},
    "kubectl-herodotus-servers": {
        "herodotus_agents",
        "herodotus_endpoint",
        "herodotus_kube",
        "herodotus_local",
        "herodotus_serving",
        "herodotus_sim",
        "scheduler",
    },
}


PROGRAMS = {
    "kubectl-herodotus": {
        "kubectl-herodotus": "herodotus_cli.main:main",
        "kubectl_complete-herodotus": "herodotus_cli.completion:main",
    },
    "kubectl-herodotus-servers": {
        f"herodotus-{name}": f"herodotus_serving.programs:run_{name}"
        for name in ("scheduler", "endpoint", "agents", "sim")
    },
}


DISTRIBUTIONS = list(PACKAGES)


PLUGINS_LIBRARIES = {"click", "httpx", "pyyaml", "rich"}


def installed(
    distributions: list[str], installation: str, wheel_dir: Path, environment: Path, *, check: bool = True
) -> Path:
    """Create an environment with the locked packages and ours from the directory; return its folder of programs.

    `check` says that every package must have what it asks for.
    """
    uv = str(Path(sys.executable).with_name("uv"))
    env = {"PATH": os.defpath, "UV_CACHE_DIR": str(environment / "cache"), "UV_OFFLINE": "1"}

    def run(*arguments: str) -> None:
        subprocess.run([uv, *arguments], env=env, check=True, capture_output=True, text=True, timeout=200)

    run("venv", "--python", sys.executable, str(environment / "venv"))
    install = ["pip", "install", "--python", str(environment / "venv"), "--no-index", "--find-links", str(wheel_dir)]
    requirements = environment / "requirements.txt"
    requirements.write_text(export(installation))
    run(*install, "--no-deps", "--require-hashes", "--requirement", str(requirements))
    run(*install, "--no-deps", *(f"{distribution}=={__version__}" for distribution in distributions))
    if check:
        run("pip", "check", "--python", str(environment / "venv"))
    return environment / "venv" / "bin"
