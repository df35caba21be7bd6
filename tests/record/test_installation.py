"""The command that adds an extra fits the installation, and another project's `scheduler` is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from herodotus_record import installation
from tests.processes import ROOT

PROGRAMS = ("scheduler", "endpoint", "agents", "sim")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that the running Python is that of an environment without a clone; return its directory."""
    folder = tmp_path / "kubectl-herodotus"
    packages = folder / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
    monkeypatch.setattr(installation, "_packages", lambda: packages)
    return folder


def test_a_clone_adds_an_extra_with_its_own_installer() -> None:
    assert installation.describe_extra_installation("mcp") == f"{ROOT / 'install.sh'} --with mcp"


def test_an_installation_of_install_sh_is_named_with_its_prefix(environment: Path) -> None:
    (environment.parent / "installed").write_text("link /x\nscript /a b/install.sh\nprefix /p\n")
    assert installation.describe_extra_installation("archive") == "'/a b/install.sh' --prefix /p --with archive"


@pytest.mark.parametrize(
    ("mark", "command"),
    [
        ("pipx_metadata.json", "pipx runpip kubectl-herodotus install 'kubectl-herodotus[mcp]'"),
        ("uv-receipt.toml", "uv tool install kubectl-herodotus --with 'kubectl-herodotus[mcp]'"),
        ("herodotus-image", "images hold the servers alone; on your machine: ./install.sh --with mcp"),
    ],
)
def test_pipx_uv_tool_and_images_have_their_own_ways(environment: Path, mark: str, command: str) -> None:
    (environment / mark).write_text("")
    assert installation.describe_extra_installation("mcp") == command


def test_an_image_names_the_build_that_has_the_extra(environment: Path) -> None:
    (environment / installation.IMAGE_MARK).write_text("")
    assert installation.describe_extra_installation("otlp").endswith("--build-arg INSTALLATION=otlp")


def test_another_environment_names_the_pip_of_its_python(environment: Path) -> None:
    python = environment / "bin" / "python"
    assert (
        installation.describe_extra_installation("parquet")
        == f"{python} -m pip install 'kubectl-herodotus-servers[parquet]'"
    )


def test_krews_archive_names_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    hint = installation.describe_extra_installation("mcp")
    assert hint.startswith("pipx install 'kubectl-herodotus[mcp]'")
    assert "krew" in hint


@pytest.mark.parametrize("form", ["scheduler/__init__.py", "scheduler.py"])
@pytest.mark.parametrize(
    "statement",
    [
        "from herodotus_record.installation import require_own_scheduler as r; r()",
        "from herodotus_cli.transport.local import is_installed; is_installed()",
    ],
)
def test_a_foreign_scheduler_is_refused_with_both_names(form: str, statement: str, tmp_path: Path) -> None:
    (tmp_path / form).parent.mkdir(exist_ok=True)
    (tmp_path / form).write_text("raise SystemExit('the foreign package was executed')")
    env = {"PATH": os.defpath, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", statement], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert f"{tmp_path / form} is another project's, and not that of kubectl-herodotus-servers" in last


@pytest.mark.parametrize("form", ["scheduler/__init__.py", "scheduler.py"])
@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["-c", f"from herodotus_serving import programs as p; raise SystemExit(p.run_{program}())"]
            for program in PROGRAMS
        ),
        ["-m", "herodotus_agents"],
    ],
    ids=[*PROGRAMS, "python -m herodotus_agents"],
)
def test_a_program_ends_with_one_line_on_a_foreign_scheduler(arguments: list[str], form: str, tmp_path: Path) -> None:
    (tmp_path / form).parent.mkdir(exist_ok=True)
    (tmp_path / form).write_text("raise SystemExit('the foreign package was executed')")
    env = {"PATH": os.defpath, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-P", *arguments, "--version"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: the package `scheduler` at {tmp_path / form} is another project's")
    assert (done.returncode, done.stdout) == (1, "")


def test_our_own_scheduler_is_accepted() -> None:
    installation.require_own_scheduler()
