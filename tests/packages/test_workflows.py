"""The workflows: their programs exist, their actions are pinned, and no job has more rights than it needs.

`make lint` checks their schema and security (check-jsonschema, zizmor).
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.processes import ROOT

WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
ACTION = re.compile(r"^[\w-]+/[\w-]+@[0-9a-f]{40}$")
RUNNERS_OWN = {
    "awk",
    "sudo",
    "docker",
    "helm",
    "gh",
    "test",
    "printf",
    "sha256sum",
    "cosign",
}  # of ubuntu-24.04, and installed


def read(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOWS[name].read_text())
    return found


def jobs(name: str) -> dict[str, dict[str, Any]]:
    return dict(read(name)["jobs"])


def lines() -> list[str]:
    """Return every line that a step runs."""
    steps = [s for name in WORKFLOWS for job in jobs(name).values() for s in job.get("steps", [])]
    return [line.strip() for step in steps if "run" in step for line in step["run"].splitlines() if line.strip()]


def test_workflows_exist_for_changes_main_and_releases() -> None:
    """YAML 1.1 reads the key `on` as true."""
    triggers = {name: read(name)[True] for name in WORKFLOWS}
    assert triggers == {
        "ci": {"pull_request": None, "workflow_call": None},
        "images": {"push": {"branches": ["main"]}, "workflow_call": None},
        "release": {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+*"]}},
    }


def test_only_tested_artifacts_are_published() -> None:
    assert jobs("images")["images"]["needs"] == "test"
    assert jobs("images")["test"]["uses"] == "./.github/workflows/ci.yml"
    assert jobs("release")["release"]["needs"] == ["images", "archive"]
    assert jobs("release")["archive"]["needs"] == "images"
    assert jobs("release")["images"]["uses"] == "./.github/workflows/images.yml"
    assert "make test" in lines()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_commit_with_their_version(name: str) -> None:
    text = WORKFLOWS[name].read_text()
    used = re.findall(r"uses: (\S+)(.*)$", text, re.MULTILINE)
    for action, comment in used:
        if action.startswith("./"):
            assert (ROOT / action).exists()
        else:
            assert ACTION.match(action), action
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_an_action_has_one_version_everywhere() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS.values())
    used = set(re.findall(r"uses: ([\w-]+/[\w-]+)@(\w+)", text))
    assert len(used) == len({action for action, _ in used})


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_job_has_explicit_rights_a_timeout_and_no_credentials_in_its_clone(name: str) -> None:
    assert read(name)["permissions"] == {}
    for job in jobs(name).values():
        assert "permissions" in job
        if "steps" not in job:
            continue
        assert job["timeout-minutes"] <= 60
        (checkout,) = (s for s in job["steps"] if s.get("uses", "").startswith("actions/checkout@"))
        assert checkout["with"]["persist-credentials"] is False


def test_only_publishing_jobs_may_write() -> None:
    writing = {
        (name, job): {right for right, what in found["permissions"].items() if what == "write"}
        for name in WORKFLOWS
        for job, found in jobs(name).items()
        if "write" in found["permissions"].values()
    }
    assert writing == {
        ("images", "images"): {"packages", "id-token"},
        ("release", "images"): {"packages", "id-token"},
        ("release", "release"): {"contents", "packages", "id-token"},
    }


def test_programs_and_targets_of_steps_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in lines():
        words = line.removeprefix("sudo ").split()
        if words[0] == "make":
            assert set(words[1:]) <= targets, line
        elif words[:3] == ["python3", "-m", "scripts.check_images"]:
            assert (ROOT / "scripts" / "check_images.py").exists()
        elif words[0].startswith("scripts/"):
            assert (ROOT / Path(words[0])).exists(), line
        elif not words[0].startswith(("--", "./*", ".venv/bin/uv")):
            assert words[0] in RUNNERS_OWN | {"apt-get", "debootstrap"}, line


CHANGES = """# Changelog

## [0.2.0] - 2027-01-02

### Added

- Two.

## [0.2.0-rc.1] - 2026-12-01

- A candidate.

## [0.1.0] - 2026-11-01

- One.
"""


@pytest.mark.parametrize(
    ("tag", "notes"),
    [("v0.2.0", "### Added\n\n- Two."), ("v0.2.0-rc.1", "- A candidate."), ("v0.1.0", "- One."), ("v0.2", None)],
)
def test_release_notes_are_the_section_of_the_release(tag: str, notes: str | None, tmp_path: Path) -> None:
    """A tag without a section ends the release."""
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    (step,) = (
        s for s in jobs("release")["release"]["steps"] if s.get("name") == "The release's section of the changelog"
    )
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=os.environ | {"GITHUB_REF_NAME": tag}, check=False
    )
    assert (done.returncode == 0) == (notes is not None)
    assert (tmp_path / "notes.md").read_text().strip() == (notes or "")
