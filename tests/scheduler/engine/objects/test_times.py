"""Durations as Go reads and writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.objects import times


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0s"),
        ("15s", "15s"),
        ("90s", "1m30s"),
        ("1.5h", "1h30m0s"),
        ("-1s", "-1s"),
        ("1500us", "1.5ms"),
        ("100ns", "100ns"),
        ("60s", "1m0s"),
        ("1.000001s", "1.000001s"),
        ("999ms", "999ms"),
    ],
)
def test_one_duration_has_one_form(text: str, canonical: str) -> None:
    assert times.normalize(text) == canonical


@given(st.integers(-(10**18), 10**18))
def test_written_duration_parses_to_the_same_value(ns: int) -> None:
    assert times.parse_nanoseconds(times.normalize(f"{ns}ns")) == ns
