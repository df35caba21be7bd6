from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.service import Service, serving


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as found:
        yield found
