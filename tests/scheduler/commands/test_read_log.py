"""`read-log`: files and standard input, following, delivery; what it says where it cannot."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from scheduler.commands.main import main
from scheduler.offline.read_log.delivery import Delivery
from scheduler.offline.read_log.files import LINE_BYTES, followed, lines_of
from scheduler.offline.read_log.reader import LogReader
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.shipper import NotDeliveredError, Shipper
from tests.builders import CLUSTER
from tests.endpoint.service import Service, a_service
from tests.support.scheduler_logs import NOW, log_lines, logged_placement, logged_rejection, recorded_lines

SAID = [*logged_placement("ns/a"), *logged_rejection("ns/b")]


def deliver(service: Service, lines: list[str]) -> None:
    transport = httpx.WSGITransport(service.client.application)
    reader = LogReader(CLUSTER, now=lambda: NOW)
    shipper = lambda directory: Shipper(directory, ServiceEndpoint("http://127.0.0.1:1"), transport)  # noqa: E731
    with Delivery(reader.nodes, shipper) as delivery:
        for read in reader.all(lines):
            delivery.put(read)
    assert delivery.refused == 0


def test_without_an_endpoint_decisions_are_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "scheduler.log"
    log.write_text("\n".join(log_lines(SAID)))
    assert main(["read-log", str(log)]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["status"]["state"] for line in out.splitlines()] == ["Bound", "Unschedulable"]
    assert "2 decisions from 18 lines; skipped: 0 unrelated, 0 foreign, 0 damaged" in err


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    whole = "\n".join(log_lines(SAID)).encode()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(whole)))
    assert main(["read-log", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.log"], "error: nowhere.log: No such file or directory"),
        (["x", "--endpoint", "http://127.0.0.1:1"], "error: --endpoint needs --cluster"),
    ],
    ids=["no file", "no cluster"],
)
def test_failure_is_one_line(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["read-log", *arguments]) == 1
    assert says in capsys.readouterr().err


def test_a_log_that_is_sent_twice_is_stored_once(tmp_path: Path) -> None:
    service = a_service(tmp_path)
    for _ in range(2):
        deliver(service, list(recorded_lines()))
    decisions = service.get("/apis/herodotus.dev/v1alpha1/decisions", limit=500)["items"]
    assert len(decisions) == 69
    (incarnation,) = service.get("/apis/herodotus.dev/v1alpha1/incarnations")["items"]
    assert incarnation["missing"] == 0
    answer = service.explain("p-000", "dev")
    assert answer["headline"].startswith("On node-005: best of 5 feasible nodes out of 20 evaluated, 42 points")
    assert (answer["attempt"]["source"], answer["pod"]["requests"]) == ("logged", None)


def test_a_service_that_stays_away_ends_with_an_error() -> None:
    """After waiting: a log is still there later."""

    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    waits: list[float] = []
    reader = LogReader(CLUSTER, now=lambda: NOW)
    endpoint, transport = ServiceEndpoint("http://127.0.0.1:1"), httpx.MockTransport(away)
    shipper = lambda directory: Shipper(directory, endpoint, transport)  # noqa: E731
    with pytest.raises(NotDeliveredError):
        _put(Delivery(reader.nodes, shipper, patience_s=5.0, sleep=waits.append), reader)
    assert waits == [2.0, 2.0, 2.0]


def _put(delivery: Delivery, reader: LogReader) -> None:
    with delivery:
        for read in reader.all(log_lines(SAID)):
            delivery.put(read)


def test_a_file_is_followed_through_rotation_and_cutting(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntw")
    changes: list[Callable[[], object]] = [
        lambda: log.write_bytes(b"one\ntwo\n"),
        lambda: (log.rename(tmp_path / "log.1"), log.write_bytes(b"three\n")),
        lambda: log.write_bytes(b"4\n"),
    ]
    steps = iter(changes)

    def sleep(_: float) -> bool:
        step = next(steps, None)
        if step is not None:
            step()
        return step is None

    assert [line for line in followed(log, sleep) if line] == ["one", "two", "three", "4"]


def test_an_endless_line_is_held_only_in_part() -> None:
    found = list(lines_of(io.BytesIO(b"x" * (3 * LINE_BYTES) + b"\nnext\n")))
    assert [len(line) for line in found] == [LINE_BYTES, 4]
