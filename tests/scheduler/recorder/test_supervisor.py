"""The shipper's process runs as long as its scheduler does, whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.recorder import supervisor as module
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.supervisor import Supervisor

SHIPPER = "import sys; sys.stdin.read()"
STUBBORN = "import time; time.sleep(60)"


@pytest.fixture
def supervise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Supervisor]:
    monkeypatch.setattr(module, "RESTART_S", (0.001, 0.002))
    monkeypatch.setattr(module, "STOP_S", 0.05)

    def start(program: str) -> Supervisor:
        popen = subprocess.Popen
        monkeypatch.setattr(
            subprocess, "Popen", lambda command, **rest: popen([sys.executable, "-S", "-c", program], **rest)
        )
        return Supervisor(tmp_path, ServiceEndpoint("http://127.0.0.1:9"), "--v", "0")

    return start


def started(supervisor: Supervisor, after: int | None = None) -> int:
    """Return the process id, once it is another one than `after`."""
    deadline = time.monotonic() + 60
    while supervisor.pid in (None, after):
        assert time.monotonic() < deadline
        time.sleep(0.002)
    assert supervisor.pid is not None
    return supervisor.pid


def test_a_shipper_that_exits_is_restarted(supervise: Callable[[str], Supervisor]) -> None:
    supervisor = supervise(SHIPPER)
    first = started(supervisor)
    os.kill(first, signal.SIGKILL)
    started(supervisor, after=first)
    supervisor.close()
    assert not supervisor._thread.is_alive()


@pytest.mark.parametrize("program", [SHIPPER, STUBBORN], ids=["ends with its input", "is killed in the end"])
def test_the_shipper_ends_with_its_scheduler(supervise: Callable[[str], Supervisor], program: str) -> None:
    supervisor = supervise(program)
    pid = started(supervisor)
    supervisor.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
