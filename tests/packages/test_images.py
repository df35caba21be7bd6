"""The Dockerfile: locked dependencies, every platform, and images that run as an unprivileged user.

`python -m scripts.check_images`, which takes minutes and root, checks the result of its steps.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.check_images import IMAGES
from scripts.dockerfile import BuildStage, parse_stages
from tests.packages.lock import locked
from tests.packages.wheels import DISTRIBUTIONS, PROGRAMS, installed
from tests.processes import ROOT

TEXT = (ROOT / "Dockerfile").read_text()
SCRIPT = (ROOT / "packages/images/install.sh").read_text()
NO_DEPENDENCIES = (
    '/build/bin/python -m pip --python /opt/herodotus/bin/python install --no-cache-dir --no-compile --no-deps "$@"'
)
GIVEN = {"VERSION": "1.2.3", "REVISION": "abc"}
FOUND = parse_stages(TEXT, GIVEN)
LABELS = {"title", "description", "licenses", "source", "version", "revision", "base.name"}


def steps(*instructions: str) -> list[tuple[str, ...]]:
    return [step.words for stage in FOUND.values() for step in stage.steps if step.instruction in instructions]


def image(name: str) -> BuildStage:
    return FOUND[name]


def test_there_is_a_target_for_each_image_and_one_base_for_all() -> None:
    assert set(FOUND) == {"build", "runtime", *IMAGES, *(f"{name}-environment" for name in IMAGES)}
    assert {FOUND[name].base for name in ("build", "runtime")} == {"python:3.11-slim"}
    assert {image(name).base for name in IMAGES} == {"runtime"}


@pytest.mark.parametrize("base", ["python:3.13-slim", f"r.example.com:5000/python:3.11-slim@sha256:{'0' * 64}"])
def test_another_base_can_be_chosen_also_by_its_digest(base: str) -> None:
    other = parse_stages(TEXT, {**GIVEN, "BASE": base})
    assert {other[name].base for name in ("build", "runtime")} == {base}
    assert other["runtime"].labels["org.opencontainers.image.base.name"] == base


@pytest.mark.parametrize("installation", ["otlp", "archive"])
def test_an_image_with_an_extra_is_another_installation_of_the_lock(installation: str) -> None:
    built = parse_stages(TEXT, {**GIVEN, "INSTALLATION": installation})
    (step,) = FOUND["endpoint-environment"].steps
    (other,) = built["endpoint-environment"].steps
    assert step.words == ("packages/images/install.sh ${INSTALLATION}",)
    assert [step.environment["INSTALLATION"], other.environment["INSTALLATION"]] == ["endpoint", installation]
    assert locked(installation)


OWN = {
    "scheduler": ("scheduler", "herodotus_sim", "herodotus_kube", "herodotus_record"),
    "endpoint": ("herodotus_endpoint", "herodotus_kube", "herodotus_record", "herodotus_serving"),
    "agents": ("herodotus_agents", "herodotus_kube", "herodotus_record", "herodotus_serving"),
}
OPTIONAL = {"duckdb", "opentelemetry", "optuna", "pyarrow"}  # extras: only what needs them imports such modules
IMPORT_ALL = f"""
import importlib, pkgutil, sys
for package in sys.argv[1:]:
    for module in pkgutil.walk_packages([*importlib.import_module(package).__path__], package + "."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as e:
                if e.name.split(".")[0] not in {OPTIONAL}:
                    raise
"""


@pytest.mark.parametrize("name", IMAGES)
def test_the_packages_of_an_image_suffice_for_every_module_of_its_programs(
    name: str, wheel_dir: Path, tmp_path: Path
) -> None:
    programs = installed(DISTRIBUTIONS, name, wheel_dir, tmp_path, check=False)
    command = [str(programs / "python"), "-c", IMPORT_ALL, *OWN[name]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_starts_its_installed_program_as_a_numeric_user(name: str) -> None:
    """Kubernetes can verify that a numeric user is not root (runAsNonRoot), but not a name."""
    stage = image(name)
    assert stage.entrypoint == (f"/opt/herodotus/bin/herodotus-{name}",)
    assert f"herodotus-{name}" in PROGRAMS["kubectl-herodotus-servers"]
    assert (stage.command, stage.user, stage.workdir) == (("--help",), "65532:65532", "/opt/herodotus")
    assert stage.environment["PYTHONDONTWRITEBYTECODE"] == "1"  # its root is read-only


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_has_descriptive_labels(name: str) -> None:
    labels = {k.removeprefix("org.opencontainers.image."): v for k, v in image(name).labels.items()}
    assert labels.keys() == LABELS
    given = {"title": f"herodotus-{name}", "version": "1.2.3", "revision": "abc", "base.name": "python:3.11-slim"}
    assert given.items() <= labels.items()
    assert all(labels.values())


def test_packages_are_locked_by_hash_and_never_compiled() -> None:
    """So the steps are the same on every platform, and the last stage needs no compiler."""
    lines = [part for (line,) in steps("RUN") for part in line.split("&&")] + SCRIPT.splitlines()
    installs = [line.strip() for line in lines if " install --no-cache-dir" in line or line.startswith("pip ")]
    assert len(installs) == 4
    for command in installs:
        locked = "--require-hashes" in command and "--only-binary :all:" in command
        assert locked or command in ("pip --no-index /wheels/*.whl", NO_DEPENDENCIES), command
    assert not re.search(r"\b(apt-get|apk|curl|wget|ADD)\b", TEXT)
    assert "uname" not in TEXT
    assert "TARGETARCH" not in TEXT


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_contains_only_its_environment(name: str) -> None:
    (step,) = image(name).steps
    assert (step.source, step.words) == (f"{name}-environment", ("/opt/herodotus", "/opt/herodotus"))
    assert [step.instruction for step in FOUND["runtime"].steps] == ["WORKDIR"]


def test_what_is_copied_is_there_and_the_context_holds_nothing_else() -> None:
    copied = {w for s in FOUND["build"].steps if s.instruction == "COPY" for w in s.words[:-1]}
    assert all((ROOT / path).exists() for path in copied)
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    allowed = {line[1:] for line in lines if line.startswith("!")} - {"packages"}  # of which two folders
    assert allowed == copied


@pytest.mark.parametrize("line", ["VOLUME /data", "HEALTHCHECK NONE", "ADD x y"])
def test_an_unknown_instruction_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=f"unknown instruction: {line}"):
        parse_stages(f"FROM x AS y\n{line}\n", {})
