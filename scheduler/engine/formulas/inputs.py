"""The numbers of nodes from which a plugin or an agent computes scores, in the form that the recorder takes.

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
    """One measurement of every node, such as its load; NaN where unknown. The record keeps `digits` decimals."""

    name: str
    values: Floats
    unit: str = ""
    digits: int = 2


@dataclass(frozen=True)
class NodeInputs:
    """The measurements of all nodes from one source, such as an annotation or a query.

    `source` describes the source in words. `measured_s` holds each node's time of measurement in seconds since 1970,
    NaN where unknown; None if no time is known. `stale` is the mask of the nodes whose values were too old and
    therefore ignored.
    """

    source: str
    numbers: tuple[NodeInputColumn, ...]
    measured_s: Floats | None = None
    stale: Mask | None = None


@dataclass(frozen=True)
class MeasurementTimes:
    """The time of each node's annotated measurements, in seconds since 1970, and the mask of those that are too old."""

    moments_s: Floats
    stale: Mask

    @classmethod
    def from_moments(cls, moments_s: Floats, now_s: float, limit_s: float) -> MeasurementTimes:
        """Return the times, with those more than `limit_s` seconds before `now_s` marked as stale.

        A time that is unknown (NaN) is never stale.
        """
        return cls(moments_s, now_s - moments_s > limit_s)

    def inputs(self, keys: Sequence[str], *numbers: NodeInputColumn) -> NodeInputs:
        """Return the columns `numbers`, read from the node annotations `keys`, with these measurement times."""
        source = f"annotation{'s' if len(keys) > 1 else ''} {', '.join(keys)}"
        return NodeInputs(source, numbers, self.moments_s, self.stale)


def build_load_columns(
    resource: str, mean: Floats, deviation: Floats, risk: Floats | None = None
) -> tuple[NodeInputColumn, ...]:
    """Return input columns in per cent: a resource's used share with the pod, its deviation and the risk of overload.

    The arguments are shares from 0 to 1, with one entry for each node. Without `risk`, there is no third column.
    """
    deviations = np.where(np.isnan(mean), np.nan, deviation)
    shares = {"used": mean, "deviation": deviations} | ({} if risk is None else {"risk": risk})
    return tuple(NodeInputColumn(f"{resource} {name}", 100 * values, "%") for name, values in shares.items())
