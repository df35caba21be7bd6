"""Read quantities of the Kubernetes API, such as `500m` and `1.5Gi`, as exact numbers. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

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
