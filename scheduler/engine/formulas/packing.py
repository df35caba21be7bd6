"""Where a pod suits the cluster as a whole: three objectives, evaluated as if it were placed on each node in turn.

Source: IBM's kube-safe-scheduler, agent `pigeon`; adaptive bin packing is Tantawi & Steinder, ICAC 2019, with the
multivariate coefficient of variation of Albert & Zhang.

Matrices are `[resource, node]` in any unit, the same for capacity, usage and demand. Smaller values are better; a node
on which the pod does not fit has NaN. All trials together take O(n log n): each changes one term of a few sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Points = NDArray[np.int64]
Mask = NDArray[np.bool_]
Amount = TypeVar("Amount", int, NDArray[np.int64])

MAX_POINTS = 10
LEAST: Final = {"cpu": 10, "memory": 16}  # counted of a pod that requests none: milli, MiB
WINDOW: Final = 100  # pods that the average goes over; then each new one counts a hundredth
LARGEST: Final = 16  # the largest machines of a cluster have some sixteen times what its ordinary ones have
_SHIFTS: Final = {"memory": 20, "ephemeral-storage": 30}
_SAME: Final = 1e-9  # values closer than this differ by rounding alone


@dataclass(frozen=True)
class Demand:
    """Statistics of what pods requested so far, empty before the first pod.

    `count` is the number of pods, at most `WINDOW`. `mean` holds the mean request of each resource, and `second` the
    mean product of the requests of each pair of resources.
    """

    count: int = 0
    mean: tuple[float, ...] = ()
    second: tuple[tuple[float, ...], ...] = ()

    def learn(self, sample: Sequence[float]) -> Demand:
        """Return the statistics with one more pod. `sample` holds its requests by resource."""
        new = np.asarray(sample, np.float64)
        products = np.outer(new, new)
        count = min(self.count + 1, WINDOW)
        if not self.count:
            return Demand(count, _row(new), tuple(map(_row, products)))
        mean = np.asarray(self.mean) * (1 - 1 / count) + new / count
        second = np.asarray(self.second) * (1 - 1 / count) + products / count
        return Demand(count, _row(mean), tuple(map(_row, second)))

    def variation(self, capacity: Floats) -> float:
        """Return the multivariate coefficient of variation of the pods' requests, in units of the average node.

        `capacity` has the shape [resource, node].
        """
        has = capacity > 0
        unit = np.where(has, capacity, 0).sum(axis=1) / np.maximum(has.sum(axis=1), 1)
        unit = np.where(unit > 0, unit, np.inf)
        mean = np.asarray(self.mean) / unit
        covariance = np.asarray(self.second) / np.outer(unit, unit) - np.outer(mean, mean)
        return float(_variation(mean[None, :], covariance[None, :, :])[0])


def learn(learnt: Demand, sample: Sequence[float], capacity: Floats) -> Demand:
    """Return the statistics with one more pod, with all requests limited to `LARGEST` times the median node's capacity.

    The limit also applies to the statistics in `learnt`. So a pod that requests more than any machine has, or that was
    learnt while a node claimed an excessive capacity, distorts the average only for a while. `capacity` has the shape
    [resource, node].
    """
    limit = _largest(capacity)
    if learnt.count:
        mean = np.clip(np.asarray(learnt.mean), 0, limit)
        second = np.clip(np.asarray(learnt.second), 0, np.outer(limit, limit))
        learnt = Demand(learnt.count, _row(mean), tuple(map(_row, second)))
    return learnt.learn(np.clip(np.asarray(sample, np.float64), 0, limit).tolist())


def _largest(capacity: Floats) -> Floats:
    """Return, by resource, the largest request that counts: `LARGEST` times the median node's capacity.

    It is infinite if no node has the resource.
    """
    rows = [row[row > 0] for row in capacity]
    return np.array([LARGEST * np.median(row) if len(row) else np.inf for row in rows])


def fits(capacity: Floats, usage: Floats, demand: Floats) -> Mask:
    """Return the mask of the nodes with room for the pod.

    `capacity` and `usage` have the shape [resource, node]; `demand` holds the pod's requests by resource.
    """
    room: Mask = np.logical_and.reduce(demand[:, None] <= capacity - usage)
    return room


def load_balance(capacity: Floats, usage: Floats, demand: Floats, prime: int) -> Floats:
    """Return, for the pod on each node in turn, the standard deviation of all nodes' used shares; smaller is better.

    Only the resource with the index `prime` counts. The value is NaN for a node on which the pod does not fit.
    """
    before, after = _prime_shares(capacity[prime], usage[prime], demand[prime])
    centre = before.mean()
    mean, square = _with_trial(before - centre, after - centre)
    values = np.sqrt(np.maximum(square - mean * mean, 0.0))
    return np.where(fits(capacity, usage, demand), values, np.nan)


def consolidate(capacity: Floats, usage: Floats, demand: Floats, prime: int) -> Floats:
    """Return, for the pod on each node in turn, an objective that prefers to fill node after node; smaller is better.

    It is 1 minus the root mean square of the nodes' distances from the mean used share, relative to an empty node's
    below the mean and a full node's above it. Only the resource with the index `prime` counts. The value is NaN for a
    node on which the pod does not fit.
    """
    before, after = _prime_shares(capacity[prime], usage[prime], demand[prime])
    mean = (before.sum() - before + after) / len(before)
    sides = _square_sums(np.sort(before), mean) - _square_sides(before, mean) + _square_sides(after, mean)
    usual = (mean > 0) & (mean < 1)
    below, above = np.where(usual, mean, 1.0), np.where(usual, 1 - mean, 1.0)
    square = np.maximum(sides[0] / below**2 + sides[1] / above**2, 0.0) / len(before)
    values = np.where(usual, 1 - np.sqrt(square), 0.0)
    return np.where(fits(capacity, usage, demand), values, np.nan)


def adaptive_bin_pack(capacity: Floats, usage: Floats, demand: Floats, learnt: Demand) -> Floats:
    """Return, for the pod on each node in turn, how much the variation of usage differs from that of pods.

    Smaller is better. The value is the difference of two coefficients of variation: of the nodes' usage, and of the
    pods' requests in `learnt`, which includes this pod. So equal pods are spread, and pods of very different sizes are
    packed. The value is NaN for a node on which the pod does not fit.
    """
    before, after = (shares.T for shares in _all_shares(capacity, usage, demand))
    centre = before.mean(axis=0)
    off, trial = before - centre, after - centre
    count = len(before)
    mean = (trial - off) / count  # of all nodes, from the centre; theirs is 0
    squares = off.T @ off - off[:, :, None] * off[:, None, :] + trial[:, :, None] * trial[:, None, :]
    covariance = squares / count - mean[:, :, None] * mean[:, None, :]
    values = np.abs(_variation(centre + mean, covariance) - learnt.variation(capacity))
    return np.where(fits(capacity, usage, demand), values, np.nan)


def points(values: Floats) -> Points:
    """Return scores for objective values: 10 for the smallest, 1 for the largest, and 0 for a value that is not finite.

    If all finite values are equal, each gets 10.
    """
    finite = np.isfinite(values)
    if not finite.any():
        return np.zeros(len(values), np.int64)
    low, high = values[finite].min(), values[finite].max()
    if high - low < _SAME:
        return np.where(finite, MAX_POINTS, 0).astype(np.int64)
    scaled = np.floor(1 + (MAX_POINTS - 1) * (high - np.where(finite, values, high)) / (high - low) + 0.5)
    return np.where(finite, np.clip(scaled, 0, MAX_POINTS), 0).astype(np.int64)


def scaled(resource: str, amount: Amount) -> Amount:
    """Convert an amount from base units to those of the objectives, rounded down.

    Memory becomes MiB and ephemeral storage GiB; cpu stays in milli-CPUs, and counts stay as they are.
    """
    return amount >> _SHIFTS.get(resource, 0)


def _row(values: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _prime_shares(capacity: Floats, usage: Floats, demand: Floats) -> tuple[Floats, Floats]:
    """Return each node's used share of a resource without and with the pod.

    A node without the resource counts as full.
    """
    has = capacity > 0
    whole = np.where(has, capacity, 1.0)
    return np.where(has, usage / whole, 1.0), np.where(has, (usage + demand) / whole, 1.0)


def _all_shares(capacity: Floats, usage: Floats, demand: Floats) -> tuple[Floats, Floats]:
    """Return each node's used shares of all resources without and with the pod, at most 1, as [resource, node].

    A node without a resource counts as full once a pod requests it there.
    """
    wanted = (capacity > 0) | (usage > 0), (capacity > 0) | (usage + demand[:, None] > 0)
    shares = _prime_shares(capacity, usage, demand[:, None])
    before, after = (np.where(w, np.clip(s, 0, 1), 0.0) for w, s in zip(wanted, shares, strict=True))
    return before, after


def _with_trial(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the mean square over all nodes, with the pod on each node in turn.

    `before` holds each node's value without the pod, `after` with it.
    """
    mean = (before.sum() - before + after) / len(before)
    square = ((before * before).sum() - before * before + after * after) / len(before)
    return mean, square


def _square_sides(shares: Floats, mean: Floats) -> Floats:
    """Return (mean - share) squared, in row 0 where the share is below the mean and in row 1 where it is above."""
    return np.stack([np.maximum(mean - shares, 0) ** 2, np.maximum(shares - mean, 0) ** 2])


def _square_sums(ordered: Floats, mean: Floats) -> Floats:
    """Return, for each of several means, the two sums of `_square_sides` over all shares.

    `ordered` holds the shares ascending.
    """
    count = np.searchsorted(ordered, mean)
    first = np.concatenate([[0.0], np.cumsum(ordered)])
    second = np.concatenate([[0.0], np.cumsum(ordered * ordered)])
    below = count * mean**2 - 2 * mean * first[count] + second[count]
    rest = len(ordered) - count
    above = rest * mean**2 - 2 * mean * (first[-1] - first[count]) + second[-1] - second[count]
    return np.stack([below, above])


def _variation(mean: Floats, covariance: Floats) -> Floats:
    """Return the coefficient of variation sqrt(m' C m) / m'm for each pair of mean vector m and covariance matrix C.

    It is 0 where m' C m or m'm is not positive.
    """
    top = np.einsum("ij,ijk,ik->i", mean, covariance, mean)
    bottom = (mean * mean).sum(axis=1)
    some = (top > 0) & (bottom > 0)
    return np.where(some, np.sqrt(np.where(some, top, 0.0)) / np.where(some, bottom, 1.0), 0.0)
