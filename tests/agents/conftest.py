"""The extender service's plugins see the time `NOW_S`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scheduler.engine.plugins import node_measurements
from tests.agents.builders import NOW_S


@pytest.fixture(autouse=True)
def fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_measurements, "time", SimpleNamespace(time=lambda: NOW_S))
