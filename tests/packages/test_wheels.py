"""The two wheels: their contents, installation from the lock alone, and the start of what they install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.utils import canonicalize_name

from herodotus_record.version import __version__
from tests.packages.lock import locked
from tests.packages.wheels import DISTRIBUTIONS, PACKAGES, PLUGINS_LIBRARIES, PROGRAMS, PROJECTS, build, installed
from tests.processes import ROOT


def named(wheel_dir: Path, distribution: str) -> zipfile.ZipFile:
    (path,) = wheel_dir.glob(f"{distribution.replace('-', '_')}-{__version__}-py3-none-any.whl")
    return zipfile.ZipFile(path)


def information(distribution: str, file: str) -> str:
    return f"{distribution.replace('-', '_')}-{__version__}.dist-info/{file}"


def metadata(wheel_dir: Path, distribution: str) -> Message:
    with named(wheel_dir, distribution) as wheel:
        return HeaderParser().parsestr(wheel.read(information(distribution, "METADATA")).decode())


# --- contents


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_wheel_has_exactly_its_packages(wheel_dir: Path, distribution: str) -> None:
    """No tests, no benchmarks, and no packages of the other wheel."""
    rooms = [path for room in PACKAGES[distribution] for path in (ROOT / room).rglob("*")]
    expected = {str(p.relative_to(ROOT)) for p in rooms if p.is_file() and "__pycache__" not in p.parts}
    about = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    with named(wheel_dir, distribution) as wheel:
        assert set(wheel.namelist()) == expected | {information(distribution, file) for file in about}
        assert wheel.read(information(distribution, about[-1])) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_wheel_has_version_programs_and_licence(wheel_dir: Path, distribution: str) -> None:
    said = metadata(wheel_dir, distribution)
    assert (said["Name"], said["Version"], said["License-Expression"]) == (distribution, __version__, "Apache-2.0")
    with named(wheel_dir, distribution) as wheel:
        lines = wheel.read(information(distribution, "entry_points.txt")).decode().splitlines()
    assert dict(line.split(" = ") for line in lines if " = " in line) == PROGRAMS[distribution]


def test_the_plugin_needs_no_server_package_and_servers_pin_its_version(wheel_dir: Path) -> None:
    needed = {d: metadata(wheel_dir, d).get_all("Requires-Dist", []) for d in DISTRIBUTIONS}
    always = {line.partition("==")[0] for line in needed["kubectl-herodotus"] if "extra ==" not in line}
    assert always == PLUGINS_LIBRARIES
    assert f"kubectl-herodotus-servers=={__version__}; extra == 'local'" in needed["kubectl-herodotus"]
    assert f"kubectl-herodotus=={__version__}" in needed["kubectl-herodotus-servers"]


@pytest.mark.parametrize("project", PROJECTS, ids=["plugin", "servers"])
def test_a_source_distribution_builds_the_same_wheel(project: Path, wheel_dir: Path, tmp_path: Path) -> None:
    """`python -m build` builds this way, without the clone's other folders."""
    build(project, tmp_path, "sdist")
    (archive,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", archive.name], cwd=tmp_path, check=True, timeout=100)
    build(tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path)
    (again,) = tmp_path.glob("*.whl")
    assert again.read_bytes() == (wheel_dir / again.name).read_bytes()


# --- installed


@pytest.fixture(scope="module")
def plugin(wheel_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(["kubectl-herodotus"], "plugin", wheel_dir, tmp_path_factory.mktemp("plugin"))


@pytest.fixture(scope="module")
def servers(wheel_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(DISTRIBUTIONS, "servers", wheel_dir, tmp_path_factory.mktemp("servers"))


def output(*command: str | Path) -> str:
    env = {"PATH": os.defpath, "HOME": "/nonexistent"}
    done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


def test_the_plugin_prints_its_version_and_completes(plugin: Path) -> None:
    assert output(plugin / "kubectl-herodotus", "version", "--client") == f"Client Version: {__version__}\n"
    assert "pending\t" in output(plugin / "kubectl_complete-herodotus", "pen")


def test_help_of_an_installed_plugin_imports_only_click(plugin: Path) -> None:
    started = (
        "import sys, json, herodotus_cli.command_line\n"
        "names = {n.split('.')[0] for n in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(json.dumps(sorted(names - {'__main__', '_virtualenv'})))\n"
    )
    imported = json.loads(output(plugin / "python", "-c", started))
    assert imported == ["click", "herodotus_cli", "herodotus_client"]


@pytest.mark.parametrize(
    ("program", "argument", "said"),
    [
        ("herodotus-scheduler", "--version", f"{__version__}\n"),
        ("herodotus-endpoint", "--version", f"{__version__}\n"),
        ("herodotus-agents", "--version", f"{__version__}\n"),
        ("herodotus-sim", "--help", "usage: "),
    ],
)
def test_an_installed_server_starts_and_prints_its_version(
    servers: Path, program: str, argument: str, said: str
) -> None:
    assert output(servers / program, argument).startswith(said)


@pytest.mark.parametrize("program", PROGRAMS["kubectl-herodotus-servers"])
def test_an_installed_server_ends_with_one_line_on_a_foreign_scheduler(
    servers: Path, program: str, tmp_path: Path
) -> None:
    (tmp_path / "scheduler.py").write_text("raise SystemExit('the foreign module was executed')")
    env = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([servers / program, "--help"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: the package `scheduler` at {tmp_path / 'scheduler.py'} is another project's")


def test_an_installed_service_finds_its_migrations(servers: Path, tmp_path: Path) -> None:
    """It reads these files and does not import them."""
    make = "import sys, herodotus_endpoint.store as s; s.Store(s.sqlite_url(sys.argv[1])).close()"
    output(servers / "python", "-c", make, str(tmp_path / "herodotus.db"))
    assert (tmp_path / "herodotus.db").stat().st_size > 0


def test_a_bill_of_materials_names_every_package_with_its_licence(plugin: Path) -> None:
    """Generated as by `make sbom`."""
    program = Path(sys.executable).with_name("cyclonedx-py")
    bill = json.loads(output(program, "environment", "--output-reproducible", str(plugin / "python")))
    here = {e.name for e in locked("plugin") if not e.marker or Marker(e.marker).evaluate()}
    assert {canonicalize_name(c["name"]) for c in bill["components"]} == here | {"kubectl-herodotus"}
    assert all(c["licenses"] and c["purl"].startswith("pkg:pypi/") for c in bill["components"])
    assert str(plugin) not in json.dumps(bill)
