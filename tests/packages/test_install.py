"""install.sh, from wheels into a prefix: atomic, repeatable, and removed without a trace."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from herodotus_record.version import __version__
from tests.packages.wheels import FETCHED
from tests.processes import ROOT

INSTALL = ROOT / "install.sh"
PLUGIN = "kubectl-herodotus"
OWN = f"kubectl_herodotus-{__version__}-py3-none-any.whl"
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
Tree = dict[str, str]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Return a prefix that does not exist yet, with a space in its name."""
    return tmp_path / "some where" / "prefix"


@pytest.fixture(scope="module")
def installed(wheel_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a prefix with an installation that tests do not change."""
    prefix = tmp_path_factory.mktemp("installed") / "pre fix"
    done = install("--prefix", str(prefix), "--wheels", str(wheel_dir))
    assert (done.returncode, done.stderr) == (0, "")
    return prefix


def environment(prefix: Path | None = None, *, uv: bool = True, **more: str) -> dict[str, str]:
    """Return an environment without network and HOME; with uv, which is faster, or with pip where it matters."""
    path = [str(prefix / "bin")] if prefix else []
    path += [str(Path(sys.executable).parent)] if uv else []
    path += [p for p in os.get_exec_path() if not (Path(p) / "uv").exists()]
    settings = {"UV_OFFLINE": "1", "UV_NO_CACHE": "1", "PIP_NO_INDEX": "1", "PYTHON": sys.executable}
    return {"PATH": os.pathsep.join(path), "HOME": "/nonexistent", **settings, **more}


def install(
    *arguments: str, shell: Sequence[str] = ("sh",), env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    command = [*shell, str(INSTALL), *arguments]
    return subprocess.run(
        command, cwd="/", env=env or environment(), capture_output=True, text=True, timeout=200, check=False
    )


def tree(top: Path) -> Tree:
    """Return everything in a folder: paths, and the targets of links."""
    return {str(p.relative_to(top)): os.readlink(p) if p.is_symlink() else "" for p in top.rglob("*")}


def client_version(program: Path) -> str:
    command = [str(program), "version", "--client"]
    done = subprocess.run(command, cwd="/", env=environment(), capture_output=True, text=True, timeout=100, check=False)
    return done.stdout + done.stderr


# --- the command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such"], "unknown option: --no-such"),
        (["--demo=yes"], "unknown option: --demo"),
        (["there"], "unknown option: there"),
        (["--prefix"], "--prefix needs a value"),
        (["--prefix="], "--prefix needs a value"),
        (["--demo", "--uninstall"], "--demo and --uninstall exclude each other"),
        (["--demo-restart", "everything"], "--demo-restart endpoint, or --demo-restart scheduler"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_wrong_usage_exits_2_and_shows_the_usage_on_stderr(arguments: list[str], message: str) -> None:
    done = install(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}\nUsage: install.sh ")


def test_help_names_every_option() -> None:
    done = install("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for option in (
        "--prefix",
        "--bin",
        "--with",
        "--allow-writable",
        "--wheels",
        "--demo",
        "--demo-stop",
        "--demo-kill",
        "--demo-restart",
        "--uninstall",
    ):
        assert option in done.stdout


@pytest.mark.parametrize("action", ["--demo-stop", "--demo-kill=endpoint", "--demo-restart=scheduler"])
def test_options_of_the_demo_are_rejected_without_a_demo(action: str, prefix: Path) -> None:
    done = install(action, "--prefix", str(prefix))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no demo\n")
    assert not prefix.exists()


# --- install


def test_the_plugin_is_on_path(installed: Path) -> None:
    link = installed / "bin" / PLUGIN
    assert link.readlink() == installed / "share" / "herodotus" / "venv" / "bin" / PLUGIN
    assert client_version(link).startswith("Client Version: ")
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("NO KUBECTL, neither in the virtual environment nor on PATH")
    command = [kubectl, "herodotus", "--help"]
    done = subprocess.run(command, env=environment(installed), capture_output=True, text=True, timeout=100, check=False)
    assert "Usage: kubectl herodotus" in done.stdout


def test_modules_are_compiled_that_run(installed: Path) -> None:
    (package,) = installed.rglob("site-packages/herodotus_cli")
    modules = {path.relative_to(package).with_suffix("") for path in package.rglob("*.py")}
    compiled = {p.relative_to(package) for p in package.rglob("*.pyc")}
    assert {path.parent.parent / path.name.partition(".")[0] for path in compiled} == modules


def test_a_second_run_upgrades_and_changes_nothing_else(installed: Path, wheel_dir: Path) -> None:
    before = tree(installed)
    done = install(f"--prefix={installed}", f"--wheels={wheel_dir}", env=environment(installed))
    assert (done.returncode, done.stderr) == (0, "")
    assert "is not on PATH. Add it" not in done.stdout
    without_bytecode = [{k: v for k, v in t.items() if "__pycache__" not in k} for t in (before, tree(installed))]
    assert without_bytecode[0] == without_bytecode[1]


def test_a_failed_upgrade_keeps_the_working_version(installed: Path, tmp_path: Path) -> None:
    before = tree(installed)
    done = install("--prefix", str(installed), "--wheels", str(own_alone(tmp_path)))
    assert done.returncode == 1
    assert done.stderr.endswith("error: uv cannot install the packages\nThe earlier installation is as it was.\n")
    assert tree(installed) == before
    assert client_version(installed / "bin" / PLUGIN).startswith("Client Version: ")


def test_a_failed_first_installation_leaves_nothing(prefix: Path, tmp_path: Path) -> None:
    folder = own_alone(tmp_path / "no others")
    before = tree(tmp_path)
    done = install("--prefix", str(prefix), "--wheels", str(folder), env=environment(uv=False))
    assert done.returncode == 1
    assert "error: pip cannot install the packages\nNothing was installed.\n" in done.stderr
    assert tree(tmp_path) == before


def own_alone(directory: Path) -> Path:
    """Return a directory of wheels with ours by name only, and without its dependencies."""
    directory.mkdir(exist_ok=True)
    (directory / OWN).touch()
    return directory


def test_a_wheel_with_another_hash_is_rejected(prefix: Path, wheel_dir: Path, tmp_path: Path) -> None:
    """Every locked wheel of the directory must have the hash of the lock."""
    for wheel in wheel_dir.iterdir():
        if wheel.name.startswith("click-"):
            (tmp_path / wheel.name).write_bytes(wheel.read_bytes() + b"and more")
        else:
            (tmp_path / wheel.name).symlink_to(wheel)
    done = install("--prefix", str(prefix), "--wheels", str(tmp_path), env=environment(uv=False))
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert done.stderr.endswith("error: pip cannot install the packages\nNothing was installed.\n")


def test_a_directory_without_our_wheel_is_rejected_before_any_change(prefix: Path, tmp_path: Path) -> None:
    done = install("--prefix", str(prefix), "--wheels", str(tmp_path))
    message = f"error: --wheels: there is no {OWN} in {tmp_path}\n  --help says how to fill it\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_any_posix_shell_works(shell: list[str], wheel_dir: Path, prefix: Path) -> None:
    """Installs and removes with each shell."""
    if not shutil.which(shell[0]):
        pytest.skip(f"NO {shell[0]} ON PATH")
    done = install("--prefix", str(prefix), "--wheels", str(wheel_dir), shell=shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Installing herodotus {__version__} into {prefix}/share/herodotus/venv" in done.stdout
    assert f'{prefix}/bin is not on PATH. Add it:\n\n  export PATH="{prefix}/bin:$PATH"\n' in done.stdout
    assert client_version(prefix / "bin" / PLUGIN) == f"Client Version: {__version__}\n"
    done = install("--prefix", str(prefix), "--uninstall", shell=shell, env=environment(PATH=os.defpath))
    assert (done.returncode, done.stderr) == (0, "")
    assert not prefix.exists()


def test_a_clone_is_built_without_changing_it(prefix: Path, tmp_path: Path) -> None:
    """As with a network; here pip's own setting provides the locked packages from a directory."""
    if not FETCHED.is_dir():
        pytest.skip(f"NOT RUN: no wheels in {FETCHED}; make test puts them there")
    before = tree(ROOT / "packages")
    done = install("--prefix", str(prefix), env=environment(uv=False, PIP_FIND_LINKS=str(FETCHED)))
    assert (done.returncode, done.stderr) == (0, "")
    assert client_version(prefix / "bin" / PLUGIN) == f"Client Version: {__version__}\n"
    assert tree(ROOT / "packages") == before
    assert not (prefix / "share" / "herodotus" / "venv" / "build").exists()


def test_an_interrupted_installation_leaves_nothing(prefix: Path, wheel_dir: Path, tmp_path: Path) -> None:
    command = ["sh", str(INSTALL), "--prefix", str(prefix), "--wheels", str(wheel_dir)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd="/", env=environment(), stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    assert process.stdout is not None
    while "Installing" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130
    assert said.endswith("error: interrupted\nNothing was installed.\n")
    assert tree(tmp_path) == {}


def test_a_program_of_another_installer_is_kept(prefix: Path, wheel_dir: Path, tmp_path: Path) -> None:
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / PLUGIN).write_text("the first Herodotus")
    before = tree(tmp_path)
    done = install("--prefix", str(prefix), "--wheels", str(wheel_dir))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {prefix}/bin/{PLUGIN} is there already, and not from this installer\n")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("python", ["false", "/no/such/python"])
def test_an_unsuitable_python_is_one_clear_line(python: str, prefix: Path) -> None:
    done = install("--prefix", str(prefix), env=environment(PYTHON=python))
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"error: PYTHON={python} is not Python 3.10 or later\n",
    )


def a_python(directory: Path, script: str) -> str:
    """Return a folder in which `python3` and its other names are this script, with install.sh's other programs."""
    directory.mkdir()
    for name in ("python3", *(f"python3.{minor}" for minor in range(10, 15))):
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)
    for name in ("sh", "sed", "dirname", "readlink", "id", "ls"):
        (directory / name).symlink_to(str(shutil.which(name)))
    return str(directory)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "case $1 in --version) echo Python 3.8.10;; *) exit 1;; esac",
            "Python 3.10 or later is needed, there is Python 3.8.10\n  PYTHON=/path/to/python3 {} uses another one",
        ),
        (
            'case "$*" in *ensurepip*) exit 1;; esac',
            "python3 cannot create virtual environments\n  install the package python3-venv (Debian, Ubuntu), or uv",
        ),
    ],
    ids=["too old", "without venv"],
)
def test_a_missing_program_is_named(script: str, message: str, prefix: Path, tmp_path: Path) -> None:
    env = {"PATH": a_python(tmp_path / "bin", script)}
    done = install("--prefix", str(prefix), env=env, shell=[str(shutil.which("sh"))])
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {message.format(INSTALL)}\n")
    assert not prefix.exists()


@pytest.mark.parametrize(("closed", "named"), [("share", "share/herodotus"), ("bin", "bin")])
def test_an_unwritable_prefix_is_rejected_before_any_change(closed: str, named: str, tmp_path: Path) -> None:
    """A file in place of a directory cannot be written into, even by root."""
    (tmp_path / closed).touch()
    done = install("--prefix", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: cannot write to {tmp_path}/{named}\n")
    assert tree(tmp_path) == {closed: ""}


def test_a_missing_wheel_directory_is_one_clear_line(prefix: Path) -> None:
    done = install("--prefix", str(prefix), "--wheels", "/no/such/directory")
    assert (done.returncode, done.stderr) == (1, "error: --wheels: there is no directory /no/such/directory\n")


# --- who may change what the links lead to


@pytest.mark.parametrize("action", ["install", "--uninstall"])
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
def test_a_directory_that_others_may_write_is_refused(mode: int, action: str, prefix: Path, tmp_path: Path) -> None:
    """Anywhere on the path, also above the prefix."""
    if os.getuid():
        pytest.skip("NOT RUN: a group of a user's own name may write; root has none")
    prefix.parent.mkdir()
    prefix.parent.chmod(mode)
    words = [] if action == "install" else [action]
    done = install("--prefix", str(prefix), "--wheels", str(own_alone(tmp_path / "wheels")), *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {prefix.parent} may be written by ")
    assert "--allow-writable" in done.stderr
    assert not prefix.exists()


def test_a_writable_directory_is_used_and_named_when_it_is_allowed(prefix: Path, tmp_path: Path) -> None:
    prefix.parent.mkdir()
    prefix.parent.chmod(0o777)
    done = install("--prefix", str(prefix), "--allow-writable", "--uninstall")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Note: {prefix.parent} may be written by everybody, who can change what ")


def test_the_target_of_a_link_on_the_path_is_checked(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "real").mkdir()
    (tmp_path / "prefix").symlink_to(tmp_path / "open" / "real")
    done = install("--prefix", str(tmp_path / "prefix"))
    assert done.stderr.startswith(f"error: {tmp_path}/open may be written by everybody")


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    """As with sudo, which may keep the HOME of whoever calls it."""
    if os.getuid():
        pytest.skip("NOT RUN: only root can give a directory away")
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 4242, 4242)
    done = install(env=environment(HOME=str(tmp_path / "home")))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path}/home belongs to user 4242, who could change what ")


def test_programs_are_linked_into_the_home_directory_by_default_whatever_the_umask(
    tmp_path: Path, wheel_dir: Path
) -> None:
    env = environment(HOME=str(tmp_path))
    shell = ["sh", "-c", 'umask 000; exec sh "$0" "$@"']
    done = install("--wheels", str(wheel_dir), env=env, shell=shell)
    assert (done.returncode, done.stderr) == (0, "")
    link = tmp_path / ".local" / "bin" / PLUGIN
    assert link.readlink() == tmp_path / ".local" / "share" / "herodotus" / "venv" / "bin" / PLUGIN
    assert not [p for p in tmp_path.rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o022]


# --- extras


def test_an_unknown_extra_is_wrong_usage() -> None:
    done = install("--with", "everything")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --with local, mcp, top, tune, archive, otlp or parquet\n")


def test_an_extra_is_added_and_an_upgrade_keeps_it(prefix: Path, wheel_dir: Path) -> None:
    words = ("--prefix", str(prefix), "--wheels", str(wheel_dir))
    if not list(wheel_dir.glob("mcp-*.whl")):
        pytest.skip("NOT RUN: the wheels of mcp were not fetched; make setup does that")
    assert install(*words).returncode == 0
    assert install(*words, "--with", "mcp").returncode == 0
    assert install(*words).returncode == 0
    python = prefix / "share" / "herodotus" / "venv" / "bin" / "python"
    subprocess.run([python, "-c", "import mcp, jsonschema"], check=True, timeout=100)


# --- uninstall


@pytest.fixture
def stub(prefix: Path) -> Path:
    """Write the files of an installation without the time that a real one takes."""
    data = prefix / "share" / "herodotus"
    (data / "venv" / "bin").mkdir(parents=True)
    (data / "venv" / "bin" / PLUGIN).write_text("")
    (prefix / "bin").mkdir()
    (prefix / "bin" / PLUGIN).symlink_to(data / "venv" / "bin" / PLUGIN)
    made = [prefix.parent, prefix, prefix / "share", data, prefix / "bin"]
    (data / "installed").write_text(f"link {prefix / 'bin' / PLUGIN}\n" + "".join(f"dir {d}\n" for d in made))
    return prefix


def a_kubectl(directory: Path, script: str) -> dict[str, str]:
    directory.mkdir()
    (directory / "kubectl").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "kubectl").chmod(0o755)
    return environment(PATH=f"{directory}{os.pathsep}{os.environ['PATH']}")


def test_uninstall_removes_exactly_the_installed_files(prefix: Path, wheel_dir: Path, tmp_path: Path) -> None:
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "another").write_text("")
    before = tree(tmp_path)
    assert install("--prefix", str(prefix), "--wheels", str(wheel_dir)).returncode == 0
    assert len(tree(tmp_path)) > 1000
    done = install("--prefix", str(prefix), "--uninstall", env=a_kubectl(tmp_path.parent / "kubectl-a", "exit 1"))
    assert (done.returncode, done.stderr) == (0, "")
    assert tree(tmp_path) == before


def test_uninstall_removes_created_directories(stub: Path, tmp_path: Path) -> None:
    done = install("--prefix", str(stub), "--uninstall", env=a_kubectl(tmp_path / "bin", "exit 1"))
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(tree(tmp_path)) == ["bin", "bin/kubectl"]


def test_uninstall_removes_what_the_plugin_cached_alone(stub: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for name in ("herodotus", "discovery"):
        (cache / name).mkdir(parents=True)
        (cache / name / "route").write_text("")
    env = a_kubectl(tmp_path / "bin", "exit 1") | {"KUBECACHEDIR": str(cache)}
    done = install("--prefix", str(stub), "--uninstall", env=env)
    assert f"Removed {cache}/herodotus\n" in done.stdout
    assert sorted(tree(cache)) == ["discovery", "discovery/route"]


def test_uninstall_keeps_a_changed_link(stub: Path, tmp_path: Path) -> None:
    (stub / "bin" / PLUGIN).unlink()
    (stub / "bin" / PLUGIN).symlink_to("/bin/true")
    done = install("--prefix", str(stub), "--uninstall", env=a_kubectl(tmp_path / "bin", "exit 1"))
    assert f"Left alone: {stub}/bin/{PLUGIN} (not ours any more)" in done.stdout
    assert sorted(p.name for p in stub.rglob("*")) == ["bin", PLUGIN]


def test_uninstall_without_an_installation_does_nothing(prefix: Path) -> None:
    done = install("--uninstall", "--prefix", str(prefix))
    assert (done.returncode, done.stdout) == (0, f"herodotus is not installed in {prefix}/share/herodotus\n")


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ("echo pod/a", "1 pod in kubectl's cluster names"),
        ("echo pod/a; echo pod/b", "2 pods in kubectl's cluster name"),
    ],
    ids=["one", "two"],
)
def test_uninstall_warns_of_pods_that_use_the_scheduler(stub: Path, tmp_path: Path, pods: str, told: str) -> None:
    asked = f'case "$*" in *spec.schedulerName=herodotus-scheduler*) {pods};; esac'
    done = install("--prefix", str(stub), "--uninstall", env=a_kubectl(tmp_path / "bin", asked))
    assert f"Note: {told} the scheduler herodotus-scheduler." in done.stdout


def test_an_unreachable_cluster_does_not_delay_uninstall(stub: Path, tmp_path: Path) -> None:
    done = install("--prefix", str(stub), "--uninstall", env=a_kubectl(tmp_path / "bin", "exec sleep 600"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Note:" not in done.stdout
