"""Quantities are exact, in every notation, and rounded up only at the end."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects import quantity

SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {s: 10 * (i + 1) for i, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}

digits = st.text("0123456789", max_size=12)
scales = st.one_of(
    st.sampled_from([(s, Fraction(10) ** e) for s, e in SUFFIXES.items()]),
    st.sampled_from([(s, Fraction(2) ** e) for s, e in BINARY.items()]),
    st.builds(
        lambda sign, e, n: (f"{e}{sign}{n}", _power(sign, n)),
        st.sampled_from(["", "+", "-"]),
        *[st.sampled_from("eE"), st.integers(0, 20)],
    ),
)


def _power(sign: str, exponent: int) -> Fraction:
    return Fraction(10) ** (-exponent if sign == "-" else exponent)


@given(sign=st.sampled_from(["", "+", "-"]), whole=digits, fraction=st.none() | digits, scale=scales)
def test_a_quantity_is_its_number_times_its_suffix(
    sign: str, whole: str, fraction: str | None, scale: tuple[str, Fraction]
) -> None:
    if not whole and not fraction:
        whole = "0"
    suffix, factor = scale
    text = f"{sign}{whole}{'' if fraction is None else '.' + fraction}{suffix}"
    number = Fraction(f"{whole or 0}.{fraction or 0}") * factor
    nanos = ceil(number * 10**9)  # finer than 10^-9 goes away from zero
    assert quantity.parse(text) == (-nanos if sign == "-" else nanos)


@given(st.integers(0, 10**30))
def test_milli_and_value_round_up(nanos: int) -> None:
    assert quantity.milli(nanos) == ceil(Fraction(nanos, 10**6))
    assert quantity.value(nanos) == ceil(Fraction(nanos, 10**9))


@pytest.mark.parametrize(
    ("text", "cpu_milli", "whole"),
    [
        ("0.5m", 1, 1),
        ("100m", 100, 1),
        ("1500m", 1500, 2),
        ("0.5", 500, 1),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("1E", 10**21, 10**18),
        ("1Ei", 1000 << 60, 1 << 60),
        ("1.5Gi", 1536000 << 20, 1536 << 20),
        ("128974848", 128974848000, 128974848),
        ("129e6", 129 * 10**9, 129 * 10**6),
        ("123Mi", 123000 << 20, 123 << 20),
        ("1u", 1, 1),
        (2, 2000, 2),
        (0.1, 100, 1),
        (1e21, 10**24, 10**21),
    ],
)
def test_what_people_write(text: str | float, cpu_milli: int, whole: int) -> None:
    nanos = quantity.parse(text)
    assert (quantity.milli(nanos), quantity.value(nanos)) == (cpu_milli, whole)


@pytest.mark.parametrize(
    "text", ["", "-", ".", "1K", "1ki", "1kk", "1e", "1e3Ki", "1 Gi", "0x10", "1,5", "Inf", "NaN", "١"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)


def test_an_absurd_exponent_costs_no_time() -> None:
    assert quantity.parse("1e999999999") > 1 << 63
    assert quantity.parse("1e-999999999") == 1
    assert quantity.parse("0e999999999") == quantity.parse("0e-999999999") == 0
