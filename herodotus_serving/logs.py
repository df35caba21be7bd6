"""Log lines of the standard library's `logging`: one line per entry, whatever the message quotes.

Owns: escaping of messages and tracebacks for every handler of the process, gunicorn's included; the line format of our
own. Does not own: levels of single loggers.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Any, Final

from herodotus_record.escaping import escape

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class EscapedRecord(logging.LogRecord):
    """A log record without control characters. A traceback's lines are indented, so none can pass for an entry."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if self.exc_info and self.exc_info[0] is not None:
            lines = "".join(traceback.format_exception(*self.exc_info)).splitlines()
            self.exc_text = "\n".join(f"  {escape(line)}" for line in lines)

    def getMessage(self) -> str:  # noqa: N802  # the standard library's name
        """Return the message on one line."""
        return escape(super().getMessage())


def configure(level: int) -> None:
    """Log to standard error from now on."""
    logging.setLogRecordFactory(EscapedRecord)
    logging.basicConfig(level=level, stream=sys.stderr, format=FORMAT)
