"""Columns as records hold them: those of arrays that an earlier record had too are not made again.

What plugins said of a pod's spec is recalled as the same array where nothing changed (`framework.recall`), so most
columns of most records have been narrowed before.

Invariant: relies on traces' arrays never being changed in place. Holds no array alive.
"""

from __future__ import annotations

import weakref
from typing import Any

from numpy.typing import NDArray

from herodotus_record.codec import column
from herodotus_record.model import Column


class Narrowed:
    """Array -> column, as long as the array lives."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Column]] = {}

    def __call__(self, values: NDArray[Any]) -> Column:
        """As `codec.column`."""
        number = id(values)
        known = self._known.get(number)
        if known is not None and known[0]() is values:
            return known[1]
        narrow = column(values)
        self._known[number] = (weakref.ref(values, lambda _: self._forget(number)), narrow)
        return narrow

    def __len__(self) -> int:
        return len(self._known)

    def _forget(self, number: int) -> None:
        known = self._known.get(number)
        if known is not None and known[0]() is None:  # not where another array has taken its place
            del self._known[number]
