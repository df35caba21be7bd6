"""Columns: made narrow, seen as numpy arrays, and those that are not said because they follow from others.

Owns: the types that a column may have, `FOLLOWS` and what stands for it. Does not own: how columns are written into a
frame (`codec`), what they mean (`model`).
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Column, Decision, Evaluation, Path, ScoreColumn

TYPECODES: Final = "BbHhiq"  # narrowest first, the ones whose width is the same on every platform
MOST_POINTS: Final = 1 << 16  # between best and worst total: counting by points is ten times as fast as sorting
# In the place of a rank, or of normalised points: they are what `complete` makes of them. Told by identity.
FOLLOWS: Final[Column] = array("B")

FEW: Final = 32  # entries that are looked at one by one sooner than numpy is asked


def column(values: NDArray[Any]) -> Column:
    """A column of the narrowest type that holds `values` (one dimension, integers or booleans)."""
    if len(values) <= FEW:
        return column_of(values.tolist())
    low, high = int(values.min()), int(values.max())
    narrow = array(typecode(low, high))
    narrow.frombytes(values.astype(narrow.typecode, copy=False).tobytes())
    return narrow


def column_of(values: list[int]) -> Column:
    """The same of a few numbers, which are looked at one by one."""
    return array(typecode(min(values), max(values)), values) if values else array("B")


def as_numpy(col: Column) -> NDArray[Any]:
    """The column as a read-only numpy view, without a copy."""
    view: NDArray[Any] = np.frombuffer(col, col.typecode) if len(col) else np.zeros(0, np.uint8)
    return view


def complete(decision: Decision) -> Decision:
    """The decision with the columns that FOLLOWS stands for; itself where there are none."""
    if decision.rank is not FOLLOWS and all(s.normalized is not FOLLOWS for s in decision.scores):
        return decision
    return filled(replace(decision))


def filled(decision: Decision) -> Decision:
    """The same of a decision that nobody else has seen yet: it is changed in place, as a copy costs as much again."""
    if decision.rank is FOLLOWS:
        object.__setattr__(decision, "rank", _rank(as_numpy(decision.totals), feasible(decision)))
    object.__setattr__(decision, "scores", tuple([_normalized(s) for s in decision.scores]))
    return decision


def feasible(decision: Decision) -> NDArray[np.bool_]:
    """Which slots' nodes were evaluated and passed every filter. After an error none counts as feasible."""
    if decision.path is Path.ERROR:
        return np.zeros(decision.slots, np.bool_)
    passed: NDArray[np.bool_] = as_numpy(decision.evaluation) == Evaluation.EVALUATED
    for f in decision.filters:
        if f.ids:
            passed &= (np.array([v.code for v in f.verdicts]) == 0).take(as_numpy(f.ids))
    return passed


def _normalized(score: ScoreColumn) -> ScoreColumn:
    if score.normalized is not FOLLOWS:
        return score
    return ScoreColumn(score.plugin, score.weight, score.skipped, score.raw, score.raw)


def _rank(totals: NDArray[Any], among: NDArray[np.bool_]) -> Column:
    """1 for the best total, equal totals alike; 0 where not feasible. Not scored: all feasible nodes are rank 1."""
    if not len(totals) or not among.any():
        return column(among)
    every = among.all()  # mostly; to pick and to put back costs more than the rest
    points = (totals if every else totals[among]).astype(np.int64)
    behind = points.max() - points
    if behind.max() < MOST_POINTS:
        counts = np.bincount(behind)
        ranks = (np.cumsum(counts) - counts + 1).take(behind)
    else:
        ranks = np.searchsorted(np.sort(behind), behind) + 1
    if every:
        return column(ranks)
    rank = np.zeros(len(among), np.int64)
    rank[among] = ranks
    return column(rank)


def typecode(low: int, high: int) -> str:
    """The narrowest of TYPECODES that holds whatever is between the two."""
    if low >= 0 and high < 1 << 16:
        return "B" if high < 1 << 8 else "H"
    most = max(high, ~low)
    return "b" if most < 1 << 7 else "h" if most < 1 << 15 else "i" if most < 1 << 31 else "q"
