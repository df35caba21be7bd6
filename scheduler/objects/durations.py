"""Go's durations: `15s`, `1m30s`, `250ms`."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def seconds(text: str) -> float:
    """A duration in seconds. ValueError when it is none."""
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(p[0] for p in parts) != rest:
        raise ValueError(f"{text!r} is not a duration such as 15s or 1m30s")
    return sign * sum(float(p[1]) * _UNITS[p[2]] for p in parts)
