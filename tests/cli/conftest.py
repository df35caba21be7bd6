from __future__ import annotations

from collections.abc import Iterator

import pytest

from herodotus_cli import progress
from tests.cli.service import Service, serving


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as found:
        yield found


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than a second for an answer, and the note about it is no part of other tests."""
    monkeypatch.setattr(progress, "NOTE_DELAY_S", 60.0)
