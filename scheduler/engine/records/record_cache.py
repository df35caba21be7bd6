"""Reuses the parts of the last record of the same group of decisions, mostly those of one equivalence class.

Pods of one template form an equivalence class. Where nothing changed, the equivalence cache returns the same objects
for them as before; elsewhere a few rows differ. So a record reuses each part whose source is the same object as in the
record before, and builds its other columns by changing those rows. The codec detects an unchanged part by its identity.

Invariant: a reused part equals a part built anew. This requires that arrays of traces are never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from herodotus_record.codec import column_from_numpy
from herodotus_record.model import Column, Evaluation
from scheduler.engine.framework.equivalence_cache import MIN_SLOTS_PER_CHANGED_ROW

S = TypeVar("S")
T = TypeVar("T")


class EvaluationParts:
    """Which nodes existed and were evaluated in one cycle: the trace's array, the record's column, mask and counts."""

    def __init__(self, evaluation: NDArray[np.uint8]) -> None:
        self.array = evaluation
        self.column: Column = column_from_numpy(evaluation)
        self.mask: NDArray[np.bool_] = evaluation == Evaluation.EVALUATED
        self.nodes = len(evaluation) - int(np.count_nonzero(evaluation == Evaluation.ABSENT))
        self.count = int(np.count_nonzero(self.mask))
        self._codes: NDArray[np.uint8] | None = None
        self._feasible = 0

    def feasible(self, codes: NDArray[np.uint8]) -> int:
        """Return the number of evaluated nodes whose status code in `codes` is 0 (Success)."""
        if codes is not self._codes:
            self._codes, self._feasible = codes, int(np.count_nonzero(self.mask & (codes == 0)))
        return self._feasible


class CachedRecordColumn:
    """One column of a record, in the narrowest integer type.

    It is built from the column of the previous record by changing some rows.
    """

    def __init__(self) -> None:
        self._values: NDArray[Any] | None = None
        self._column: Column | None = None

    def update(self, values: NDArray[Any]) -> Column:
        """Return the column of these values; the same object as in the last call if the values are equal."""
        if values is not self._values or self._column is None:
            self._column = column_from_numpy(values) if self._column is None else self._changed(self._column, values)
            self._values = values
        return self._column

    def _changed(self, before: Column, values: NDArray[Any]) -> Column:
        if self._values is None or len(values) != len(self._values):
            return column_from_numpy(values)
        differs = values != self._values
        count = np.count_nonzero(differs)
        if not count:
            return before
        if count * MIN_SLOTS_PER_CHANGED_ROW > len(values):
            return column_from_numpy(values)
        (rows,) = differs.nonzero()
        changed = before[:]
        try:
            for row, value in zip(rows.tolist(), values[rows].tolist(), strict=True):
                changed[row] = value
        except OverflowError:  # the values need a wider type
            return column_from_numpy(values)
        return changed


class RecordPartCache(Generic[S, T]):
    """A cache of record parts, such as filter columns, each built from one element of a sequence.

    A part is rebuilt only if its element is another object than in the last call.
    """

    def __init__(self, make: Callable[[int, S], T]) -> None:
        """Create an empty cache. `make` builds the part of an element from its position and the element."""
        self._make = make
        self._sources: Sequence[S] = ()
        self._made: tuple[T, ...] = ()

    def update(self, sources: Sequence[S]) -> tuple[T, ...]:
        """Return one record part for each element, in order.

        If all elements are the same objects as in the last call, the result is the same tuple.
        """
        before, made = self._sources, self._made
        if len(sources) != len(before):
            self._made = tuple([self._make(i, source) for i, source in enumerate(sources)])
        elif changed := [i for i, source in enumerate(sources) if source is not before[i]]:
            parts = list(made)
            for i in changed:
                parts[i] = self._make(i, sources[i])
            self._made = tuple(parts)
        self._sources = tuple(sources)
        return self._made
