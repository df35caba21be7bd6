"""Durations and timestamps: their text forms, arithmetic and parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Final
from zoneinfo import ZoneInfo

from scheduler.engine.cel.errors import CelRuntimeError, no_such_overload
from scheduler.engine.cel.library.declaration import Overload, declare
from scheduler.engine.cel.library.gotext import require_atoi
from scheduler.engine.cel.values import INT64_MAX, INT64_MIN, NANOS_PER_S, DurationValue, TimestampValue, Value
from scheduler.engine.objects.quantity import wrap_int

MIN_UNIX_S: Final = -62135596800  # 0001-01-01T00:00:00Z
MAX_UNIX_S: Final = 253402300799  # 9999-12-31T23:59:59Z
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_S_PER_DAY: Final = 86400
_S_PER_MINUTE: Final = 60
_MINUTES_PER_HOUR: Final = 60
_CYCLE_YEARS: Final = 400
_CYCLE_S: Final = 146_097 * _S_PER_DAY
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_NANOS: Final = _UNITS | {"h": 3600 * 10**9}
_DURATION_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_DIGITS: Final = 30  # digits of a duration that count: more are out of range, or below a nanosecond


def parse_duration(text: str) -> DurationValue | None:
    """Return the duration that Go's time.ParseDuration reads, or None for other text."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return DurationValue(0)
    nanos = position = 0
    while position < len(rest):
        match = _DURATION_PART.match(rest, position)
        if match is None or not (match[1] or match[2]):
            return None
        whole, fraction = match[1].lstrip("0"), (match[2] or "")[:_DIGITS]
        if len(whole) > _DIGITS:
            return None
        unit = _NANOS[match[3]]
        nanos += int(whole or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = match.end()
    nanos *= sign
    return DurationValue(nanos) if rest and INT64_MIN <= nanos <= INT64_MAX else None


def parse_timestamp(text: str) -> TimestampValue | None:
    """Return the timestamp in an RFC 3339 text, or None for other text. Raise CelRuntimeError if it is out of range."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[i]) for i in range(1, 7))
    offset_h, offset_m = int(match[9] or 0), int(match[10] or 0)
    if hour > 23 or minute > 59 or second > 59 or offset_h > 24 or offset_m > 59:
        return None
    try:
        days = date(year or 4, month, day).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        return None
    if not year:
        raise CelRuntimeError("timestamp overflow")
    offset = (offset_h * 3600 + offset_m * _S_PER_MINUTE) * (-1 if match[8] == "-" else 1)
    fraction = (match[7] or "")[:9].ljust(9, "0")
    seconds = days * _S_PER_DAY + hour * 3600 + minute * _S_PER_MINUTE + second - offset
    return checked_timestamp(seconds * NANOS_PER_S + int(fraction), offset)


def checked_timestamp(nanos: int, offset_s: int = 0) -> TimestampValue:
    """Return a timestamp. Raise CelRuntimeError if it is not between the years 1 and 9999."""
    if MIN_UNIX_S <= nanos // NANOS_PER_S <= MAX_UNIX_S:
        return TimestampValue(nanos, offset_s)
    raise CelRuntimeError("timestamp overflow")


def format_timestamp(moment: TimestampValue) -> str:
    """Return a timestamp as RFC 3339 text, with only as many fractional digits as are needed."""
    local, nanos = divmod(moment.nanos + moment.offset_s * NANOS_PER_S, NANOS_PER_S)
    year, time = _local_time(local)
    stamp = f"{year:04d}-{time:%m-%dT%H:%M:%S}"
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    if not moment.offset_s:
        return f"{stamp}{fraction}Z"
    hours, minutes = divmod(abs(moment.offset_s) // _S_PER_MINUTE, _MINUTES_PER_HOUR)
    return f"{stamp}{fraction}{'-' if moment.offset_s < 0 else '+'}{hours:02d}:{minutes:02d}"


def format_duration(duration: DurationValue) -> str:
    """Return a duration as text in seconds, such as `1.5s`."""
    text = f"{abs(duration.nanos) // NANOS_PER_S}.{abs(duration.nanos) % NANOS_PER_S:09d}".rstrip("0").rstrip(".")
    return f"{'-' if duration.nanos < 0 else ''}{text}s"


def _checked_duration(nanos: int) -> DurationValue:
    if INT64_MIN <= nanos <= INT64_MAX:
        return DurationValue(nanos)
    raise CelRuntimeError("integer overflow")


def add_times(one: Value, two: Value) -> Value:
    """Return the sum of a duration and a duration or timestamp, in either order.

    Raise CelRuntimeError for other values and overflows.
    """
    if isinstance(one, TimestampValue):
        one, two = two, one
    if not isinstance(one, DurationValue):
        raise no_such_overload()
    if isinstance(two, TimestampValue):
        return checked_timestamp(two.nanos + one.nanos, two.offset_s)
    if not isinstance(two, DurationValue):
        raise no_such_overload()
    return _checked_duration(one.nanos + two.nanos)


def subtract_times(one: Value, two: Value) -> Value:
    """Return `one` minus `two`: a duration from a duration or timestamp, or a timestamp from a timestamp.

    Raise CelRuntimeError for other values and overflows.
    """
    if isinstance(one, DurationValue):
        if not isinstance(two, DurationValue):
            raise no_such_overload()
        return _checked_duration(one.nanos - two.nanos)
    if isinstance(two, DurationValue):
        return checked_timestamp(one.nanos - two.nanos, one.offset_s)
    if isinstance(two, TimestampValue):
        return _checked_duration(one.nanos - two.nanos)
    raise no_such_overload()


def _zone_offset_s(zone: str, unix_s: int) -> int:
    """Return the seconds by which a zone is ahead of UTC at a time. Raise CelRuntimeError if the zone is unknown.

    A zone is an IANA name, or an offset such as `-08:00`.
    """
    hours, colon, minutes = zone.partition(":")
    if colon:
        hour, minute = require_atoi(hours), require_atoi(minutes)
        offset_m = hour * _MINUTES_PER_HOUR + (-minute if zone.startswith("-") else minute)
        nanos = wrap_int(offset_m * _UNITS["m"])  # as upstream's duration
        return -(-nanos // NANOS_PER_S) if nanos < 0 else nanos // NANOS_PER_S
    if zone in ("", "UTC", "Local"):
        return 0
    within = min(max(unix_s, MIN_UNIX_S + _S_PER_DAY), MAX_UNIX_S - _S_PER_DAY)  # local times that Python has
    try:
        offset = (_EPOCH + timedelta(seconds=within)).astimezone(ZoneInfo(zone)).utcoffset()
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise CelRuntimeError(f"unknown time zone {zone}") from None
    assert offset is not None
    return int(offset.total_seconds())


def _local_time(unix_s: int) -> tuple[int, datetime]:
    """Return the year of a local time, and the date and time as a datetime whose year may differ.

    The datetime's year differs by a multiple of 400, which has the same calendar, because Python has no dates before
    the year 1 or after 9999.
    """
    cycles, rest = divmod(unix_s, _CYCLE_S)
    local = _EPOCH + timedelta(seconds=rest)
    return local.year + cycles * _CYCLE_YEARS, local


def _part(read: Callable[[int, datetime], int]) -> Callable[..., int]:
    """Return a function that reads a part, such as the hour, of a timestamp in UTC or in the given zone.

    `read` takes what `_local_time` returns.
    """

    def get(moment: TimestampValue, zone: str = "UTC") -> int:
        unix_s = moment.nanos // NANOS_PER_S
        return read(*_local_time(unix_s + _zone_offset_s(zone, unix_s)))

    return get


def _milliseconds(moment: TimestampValue, zone: str = "UTC") -> int:
    _zone_offset_s(zone, 0)
    return moment.nanos % NANOS_PER_S // 10**6


def _whole(unit: int) -> Callable[[DurationValue], int]:
    def get(duration: DurationValue) -> int:
        count = abs(duration.nanos) // unit
        return -count if duration.nanos < 0 else count

    return get


_PARTS: Final[tuple[tuple[str, str, Callable[..., int]], ...]] = (
    ("getFullYear", "timestamp_to_year", _part(lambda year, _: year)),
    ("getMonth", "timestamp_to_month", _part(lambda _, t: t.month - 1)),
    ("getDayOfYear", "timestamp_to_day_of_year", _part(lambda _, t: t.timetuple().tm_yday - 1)),
    ("getDayOfMonth", "timestamp_to_day_of_month", _part(lambda _, t: t.day - 1)),
    ("getDate", "timestamp_to_day_of_month_1_based", _part(lambda _, t: t.day)),
    ("getDayOfWeek", "timestamp_to_day_of_week", _part(lambda _, t: t.isoweekday() % 7)),
    ("getHours", "timestamp_to_hours", _part(lambda _, t: t.hour)),
    ("getMinutes", "timestamp_to_minutes", _part(lambda _, t: t.minute)),
    ("getSeconds", "timestamp_to_seconds", _part(lambda _, t: t.second)),
    ("getMilliseconds", "timestamp_to_milliseconds", _milliseconds),
)
OVERLOADS: Final[tuple[Overload, ...]] = (
    *(declare(name, id_, "timestamp.() -> int", get) for name, id_, get in _PARTS),
    *(declare(name, f"{id_}_with_tz", "timestamp.(string) -> int", get) for name, id_, get in _PARTS),
    declare("getHours", "duration_to_hours", "duration.() -> int", _whole(_NANOS["h"])),
    declare("getMinutes", "duration_to_minutes", "duration.() -> int", _whole(_NANOS["m"])),
    declare("getSeconds", "duration_to_seconds", "duration.() -> int", _whole(_NANOS["s"])),
    declare("getMilliseconds", "duration_to_milliseconds", "duration.() -> int", _whole(_NANOS["ms"])),
)
