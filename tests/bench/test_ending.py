"""SIGTERM runs a benchmark's cleanup."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from bench.processes import exit_on_sigterm


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("handler")
def test_sigterm_runs_finally() -> None:
    ended = []
    exit_on_sigterm()

    def rig() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            ended.append("service")

    with pytest.raises(SystemExit) as raised:
        rig()
    assert (raised.value.code, ended) == (143, ["service"])
