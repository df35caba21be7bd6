"""Points for a node's congestion factor. Source: IBM's kube-safe-scheduler, agent `congestion`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_POINTS = 10


def parse_factor(text: str | None) -> float:
    """Return the congestion factor in an annotation, at least 0; NaN if it is absent or not an integer."""
    try:
        return float(max(int(text or ""), 0))
    except (ValueError, OverflowError):
        return math.nan


def points(factor: ArrayLike, maximum: int) -> NDArray[np.int64]:
    """Return the scores of nodes by their congestion factor: 10 without congestion, 0 at `maximum` and above.

    Scores are rounded half up. A factor below 0 counts as no congestion.
    """
    share = np.clip(np.asarray(factor, np.float64), 0, maximum) / maximum
    return np.floor(MAX_POINTS * (1 - share) + 0.5).astype(np.int64)
