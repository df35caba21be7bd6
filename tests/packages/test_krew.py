"""krew's archive: kubectl finds the plugin after krew's steps, and it needs only Python."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_record.version import __version__
from tests.packages.lock import locked
from tests.packages.wheels import PLUGINS_LIBRARIES
from tests.processes import ROOT

BUILD = ROOT / "packages" / "krew" / "build.py"


@dataclass(frozen=True)
class Built:
    """An archive, and its manifest."""

    archive: Path
    manifest: dict[str, Any]

    @property
    def platform(self) -> dict[str, Any]:
        (found,) = self.manifest["spec"]["platforms"]
        return dict(found)


def build(wheel_dir: Path, output: Path) -> Built:
    wheels = [str(path) for path in sorted(wheel_dir.glob(f"kubectl_herodotus-{__version__}-*.whl"))]
    for entry in sorted(locked("plugin"), key=lambda e: e.name):
        name = entry.name.replace("-", "_")
        (found,) = wheel_dir.glob(f"[{name[0]}{name[0].upper()}]{name[1:]}-{entry.version}-*.whl")
        wheels.append(str(found))
    command = [sys.executable, str(BUILD), str(output), *wheels]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    archive, manifest = map(Path, done.stdout.splitlines())
    return Built(archive, yaml.safe_load(manifest.read_text()))


@pytest.fixture(scope="module")
def built(wheel_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(wheel_dir, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install as krew does: check the sum, unpack, move `files`, link the executable; return the folder for PATH."""
    root = tmp_path_factory.mktemp("krew")
    assert hashlib.sha256(built.archive.read_bytes()).hexdigest() == built.platform["sha256"]
    unpacked, store = root / "unpacked", root / "store" / "herodotus" / built.manifest["spec"]["version"]
    with tarfile.open(built.archive) as archive:
        archive.extractall(unpacked, filter="data")
    store.mkdir(parents=True)
    for operation in built.platform["files"]:
        for path in unpacked.glob(operation["from"]):
            shutil.move(path, (store / operation["to"]).resolve())
    (root / "bin").mkdir()
    executable = store / built.platform["bin"]
    (root / "bin" / f"kubectl-{built.manifest['metadata']['name']}").symlink_to(executable)
    return root / "bin"


def run(*command: str, path: Path | str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{path}{os.pathsep}{os.defpath}", "HOME": "/nonexistent"}
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=100, check=False)


def test_the_manifest_is_valid_for_krew(built: Built) -> None:
    """The rules are from krew's documentation: Plugin Manifest and Naming guide."""
    manifest = built.manifest
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert manifest["metadata"] == {"name": "herodotus"}
    assert manifest["spec"]["version"] == f"v{__version__}"
    assert manifest["spec"]["homepage"].startswith("https://")
    assert 0 < len(manifest["spec"]["shortDescription"]) <= 50
    assert not manifest["spec"]["shortDescription"].endswith(".")
    assert built.platform.keys() == {"selector", "uri", "sha256", "bin", "files"}
    assert built.platform["selector"] == {"matchLabels": {"os": "linux", "arch": "amd64"}}
    assert built.platform["uri"].endswith(f"/v{__version__}/{built.archive.name}")


def test_the_archive_is_reproducible(built: Built, wheel_dir: Path, tmp_path: Path) -> None:
    again = build(wheel_dir, tmp_path)
    assert again.archive.read_bytes() == built.archive.read_bytes()
    assert again.manifest == built.manifest


def test_the_archive_has_the_plugin_and_its_pure_python_dependencies(built: Built) -> None:
    with tarfile.open(built.archive) as archive:
        entries = archive.getmembers()
    assert all(e.isfile() and (e.uid, e.gid, e.uname, e.gname) == (0, 0, "", "") for e in entries)
    outside = {e.name: oct(e.mode) for e in entries if not e.name.startswith("lib/")}
    assert outside == {"LICENSE": "0o644", "kubectl-herodotus": "0o755", "kubectl_complete-herodotus": "0o755"}
    installed = {e.name.split("/")[1].partition("-")[0] for e in entries if ".dist-info/" in e.name}
    assert installed == {e.name.replace("-", "_") for e in locked("plugin")} | {"kubectl_herodotus"}
    assert installed > PLUGINS_LIBRARIES
    assert {Path(e.name).suffix for e in entries} & {".so", ".pyd", ".pyc", ".dll"} == set()


def test_kubectl_finds_the_plugin_without_a_warning(installed: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("NO KUBECTL, neither in the virtual environment nor on PATH")
    python = installed.parent / "python"  # as `python3`, whatever else this machine has
    python.mkdir()
    (python / "python3").symlink_to(sys.executable)
    path = f"{installed}{os.pathsep}{python}"
    said = run(kubectl, "herodotus", "version", "--client", "-o", "json", path=path)
    assert (json.loads(said.stdout), said.stderr) == ({"clientVersion": __version__}, "")
    listed = run(kubectl, "plugin", "list", path=path)
    assert listed.returncode == 0
    assert [line for line in listed.stdout.splitlines() if line.startswith(str(installed))] == [
        f"{installed}/kubectl-herodotus"
    ]
    assert str(installed) not in listed.stderr


def test_it_runs_with_its_own_libraries(installed: Path) -> None:
    """With -S the interpreter's own libraries are not on the path."""
    program = installed / "kubectl-herodotus"
    code = (
        "import os, runpy, sys\n"
        "files = lambda: [sys.modules[name].__file__ for name in ('click', 'httpx')]\n"
        "os._exit = lambda code: print(code, *files(), sep='\\n')\n"  # as the plugin ends
        "sys.argv[1:] = ['pod', 'x', '--endpoint', 'http://127.0.0.1:1']\n"
        f"runpy.run_path({str(program)!r}, run_name='__main__')\n"
    )
    said = run(sys.executable, "-S", "-c", code, path="")
    assert "(http://127.0.0.1:1: Connection refused)" in said.stderr
    lib = program.resolve().with_name("lib")
    assert said.stdout.splitlines() == ["1", *(str(lib / name / "__init__.py") for name in ("click", "httpx"))]


def test_the_archive_has_completion(installed: Path) -> None:
    completion = (installed / "kubectl-herodotus").resolve().with_name("kubectl_complete-herodotus")
    assert "pending\t" in run(sys.executable, str(completion), "pen", path="").stdout


@pytest.mark.parametrize("newer", [True, False], ids=["a newer one beside it", "no other"])
def test_an_old_python_starts_a_newer_one_or_names_the_required_version(
    installed: Path, tmp_path: Path, newer: bool
) -> None:
    """The version is faked: the test below checks that the file's syntax is valid in 3.6."""
    if newer:
        (tmp_path / "python3.12").symlink_to(sys.executable)
    old = f"import sys; sys.version_info = (3, 8, 10); exec(open({str(installed / 'kubectl-herodotus')!r}).read())"
    code = f"__file__ = {str(installed / 'kubectl-herodotus')!r}; {old}"
    env = {"PATH": str(tmp_path), "HOME": "/nonexistent"}
    command = [sys.executable, "-c", code, "version", "--client"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)
    if newer:
        assert (done.returncode, done.stdout) == (0, f"Client Version: {__version__}\n")
    else:
        message = "error: Python 3.10 or later is needed, and python3 is 3.8\n"
        assert (done.returncode, done.stderr) == (1, message)


def test_every_python_3_parses_the_launcher() -> None:
    ast.parse((BUILD.parent / "kubectl-herodotus").read_text(), feature_version=(3, 4))
