"""A pod of which an observer and a log have records: the archive merges them as the database does."""

from __future__ import annotations

from pathlib import Path

import pytest

from herodotus_endpoint.archive.location import ArchiveLocation
from herodotus_endpoint.archive.reader import ArchiveReader
from herodotus_endpoint.archive.writer import archive_days
from tests.endpoint.service import a_service
from tests.observed import NOON_US
from tests.support.archived_days import ALL, find_marks, summarise, without_times
from tests.support.merged_records import LOGS, SEEN


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_an_archived_attempt_is_merged_from_its_records(attempt: int, tmp_path: Path) -> None:
    source = a_service(tmp_path / "source")
    source.clock.now_s = NOON_US / 1e6
    for record in (*SEEN, *LOGS):
        source.stored(*record.frames)
    source.clock.now_s += 7 * 86_400.0
    location = ArchiveLocation(str(tmp_path / "archive"))
    list(archive_days(source.store, location, ALL))
    summarise(source)
    archive = ArchiveReader(location)
    old = a_service(tmp_path / "old", archive=archive)
    expected, found = source.explain(attempt=attempt), old.explain(attempt=attempt)
    assert len(find_marks(found)) == 1
    assert without_times(found) == without_times(expected)
    assert ("origins" in found) == (attempt != 2), "the second is in the log alone"
    archive.close()
    for service in (source, old):
        service.store.close()
