"""The executable as a process: its imports, its time, its exit."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from herodotus_cli.transport.kubectl_command import kill_process, start_process
from tests.cli.scenes import explained, large, placed
from tests.cli.service import API, Service
from tests.processes import run_on_terminal

ROOT = Path(__file__).parents[2]
EXECUTABLE = [sys.executable, str(ROOT / "kubectl-herodotus")]
EXPLANATION = f"{API}/namespaces/shop/podexplanations/p"
HEAVY = {"rich", "httpx", "yaml", "numpy", "msgspec", "kubernetes", "asyncio", "pygments", "textual", "dataclasses"}
BUDGET_S = 1.0  # of processor time; measured 0.15 s on a quiet machine, and a loaded or slow one takes longer


def imported(*arguments: str, environ: Mapping[str, str] = os.environ) -> set[str]:
    """Return the top-level modules that a run imported."""
    code = (
        "import sys, json, os\n"
        "from herodotus_cli.main import main\n"
        "def end(code):\n"
        "    print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})), file=sys.stderr)\n"
        "    sys.exit(code)\n"
        "os._exit = end\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, *arguments]
    run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    return set(json.loads(run.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [("--help",), ("pod", "-h"), ("version", "--client")], ids=" ".join)
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert not imported(*arguments) & HEAVY


@pytest.mark.parametrize(
    ("more", "needed"),
    [((), set()), (("-o", "json"), set()), (("--color", "always"), {"rich", "dataclasses"})],
    ids=["piped", "json", "terminal"],
)
def test_answer_through_kubectl_imports_only_its_writer(
    tmp_path: Path, more: tuple[str, ...], needed: set[str]
) -> None:
    environ = {**os.environ, "KUBECTL_PATH": str(answering(tmp_path, placed())), "COLUMNS": "80"}
    assert imported("pod", "p", "-n", "shop", *more, environ=environ) & HEAVY == needed


def answering(folder: Path, answer: object) -> Path:
    """Return a fake kubectl that gives this answer to every request."""
    (folder / "answer.json").write_text(json.dumps(answer))
    kubectl = folder / "kubectl"
    kubectl.write_text(f"#!/bin/sh\nexec cat {folder}/answer.json\n")
    kubectl.chmod(0o755)
    return kubectl


def test_processor_time_on_a_terminal(service: Service) -> None:
    service.answer(EXPLANATION, explained(large(fits=3000)))
    best = min(on_a_terminal("pod", "p", "-n", "shop", "--endpoint", service.url)[0] for _ in range(3))
    assert best < BUDGET_S


def on_a_terminal(*arguments: str) -> tuple[float, bytes]:
    """Return the processor time of a run in seconds, and its output on a terminal."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    written = run_on_terminal([*EXECUTABLE, *arguments])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, written


def test_colours_terminal_and_not_pipe(service: Service) -> None:
    service.answer(EXPLANATION, placed())
    arguments = ("pod", "p", "-n", "shop", "--endpoint", service.url)
    assert b"\x1b[" in on_a_terminal(*arguments)[1]
    piped = subprocess.run([*EXECUTABLE, *arguments], capture_output=True, check=True)
    assert b"\x1b[" not in piped.stdout
    assert piped.stderr == b""


def test_closed_pipe_is_no_error(service: Service) -> None:
    service.answer(f"{EXPLANATION}?all=true", explained(large(fits=3000), every_node=True))
    command = " ".join([*EXECUTABLE, "pod p --all -n shop --endpoint", service.url, "| head -n 1"])
    run = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("checkout-7d9f-x2k")


def test_closed_pipe_ends_watch_without_error(tmp_path: Path) -> None:
    """`watch | head -1`: what comes after is written to nobody."""
    one = {
        "metadata": {"name": "d", "resourceVersion": "7"},
        "spec": {
            "key": {"attempt": 1},
            "pod": {"namespace": "shop", "name": "p"},
            "times": {"startedAt": "2026-03-01T12:00:00Z"},
            "snapshot": {"nodes": 3, "feasible": 2},
        },
        "status": {"state": "Bound", "node": "worker-1", "path": "scored", "message": ""},
    }
    kubectl = answering(tmp_path, {"metadata": {"resourceVersion": "6"}, "items": []})
    (tmp_path / "event").write_text(json.dumps({"type": "ADDED", "object": one}) + "\n")
    stream = f"case $3 in *watch=true*) while :; do cat {tmp_path}/event; sleep 0.01; done;; esac"
    kubectl.write_text(kubectl.read_text().replace("exec", f"{stream}\nexec"))
    command = f"set -o pipefail; {' '.join(EXECUTABLE)} watch -n shop | head -n 1"
    environ = {**os.environ, "KUBECTL_PATH": str(kubectl), "HOME": str(tmp_path)}
    run = subprocess.run(["bash", "-c", command], env=environ, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("TIME")


@pytest.mark.parametrize("arguments", ["version --client", "--help", "pod p --all -n shop --endpoint URL"])
def test_full_disk_is_one_line(service: Service, arguments: str) -> None:
    service.answer(f"{EXPLANATION}?all=true", explained(large(fits=3000), every_node=True))
    with open("/dev/full", "w") as full:
        command_line = [*EXECUTABLE, *arguments.replace("URL", service.url).split()]
        run = subprocess.run(command_line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "error: cannot write: No space left on device\n")


def test_closed_stdout_is_one_line() -> None:
    command = " ".join([*EXECUTABLE, "version --client >&-"])
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "error: cannot write: standard output is closed\n")


def test_interrupt_exits_130_silently(tmp_path: Path) -> None:
    slow = tmp_path / "kubectl"
    slow.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexec sleep 60\n")
    slow.chmod(0o755)
    environ = {**os.environ, "KUBECTL_PATH": str(slow)}
    with subprocess.Popen([*EXECUTABLE, "pod", "p", "-n", "n"], env=environ, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, b"")


def test_ascii_locale_replaces_signs(service: Service) -> None:
    service.answer(f"{EXPLANATION}?node=worker-3", placed(node="worker-3"))
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    arguments = ("pod", "p", "-n", "shop", "--node", "worker-3", "--endpoint", service.url)
    run = subprocess.run([*EXECUTABLE, *arguments], env=environ, capture_output=True, text=True, check=True)
    assert "passes" in run.stdout


def test_the_executable_is_small() -> None:
    assert len((ROOT / "kubectl-herodotus").read_text().splitlines()) < 10


def kubectl_requests(folder: Path, *arguments: str) -> list[str]:
    """Return the request of each kubectl process that the command starts."""
    kubectl = answering(folder, placed())
    kubectl.write_text(kubectl.read_text().replace("exec", f'echo "$*" >> {folder}/requests\nexec'))
    environ = {**os.environ, "KUBECTL_PATH": str(kubectl), "KUBECONFIG": str(folder / "none"), "HOME": str(folder)}
    subprocess.run([*EXECUTABLE, *arguments], env=environ, capture_output=True, check=True)
    return sorted((folder / "requests").read_text().splitlines())


def test_an_answer_about_a_pod_takes_two_requests(tmp_path: Path) -> None:
    assert [request.split()[2] for request in kubectl_requests(tmp_path, "pod", "p", "-n", "shop")] == [
        "/api/v1/namespaces/herodotus/services/https:herodotus-endpoint:8000/proxy"
        f"{API}/namespaces/shop/podexplanations/p",
        "/api/v1/namespaces/shop/pods/p",
    ]


def test_kills_a_process_whose_child_holds_its_output_open() -> None:
    """A credential plugin, which kubectl started, may outlive it."""
    process = start_process(["sh", "-c", "sleep 5 & echo started; exec sleep 60"], inherits_stdin=False)
    assert process.stdout
    assert process.stdout.readline() == b"started\n"
    began = time.monotonic()
    kill_process(process)
    assert (process.returncode, time.monotonic() - began < 4) == (-signal.SIGKILL, True)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks the kernel, as Linux shows it")
def test_child_does_not_ignore_sigpipe() -> None:
    """Python ignores SIGPIPE; the children of kubectl must not inherit that."""
    process = start_process(["grep", "SigIgn", "/proc/self/status"])
    out, _ = process.communicate(timeout=60)
    assert not int(out.split()[1], 16) & 1 << signal.SIGPIPE - 1
    kill_process(process)
