"""The command `archive`: writes the days that are over from a database to an archive, once or again and again.

Owns: its command line, output and repetition. Does not own: the archive (`herodotus_endpoint.archive`).
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import Any, Final

from herodotus_endpoint import options
from herodotus_endpoint.archive import ArchiveError, ArchiveUnavailableError
from herodotus_endpoint.extras import require_extra
from herodotus_endpoint.store import Store, StoreUnavailableError, database_from_url
from herodotus_endpoint.store.retention_limits import DAY_S
from herodotus_endpoint.store.sqlite import Sqlite
from herodotus_record.escaping import escape
from herodotus_record.units import pluralize

COMMAND: Final = "archive"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the parser of the command `archive` to `commands`, which `ArgumentParser.add_subparsers` returns."""
    parser: argparse.ArgumentParser = commands.add_parser(
        COMMAND,
        help="write the decisions of days that are over to an archive of Parquet files",
        description="Nothing is masked: every namespace, every name. An interrupted run is continued by the next one.",
    )
    parser.add_argument(
        "--to",
        required=True,
        type=options.parse_archive_url,
        metavar="URL",
        help="s3://BUCKET/PREFIX?region=REGION&endpoint=URL, or a directory",
    )
    parser.add_argument(
        "--delay",
        type=options.parse_duration,
        default="1d",
        metavar="TIME",
        help="archive a day this long after its end, so that late outcomes are in it (default %(default)s)",
    )
    parser.add_argument(
        "--keep",
        type=_parse_days,
        metavar="DAYS",
        help="the archive's own retention: delete older days, such as 730d (default: keep all)",
    )
    parser.add_argument("--scores", action="store_true", help="also a table with the scores of the kept nodes")
    parser.add_argument("--cluster", default="", metavar="UID", help="write and delete only days of this cluster")
    parser.add_argument(
        "--every", type=options.parse_duration, metavar="TIME", help="repeat until SIGTERM (default: run once)"
    )
    return parser


def run(url: str, arguments: argparse.Namespace) -> int:
    """Write the days that are over from the database at `url` to the archive, and return the exit code.

    Raises ArchiveError, MissingExtraError, StoreError or StoreUnavailableError if the command fails. With `--every`, a
    run that fails is reported and repeated.
    """
    require_extra("archive", f"`{COMMAND}`")
    from herodotus_endpoint.archive.location import ArchiveLocation

    location = ArchiveLocation(arguments.to)
    opened = database_from_url(url)
    if isinstance(opened, Sqlite):
        opened.require_file()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    store = Store(url)
    try:
        while not stopped.is_set():
            try:
                _run_once(store, location, arguments, stopped)
            except (ArchiveUnavailableError, StoreUnavailableError) as e:
                if arguments.every is None:
                    raise
                print(f"error: {escape(str(e))}", file=sys.stderr, flush=True)
            if arguments.every is None or stopped.wait(arguments.every):
                break
    finally:
        store.close()
    if stopped.is_set() and arguments.every is None:
        raise ArchiveError("stopped; the next run continues")
    return 0


def _run_once(store: Store, location: Any, arguments: argparse.Namespace, stopped: threading.Event) -> None:
    from herodotus_endpoint.archive.writer import ArchiveOptions, archive_days, delete_expired_days

    what = ArchiveOptions(arguments.delay, arguments.cluster, arguments.scores, arguments.keep)
    days = decisions = 0
    for written in archive_days(store, location, what, stopped.is_set):
        days, decisions = days + 1, decisions + written.decisions
        print(
            f"archived {written.day} of cluster {escape(written.cluster)}: {pluralize(written.decisions, 'decision')},"
            f" {pluralize(len(written.files), 'file')}, {pluralize(written.bytes, 'byte')}",
            flush=True,
        )
    deleted = 0
    if arguments.keep is not None and not stopped.is_set():
        for cluster, day in delete_expired_days(store, location, arguments.keep, arguments.cluster):
            deleted += 1
            print(f"deleted {day} of cluster {escape(cluster)}", flush=True)
    print(f"{pluralize(days, 'day')} archived, {pluralize(decisions, 'decision')}; {deleted} deleted", flush=True)


def _parse_days(value: str) -> int:
    seconds = options.parse_duration(value)
    if seconds % DAY_S:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number of days, such as 730d")
    return int(seconds // DAY_S)
