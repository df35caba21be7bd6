"""The sequence numbers of an incarnation that have arrived: a high-water mark and the holes below it.

Owns: which sequences are new or missing, explained by a Gap frame, or left out of an imported file. Does not own:
storing this state (`incarnations`). Pure.

Invariant: a sequence is received at most once. All up to `highest` were received, except those in `holes`, which are
sorted and disjoint. A hole with `left_out` may contain stored sequences, which only the database knows. A file with
every tenth record thus makes one hole and not one per record.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Final

MAX_HOLES: Final = 10_000  # a spool delivers in order; more holes mean that a client invents sequence numbers


class TooManyHolesError(ValueError):
    """The sequence numbers of a scheduler process have more missing ranges than its delivery can cause."""


@dataclass(frozen=True)
class Hole:
    """A range of sequence numbers, `first` to `last`, that did not arrive.

    `explained` means that a Gap frame stated that they are lost. `left_out` means that an imported file left them out,
    so that it is not known whether they are missing; some of them may be stored.
    """

    first: int
    last: int
    explained: bool = False
    left_out: bool = False

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass
class Sequences:
    """Which sequence numbers of one incarnation, a run of a scheduler process, have arrived.

    All up to `highest` have arrived, except those in `holes`. `highest` is -1 before the first; numbering starts at 0
    or 1.
    """

    highest: int = -1
    holes: list[Hole] = field(default_factory=list)

    def receive(self, sequence: int) -> bool:
        """Mark a sequence number as received and return whether it was new."""
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
        """Mark the missing sequence numbers from `first` to `last` as lost, as a Gap frame states them.

        They are still received if they arrive later.
        """
        self.extend_to(last)
        for position in reversed(range(len(self.holes))):
            hole = self.holes[position]
            if hole.first > last or hole.last < first or hole.explained or hole.left_out:
                continue
            inside = Hole(max(hole.first, first), min(hole.last, last), True)
            self._replace(position, [Hole(hole.first, first - 1), inside, Hole(last + 1, hole.last)])

    def extend_to(self, sequence: int) -> None:
        """Raise the high-water mark to `sequence`. Sequence numbers up to it that did not arrive count as missing."""
        if sequence > self.highest:
            self._raise_to(sequence + 1)
            self.highest = sequence

    def mark_left_out(self, last: int) -> None:
        """Mark all missing sequence numbers up to `last` as left out of an imported file."""
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
        """Return whether a sequence number was left out of an imported file.

        Only the database then knows whether its record is stored.
        """
        position = self._position(sequence)
        return position is not None and self.holes[position].left_out

    @property
    def missing(self) -> int:
        """The number of sequence numbers that did not arrive and that no Gap frame or imported file accounts for."""
        return sum(len(hole) for hole in self.holes if not hole.explained and not hole.left_out)

    @property
    def explained(self) -> int:
        """The number of sequence numbers that did not arrive and that a Gap frame stated as lost."""
        return sum(len(hole) for hole in self.holes if hole.explained)

    def _position(self, sequence: int) -> int | None:
        """Return the index in `holes` of the hole that contains a sequence number, or None if no hole contains it."""
        position = bisect_right(self.holes, sequence, key=lambda hole: hole.first) - 1
        return position if position >= 0 and self.holes[position].last >= sequence else None

    def _raise_to(self, sequence: int) -> None:
        first = max(self.highest + 1, 1)
        if sequence > first:
            self._replace(len(self.holes), [Hole(first, sequence - 1)])
        self.highest = sequence

    def _replace(self, position: int, holes: list[Hole]) -> None:
        """Replace the hole at index `position` by those of `holes` that are not empty, or append these at the end.

        Raises TooManyHolesError if there are more than MAX_HOLES holes then.
        """
        self.holes[position : position + 1] = [hole for hole in holes if hole.first <= hole.last]
        if len(self.holes) > MAX_HOLES:
            raise TooManyHolesError(f"sequences have more than {MAX_HOLES} holes")
