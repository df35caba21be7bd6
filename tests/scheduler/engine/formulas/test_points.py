"""Congestion, price, traffic and reward: the checked values of the earlier systems, and the faults they had."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

from scheduler.engine.formulas import reward
from scheduler.engine.formulas.points import congestion_points, price_scores, traffic_scores

NONE = float("nan")


@pytest.mark.parametrize(
    ("maximum", "factor", "points"),
    [
        *((100, f, p) for f, p in ((0, 10), (5, 10), (6, 9), (15, 9), (50, 5), (95, 1), (96, 0), (150, 0), (-3, 10))),
        *((10, f, p) for f, p in ((1, 9), (5, 5), (11, 0))),
    ],
)
def test_congestion(maximum: int, factor: int, points: int) -> None:
    assert int(congestion_points(factor, maximum)) == points


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([42_500_000_000, 12_541_068_340], [0, 71]),
        ([41_803_561_134, 12_541_068_340], [0, 71]),
        ([200_000, 140_000], [0, 30]),
        ([0, 0], [100, 100]),
        ([1 << 62, 1 << 61], [0, 50]),
        ([5], [0]),
    ],
    ids=["the article's", "its lower bound", "the example", "nothing moves", "beyond int64 times 100", "one node"],
)
def test_traffic(amounts: list[int], expected: list[int]) -> None:
    assert traffic_scores(np.array(amounts, np.int64), np.ones(len(amounts), np.bool_)).tolist() == expected


def test_traffic_of_nodes_that_do_not_count_moves_nothing() -> None:
    found = traffic_scores(np.array([400, 200, 100]), np.array([False, True, True]))
    assert found[1:].tolist() == [0, 50]


@pytest.mark.parametrize(
    ("prices", "expected"),
    [
        ([0.05, 1.60, 0.80], [100, 0, 51]),
        ([0.05, 0.0500001, 1e9], [100, 99, 0]),
        ([0.4, NONE, 0.4], [100, 0, 100]),
        ([NONE, NONE], [0, 0]),
    ],
    ids=["cheap, dear, between", "the cheapest alone is best", "no price is worst", "no price anywhere"],
)
def test_price(prices: list[float], expected: list[int]) -> None:
    assert price_scores(np.array(prices), np.ones(len(prices), np.bool_)).tolist() == expected


def test_five_failures_from_the_start() -> None:
    rewards = list(accumulate([reward.FAILED] * 5, reward.update_reward, initial=reward.INITIAL))[1:]
    assert rewards == pytest.approx([0.9, 0.81, 0.729, 0.6561, 0.59049])
    assert reward.points(rewards).tolist() == [9, 8, 7, 6, 5]


@pytest.mark.parametrize(
    ("of", "points"),
    [(1.0, 10), (0.95, 9), (0.3 * 3, 9), (0.1 + 0.2, 3), (0.0, 0), (NONE, 0), (0.6999999, 7)],
    ids=["new", "one crash", "rounding error below", "rounding error above", "never", "unknown", "as it is stored"],
)
def test_points_of_a_reward(of: float, points: int) -> None:
    assert int(reward.points(of)) == points
