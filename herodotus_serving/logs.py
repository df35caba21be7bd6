"""Set-up of the standard library's `logging` so that each entry is one line, even if its message quotes line breaks.

Owns: escaping of messages and tracebacks for every handler of the process, gunicorn's included; the line format. Does
not own: levels of single loggers.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any, Final

from herodotus_record.escaping import escape

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class EscapedRecord(logging.LogRecord):
    """A log record whose message has its control characters escaped, so that it takes one line.

    The lines of a traceback are indented, so that none looks like an entry of the log.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if self.exc_info and self.exc_info[0] is not None:
            lines = "".join(traceback.format_exception(*self.exc_info)).splitlines()
            self.exc_text = "\n".join(f"  {escape(line)}" for line in lines)

    def getMessage(self) -> str:  # noqa: N802  # the standard library's name
        return escape(super().getMessage())


def configure(level: int) -> None:
    """Make this process write log records of at least this level to standard error, with control characters escaped."""
    logging.setLogRecordFactory(EscapedRecord)
    logging.basicConfig(level=level, stream=sys.stderr, format=FORMAT)
