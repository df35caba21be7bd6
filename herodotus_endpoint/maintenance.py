"""Commands on a database beside the service: purge, check, backup, restore, export, import.

Exit codes are the service's.

Owns: their command line and what they say. Does not own: what they do (`store`, `exchange`). They may run while the
service does, but for `restore`; whoever may read the database may run them: nothing is masked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from herodotus_endpoint import options
from herodotus_endpoint.exchange import command as exchange
from herodotus_endpoint.exchange.atomic_files import FileRefusedError
from herodotus_endpoint.store import Store, StoreError, StoreUnavailableError, database_from_url
from herodotus_endpoint.store.database_check import CheckReport, check_database
from herodotus_endpoint.store.purge import PurgeSelection, purge_decisions
from herodotus_endpoint.store.sqlite import Sqlite
from herodotus_record.escaping import escape
from herodotus_record.node_results import pluralize

COMMANDS: Final = ("purge", "check", "backup", "restore", *exchange.COMMANDS)


def main(argv: Sequence[str]) -> int:
    """Run the command that `argv` begins with; the exit code."""
    arguments = _parser().parse_args(argv)
    url = options.database_url(arguments)
    try:
        match arguments.command:
            case "purge":
                print(f"{pluralize(_purge(url, arguments), 'decision')} deleted")
            case "check":
                return _check(url)
            case "backup":
                _file_database(url, "pg_dump").back_up(arguments.file)
                print(f"{arguments.file}: {arguments.file.stat().st_size} bytes")
            case "restore":
                found = _file_database(url, "pg_restore")
                found.restore(arguments.file)
                print(f"{found.name} is what {arguments.file} was")
            case _:
                exchange.run(url, arguments)
    except (StoreError, StoreUnavailableError, FileRefusedError) as e:
        print(f"error: {escape(str(e))}", file=sys.stderr)
        return 1
    return 0


def _purge(url: str, arguments: argparse.Namespace) -> int:
    found = database_from_url(url)
    if isinstance(found, Sqlite):
        found.require_file()
    store = Store(url)
    try:
        return purge_decisions(store.writer, PurgeSelection(arguments.namespace, arguments.pod_uid, arguments.cluster))
    finally:
        store.close()


def _check(url: str) -> int:
    """Print what is damaged; 1 where anything is."""
    opened = database_from_url(url)
    if isinstance(opened, Sqlite):
        opened.require_file()
    store, found = Store(url), CheckReport()
    try:
        for line in check_database(store, found):
            print(f"damaged: {line}", flush=True)
    finally:
        store.close()
    print(", ".join(f"{table}: {pluralize(number, 'row')}" for table, number in found.rows.items()))
    if found.without_checksum:
        print(f"{pluralize(found.without_checksum, 'row')} stored before there were checksums: only decoded")
    print(f"{found.damage} damaged" if found.damage else "nothing is damaged")
    return 1 if found.damage else 0


def _file_database(url: str, otherwise: str) -> Sqlite:
    found = database_from_url(url)
    if not isinstance(found, Sqlite):
        raise StoreError(f"{found.name} is no file: use PostgreSQL's own {otherwise}")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m herodotus_endpoint", description="Work on a database.")
    commands = parser.add_subparsers(dest="command", required=True)
    purging = commands.add_parser("purge", help="delete every decision of a namespace or of a pod")
    what = purging.add_mutually_exclusive_group(required=True)
    what.add_argument("--namespace", default="", metavar="NAME")
    what.add_argument("--pod-uid", default="", metavar="UID")
    purging.add_argument("--cluster", default="", metavar="UID", help="of this cluster alone")
    checking = commands.add_parser(
        "check",
        help="read the whole database and print what is damaged; exit code 1 where anything is",
        description="Reads the whole database, also beside the service, and prints what is damaged.",
    )
    saving = commands.add_parser("backup", help="write a consistent copy of the SQLite database, also while it is used")
    loading = commands.add_parser("restore", help="make a copy the database, where there is none")
    for command in (saving, loading):
        command.add_argument("file", type=Path, metavar="FILE")
    for command in (purging, checking, saving, loading, *exchange.add_parsers(commands)):
        options.add_database_flags(command)
    return parser
