"""krew's archive: what krew checks, what is in it, and that it needs nothing but libc, zlib and kubectl.

HERODOTUS_FROZEN names a folder that PyInstaller made from packages/krew/herodotus.spec; without it the slow tests make
one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from herodotus_record.version import __version__
from packages.krew import build
from tests.e2e import control_plane
from tests.e2e.cluster import Cluster, node, pod
from tests.e2e.real_cluster import run_api_server
from tests.processes import ROOT
from tests.support.pseudo_terminal import PseudoTerminal

Json = dict[str, Any]
HERE = ROOT / "packages" / "krew"
PROGRAMS = ("herodotus-scheduler", "kubectl-herodotus", "kubectl_complete-herodotus")
KUBECTL = shutil.which("kubectl", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
# Of krew's validate-krew-manifest: names, hashes, versions, and the files of which one has to be there.
SAFE_NAME, SHA256, SEMVER = r"[\w-]+", r"[a-f0-9]{64}", r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"
LICENCES = {"license", "license.txt", "license.md", "licenses", "licenses.txt", "licenses.md", "copying", "copying.txt"}
MOST_MB = 100


@dataclass(frozen=True)
class Built:
    """An archive with its manifest and formula."""

    archive: Path
    manifest: Json
    formula: str


def run_build(folder: Path, output: Path) -> Built:
    command = [sys.executable, str(HERE / "build.py"), str(output), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1200)
    archive, manifest, formula = map(Path, done.stdout.splitlines())
    assert manifest.name == "herodotus.yaml"
    return Built(archive, yaml.safe_load(manifest.read_text()), formula.read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as PyInstaller makes it, with a link to a library."""
    made = tmp_path / "folder"
    (made / "_internal" / "numpy.libs").mkdir(parents=True)
    (made / "kubectl-herodotus").write_text("program")
    (made / "kubectl-herodotus").chmod(0o755)
    (made / "_internal" / "numpy.libs" / "libblas.so").write_text("library")
    (made / "_internal" / "libblas.so").symlink_to("numpy.libs/libblas.so")
    return made


def check_manifest(manifest: Json, file_name: str) -> None:
    """Check what `validate-krew-manifest` checks (internal/index/validation, cmd/validate-krew-manifest)."""
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    assert re.fullmatch(SAFE_NAME, name)
    assert file_name == f"{name}.yaml"
    assert spec["shortDescription"]
    assert not {"\r", "\n"} & set(spec["shortDescription"])
    assert re.fullmatch(SEMVER, spec["version"])
    assert spec["platforms"]
    selectors = [json.dumps(platform["selector"], sort_keys=True) for platform in spec["platforms"]]
    assert len(set(selectors)) == len(selectors), "overlapping selectors"
    for platform in spec["platforms"]:
        assert platform["uri"]
        assert platform["bin"]
        assert re.fullmatch(SHA256, platform["sha256"])
        assert platform["selector"]["matchLabels"].keys() == {"os", "arch"}
        assert platform["selector"]["matchLabels"]["arch"] in ("amd64", "arm64", "386", "arm", "ppc64le")
        assert all(operation["from"] and operation["to"] for operation in platform["files"])


def test_the_manifest_passes_krews_checks(folder: Path, tmp_path: Path) -> None:
    built = run_build(folder, tmp_path / "out")
    check_manifest(built.manifest, "herodotus.yaml")
    (platform,) = built.manifest["spec"]["platforms"]
    assert platform["uri"].endswith(f"/v{__version__}/{built.archive.name}")
    assert platform["sha256"] == hashlib.sha256(built.archive.read_bytes()).hexdigest()


def test_the_manifest_follows_krews_naming_guide() -> None:
    manifest = yaml.safe_load((HERE / "herodotus.yaml").read_text())
    assert len(manifest["spec"]["shortDescription"]) <= 50
    assert not manifest["spec"]["shortDescription"].endswith(".")
    assert manifest["spec"]["homepage"].startswith("https://")


def test_krew_extracts_every_entry_of_the_archive(folder: Path, tmp_path: Path) -> None:
    """It takes regular files and directories, and no path with `..` or from the root."""
    with tarfile.open(run_build(folder, tmp_path / "out").archive) as archive:
        entries = archive.getmembers()
    assert {e.name: oct(e.mode) for e in entries} == {
        "LICENSE": "0o644",
        "_internal/numpy.libs/libblas.so": "0o644",
        "kubectl-herodotus": "0o755",
    }
    assert all(e.isreg() and (e.uid, e.gid, e.uname, e.gname) == (0, 0, "", "") for e in entries)


def test_the_archive_is_reproducible(folder: Path, tmp_path: Path) -> None:
    first, second = run_build(folder, tmp_path / "a"), run_build(folder, tmp_path / "b")
    assert first.archive.read_bytes() == second.archive.read_bytes()
    assert first.manifest == second.manifest


def test_manifest_and_formula_name_the_archives_of_both_platforms(tmp_path: Path) -> None:
    for architecture in ("amd64", "arm64"):
        (tmp_path / f"herodotus-{__version__}-linux-{architecture}.tar.gz").write_text(architecture)
    build.main([str(tmp_path)])
    manifest, formula = yaml.safe_load((tmp_path / "herodotus.yaml").read_text()), tmp_path / "kubectl-herodotus.rb"
    check_manifest(manifest, "herodotus.yaml")
    sums = {p["selector"]["matchLabels"]["arch"]: p["sha256"] for p in manifest["spec"]["platforms"]}
    assert sums == {a: hashlib.sha256(a.encode()).hexdigest() for a in ("amd64", "arm64")}
    text = formula.read_text()
    assert re.findall(r'sha256 "(\w+)"', text) == [sums["amd64"], sums["arm64"]]
    assert f'version "{__version__}"' in text
    assert not re.search(r"(?<!#)\{", text)


def test_the_formula_is_ruby(folder: Path, tmp_path: Path) -> None:
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("NO RUBY: the formula's syntax is not checked")
    file = tmp_path / "kubectl-herodotus.rb"
    file.write_text(run_build(folder, tmp_path / "out").formula)
    assert subprocess.run([ruby, "-c", file], capture_output=True, check=False).returncode == 0


# --- the archive itself


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    frozen, output = os.environ.get("HERODOTUS_FROZEN"), tmp_path_factory.mktemp("built")
    if frozen is None:
        if find_spec("PyInstaller") is None:
            pytest.skip("NO PYINSTALLER in this environment: the archive is not built")
        command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
        command += [
            "--distpath",
            str(output / "dist"),
            "--workpath",
            str(output / "work"),
            str(HERE / "herodotus.spec"),
        ]
        subprocess.run(command, cwd=ROOT, check=True, timeout=3000)
        frozen = str(output / "dist" / "herodotus")
    return run_build(Path(frozen), output / "out")


@pytest.fixture(scope="module")
def empty_root(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a root file system with libc, zlib, kubectl, and what krew makes of the archive: a folder and a link."""
    root = tmp_path_factory.mktemp("root")
    store = root / "krew" / "store" / "herodotus" / built.manifest["spec"]["version"]
    store.mkdir(parents=True)
    with tarfile.open(built.archive) as archive:
        archive.extractall(store, filter="data")
    for name in ("bin", "tmp", "proc", "dev", "root"):
        (root / name).mkdir()
    for name in ("null", "urandom"):
        (root / "dev" / name).touch()
    program = built.manifest["spec"]["platforms"][0]["bin"]
    (root / "bin" / program).symlink_to(Path("/") / (store / program).relative_to(root))
    assert KUBECTL is not None
    shutil.copy(Path(KUBECTL).resolve(), root / "bin" / "kubectl")
    for library in system_libraries(store):
        target = root / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library.resolve(), target)
    return root


def system_libraries(store: Path) -> set[Path]:
    """Return the libraries that the archive takes from the system: glibc's, and zlib for PyInstaller's start."""
    text = subprocess.run(["ldd", store / "kubectl-herodotus"], capture_output=True, text=True, check=True).stdout
    paths = {Path(word) for word in text.split() if word.startswith("/")}
    assert {path.name.partition(".so")[0] for path in paths} <= {
        "libc",
        "libdl",
        "libpthread",
        "libz",
        "ld-linux-x86-64",
    }
    libc = next(path for path in paths if path.name == "libc.so.6")
    parts = ("libm.so.6", "librt.so.1", "libutil.so.1", "libresolv.so.2")
    return {*paths, *(libc.with_name(name) for name in parts if libc.with_name(name).exists())}


Run = Callable[..., subprocess.CompletedProcess[str]]
Command = Callable[..., list[str]]
VARIABLES = {"HOME": "/root", "NO_COLOR": "1", "PATH": f"/usr/sbin:/usr/bin:/sbin:/bin{os.pathsep}/bin"}


@pytest.fixture(scope="module")
def in_empty_root(empty_root: Path) -> Command:
    """Return what builds a command in the empty root, where only libc, zlib and kubectl are beside the archive."""
    if os.geteuid() != 0:
        pytest.skip("NOT ROOT: no empty root to run the archive in")
    binds = "".join(f"mount --bind /dev/{n} {empty_root}/dev/{n} && " for n in ("null", "urandom"))
    mounts = f"mount -t proc proc {empty_root}/proc && {binds}exec chroot {empty_root} "

    def build_command(*words: str) -> list[str]:
        return ["unshare", "--mount", "--pid", "--fork", "sh", "-c", mounts + shlex.join(words)]

    return build_command


@pytest.fixture(scope="module")
def run(in_empty_root: Command) -> Run:
    """Run a command in the empty root."""

    def run_in_root(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = VARIABLES | variables
        return subprocess.run(in_empty_root(*words), env=env, capture_output=True, text=True, timeout=300, check=False)

    done = run_in_root("/bin/kubectl", "version", "--client")
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"NO MOUNTS on this machine: {done.stderr}")
    return run_in_root


@pytest.fixture(scope="module")
def cluster(empty_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a real API server with two nodes, a pod on one of them, and one that fits nowhere."""
    binaries = control_plane.assets()
    if binaries is None:
        pytest.skip("NO KUBE-APISERVER: the archive is not tried on a real one")
    with run_api_server(binaries, tmp_path_factory.mktemp("plane")) as cluster:
        for name in ("worker-1", "worker-2"):
            cluster.create("/api/v1/nodes", node(name))
        cluster.create(
            "/api/v1/namespaces/default/pods", pod("web", scheduler="default-scheduler", nodeName="worker-1")
        )
        cluster.create("/api/v1/namespaces/default/pods", pod("big", cpu="64", scheduler="default-scheduler"))
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        authority = Path(config["clusters"][0]["cluster"].pop("certificate-authority"))
        config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(
            authority.read_bytes()
        ).decode()
        (empty_root / "kubeconfig").write_text(yaml.safe_dump(config))
        yield cluster


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_archive_has_interpreter_plugin_and_licences(built: Built) -> None:
    check_manifest(built.manifest, "herodotus.yaml")
    with tarfile.open(built.archive) as archive:
        entries = {e.name: e for e in archive.getmembers()}
    assert {name for name in entries if "/" not in name} == {"LICENSE", *PROGRAMS}
    assert all(e.isreg() for e in entries.values())
    assert {Path(name).name.lower() for name in entries} & LICENCES
    assert any(re.fullmatch(r"_internal/libpython3\.\d+\.so[\d.]*", name) for name in entries)
    assert {name.split("/")[1] for name in entries if name.startswith("_internal/")} >= {"numpy", "scheduler", "rich"}
    assert built.archive.stat().st_size < MOST_MB * 1e6


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_runs_without_python(run: Run) -> None:
    done = run("/bin/kubectl", "herodotus", "version", "--client", "-o", "json")
    assert (json.loads(done.stdout or "{}"), done.stderr) == ({"clientVersion": __version__}, "")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_completion_runs_without_python(run: Run) -> None:
    version = f"v{__version__}"
    assert "pending\t" in run(f"/krew/store/herodotus/{version}/kubectl_complete-herodotus", "pen").stdout


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("pending", r"default/big .*(Insufficient )?cpu"),
        ("pod big", r"no node fits|cpu"),
        ("pod web", r"worker-1"),
        ("whatif drain worker-1", r"web"),
        ("pending -o json", r'"big"'),
    ],
)
def test_it_answers_in_local_mode(run: Run, cluster: Cluster, words: str, expected: str) -> None:
    done = run("/bin/kubectl", "herodotus", *words.split(), KUBECONFIG="/kubeconfig")
    assert "Traceback" not in done.stderr
    assert re.search(expected, done.stdout), (done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.timeout(3600)
def test_its_top_simulates_a_drain_on_a_real_api_server(in_empty_root: Command, run: Run, cluster: Cluster) -> None:
    del run, cluster  # the machine can make an empty root, and the API server runs
    terminal = PseudoTerminal(
        in_empty_root("/bin/kubectl", "herodotus", "top", "--local"), VARIABLES | {"KUBECONFIG": "/kubeconfig"}
    )
    try:
        terminal.wait_for(r"worker-1 ")
        terminal.wait_for(r"worker-2 ")
        terminal.wait_for(r"default/big ")
        terminal.press("d")
        terminal.wait_for("SIMULATED, nothing is changed: drain worker-1")
        terminal.press("q")
        assert terminal.wait_for_end() == 0
        terminal.check_restored()
    finally:
        terminal.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_it_evaluates_a_file_of_a_cluster(run: Run, empty_root: Path) -> None:
    items = [node("worker-1"), {**pod("web", scheduler="default-scheduler"), "apiVersion": "v1"}]
    (empty_root / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    done = run("/bin/kubectl", "herodotus", "whatif", "drain", "worker-1", "--cluster-file", "/cluster.json")
    assert "Traceback" not in done.stderr
    assert "worker-1" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kubectl_does_not_find_the_archives_libraries(run: Run, empty_root: Path, cluster: Cluster) -> None:
    """A credential plugin that kubectl starts has its own libraries."""
    shown = empty_root / "shown"
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("NO BUSYBOX: nothing shows the environment")
    shutil.copy(busybox, empty_root / "bin" / "sh")
    shutil.move(empty_root / "bin" / "kubectl", empty_root / "bin" / "kubectl-real")
    try:
        real = empty_root / "bin" / "kubectl"
        real.write_text('#!/bin/sh\necho "[$LD_LIBRARY_PATH]" >> /shown\nexec /bin/kubectl-real "$@"\n')
        real.chmod(0o755)
        run("/bin/kubectl-herodotus", "pending", KUBECONFIG="/kubeconfig", LD_LIBRARY_PATH="/mine")
    finally:
        shutil.move(empty_root / "bin" / "kubectl-real", empty_root / "bin" / "kubectl")
    assert set(shown.read_text().split()) == {"[/mine]"}
