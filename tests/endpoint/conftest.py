from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql
from tests.endpoint.service import Service, a_service


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests on PostgreSQL to `make wide`: on SQLite they hold the same promises."""
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(Path(__file__).parent):
            databases = item.callspec.params.values() if hasattr(item, "callspec") else ()
            if "postgresql" in databases or ("server" in item.fixturenames and "sqlite" not in databases):
                item.add_marker(pytest.mark.wide)


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
