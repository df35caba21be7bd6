"""Quantities are exact, in every notation, and rounded up only at the end."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.objects import quantity

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
    if suffix in BINARY:  # what is larger than an int64 is cut to it
        nanos = min(nanos, quantity.INT64_MAX * 10**9)
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
def test_common_quantities_parse(text: str | float, cpu_milli: int, whole: int) -> None:
    nanos = quantity.parse(text)
    assert (quantity.milli(nanos), quantity.value(nanos)) == (cpu_milli, whole)


@pytest.mark.parametrize(
    "text", ["", "-", ".", "1K", "1ki", "1kk", "1e", "1e3Ki", "1 Gi", "0x10", "1,5", "Inf", "NaN", "١"]
)
def test_invalid_quantity_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)


MAX = (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "whole", "cpu_milli"),
    [
        # an int64 with a scale: what overflows wraps around, or becomes 0 where Go multiplies by ten in a loop
        pytest.param("1e99", 0, 0, id="exponent"),
        pytest.param("9E", 9 * 10**18, 0, id="whole units fit, thousandths do not"),
        pytest.param("10E", 0, 0, id="whole units overflow too"),
        pytest.param("9223372036854775k", 9223372036854775000, -808000, id="times a million at once wraps"),
        pytest.param("9223372036854776k", -MAX - 1 + 192, 192000, id="times a thousand at once wraps"),
        pytest.param("1e4294967296", 1, 1000, id="an exponent is an int32, which wraps around"),
        # a decimal: its low 64 bits, after division
        pytest.param("9223372036854775807", MAX, -1000, id="the largest int64"),
        pytest.param("9223372036854775808", -MAX - 1, 0, id="the next one"),
        pytest.param("18446744073709551617", 1, 1000, id="two to the 64th and one"),
        pytest.param("20000000000000000000m", 2 * 10**16, 1553255926290448384, id="many digits in thousandths"),
        pytest.param("12345678901234567890123", 4807115922877859019, -7484280360333952776, id="23 digits"),
        pytest.param("1" + "0" * 5000, 0, 0, id="5001 digits, the low bits are 0"),
        pytest.param("9" * 5000, -1, -1000, id="5000 digits"),
        # a binary suffix: cut to an int64, whose thousandths wrap around
        pytest.param("7Ei", 7 << 60, -(1 << 63), id="seven exbibytes"),
        pytest.param("8Ei", MAX, -1000, id="eight"),
        pytest.param("900000Ei", MAX, -1000, id="more than eight"),
        pytest.param("7.5Ei", 8646911284551352320, -4611686018427387904, id="with a fraction"),
        # what fits is the same in every form
        pytest.param("9000T", 9 * 10**15, 9 * 10**18, id="the largest that fits in thousandths"),
        pytest.param("0", 0, 0, id="nothing"),
    ],
)
def test_amounts_beyond_int64_follow_kube_scheduler(text: str, whole: int, cpu_milli: int) -> None:
    assert quantity.scaled_value(text, quantity.WHOLE) == whole
    assert quantity.scaled_value(text, quantity.MILLI) == cpu_milli


@given(
    whole=st.text("0123456789", min_size=1, max_size=24),
    fraction=st.sampled_from(["", ".5", ".000000001"]),
    suffix=st.sampled_from([*SUFFIXES, *BINARY, "e5", "E-3"]),
    scale=st.sampled_from([quantity.WHOLE, quantity.MILLI]),
)
def test_both_ways_to_compute_an_amount_agree_where_it_fits(whole: str, fraction: str, suffix: str, scale: int) -> None:
    text = f"{whole}{fraction}{suffix}"
    exact = quantity.value(quantity.parse(text)) if scale == quantity.WHOLE else quantity.milli(quantity.parse(text))
    found = quantity.Quantity.parse(text).scaled_value(scale)
    assert -(1 << 63) <= found <= MAX
    if quantity.fits_int64(exact):
        assert found == exact


@pytest.mark.parametrize(
    ("amounts", "whole"),
    [
        pytest.param(("9E", "9E"), 0, id="18 * 10^18 is held, and overflows"),
        pytest.param(("9E", "9E", "1"), 18 * 10**18 + 1 - (1 << 64), id="one more makes it a decimal, which wraps"),
        pytest.param(("1e99", "1"), 1, id="a power of ten has no low bits"),
        pytest.param(("1e99", "0"), 0, id="nothing is added"),
        pytest.param(("8Ei", "8Ei"), -2, id="twice the largest int64"),
        pytest.param(("9E", "100m"), 9 * 10**18 + 1, id="rounded up where it fits"),
    ],
)
def test_sums_change_their_form_as_upstream(amounts: tuple[str, ...], whole: int) -> None:
    first, *others = map(quantity.Quantity.parse, amounts)
    total = first
    for other in others:
        total += other
    assert total.scaled_value(quantity.WHOLE) == whole


def test_an_absurd_exponent_costs_no_time() -> None:
    assert quantity.parse("1e999999999") > 1 << 63
    assert quantity.parse("1e-999999999") == 1
    assert quantity.parse("0e999999999") == quantity.parse("0e-999999999") == 0
