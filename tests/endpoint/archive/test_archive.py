"""The archive: days are written once and completely, and the service answers from it as from its database."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet as pq

from herodotus_endpoint import __main__ as program
from herodotus_endpoint import maintenance
from herodotus_endpoint.archive import (
    ArchiveError,
    ArchiveTimeoutError,
    ArchiveUnavailableError,
    manifests,
    reader,
    writer,
)
from herodotus_endpoint.archive.location import ArchiveLocation
from herodotus_endpoint.archive.manifests import format_day, parse_day
from herodotus_endpoint.archive.reader import ArchiveReader
from herodotus_endpoint.archive.tables import ARCHIVED
from herodotus_endpoint.archive.writer import ArchiveOptions, archive_days, delete_expired_days
from herodotus_endpoint.exchange.parquet import DECISIONS
from herodotus_endpoint.fair_queue import TurnRefusedError
from herodotus_endpoint.store import Store
from herodotus_endpoint.store.query_results import PodIdentity
from tests.builders import CLUSTER, INCARNATION, MONDAY_US, a_decision
from tests.endpoint.service import API, Service, a_service, an_empty_file, rows
from tests.support.archived_days import ALL, DAY_S, NODES, TABLE, at_id, find_marks, summarise, without_times
from tests.support.clock import Clock

OTHER_CLUSTER = "../other cluster"  # a name that no path may take literally


@pytest.fixture
def old(tmp_path: Path, source: Service, location: ArchiveLocation) -> Iterator[Service]:
    """A service with an empty database and the archive of `source`."""
    list(archive_days(source.store, location, ALL))
    archive = ArchiveReader(location)
    opened = a_service(tmp_path / "old", archive=archive)
    opened.clock.now_s = source.clock.now_s
    yield opened
    opened.store.close()
    archive.close()


PATHS = {
    "a bound pod": "/namespaces/shop/podexplanations/web-1-2",
    "a pod that was rejected on three days": "/namespaces/shop/podexplanations/big",
    "an earlier attempt": "/namespaces/shop/podexplanations/big?attempt=2",
    "all nodes": "/namespaces/shop/podexplanations/big?all=true",
    "a pod's history": "/namespaces/shop/podhistories/big",
    "the newest two attempts": "/namespaces/shop/podhistories/big?limit=2",
    "the whole record": "/namespaces/bank/decisions/web-0-1",
    "two pods": "/namespaces/shop/podcomparisons/web-0-1?with=web-0-2",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_archive_answers_as_the_database_did(source: Service, old: Service, path: str) -> None:
    summarise(source)
    expected = source.client.get(API + path).get_json()
    answer = old.client.get(API + path)
    assert answer.status_code == 200, answer.text
    found = answer.get_json()
    marks = find_marks(found)
    assert marks or "comparisons" in path
    assert all(mark == {"day": format_day(MONDAY_US + int(d * DAY_S * 1e6))} for d, mark in marks_by_day(marks))
    assert without_times(found) == without_times(expected)
    assert answer.headers["Warning"] == '299 - "from the archive of older decisions"'


def marks_by_day(marks: list[Any]) -> list[tuple[int, Any]]:
    return [((parse_day(mark["day"]) - parse_day("2026-03-01")) // int(DAY_S * 1e6), mark) for mark in marks]


def test_a_decision_is_found_by_its_id(source: Service, old: Service) -> None:
    (row, *_) = source.listing.decisions([], None, 1)
    found = old.get(f"{API}/namespaces/{row.namespace}/decisions/{row.decision_id}")
    assert found["metadata"]["name"] == row.decision_id
    unknown = row.decision_id[:-1] + "f"
    assert old.error(f"{API}/namespaces/{row.namespace}/decisions/{unknown}")["code"] == 404
    assert old.error(f"{API}/namespaces/elsewhere/decisions/{row.decision_id}")["code"] == 404


SELECTORS: dict[str, dict[str, str]] = {
    "everything": {},
    "a label": {"labelSelector": "app=app-1"},
    "two labels": {"labelSelector": "app in (app-0, app-2)"},
    "another label": {"labelSelector": "app notin (app-0),app"},
    "without a label": {"labelSelector": "!app"},
    "a state": {"fieldSelector": "status.state=Unschedulable"},
    "another state": {"fieldSelector": "status.state!=Bound"},
    "a time": {"since": "2026-03-02T13:00:00Z", "until": "2026-03-03T13:00:00Z"},
    "an owner": {"fieldSelector": "spec.pod.owner=ReplicaSet/web"},
    "no owner": {"fieldSelector": "spec.pod.owner="},
    "a node": {"fieldSelector": "status.node=worker-3,spec.scheduler.profile=herodotus-scheduler"},
    "a pod": {"pod": "big"},
    "nothing": {"pod": "big'; drop table decisions; --"},
}


@pytest.mark.parametrize("selector", SELECTORS.values(), ids=SELECTORS)
def test_lists_are_those_of_the_database_page_by_page(source: Service, old: Service, selector: dict[str, str]) -> None:
    path = f"{API}/namespaces/shop/decisions"
    expected = source.get(path, **selector)["items"]
    found: list[Any] = []
    more: dict[str, Any] = {}
    while True:
        page = old.get(path, archive="true", limit=2, **selector, **more)
        assert len(page["items"]) <= 2
        found += page["items"]
        if "continue" not in page["metadata"]:
            break
        more = {"continue": page["metadata"]["continue"]}
    assert [without_times(item) for item in found] == [without_times(item) for item in expected]
    assert old.get(path)["items"] == [], "only on request"


def test_a_list_of_the_archive_needs_an_archive(source: Service) -> None:
    assert "--archive" in source.error(f"{API}/namespaces/shop/decisions", archive="true")["message"]


def test_a_day_is_written_when_it_is_over_and_once(source: Service, location: ArchiveLocation) -> None:
    source.clock.now_s = parse_day("2026-03-03") / 1e6 + 3600
    written = list(archive_days(source.store, location, ALL))
    assert [(m.day, m.decisions, m.complete) for m in written] == [("2026-03-01", 7, True), ("2026-03-02", 7, True)]
    assert list(archive_days(source.store, location, ALL)) == []
    assert list(archive_days(source.store, location, ArchiveOptions(delay_s=2 * DAY_S))) == []
    source.clock.now_s += DAY_S
    assert [m.day for m in archive_days(source.store, location, ALL)] == ["2026-03-03"]


def test_an_interrupted_run_is_continued_with_the_same_result(
    source: Service, location: ArchiveLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FILE_DECISIONS", 2)
    whole = ArchiveLocation(str(tmp_path / "whole"))
    list(archive_days(source.store, whole, ALL))
    for stops_after in range(1, 40):
        asked = iter(range(stops_after))
        list(archive_days(source.store, location, ALL, lambda asked=asked: next(asked, None) is None))  # type: ignore[misc]
        partial = manifests.read_manifest(location, CLUSTER, "2026-03-01")
        assert partial is None or partial.complete or partial.decisions % 2 == 0
    list(archive_days(source.store, location, ALL))
    assert contents(location) == contents(whole)


def contents(location: ArchiveLocation) -> dict[str, bytes | None]:
    paths = [p for folder in ("decisions", "manifests") for p in location.list_files(folder, recursive=True)]
    assert paths
    return {path: location.read(path) for path in paths}


def test_an_unfinished_day_is_not_read(
    source: Service, location: ArchiveLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FILE_DECISIONS", 2)
    asked = iter(range(6))
    list(archive_days(source.store, location, ALL, lambda: next(asked, None) is None))
    assert location.list_files("decisions", recursive=True)
    opened = ArchiveReader(location)
    assert opened.list_decisions([], None, 10, cluster=CLUSTER) == reader.ArchivePage([], None)
    opened.close()


def test_the_database_of_another_identity_begins_a_day_again(
    source: Service, location: ArchiveLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = manifests.Manifest(CLUSTER, "2026-03-01", "another", 10**6, 5, False, ())
    location.write(f"{manifests.partition_folder('decisions', CLUSTER, '2026-03-01')}/part-00007.parquet", b"another")
    manifests.write_manifest(location, unfinished)
    (first, *_) = archive_days(source.store, location, ALL)
    assert (first.day, first.decisions, first.store) == ("2026-03-01", 7, source.store.reader.identity)
    files = location.list_files(manifests.partition_folder("decisions", CLUSTER, "2026-03-01"))
    assert files == [file.path for file in first.files], "the other database's files are gone"


def test_clusters_have_their_own_partitions_whatever_their_names(source: Service, location: ArchiveLocation) -> None:
    again = INCARNATION.replace("aa", "ab")
    d = a_decision(nodes=NODES, cluster=OTHER_CLUSTER, incarnation=again)
    source.stored(rows(TABLE, incarnation=again, cluster=OTHER_CLUSTER), at_id(d, MONDAY_US))
    source.clock.now_s += 2 * DAY_S
    list(archive_days(source.store, location, ALL))
    assert manifests.list_clusters(location) == sorted([OTHER_CLUSTER, CLUSTER])
    opened = ArchiveReader(location)
    (found,) = opened.decisions_of_pod(PodIdentity("shop", d.pod.name, OTHER_CLUSTER))
    assert (found.decision.id, found.decision.key.cluster) == (at_id(d, MONDAY_US).id, OTHER_CLUSTER)
    assert opened.decisions_of_pod(PodIdentity("shop", d.pod.name, CLUSTER)) == []
    opened.close()


def test_retention_of_the_archive_deletes_whole_days(source: Service, location: ArchiveLocation) -> None:
    list(archive_days(source.store, location, ArchiveOptions(delay_s=0.0, scores=True)))
    source.clock.now_s = parse_day("2026-03-12") / 1e6
    assert list(delete_expired_days(source.store, location, 10)) == [(CLUSTER, "2026-03-01")]
    assert manifests.list_days(location, CLUSTER) == ["2026-03-02", "2026-03-03"]
    left = [p for table in ("decisions", "scores") for p in location.list_files(table, recursive=True)]
    assert left
    assert not [path for path in left if "day=2026-03-01" in path]
    again = ArchiveOptions(delay_s=0.0, keep_days=10)
    assert list(archive_days(source.store, location, again)) == [], "an expired day is not written again"


def test_an_interrupted_deletion_is_repeated(
    source: Service, location: ArchiveLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(archive_days(source.store, location, ALL))
    source.clock.now_s = parse_day("2026-03-12") / 1e6
    with monkeypatch.context() as patched:
        patched.setattr(location, "delete_folder", lambda _: raise_unavailable())
        with pytest.raises(ArchiveUnavailableError):
            list(delete_expired_days(source.store, location, 10))
    opened = ArchiveReader(location)
    found = opened.list_decisions([], None, 100, cluster=CLUSTER)
    opened.close()
    assert len(found.rows) == 14, "the day is not read any more"
    assert list(delete_expired_days(source.store, location, 10)) == [(CLUSTER, "2026-03-01")]
    assert not [p for p in location.list_files("decisions", recursive=True) if "day=2026-03-01" in p]


def raise_unavailable() -> None:
    raise ArchiveUnavailableError("gone")


def test_retention_for_one_cluster_leaves_the_others(source: Service, location: ArchiveLocation) -> None:
    list(archive_days(source.store, location, ALL))
    source.clock.now_s = parse_day("2026-03-12") / 1e6
    marks = manifests.list_finished_days(location, source.store.reader.identity)
    assert list(delete_expired_days(source.store, location, 1, "another")) == []
    assert manifests.list_days(location, CLUSTER) == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert manifests.list_finished_days(location, source.store.reader.identity) == marks
    assert len(list(delete_expired_days(source.store, location, 1, CLUSTER))) == 3


def test_columns_are_those_of_an_export_with_three_more(source: Service, location: ArchiveLocation) -> None:
    (manifest, *_) = archive_days(source.store, location, ALL)
    content = location.read(manifest.files[0].path)
    assert content is not None
    assert len(content) == manifest.files[0].bytes
    table = pq.read_table(io.BytesIO(content))
    assert table.schema.remove_metadata() == ARCHIVED
    assert table.schema.names == [*DECISIONS.names, "ingested", "row", "record"]
    assert table["pod"].to_pylist() == [*(f"web-0-{i}" for i in range(3)), "big", *(f"web-0-{i}" for i in range(3))]


def test_a_question_ends_at_its_time_limit(old: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "TIMEOUT_S", 0.0)
    error = old.error(f"{API}/namespaces/shop/podexplanations/big")
    assert (error["code"], error["message"]) == (
        503,
        "the archive was searched back to 2026-03-03 in 0 s and not further",
    )


def test_time_that_reading_footers_takes_counts(old: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement begins after the limit, because DuckDB forgets an interruption that came before."""
    read_footers = ArchiveReader.dataset

    def read_slowly(self: ArchiveReader, files: Any) -> Any:
        time.sleep(0.3)
        return read_footers(self, files)

    monkeypatch.setattr(reader, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(ArchiveReader, "dataset", read_slowly)
    with old.archive._question() as question, pytest.raises(ArchiveTimeoutError):
        question.select(old.archive._list_files(CLUSTER), [], 10)


def test_more_questions_than_the_limit_are_refused(old: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = old.archive._queue
    monkeypatch.setattr(turns, "_wait_s", 0.01)
    with turns.admit("one reader"), turns.admit("another reader"):
        error = old.error(f"{API}/namespaces/shop/podexplanations/big")
    assert (error["code"], error["details"]["retryAfterSeconds"]) == (429, 1)
    assert old.explain("big")["metadata"]["name"] == "big"


def test_a_reader_has_one_question_at_a_time(old: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = old.archive._queue
    monkeypatch.setattr(turns, "_wait_s", 0.01)
    with turns.admit("one reader"):
        with pytest.raises(TurnRefusedError), turns.admit("one reader"):
            pass
        with turns.admit("another reader"):
            pass


def test_a_damaged_file_is_an_error_and_no_answer(old: Service, location: ArchiveLocation) -> None:
    (path,) = [p for p in location.list_files("decisions", recursive=True) if "2026-03-02" in p]
    content = location.read(path)
    assert content is not None
    location.write(path, content[: len(content) // 2] + b"\0" * (len(content) - len(content) // 2))
    error = old.error(f"{API}/namespaces/shop/podexplanations/web-1-2")
    assert (error["code"], error["message"]) == (503, "the archive is unavailable; the service's log has the details")


def test_the_database_is_asked_first(source: Service, location: ArchiveLocation, tmp_path: Path) -> None:
    list(archive_days(source.store, location, ALL))
    archive = ArchiveReader(location)
    opened = a_service(tmp_path / "both", archive=archive)
    opened.stored(rows(TABLE), a_decision(pod="big", nodes=NODES))
    found = opened.explain("big")
    assert ("archive" in found, found["attempt"]["attempts"]) == (False, 1)
    assert opened.explain("web-0-1")["archive"] == {"day": "2026-03-01"}
    opened.store.close()
    archive.close()


def test_an_unknown_pod_is_not_found(old: Service) -> None:
    assert old.error(f"{API}/namespaces/shop/podexplanations/unknown")["code"] == 404
    assert old.error(f"{API}/namespaces/shop/podexplanations/big", attempt=9)["code"] == 404
    assert old.error(f"{API}/namespaces/shop/podexplanations/big", uid="other")["code"] == 404


BAD_URLS = ["ftp://host/path", "s3:///prefix", "s3://bucket/prefix?secret=x", "file:///a?region=x", "//host/path", ""]


@pytest.mark.parametrize("bad", BAD_URLS)
def test_other_urls_are_refused(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArchiveError, match="are supported"):
        ArchiveLocation(bad)
    for arguments in (["--archive", bad], ["archive", "--to", bad]):
        with pytest.raises(SystemExit, match="2"):
            program.main(arguments)
        assert "are supported" in capsys.readouterr().err


def test_an_unreachable_object_store_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    gone = ArchiveLocation("s3://bucket/prefix?region=us-east-1&endpoint=http%3A%2F%2F127.0.0.1%3A9")
    with pytest.raises(ArchiveUnavailableError, match="cannot list manifests"):
        manifests.list_clusters(gone)


def test_the_command_archives_and_deletes(
    source: Service, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with source.store.writer.transaction() as connection:
        source.store.clock.sync(connection)
    source.store.close()
    data = ["--data", str(tmp_path / "source" / "data")]
    assert maintenance.main(["archive", *data, "--to", url, "--delay", "1s", "--keep", "36500d"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"archived 2026-03-01 of cluster {CLUSTER}: 7 decisions, 1 file, ")
    assert lines[-1] == "3 days archived, 21 decisions; 0 deleted"
    assert maintenance.main(["archive", *data, "--to", url, "--keep", "1d"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 days archived, 0 decisions; 3 deleted"


def test_files_of_a_directory_are_readable_by_their_owner_only(source: Service, tmp_path: Path) -> None:
    local = ArchiveLocation(str(tmp_path / "local"))
    list(archive_days(source.store, local, ALL))
    found = [p for p in (tmp_path / "local").rglob("*") if p.is_file()]
    assert found
    assert {p.stat().st_mode & 0o777 for p in found} == {0o600}


def test_an_empty_database_has_nothing_to_archive(tmp_path: Path) -> None:
    store = Store(an_empty_file(tmp_path / "empty.db"), Clock())
    assert list(archive_days(store, ArchiveLocation(str(tmp_path / "archive")), ALL)) == []
    store.close()
