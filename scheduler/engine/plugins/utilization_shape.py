"""The argument `shape` of plugins: a function from a utilization to a score, as points that lines connect.

Source: pkg/scheduler/apis/config/validation/validation_pluginargs.go (validateFunctionShape) v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from scheduler.engine.formulas.allocation import MAX_SCORE
from scheduler.engine.objects.problems import Problem, invalid, required

MAX_POINT_SCORE: Final = 10  # the scores of points go to 10, those of nodes to 100


class ShapePoint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A point of the function from a utilization (0 to 100) to a score (0 to 10)."""

    utilization: int = 0
    score: int = 0


def scale_points(points: Sequence[ShapePoint]) -> list[tuple[int, int]]:
    """Return the points as (utilization, score), with scores from 0 to 100."""
    return [(point.utilization, point.score * (MAX_SCORE // MAX_POINT_SCORE)) for point in points]


def find_shape_problems(points: Sequence[ShapePoint]) -> Iterator[Problem]:
    """Yield a problem for each invalid point, and for a shape without points; paths are relative to the shape."""
    if not points:
        yield required("", "at least one point must be specified")
    for i in range(1, len(points)):
        if points[i - 1].utilization >= points[i].utilization:
            yield invalid(f"[{i}].utilization", points[i].utilization, "values must be sorted in increasing order")
            break
    for i, point in enumerate(points):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"[{i}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_POINT_SCORE:
            yield invalid(f"[{i}].score", point.score, f"not in valid range [0, {MAX_POINT_SCORE}]")
