"""Rewards that are learnt from what became of pods: the update, and points. Source: IBM's kubeRL.

A reward is a number from 0 (pods of this type always fail there) to 1.
"""

from __future__ import annotations

import json
import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

INITIAL: Final = 1.0  # before anything happened
RUNNING: Final = 1.0  # what a pod that runs earns
ENDED: Final = 0.5  # a first end, or one after a long enough life
FAILED: Final = 0.0
WEIGHT: Final = 0.1  # of the newest outcome

MAX_POINTS = 10
_DIGITS: Final = 6  # decimals that a stored reward has; the points are those of the stored one


def update_reward(reward: float, outcome: float) -> float:
    """Return the moving average of rewards after one more outcome, from 0 (failed) to 1."""
    return (1 - WEIGHT) * reward + WEIGHT * outcome


def parse_reward(published: str | None, kind: str) -> float:
    """Return the reward of a pod type on a node from the published JSON, {type: reward}.

    Return `INITIAL` if the type or the whole annotation is missing: only rewards below `INITIAL` are published. Return
    NaN for invalid JSON.
    """
    if not published:
        return INITIAL
    try:
        return float(json.loads(published).get(kind, INITIAL))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return math.nan


def points(rewards: ArrayLike) -> NDArray[np.int64]:
    """Return scores from 0 to 10: floor(reward * 10), or 0 where the reward is unknown (NaN).

    Rewards are first rounded to six decimals, as they are stored.
    """
    finite = np.nan_to_num(np.asarray(rewards, np.float64), nan=0.0)
    millionths = np.rint(finite * 10**_DIGITS).astype(np.int64)
    scores: NDArray[np.int64] = np.clip(millionths // 10 ** (_DIGITS - 1), 0, MAX_POINTS)
    return scores
