"""How likely a node is overloaded, from mean and deviation of what it has free, and what that is worth in points.

Source of the model: IBM's kube-safe-scheduler, agent `safe`. Arrays, one entry a node, or plain numbers; shares are of
the node's capacity. Points go from 0 to 10, as extenders give them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scheduler.engine.formulas import beta

Floats = NDArray[np.float64]
Points = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_POINTS = 10


def expected_free(mean: ArrayLike, forecast: ArrayLike, weight: float) -> Floats:
    """Return the mean, moved towards the forecast by `weight` (0 to 1); NaN is no forecast."""
    mean, forecast = np.asarray(mean, np.float64), np.asarray(forecast, np.float64)
    return np.where(np.isnan(forecast), mean, (1 - weight) * mean + weight * forecast)


def utilization(capacity: ArrayLike, free: ArrayLike, deviation: ArrayLike, demand: ArrayLike) -> tuple[Floats, Floats]:
    """Mean and deviation of the used share once the pod is there; NaN where there is no capacity.

    Free may be more than the capacity, which the kubelet's reservations make smaller than the machine.
    """
    capacity = np.asarray(capacity, np.float64)
    whole = np.where(capacity > 0, capacity, np.nan)
    used = np.maximum(whole - np.asarray(free, np.float64), 0.0)
    share = np.clip((used + np.asarray(demand, np.float64)) / whole, 0.0, 1.0)
    return share, np.clip(np.asarray(deviation, np.float64) / whole, 0.0, 1.0)


def risk(mean: ArrayLike, deviation: ArrayLike, threshold: float) -> Floats:
    """P(used share > threshold), of a beta distribution with this mean and deviation. NaN where the mean is.

    Without deviation the mean decides. A deviation that no beta distribution has is the highest risk.
    """
    mean, deviation = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(deviation, np.float64))
    fitted = beta.survival(threshold, *beta.fit(mean, deviation))
    certain = np.where(mean <= threshold, 0.0, 1.0)
    known = np.where(deviation > 0, np.where(np.isnan(fitted), 1.0, fitted), certain)
    return np.where(np.isnan(mean), np.nan, np.where(mean <= 0, 0.0, known))


def acceptable(risks: ArrayLike, limit: float) -> Mask:
    """Whether the risk is at most `limit`; an unknown one is."""
    risks = np.asarray(risks, np.float64)
    accepted: Mask = np.isnan(risks) | (risks <= limit)
    return accepted


def overload_points(risks: ArrayLike, limit: float) -> Points:
    """10 without risk, 0 from `limit` on, falling steeply at first. 0 where the risk is unknown."""
    risks = np.asarray(risks, np.float64)
    if limit > 0:
        share = np.minimum(np.nan_to_num(risks, nan=1.0) / limit, 1.0)
    else:
        share = np.where(risks == 0, 0.0, 1.0)
    points: Points = np.floor((1 - np.sqrt(share)) * MAX_POINTS).astype(np.int64)
    return points


def balance_points(mean: ArrayLike, deviation: ArrayLike) -> Points:
    """10 for an idle and steady node: mean against the root of the relative deviation. 0 where unknown."""
    mean, deviation = np.asarray(mean, np.float64), np.asarray(deviation, np.float64)
    objective = np.nan_to_num((mean + np.sqrt(deviation)) / 2, nan=1.0)
    points: Points = np.floor((1 - objective) * MAX_POINTS + 0.5).astype(np.int64)
    return points


def least_known(points: Sequence[Points], known: Sequence[Mask]) -> Points:
    """Return the lowest points over the resources with known values, or 0 if none has any."""
    worst = np.min([np.where(k, p, MAX_POINTS + 1) for p, k in zip(points, known, strict=True)], axis=0)
    return np.where(worst > MAX_POINTS, 0, worst).astype(np.int64)
