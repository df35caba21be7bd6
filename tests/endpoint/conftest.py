from collections.abc import Callable, Iterator
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
            if "postgresql" in databases or ("postgresql_database" in item.fixturenames and "sqlite" not in databases):
                item.add_marker(pytest.mark.wide)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = a_service(tmp_path)
    yield opened
    opened.store.close()


@pytest.fixture(scope="session")
def postgresql_database() -> Iterator[Callable[[], str]]:
    """Return a function that creates an empty database and returns its URL, or skips the test without PostgreSQL.

    All databases are in one server, which starts with the first of them.
    """
    servers: list[postgresql.Server] = []

    def create() -> str:
        if not postgresql.BINARIES:
            pytest.skip(postgresql.MISSING)
        if not servers:
            servers.append(postgresql.Server())
        return servers[0].database()

    yield create
    for server in servers:
        server.stop()
