"""Logs in kube-scheduler's words and klog's formats, so that tools for its logs can read these.

Owns: the line formats, the verbosity (`--v`, which may change while running), the options of both, and how many warning
and error lines one place in the source writes per second. Does not own: which lines are logged.

    text   I0307 12:00:00.000123 1 file.py:30] "message" pod="ns/name" score=73
    json   {"ts":1741348800000.123,"caller":"scheduler/file.py:30","msg":"message","v":2,"pod":"ns/name","score":73}

Source of the formats: k8s.io/klog/v2 structured logging; k8s.io/component-base/logs/json.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from herodotus_record.escaping import escape_json, escape_lines
from herodotus_record.trace_ids import format_trace_id

# Of warnings and errors, per source line: a failure repeats with every decision, pod or node. More lines are counted.
MAX_LINES_PER_SECOND: Final = 10
_MANY: Final = 1024  # more than there are source lines that log

_verbosity = 0
_trace_ids = False
_stream: TextIO | None = None  # None until `setup`: standard error


class _LogLine(NamedTuple):
    """The content of one log line. `caller` is the folder and FILE:LINE of the call; `trace` is a traceback or ""."""

    letter: str
    verbosity: int
    caller: tuple[str, str]
    message: str
    pairs: Mapping[str, Any]
    trace: str


def _text(line: _LogLine) -> str:
    """Return one log line in klog's text format. Values with a newline, and the traceback, are indented as in klog."""
    now_us = time.time_ns() // 1000
    head = f"{line.letter}{_clock(now_us // 1_000_000)}.{now_us % 1_000_000:06d} {os.getpid():7d} {line.caller[1]}]"
    fields = "".join([f" {key}={_value(value)}" for key, value in line.pairs.items()])
    return f"{head} {_quoted(line.message)}{fields}\n" + "".join(f"\t{each}\n" for each in line.trace.splitlines())


def _json(line: _LogLine) -> str:
    """Return one log line as a JSON object: the common fields, then `pairs`. Error lines have no `v`, as in klog."""
    fields: dict[str, Any] = {"ts": round(time.time() * 1000, 3), "caller": "/".join(line.caller), "msg": line.message}
    if line.letter != "E":
        fields["v"] = line.verbosity
    fields |= line.pairs
    if line.trace:
        fields["stacktrace"] = line.trace.rstrip("\n")
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"


FORMATS: Final[dict[str, Callable[..., str]]] = {"text": _text, "json": _json}  # --logging-format
_ESCAPES: Final[dict[str, Callable[[str], str]]] = {"text": escape_lines, "json": escape_json}
_format, _escape = FORMATS["text"], _ESCAPES["text"]


def add_options(parser: argparse._ActionsContainer) -> None:
    """Add the options `--v` and `--logging-format` to a command-line parser."""
    parser.add_argument(
        "-v", "--v", type=_level, default=0, metavar="N", help="log verbosity, as kube-scheduler's (default 0)"
    )
    parser.add_argument(
        "--logging-format", choices=tuple(FORMATS), default="text", help="of the log's lines (default text)"
    )


def _level(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 3):
        raise argparse.ArgumentTypeError(f"{text!r} is not a level from 0 to 999")
    return int(text)


def setup(verbosity: int, stream: TextIO = sys.stderr, format: str = "text") -> None:
    """Set the log's stream, its format ("text" or "json") and the highest verbosity of info lines that are written.

    The counts of suppressed lines start again at 0.
    """
    global _stream, _format, _escape
    set_verbosity(verbosity)
    with _quota_lock:
        _quotas.clear()
    _stream, _format, _escape = stream, FORMATS[format], _ESCAPES[format]


def set_verbosity(verbosity: int) -> None:
    """Set the highest verbosity of info lines that are written."""
    global _verbosity
    _verbosity = verbosity


def enabled(verbosity: int) -> bool:
    """Return whether info lines of this verbosity are written; check it before building a costly line."""
    return verbosity <= _verbosity


def log_trace_ids() -> None:
    """From now on, add the ID of the pod's trace to lines about an attempt (`--log-trace-ids`)."""
    global _trace_ids
    _trace_ids = True


def pod_fields(full_name: str, uid: str) -> dict[str, str]:
    """Return the fields of a line about an attempt of a pod: `pod` and, with `--log-trace-ids`, `trace_id`."""
    return {"pod": full_name, "trace_id": format_trace_id(uid)} if _trace_ids else {"pod": full_name}


def info(verbosity: int, message: str, **pairs: Any) -> None:
    """Write an info line with `pairs` as fields, unless `verbosity` exceeds the configured verbosity."""
    if verbosity <= _verbosity and _stream is not None:
        _write("I", verbosity, message, pairs)


def warning(message: str, **pairs: Any) -> None:
    """Write a warning line with `pairs` as fields.

    One source line writes at most MAX_LINES_PER_SECOND. Its next line states how many were suppressed.
    """
    if (more := _admit(MAX_LINES_PER_SECOND)) is not None:
        _write("W", 0, message, pairs | more)


def error(err: BaseException | str, message: str, **pairs: Any) -> None:
    """Write an error line with `err` as its first field, as in klog. From verbosity 4 on, add the traceback.

    One source line writes at most MAX_LINES_PER_SECOND. Its next line states how many were suppressed.
    """
    if (more := _admit(MAX_LINES_PER_SECOND)) is not None:
        _write("E", 0, message, {"err": str(err), **pairs, **more}, _format_traceback(err))


def repeated_error(err: BaseException | str, message: str, **pairs: Any) -> None:
    """Write what `error` writes, but at most one line per second: for a failure that does not depend on the object."""
    if (more := _admit(1)) is not None:
        _write("E", 0, message, {"err": str(err), **pairs, **more}, _format_traceback(err))


def _format_traceback(err: BaseException | str) -> str:
    return "".join(traceback.format_exception(err)) if isinstance(err, BaseException) and enabled(4) else ""


class _Quota:
    """The lines that one source line wrote in its present second, and those that were left out since the last one."""

    __slots__ = ("since", "suppressed", "written")

    def __init__(self, since: float) -> None:
        self.since, self.written, self.suppressed = since, 0, 0


_quotas: dict[tuple[str, int], _Quota] = {}
_quota_lock = threading.Lock()


def _admit(lines_per_second: int) -> dict[str, int] | None:
    """Count a line of the source line that called this function's caller, and return None if it must not be written.

    Otherwise return the fields to add to the line: `suppressed`, if earlier lines of that source line were not written.
    """
    frame, now = sys._getframe(2), time.monotonic()
    with _quota_lock:
        quota = _quotas.setdefault((frame.f_code.co_filename, frame.f_lineno), _Quota(now))
        if now - quota.since >= 1.0:
            quota.since, quota.written = now, 0
        if quota.written >= lines_per_second:
            quota.suppressed += 1
            return None
        quota.written += 1
        suppressed, quota.suppressed = quota.suppressed, 0
    write_left_out(now - 1.0)
    return {"suppressed": suppressed} if suppressed else {}


@atexit.register
def write_left_out(since: float = math.inf) -> None:
    """Write the number of suppressed lines of each source line whose last second began at `since` or earlier.

    Such a source line may write nothing more that could state the number. This is called with every warning and error
    line, and when the process ends. `since` is monotonic time in seconds.
    """
    with _quota_lock:
        due = [(place, quota) for place, quota in _quotas.items() if quota.suppressed and quota.since <= since]
        counts = [(place, quota.suppressed) for place, quota in due]
        for _, quota in due:
            quota.suppressed = 0
    for (path, number), count in counts:
        folder, file = _file(path)
        message, place = "Left out further lines like this one", (folder, f"{file}:{number}")
        _write_line(_LogLine("W", 0, place, message, {"suppressed": count}, ""))


def _write(letter: str, verbosity: int, message: str, pairs: Mapping[str, Any], trace: str = "") -> None:
    """Write one line to the log's stream; its source location is that of the caller's caller.

    Errors of the stream are ignored.
    """
    frame = sys._getframe(2)
    folder, file = _file(frame.f_code.co_filename)
    _write_line(_LogLine(letter, verbosity, (folder, f"{file}:{frame.f_lineno}"), message, pairs, trace))


def _write_line(line: _LogLine) -> None:
    try:
        text = _format(line)
    except (TypeError, ValueError):  # a value that JSON cannot represent
        text = _format(line._replace(pairs={key: str(value) for key, value in line.pairs.items()}))
    with contextlib.suppress(OSError, ValueError):  # ValueError: it was closed
        (_stream or sys.stderr).write(_escape(text))


@lru_cache(_MANY)
def _file(path: str) -> tuple[str, str]:
    """Return the folder name and the file name of a source file."""
    return Path(path).parent.name, Path(path).name


@lru_cache(2)
def _clock(second: int) -> str:
    return time.strftime("%m%d %H:%M:%S", time.localtime(second))


@lru_cache(_MANY)
def _quoted(message: str) -> str:
    return json.dumps(message, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):  # a union is made anew each time
        return str(value)
    if isinstance(value, str):
        if "\n" in value:
            return "<\n\t" + value.replace("\n", "\n\t") + "\n >"
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, separators=(",", ":"), default=str)
