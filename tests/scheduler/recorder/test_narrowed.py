"""Columns that are not made again, and forgotten with their arrays."""

from __future__ import annotations

import gc

import numpy as np

from scheduler.recorder.narrowed import Narrowed


def test_an_array_is_narrowed_once() -> None:
    narrowed, values = Narrowed(), np.arange(300)
    first = narrowed(values)
    assert (first.typecode, first.tolist()) == ("H", list(range(300)))
    assert narrowed(values) is first
    assert narrowed(values.copy()) is not first


def test_it_goes_with_the_array_and_never_stands_for_another() -> None:
    """However often an array's place in memory is taken by the next."""
    narrowed = Narrowed()
    for i in range(200):
        assert narrowed(np.full(40, i)).tolist() == [i] * 40
    gc.collect()
    assert len(narrowed) <= 1
