"""Score of a node's price: the cheapest is best. Source of the idea: Kelsey Hightower's toy scheduler."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

MAX_SCORE = 100


def scores(prices: NDArray[np.float64], feasible: Mask) -> NDArray[np.int64]:
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
