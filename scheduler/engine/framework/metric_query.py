"""Measurements from a metrics server, as a plugin sees them: the newest answer, which is never waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class MetricAnswer:
    """The result of a metrics query: `values` maps each value of one label, such as a node name, to a number.

    `received_s` is when the values arrived, in monotonic seconds; None before the first response. `evaluated_s` is when
    the server evaluated the query, in seconds since 1970; None if it returned no series. `error` says why the last
    request failed.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    received_s: float | None = None
    evaluated_s: float | None = None
    error: str = ""


class MetricQuery(Protocol):
    """A query to a metrics server that is repeated in the background."""

    def latest(self) -> MetricAnswer:
        """Return the newest result without waiting, however old it is."""
