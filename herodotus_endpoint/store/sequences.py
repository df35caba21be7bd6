"""Which sequences of an incarnation have arrived: a high-water mark and the holes below it.

Owns: what is new, what is missing, what a Gap frame explains, what a file may have left out. Does not own: where it is
kept (`incarnations`). Pure.

Invariant: a sequence is taken at most once. All up to `highest` have been taken, except those in `holes`, which are
sorted and disjoint. In a hole that was left out some are stored all the same, and only the database knows which: such
a hole does not grow into one for each record of a file that holds every tenth.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Final

MAX_HOLES: Final = 10_000  # a spool delivers in order: so many holes are a client that makes its sequences up


class TooManyHolesError(ValueError):
    """The sequences of an incarnation are too scattered to be a spool's."""


@dataclass(frozen=True)
class Hole:
    """Sequences that were passed over. `explained`: a Gap frame said that they will not come.

    `left_out`: they were imported as far as a file holds them; nothing says whether the others are missing.
    """

    first: int
    last: int
    explained: bool = False
    left_out: bool = False

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass
class Sequences:
    """The state of one incarnation. -1: nothing has arrived. Numbering starts at 1, or at 0."""

    highest: int = -1
    holes: list[Hole] = field(default_factory=list)

    def receive(self, sequence: int) -> bool:
        """Whether the sequence is new; afterwards it is not."""
        if sequence > self.highest:
            self._raise_to(sequence)
            return True
        position = self._position(sequence)
        if position is None:
            return False
        hole = self.holes[position]
        self._replace(position, [replace(hole, last=sequence - 1), replace(hole, first=sequence + 1)])
        return True

    def explain(self, first: int, last: int) -> None:
        """A Gap frame: what is missing between `first` and `last` is not coming. What comes all the same is taken."""
        self.extend_to(last)
        for position in reversed(range(len(self.holes))):
            hole = self.holes[position]
            if hole.first > last or hole.last < first or hole.explained or hole.left_out:
                continue
            inside = Hole(max(hole.first, first), min(hole.last, last), True)
            self._replace(position, [Hole(hole.first, first - 1), inside, Hole(last + 1, hole.last)])

    def extend_to(self, sequence: int) -> None:
        """It is known that all up to `sequence` were numbered: those that have not arrived are missing."""
        if sequence > self.highest:
            self._raise_to(sequence + 1)
            self.highest = sequence

    def mark_left_out(self, last: int) -> None:
        """A file that may leave records out holds `last`: up to it, what has not arrived is not known to be missing."""
        if last > self.highest:
            self._replace(len(self.holes), [Hole(self.highest + 1, last)])
            self.highest = last
        holes: list[Hole] = []
        for hole in self.holes:
            if hole.explained or hole.left_out or hole.first > last:
                parts = [hole]
            else:
                parts = [Hole(hole.first, min(hole.last, last), left_out=True), Hole(last + 1, hole.last)]
            for part in parts:
                if holes and part.left_out and holes[-1].left_out and holes[-1].last + 1 == part.first:
                    holes[-1] = replace(holes[-1], last=part.last)
                elif part.first <= part.last:
                    holes.append(part)
        self.holes = holes

    def is_left_out(self, sequence: int) -> bool:
        """Whether only the database knows if it is stored."""
        position = self._position(sequence)
        return position is not None and self.holes[position].left_out

    @property
    def missing(self) -> int:
        """How many sequences are missing without an explanation."""
        return sum(len(hole) for hole in self.holes if not hole.explained and not hole.left_out)

    @property
    def explained(self) -> int:
        """How many sequences are known to be lost."""
        return sum(len(hole) for hole in self.holes if hole.explained)

    def _position(self, sequence: int) -> int | None:
        """The place of the hole that it is in."""
        position = bisect_right(self.holes, sequence, key=lambda hole: hole.first) - 1
        return position if position >= 0 and self.holes[position].last >= sequence else None

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
