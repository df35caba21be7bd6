"""The numbers of nodes that a plugin or an agent decides by, as it hands them to the record.

Owns: the values. Does not own: what is measured, how it is recorded (`scheduler.recorder`) or sent
(`scheduler.extenders.wire`).

Invariant: all arrays have one entry a node, in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Number:
    """One number of every node. NaN: there is none. `digits`: decimals that are worth keeping."""

    name: str
    values: Floats
    unit: str = ""
    digits: int = 2


@dataclass(frozen=True)
class Inputs:
    """Numbers that came from one source, in words: the annotations, the query.

    `measured_s`: when, in seconds since 1970; NaN, or None altogether, where the source does not say. `stale`: of which
    nodes it was too old, and therefore ignored.
    """

    source: str
    numbers: tuple[Number, ...]
    measured_s: Floats | None = None
    stale: Mask | None = None


@dataclass(frozen=True)
class Dated:
    """When what an annotator wrote on each node is from, and which of it is too old."""

    moments_s: Floats
    stale: Mask

    @classmethod
    def of(cls, moments_s: Floats, now_s: float, limit_s: float) -> Dated:
        """`moments_s`: NaN where nobody says when values are from: those are fresh."""
        return cls(moments_s, now_s - moments_s > limit_s)

    def inputs(self, keys: Sequence[str], *numbers: Number) -> Inputs:
        """Numbers that follow from annotations of these keys."""
        source = f"annotation{'s' if len(keys) > 1 else ''} {', '.join(keys)}"
        return Inputs(source, numbers, self.moments_s, self.stale)


def of_load(resource: str, mean: Floats, deviation: Floats, risk: Floats | None = None) -> tuple[Number, ...]:
    """The used share of a resource once the pod is there, and the risk of overload, in per cent."""
    known = np.where(np.isnan(mean), np.nan, deviation)
    shares = {"used": mean, "deviation": known} | ({} if risk is None else {"risk": risk})
    return tuple(Number(f"{resource} {name}", 100 * values, "%") for name, values in shares.items())
