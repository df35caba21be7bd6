"""Scores of single measurements of nodes: their price, network traffic and congestion factor.

Sources: Kelsey Hightower's toy scheduler (the idea of prices), cylonchau's customScheduler (plugin NetworkTraffic), and
IBM's kube-safe-scheduler (agent `congestion`).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Mask = NDArray[np.bool_]
Amounts = NDArray[np.int64]

MAX_SCORE = 100
MAX_POINTS = 10
_BITS: Final = 56  # above, 100 times the amount does not fit into int64


def price_scores(prices: NDArray[np.float64], feasible: Mask) -> NDArray[np.int64]:
    """Return scores of nodes by price: 100 for the cheapest feasible node, 0 for the dearest.

    A node without a price (NaN) gets 0. Scores between are floored, so that no dearer node reaches 100. If all prices
    are equal, each node with a price gets 100.
    """
    priced = feasible & ~np.isnan(prices)
    result = np.zeros(len(prices), np.int64)
    if not priced.any():
        return result
    low, high = prices[priced].min(), prices[priced].max()
    if high == low:
        result[priced] = MAX_SCORE
    else:
        share = MAX_SCORE * ((high - prices[priced]) / (high - low))
        result[priced] = np.where(prices[priced] == low, MAX_SCORE, np.minimum(np.floor(share), MAX_SCORE - 1))
    return result


def traffic_scores(traffic: Amounts, feasible: Mask) -> Amounts:
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


def parse_congestion(text: str | None) -> float:
    """Return the congestion factor in an annotation, at least 0; NaN if it is absent or not an integer."""
    try:
        return float(max(int(text or ""), 0))
    except (ValueError, OverflowError):
        return math.nan


def congestion_points(factor: ArrayLike, maximum: int) -> NDArray[np.int64]:
    """Return the scores of nodes by their congestion factor: 10 without congestion, 0 at `maximum` and above.

    Scores are rounded half up. A factor below 0 counts as no congestion.
    """
    share = np.clip(np.asarray(factor, np.float64), 0, maximum) / maximum
    return np.floor(MAX_POINTS * (1 - share) + 0.5).astype(np.int64)
