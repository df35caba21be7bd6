"""Parses lines of a log into entries: klog's text format or its JSON format, recognized line by line.

Source of the formats: k8s.io/klog/v2 and k8s.io/component-base/logs/json, v1.36.

Invariant: no input raises an exception; memory is bounded by the longest line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

YEAR_9999_US: Final = 253_402_300_800_000_000  # what a record's time can be
DAY: Final = timedelta(days=1)  # a clock or zone may be this far off before a line is one of last year

# what stands before a line: the time by `kubectl logs --timestamps` and container runtimes, and the name of the
# component, or ???, by the klog of MicroShift, where one process has several components
_PREFIX: Final = re.compile(
    r"(?:(\d{4})-\d\d-\d\dT\S+ (?:std(?:out|err) [FP] )?(?=[IWEF{?a-z]))?(?:(?:\?{3}|[a-z][a-z-]*) (?=[IWEF]\d{4} ))?"
)
_HEADER: Final = re.compile(
    r'[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) +\d+ [^\] ]+:\d+\] (?:"((?:[^"\\]|\\.)*)"(.*))?', re.DOTALL
)
_KEY: Final = re.compile(r' ([^="]+)=')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BARE: Final = re.compile(r"[^ ]*")
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_JSON: Final = json.JSONDecoder()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Entry:
    """One parsed log line: its time, its message, and its key-value pairs in `values`.

    References to objects in `values` are text of the form NAMESPACE/NAME.
    """

    at_us: int
    message: str
    values: dict[str, Any]

    def text(self, key: str) -> str:
        """Return the value for `key` if it is text, and "" if it is absent or of another type."""
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """Return the value for `key` if it is an integer, and None if it is absent or of another type."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass
class Counts:
    """The numbers of lines of kube-scheduler's log that were read, by how they were recognized."""

    lines: int = 0
    used: int = 0  # entries about decisions
    other: int = 0  # the log's own lines about something else
    foreign: int = 0  # not this log's: no header, no JSON entry
    damaged: int = 0  # begin like an entry and do not go on like one


class DamagedLineError(ValueError):
    """A line begins like a log entry but cannot be parsed."""


class LogLineParser:
    """Parses the lines of one log in order. It returns only entries whose message is in `wanted` and counts all lines.

    `zone` is the time zone of klog's text format. That format has no year: the parser takes the latest year that does
    not put the line into the future (`now`), unless a prefix states it (`kubectl logs --timestamps`).
    """

    def __init__(self, wanted: Set[str], zone: timezone, now: Callable[[], datetime]) -> None:
        self.counts = Counts()
        self.first = ""  # the first line with a header: what tells one log from another
        self.guessed_year = False
        self._wanted = wanted
        self._zone = zone
        self._now = now
        self._continues = False  # inside a value of several lines

    def feed(self, line: str) -> Entry | None:
        """Return the entry in one line (without line end), or None if it is no valid entry or not wanted."""
        self.counts.lines += 1
        prefix = _PREFIX.match(line)
        assert prefix is not None  # it matches the empty text
        body = line[prefix.end() :]
        try:
            if body.startswith("{"):
                return self._json(body)
            return self._text(body, int(prefix[1]) if prefix[1] else None)
        except (ValueError, RecursionError, OverflowError):
            self.counts.damaged += 1
            return None

    def _json(self, body: str) -> Entry | None:
        self._continues = False
        fields = _JSON.decode(body)
        at, message = fields.get("ts"), fields.get("msg")
        if not isinstance(message, str) or isinstance(at, bool) or not isinstance(at, int | float):
            self.counts.foreign += 1
            return None
        self.first = self.first or body
        if message not in self._wanted:
            self.counts.other += 1
            return None
        at_us = round(at * 1000)
        if not 0 <= at_us < YEAR_9999_US:
            raise DamagedLineError("a time that is not between 1970 and 9999")
        self.counts.used += 1
        return Entry(at_us, message, {key: _reference(value) for key, value in fields.items()})

    def _text(self, body: str, year: int | None) -> Entry | None:
        header = _HEADER.match(body)
        if header is None:
            self._not_a_header(body)
            return None
        self.first = self.first or body
        self._continues = body.endswith("=<")
        message = _unquoted(header[7] or "")
        if message not in self._wanted:
            self.counts.other += 1
            return None
        month, day, hour, minute, second, micro = map(int, header.groups()[:6])
        timestamp = self._dated(year, month, day, hour, minute, second, micro)
        values = _pairs(header[8])
        self.counts.used += 1
        return Entry((timestamp - _EPOCH) // timedelta(microseconds=1), message, values)

    def _not_a_header(self, body: str) -> None:
        if self._continues and body.startswith(("\t", " >")):
            self._continues = not body.startswith(" >") or body.endswith("=<")
            self.counts.other += 1
        elif re.match(r"[IWEF]\d{4} \d\d:\d\d:", body):
            self.counts.damaged += 1
        else:
            self.counts.foreign += 1

    def _dated(self, year: int | None, *rest: int) -> datetime:
        month, day, hour, minute, second, micro = rest
        if year is not None:
            return datetime(year, month, day, hour, minute, second, micro, self._zone)
        self.guessed_year = True
        latest = self._now() + DAY
        for candidate in range(latest.year, latest.year - 9, -1):  # nine years hold a 29 February
            try:
                timestamp = datetime(candidate, month, day, hour, minute, second, micro, self._zone)
            except ValueError:
                continue
            if timestamp <= latest:
                return timestamp
        raise DamagedLineError("no such day")


def _pairs(text: str) -> dict[str, Any]:
    """Return the key-value pairs at the end of a text line. Raise DamagedLineError if one is cut off."""
    values: dict[str, Any] = {}
    position = 0
    while position < len(text):
        key = _KEY.match(text, position)
        if key is None:
            raise DamagedLineError(f"no pair at {position}")
        value, position = _value(text, key.end())
        values[key[1]] = value
    return values


def _value(text: str, start: int) -> tuple[Any, int]:
    first = text[start : start + 1]
    if first == '"':
        quoted = _QUOTED.match(text, start)
        if quoted is None:
            raise DamagedLineError("a text is cut off")
        return _unquoted(quoted[1]), quoted.end()
    if first in ("{", "["):
        value, end = _JSON.raw_decode(text, start)
        return value, end
    bare = _BARE.match(text, start)
    assert bare is not None  # it matches nothing, too
    word = bare[0]
    return (int(word) if re.fullmatch(r"-?[0-9]{1,18}", word) else word), bare.end()


def _unquoted(text: str) -> str:
    """Return the text that the inside of a Go string literal stands for, with its escapes resolved."""
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number <= 0x10FFFF and not 0xD800 <= number < 0xE000 else "\ufffd"
    if len(code) == 3:
        return chr(int(code, 8))
    return _ESCAPES.get(code, code)


def _reference(value: Any) -> Any:
    """Return an object reference `{"name", "namespace"}` as text, NAMESPACE/NAME, and any other value unchanged."""
    if isinstance(value, dict) and set(value) <= {"name", "namespace"} and isinstance(value.get("name"), str):
        return f"{value['namespace']}/{value['name']}" if value.get("namespace") else value["name"]
    return value
