"""Kubernetes quantities, exactly: an integer of 10^-9 units.

Source: k8s.io/apimachinery/pkg/api/resource. A quantity is a decimal with an optional binary suffix (Ki Mi Gi Ti Pi
Ei), decimal suffix (n u m k M G T P E) or exponent (e3, E3). What is finer than 10^-9 is rounded away from zero, as
upstream does; so every quantity is an exact integer here and sums need no rounding until the end.
"""

from __future__ import annotations

import re
from functools import lru_cache

NANO = 1_000_000_000

_SUFFIXES = {"": NANO, "n": 1, "u": 10**3, "m": 10**6, "k": NANO * 10**3}
_SUFFIXES |= {s: NANO * 10 ** (6 + 3 * i) for i, s in enumerate("MGTPE")}
_SUFFIXES |= {f"{s}i": NANO << (10 * (i + 1)) for i, s in enumerate("KMGTPE")}
_QUANTITY = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_FARTHEST = 100  # exponents beyond are cut: far over int64, or under 10^-9, already; 10^(10^9) would take for ever


@lru_cache(maxsize=4096)
def parse(text: str | int | float) -> int:
    """A quantity in units of 10^-9. ValueError when it is none."""
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{text!r} is not a quantity")
    sign, whole, fraction, exponent, suffix = match.groups()
    digits = int((whole or "0") + (fraction or ""))
    scale = _SUFFIXES[suffix or ""]
    shift = max(-_FARTHEST, min(int(exponent or 0), _FARTHEST)) - len(fraction or "")
    numerator = digits * scale * (10**shift if shift > 0 else 1)
    amount = -(-numerator // 10**-shift) if shift < 0 else numerator
    return -amount if sign == "-" else amount


def milli(nanos: int) -> int:
    """Units of 10^-9 as thousandths, rounded up: kube-scheduler's MilliValue."""
    return -(-nanos // 10**6)


def value(nanos: int) -> int:
    """Units of 10^-9 as whole units, rounded up: kube-scheduler's Value."""
    return -(-nanos // NANO)
