"""Which seed runs next: new ones, and such that continue an earlier run from where it reached a new state.

Owns: the choice, and which earlier runs it knows. Does not own: what a state is (`coverage`), what a seed of several
parts means (`scenario.CompositeSeed`).

Fuzzers such as atheris and HypoFuzz guide by the lines of one process that are reached, and Hypothesis' `target` by one
number. Neither keeps a run because a program was in a new state during a certain failure.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from bench.simulation.run import SeedResult
from bench.simulation.scenario import CompositeSeed

NEW_SHARE: Final = 0.4  # of the seeds that continue no other
LEAD_S: Final = 2.0  # how long before a new state a continuation may begin


@dataclass
class _Reached:
    """A run that reached states that no run before it did, the times of these, and how often it was continued."""

    seed: str
    times_s: list[float]
    continued: int = 0


@dataclass
class GuidedSeeds:
    """An endless iterator of seeds, beginning with `first`, to which the results of the runs are added."""

    first: int
    longest_s: float
    """The length of a scenario in seconds."""
    states: set[str] = field(default_factory=set)
    """All states that were reached."""

    def __post_init__(self) -> None:
        self._draw = random.Random(f"search from {self.first}")
        self._next = self.first
        self._reached: list[_Reached] = []

    def __iter__(self) -> Iterator[str]:
        while True:
            seed, self._next = str(self._next), self._next + 1
            if self._draw.random() < NEW_SHARE or not self._reached:
                yield seed
                continue
            weights = [len(run.times_s) / (1 + run.continued) for run in self._reached]
            (run,) = self._draw.choices(self._reached, weights)
            run.continued += 1
            at_s = self._draw.choice(run.times_s) - self._draw.uniform(-LEAD_S / 4, LEAD_S)
            yield CompositeSeed.parse(run.seed).extend(seed, max(at_s, 0.1))

    def add(self, result: SeedResult) -> None:
        """Note the states that a run reached. If some are new, the run is continued later."""
        times_s = [at for state, at in result.states.items() if state not in self.states and at < self.longest_s]
        self.states |= result.states.keys()
        if times_s:
            self._reached.append(_Reached(result.seed, times_s))
