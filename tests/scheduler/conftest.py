"""What every test of the scheduler shares: the log's settings, which are the process's, do not outlive a test."""

from __future__ import annotations

import pytest

from herodotus_record import klog


@pytest.fixture(autouse=True)
def log_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the log's stream, verbosity and format after each test."""
    for setting in ("_stream", "_verbosity", "_format", "_escape"):
        monkeypatch.setattr(klog, setting, getattr(klog, setting))
