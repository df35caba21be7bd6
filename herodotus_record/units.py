"""Amounts and times as people read them: `500m`, `1.5Gi`, `2026-03-01T12:00:00.000000+00:00`.

Owns: formatting only. Amounts are in base units (cpu in milli, bytes, counts); exact numbers stay in the JSON answers.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def quantity(resource: str, amount: int, *, up: bool = False) -> str:
    """An amount of a resource. Bytes are cut to one decimal, so that what is free is never overstated.

    `up`: they are rounded up instead, so that what has to be freed is never understated.
    """
    if resource == "cpu":
        return f"{amount}m" if amount else "0"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return _bytes(amount, up)
    return str(amount)


@lru_cache(maxsize=1 << 15)  # node names, asked again and again; some clusters have 5,000
def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts worker-2 before worker-10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))


def quantities(amounts: dict[str, int]) -> dict[str, str]:
    """Every amount of a resource list as `quantity` writes it."""
    return {resource: quantity(resource, amount) for resource, amount in amounts.items()}


def timestamp(microseconds: int) -> str:
    """Microseconds since the epoch as RFC 3339 in UTC."""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")


def _bytes(amount: int, up: bool) -> str:
    sign, rest = ("-", -amount) if amount < 0 else ("", amount)
    unit = 0
    while rest >= 1 << (10 * (unit + 1)) and unit + 1 < len(_BINARY):
        unit += 1
    one = 1 << (10 * unit)
    tenths = -(-rest * 10 // one) if up else rest * 10 // one
    whole, tenth = divmod(tenths, 10)
    return f"{sign}{whole}.{tenth}{_BINARY[unit]}" if tenth else f"{sign}{whole}{_BINARY[unit]}"
