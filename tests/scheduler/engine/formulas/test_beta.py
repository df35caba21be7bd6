"""The beta distribution agrees with scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from scheduler.engine.formulas import beta

PARAMETERS = st.floats(1e-3, 1e5)
SHARES = st.one_of(st.floats(1e-9, 1 - 1e-9), st.sampled_from([0.0, 1.0]))


@given(SHARES, PARAMETERS, PARAMETERS)
def test_the_distribution_is_scipys(x: float, a: float, b: float) -> None:
    assert float(beta.distribution(x, a, b)) == pytest.approx(float(special.betainc(a, b, x)), abs=1e-12, rel=1e-7)
    assert float(beta.survival(x, a, b)) == pytest.approx(float(special.betaincc(a, b, x)), abs=1e-12, rel=1e-7)


@given(st.floats(0.01, 0.99), st.floats(0.05, 1e3), st.floats(0.05, 1e3))
def test_the_density_is_scipys(x: float, a: float, b: float) -> None:
    law = stats.beta(a, b)
    assert float(beta.density(x, a, b)) == pytest.approx(float(law.pdf(x)), rel=1e-9, abs=1e-300)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_fit_has_the_mean_and_the_deviation_it_was_made_from(mean: float, part: float) -> None:
    deviation = part * np.sqrt(mean * (1 - mean))
    a, b = beta.fit(mean, deviation)
    law = stats.beta(a, b)
    assert (law.mean(), law.std()) == pytest.approx((mean, deviation), rel=1e-6)


@pytest.mark.parametrize(
    ("mean", "deviation"),
    [(0.0, 0.1), (1.0, 0.1), (0.5, 0.5), (0.5, 0.6), (0.5, 0.0), (float("nan"), 0.1)],
    ids=["mean 0", "mean 1", "as wide as can be", "wider", "no deviation", "unknown"],
)
def test_where_there_is_no_distribution_there_is_no_fit(mean: float, deviation: float) -> None:
    assert np.isnan(beta.fit(mean, deviation)).all()


def test_mean_residual_life_is_what_is_left_of_the_mean() -> None:
    """E[X - t | X > t], integrated."""
    law = stats.beta(2.0, 3.0)
    expected = law.expect(lambda x: x - 0.4, lb=0.4) / law.sf(0.4)
    assert float(beta.mean_residual_life(0.4, 2.0, 3.0)) == pytest.approx(expected)
    assert float(beta.mean_residual_life(1.0, 2.0, 3.0)) == 0.0
