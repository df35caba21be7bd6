"""Which sequences of an incarnation have arrived: a high-water mark and the holes below it.

Owns: what is new, what is missing, what a Gap frame explains. Does not own: where it is kept (`writer`). Pure.

Invariant: a sequence is taken at most once. All up to `highest` have been taken, except those in `holes`, which are
sorted and disjoint.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

MAX_HOLES: Final = 10_000  # a spool delivers in order: so many holes are a client that makes its sequences up


class TooManyHolesError(ValueError):
    """The sequences of an incarnation are too scattered to be a spool's."""


@dataclass(frozen=True)
class Hole:
    """Sequences that were passed over. `explained`: a Gap frame said that they will not come."""

    first: int
    last: int
    explained: bool = False

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass
class Sequences:
    """The state of one incarnation. -1: nothing has arrived. Numbering starts at 1, or at 0."""

    highest: int = -1
    holes: list[Hole] = field(default_factory=list)

    def take(self, sequence: int) -> bool:
        """Whether the sequence is new; afterwards it is not."""
        if sequence > self.highest:
            self._raise_to(sequence)
            return True
        position = bisect_right(self.holes, sequence, key=lambda hole: hole.first) - 1
        if position < 0 or self.holes[position].last < sequence:
            return False
        hole = self.holes[position]
        self._replace(
            position, [Hole(hole.first, sequence - 1, hole.explained), Hole(sequence + 1, hole.last, hole.explained)]
        )
        return True

    def explain(self, first: int, last: int) -> None:
        """A Gap frame: what is missing between `first` and `last` is not coming. What comes all the same is taken."""
        self.reach(last)
        for position in reversed(range(len(self.holes))):
            hole = self.holes[position]
            if hole.first > last or hole.last < first or hole.explained:
                continue
            inside = Hole(max(hole.first, first), min(hole.last, last), True)
            self._replace(position, [Hole(hole.first, first - 1), inside, Hole(last + 1, hole.last)])

    def reach(self, sequence: int) -> None:
        """It is known that all up to `sequence` were numbered: those that have not arrived are missing."""
        if sequence > self.highest:
            self._raise_to(sequence + 1)
            self.highest = sequence

    @property
    def missing(self) -> int:
        """How many sequences are missing without an explanation."""
        return sum(len(hole) for hole in self.holes if not hole.explained)

    @property
    def explained(self) -> int:
        """How many sequences are known to be lost."""
        return sum(len(hole) for hole in self.holes if hole.explained)

    def _raise_to(self, sequence: int) -> None:
        first = max(self.highest + 1, 1)
        if sequence > first:
            self._replace(len(self.holes), [Hole(first, sequence - 1)])
        self.highest = sequence

    def _replace(self, position: int, holes: list[Hole]) -> None:
        """Put `holes` in place of the one at `position` (behind the last: append); empty ones vanish."""
        self.holes[position : position + 1] = [hole for hole in holes if hole.first <= hole.last]
        if len(self.holes) > MAX_HOLES:
            raise TooManyHolesError(f"sequences have more than {MAX_HOLES} holes")
