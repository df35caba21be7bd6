"""Parts of a record that the last one of its template had too are not made again.

Pods come in herds. What plugins said of a pod's spec is recalled as the same objects where nothing changed
(`framework.recall`), and elsewhere differs in a few rows. So a record takes over the parts whose sources are the very
objects of the record before, and its other columns are those of the record before with these rows. That a part is the
same object tells the codec that it does not differ.

Owns: what was made of what for the last record of a template. Does not own: what parts mean (`build`).

Invariant: what is taken over equals what would be made anew; relies on traces' arrays never being changed in place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from herodotus_record.codec import column
from herodotus_record.codec.deltas import MOST_BASES
from herodotus_record.model import Column, Evaluation

MOST_CHANGED: Final = 8  # a whole column is the faster way where more than one row in so many changed

S = TypeVar("S")
T = TypeVar("T")


class Evaluated:
    """Which nodes there are and which were evaluated: an array of the trace, and the column of the record."""

    def __init__(self, evaluation: NDArray[np.uint8]) -> None:
        self.array = evaluation
        self.column: Column = column(evaluation)
        self.mask: NDArray[np.bool_] = evaluation == Evaluation.EVALUATED
        self.nodes = len(evaluation) - int(np.count_nonzero(evaluation == Evaluation.ABSENT))
        self.count = int(np.count_nonzero(self.mask))
        self._codes: NDArray[np.uint8] | None = None
        self._feasible = 0

    def feasible(self, codes: NDArray[np.uint8]) -> int:
        """How many of the evaluated nodes have the code 0."""
        if codes is not self._codes:
            self._codes, self._feasible = codes, int(np.count_nonzero(self.mask & (codes == 0)))
        return self._feasible


class Narrowed:
    """One column of the record, as narrow as it can be; after the first one, the one before with other rows."""

    def __init__(self) -> None:
        self._values: NDArray[Any] | None = None
        self._column: Column | None = None

    def of(self, values: NDArray[Any]) -> Column:
        """The column that holds these values; the same one as before where they are the same."""
        if values is not self._values or self._column is None:
            self._column = column(values) if self._column is None else self._changed(self._column, values)
            self._values = values
        return self._column

    def _changed(self, before: Column, values: NDArray[Any]) -> Column:
        if self._values is None or len(values) != len(self._values):
            return column(values)
        (rows,) = (values != self._values).nonzero()
        if not len(rows):
            return before
        if len(rows) * MOST_CHANGED > len(values):
            return column(values)
        changed = before[:]
        try:
            for row, value in zip(rows.tolist(), values[rows].tolist(), strict=True):
                changed[row] = value
        except OverflowError:  # of a wider type
            return column(values)
        return changed


class Series(Generic[S, T]):
    """What is made of each element of a sequence; of one that is the very element of last time, what was made then."""

    def __init__(self, make: Callable[[int, S], T]) -> None:
        """`make`: of an element and its position."""
        self._make = make
        self._sources: Sequence[S] = ()
        self._made: tuple[T, ...] = ()

    def of(self, sources: Sequence[S]) -> tuple[T, ...]:
        """The parts; the same tuple where all elements are those of last time."""
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


class Recent(Generic[T]):
    """Something of each of the templates that came last."""

    def __init__(self, new: Callable[[], T], most: int = MOST_BASES) -> None:
        self._new, self._most = new, most
        self._known: OrderedDict[Hashable, T] = OrderedDict()  # the one that came last at the end

    def of(self, template: Hashable) -> T:
        """What is known of it, perhaps new."""
        found = self._known.get(template)
        if found is None:
            found = self._known[template] = self._new()
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        self._known.move_to_end(template)
        return found
