"""A column of values that repeat: each distinct value is stored once, the column holds its number.

A filter asks each distinct value once and spreads the answers with one `take`.

Invariant: values that no slot holds any more are dropped in time, so there are at most about twice as many as slots,
however many came and went (the hostnames of a cluster that scales up and down).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=Hashable)

Ids = NDArray[np.int32]

_SPARE = 16  # values that may be unused on top, so that few slots are not renumbered all the time


class DictionaryColumn(Generic[T]):
    """Slots' values by number. `values[0]` is what a slot holds before it is set."""

    def __init__(self, default: T, capacity: int) -> None:
        self.version = 0  # goes up when the number of a slot may have changed
        self.values: list[T] = [default]
        self._numbers: dict[T, int] = {default: 0}
        self._ids: Ids = np.zeros(capacity, np.int32)

    def number(self, value: T) -> int | None:
        """The number of a value; None where it has none."""
        return self._numbers.get(value)

    def fill(self, values: Iterable[T]) -> None:
        """Put the values of the first slots, faster than one by one."""
        self.version += 1
        values = list(values)
        self.values = list(dict.fromkeys([*self.values, *values]))
        self._numbers = {value: number for number, value in enumerate(self.values)}
        self._ids[: len(values)] = np.fromiter(map(self._numbers.__getitem__, values), np.int32, len(values))

    def set(self, slot: int, value: T) -> None:
        """Put a slot's value."""
        number = self._numbers.get(value)
        if number is None:
            if len(self.values) > 2 * len(self._ids) + _SPARE:
                self._drop_unused()
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        if self._ids[slot] != number:
            self._ids[slot] = number
            self.version += 1

    def grow(self, capacity: int) -> None:
        """Make room for more slots."""
        self._ids = np.concatenate([self._ids, np.zeros(capacity - len(self._ids), np.int32)])

    def ids(self, slots: int) -> Ids:
        """The numbers of the first `slots` slots, without a copy."""
        return self._ids[:slots]

    def rows(self, chosen: NDArray[np.intp]) -> DictionaryColumn[T]:
        """These slots as a column of their own, with the same numbers; not to be changed."""
        column: DictionaryColumn[T] = DictionaryColumn.__new__(DictionaryColumn)
        column.version = self.version
        column.values, column._numbers, column._ids = self.values, self._numbers, self._ids[chosen]
        return column

    def where(self, slots: int, holds: Callable[[T], bool]) -> NDArray[np.bool_]:
        """Which slots' values hold, asking each distinct value once."""
        answers = np.fromiter((holds(value) for value in self.values), np.bool_, len(self.values))
        return answers.take(self._ids[:slots])

    def among(self, slots: int, wanted: Iterable[T]) -> NDArray[np.bool_]:
        """Which slots hold one of these values."""
        ids = self._ids[:slots]
        numbers = [self._numbers[value] for value in wanted if value in self._numbers]
        if len(numbers) == 1:
            found: NDArray[np.bool_] = ids == numbers[0]
            return found
        answers = np.zeros(len(self.values), np.bool_)
        answers[numbers] = True
        return answers.take(ids)

    def _drop_unused(self) -> None:
        """Number the values that some slot holds anew; the default stays number 0."""
        used, ids = np.unique(np.concatenate([[0], self._ids]), return_inverse=True)
        self.values = [self.values[number] for number in used]
        self._numbers = {value: number for number, value in enumerate(self.values)}
        self._ids = ids.ravel()[1:].astype(np.int32)
