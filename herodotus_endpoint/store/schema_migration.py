"""Migration of a database's schema with Alembic.

Owns: which databases are migrated, and which newer schemas can be used as they are. Does not own: the revisions
(`migrations`). It is a module of its own because importing Alembic takes a tenth of a second, which local mode saves.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from herodotus_endpoint.store.database import (
    Database,
    StoreError,
    StoreUnavailableError,
    translate_errors,
    verify_schema,
)
from herodotus_endpoint.store.schema import USABLE_FROM

MIGRATIONS: Final = Path(__file__).parent / "migrations"

_log: Final = logging.getLogger(__name__)


def migrate_schema(database: Database, *, new: bool) -> None:
    """Migrate the schema to that of this version of the service, or keep a newer schema that this version can use.

    `new` allows an empty database; otherwise the database must already have this service's tables. Raises StoreError if
    the database cannot be used.
    """
    engine = database.writing_engine(bounded=False)  # a migration may take its time
    try:
        with translate_errors(), engine.begin() as connection:
            _refuse_foreign(connection, new=new)
            config = Config()
            config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            if not _newer_and_usable(connection, ScriptDirectory.from_config(config)):
                command.upgrade(config, "head")
            verify_schema(connection)
    except (StoreUnavailableError, CommandError, _UnusableError) as e:
        raise StoreError(f"cannot use {database.name}: {e}") from e
    finally:
        engine.dispose()


class _UnusableError(Exception):
    """A database of another program, or one whose schema this version cannot use."""


def _refuse_foreign(connection: sa.Connection, *, new: bool) -> None:
    """Raise _UnusableError if another program created the database, or if it has no tables although `new` is False."""
    tables = set(sa.inspect(connection).get_table_names())
    if "alembic_version" in tables and ("incarnations" in tables or len(tables) == 1):
        return
    if tables:
        named = ", ".join(sorted(tables)[:3])
        raise _UnusableError(
            f"it is not a database of this service: it holds the tables {named}; use a separate database"
        )
    if not new:
        raise _UnusableError("it is not a database of this service: it holds no tables")


def _newer_and_usable(connection: sa.Connection, scripts: ScriptDirectory) -> bool:
    """Return whether a newer version of the service migrated the schema, and this version can still use it.

    In a usable schema, columns that this version does not know have defaults, and the columns that it needs exist. The
    table `usable_from` names the oldest revision that can use the schema. Raises _UnusableError if this version is
    older.
    """
    own_revisions = {script.revision for script in scripts.walk_revisions()}
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None or revision in own_revisions:
        return False
    usable = None
    if sa.inspect(connection).has_table(USABLE_FROM.name):
        usable = connection.scalar(sa.select(USABLE_FROM.c.revision))
    if usable not in own_revisions:
        raise _UnusableError(
            f"a newer version of the service has changed its schema to {revision}, which services of schema"
            f" {usable or revision} and later can use; this one's is {scripts.get_current_head()}"
        )
    _log.warning(
        "the database's schema %s is of a newer version of the service; this version uses it without migrating it",
        revision,
    )
    return True
