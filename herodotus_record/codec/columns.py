"""Pack columns into narrow types, view them as numpy arrays, and fill in columns that are derived from others.

Owns: the types that a column may have, `DERIVED` and the columns that replace it. Does not own: the encoding of columns
in a frame (`codec`), their meaning (`model`).
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Column, Decision, DecisionPath, Evaluation, ScoreColumn

TYPECODES: Final = "BbHhiq"  # narrowest first; only types whose width is the same on every platform
MAX_COUNTED_POINTS: Final = 1 << 16  # from best to worst total; counting by points is ten times as fast as sorting
# In place of a rank or of normalized scores that `fill_derived` computes. It is recognized by identity.
DERIVED: Final[Column] = array("B")

SMALL_COLUMN: Final = 32  # up to this many entries, a Python loop is faster than numpy


def column_from_numpy(values: NDArray[Any]) -> Column:
    """Return a one-dimensional array of integers or booleans as a column of the narrowest type that holds them."""
    if len(values) <= SMALL_COLUMN:
        return column_from_list(values.tolist())
    low, high = int(values.min()), int(values.max())
    code = narrowest_typecode(low, high)
    return array(code, values.astype(code, copy=False).tobytes())


def column_from_list(values: list[int]) -> Column:
    """Return the values as a column of the narrowest integer type that holds them.

    For up to SMALL_COLUMN values this is faster than `column_from_numpy`.
    """
    return array(narrowest_typecode(min(values), max(values)), values) if values else array("B")


def as_numpy(col: Column) -> NDArray[Any]:
    """Return the column as a read-only numpy view, without a copy."""
    view: NDArray[Any] = np.frombuffer(col, col.typecode) if len(col) else np.zeros(0, np.uint8)
    return view


def fill_derived(decision: Decision) -> Decision:
    """Return the decision with the columns that its writer omitted (DERIVED) computed from its other columns.

    Returns the same object if the decision has no such column. Otherwise, the given decision stays unchanged.
    """
    if decision.rank is not DERIVED and all(s.normalized is not DERIVED for s in decision.scores):
        return decision
    return fill_derived_in_place(replace(decision))


def fill_derived_in_place(decision: Decision) -> Decision:
    """Compute the columns that the decision's writer omitted (DERIVED), set them in the decision and return it.

    The decision is a frozen dataclass, so no other code may hold it yet. It saves the copy that `fill_derived` makes.
    """
    if decision.rank is DERIVED:
        object.__setattr__(decision, "rank", _rank(as_numpy(decision.totals), find_feasible(decision)))
    return fill_normalized_in_place(decision)


def fill_normalized_in_place(decision: Decision) -> Decision:
    """Compute omitted normalized scores as `fill_derived_in_place` does, but leave an omitted rank.

    Computing the rank takes longest.
    """
    object.__setattr__(decision, "scores", tuple([_normalized(s) for s in decision.scores]))
    return decision


def find_feasible(decision: Decision) -> NDArray[np.bool_]:
    """Return a boolean array by node slot: true where the node was evaluated and passed every filter.

    If the attempt ended in an error, no node counts as feasible.
    """
    if decision.path is DecisionPath.ERROR:
        return np.zeros(decision.slots, np.bool_)
    passed: NDArray[np.bool_] = as_numpy(decision.evaluation) == Evaluation.EVALUATED
    for f in decision.filters:
        if f.ids:
            passed &= (np.array([v.code for v in f.verdicts]) == 0).take(as_numpy(f.ids))
    return passed


def _normalized(score: ScoreColumn) -> ScoreColumn:
    if score.normalized is not DERIVED:
        return score
    return ScoreColumn(score.plugin, score.weight, score.skipped, score.raw, score.raw)


def _rank(totals: NDArray[Any], among: NDArray[np.bool_]) -> Column:
    """Return the rank of each node slot: 1 for the best total, equal ranks for equal totals, 0 for infeasible nodes.

    `among` is true for feasible nodes. If `totals` is empty, every feasible node has rank 1.
    """
    if not len(totals) or not among.any():
        return column_from_numpy(among)
    every = among.all()  # the usual case; selecting and scattering cost more than the ranking
    points = (totals if every else totals[among]).astype(np.int64)
    behind = points.max() - points
    if behind.max() < MAX_COUNTED_POINTS:
        counts = np.bincount(behind)
        ranks = (np.cumsum(counts) - counts + 1).take(behind)
    else:
        ranks = np.searchsorted(np.sort(behind), behind) + 1
    if every:
        return column_from_numpy(ranks)
    rank = np.zeros(len(among), np.int64)
    rank[among] = ranks
    return column_from_numpy(rank)


def narrowest_typecode(low: int, high: int) -> str:
    """Return the first of TYPECODES that holds all values from `low` to `high`."""
    if low >= 0 and high < 1 << 16:
        return "B" if high < 1 << 8 else "H"
    most = max(high, ~low)
    return "b" if most < 1 << 7 else "h" if most < 1 << 15 else "i" if most < 1 << 31 else "q"
