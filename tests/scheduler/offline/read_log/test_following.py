"""`read-log -f --endpoint` as a process, beside a service that goes and comes, and a log that is rotated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes import Process, eventually, free_port, python
from tests.scheduler.offline.read_log import klogs

pytestmark = pytest.mark.timeout(120)


def placed(number: int) -> str:
    """Two lines of a pod's attempt, a second after the pod before."""
    pod = f"shop/p{number}"
    said = (klogs.attempt_starts(pod), klogs.bound(pod, "n1", 3, 1))
    return "".join(klogs.text(message, number * 1000, **pairs) + "\n" for message, pairs in said)


@pytest.mark.slow
def test_followed_log_is_delivered_through_rotation_and_outage(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "kube-scheduler.log"
    url = f"http://127.0.0.1:{port}"

    def service() -> Process:
        at = ("--bind", f"127.0.0.1:{port}", "--data", str(tmp_path / "data"))
        return Process("endpoint", python("herodotus_endpoint", *at), tmp_path / "endpoint.log")

    def has(*numbers: int) -> bool:
        found = answers(f"{url}/apis/herodotus.dev/v1alpha1/decisions")
        items: list[Any] = found["items"] if found else []
        return {item["spec"]["pod"]["name"] for item in items} == {f"p{n}" for n in numbers}

    endpoint = service()
    log.write_text(placed(0))
    follow = ("read-log", "-f", str(log), "--endpoint", url, "--cluster", "c1")
    reader = Process("read-log", python("scheduler", *follow), tmp_path / "read-log.log")
    try:
        eventually(lambda: has(0), "what was there before")
        with log.open("a") as file:
            file.write(placed(1))
        eventually(lambda: has(0, 1), "what is appended")
        log.rename(tmp_path / "kube-scheduler.log.1")
        log.write_text(placed(2))
        eventually(lambda: has(0, 1, 2), "what the new file says")
        endpoint.stop()
        with log.open("a") as file:
            file.write(placed(3))
        reader.wait_for("Decisions are not taken yet")
        endpoint = service()
        eventually(lambda: has(0, 1, 2, 3), "what was said while the service was away")
        assert reader.stop() == 0
        assert "8 lines: 4 decisions from 8 lines" in reader.output()
        assert not list(Path(tmp_path).glob("herodotus-read-log-*"))
    finally:
        for process in (reader, endpoint):
            if process.running:
                process.stop()


def answers(url: str) -> Any:
    """Return the document at a URL, or None if there is none yet."""
    try:
        answer = httpx.get(url)
    except httpx.TransportError:
        return None
    return answer.json() if answer.status_code == 200 else None


def test_followed_log_that_cannot_be_delivered_still_stops(tmp_path: Path) -> None:
    log = tmp_path / "kube-scheduler.log"
    log.write_text(placed(0))
    nowhere = ("--endpoint", f"http://127.0.0.1:{free_port()}", "--cluster", "c1")
    reader = Process("read-log", python("scheduler", "read-log", "-f", str(log), *nowhere), tmp_path / "read-log.log")
    try:
        reader.wait_for("Decisions are not taken yet")
    finally:
        code = reader.stop()
    assert code == 1
    assert "what is read again is not stored twice" in reader.output()
