from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql
from tests.endpoint.service import Service, a_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = a_service(tmp_path)
    yield opened
    opened.store.close()


@pytest.fixture(scope="session")
def server() -> Iterator[postgresql.Server | None]:
    """A PostgreSQL for every test that makes a database of its own in it; None where it is not installed."""
    if not postgresql.BINARIES:
        yield None
        return
    with postgresql.Server() as started:
        yield started
