"""Objectives and limits over the figures of simulated runs, as users state them.

    FigureObjective.parse("nodesInUse", maximize=False)
    Limit.parse("waitedP99S<=60")

A figure has the name that it has in the document of a simulation. That of a resource or of a node label comes after its
name: `cpu.fragmentation`, `topology.kubernetes.io/zone.skew`.

Owns: names of figures and their values in runs. Does not own: the figures (`metrics`).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.offline.simulate.metrics import ResourceShare, SimulationFigures

_PARTS: Final = ("skew", "resources", "moments")
_NUMBERS: Final = {
    written: name
    for written, name in zip(
        SimulationFigures.__struct_encode_fields__, SimulationFigures.__struct_fields__, strict=True
    )
    if name not in _PARTS
}
_OF_RESOURCE: Final = dict(zip(ResourceShare.__struct_encode_fields__, ResourceShare.__struct_fields__, strict=True))
_SKEW: Final = "skew"
_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {"<=": operator.le, ">=": operator.ge}
_LIMIT: Final = re.compile(r"\s*(\S+?)\s*([<>]=)\s*(\S+)\s*")
NEVER_PLACED: Final = "neverPlaced"


class ObjectiveError(ValueError):
    """An objective or a limit is invalid, or names a figure that the runs do not have."""


def require_figure(name: str) -> str:
    """Return the name of a figure unchanged. Raises ObjectiveError if no run can have a figure of that name."""
    of, _, part = name.rpartition(".")
    if name in _NUMBERS or (of and (part in _OF_RESOURCE or part == _SKEW)):
        return name
    parts = ", ".join(f"RESOURCE.{each}" for each in _OF_RESOURCE)
    raise ObjectiveError(f"{name!r} is not a figure: use one of {', '.join(_NUMBERS)}, {parts}, LABEL.{_SKEW}")


def read_figure(figures: SimulationFigures, name: str) -> float:
    """Return a figure of a run by its name. Raises ObjectiveError if the run does not have it."""
    if name in _NUMBERS:
        value: float | None = getattr(figures, _NUMBERS[name])
        if value is None:
            raise ObjectiveError(f"{name} needs prices of nodes")
        return float(value)
    of, _, part = name.rpartition(".")
    if part == _SKEW:
        return figures.skew.get(of, 0.0)
    if of not in figures.resources:
        raise ObjectiveError(f"no pod of the trace requests {of}: use {', '.join(figures.resources)}")
    return float(getattr(figures.resources[of], _OF_RESOURCE[part]))


def compute_mean(runs: Sequence[SimulationFigures], name: str) -> float:
    """Return the mean of a figure over runs."""
    return math.fsum(read_figure(run, name) for run in runs) / len(runs)


@dataclass(frozen=True)
class FigureObjective:
    """A figure that is to be as low as possible, or as high with `maximize`."""

    figure: str
    maximize: bool

    @classmethod
    def parse(cls, figure: str, *, maximize: bool) -> FigureObjective:
        """Return the objective. Raises ObjectiveError if there is no such figure."""
        return cls(require_figure(figure), maximize)

    def compute_loss(self, runs: Sequence[SimulationFigures]) -> float:
        """Return the figure's mean over runs, negated with `maximize`: lower is better."""
        mean = compute_mean(runs, self.figure)
        return -mean if self.maximize else mean


@dataclass(frozen=True)
class Limit:
    """A bound that the mean of a figure has to keep."""

    figure: str
    comparison: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Return the limit that a text such as `waitedP99S<=60` states. Raises ObjectiveError."""
        match = _LIMIT.fullmatch(text)
        try:
            bound = float(match[3]) if match else math.nan
        except ValueError:
            bound = math.nan
        if match is None or not math.isfinite(bound):
            raise ObjectiveError(f"{text!r} is not a limit: use FIGURE<=NUMBER or FIGURE>=NUMBER")
        return cls(require_figure(match[1]), match[2], bound)

    def __str__(self) -> str:
        return f"{self.figure}{self.comparison}{self.bound:g}"

    def measure_violation(self, runs: Sequence[SimulationFigures]) -> float:
        """Return by how much the mean over runs is beyond the bound; 0 if the limit holds."""
        mean = compute_mean(runs, self.figure)
        return 0.0 if _COMPARISONS[self.comparison](mean, self.bound) else abs(mean - self.bound)
