"""Shell scripts are POSIX and clean; the image scripts name the version and pass arguments on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from herodotus_record.version import __version__
from tests.processes import ROOT

SCRIPTS = [ROOT / "install.sh", *sorted((ROOT / "scripts").glob("*.sh"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    program = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([program, "--shell=sh", script], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert script.read_text().startswith("#!/bin/sh\n")
    assert os.access(script, os.X_OK)


@pytest.fixture
def docker(tmp_path: Path) -> dict[str, str]:
    """An environment whose docker prints its arguments."""
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\nprintf "docker"; printf " <%s>" "$@"; echo\n')
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def run(script: str, env: dict[str, str], *arguments: str) -> list[str]:
    """The calls of docker."""
    command = ["sh", str(ROOT / "scripts" / script), *arguments]
    done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=100, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("docker")]


REVISION = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
ARGUMENTS = f"<--build-arg> <VERSION={__version__}> <--build-arg> <REVISION={REVISION.stdout.strip() or 'unknown'}>"
IMAGES = ("scheduler", "endpoint", "agents")


def test_images_are_built_from_their_targets_under_this_version(docker: dict[str, str]) -> None:
    tag = "ghcr.io/herodotus-scheduler/herodotus-{}:" + __version__
    assert run("build-images.sh", docker) == [
        f"docker <buildx> <build> <--target> <{image}> <--tag> <{tag.format(image)}> {ARGUMENTS} <--load> <.>"
        for image in IMAGES
    ]


def test_registry_base_and_platforms_can_be_chosen(docker: dict[str, str]) -> None:
    chosen = {"REGISTRY": "r.example.com/x", "BASE": "python:3.13-slim", "PLATFORMS": "linux/arm64"}
    first, *_ = run("push-images.sh", docker | chosen, "--no-cache")
    assert first == (
        f"docker <buildx> <build> <--target> <scheduler> <--tag> <r.example.com/x/herodotus-scheduler:{__version__}>"
        f" {ARGUMENTS} <--build-arg> <BASE=python:3.13-slim> <--platform> <linux/arm64> <--push> <--no-cache> <.>"
    )
