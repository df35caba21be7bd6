"""Verdict columns: what is changed in a few rows says the same as before in all others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.framework.verdicts import Verdicts, unschedulable
from scheduler.engine.plugins.topology import FirstRejections

SAID = tuple(unschedulable(Reason("text", {"text": text})) for text in "abcd")
SLOTS = 6

verdicts = st.sampled_from((SUCCESS, *SAID))
# a table may hold a verdict twice: whoever made the column need not have looked
tables = st.lists(st.sampled_from(SAID), max_size=5).map(lambda said: (SUCCESS, *said))


@st.composite
def columns(draw: st.DrawFn, slots: int = SLOTS) -> Verdicts:
    table = draw(tables)
    if draw(st.booleans()) and len(table) == 1:
        return Verdicts()
    return Verdicts(table, np.array(draw(st.lists(st.integers(0, len(table) - 1), min_size=slots, max_size=slots))))


def said(column: Verdicts, slots: int = SLOTS) -> list[Verdict]:
    return [column.verdict_at(slot) for slot in range(slots)]


@given(columns(), st.dictionaries(st.integers(0, SLOTS - 1), verdicts))
def test_replaced_changes_those_slots_alone(column: Verdicts, changes: dict[int, Verdict]) -> None:
    expected = [changes.get(slot, verdict) for slot, verdict in enumerate(said(column))]
    replaced = column.with_verdicts(changes, SLOTS)
    assert said(replaced) == expected
    assert replaced.codes(SLOTS).tolist() == [v.code for v in expected]


@given(columns(), st.data())
def test_patched_changes_those_rows_alone(column: Verdicts, data: st.DataObject) -> None:
    rows = sorted(data.draw(st.sets(st.integers(0, SLOTS - 1), min_size=1)))
    part = data.draw(columns(len(rows)))
    expected = said(column)
    for row, verdict in zip(rows, said(part, len(rows)), strict=True):
        expected[row] = verdict
    patched = column.with_rows(np.array(rows), part, SLOTS)
    assert said(patched) == expected
    assert patched.codes(SLOTS).tolist() == [v.code for v in expected]


@pytest.mark.parametrize("twice", [False, True], ids=["other words", "the same words"])
def test_a_slot_keeps_its_first_rejection(twice: bool) -> None:
    a, b = SAID[0], SAID[0] if twice else SAID[1]
    column = FirstRejections(3)
    column.reject(np.array([True, False, False]), a)
    column.reject(np.array([True, True, False]), b)
    made = column.verdicts()
    assert said(made, 3) == [a, b, SUCCESS]
    assert len(set(made.table)) == len(made.table)
