"""The interface of a plan's goal, for plans that place no waiting pods: a spread is restored, or a resize fits.

Owns: the interface. Does not own: the goals (`resizing`, `spreading`), the search for moves (`search`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from scheduler.engine.plans.verification import PlannedStep, Proof, Verification


class Goal(Protocol):
    """A condition on the copy of the cluster that a plan reaches by moving pods."""

    def is_reached(self) -> bool:
        """Return whether the copy satisfies the condition now."""
        ...

    def count_least_moves(self) -> tuple[int, str]:
        """Return a lower bound on the number of moves from the present state, and why fewer are not enough.

        The bound is IMPOSSIBLE if no number of moves is enough.
        """
        ...

    def may_be_reached(self, additions: int) -> bool:
        """Return False only if the condition cannot hold after `additions` more pods are placed, wherever they land.

        The search calls it after the moved pods left, and skips the set of moves if the result is False.
        """
        ...

    def rank_nodes(self) -> Callable[[str], int]:
        """Return a function from a node's name to its rank: the search moves pods from high to low ranks first."""
        ...

    def prove(
        self, verification: Verification, leaving: Sequence[PlannedStep]
    ) -> tuple[list[PlannedStep], Proof] | None:
        """Return the moves `leaving` with the cordons that they need, and a proof by counting.

        Returns None if counting does not prove the plan; then every run is simulated.
        """
        ...
