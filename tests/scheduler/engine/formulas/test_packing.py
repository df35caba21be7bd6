"""Pigeon's objectives: the checked values, and the definitions evaluated node by node on generated clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.formulas import packing
from scheduler.engine.formulas.packing import Demand

CAPACITY = np.array([[4000.0] * 3, [8192.0] * 3])
USAGE = np.array([[1000.0, 2000, 0], [2048.0, 2048, 0]])
PODS = ((500, 1024), (500, 1024), (2000, 512), (3500, 1024))
N = float("nan")

ADAPTIVE = [
    ([0.707881, 0.827751, 0.430740], [4, 1, 10]),
    ([0.707881, 0.827751, 0.430740], [4, 1, 10]),
    ([0.181868, 0.389059, 0.353410], [10, 1, 3]),
    ([N, N, 0.331018], [0, 0, 10]),
]
BALANCE = [
    ([0.212459, 0.256851, 0.155902], [5, 1, 10]),
    ([0.212459, 0.256851, 0.155902], [5, 1, 10]),
    ([0.311805, 0.424918, 0.117851], [4, 1, 10]),
    ([N, N, 0.256851], [0, 0, 10]),
]
CONSOLIDATE = [
    ([0.394375, 0.356608, 0.619893], [9, 10, 1]),
    ([0.394375, 0.356608, 0.619893], [9, 10, 1]),
    ([0.329941, 0.151472, 0.741275], [7, 10, 1]),
    ([N, N, 0.475664], [0, 0, 10]),
]


@pytest.mark.parametrize("number", range(4))
def test_checked_values_of_load_balance_and_consolidate(number: int) -> None:
    demand = np.array(PODS[number], float)
    for objective, (values, points) in (
        (packing.load_balance, BALANCE[number]),
        (packing.consolidate, CONSOLIDATE[number]),
    ):
        found = objective(CAPACITY, USAGE, demand, 0)
        assert found.tolist() == pytest.approx(values, abs=1e-6, nan_ok=True)
        assert packing.points(found).tolist() == points


def test_checked_values_of_adaptive_bin_packing() -> None:
    """One after another: what the pods ask for is learnt."""
    learnt = Demand()
    for pod, (values, points) in zip(PODS, ADAPTIVE, strict=True):
        learnt = learnt.learn(pod)
        found = packing.adaptive_bin_pack(CAPACITY, USAGE, np.array(pod, float), learnt)
        assert found.tolist() == pytest.approx(values, abs=2e-6, nan_ok=True)
        assert packing.points(found).tolist() == points


def test_checked_values_of_adaptive_bin_packing_by_one_resource() -> None:
    expected = [
        (500, [0.728431, 0.880631, 0.534523], [5, 1, 10]),
        (2000, [0.148332, 0.419804, 0.317157], [10, 1, 4]),
        (250, [0.081557, 0.006587, 0.181339], [6, 10, 1]),
    ]
    learnt = Demand()
    for cpu, values, points in expected:
        learnt = learnt.learn((cpu,))
        found = packing.adaptive_bin_pack(CAPACITY[:1], USAGE[:1], np.array([cpu], float), learnt)
        assert found.tolist() == pytest.approx(values, abs=2e-6)
        assert packing.points(found).tolist() == points


def test_demand_is_an_average_over_a_hundred_pods_and_then_forgets() -> None:
    learnt = Demand()
    for i in range(100):
        learnt = learnt.learn((float(i),))
    assert learnt.count == 100
    assert learnt.mean[0] == pytest.approx(49.5)
    assert learnt.second[0][0] == pytest.approx(np.mean(np.arange(100.0) ** 2))
    assert learnt.learn((1049.5,)).mean[0] == pytest.approx(59.5)
    assert learnt.learn((1049.5,)).count == 100


def test_demands_larger_than_16_bits_do_not_overflow() -> None:
    assert Demand().learn((96_000.0, 393_216.0)).second[1][1] == 393_216.0**2


@pytest.mark.parametrize(
    ("values", "points"),
    [
        ([0.0, 1.0, 0.5], [10, 1, 6]),
        ([N, 0.3, N], [0, 10, 0]),
        ([0.2, 0.2 + 1e-12], [10, 10]),
        ([N, N], [0, 0]),
        ([], []),
    ],
    ids=["best, worst, between", "one fits", "all the same", "none fits", "no nodes"],
)
def test_points(values: list[float], points: list[int]) -> None:
    assert packing.points(np.array(values)).tolist() == points


NODES = st.lists(
    st.tuples(st.integers(0, 64), st.integers(0, 64), st.integers(0, 64), st.integers(0, 64)), min_size=1, max_size=8
)


@given(NODES, st.integers(1, 32), st.integers(1, 32))
def test_trials_together_are_the_trials_one_by_one(nodes: list[tuple[int, ...]], cpu: int, memory: int) -> None:
    rows = np.array(nodes, float).T
    capacity, usage, demand = rows[:2], np.minimum(rows[2:], rows[:2]), np.array([cpu, memory], float)
    learnt = Demand().learn(demand.tolist()).learn((1.0, 1.0))
    for i in range(len(nodes)):
        if not packing.fits(capacity, usage, demand)[i]:
            continue
        after = usage.copy()
        after[:, i] += demand
        shares = np.where(capacity[0] > 0, after[0] / np.maximum(capacity[0], 1), 1.0)
        assert packing.load_balance(capacity, usage, demand, 0)[i] == pytest.approx(shares.std(), abs=1e-7)
        assert packing.consolidate(capacity, usage, demand, 0)[i] == pytest.approx(_consolidated(shares), abs=1e-6)
        found = packing.adaptive_bin_pack(capacity, usage, demand, learnt)[i]
        expected = abs(_variation(capacity, after) - learnt.variation(capacity))
        assert found == pytest.approx(expected, abs=1e-6)


def _consolidated(shares: np.ndarray) -> float:
    mean = shares.mean()
    if not 0 < mean < 1:
        return 0.0
    terms = np.where(shares < mean, (mean - shares) / mean, (shares - mean) / (1 - mean))
    return float(1 - np.sqrt(np.mean(terms**2)))


def _variation(capacity: np.ndarray, usage: np.ndarray) -> float:
    empty = np.where(usage > 0, 1.0, 0.0)
    shares = np.where(capacity > 0, usage / np.maximum(capacity, 1), empty)
    mean, covariance = shares.mean(axis=1), np.cov(shares, ddof=0) if shares.shape[1] > 1 else np.zeros((2, 2))
    top, bottom = mean @ covariance @ mean, mean @ mean
    return float(np.sqrt(top) / bottom) if top > 1e-15 and bottom > 0 else 0.0


def test_identical_nodes_get_the_same_points() -> None:
    capacity, usage = np.full((2, 1001), 3.7), np.full((2, 1001), 1.1)
    demand = np.array([0.3, 0.1])
    learnt = Demand().learn(demand.tolist())
    for values in (
        packing.load_balance(capacity, usage, demand, 0),
        packing.consolidate(capacity, usage, demand, 0),
        packing.adaptive_bin_pack(capacity, usage, demand, learnt),
    ):
        assert set(packing.points(values).tolist()) == {10}
