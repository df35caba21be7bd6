"""Makes SIGTERM end a benchmark like Ctrl-C does.

Invariant: the processes that a benchmark started end with it, because `finally` blocks run.
"""

from __future__ import annotations

import signal
import sys
from typing import Final

EXIT_CODE: Final = 128 + signal.SIGTERM  # the exit code that a shell reports for SIGTERM


def exit_on_sigterm() -> None:
    """Raise SystemExit on SIGTERM from now on. Call it from a program's `main`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_CODE))
