import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus_endpoint.archive.location import ArchiveLocation
from tests.endpoint.archive.object_store import CREDENTIALS, MISSING, PROGRAM, ObjectStore


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
