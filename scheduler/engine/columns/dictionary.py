"""A dictionary-encoded column: each distinct value is stored once, and slots hold its ID.

A filter evaluates each distinct value once and expands the results with one `take`.

Invariant: unused values are dropped, so there are at most about twice as many values as slots, also in a cluster that
scales up and down with new hostnames.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

R = TypeVar("R")
T = TypeVar("T", bound=Hashable)

Ids = NDArray[np.int32]

_SPARE = 16  # additional unused values, so that a small column is not renumbered at every change


class DictionaryColumn(Generic[T]):
    """An array of values, stored as IDs into `values`, the list of distinct values. An entry is a node or a pod.

    An entry's index is called its slot. `values[0]` is the default, which an entry has before its value is set.
    """

    def __init__(self, default: T, capacity: int) -> None:
        self.version = 0  # increases when the ID of a slot may have changed
        self.values: list[T] = [default]
        self._numbers: dict[T, int] = {default: 0}
        self._ids: Ids = np.zeros(capacity, np.int32)
        self._derived: dict[Any, tuple[int, Any]] = {}  # by function: number of values, result; shared with `rows`

    def __len__(self) -> int:
        return len(self._ids)

    def number(self, value: T) -> int | None:
        """Return the ID of a value, or None if no entry has had it."""
        return self._numbers.get(value)

    def fill(self, values: Iterable[T]) -> None:
        """Set the first entries to these values, which is faster than setting one at a time."""
        self.version += 1
        values = list(values)
        self.values = list(dict.fromkeys([*self.values, *values]))
        self._derived = {}
        self._numbers = dict(zip(self.values, range(len(self.values)), strict=True))
        self._ids[: len(values)] = np.fromiter(map(self._numbers.__getitem__, values), np.int32, len(values))

    def set(self, slot: int, value: T) -> None:
        """Set the value of the entry at the index `slot`."""
        number = self._numbers.get(value)
        if number is None:
            if len(self.values) > 2 * len(self._ids) + _SPARE:
                self.drop_unused()
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        if self._ids[slot] != number:
            self._ids[slot] = number
            self.version += 1

    def grow(self, capacity: int) -> None:
        """Extend the column to `capacity` entries; new entries have the default value."""
        self._ids = np.concatenate([self._ids, np.zeros(capacity - len(self._ids), np.int32)])

    def ids(self, slots: int) -> Ids:
        """Return the value IDs of the first `slots` entries, without a copy."""
        return self._ids[:slots]

    def rows(self, chosen: NDArray[np.intp]) -> DictionaryColumn[T]:
        """Return a read-only column of the entries at the indices `chosen` only, with the same value IDs."""
        column: DictionaryColumn[T] = DictionaryColumn.__new__(DictionaryColumn)
        column.version = self.version
        column.values, column._numbers, column._ids = self.values, self._numbers, self._ids[chosen]
        column._derived = self._derived
        return column

    def derive(self, compute: Callable[[list[T]], R]) -> R:
        """Return `compute(self.values)`, cached under `compute` until the list of values changes.

        `compute` must be the same function object in all calls.
        """
        count, result = self._derived.get(compute, (0, None))
        if count != len(self.values):
            result = compute(self.values)
            self._derived[compute] = len(self.values), result
        derived: R = result
        return derived

    def where(self, slots: int, predicate: Callable[[T], bool]) -> NDArray[np.bool_]:
        """Return the mask of those of the first `slots` entries whose value satisfies `predicate`.

        `predicate` is called once for each distinct value.
        """
        return self.expand(slots, np.fromiter(map(predicate, self.values), np.bool_, len(self.values)))

    def expand(self, slots: int, answers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the mask of the first `slots` entries; `answers` has True or False for each of `values`."""
        return answers.take(self._ids[:slots])

    def among(self, slots: int, wanted: Iterable[T]) -> NDArray[np.bool_]:
        """Return the mask of those of the first `slots` entries whose value is one of `wanted`."""
        ids = self._ids[:slots]
        numbers = [self._numbers[value] for value in wanted if value in self._numbers]
        if not numbers:
            return np.zeros(slots, np.bool_)
        if len(numbers) == 1:
            rows: NDArray[np.bool_] = ids == numbers[0]
            return rows
        answers = np.zeros(len(self.values), np.bool_)
        answers[numbers] = True
        return self.expand(slots, answers)

    def drop_unused(self) -> None:
        """Drop values that no entry has from `values`, and renumber those that remain; the default keeps ID 0."""
        used, ids = np.unique(np.concatenate([[0], self._ids]), return_inverse=True)
        self.values = [self.values[number] for number in used]
        self._derived = {}
        self._numbers = {value: number for number, value in enumerate(self.values)}
        self._ids = ids.ravel()[1:].astype(np.int32)
