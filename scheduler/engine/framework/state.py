"""State that plugins keep from one extension point to the next within one attempt.

Invariant: the type of a value is its key, so a plugin reads only what it wrote itself, or an `OutsideReading`.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class OutsideReading:
    """Base class of state that was read outside the cluster's objects: measurements, the time.

    All extension points of an attempt use one reading, and so does an attempt that is computed again for comparison.
    """


class CycleState:
    """The values that plugins keep between the extension points of one attempt, at most one of each type."""

    def __init__(self, *, is_pod_group_cycle: bool = False, skips_post_filter: bool = False) -> None:
        """Create an empty state. `is_pod_group_cycle` says that the attempt is part of the cycle of a pod group.

        With `skips_post_filter`, no PostFilter plugin, such as preemption, runs if no node is feasible.
        """
        self._data: dict[type, object] = {}
        self.is_pod_group_cycle = is_pod_group_cycle
        self.skips_post_filter = skips_post_filter

    def clone(self) -> CycleState:
        """Return a copy for a dry run: values with a `clone` method are cloned, others are shared."""
        copy = CycleState(is_pod_group_cycle=self.is_pod_group_cycle, skips_post_filter=self.skips_post_filter)
        copy._data = {kind: v.clone() if hasattr(v, "clone") else v for kind, v in self._data.items()}
        return copy

    def for_repetition(self) -> CycleState:
        """Return a copy with nothing but the outside readings, from which the attempt can be computed again."""
        copy = self.clone()
        copy._data = {kind: value for kind, value in self._data.items() if isinstance(value, OutsideReading)}
        return copy

    def __len__(self) -> int:
        return len(self._data)

    def write(self, value: object) -> None:
        """Store a value under its type, replacing an earlier value of the same type."""
        self._data[type(value)] = value

    def update(self, other: CycleState) -> None:
        """Store all values of `other`, replacing values of the same types."""
        self._data.update(other._data)

    def read(self, kind: type[T]) -> T:
        """Return the value of the type `kind`. Raises KeyError if none was written."""
        value = self._data[kind]
        assert isinstance(value, kind)
        return value

    def find(self, kind: type[T]) -> T | None:
        """Return the value of the type `kind`, or None if none was written."""
        value = self._data.get(kind)
        return value if isinstance(value, kind) else None
