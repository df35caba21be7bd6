"""Scores from what a node has and what it would hold: kube-scheduler's three strategies and the balance.

Source: pkg/scheduler/framework/plugins/noderesources v1.36. Arrays are int64 and of one shape: `[resource, slot]` or
`[slot]`. Products and sums wrap around and divisions truncate as Go's do, score by score, so that results agree to the
last digit, also for amounts that no machine has. A resource that a node does not have is 0 there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]

MAX_SCORE = 100


def least_allocated(allocatable: Amounts, requested: Amounts) -> Amounts:
    """Return (allocatable - requested) * 100 / allocatable, the score of what is free.

    It is 0 where more is requested than allocatable, or nothing is allocatable.
    """
    return _share(allocatable - requested, allocatable, requested <= allocatable)


def most_allocated(allocatable: Amounts, requested: Amounts) -> Amounts:
    """Return requested * 100 / allocatable, the score of what is in use.

    It is at most 100, and 0 where nothing is allocatable.
    """
    return _share(np.minimum(requested, allocatable), allocatable, np.bool_(True))


def utilization(allocatable: Amounts, requested: Amounts) -> Amounts:
    """Return the requested share in percent, 100 if more is requested than allocatable, 0 if nothing is allocatable."""
    return np.where(requested > allocatable, MAX_SCORE, most_allocated(allocatable, requested))


def broken_linear(shape: Sequence[tuple[int, int]], at: Amounts) -> Amounts:
    """Return, for each x in `at`, the value of the piecewise linear function through the points `shape`.

    `shape` holds (x, y) by ascending x. Before the first and after the last point, the function is constant. Divisions
    truncate as in Go.
    """
    result = np.full_like(at, shape[-1][1])
    for i in range(len(shape) - 1, -1, -1):
        x, y = shape[i]
        if i == 0:
            value: Amounts | int = y
        else:
            x0, y0 = shape[i - 1]
            value = y0 + truncated_division((y - y0) * (at - x0), x - x0)
        result = np.where(at <= x, value, result)
    return result


def weighted_mean(scores: Amounts, counts: NDArray[np.bool_], weights: Sequence[int]) -> Amounts:
    """Return each node's weighted mean of the scores of its resources, as an integer; 0 if no resource counts there.

    `scores` and `counts`, the mask of the scores that count, have the shape [resource, node slot]; `weights` has one
    entry for each resource.
    """
    w = np.asarray(weights, np.int64)[:, None] * counts
    return _quotient((scores * w).sum(axis=0), np.maximum(w.sum(axis=0), 1))


def rounded_mean_of_positive(scores: Amounts, counts: NDArray[np.bool_], weights: Sequence[int]) -> Amounts:
    """Return each node's weighted mean of the scores above 0, rounded half up, as RequestedToCapacityRatio does.

    `scores` and `counts`, the mask of the scores that count, have the shape [resource, node slot]; `weights` has one
    entry for each resource. The mean is 0 if no score counts.
    """
    w = np.asarray(weights, np.int64)[:, None] * (counts & (scores > 0))
    total = w.sum(axis=0)
    mean = (scores * w).sum(axis=0) / np.maximum(total, 1)
    return np.where(total > 0, np.floor(mean + 0.5), 0).astype(np.int64)


def balance(allocatable: Amounts, requested: Amounts) -> Amounts:
    """Return how evenly each node's resources are requested: (1 - standard deviation of the shares) * 100, truncated.

    The arguments have the shape [resource, node slot]; a share is requested / allocatable. Resources that a node does
    not have are ignored on that node. For two resources, the deviation is half the difference of the shares, as
    upstream computes it.
    """
    has = allocatable != 0
    if has.all():
        deviation = _deviation(np.minimum(requested / allocatable, 1.0))
    else:
        deviation = _deviation_of_some(
            has, np.minimum(np.where(has, requested, 0) / np.where(has, allocatable, 1), 1.0)
        )
    return _truncated((1 - deviation) * 100.0)


def balance_gain(allocatable: Amounts, before: Amounts, after: Amounts) -> Amounts:
    """Return the score of NodeResourcesBalancedAllocation since v1.36: 50 + (50 + gain) / 2.

    The gain is `balance` with the requested amounts `after` minus that with `before`, without the pod. Arrays have the
    shape [resource, node slot].
    """
    slots = allocatable.shape[1]
    both = balance(np.concatenate([allocatable, allocatable], axis=1), np.concatenate([before, after], axis=1))
    return 50 + truncated_division(50 + both[slots:] - both[:slots], 2)


def _truncated(values: NDArray[np.float64]) -> Amounts:
    """Convert floats to int64 as Go does; on amd64, a float out of range becomes the least int64."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.int64)


def _quotient(a: Amounts, b: Amounts) -> Amounts:
    """Divide integers as Go does, truncating towards zero. `b` is nowhere 0."""
    if not a.size or (int(a.min()) >= 0 and int(b.min()) > 0):
        quotient: Amounts = a // b
        return quotient
    with np.errstate(over="ignore"):  # the least int64 by -1 stays what it is, as in Go
        quotient, remainder = np.divmod(a, b)
    truncated: Amounts = quotient + ((remainder != 0) & ((a < 0) != (b < 0)))
    return truncated


def truncated_division(a: Amounts, b: int) -> Amounts:
    """Divide integers by a positive constant as Go does, truncating towards zero."""
    quotient: Amounts = (a + (a < 0) * (b - 1)) // b
    return quotient


def default_normalize(raw: Amounts, feasible: NDArray[np.bool_], *, reverse: bool = False) -> Amounts:
    """Scale raw scores to 0..100 by the largest raw score of a feasible node, which becomes 100.

    With `reverse`, the largest becomes 0 and a raw score of 0 becomes 100.
    """
    top = int(raw[feasible].max(initial=0))
    if top == 0:
        return np.full_like(raw, MAX_SCORE) if reverse else raw
    scaled: Amounts = MAX_SCORE * raw // top
    return MAX_SCORE - scaled if reverse else scaled


def _share(part: Amounts, whole: Amounts, where: NDArray[np.bool_] | np.bool_) -> Amounts:
    counts = where & (whole != 0)
    return _quotient(np.where(counts, part, 0) * MAX_SCORE, np.where(whole != 0, whole, 1))


def _deviation_of_some(has: NDArray[np.bool_], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each node's standard deviation of the shares of the resources that it has.

    `has`, the mask of these resources, and `shares` have the shape [resource, node slot]. Nodes with the same resources
    are computed together.
    """
    deviation = np.zeros(shares.shape[1])
    numbers = (np.left_shift(1, np.arange(len(has)))[:, None] * has).sum(axis=0)
    # counting is the faster way, but takes room for every pattern that there could be
    for number in np.flatnonzero(np.bincount(numbers)) if len(has) <= 16 else np.unique(numbers):
        slots = numbers == number
        resources = [i for i in range(len(has)) if number >> i & 1]
        deviation[slots] = _deviation(shares[resources][:, slots])
    return deviation


def _deviation(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the population standard deviation of each column of `shares`, in upstream's order of operations."""
    count = len(shares)
    if count < 2:
        return np.zeros(shares.shape[1])
    if count == 2:
        return np.abs(np.asarray(shares[0] - shares[1]) / 2)
    mean = np.zeros(shares.shape[1])
    for row in shares:
        mean += row
    mean /= count
    squares = np.zeros(shares.shape[1])
    for row in shares:
        squares += (row - mean) * (row - mean)
    return np.sqrt(squares / count)
