"""python -m herodotus_endpoint: flags, and exit codes 0 (stopped), 1 (cannot run here), 2 (bad arguments).

Owns: the command line. Does not own: anything that runs.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from herodotus_endpoint import __version__
from herodotus_endpoint.server import Address, ListenError, serve
from herodotus_endpoint.settings import Settings
from herodotus_endpoint.store import Limits, StoreError, prepare, sqlite_url

DEFAULT_BIND: Final = Address("127.0.0.1", 8000)  # the first Herodotus' port, on loopback only
FILE: Final = "herodotus.db"  # in the data directory
DEFAULT_THREADS: Final = 8  # half of them may be in ingest, see settings.MAX_CONCURRENT_INGESTS
MAX_THREADS: Final = 64  # more only wait for each other
LEAST_BYTES: Final = 1 << 20  # an empty database has 350 kB
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SHIFTS: Final = {"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; the exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # a line for every start otherwise
    arguments = _parser().parse_args(argv)
    url = _database_url(arguments)
    if arguments.insecure:
        logging.warning("--insecure: unauthenticated ingest is accepted from any peer")
    try:
        prepare(url)
        serve(
            Settings(insecure=arguments.insecure, limits=_limits(arguments)),
            url,
            arguments.bind or [DEFAULT_BIND],
            arguments.ingest_bind or [],
            arguments.threads,
        )
    except (StoreError, ListenError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m herodotus_endpoint",
        description="The decisions service of Herodotus: stores scheduling decisions and answers questions about them.",
        epilog="Without authentication, ingest is accepted from loopback peers only.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    where = parser.add_argument_group("listening")
    where.add_argument(
        "--bind",
        action="append",
        type=_address,
        metavar="HOST:PORT",
        help=f"address to serve on, repeatable; port 0 takes a free one and prints it (default {DEFAULT_BIND})",
    )
    where.add_argument(
        "--ingest-bind",
        action="append",
        type=_address,
        metavar="HOST:PORT",
        help="serve ingest on this address and on no other, so that a NetworkPolicy can tell it from queries",
    )
    where.add_argument(
        "--insecure", action="store_true", help="accept unauthenticated ingest from any peer, not from loopback alone"
    )
    where.add_argument(
        "--threads",
        type=_threads,
        default=DEFAULT_THREADS,
        metavar="N",
        help=f"requests answered at the same time, 1 to {MAX_THREADS} (default {DEFAULT_THREADS})",
    )
    store = parser.add_argument_group("store").add_mutually_exclusive_group()
    store.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="directory of the SQLite database, created when it is not there (default $XDG_STATE_HOME/herodotus)",
    )
    store.add_argument(
        "--database-url",
        metavar="URL",
        help="sqlite:///FILE instead of --data (default: the environment variable HERODOTUS_DATABASE_URL)",
    )
    limits = parser.add_argument_group("retention (by time of ingest; what is over the limits goes within seconds)")
    limits.add_argument(
        "--max-age", type=_seconds, default="7d", metavar="TIME", help="of decisions: 12h, 7d (default %(default)s)"
    )
    limits.add_argument(
        "--max-bytes",
        type=_bytes,
        default="4Gi",
        metavar="SIZE",
        help="of the database: 500Mi, 4Gi; the oldest decisions go first (default %(default)s)",
    )
    limits.add_argument(
        "--history-max-age",
        type=_seconds,
        default="90d",
        metavar="TIME",
        help="of node histories, which outlive the decisions that they count (default %(default)s)",
    )
    return parser


def _limits(arguments: argparse.Namespace) -> Limits:
    return Limits(arguments.max_age, arguments.max_bytes, arguments.history_max_age)


def _database_url(arguments: argparse.Namespace) -> str:
    """A flag before the environment before the default."""
    if arguments.data:
        return sqlite_url(arguments.data / FILE)
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    url: str = arguments.database_url or os.environ.get("HERODOTUS_DATABASE_URL") or ""
    return url or sqlite_url(state / "herodotus" / FILE)


def _address(value: str) -> Address:
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):([0-9]{1,5})", value)
    if not match or int(match[3]) > 65535:
        raise argparse.ArgumentTypeError(f"{value!r} is not HOST:PORT")
    return Address(match[1] or match[2], int(match[3]))


def _seconds(value: str) -> float:
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", value)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{value!r} is not a time such as 90s, 12h or 7d")
    return float(match[1]) * _SECONDS[match[2]]


def _bytes(value: str) -> int:
    match = re.fullmatch(r"([0-9]{1,12})(Ki|Mi|Gi|Ti)?", value)
    size = int(match[1]) << _SHIFTS[match[2] or ""] if match else 0
    if size < LEAST_BYTES:
        raise argparse.ArgumentTypeError(f"{value!r} is not a size of at least 1Mi, such as 500Mi or 4Gi")
    return size


def _threads(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", value) or not 1 <= int(value) <= MAX_THREADS:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number from 1 to {MAX_THREADS}")
    return int(value)


if __name__ == "__main__":
    sys.exit(main())
