from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endpoint.service import Service, a_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = a_service(tmp_path)
    yield opened
    opened.store.close()
