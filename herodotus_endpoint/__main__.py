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
from herodotus_endpoint.store import StoreError, prepare, sqlite_url

DEFAULT_BIND: Final = Address("127.0.0.1", 8000)  # the first Herodotus' port, on loopback only
DEFAULT_THREADS: Final = 8  # half of them may be in ingest, see ingest.MAX_CONCURRENT
MAX_THREADS: Final = 64  # more only wait for each other


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; the exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # a line for every start otherwise
    arguments = _parser().parse_args(argv)
    url = arguments.database_url or sqlite_url(arguments.data / "herodotus.db")
    if arguments.insecure:
        logging.warning("--insecure: unauthenticated ingest is accepted from any peer")
    try:
        prepare(url)
        serve(
            Settings(insecure=arguments.insecure),
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
        default=_default_data(),
        metavar="DIR",
        help="directory of the SQLite database, created when it is not there (default %(default)s)",
    )
    store.add_argument(
        "--database-url",
        default=os.environ.get("HERODOTUS_DATABASE_URL"),
        metavar="URL",
        help="sqlite:///FILE instead of --data (default: the environment variable HERODOTUS_DATABASE_URL)",
    )
    return parser


def _default_data() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "herodotus"


def _address(value: str) -> Address:
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):([0-9]{1,5})", value)
    if not match or int(match[3]) > 65535:
        raise argparse.ArgumentTypeError(f"{value!r} is not HOST:PORT")
    return Address(match[1] or match[2], int(match[3]))


def _threads(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", value) or not 1 <= int(value) <= MAX_THREADS:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number from 1 to {MAX_THREADS}")
    return int(value)


if __name__ == "__main__":
    sys.exit(main())
