"""Commands for operators that work on the database: purge, check, backup, restore, export, import, archive.

All but `restore` may run while the service runs. Nothing is masked: anyone who can read the database sees everything.
Exit codes are those of the service.

Owns: their command line and output. Does not own: the operations (`store`, `exchange`, `archive`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from herodotus_endpoint import archive_command, options
from herodotus_endpoint.archive import ArchiveError
from herodotus_endpoint.exchange import command as exchange
from herodotus_endpoint.exchange.atomic_files import FileRefusedError
from herodotus_endpoint.extras import MissingExtraError
from herodotus_endpoint.store import Store, StoreError, StoreUnavailableError, database_from_url
from herodotus_endpoint.store.database_check import CheckReport, check_database
from herodotus_endpoint.store.purge import PurgeSelection, purge_decisions
from herodotus_endpoint.store.sqlite import Sqlite
from herodotus_record.escaping import escape
from herodotus_record.units import pluralize

COMMANDS: Final = ("purge", "check", "backup", "restore", *exchange.COMMANDS, archive_command.COMMAND)


def main(argv: Sequence[str]) -> int:
    """Run the maintenance command that `argv` begins with, such as `backup`, and return the exit code."""
    arguments = _parser().parse_args(argv)
    url = options.database_url(arguments)
    try:
        match arguments.command:
            case "purge":
                print(f"{pluralize(_purge(url, arguments), 'decision')} deleted")
            case "check":
                return _check(url)
            case "backup":
                _require_sqlite(url, "pg_dump").back_up(arguments.file)
                print(f"{arguments.file}: {arguments.file.stat().st_size} bytes")
            case "restore":
                sqlite = _require_sqlite(url, "pg_restore")
                sqlite.restore(arguments.file)
                print(f"{sqlite.name} restored from {arguments.file}")
            case archive_command.COMMAND:
                return archive_command.run(url, arguments)
            case _:
                exchange.run(url, arguments)
    except (StoreError, StoreUnavailableError, FileRefusedError, MissingExtraError, ArchiveError) as e:
        print(f"error: {escape(str(e))}", file=sys.stderr)
        return 1
    return 0


def _purge(url: str, arguments: argparse.Namespace) -> int:
    database = database_from_url(url)
    if isinstance(database, Sqlite):
        database.require_file()
    store = Store(url)
    try:
        return purge_decisions(store.writer, PurgeSelection(arguments.namespace, arguments.pod_uid, arguments.cluster))
    finally:
        store.close()


def _check(url: str) -> int:
    """Print the damage found in a database, and return the exit code: 1 if there is damage, otherwise 0."""
    database = database_from_url(url)
    if isinstance(database, Sqlite):
        database.require_file()
    store, report = Store(url), CheckReport()
    try:
        for line in check_database(store, report):
            print(f"damaged: {line}", flush=True)
    finally:
        store.close()
    print(", ".join(f"{table}: {pluralize(number, 'row')}" for table, number in report.rows.items()))
    print(f"{report.damage} damaged" if report.damage else "no damage found")
    return 1 if report.damage else 0


def _require_sqlite(url: str, postgresql_command: str) -> Sqlite:
    database = database_from_url(url)
    if not isinstance(database, Sqlite):
        raise StoreError(f"{database.name} is a PostgreSQL database: use {postgresql_command}")
    return database


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m herodotus_endpoint", description="Maintain the database.")
    commands = parser.add_subparsers(dest="command", required=True)
    purging = commands.add_parser("purge", help="delete every decision of a namespace or of a pod")
    target = purging.add_mutually_exclusive_group(required=True)
    target.add_argument("--namespace", default="", metavar="NAME")
    target.add_argument("--pod-uid", default="", metavar="UID")
    purging.add_argument("--cluster", default="", metavar="UID", help="only decisions of this cluster")
    checking = commands.add_parser(
        "check",
        help="read the whole database and print damage; exit code 1 if there is any",
        description="Reads the whole database and prints damage. The service may run meanwhile.",
    )
    saving = commands.add_parser(
        "backup", help="write a consistent copy of the SQLite database, also while it is in use"
    )
    loading = commands.add_parser(
        "restore", help="restore a copy as the SQLite database; there must be no database yet"
    )
    for command in (saving, loading):
        command.add_argument("file", type=Path, metavar="FILE")
    archiving = archive_command.add_parser(commands)
    for command in (purging, checking, saving, loading, archiving, *exchange.add_parsers(commands)):
        options.add_database_flags(command)
    return parser
