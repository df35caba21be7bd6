"""Executes the Dockerfile's steps without a container engine and starts each image as a cluster would.

    debootstrap --include=python3-venv,python-is-python3,ca-certificates bookworm BASE
    python -m scripts.check_images BASE WORK

Owns: root file systems made from BASE, and the checks of them. Each image has only the locked packages and no compiler.
Its entry point runs as the numeric user without privileges on a read-only root. Together the images decide, bind and
record one pod. Does not own: parsing the Dockerfile (`dockerfile`).

It needs root for chroot and mount namespaces. pip reads its settings from PIP_* in the environment. It does not create
layers and covers only this machine's platform.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from herodotus_record.installation import PLUGIN, SERVERS
from herodotus_record.version import __version__
from scripts.dockerfile import BuildStage, DockerfileStep, parse_stages

ROOT: Final = Path(__file__).resolve().parents[1]
IMAGES: Final = ("scheduler", "endpoint", "agents")
DATA: Final = "/var/lib/herodotus"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # the value that container engines set
TIMEOUT_S: Final = 60.0
COMPILERS: Final = ("cc", "gcc", "g++", "c++", "clang", "rustc", "cargo", "make", "ld")
MAX_MB: Final = 200  # of an image's environment, which is all that it has above its base
FORBIDDEN: Final = "import sys; open(sys.prefix + '/new', 'w')"


def main(arguments: Sequence[str]) -> None:
    """Build, check and start every image; exit with an error at the first failed check."""
    base, work = Path(arguments[0]).resolve(), Path(arguments[1]).resolve()
    work.mkdir(parents=True, exist_ok=True)
    found = parse_stages(
        (ROOT / "Dockerfile").read_text("utf-8"), {"BASE": "BASE", "VERSION": __version__, "REVISION": "-"}
    )
    roots: dict[str, Path] = {"BASE": base}
    for stage in found.values():
        say(f"stage {stage.name}")
        roots[stage.name] = build(stage, roots, work)
    for name in IMAGES:
        say(f"image {name}")
        check(found[name], roots[name], work)
    say("a cluster of all images")
    check_cluster(found, roots, work)
    say("all checks passed")


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, flush=True)


def expect(what: str, condition: object) -> None:
    """Print `what`, which describes a check, if the condition is true; otherwise exit with an error."""
    if not condition:
        raise SystemExit(f"error: check failed: {what}")
    say(f"  {what}")


# --- steps


def build(stage: BuildStage, roots: dict[str, Path], work: Path) -> Path:
    """Return the root file system of a stage. A stage without steps uses the root of its base."""
    if not stage.steps:
        return roots[stage.base]
    root = work / stage.name
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", str(roots[stage.base]), str(root)], check=True)
    for step in stage.steps:
        if step.instruction == "RUN":
            run(step, root)
        elif step.instruction == "COPY":
            copy(step, root, roots.get(step.source, ROOT))
        else:
            (root / step.workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return root


def run(step: DockerfileStep, root: Path) -> None:
    """Run a RUN step's command in the root, with this machine's network and certificates."""
    environment = {"PATH": PATH, "HOME": "/root", **step.environment}
    environment |= {k: v for k, v in os.environ.items() if k in ("PIP_INDEX_URL", "PIP_CERT")}
    for file in ("/etc/resolv.conf", os.environ.get("PIP_CERT", "/etc/resolv.conf")):
        (root / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, root / file.lstrip("/"))
    command = ["chroot", str(root), "/bin/sh", "-c", f"cd {step.workdir} && {step.words[0]}"]
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)


def copy(step: DockerfileStep, root: Path, source: Path) -> None:
    """Copy the sources of a COPY step from the directory `source` into the root.

    `__pycache__` folders of the working tree are not copied.
    """
    *names, target = step.words
    for name in names:
        origin = source / name.lstrip("/")
        to = root / os.path.join(step.workdir, target).lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        if origin.is_dir():
            ignored = shutil.ignore_patterns("__pycache__") if source == ROOT else None
            shutil.copytree(origin, to, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(origin, to / origin.name if target.endswith("/") else to)


# --- images


@contextmanager
def run_container(
    stage: BuildStage, root: Path, data: Path, *arguments: str, program: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Run a process as the kubelet would: root read-only, DATA and /tmp writable; stop it with its children."""
    words = (program,) if program else stage.entrypoint
    user, group = stage.user.split(":")
    for mount in (DATA, "/tmp"):
        (root / mount.lstrip("/")).mkdir(parents=True, exist_ok=True)
    data.mkdir(parents=True, exist_ok=True)
    os.chown(data, int(user), int(group))
    script = (
        'set -e; root=$1 data=$2 ids=$3; shift 3; mount --bind "$root" "$root"; mount -o remount,bind,ro "$root"; '
        f'mount -t proc proc "$root/proc"; mount -t tmpfs tmpfs "$root/tmp"; mount --bind "$data" "$root{DATA}"; '
        'exec setpriv --no-new-privs chroot --userspec="$ids" --groups= "$root" "$@"'
    )
    environment = [f"{key}={value}" for key, value in stage.environment.items()]
    inside = ["/usr/bin/env", "-i", "-C", stage.workdir, *environment, *words, *(arguments or stage.command)]
    command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh"]
    process = subprocess.Popen(
        [*command, str(root), str(data), stage.user, *inside],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if first := find_first_process(process):
            os.kill(first, signal.SIGKILL)  # This ends every process of its namespace.
        process.wait()


def output(stage: BuildStage, root: Path, work: Path, *arguments: str, program: str = "") -> str:
    """Run a program in a container of the image and return its output, once it has exited.

    `root` is the image's unpacked root, `work` a folder for its volume. Without `program` the image's entry point runs.
    """
    with run_container(stage, root, work / "volumes" / "check", *arguments, program=program) as process:
        return process.communicate(timeout=TIMEOUT_S)[0]


def check(stage: BuildStage, root: Path, work: Path) -> None:
    """Check the contents of an image without starting its service."""
    expect(f"user is {stage.user}, a number and not root", re.fullmatch(r"[1-9]\d*:[1-9]\d*", stage.user))
    expect("labels name title, version and licence", {"title", "version", "licenses"} <= labels(stage))
    size_mb = round(measure_bytes(root / "opt/herodotus") / 1e6)
    expect(f"{size_mb} MB above its base, at most {MAX_MB}", size_mb <= MAX_MB)
    expect(
        "no compiler",
        not [c for c in COMPILERS for d in ("bin", "usr/bin", "usr/local/bin") if (root / d / c).exists()],
    )
    lines = subprocess.run([ROOT / "packages/locked.sh", stage.name], capture_output=True, text=True, check=True)
    locked = set(re.findall(r"^([\w.-]+)(?:\[[^]]+\])?==", lines.stdout, re.MULTILINE)) | {PLUGIN, SERVERS}
    listed = "import importlib.metadata as m, json; print(json.dumps([d.name for d in m.distributions()]))"
    python = "/opt/herodotus/bin/python"
    names = json.loads(output(stage, root, work, "-c", listed, program=python))
    expect(f"{len(locked)} packages, exactly the locked ones", {n.lower().replace("_", "-") for n in names} == locked)
    version = output(stage, root, work, "--version")
    expect(f"--version prints {version.strip()}", version == f"{__version__}\n")
    expect("without arguments it prints its usage", output(stage, root, work).startswith("usage: "))
    expect("its root is read-only", "Read-only" in output(stage, root, work, "-c", FORBIDDEN, program=python))


def measure_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder and its subfolders."""
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def labels(stage: BuildStage) -> set[str]:
    """Return the names of the image's OCI labels that have a value."""
    return {key.removeprefix("org.opencontainers.image.") for key, value in stage.labels.items() if value}


def check_cluster(found: dict[str, BuildStage], roots: dict[str, Path], work: Path) -> None:
    """Run every image with a simulated cluster: an agent responds, a pod is decided, bound and recorded."""
    scheduler, endpoint, agents = (found[name] for name in IMAGES)
    with ExitStack() as running:

        def start(stage: BuildStage, name: str, *arguments: str, program: str = "") -> subprocess.Popen[str]:
            container = run_container(stage, roots[stage.name], work / "volumes" / name, *arguments, program=program)
            return running.enter_context(container)

        config = f"{DATA}/kubeconfig"
        sim = start(scheduler, "scheduler", "--write-kubeconfig", config, program="/opt/herodotus/bin/herodotus-sim")
        cluster = wait_for_line(sim, r"(http://[\d.:]+)")
        service = wait_for_line(
            start(endpoint, "endpoint", "--bind=127.0.0.1:0", f"--data={DATA}"), r"(http://[\d.:]+)"
        )
        agent = wait_for_line(
            start(agents, "agents", "serve", "--agents=foo", "--address=127.0.0.1", "--port=0"), r"127.0.0.1:(\d+)"
        )
        expect("the agents answer", request(f"http://127.0.0.1:{agent}/version") is not None)
        node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
        request(f"{cluster}/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
        options = ("--no-leader-elect", "--secure-port=0", f"--endpoint={service}", f"--spool={DATA}/spool")
        process = start(scheduler, "scheduler", "run", f"--kubeconfig={config}", *options)
        spec = {"schedulerName": "herodotus-scheduler", "containers": [{"name": "c", "image": "i"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        request(f"{cluster}/api/v1/namespaces/default/pods", pod)
        expect(
            "a pod is bound",
            wait_until(lambda: request(f"{cluster}/api/v1/namespaces/default/pods/p")["spec"].get("nodeName")),
        )
        decisions = f"{service}/apis/herodotus.dev/v1alpha1/namespaces/default/decisions"
        expect("its decision is recorded", wait_until(lambda: request(decisions)["items"]))
        expect(
            "it runs as the user, without capabilities", is_unprivileged(find_first_process(process), scheduler.user)
        )


def wait_for_line(process: subprocess.Popen[str], pattern: str) -> str:
    """Return the first group of the first match of `pattern` in a line of the process' output.

    Exits with an error, which has the output, if the process ends before.
    """
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if match := re.search(pattern, line):
            return match[1]
    raise SystemExit("error: the process ended: " + "".join(seen))


def request(url: str, body: object = None) -> Any:
    """Send a GET, or a POST if there is a body; return the response as JSON, or as text if it is not JSON."""
    data = None if body is None else json.dumps(body).encode()
    post = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    response: IO[bytes]
    with urllib.request.urlopen(post, timeout=10) as response:
        text = response.read().decode()
    return json.loads(text) if text.startswith("{") else text


def wait_until(read: Callable[[], Any]) -> Any:
    """Call `read` until its value is true; return that value, or the last one after TIMEOUT_S seconds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (value := read()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return value


def find_first_process(process: subprocess.Popen[str]) -> int:
    """Return the first process of the namespace that `unshare` created, 0 if it has exited."""
    if process.poll() is not None:
        return 0
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0]) if children else 0


def is_unprivileged(pid: int, user: str) -> bool:
    """Return whether a process has the user's id, no capability, and no way to gain one."""
    status = Path(f"/proc/{pid}/status").read_text()
    expected = {"Uid": user.partition(":")[0], "CapEff": "0" * 16, "CapPrm": "0" * 16, "NoNewPrivs": "1"}
    return all(re.search(rf"^{key}:\t{value}\b", status, re.MULTILINE) for key, value in expected.items())


if __name__ == "__main__":
    main(sys.argv[1:])
