"""The numbers of nodes from which a plugin or an agent computes scores, in the form that the recorder takes.

Owns: the values. Does not own: measuring, recording (`scheduler.recorder`), sending (`scheduler.extenders.wire`).

Invariant: all arrays have one entry for each node, in one order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class NodeInputColumn:
    """One number for every node, NaN if there is none. `digits`: the decimals to keep."""

    name: str
    values: Floats
    unit: str = ""
    digits: int = 2


@dataclass(frozen=True)
class NodeInputs:
    """The numbers from one source, which is named in words: the annotations, the query.

    `measured_s`: the times in seconds since 1970; NaN, or None altogether, if unknown. `stale`: the nodes whose value
    was too old and therefore ignored.
    """

    source: str
    numbers: tuple[NodeInputColumn, ...]
    measured_s: Floats | None = None
    stale: Mask | None = None


@dataclass(frozen=True)
class MeasurementTimes:
    """The time of each node's annotated values, and which values are too old."""

    moments_s: Floats
    stale: Mask

    @classmethod
    def from_moments(cls, moments_s: Floats, now_s: float, limit_s: float) -> MeasurementTimes:
        """Return the times; those older than the limit are stale, and NaN, an unknown time, never is."""
        return cls(moments_s, now_s - moments_s > limit_s)

    def inputs(self, keys: Sequence[str], *numbers: NodeInputColumn) -> NodeInputs:
        """Return the inputs that come from annotations with these keys."""
        source = f"annotation{'s' if len(keys) > 1 else ''} {', '.join(keys)}"
        return NodeInputs(source, numbers, self.moments_s, self.stale)


def build_load_columns(
    resource: str, mean: Floats, deviation: Floats, risk: Floats | None = None
) -> tuple[NodeInputColumn, ...]:
    """Return a resource's used share with the pod, its deviation and the risk of overload, in per cent."""
    known = np.where(np.isnan(mean), np.nan, deviation)
    shares = {"used": mean, "deviation": known} | ({} if risk is None else {"risk": risk})
    return tuple(NodeInputColumn(f"{resource} {name}", 100 * values, "%") for name, values in shares.items())
