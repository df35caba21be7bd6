"""Migrations of a later release: records stay, and this release can return to the database that they made.

Migrations expand first. A replica of the release before names the columns that it knows, so existing columns must stay,
and new ones need defaults. A migration that does otherwise says so in the schema (`usable_from`), and services of the
release before are refused. The tests make such migrations, because no release has one yet.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from herodotus_endpoint.store import Store, StoreError, database_from_url, schema_migration, sqlite_url
from herodotus_endpoint.store.query_results import PodIdentity
from herodotus_endpoint.store.schema import USABLE_FROM
from herodotus_endpoint.store.schema_migration import MIGRATIONS
from herodotus_record import codec
from tests.builders import CLUSTER, INCARNATION, a_decision, a_table

TABLE = a_table(["worker-1", "worker-2", "worker-3"])
ADDS = 'op.add_column("decisions", sa.Column("later", sa.BigInteger, nullable=False, server_default="7"))'
CONTRACTS = """op.execute("UPDATE usable_from SET revision = '0002'")"""


@dataclass(frozen=True)
class Shape:
    """What the statements of a version rely on. `needed` are columns without default, `keys` unique constraints."""

    columns: frozenset[tuple[str, str, str]]
    needed: frozenset[tuple[str, str]]
    keys: frozenset[tuple[str, tuple[str, ...]]]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgresql_database: Callable[[], str]) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "herodotus.db")
    return postgresql_database()


@pytest.fixture
def engine(url: str, tmp_path: Path) -> Iterator[sa.Engine]:
    (tmp_path / "herodotus.db").touch()
    engine = database_from_url(url).writing_engine()
    yield engine
    engine.dispose()


@pytest.fixture
def later_release(tmp_path: Path) -> Callable[[str, str], list[str]]:
    """A service of a later release, whose migration 0002 runs these statements: it stores a pod and lists all."""

    def run(url: str, statements: str) -> list[str]:
        migrations = tmp_path / "migrations"
        shutil.copytree(MIGRATIONS, migrations, ignore=shutil.ignore_patterns("__pycache__"))
        (migrations / "versions" / "0002_later.py").write_text(
            "import sqlalchemy as sa\nfrom alembic import op\n\n"
            f'revision = "0002"\ndown_revision = "0001"\n\n\ndef upgrade():\n    {statements}\n'
        )
        with pytest.MonkeyPatch.context() as there:
            there.setattr(schema_migration, "MIGRATIONS", migrations)
            return stored(url, "later", 2)

    return run


def stored(url: str, pod: str, sequence: int) -> list[str]:
    """Store a decision about a pod, and return the names of all pods with decisions, oldest first."""
    store = Store(url)
    try:
        decision = a_decision(pod=pod, sequence=sequence)
        receipt = store.writer.store((f, codec.encode(f)) for f in (TABLE.rows(CLUSTER, INCARNATION), decision))
        assert receipt.decisions == 1
        (found,) = store.reader.decisions_of_pod(PodIdentity("shop", pod))
        assert found.decision == decision
        return [row.pod for row in reversed(store.listing.decisions([], None, 9))]
    finally:
        store.close()


def test_a_database_is_migrated_and_used_again_by_the_release_before(
    url: str, later_release: Callable[[str, str], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    assert stored(url, "before", 1) == ["before"]
    assert later_release(url, ADDS) == ["before", "later"]
    with caplog.at_level(logging.WARNING):
        assert stored(url, "after", 3) == ["before", "later", "after"]
    assert "the database's schema 0002 is of a newer version of the service; this version uses it" in caplog.text


def test_the_release_before_refuses_a_schema_that_it_cannot_use(
    url: str, later_release: Callable[[str, str], list[str]]
) -> None:
    stored(url, "before", 1)
    assert later_release(url, CONTRACTS) == ["before", "later"]
    with pytest.raises(StoreError, match="changed its schema to 0002, which services of schema 0002 and later can use"):
        Store(url)


def config(connection: sa.Connection) -> Config:
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS))
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made


def shape(connection: sa.Connection) -> Shape:
    found = sa.inspect(connection)
    columns, needed, keys = set(), set(), set()
    for table in set(found.get_table_names()) - {"alembic_version"}:
        keys.add((table, tuple(found.get_pk_constraint(table)["constrained_columns"])))
        for column in found.get_columns(table):
            columns.add((table, column["name"], str(column["type"])))
            numbered = column.get("autoincrement") is True or column["name"] == "id"
            if not column["nullable"] and column["default"] is None and not numbered:
                needed.add((table, column["name"]))
    return Shape(frozenset(columns), frozenset(needed), frozenset(keys))


def only_expands(before: Shape, after: Shape) -> bool:
    tables = {table for table, _ in before.keys}
    asked = {(table, column) for table, column in after.needed if table in tables}
    return before.columns <= after.columns and asked <= before.needed and before.keys <= after.keys


def test_each_version_that_may_use_the_schema_can_write_its_rows(engine: sa.Engine) -> None:
    revisions = [r.revision for r in reversed(list(ScriptDirectory(str(MIGRATIONS)).walk_revisions()))]
    shapes: dict[str, Shape] = {}
    for revision in revisions:
        with engine.begin() as connection:
            command.upgrade(config(connection), revision)
            shapes[revision] = shape(connection)
    with engine.connect() as connection:
        usable = connection.execute(sa.select(USABLE_FROM.c.revision)).scalar_one()
    contracting = [to for of, to in pairwise(revisions) if not only_expands(shapes[of], shapes[to])]
    assert [revision for revision in contracting if revision > usable] == []


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ("CREATE TABLE more (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL)", True),
        ("ALTER TABLE gaps ADD COLUMN more VARCHAR", True),
        ("ALTER TABLE gaps ADD COLUMN more VARCHAR NOT NULL DEFAULT ''", True),
        ("ALTER TABLE gaps DROP COLUMN at_us", False),
        ("ALTER TABLE gaps RENAME COLUMN at_us TO moment_us", False),
        ("DROP TABLE gaps", False),
    ],
)
def test_the_check_of_expansions_distinguishes_changes(engine: sa.Engine, change: str, allowed: bool) -> None:
    with engine.begin() as connection:
        command.upgrade(config(connection), "head")
        before = shape(connection)
        connection.exec_driver_sql(change)
        assert only_expands(before, shape(connection)) is allowed
