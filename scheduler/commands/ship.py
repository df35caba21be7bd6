"""The command `ship`, which runs the shipper. It is also a program of its own, which `run` starts as a child process.

Owns: both, and the priority of the process. Does not own: delivery (`recorder.shipper`).

Invariant: no scheduling code is imported. `run` starts this program (`python -m scheduler.commands.ship`) beside
itself, on the same cores, while it lists the cluster; with all of `main` it would take twice the time.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from herodotus_record import klog
from herodotus_record.escaping import escape
from scheduler.recorder import endpoint, shipper

DEFAULT_SPOOL: Final = Path("/var/lib/herodotus/spool")
NICENESS: Final = 5  # where there are too few cores, scheduling comes first


def main(argv: Sequence[str] | None = None) -> int:
    """Run the shipper as a separate program and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m scheduler.commands.ship", description="Deliver a spool.")
    add_options(parser)
    klog.add_options(parser)
    arguments = parser.parse_args(argv)
    klog.setup(arguments.v, format=arguments.logging_format)
    try:
        return ship(arguments)
    except endpoint.EndpointError as e:
        print(f"error: {escape(str(e))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `ship` to a parser."""
    add_spool(command)
    command.add_argument("--endpoint", required=True, type=parse_url, metavar="URL", help="the decisions service")
    endpoint.add_options(command)


def ship(arguments: argparse.Namespace) -> int:
    """Deliver the spool until the parent process ends, and return the exit code: 1 if records are left.

    Raise EndpointError if the flags contradict each other.
    """
    service = endpoint.endpoint_from_arguments(arguments)
    assert service is not None  # the flag is required
    os.nice(NICENESS)
    return shipper.main(arguments.spool, service)


def add_spool(parser: argparse._ActionsContainer) -> None:
    """Add `--spool`, the option for the spool directory, to a parser."""
    parser.add_argument(
        "--spool",
        type=Path,
        default=DEFAULT_SPOOL,
        metavar="DIR",
        help=f"where records wait to be delivered (default {DEFAULT_SPOOL})",
    )


def parse_url(text: str) -> str:
    """Return the http or https URL without a trailing slash. Raise ArgumentTypeError if it has a path or is no URL."""
    if not re.fullmatch(r"https?://[^/?#\s]+/?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as http://127.0.0.1:8000")
    return text.rstrip("/")


if __name__ == "__main__":
    raise SystemExit(main())
