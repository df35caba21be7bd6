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
    """Return the expected free amount: `mean`, moved towards `forecast` by the share `weight` (0 to 1).

    Where the forecast is NaN, the mean alone counts.
    """
    mean, forecast = np.asarray(mean, np.float64), np.asarray(forecast, np.float64)
    return np.where(np.isnan(forecast), mean, (1 - weight) * mean + weight * forecast)


def utilization(capacity: ArrayLike, free: ArrayLike, deviation: ArrayLike, demand: ArrayLike) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each node's used share once the pod is there; NaN where the capacity is 0.

    `free` and `deviation` are mean and standard deviation of the free amount, `demand` is the pod's request, all in the
    unit of `capacity`. The free amount may exceed the capacity, which excludes the kubelet's reservations.
    """
    capacity = np.asarray(capacity, np.float64)
    whole = np.where(capacity > 0, capacity, np.nan)
    used = np.maximum(whole - np.asarray(free, np.float64), 0.0)
    share = np.clip((used + np.asarray(demand, np.float64)) / whole, 0.0, 1.0)
    return share, np.clip(np.asarray(deviation, np.float64) / whole, 0.0, 1.0)


def risk(mean: ArrayLike, deviation: ArrayLike, threshold: float) -> Floats:
    """Return P(used share > threshold) from a beta distribution with this mean and deviation.

    The risk is NaN where the mean is NaN, and 0 where the mean is 0. If the deviation is 0, the risk is 1 or 0, by
    whether the mean exceeds the threshold. If no beta distribution has this deviation, the risk is 1.
    """
    mean, deviation = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(deviation, np.float64))
    fitted = beta.survival(threshold, *beta.fit(mean, deviation))
    certain = np.where(mean <= threshold, 0.0, 1.0)
    risks = np.where(deviation > 0, np.where(np.isnan(fitted), 1.0, fitted), certain)
    return np.where(np.isnan(mean), np.nan, np.where(mean <= 0, 0.0, risks))


def acceptable(risks: ArrayLike, limit: float) -> Mask:
    """Return the mask of the risks that are at most `limit`; an unknown risk (NaN) is acceptable."""
    risks = np.asarray(risks, np.float64)
    accepted: Mask = np.isnan(risks) | (risks <= limit)
    return accepted


def overload_points(risks: ArrayLike, limit: float) -> Points:
    """Return scores from 10 without risk to 0 for a risk of `limit` or more, falling steeply at first.

    The score is 0 where the risk is unknown (NaN).
    """
    risks = np.asarray(risks, np.float64)
    if limit > 0:
        share = np.minimum(np.nan_to_num(risks, nan=1.0) / limit, 1.0)
    else:
        share = np.where(risks == 0, 0.0, 1.0)
    points: Points = np.floor((1 - np.sqrt(share)) * MAX_POINTS).astype(np.int64)
    return points


def balance_points(mean: ArrayLike, deviation: ArrayLike) -> Points:
    """Return scores that prefer idle and steady nodes: 10 * (1 - (mean + sqrt(deviation)) / 2), rounded half up.

    `mean` and `deviation` are those of a node's used share, from 0 to 1. The score is 0 where they are unknown (NaN).
    """
    mean, deviation = np.asarray(mean, np.float64), np.asarray(deviation, np.float64)
    objective = np.nan_to_num((mean + np.sqrt(deviation)) / 2, nan=1.0)
    points: Points = np.floor((1 - objective) * MAX_POINTS + 0.5).astype(np.int64)
    return points


def least_known(points: Sequence[Points], known: Sequence[Mask]) -> Points:
    """Return each node's lowest score over the resources whose values are known, or 0 if none is known.

    `points` and `known` hold one array for each resource, with one entry for each node.
    """
    worst = np.min([np.where(k, p, MAX_POINTS + 1) for p, k in zip(points, known, strict=True)], axis=0)
    return np.where(worst > MAX_POINTS, 0, worst).astype(np.int64)
