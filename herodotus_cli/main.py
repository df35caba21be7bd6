"""`kubectl herodotus`: the entry.

Owns: the order in which things begin and end, which is what makes an answer quick. Does not own: commands and exit
codes (`command_line`), the question that is sent ahead (`ahead`).
"""

from __future__ import annotations

import gc
import os
import sys

from herodotus_cli import ahead
from herodotus_cli.errors import INTERRUPTED
from herodotus_cli.transport.begun import Begun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_SELDOM = 50_000  # new objects until garbage is looked for, instead of 700: what is imported is none


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits."""
    words = sys.argv[1:] if arguments is None else arguments
    gc.set_threshold(_SELDOM)
    begun = Begun()
    try:
        ahead.begin(words, os.environ, begun)
        from herodotus_cli.command_line import run_process  # here, while kubectl works

        code = run_process(words, begun)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except ModuleNotFoundError as missing:  # a clone that was not installed
        code = _say_what_is_missing(str(missing.name))
    finally:
        begun.close()
    _leave(code)


def _say_what_is_missing(package: str) -> int:
    """Print which package is missing and how to install it; return the exit code."""
    print(
        f"error: {sys.executable} has no package {package}, which kubectl herodotus needs;"
        " run ./install.sh, or: python3 -m pip install .",
        file=sys.stderr,
    )
    return 1


def _leave(code: int) -> NoReturn:
    """Ends without taking every module apart, which would be a tenth of the time of an answer."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # closed, or nobody reads it: that was told before
            continue
    os._exit(code)
