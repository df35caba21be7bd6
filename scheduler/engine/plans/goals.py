"""What a plan is for, where that is not pods that wait for a node: the interface of a goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from scheduler.engine.plans.verification import PlannedStep, Proof, Verification


class Goal(Protocol):
    """A state of the copy that moves of pods reach."""

    def is_reached(self) -> bool:
        """Return whether the copy is as it should be."""
        ...

    def count_least_moves(self) -> tuple[int, str]:
        """Return how many moves there must be at least from the present copy, and why fewer do not do."""
        ...

    def may_be_reached(self, additions: int) -> bool:
        """Return whether the copy may be as it should be after so many pods were placed, wherever they land."""
        ...

    def rank_nodes(self) -> Callable[[str], int]:
        """Return the function that says of a node how full it is: pods should move from a high to a low rank."""
        ...

    def prove(
        self, verification: Verification, leaving: Sequence[PlannedStep]
    ) -> tuple[list[PlannedStep], Proof] | None:
        """Return the steps of these moves with a proof by counting, or None if it does not apply."""
        ...
