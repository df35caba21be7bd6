"""The clock of tests."""

from __future__ import annotations

from dataclasses import dataclass

from tests.builders import MONDAY_US


@dataclass
class Clock:
    """Seconds since the epoch, from an hour after the builders' Monday noon; each look adds `step_s`."""

    now_s: float = MONDAY_US / 1e6 + 3600
    step_s: float = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s
