"""Shell scripts are POSIX and clean; the image scripts tag the version and pass arguments on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from herodotus_record.version import __version__
from tests.processes import ROOT

SCRIPTS = [ROOT / "install.sh", ROOT / "packages/images/install.sh", *sorted((ROOT / "scripts").glob("*.sh"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_scripts_pass_shellcheck(script: Path) -> None:
    program = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([program, "--shell=sh", script], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert script.read_text().startswith("#!/bin/sh\n")
    assert os.access(script, os.X_OK)


@pytest.fixture
def docker(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose docker prints its arguments."""
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\nprintf "docker"; printf " <%s>" "$@"; echo\n')
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def run(script: str, env: dict[str, str], *arguments: str) -> list[str]:
    """Run a script and return its calls of docker."""
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
    base = f"python:3.13-slim@sha256:{'0' * 64}"
    chosen = {"REGISTRY": "r.example.com/x", "BASE": base, "PLATFORMS": "linux/arm64"}
    first, *_ = run("push-images.sh", docker | chosen, "--no-cache")
    assert first == (
        f"docker <buildx> <build> <--target> <scheduler> <--tag> <r.example.com/x/herodotus-scheduler:{__version__}>"
        f" {ARGUMENTS} <--build-arg> <BASE={base}> <--platform> <linux/arm64> <--push> <--no-cache> <.>"
    )


def test_another_tag_can_be_chosen_and_digests_kept(docker: dict[str, str], tmp_path: Path) -> None:
    digests = tmp_path / "digests"
    first, *_ = run("build-images.sh", docker | {"TAG": "main", "DIGESTS": str(digests)})
    assert first == (
        "docker <buildx> <build> <--target> <scheduler> <--tag> <ghcr.io/herodotus-scheduler/herodotus-scheduler:main>"
        f" {ARGUMENTS} <--metadata-file> <{digests}/herodotus-scheduler.json> <--load> <.>"
    )
    assert digests.is_dir()


def sign(tmp_path: Path, answers: str) -> "subprocess.CompletedProcess[str]":
    """Run sign-images.sh with a cosign that prints its arguments; docker's metadata of each image is `said`."""
    (tmp_path / "cosign").write_text('#!/bin/sh\nprintf "cosign"; printf " %s" "$@"; echo\n')
    (tmp_path / "cosign").chmod(0o755)
    for image in IMAGES:
        (tmp_path / f"herodotus-{image}.json").write_text(answers)
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "DIGESTS": str(tmp_path), "REGISTRY": "r.example.com"}
    command = ["sh", str(ROOT / "scripts/sign-images.sh"), "sbom.json"]
    return subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=100, check=False)


def test_images_are_signed_and_attested_by_digest(tmp_path: Path) -> None:
    digest = "sha256:" + "0f" * 32
    done = sign(tmp_path, f'{{\n  "buildx.build.ref": "x",\n  "containerimage.digest": "{digest}"\n}}')
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        line
        for image in IMAGES
        for line in (
            f"cosign sign --yes r.example.com/herodotus-{image}@{digest}",
            f"cosign attest --yes --type cyclonedx --predicate sbom.json r.example.com/herodotus-{image}@{digest}",
        )
    ]


def test_without_a_digest_nothing_is_signed(tmp_path: Path) -> None:
    done = sign(tmp_path, "{}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: no digest in {tmp_path}/herodotus-scheduler.json\n"


def test_the_plugin_of_a_clone_names_missing_packages() -> None:
    run = subprocess.run(
        [sys.executable, "-S", "-E", str(ROOT / "kubectl-herodotus"), "pod", "x"],  # -S: no installed packages
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": ""},
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == (
        f"error: {sys.executable} has no package click, which kubectl herodotus needs; run ./install.sh\n"
    )
