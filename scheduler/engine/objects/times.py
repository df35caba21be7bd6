"""Durations in Go's notation (`15s`, `1m30s`, `250ms`), and timestamps of API objects."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone
from fractions import Fraction

_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", re.ASCII)


def parse_seconds(text: str) -> float:
    """Return a duration in seconds. Raise ValueError if the text is not a duration."""
    return parse_nanoseconds(text) / 10**9


def parse_nanoseconds(text: str) -> int:
    """Return a duration in nanoseconds, truncated as Go truncates it.

    Raise ValueError if the text is not a duration.
    """
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(p[0] for p in parts) != rest:
        raise ValueError(f"{text!r} is not a duration such as 15s or 1m30s")
    return sign * sum(int(Fraction(f"0{p[1]}") * _NS[p[2]]) for p in parts)


def normalize(text: str) -> str:
    """Return a duration as Go prints it: `90s` becomes `1m30s`. Raise ValueError if the text is not a duration."""
    ns = parse_nanoseconds(text)
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if ns < _NS[unit] * 1000:
            return f"{sign}{_decimal(Fraction(ns, _NS[unit]))}{unit}"
    minutes, rest = divmod(ns, _NS["m"])
    hours, minutes = divmod(minutes, 60)
    whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{whole}{_decimal(Fraction(rest, _NS['s']))}s"


def _decimal(number: Fraction) -> str:
    """Return a non-negative number as decimal text with at most nine decimal places and no trailing zeros."""
    return f"{int(number)}.{int(number % 1 * 10**9):09}".rstrip("0").rstrip(".")


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse_microseconds(rfc3339: str | None) -> int:
    """Return an API timestamp in microseconds since the epoch, 0 for None or "". Raise ValueError if malformed."""
    if not rfc3339:
        return 0
    parsed = datetime.fromisoformat(rfc3339.replace("Z", "+00:00"))
    return (parsed - _EPOCH) // timedelta(microseconds=1)


def format_seconds(since_1970: float) -> str:
    """Return a time in seconds since 1970 as an API timestamp without a fraction."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since_1970))
