"""Parts of a record that an earlier one had too are not made again.

What plugins said of a pod's spec is recalled as the same objects where nothing changed (`framework.recall`), so most
columns of most records have been made before. That they are the same objects tells the codec that they do not differ.

Owns: which parts are known, by the identity of what they were made of. Does not own: their meaning (`build`).

Invariant: relies on traces' arrays never being changed in place. Holds none of them alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from operator import is_
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from herodotus_record.codec import column
from herodotus_record.model import Column, Evaluation

MOST_EVALUATIONS: Final = 16  # that are told apart: all nodes in the usual case, others with node affinity and sampling
T = TypeVar("T")


class Evaluated:
    """Which nodes were evaluated: an array of the trace, and the column of the record."""

    def __init__(self, evaluation: NDArray[np.uint8]) -> None:
        self.array = evaluation
        self.column: Column = column(evaluation)
        self.mask: NDArray[np.bool_] = evaluation == Evaluation.EVALUATED


class Narrowed:
    """What was made of which object, as long as that lives."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], tuple[object, ...], Any]] = {}
        self._evaluated: list[Evaluated] = []  # the one that came last at the end

    def of(self, source: Any, make: Callable[[], T], *also: object) -> T:
        """What `make` made of this very object, and of `also`."""
        number = id(source)
        known = self._known.get(number)
        if known is not None and known[0]() is source and all(map(is_, known[1], also)):
            made: T = known[2]
            return made
        made = make()
        self._known[number] = (weakref.ref(source, lambda _: self._forget(number)), also, made)
        return made

    def evaluated(self, evaluation: NDArray[np.uint8]) -> Evaluated:
        """The same object for equal arrays."""
        for known in reversed(self._evaluated):
            if np.array_equal(known.array, evaluation):
                return known
        self._evaluated = [*self._evaluated[1 - MOST_EVALUATIONS :], Evaluated(evaluation.copy())]
        return self._evaluated[-1]

    def __len__(self) -> int:
        return len(self._known)

    def _forget(self, number: int) -> None:
        known = self._known.get(number)
        if known is not None and known[0]() is None:  # not where another object has taken its place
            del self._known[number]
