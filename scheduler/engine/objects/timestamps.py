"""Timestamps of Kubernetes objects."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse_microseconds(rfc3339: str | None) -> int:
    """Return an API timestamp in microseconds since the epoch, 0 for None or "". Raise ValueError if malformed."""
    if not rfc3339:
        return 0
    at = datetime.fromisoformat(rfc3339.replace("Z", "+00:00"))
    return (at - _EPOCH) // timedelta(microseconds=1)
