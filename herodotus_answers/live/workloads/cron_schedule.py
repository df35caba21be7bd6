"""Compute the times of a CronJob's schedule: the next one and the last one.

Owns: standard cron expressions with five fields and macros, as robfig/cron's ParseStandard takes them. Does not own:
what a missed time means (`job_state`). Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MAX_DAYS: Final = 366 * 5  # a schedule for 29 February has a time within them


class _Field(NamedTuple):
    """The values of a field, and whether it restricts nothing."""

    values: frozenset[int]
    is_any: bool


class Schedule(NamedTuple):
    """The times of a CronJob: the values of each field of its schedule, and its time zone."""

    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field
    zone: ZoneInfo | timezone

    def find_next(self, after: datetime) -> datetime | None:
        """Return the first time after a moment, or None if there is none within five years."""
        return self._search(after, forward=True)

    def find_last(self, until: datetime) -> datetime | None:
        """Return the last time at or before a moment, or None if there is none within five years."""
        return self._search(until, forward=False)

    def _search(self, start: datetime, *, forward: bool) -> datetime | None:
        local = start.astimezone(self.zone)
        step = 1 if forward else -1
        for offset in range(_MAX_DAYS):
            day = local.date() + timedelta(days=step * offset)
            if not self._has_day(day.year, day.month, day.day):
                continue
            for hour in sorted(self.hours.values, reverse=not forward):
                for minute in sorted(self.minutes.values, reverse=not forward):
                    moment = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
                    if (moment > start) if forward else (moment <= start):
                        return moment.astimezone(timezone.utc)
        return None

    def _has_day(self, year: int, month: int, day: int) -> bool:
        if month not in self.months.values:
            return False
        weekday = datetime(year, month, day).isoweekday() % 7
        fits = (day in self.days.values, weekday in self.weekdays.values)
        return all(fits) if self.days.is_any or self.weekdays.is_any else any(fits)


def parse_schedule(text: str, zone: str = "") -> Schedule | None:
    """Return a schedule, or None for one that is invalid or has no fixed times, such as `@every 5m`.

    Without a time zone it is in UTC, as kube-controller-manager's usually is.
    """
    try:
        where = ZoneInfo(zone) if zone else timezone.utc
        fields = _MACROS.get(text.strip().lower(), text).lower().split()
        minutes, hours, days, months, weekdays = fields
        return Schedule(
            _parse_field(minutes, 0, 59),
            _parse_field(hours, 0, 23),
            _parse_field(days, 1, 31),
            _parse_field(months, 1, 12, _MONTHS),
            _parse_field(weekdays, 0, 6, _DAYS),
            where,
        )
    except (ValueError, ZoneInfoNotFoundError, OSError):
        return None


def _parse_field(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> _Field:
    values = set[int]()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            start, end = low, high
        else:
            start = _parse_value(first, low, names)
            end = _parse_value(last, low, names) if dash else high if slash else start
        if not low <= start <= end <= high or (slash and int(step) < 1):
            raise ValueError(part)
        values.update(range(start, end + 1, int(step) if slash else 1))
    return _Field(frozenset(values), text in ("*", "?"))


def _parse_value(text: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(text) + low if text in names else int(text)
