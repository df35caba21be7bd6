"""Compiling and evaluating any text ends soon, with an answer or with an error of the package."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cel import CelDevice, CelError, CelRuntimeError, compile_selector
from scheduler.engine.cel.selector import MAX_LENGTH, _selectors
from tests.support.examples import examples

LIMIT_S = 20.0  # the cost limit allows a million steps, which take seconds where the machine is busy
DEVICE = CelDevice("d", {"s": {"string": "a" * 64}, "i": {"int": (1 << 63) - 1}}, {"c": {"value": "1"}})
WORDS = """
device device.attributes["d"].s device.attributes["d"].i device.capacity["d"].c .attributes ["d"] .driver true false
null 0 1 -1 9223372036854775807 18446744073709551615u 1.5 1e308 'a' "é"
b'x' r'\\d' ( ) [ ] { } . , : ? && || ! == != < + -
* / % in x .all( .exists( .map( .filter( has( size( int( string( quantity( semver( duration( timestamp( dyn( .matches(
.split( .join( .format( .replace( .find( cel.bind( optional.of( .orValue( .? [? lists.range( .flatten( .sort( ip( cidr(
url( ' " \\ ` //
"""
ALL_WORDS = [*WORDS.split(), "\n", "\x00", "\ud83d"]


def run(expression: str) -> None:
    began = time.monotonic()
    with suppress(CelError, CelRuntimeError):
        compile_selector(expression).evaluate(DEVICE)
    assert time.monotonic() - began < LIMIT_S


@given(st.text(max_size=200))
@settings(max_examples=examples(300), deadline=None)
def test_any_text(expression: str) -> None:
    run(expression)


@given(st.lists(st.sampled_from(ALL_WORDS), max_size=40).map(" ".join))
@settings(max_examples=examples(600), deadline=None)
def test_any_sequence_of_words(expression: str) -> None:
    run(expression)


@given(
    st.sampled_from(
        ("(", "[", "{1: ", "!", "-", "a.", "f(", "[1].all(x, ", "cel.bind(x, 1, ", "true ? ", "1 + ", "'a'.")
    ),
    st.integers(1, 3000),
    st.sampled_from(("", "1", "true", "x")),
    st.sampled_from(("", ")", "]", "}", " : 1")),
)
@settings(max_examples=examples(200), deadline=None)
def test_deep_nesting(opening: str, depth: int, middle: str, closing: str) -> None:
    run((opening * depth + middle + closing * depth)[:MAX_LENGTH])


@pytest.mark.parametrize(
    "expression",
    [
        "1" * 10_000 + " == 1",
        "0x" + "f" * 10_000 + " == 1",
        "1e" + "9" * 5_000 + " > 1.0",
        "1." + "9" * 5_000 + " > 1.0",
        f'int("{"9" * 10_000}") == 1',
        f'double("{"9" * 10_000}") > 1.0',
        f'quantity("{"9" * 10_000}").isInteger()',
        f'quantity("1e{"9" * 5_000}").isInteger()',
        'quantity("1e2147483647").asInteger() == 1',
        'quantity("1e-2147483647").asApproximateFloat() == 1.0',
        f'semver("{"9" * 10_000}.0.0").major() == 1',
        f'duration("{"9" * 9_000}h") == duration("1s")',
        f'timestamp("{"9" * 9_000}") == timestamp(0)',
        f'"{"a" * 9_000}".matches("(a*)*b")',
        f'"{"a" * 2_000}".matches("{"(a|a)*" * 20}b")',
        "'%.999999999f'.format([1.5]) == ''",
        "lists.range(9223372036854775807).size() == 1",
        "lists.range(device.attributes['d'].i).size() == 1",
        "cel.bind(a, 1 / 0 == 1 || 1 / 0 == 1, "
        + "".join(
            f"cel.bind(x{i}, {'a' if not i else f'x{i - 1}'} || {'a' if not i else f'x{i - 1}'}, " for i in range(100)
        )
        + "x99"
        + ")" * 101,
        "[1].map(x, __result__).size() == 1",
        '{b"a": 1}.size() == 1',
        "[1].map(x, __result__) == [1].map(x, __result__)",
        "dyn([" * 200 + "1" + "])" * 200 + " == dyn([1])",
        "lists.range(200).all(x, lists.range(200).all(y, x * y >= 0))",
        f'quantity("{"9" * 9_000}x").isInteger()',
        f'isQuantity("{"0" * 9_000}m!")',
        f'double("{"9" * 9_000}x") == 1.0',
        f'double("0x{"f" * 9_000}") == 1.0',
        f'int("{"0" * 5_000}1") == 1',
        f'uint("{"0" * 5_000}1") == 1u',
        f'timestamp(0).getHours("+{"0" * 5_000}:00") == 0',
        f'"%.{"0" * 5_000}1f".format([1.0]) == "1.0"',
        'timestamp(0).getMilliseconds("99999999999:00") == 0',
        'string(timestamp("0001-01-01T00:30:00-01:00") - duration("1h")) == ""',
        '"%s".format([timestamp("9999-12-31T23:30:00+24:00") + duration("24h")]) == ""',
    ],
    ids=lambda expression: expression[:40],
)
def test_huge_literals_and_results(expression: str) -> None:
    run(expression)


@pytest.mark.parametrize("sign", ["!", "!!", "--", "!!!"])
@pytest.mark.parametrize(
    "after", ["-x", "--1", '-double("inf")', '-"\\', "-true", "-1u", "-'a'", "-b'a'", "-", "-)", "- ", "-\x00"]
)
def test_no_number_after_a_minus_is_an_error_of_the_expression(sign: str, after: str) -> None:
    with pytest.raises(CelError):
        compile_selector(sign + after)


def test_lone_surrogates_are_read_as_the_replacement_character() -> None:
    device = CelDevice("d", {"s": {"string": "a\ud800"}, "p": {"string": "\ud83d\ude00"}}, {})
    attributes = 'device.attributes["d"]'
    assert compile_selector(f'{attributes}.s == "a\ufffd" && {attributes}.s == "a\ud801"').matches(device)
    assert compile_selector(f'{attributes}.p == "\U0001f600" && {attributes}.s.matches("a.")').matches(device)
    assert compile_selector(f"format.dns1123Label().validate({attributes}.s).hasValue()").matches(device)


def test_compiled_expressions_that_are_kept_are_bounded() -> None:
    for number in range(100):
        assert compile_selector(f"'{'a' * 9000}' != '{number}'").matches(DEVICE)
    assert sum(len(selector.expression) for selector in map(_selectors.peek, _selectors) if selector) <= 512 * 1024


def test_a_longer_expression_is_refused_without_reading_it() -> None:
    with pytest.raises(CelError, match=r"^Too long: may not be more than 10240 bytes$"):
        compile_selector("é" * 5121)
