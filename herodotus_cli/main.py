"""The entry point of `kubectl herodotus`.

Owns: start-up and exit, which decide how fast an answer is. Does not own: commands and exit codes (`command_line`).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from herodotus_cli.errors import INTERRUPTED

_GC_THRESHOLD = 50_000  # instead of 700: collecting while modules are imported finds nothing


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit the process with its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    gc.set_threshold(_GC_THRESHOLD)
    try:
        from herodotus_cli.command_line import run_process  # here, because click or another package may be missing

        code = run_process(words)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ModuleNotFoundError as missing:  # a clone that was not installed
        code = _report_missing_package(str(missing.name))
    _exit(code)


def _report_missing_package(package: str) -> int:
    """Print which package is missing and how to install it; return the exit code."""
    print(
        f"error: {sys.executable} has no package {package}, which kubectl herodotus needs; run ./install.sh",
        file=sys.stderr,
    )
    return 1


def _exit(code: int) -> NoReturn:
    """Flush the output and end the process at once. Unloading modules would take a tenth of the time of a command."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed, or its reader is gone; that was reported
            continue
    os._exit(code)
