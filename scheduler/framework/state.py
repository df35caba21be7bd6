"""What plugins keep from one extension point to the next within one cycle.

Invariant: a plugin reads only what it wrote itself, by type: the type is the key.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class CycleState:
    """One cycle's notes: at most one value of each type."""

    def __init__(self) -> None:
        self._notes: dict[type, object] = {}

    def clone(self) -> CycleState:
        """A copy to try something on: notes that have a `clone` method are cloned, others are shared."""
        copy = CycleState()
        copy._notes = {kind: n.clone() if hasattr(n, "clone") else n for kind, n in self._notes.items()}
        return copy

    def __len__(self) -> int:
        return len(self._notes)

    def write(self, note: object) -> None:
        """Keep a note, replacing one of the same type."""
        self._notes[type(note)] = note

    def take(self, other: CycleState) -> None:
        """Keep all notes of another cycle's state too."""
        self._notes.update(other._notes)

    def read(self, kind: type[T]) -> T:
        """The note of a type. KeyError when none was written."""
        note = self._notes[kind]
        assert isinstance(note, kind)
        return note

    def find(self, kind: type[T]) -> T | None:
        """The note of a type, or None."""
        note = self._notes.get(kind)
        return note if isinstance(note, kind) else None
