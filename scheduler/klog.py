"""Logs in kube-scheduler's words and in klog's text format, so that what reads its logs reads ours.

Owns: the line format (`I0307 12:00:00.000123 1 file.py:30] "message" pod="ns/name" score=73`), verbosity (`--v`).
Does not own: what is logged where. Source of the format: k8s.io/klog/v2 structured logging.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime
from typing import Any, Final, TextIO

_LOGGER: Final = logging.getLogger("herodotus")
_LETTERS: Final = {logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}

_verbosity = 0


class KlogFormatter(logging.Formatter):
    """One line in klog's text format; values with a newline are indented as klog does."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole line, without its newline."""
        at = datetime.fromtimestamp(record.created).strftime("%m%d %H:%M:%S.%f")
        head = f"{_LETTERS.get(record.levelno, 'I')}{at} {os.getpid():7d} {record.filename}:{record.lineno}]"
        pairs = "".join(f" {key}={_value(value)}" for key, value in getattr(record, "pairs", {}).items())
        line = f"{head} {json.dumps(record.getMessage(), ensure_ascii=False)}{pairs}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def setup(verbosity: int, stream: TextIO = sys.stderr) -> None:
    """Log to `stream` from now on, info lines up to `verbosity`."""
    global _verbosity
    _verbosity = verbosity
    handler = logging.StreamHandler(stream)
    handler.setFormatter(KlogFormatter())
    _LOGGER.handlers[:] = [handler]
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def enabled(verbosity: int) -> bool:
    """Whether info lines of this verbosity are written: ask before building a costly line."""
    return verbosity <= _verbosity


def info(verbosity: int, message: str, **pairs: Any) -> None:
    """An info line, if the verbosity is that high."""
    if verbosity <= _verbosity:
        _LOGGER.info(message, extra={"pairs": pairs}, stacklevel=2)


def warning(message: str, **pairs: Any) -> None:
    """A warning line."""
    _LOGGER.warning(message, extra={"pairs": pairs}, stacklevel=2)


def error(err: BaseException | str, message: str, **pairs: Any) -> None:
    """An error line: `err` first, as klog does. The traceback follows at verbosity 4 and up."""
    trace = err if isinstance(err, BaseException) and enabled(4) else None
    _LOGGER.error(message, extra={"pairs": {"err": str(err), **pairs}}, exc_info=trace, stacklevel=2)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        if "\n" in value:
            return "<\n\t" + value.replace("\n", "\n\t") + "\n >"
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, separators=(",", ":"), default=str)
