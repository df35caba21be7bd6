"""Parts of records that are not made again, and forgotten with what they were made of."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from herodotus_record.codec import column
from herodotus_record.model import Evaluation
from scheduler.recorder.narrowed import MOST_EVALUATIONS, Narrowed


def test_a_part_is_made_once_of_an_object_and_what_else_it_is_made_of() -> None:
    known, values, one, other = Narrowed(), np.arange(300), object(), object()
    first = known.of(values, lambda: column(values), one)
    assert known.of(values, lambda: column(values), one) is first
    assert known.of(values, lambda: column(values), other) is not first
    equal = values.copy()
    assert known.of(equal, lambda: column(equal), one) is not first


def test_it_goes_with_the_object_and_never_stands_for_another() -> None:
    """However often an array's place in memory is taken by the next."""
    known = Narrowed()
    for i in range(200):
        values = np.full(40, i)
        assert known.of(values, values.tolist) == [i] * 40
        del values
    gc.collect()
    assert len(known) <= 1


def test_equal_evaluations_are_one() -> None:
    known, array = Narrowed(), np.array([Evaluation.EVALUATED, Evaluation.ABSENT], np.uint8)
    first = known.evaluated(array)
    assert known.evaluated(array.copy()) is first
    assert (first.column.tolist(), first.mask.tolist()) == ([0, 1], [True, False])
    array[:] = Evaluation.NOT_SAMPLED  # a trace's array may be changed, what was kept of it is not
    assert first.array.tolist() == [0, 1]


@pytest.mark.parametrize("others", [MOST_EVALUATIONS - 1, MOST_EVALUATIONS], ids=["still known", "forgotten"])
def test_few_evaluations_are_known(others: int) -> None:
    known = Narrowed()
    first = known.evaluated(np.zeros(100, np.uint8))
    for i in range(others):
        known.evaluated(np.where(np.arange(100) == i, 3, 0).astype(np.uint8))
    assert (known.evaluated(np.zeros(100, np.uint8)) is first) == (others < MOST_EVALUATIONS)
