"""SIGTERM ends a rig as Ctrl-C does.

Owns: that alone. Invariant: processes that a rig has started end with it, because `finally` runs.
"""

from __future__ import annotations

import signal
import sys
from typing import Final

EXIT_CODE: Final = 128 + signal.SIGTERM  # as a shell tells of it


def in_good_order() -> None:
    """From now on; to be called by a program's `main`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_CODE))
