"""Measurements from a metrics server, as a plugin sees them: the newest answer, which is never waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class MetricAnswer:
    """The values of one query by one label.

    `received_s`: when they arrived, monotonic seconds; None before the first answer. `evaluated_s`: when the server
    evaluated the query, seconds since 1970; None if it returned no series. `error`: why the last request failed.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    received_s: float | None = None
    evaluated_s: float | None = None
    error: str = ""


class MetricQuery(Protocol):
    """A query that is repeated in the background."""

    def latest(self) -> MetricAnswer:
        """Return the newest answer at once, however old it is."""
