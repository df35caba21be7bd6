"""Kubernetes quantities: exact amounts, and the int64 that kube-scheduler makes of them.

Source: k8s.io/apimachinery/pkg/api/resource v1.36. A quantity is a decimal with an optional binary suffix (Ki Mi Gi Ti
Pi Ei), decimal suffix (n u m k M G T P E) or exponent (e3, E3). What is finer than 10^-9 is rounded away from zero, and
what is larger than an int64 with a binary suffix is cut to it, as upstream does; so every quantity is an exact integer
of 10^-9 units, and sums need no rounding until the end.

What does not fit an int64 at the end wraps around, or becomes 0, by the form in which upstream holds the quantity.
`Quantity` has these forms. Amounts that fit are the same in every form, so only overflowing ones are computed with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

NANO = 1_000_000_000
INT64_MAX = (1 << 63) - 1
MILLI, WHOLE = -3, 0  # scales: powers of ten

_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {f"{s}i": 10 * (i + 1) for i, s in enumerate("KMGTPE")}
_QUANTITY = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_FARTHEST = 100  # larger exponents are cut to the number of digits plus this: far above int64 or below 10^-9
_NANO_SCALE: Final = 9
_AT_ONCE: Final = (1, 2, 3, 6, 9)  # powers of ten that Go multiplies an int64 by at once, so that it wraps around
_INT64_DIGITS: Final = 18  # decimal digits that always fit an int64
_CHUNK: Final = 4000  # digits that Python converts at once


class _Parts(NamedTuple):
    """The parts of a quantity's text: digits / 10^`places` * 10^`exponent`, or * 2^`exponent` if `binary`."""

    negative: bool
    digits: int
    length: int  # of the digits, without leading zeros before the point
    places: int
    exponent: int
    binary: bool


def _parse_parts(text: str | int | float) -> _Parts:
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{str(text)[:100]!r} is not a quantity")
    sign, whole, fraction, exponent, suffix = match.groups()
    whole, fraction, suffix = whole.lstrip("0") or "0", fraction or "", suffix or ""
    length = len(whole) + len(fraction)
    power = _BINARY.get(suffix, _DECIMAL.get(suffix, 0))
    if exponent is not None:
        if len(exponent) > 20 or not -(1 << 63) <= int(exponent) <= INT64_MAX:
            raise ValueError(f"{str(text)[:100]!r} is not a quantity")
        power = wrap_int(int(exponent), 32)
    farthest = length + _FARTHEST
    power = max(-farthest, min(power, farthest))
    return _Parts(sign == "-", _integer(whole + fraction), length, len(fraction), power, suffix in _BINARY)


@lru_cache(maxsize=4096)
def parse(text: str | int | float) -> int:
    """Return a quantity such as `500m` or `1Gi` as an integer number of 10^-9 units.

    Raise ValueError if the text is not a quantity.
    """
    parsed = _parse_parts(text)
    amount = _nanos(parsed)
    if parsed.binary:
        amount = min(amount, INT64_MAX * NANO)
    return -amount if parsed.negative else amount


def _nanos(parsed: _Parts) -> int:
    """Return the absolute amount of a parsed quantity in units of 10^-9, rounded up."""
    if parsed.binary:
        return -(-(parsed.digits * NANO << parsed.exponent) // _ten_to(parsed.places))
    shift = parsed.exponent - parsed.places + _NANO_SCALE
    return parsed.digits * _ten_to(shift) if shift >= 0 else -(-parsed.digits // _ten_to(-shift))


def milli(nanos: int) -> int:
    """Convert an amount from units of 10^-9 to thousandths, rounded up. The result may exceed an int64."""
    return -(-nanos // 10**6)


def value(nanos: int) -> int:
    """Convert an amount from units of 10^-9 to whole units, rounded up. The result may exceed an int64."""
    return -(-nanos // NANO)


def fits_int64(amount: int) -> bool:
    """Return whether the absolute value of an amount is at most the largest int64."""
    return -INT64_MAX <= amount <= INT64_MAX


def scaled_value(text: str | int | float, scale: int) -> int:
    """Return a quantity as the int64 that Go's Quantity.Value (`WHOLE`) or Quantity.MilliValue (`MILLI`) returns.

    Raises ValueError if the text is not a quantity.
    """
    amount = value(parse(text)) if scale == WHOLE else milli(parse(text))
    return amount if fits_int64(amount) else Quantity.parse(text).scaled_value(scale)


@dataclass(frozen=True)
class Quantity:
    """A Kubernetes quantity with the value `unscaled` * 10^-`places`.

    Go holds a quantity in one of two forms: an int64 with a scale or, if `is_decimal`, a decimal of any size. The form
    matters only for the conversion of an amount that does not fit an int64.
    """

    unscaled: int
    places: int
    is_decimal: bool

    @classmethod
    def parse(cls, text: str | int | float) -> Quantity:
        """Return a text's quantity in the form that Go's ParseQuantity chooses. Raise ValueError for other text."""
        parsed = _parse_parts(text)
        sign = -1 if parsed.negative else 1
        places = parsed.places - (0 if parsed.binary else parsed.exponent)
        if parsed.binary:
            # upstream's estimate of whether the product fits
            if not parsed.places and parsed.length + parsed.exponent * 3 // 10 + 1 <= 15:
                return cls(sign * parsed.digits << parsed.exponent, 0, is_decimal=False)
        elif parsed.length <= _INT64_DIGITS and places <= _NANO_SCALE:
            return cls(sign * parsed.digits, places, is_decimal=False)
        if not parsed.digits:
            return cls(0, places, is_decimal=True)
        amount = _nanos(parsed)
        if parsed.binary and amount > INT64_MAX * NANO:
            return cls(sign * INT64_MAX, 0, is_decimal=True)
        return cls(sign * amount, _NANO_SCALE, is_decimal=True)

    def __add__(self, other: object) -> Quantity:
        """Return the sum, in the form that Go's Quantity.Add chooses."""
        if not isinstance(other, Quantity):
            return NotImplemented
        places = max(self.places, other.places)
        unscaled = self.unscaled * _ten_to(places - self.places) + other.unscaled * _ten_to(places - other.places)
        if not (self.is_decimal or other.is_decimal):
            if not other.unscaled:
                return self
            if not self.unscaled:
                return other
            if fits_int64(unscaled):
                return Quantity(unscaled, places, is_decimal=False)
        return Quantity(unscaled, places, is_decimal=True)

    def __gt__(self, other: object) -> bool:
        """Return whether this amount is greater; the two quantities may have different forms."""
        assert isinstance(other, Quantity)
        places = max(self.places, other.places)
        return self.unscaled * _ten_to(places - self.places) > other.unscaled * _ten_to(places - other.places)

    def scaled_value(self, scale: int) -> int:
        """Return the amount in units of 10^`scale` as the int64 that Go's Quantity.ScaledValue returns."""
        excess = self.places + scale  # decimal places to round away; below 0: those to add
        if not self.is_decimal:
            if excess > 0:
                rounded = -(-abs(self.unscaled) // _ten_to(excess))  # away from zero
                return -rounded if self.unscaled < 0 else rounded
            amount = self.unscaled * _ten_to(-excess)
            return amount if fits_int64(amount) else wrap_int(amount) if -excess in _AT_ONCE else 0
        if excess <= 0:
            return wrap_int(_low_int64(self.unscaled) * _power_of_ten(-excess))
        if self.unscaled < INT64_MAX and excess <= _INT64_DIGITS:
            low = _low_int64(self.unscaled)
            quotient, remainder = divmod(abs(low), _ten_to(excess))  # Go truncates
            return (-quotient if low < 0 else quotient) + (remainder != 0)
        quotient, remainder = divmod(self.unscaled, _ten_to(excess))
        return wrap_int(_low_int64(quotient) + (remainder != 0))


def wrap_int(number: int, bits: int = 64) -> int:
    """Return the number as a signed Go integer of `bits` bits, wrapped around if it overflows."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _low_int64(number: int) -> int:
    """Return the result of Go's big.Int.Int64: the low bits of the number's magnitude, with its sign."""
    low = wrap_int(abs(number))
    return wrap_int(-low) if number < 0 else low


def _power_of_ten(power: int) -> int:
    """Return int64(math.Pow10(power)); on amd64 a float out of range becomes the least int64."""
    return _ten_to(power) if power <= _INT64_DIGITS else -(1 << 63)


def _ten_to(power: int) -> int:
    """Return 10 to the given power, which must not be negative."""
    return int(10**power)


def _integer(digits: str) -> int:
    """Return decimal digits as an integer, also if they are more than `int` accepts."""
    if len(digits) <= _CHUNK:
        return int(digits)
    number = 0
    for start in range(0, len(digits), _CHUNK):
        chunk = digits[start : start + _CHUNK]
        number = number * 10 ** len(chunk) + int(chunk)
    return number
