"""How a node column is declared: its meaning, its default and, where a Node object has it, the value of one node.

`NodeColumns` declares its columns as class attributes. Filling, clearing, growth, row subsets, copies, the comparison
of `--verify-cache` and the tests derive from the declaration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.objects.types import Node

Values = TypeVar("Values")
Value = TypeVar("Value", bound=Hashable)
Scalar = TypeVar("Scalar", bound=np.generic)


class NodeColumn(ABC, Generic[Values]):
    """A declared column: an attribute of `NodeColumns` with one value for each node slot.

    The values are stored in the `__dict__` of the owner, where Python finds them before this descriptor. Only a row
    subset has none at first: the descriptor then selects them from the full columns, at the first read.
    """

    name: str

    def __init__(self, meaning: str, default: Any, read: Callable[[Node], Any] | None) -> None:
        """Declare a column. `read` returns the value of a node; None if `NodeColumns` sets the values itself.

        A slot without a node has the value `default`. `meaning` is the column's documentation.
        """
        self.__doc__ = meaning
        self.default = default
        self.read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, subset: None, owner: type) -> NodeColumn[Values]: ...

    @overload
    def __get__(self, subset: object, owner: type) -> Values: ...

    def __get__(self, subset: Any, owner: type) -> Values | NodeColumn[Values]:
        if subset is None:
            return self
        values: Values = self.select(getattr(subset.full, self.name), subset.slot_numbers)
        subset.__dict__[self.name] = values
        return values

    @abstractmethod
    def fit(self, columns: Any, slots: int, capacity: int) -> None:
        """Create this column's values in `columns`, or extend them to `slots` slots with room for `capacity`."""

    @abstractmethod
    def set(self, values: Values, slot: int, value: Any) -> None:
        """Set the value of the node in `slot`."""

    @abstractmethod
    def select(self, values: Values, chosen: NDArray[np.intp]) -> Values:
        """Return the values of the slots `chosen`, in this order."""

    @abstractmethod
    def to_list(self, values: Values, slots: int) -> list[Any]:
        """Return the value of each of the first `slots` slots, for comparisons."""


class ArrayColumn(NodeColumn[NDArray[Scalar]]):
    """A declared column of numbers or booleans, read as an array with one entry for each slot."""

    def __init__(
        self, dtype: type[Scalar], meaning: str, *, read: Callable[[Node], Any] | None = None, default: Any = 0
    ) -> None:
        super().__init__(meaning, default, read)
        self._dtype = dtype

    def fit(self, columns: Any, slots: int, capacity: int) -> None:
        whole = columns.__dict__.get(f"_all_{self.name}")
        if whole is None or len(whole) < capacity:
            more = np.full(capacity, self.default, self._dtype)
            if whole is not None:
                more[: len(whole)] = whole
            whole = columns.__dict__[f"_all_{self.name}"] = more
        columns.__dict__[self.name] = whole[:slots]

    def set(self, values: NDArray[Scalar], slot: int, value: Any) -> None:
        values[slot] = value

    def select(self, values: NDArray[Scalar], chosen: NDArray[np.intp]) -> NDArray[Scalar]:
        return values[chosen]

    def to_list(self, values: NDArray[Scalar], slots: int) -> list[Any]:
        items: list[Any] = values[:slots].tolist()
        return items


class EncodedColumn(NodeColumn[DictionaryColumn[Value]]):
    """A declared column of other values, read as a `DictionaryColumn`: each distinct value is stored once."""

    def __init__(self, meaning: str, *, read: Callable[[Node], Value], default: Value) -> None:
        super().__init__(meaning, default, read)

    def fit(self, columns: Any, slots: int, capacity: int) -> None:
        values = columns.__dict__.get(self.name)
        if values is None:
            columns.__dict__[self.name] = DictionaryColumn(self.default, capacity)
        elif len(values) < capacity:
            values.grow(capacity)

    def set(self, values: DictionaryColumn[Value], slot: int, value: Any) -> None:
        values.set(slot, value)

    def select(self, values: DictionaryColumn[Value], chosen: NDArray[np.intp]) -> DictionaryColumn[Value]:
        return values.rows(chosen)

    def to_list(self, values: DictionaryColumn[Value], slots: int) -> list[Any]:
        return [values.values[number] for number in values.ids(slots)]
