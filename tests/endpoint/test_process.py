"""The real process: what it prints, how it ends, and what is left of it after SIGKILL."""

import os
import random
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path

import pytest

from herodotus_record import codec
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table
from tests.endpoint.service import API
from tests.endpoint.tracing.receiver import running_receiver
from tests.processes import ROOT
from tests.support.server_processes import listening_port, send_request

TABLE = a_table(["worker-1", "worker-2", "worker-3"])

Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts the service on a data directory of the test; whatever is left at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, data: Path = tmp_path / "data") -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "herodotus_endpoint", "--data", str(data), *arguments]
        environment = {k: v for k, v in os.environ.items() if k != "HERODOTUS_DATABASE_URL"} | {"HOME": str(tmp_path)}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def listening(at: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", at)) == 0


def test_prints_its_addresses_and_stops_on_sigterm(run: Run, tmp_path: Path) -> None:
    process = run("--bind", "127.0.0.1:0", "--insecure")
    at = listening_port(process)
    assert send_request(at, "/readyz") == (200, "ok")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "--insecure: unauthenticated ingest is accepted from any peer" in err
    assert [p.name for p in tmp_path.iterdir()] == ["data"], "no control socket, nothing else in the home directory"
    assert stat.S_IMODE((tmp_path / "data" / "herodotus.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_ingest_has_a_separate_listener(run: Run, host: str) -> None:
    """Also on every address, as in a container: a connection then has another local address than the listener."""
    process = run("--insecure", "--bind", f"{host}:0", "--ingest-bind", f"{host}:0")
    queries, ingest = listening_port(process, host), listening_port(process, host)
    body = codec.encode(TABLE.rows(CLUSTER, INCARNATION))
    assert send_request(queries, "/ingest/v1/frames", body)[0] == 403
    assert send_request(ingest, "/ingest/v1/frames", body)[0] == 200


def test_spans_that_wait_are_exported_before_the_end(run: Run) -> None:
    with running_receiver() as receiver:
        process = run("--bind", "127.0.0.1:0", "--otlp-endpoint", receiver.url)
        assert send_request(listening_port(process), "/ingest/v1/frames", batch(1))[0] == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert "--otlp-endpoint: names of pods and nodes are sent unencrypted" in err
        spans = receiver.wait(10)
    assert [s.attributes["k8s.pod.name"] for s in spans if s.name == "scheduling attempt"] == [
        f"p-{i}" for i in range(1, 6)
    ]


def test_port_in_use_is_a_one_line_error(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = taken.getsockname()[1]
        process = run("--bind", f"127.0.0.1:{at}")
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (
        1,
        "",
        f"error: cannot listen on 127.0.0.1:{at}: Address already in use\n",
    )


def test_unavailable_address_is_a_one_line_error(run: Run) -> None:
    process = run("--bind", "192.0.2.1:8000")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "error: cannot listen on 192.0.2.1:8000: Cannot assign requested address\n")


def test_unusable_data_directory_is_a_one_line_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = run(data=tmp_path / "file")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, f"error: cannot use {tmp_path / 'file'}: it is not a directory\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bind", "8000"],
        ["--bind", "h:99999"],
        ["--threads", "0"],
        ["--max-age", "7"],
        ["--max-bytes", "10"],
        ["--max-bytes", "1025Ti"],
        ["--max-age", "999999999d"],
        ["--database-url", "sqlite:///x"],
        ["--no-such-flag"],
    ],
    ids=lambda a: " ".join(a),
)
def test_invalid_arguments_exit_with_2(run: Run, arguments: list[str]) -> None:
    process = run(*arguments)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith("python -m herodotus_endpoint: error: ")


def batch(first: int, size: int = 5) -> bytes:
    decisions = (a_decision(pod=f"p-{i}", sequence=i) for i in range(first, first + size))
    return codec.encode(TABLE.rows(CLUSTER, INCARNATION)) + b"".join(map(codec.encode, decisions))


def load(at: int, first: int, acknowledged: set[int]) -> None:
    """Batches one after the other until the service is gone; what was acknowledged is remembered."""
    while True:
        try:
            code, receipt = send_request(at, "/ingest/v1/frames", batch(first))
        except (OSError, HTTPException):
            return
        assert (code, receipt["accepted"] + receipt["duplicates"]) == (200, 6)
        acknowledged |= set(range(first, first + 5))
        first += 5


def test_acknowledged_decisions_survive_sigkill_exactly_once(run: Run) -> None:
    acknowledged: set[int] = set()
    for _ in range(4):
        process = run("--bind", "127.0.0.1:0")
        at = listening_port(process)
        sender = threading.Thread(target=load, args=(at, max(acknowledged, default=0) + 1, acknowledged))
        before = len(acknowledged)
        sender.start()
        while len(acknowledged) < before + 10:
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.1))
        process.kill()
        sender.join()
        while listening(at):  # the worker goes with its parent
            time.sleep(0.01)
    at = listening_port(run("--bind", "127.0.0.1:0"))
    assert stored_sequences(at) >= acknowledged
    last = max(acknowledged)
    assert send_request(at, "/ingest/v1/frames", batch(last + 1, 5))[0] == 200  # what was under way is sent again
    count = max(stored_sequences(at))
    assert stored_sequences(at) == set(range(1, count + 1))
    assert send_request(at, f"{API}/nodehistories/worker-1?since=999999999")[1]["considered"] == count
    (incarnation,) = send_request(at, f"{API}/incarnations")[1]["items"]
    assert (incarnation["highestSequence"], incarnation["missing"]) == (count, 0)


def stored_sequences(at: int) -> set[int]:
    """From the pods' names; fails when one is there twice."""
    found: list[int] = []
    more = ""
    while True:
        _, page = send_request(at, f"{API}/decisions?limit=500&continue={more}")
        found += [int(item["spec"]["pod"]["name"].removeprefix("p-")) for item in page["items"]]
        more = page["metadata"].get("continue", "")
        if not more:
            assert len(found) == len(set(found))
            return set(found)
