"""Read quantities of the Kubernetes API, such as `500m` and `1.5Gi`, as exact numbers, and format such numbers. Pure.

Owns: exact numbers in the API's units. Does not own: the form of amounts (`herodotus_record.units`).
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil, floor
from typing import Final

from herodotus_record.units import format_available, format_requested

_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)")
_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse_quantity(text: object) -> Fraction | None:
    """Return the amount that a quantity stands for, or None if the text is no quantity."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    if suffix in _BINARY:
        return Fraction(number) * (1 << _BINARY[suffix])
    return Fraction(number) * Fraction(10) ** (int(exponent) if exponent else _DECIMAL[suffix or ""])


def read_quantity(text: object) -> Fraction:
    """Return the amount that a quantity stands for; 0 if the text is no quantity."""
    return parse_quantity(text) or Fraction(0)


def format_available_amount(resource: str, amount: Fraction) -> str:
    """Return an amount of a resource, in the API's units, as `format_available` does."""
    return format_available(resource, floor(_scale(resource, amount)))


def format_requested_amount(resource: str, amount: Fraction) -> str:
    """Return an amount of a resource, in the API's units, as `format_requested` does."""
    return format_requested(resource, ceil(_scale(resource, amount)))


def _scale(resource: str, amount: Fraction) -> Fraction:
    return amount * 1000 if resource == "cpu" else amount
