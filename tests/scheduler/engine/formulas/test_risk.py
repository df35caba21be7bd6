"""The risk of overload: the checked values of kube-safe-scheduler's agent, one node at a time and all at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from scheduler.engine.formulas import beta, risk

THRESHOLD, LIMIT, WEIGHT = 0.90, 0.30, 0.20
NONE = float("nan")
MI = 1 << 20


class Row(NamedTuple):
    capacity: float
    free: float
    deviation: float
    demand: float
    forecast: float
    mu: float
    sigma: float
    alpha: float
    beta: float
    risk: float
    accepted: bool
    overload: int
    balance: int


TABLE = {
    "half full": Row(4000, 2500, 400, 500, NONE, 0.5, 0.1, 12, 12, 4.6758e-07, True, 9, 6),
    "with a forecast": Row(4000, 2500, 400, 500, 2000, 0.525, 0.1, 12.5671875, 11.3703125, 1.8563e-06, True, 9, 6),
    "some risk": Row(4000, 1200, 400, 500, NONE, 0.825, 0.1, 11.0859375, 2.3515625, 0.254150, True, 0, 4),
    "nearly full": Row(4000, 700, 400, 500, NONE, 0.95, 0.1, 3.5625, 0.1875, 0.840837, False, 0, 4),
    "at the threshold": Row(4000, 900, 300, 500, NONE, 0.9, 0.075, 13.5, 1.5, 0.592085, False, 0, 4),
    "at it, steady": Row(4000, 600, 200, 200, NONE, 0.9, 0.05, 31.5, 3.5, 0.560189, False, 0, 4),
    "full": Row(4000, 100, 400, 500, NONE, 1, 0.1, NONE, NONE, 1, False, 0, 3),
    "no deviation, low": Row(4000, 2500, 0, 500, NONE, 0.5, 0, NONE, NONE, 0, True, 10, 8),
    "no deviation, high": Row(4000, 300, 0, 0, NONE, 0.925, 0, NONE, NONE, 1, False, 0, 5),
    "more free than there is": Row(4000, 5000, 400, 0, NONE, 0, 0.1, NONE, NONE, 0, True, 10, 8),
    "too wide": Row(4000, 2000, 2000, 0, NONE, 0.5, 0.5, NONE, NONE, 1, False, 0, 4),
    "memory": Row(4096, 2048, 512, 200, NONE, 0.548828, 0.125, 8.148677, 6.698735, 0.000323, True, 9, 5),
    "memory of the README": Row(
        4096, 155597063 / MI, 30372823 / MI, 200, NONE, 1, 0.007072, NONE, NONE, 1, False, 0, 5
    ),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=list(TABLE))
def test_checked_values_of_one_node(row: Row) -> None:
    free = risk.expected_free(row.free, row.forecast, WEIGHT)
    mu, sigma = risk.utilization(row.capacity, free, row.deviation, row.demand)
    found = risk.risk(mu, sigma, THRESHOLD)
    assert (float(mu), float(sigma)) == pytest.approx((row.mu, row.sigma), abs=1e-6)
    assert [float(p) for p in beta.fit(mu, sigma)] == pytest.approx([row.alpha, row.beta], abs=1e-6, nan_ok=True)
    assert float(found) == pytest.approx(row.risk, rel=1e-4, abs=5e-7 if row.risk > 1e-4 else 0)
    assert bool(risk.acceptable(found, LIMIT)) is row.accepted
    assert int(risk.overload_points(found, LIMIT)) == row.overload
    assert int(risk.balance_points(mu, sigma)) == row.balance


def test_all_nodes_at_once_are_the_same() -> None:
    columns = np.array([row[:5] for row in TABLE.values()]).T
    capacity, free, deviation, demand, forecast = columns
    mu, sigma = risk.utilization(capacity, risk.expected_free(free, forecast, WEIGHT), deviation, demand)
    found = risk.risk(mu, sigma, THRESHOLD)
    assert risk.acceptable(found, LIMIT).tolist() == [row.accepted for row in TABLE.values()]
    assert risk.overload_points(found, LIMIT).tolist() == [row.overload for row in TABLE.values()]
    assert risk.balance_points(mu, sigma).tolist() == [row.balance for row in TABLE.values()]


@pytest.mark.parametrize(
    ("of", "limit", "points"),
    [(0.0, 0.3, 10), (1e-12, 0.3, 9), (0.3, 0.3, 0), (0.0, 0.0, 10), (1e-9, 0.0, 0), (NONE, 0.3, 0)],
    ids=["none", "any", "at the limit", "none, none allowed", "any, none allowed", "unknown"],
)
def test_points_of_a_risk(of: float, limit: float, points: int) -> None:
    assert int(risk.overload_points(of, limit)) == points


def test_an_unknown_risk_is_accepted_and_a_node_without_capacity_has_none() -> None:
    mu, sigma = risk.utilization(0, 100, 10, 50)
    assert np.isnan(mu)
    assert np.isnan(risk.risk(mu, sigma, THRESHOLD))
    assert bool(risk.acceptable(NONE, 0.0))


def test_the_threshold_and_the_limit_turn_a_node_away() -> None:
    """The row with risk 0.254: a lower threshold or a lower limit rejects it."""
    assert bool(risk.acceptable(risk.risk(0.825, 0.1, 0.90), 0.30))
    assert not bool(risk.acceptable(risk.risk(0.825, 0.1, 0.85), 0.30))
    assert not bool(risk.acceptable(risk.risk(0.825, 0.1, 0.90), 0.25))


def test_the_worst_resource_counts_and_an_unknown_one_does_not() -> None:
    points = [np.array([9, 3, 5, 7]), np.array([4, 8, 6, 2])]
    known = [np.array([True, True, True, False]), np.array([True, True, False, False])]
    assert risk.least_known(points, known).tolist() == [4, 3, 5, 0]
