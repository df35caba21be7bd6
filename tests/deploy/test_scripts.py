"""Shell scripts are POSIX and clean; the image scripts name the version and pass arguments on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_images_are_built_from_their_dockerfiles_under_this_version(docker: dict[str, str]) -> None:
    registry = "ghcr.io/herodotus-scheduler"
    assert run("build-images.sh", docker) == [
        f"docker <buildx> <build> <--file> <{file}> <--tag> <{registry}/{name}:0.1.0> <--load> <.>"
        for file, name in (
            ("Dockerfile", "herodotus-scheduler"),
            ("herodotus_endpoint/Dockerfile", "herodotus-endpoint"),
            ("herodotus_agents/Dockerfile", "herodotus-agents"),
        )
    ]


def test_registry_base_and_platforms_can_be_chosen(docker: dict[str, str]) -> None:
    chosen = {"REGISTRY": "r.example.com/x", "BASE": "python:3.13-slim", "PLATFORMS": "linux/arm64"}
    first, *_ = run("push-images.sh", docker | chosen, "--no-cache")
    assert first == (
        "docker <buildx> <build> <--build-arg> <BASE=python:3.13-slim> <--file> <Dockerfile>"
        " <--tag> <r.example.com/x/herodotus-scheduler:0.1.0> <--platform> <linux/arm64> <--push> <--no-cache> <.>"
    )


@pytest.mark.parametrize("file", ["Dockerfile", "herodotus_endpoint/Dockerfile", "herodotus_agents/Dockerfile"])
def test_dockerfiles_copy_what_there_is_and_start_what_is_installed(file: str) -> None:
    lines = (ROOT / file).read_text().splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert all((ROOT / path).exists() for path in copied)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{path}" for path in copied} <= set(ignored)
    (start,) = (line for line in lines if line.startswith("ENTRYPOINT"))
    assert Path(start.split('"')[1]).name in (ROOT / "deploy/servers/pyproject.toml").read_text()
    assert "USER 65532:65532" in lines
