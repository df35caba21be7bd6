"""Score of a node's network traffic: the busiest gets 0. Source: cylonchau's customScheduler, plugin NetworkTraffic."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]

MAX_SCORE = 100
_BITS: Final = 56  # above, 100 times the amount does not fit into int64


def scores(traffic: Amounts, feasible: NDArray[np.bool_]) -> Amounts:
    """Return scores of nodes by network traffic: 100 - traffic * 100 / the largest traffic of a feasible node.

    The quotient is truncated. If no feasible node has traffic, each node gets 100. `traffic` is in bytes or bytes per
    second, and not negative.
    """
    top = int(traffic[feasible].max(initial=0))
    if top == 0:
        return np.full_like(traffic, MAX_SCORE)
    shift = max(0, top.bit_length() - _BITS)
    share: Amounts = (np.clip(traffic, 0, top) >> shift) * 100 // (top >> shift)
    return MAX_SCORE - share
