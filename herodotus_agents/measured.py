"""What annotators wrote on the nodes of a request: numbers, and how old they are.

Owns: reading annotations of many nodes. Does not own: keys and units (`scheduler.formulas.measurements`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from herodotus_agents.objects import Node
from scheduler.formulas import measurements
from scheduler.formulas.inputs import Dated

Floats = NDArray[np.float64]


def dated(group: str, nodes: Sequence[Node], now_s: float, limit_s: float) -> Dated:
    """When a group's values are from, and which are older than the limit."""
    stamp = measurements.MEASURED[group]
    moments_s = [measurements.moment(node.annotations.get(stamp)) for node in nodes]
    return Dated.of(np.array(moments_s, np.float64), now_s, limit_s)


def numbers(nodes: Sequence[Node], *keys: str) -> Floats:
    """The first of these annotations that a node has; NaN where it has none, or no number."""
    found = np.full(len(nodes), np.nan)
    for key in reversed(keys):
        given = np.array([measurements.number(node.annotations.get(key)) for node in nodes], np.float64)
        found = np.where(np.isnan(given), found, given)
    return found


def present(nodes: Sequence[Node], keys: Sequence[str]) -> list[str]:
    """Those of the keys that some node has; the first one where none has any."""
    return [key for key in keys if any(key in node.annotations for node in nodes)] or list(keys[:1])
