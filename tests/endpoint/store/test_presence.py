"""The service uses only the database of its first start, complete and under its name."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from herodotus_endpoint.__main__ import main
from herodotus_endpoint.store import Store, StoreError, StoreUnavailableError, prepare_database, sqlite_url
from tests.builders import a_decision, a_table
from tests.endpoint.service import API, Service, a_service, rows

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
EXPLANATION = f"{API}/namespaces/shop/podexplanations/checkout-7d9f-x2k"


def database_of(service: Service) -> Path:
    return Path(service.store.database.name)


def codes(service: Service) -> dict[str, int]:
    """Return the status codes of a probe, an ingest and two queries."""
    return {
        "readyz": service.client.get("/readyz").status_code,
        "ingest": service.send(a_decision(pod="later", sequence=2)).status_code,
        "explanation": service.client.get(EXPLANATION).status_code,
        "list": service.client.get(f"{API}/decisions").status_code,
    }


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, tmp_path: Path, postgresql_database: Callable[[], str]) -> Iterator[Service]:
    opened = a_service(tmp_path, url=postgresql_database() if request.param == "postgresql" else "")
    yield opened
    opened.store.close()


@pytest.fixture
def on_postgresql(tmp_path: Path, postgresql_database: Callable[[], str]) -> Iterator[Service]:
    opened = a_service(tmp_path, url=postgresql_database())
    yield opened
    opened.store.close()


def execute(service: Service, statement: str) -> None:
    """Execute a statement as an administrator, beside the service."""
    name = service.store.database.name
    if name.startswith("postgresql"):
        with psycopg.connect(name) as connection:
            connection.execute(statement)
    else:
        with closing(sqlite3.connect(name, isolation_level=None)) as file:
            file.execute(statement)


def test_a_service_without_its_file_is_unavailable_until_it_returns(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    service.stored(rows(TABLE), a_decision())
    assert set(codes(service).values()) == {200}
    file = database_of(service)
    file.rename(file.with_name("away"))
    assert set(codes(service).values()) == {503}
    loud = [r.message for r in caplog.records if r.levelno == logging.CRITICAL]
    assert len(loud) == 1, "once, and not for every request"
    assert loud[0].startswith(f"the database {file} is gone while the service runs: nothing is stored or answered")
    assert service.metric("herodotus_database_up") == 0
    file.with_name("away").rename(file)
    assert set(codes(service).values()) == {200}
    assert service.metric("herodotus_database_up") == 1


def test_a_replaced_database_file_is_detected(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.stored(rows(TABLE), a_decision())
    file = database_of(service)
    copy = file.read_bytes()
    file.unlink()
    file.write_bytes(copy)
    assert set(codes(service).values()) == {503}
    assert "database-" in service.error("/readyz")["message"]
    assert "was replaced by another file" in caplog.text


def test_a_batch_is_not_acknowledged_if_the_file_is_deleted_before_the_commit(service: Service) -> None:
    service.stored(rows(TABLE), a_decision())
    file = database_of(service)

    def deleted_meanwhile() -> None:
        with service.store.writer.transaction() as connection:
            connection.execute(sa.text("DELETE FROM decisions"))
            file.rename(file.with_name("away"))

    with pytest.raises(StoreUnavailableError, match="is gone"):
        deleted_meanwhile()
    file.with_name("away").rename(file)
    assert service.store.reader.measure_sizes().rows["decisions"] == 1


def test_a_deleted_database_does_not_count_as_a_first_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "herodotus.db"
    prepare_database(sqlite_url(file))
    assert not list(tmp_path.glob("*.new*")), "nothing is left of how it was made"
    file.unlink()
    assert main(["--data", str(tmp_path), "--bind", "127.0.0.1:0"]) == 1
    err = capsys.readouterr().err
    assert f"there is no such file, but {file}.identity says that a database was there" in err
    assert not file.exists()
    (tmp_path / "herodotus.db.identity").unlink()
    prepare_database(sqlite_url(file))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    """This holds with and without a marker of an earlier database."""
    file = tmp_path / "herodotus.db"
    file.touch()
    with pytest.raises(StoreError, match=r"the file is empty \(0 bytes\) and its records are lost"):
        prepare_database(sqlite_url(file))
    file.unlink()
    prepare_database(sqlite_url(file))
    file.write_bytes(b"")
    with pytest.raises(StoreError, match=r"the file is empty \(0 bytes\) and its records are lost"):
        prepare_database(sqlite_url(file))
    assert file.stat().st_size == 0


def test_another_database_of_this_service_is_refused_until_its_marker_is_deleted(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "herodotus.db", tmp_path / "other" / "herodotus.db"
    for file in (one, other):
        prepare_database(sqlite_url(file))
    other.rename(one)
    with pytest.raises(StoreError, match=r"it is not the database that herodotus\.db\.identity names"):
        prepare_database(sqlite_url(one))
    one.with_name("herodotus.db.identity").unlink()
    prepare_database(sqlite_url(one))


def test_another_program_s_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "herodotus.db"
    for statement, said in (
        ("CREATE TABLE invoices (id INTEGER)", "it holds the tables invoices"),
        ("CREATE TABLE alembic_version (version_num TEXT)", "it holds the tables alembic_version, invoices"),
    ):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(statement)
        before = file.read_bytes()
        with pytest.raises(StoreError, match=f"it is not a database of this service: {said}"):
            prepare_database(sqlite_url(file))
        with closing(sqlite3.connect(file)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        assert ("decisions",) not in tables
        assert len(before) == file.stat().st_size


def test_another_program_s_postgresql_database_is_refused_and_unchanged(postgresql_database: Callable[[], str]) -> None:
    url = postgresql_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE invoices (id INTEGER)")
    with pytest.raises(StoreError, match="it is not a database of this service: it holds the tables invoices"):
        prepare_database(url)
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert found == [("invoices",)]


def test_files_of_an_interrupted_first_start_do_not_block_the_next(tmp_path: Path) -> None:
    for name in ("herodotus.db.new", "herodotus.db.new-wal"):
        (tmp_path / name).write_bytes(b"half")
    prepare_database(sqlite_url(tmp_path / "herodotus.db"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["herodotus.db", "herodotus.db.identity"]


@pytest.mark.parametrize(
    "damage", ["DROP TABLE gaps", "DROP TABLE reviews", "ALTER TABLE decisions DROP COLUMN message"]
)
def test_a_service_without_a_table_or_a_column_is_not_ready_and_does_not_start(either: Service, damage: str) -> None:
    either.stored(rows(TABLE), a_decision())
    assert either.client.get("/readyz").status_code == 200
    execute(either, damage)
    assert either.error("/readyz")["code"] == 503
    url = either.store.database.name
    table = damage.split()[2]
    with pytest.raises(StoreError, match=f"table {table} cannot be read"):
        Store(url if "://" in url else sqlite_url(Path(url)))


def test_a_list_without_its_column_is_answered_with_unavailable(either: Service) -> None:
    either.stored(rows(TABLE), a_decision())
    execute(either, "ALTER TABLE decisions DROP COLUMN message")
    assert either.error(f"{API}/decisions")["code"] == 503


def test_another_database_under_the_same_url_is_not_ready(
    on_postgresql: Service, caplog: pytest.LogCaptureFixture
) -> None:
    execute(on_postgresql, "UPDATE store_identity SET id = 'another'")
    assert "database-" in on_postgresql.error("/readyz")["message"]
    assert "another database than the one that was opened" in caplog.text


def test_a_refused_restore_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backup = tmp_path / "backup.db"
    prepare_database(sqlite_url(backup))
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE usable_from SET revision = '9999'")
        connection.commit()
    assert main(["restore", str(backup), "--data", str(tmp_path / "to")]) == 1
    assert f"cannot use {backup}: a newer version of the service" in capsys.readouterr().err
    assert not (tmp_path / "to").exists()


def test_a_restore_replaces_a_deleted_database(tmp_path: Path) -> None:
    backup, file = tmp_path / "backup.db", tmp_path / "to" / "herodotus.db"
    prepare_database(sqlite_url(backup))
    prepare_database(sqlite_url(file))
    file.unlink()
    assert main(["restore", str(backup), "--data", str(tmp_path / "to")]) == 0
    prepare_database(sqlite_url(file))
    assert sorted(p.name for p in file.parent.iterdir()) == ["herodotus.db", "herodotus.db.identity"]


def test_readers_of_a_locked_table_are_answered_in_time(on_postgresql: Service) -> None:
    on_postgresql.stored(rows(TABLE), a_decision())
    with psycopg.connect(on_postgresql.store.database.name) as holder:
        holder.execute("LOCK TABLE decisions")
        for path in (EXPLANATION, f"{API}/decisions", "/readyz"):
            began = time.monotonic()
            assert on_postgresql.error(path)["code"] == 503
            assert time.monotonic() - began < 8
    assert on_postgresql.client.get(EXPLANATION).status_code == 200


def test_a_reading_statement_has_a_timeout(
    postgresql_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herodotus_endpoint.store.postgresql.STATEMENT_TIMEOUT_S", 0.2)
    with closing(Store(postgresql_database())) as store:
        with pytest.raises(StoreUnavailableError, match="statement timeout"), store.snapshot() as connection:
            connection.execute(sa.text("SELECT pg_sleep(20)"))
        assert store.reader.measure_sizes().rows["decisions"] == 0


def test_a_session_idle_in_a_transaction_loses_the_writer_s_lock(
    postgresql_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql_database()
    other = Store(url)  # with the usual timeout, also while it creates the tables on a busy machine
    monkeypatch.setattr("herodotus_endpoint.store.postgresql.IDLE_TIMEOUT_S", 0.5)
    stopped = Store(url)

    def stop_in_a_transaction() -> None:
        with stopped.writer.transaction() as connection:
            connection.execute(sa.text("SELECT 1"))
            time.sleep(1.5)
            with other.writer.transaction() as beside:
                beside.execute(sa.text("SELECT 1"))
            connection.execute(sa.text("SELECT 1"))

    with pytest.raises(StoreUnavailableError):
        stop_in_a_transaction()
    stopped.close()
    other.close()


def test_readers_of_a_locked_file_are_answered_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus_endpoint.store.sqlite.BUSY_TIMEOUT_S", 0.3)
    service = a_service(tmp_path)
    service.stored(rows(TABLE), a_decision())
    name = service.store.database.name
    service.store.close()  # its connections would keep a locker out
    with closing(sqlite3.connect(name, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode=EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        assert service.error(EXPLANATION)["code"] == 503
        assert service.error("/readyz")["code"] == 503
    assert service.client.get(EXPLANATION).status_code == 200
    service.store.close()
