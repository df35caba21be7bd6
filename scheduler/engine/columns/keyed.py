"""Columns of labels or annotations: for each key that is read, a column with the value of each node or pod.

Owns: the columns of keys, and how many entries have each key. Does not own: which entry is which node or pod.

Invariant: there is a column only for a key that some entry has. Users choose the keys in selectors; all keys that no
entry has share one column, and the number of other columns has a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.lru import Lru
from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.objects.selectors import InvalidSelectorError, parse_int64
from scheduler.engine.objects.types import Requirement

Mask = NDArray[np.bool_]

MAX_KEYS: Final = 256  # keys with a column of 4 bytes an entry: 5 MB at 5,000 nodes; few clusters use as many labels

_NOTHING: Final[Mapping[str, str]] = {}


class KeyedColumns:
    """The values of labels or annotations by key, each a column with an entry for each node slot or pod row."""

    def __init__(self, capacity: int, maps: Iterable[Mapping[str, str]] = ()) -> None:
        """Create columns with room for `capacity` entries; `maps` holds the labels of the first entries."""
        self._capacity = capacity
        self._maps = [*maps]  # of each entry, as given: they must not change
        self._entries_with = Counter(chain.from_iterable(self._maps))
        self._columns: Lru[str, DictionaryColumn[str | None]] = Lru(MAX_KEYS)
        self._absent: DictionaryColumn[str | None] = DictionaryColumn(None, capacity)

    def __len__(self) -> int:
        """Return the number of keys that have a column."""
        return len(self._columns)

    def __contains__(self, key: str) -> bool:
        """Return whether some entry has the key."""
        return key in self._entries_with

    @property
    def keys(self) -> Set[str]:
        """The keys that some entry has."""
        return self._entries_with.keys()

    def column(self, key: str) -> DictionaryColumn[str | None]:
        """Return each entry's value of `key`, None for an entry without it; callers must not change it.

        The column is built at the first call and then kept current until it is dropped.
        """
        if key not in self._entries_with:
            return self._absent
        column = self._columns.get(key)
        if column is None:
            column = DictionaryColumn(None, self._capacity)
            column.fill(values.get(key) for values in self._maps)
            if len(self._columns) >= MAX_KEYS:
                self._drop(next(iter(self._columns)))
            self._columns.put(key, column)
        return column

    def set(self, entry: int, values: Mapping[str, str] | None) -> bool:
        """Replace the values of the entry; None removes them all. Return whether one of them changed."""
        if entry >= len(self._maps):
            self._maps.extend([_NOTHING] * (entry + 1 - len(self._maps)))
        old, new = self._maps[entry], values or _NOTHING
        if old == new:
            return False
        self._maps[entry] = new
        for key, value in new.items():
            before = old.get(key)
            if before is None:
                self._entries_with[key] += 1
            if before != value:
                self._set_value(key, entry, value)
        for key in old:
            if key not in new:
                self._remove(key, entry)
        return True

    def grow(self, capacity: int) -> None:
        """Extend the columns to `capacity` entries."""
        self._capacity = capacity
        self._absent.grow(capacity)
        for column in filter(None, map(self._columns.peek, self._columns)):
            column.grow(capacity)

    def _set_value(self, key: str, entry: int, value: str | None) -> None:
        column = self._columns.peek(key)
        if column is not None:
            column.set(entry, value)

    def _remove(self, key: str, entry: int) -> None:
        self._entries_with[key] -= 1
        if self._entries_with[key]:
            self._set_value(key, entry, None)
        else:
            del self._entries_with[key]
            self._drop(key)

    def _drop(self, key: str) -> None:
        """Drop the column of a key. Its version changes, so that readers that still hold it see that it is outdated."""
        column = self._columns.peek(key)
        if column is not None:
            column.version += 1
            self._columns.discard(key)


def match_node_requirement(column: DictionaryColumn[str | None], slots: int, requirement: Requirement) -> Mask:
    """Return the mask of the first `slots` nodes whose value of a label satisfies a node selector's requirement on it.

    Raise InvalidSelectorError for an unknown operator.
    """
    if requirement.operator not in ("Gt", "Lt"):
        return match_requirement(column, slots, requirement)
    bound = parse_int64((requirement.values or [""])[0])
    if bound is None:
        return np.zeros(slots, np.bool_)
    numbers, is_number = column.derive(_parse_numbers)
    beyond = numbers > bound if requirement.operator == "Gt" else numbers < bound
    return column.expand(slots, beyond & is_number)


def match_requirement(column: DictionaryColumn[str | None], slots: int, requirement: Requirement) -> Mask:
    """Return the mask of the first `slots` entries whose value of a label satisfies a label selector's requirement.

    Raise InvalidSelectorError for an unknown operator.
    """
    match requirement.operator:
        case "In":
            return column.among(slots, requirement.values or ())
        case "NotIn":
            return ~column.among(slots, requirement.values or ())
        case "Exists":
            return ~column.among(slots, (None,))
        case "DoesNotExist":
            return column.among(slots, (None,))
        case _:
            raise InvalidSelectorError(f'"{requirement.operator}" is not a valid label selector operator')


def _parse_numbers(values: list[str | None]) -> tuple[NDArray[np.int64], Mask]:
    """Return the values as int64, 0 for a value that is no such number, and the mask of those that are numbers."""
    numbers = [parse_int64(value) for value in values]
    is_number = np.array([number is not None for number in numbers], np.bool_)
    return np.array([number or 0 for number in numbers], np.int64), is_number
