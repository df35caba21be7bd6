"""Score arithmetic to the last digit: upstream's vectors, and plain Python integers on generated amounts."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scheduler.engine.formulas import allocation

LARGE = st.integers(-(1 << 63), (1 << 63) - 1)
# bytes of the largest machines, and what objects may say all the same
AMOUNTS = st.one_of(st.integers(0, 1 << 43), LARGE, st.sampled_from([0, -1, 1, -(1 << 63), (1 << 63) - 1]))
Ints = NDArray[np.int64]
PAIRS = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=6)
MANY = st.integers(1, 4).flatmap(  # nodes of several resources: [(allocatable, requested)] for each
    lambda resources: st.lists(
        st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=resources, max_size=resources), min_size=1, max_size=5
    )
)
SHAPES = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=5, unique_by=lambda p: p[0]
).map(sorted)


def int64(values: object) -> np.ndarray:
    return np.array(values, np.int64)


def go_div(a: int, b: int) -> int:
    """Go's integer division: towards zero."""
    quotient = abs(a) // abs(b)
    return wrapped(quotient if (a < 0) == (b < 0) else -quotient)


def wrapped(number: int) -> int:
    """Go's int64 after overflow."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def go_int64(number: float) -> int:
    """Go's conversion on amd64."""
    return int(number) if -(2.0**63) <= number < 2.0**63 else -(1 << 63)


def least(a: int, q: int) -> int:
    return 0 if a == 0 or q > a else go_div(wrapped(wrapped(a - q) * 100), a)


def most(a: int, q: int) -> int:
    return 0 if a == 0 else go_div(wrapped(min(q, a) * 100), a)


def used(a: int, q: int) -> int:
    return 100 if q > a else 0 if a == 0 else go_div(wrapped(q * 100), a)


@pytest.mark.parametrize(
    ("ours", "plain"),
    [(allocation.least_allocated, least), (allocation.most_allocated, most), (allocation.utilization, used)],
    ids=["least", "most", "utilization"],
)
@given(pairs=PAIRS)
def test_shares_of_one_resource(
    ours: Callable[[Ints, Ints], Ints], plain: Callable[[int, int], int], pairs: list[tuple[int, int]]
) -> None:
    allocatable, requested = int64([a for a, _ in pairs]), int64([q for _, q in pairs])
    assert ours(allocatable, requested).tolist() == [plain(a, q) for a, q in pairs]


def plain_shape(shape: list[tuple[int, int]], p: int) -> int:
    for i, (x, y) in enumerate(shape):
        if p <= x:
            if i == 0:
                return y
            x0, y0 = shape[i - 1]
            return y0 + go_div((y - y0) * (p - x0), x - x0)
    return shape[-1][1]


@given(SHAPES, st.lists(st.integers(-20, 120), min_size=1, max_size=9))
def test_piecewise_linear(shape: list[tuple[int, int]], at: list[int]) -> None:
    assert allocation.broken_linear(shape, int64(at)).tolist() == [plain_shape(shape, p) for p in at]


@pytest.mark.parametrize(
    ("shape", "at", "expected"),
    [
        ([(10, 1), (90, 9)], [-10, 0, 9, 10, 15, 19, 20, 89, 90, 99], [1, 1, 1, 1, 1, 1, 2, 8, 9, 9]),
        ([(0, 2), (40, 10), (100, 0)], [0, 20, 30, 40, 70, 100, 110], [2, 6, 8, 10, 5, 0, 0]),
    ],
)
def test_piecewise_linear_upstream(shape: list[tuple[int, int]], at: list[int], expected: list[int]) -> None:
    assert allocation.broken_linear(shape, int64(at)).tolist() == expected


@pytest.mark.parametrize(
    ("allocatable", "requested", "score"),
    [
        pytest.param((10**17, 10**17), (0, 0), -84, id="100T cpu and 100P memory: not -85"),
        pytest.param((0, 9 * 10**18), (0, 0), 0, id="9E of each: the cpu overflows to nothing; not -1"),
        pytest.param((-1000, 4 << 30), (-2000, 0), 0, id="8Ei cpu is -1000 milli"),
    ],
)
def test_amounts_that_no_machine_has(allocatable: tuple[int, int], requested: tuple[int, int], score: int) -> None:
    a, q = int64(allocatable)[:, None], int64(requested)[:, None]
    assert allocation.weighted_mean(allocation.least_allocated(a, q), a != 0, [1, 1]).tolist() == [score]


@given(MANY, st.data())
def test_means_over_the_resources_that_count(nodes: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    resources = len(nodes[0])
    weights = data.draw(st.lists(st.integers(1, 100), min_size=resources, max_size=resources))
    scores = [[a % 101 for a, _ in node] for node in nodes]
    counts = [[q % 2 == 0 for _, q in node] for node in nodes]

    def plain(row: list[int], of: list[bool], *, positive: bool) -> int:
        kept = [(s * w, w) for s, w, c in zip(row, weights, of, strict=True) if c and (s > 0 or not positive)]
        total = sum(w for _, w in kept)
        if not total:
            return 0
        weighed = sum(s for s, _ in kept)
        return math.floor(weighed / total + 0.5) if positive else weighed // total

    both = int64(scores).T, np.array(counts).T
    assert allocation.weighted_mean(*both, weights).tolist() == [
        plain(r, c, positive=False) for r, c in zip(scores, counts, strict=True)
    ]
    assert allocation.rounded_mean_of_positive(*both, weights).tolist() == [
        plain(r, c, positive=True) for r, c in zip(scores, counts, strict=True)
    ]


LEAST_VECTORS = [
    ((4000, 10000), (3000, 5000), 37),
    ((6000, 10000), (3000, 5000), 50),
    ((10000, 20000), (6000, 0), 70),
    ((10000, 20000), (6000, 5000), 57),
    ((10000, 20000), (6000, 10000), 45),
    ((10000, 50000), (6000, 10000), 60),
]


@pytest.mark.parametrize(("allocatable", "requested", "score"), LEAST_VECTORS)
def test_least_allocated_upstream(allocatable: tuple[int, int], requested: tuple[int, int], score: int) -> None:
    a, q = int64(allocatable)[:, None], int64(requested)[:, None]
    assert allocation.weighted_mean(allocation.least_allocated(a, q), a > 0, [1, 1]).tolist() == [score]


@pytest.mark.parametrize(
    ("allocatable", "requested", "score"), [((4000, 10000), (3000, 5000), 38), ((6000, 10000), (3000, 5000), 50)]
)
def test_requested_to_capacity_ratio_upstream(
    allocatable: tuple[int, int], requested: tuple[int, int], score: int
) -> None:
    a, q = int64(allocatable)[:, None], int64(requested)[:, None]
    points = allocation.broken_linear([(0, 100), (100, 0)], allocation.utilization(a, q))
    assert allocation.rounded_mean_of_positive(points, a > 0, [1, 1]).tolist() == [score]


@pytest.mark.parametrize(
    ("allocatable", "before", "after", "balance", "gain"),
    [
        ((4000, 10000), (0, 0), (3000, 5000), 87, 68),
        ((6000, 10000), (0, 0), (3000, 5000), 100, 75),
        ((10000, 20000), (3000, 0), (6000, 5000), 82, 73),
        ((10000, 20000), (3000, 5000), (6000, 10000), 95, 74),
        ((10000, 50000), (3000, 5000), (6000, 10000), 80, 70),
    ],
)
def test_balance_upstream(
    allocatable: tuple[int, int], before: tuple[int, int], after: tuple[int, int], balance: int, gain: int
) -> None:
    a, b, q = (int64(x)[:, None] for x in (allocatable, before, after))
    assert allocation.balance(a, q).tolist() == [balance]
    assert allocation.balance_gain(a, b, q).tolist() == [gain]


def plain_balance(node: list[tuple[int, int]]) -> int:
    """kube-scheduler's function, in its order of operations."""
    shares = [min(1.0, float(q) / float(a)) for a, q in node if a]
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        total = squares = 0.0  # not sum(), which is more exact than Go
        for share in shares:
            total += share
        mean = total / len(shares)
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return go_int64((1 - deviation) * 100.0)


@given(MANY)
def test_balance_of_any_number_of_resources(nodes: list[list[tuple[int, int]]]) -> None:
    allocatable = int64([[a for a, _ in node] for node in nodes]).T
    requested = int64([[q for _, q in node] for node in nodes]).T
    assert allocation.balance(allocatable, requested).tolist() == [plain_balance(node) for node in nodes]


def test_balance_of_more_resources_than_anyone_configures() -> None:
    node = [(0 if i % 3 else 100, i) for i in range(40)]
    allocatable, requested = int64([[a] for a, _ in node]), int64([[q] for _, q in node])
    assert allocation.balance(allocatable, requested).tolist() == [plain_balance(node)]


@given(MANY, st.integers(0, 1 << 40))
def test_gain_in_balance(nodes: list[list[tuple[int, int]]], more: int) -> None:
    allocatable = int64([[a for a, _ in node] for node in nodes]).T
    before = int64([[q for _, q in node] for node in nodes]).T
    gains = [
        wrapped(
            50 + go_div(wrapped(50 + plain_balance([(a, wrapped(q + more)) for a, q in node]) - plain_balance(node)), 2)
        )
        for node in nodes
    ]
    assert allocation.balance_gain(allocatable, before, before + more).tolist() == gains


@given(st.lists(st.tuples(st.integers(0, 10**12), st.booleans()), min_size=1), st.booleans())
def test_default_normalisation(nodes: list[tuple[int, bool]], reverse: bool) -> None:
    """The formula over the feasible nodes; what the others get does not matter."""
    raw, feasible = int64([r for r, _ in nodes]), np.array([f for _, f in nodes])
    scores = [r for r, f in nodes if f]
    top = max(scores, default=0)
    expected = [
        (100 - 100 * s // top if reverse else 100 * s // top) if top else (100 if reverse else s) for s in scores
    ]
    assert allocation.default_normalize(raw, feasible, reverse=reverse)[feasible].tolist() == expected


@pytest.mark.parametrize(
    ("raw", "reverse", "expected"),
    [
        ([0, 1, 2], True, [100, 50, 0]),
        ([0, 0], True, [100, 100]),
        ([3, 1, 2], False, [100, 33, 66]),
        ([0, 0], False, [0, 0]),
    ],
)
def test_default_normalisation_upstream(raw: list[int], reverse: bool, expected: list[int]) -> None:
    everywhere = np.ones(len(raw), np.bool_)
    assert allocation.default_normalize(int64(raw), everywhere, reverse=reverse).tolist() == expected


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1), st.integers(1, 10**9))
def test_division_towards_zero(numbers: list[int], by: int) -> None:
    assert allocation.truncated_division(int64(numbers), by).tolist() == [go_div(n, by) for n in numbers]
