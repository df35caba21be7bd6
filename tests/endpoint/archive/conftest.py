import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus_endpoint.archive.location import ArchiveLocation
from tests.endpoint.archive.object_store import CREDENTIALS, MISSING, PROGRAM, ObjectStore
from tests.endpoint.service import Service, a_service, rows
from tests.support.archived_days import DAY_S, TABLE, days


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore | None]:
    """An object store for every test that makes a bucket of its own; None where it is not installed."""
    if not PROGRAM.exists():
        yield None
        return
    started = ObjectStore(tmp_path_factory.mktemp("s3"))
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(params=["directory", "s3"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, object_store: ObjectStore | None, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The URL of an empty archive, in a directory and on an object store."""
    if request.param == "directory":
        return str(tmp_path / "archive")
    if object_store is None:
        warnings.warn(f"the archive is not tested on S3: {MISSING}", stacklevel=1)
        pytest.skip(MISSING)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return object_store.bucket()


@pytest.fixture
def location(url: str) -> ArchiveLocation:
    return ArchiveLocation(url)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Service]:
    """A service with decisions of three days in two namespaces, whose clock is a week later."""
    opened = a_service(tmp_path / "source")
    for frames in days():
        opened.stored(rows(TABLE), *frames)
        opened.clock.now_s += DAY_S
    opened.clock.now_s += 7 * DAY_S
    yield opened
    opened.store.close()
