"""Migrations expand first: what an older replica writes beside a newer one fits the migrated schema.

An older replica names the columns that it knows, so what was there must stay, and what is new must not be asked for.
A migration that does otherwise says so in the schema (`usable_from`), and older services are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from herodotus_endpoint.store import database_from_url, sqlite_url
from herodotus_endpoint.store.schema import USABLE_FROM
from herodotus_endpoint.store.schema_migration import MIGRATIONS
from tests import postgresql

CONTRACTED = {
    "0003",
    "0008",
}  # before the first release: the keys of histories, and on PostgreSQL of decisions, changed


@dataclass(frozen=True)
class Shape:
    """What the statements of a version rely on. `needed` are columns without default, `keys` unique constraints."""

    columns: frozenset[tuple[str, str, str]]
    needed: frozenset[tuple[str, str]]
    keys: frozenset[tuple[str, tuple[str, ...]]]


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, server: postgresql.Server | None) -> Iterator[sa.Engine]:
    url = sqlite_url(tmp_path / "herodotus.db")
    if request.param == "postgresql":
        if server is None:
            warnings.warn(f"migrations are not tested on PostgreSQL: {postgresql.MISSING}", stacklevel=1)
            pytest.skip(postgresql.MISSING)
        url = server.database()
    opened = database_from_url(url)
    if request.param == "sqlite":
        (tmp_path / "herodotus.db").touch()
    engine = opened.writing_engine()
    yield engine
    engine.dispose()


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
    assert "0003" in contracting, "the key of histories changed: that it is noticed"


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
