"""Logs in kube-scheduler's words and in klog's formats, so that what reads its logs reads ours.

Owns: the line formats, verbosity (`--v`, and changed while running). Does not own: what is logged where.

    text   I0307 12:00:00.000123 1 file.py:30] "message" pod="ns/name" score=73
    json   {"ts":1741348800000.123,"caller":"scheduler/file.py:30","msg":"message","v":2,"pod":"ns/name","score":73}

Source of the formats: k8s.io/klog/v2 structured logging; k8s.io/component-base/logs/json.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TextIO

_LOGGER: Final = logging.getLogger("herodotus")
_LETTERS: Final = {logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}

_verbosity = 0


class TextFormatter(logging.Formatter):
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


class JsonFormatter(logging.Formatter):
    """One object a line: what is known of every line first, then the pairs. Errors have no `v`, as in klog."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole line, without its newline."""
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{Path(record.pathname).parent.name}/{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            line["v"] = getattr(record, "v", 0)
        line |= getattr(record, "pairs", {})
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)


FORMATS: Final = {"text": TextFormatter, "json": JsonFormatter}  # --logging-format


def setup(verbosity: int, stream: TextIO = sys.stderr, format: str = "text") -> None:
    """Log to `stream` from now on in one of FORMATS, info lines up to `verbosity`."""
    set_verbosity(verbosity)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(FORMATS[format]())
    _LOGGER.handlers[:] = [handler]
    _LOGGER.setLevel(logging.INFO)
    _LOGGER.propagate = False


def set_verbosity(verbosity: int) -> None:
    """Info lines up to `verbosity` from now on."""
    global _verbosity
    _verbosity = verbosity


def enabled(verbosity: int) -> bool:
    """Whether info lines of this verbosity are written: ask before building a costly line."""
    return verbosity <= _verbosity


def info(verbosity: int, message: str, **pairs: Any) -> None:
    """An info line, if the verbosity is that high."""
    if verbosity <= _verbosity:
        _LOGGER.info(message, extra={"pairs": pairs, "v": verbosity}, stacklevel=2)


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
