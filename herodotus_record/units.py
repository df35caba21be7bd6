"""Format amounts and times for people: `500m`, `1.5Gi`, `2026-03-01T12:00:00.000000+00:00`.

Amounts are in base units: CPU in millicores, bytes, counts. JSON answers hold the exact numbers as well. Bytes are
rounded in two directions, which the name of the function says: what is there down, what is asked for up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def format_available(resource: str, amount: int) -> str:
    """Return an amount that a node or a group has, or has free, as text such as `500m` or `1.5Gi`.

    Bytes are rounded down to one decimal, so that the text never promises more than there is.
    """
    return _format(resource, amount, up=amount < 0)


def format_requested(resource: str, amount: int) -> str:
    """Return an amount that pods request, hold or lack, as text such as `500m` or `1.5Gi`.

    Bytes are rounded up to one decimal, so that the text never understates what is needed.
    """
    return _format(resource, amount, up=amount > 0)


def _format(resource: str, amount: int, *, up: bool) -> str:
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return _bytes(amount, up) if is_in_bytes(resource) else str(amount)


def is_in_bytes(resource: str) -> bool:
    """Return whether amounts of a resource are bytes."""
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def format_exact_quantity(resource: str, amount: int) -> str:
    """Return an amount of a resource, given in base units, as the shortest quantity that is exactly it, for a spec."""
    unit = 0
    while is_in_bytes(resource) and amount and amount % 1024 == 0 and unit + 1 < len(_BINARY):
        amount, unit = amount // 1024, unit + 1
    return f"{amount}{_BINARY[unit]}" if unit else format_available("cpu" if resource == "cpu" else "", amount)


@lru_cache(maxsize=1 << 15)  # called repeatedly with the same node names; some clusters have 5,000
def natural_sort_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key that compares numbers in a name by value, so that worker-2 is before worker-10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


def format_requests(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return the amounts by resource name, each formatted by `format_requested`."""
    return {resource: format_requested(resource, amount) for resource, amount in amounts.items()}


def format_percent(rate: float | None) -> str:
    """Return a rate between 0 and 1 as a percentage such as `42%`, or `–` for None.

    A rate that is not exactly 0 or 1 is never shown as 0% or 100%.
    """
    if rate is None:
        return "–"
    if 0 < rate < 0.01:
        return "<1%"
    return ">99%" if 0.99 < rate < 1 else f"{round(rate * 100)}%"


def format_number(value: float | None) -> str:
    """Return a number as text with at most one decimal, or `–` for None."""
    if value is None:
        return "–"
    text = f"{value:.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.1f}"
    return text if text.strip("-0.") else text.removeprefix("-")


def format_timestamp(microseconds: int) -> str:
    """Return microseconds since 1970 as an RFC 3339 timestamp in UTC."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")


def _bytes(amount: int, up: bool) -> str:
    """Return bytes as text, whose absolute value is rounded down, or up if `up`."""
    sign, rest = ("-", -amount) if amount < 0 else ("", amount)
    unit = 0
    while rest >= 1 << (10 * (unit + 1)) and unit + 1 < len(_BINARY):
        unit += 1
    one = 1 << (10 * unit)
    tenths = -(-rest * 10 // one) if up else rest * 10 // one
    whole, tenth = divmod(tenths, 10)
    return f"{sign}{whole}.{tenth}{_BINARY[unit]}" if tenth else f"{sign}{whole}{_BINARY[unit]}"


def pluralize(n: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `1204 nodes`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def begin_sentence(text: str) -> str:
    """Return a text with a capital letter at its beginning, unless it begins with the name of an object or program."""
    word = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if word.rstrip(",;:").isalpha() else text


def continue_sentence(text: str) -> str:
    """Return a sentence with a small letter at its beginning, for use after a colon."""
    return text[:1].lower() + text[1:]


def describe_all(n: int, noun: str) -> str:
    """Return all of something as the subject of a sentence: `The only pod`, `Both pods`, `All 3 pods`."""
    return f"The only {noun}" if n == 1 else f"Both {noun}s" if n == 2 else f"All {n} {noun}s"


def join_limited(names: Iterable[str], limit: int, more: str = "") -> str:
    """Return up to `limit` names separated by commas, and how many more there are.

    `more` is a hint on how to see the others, such as `--all`.
    """
    every = list(names)
    if len(every) <= limit:
        return ", ".join(every)
    hint = f": {more}" if more else ""
    return f"{', '.join(every[:limit])}, … {len(every) - limit} more{hint}"
