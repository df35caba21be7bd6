"""`kubectl herodotus`: the entry.

Owns: the order in which things begin, which is what makes an answer quick. Does not own: commands and exit codes
(`command_line`), the question that is sent ahead (`ahead`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from herodotus_cli import ahead
from herodotus_cli.transport.begun import Begun


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits."""
    words = sys.argv[1:] if arguments is None else arguments
    begun = Begun()
    try:
        ahead.begin(words, os.environ, begun)
        from herodotus_cli.command_line import run_process  # here, while kubectl works

        sys.exit(run_process(words, begun))
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        begun.close()
