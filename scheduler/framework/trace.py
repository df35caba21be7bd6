"""What one cycle saw, as it is seen: the runtime writes it, the recorder reads it, no plugin touches it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Evaluation, PluginVerdict, Preemption
from scheduler.columns import NodeColumns
from scheduler.formulas.inputs import Inputs
from scheduler.framework.interface import Scores
from scheduler.framework.nominated import Nomination
from scheduler.framework.verdicts import Verdicts
from scheduler.objects.pod import PodInfo

_EVALUATED = int(Evaluation.EVALUATED)  # numpy compares faster with plain numbers
ABSENT_CODE = 255  # in `Trace.codes`: no verdict, the node was not evaluated


@dataclass(frozen=True)
class FilterRun:
    """One filter's column."""

    plugin: str
    skipped: bool
    verdicts: Verdicts


@dataclass(frozen=True)
class ScoreRun:
    """One score plugin's, or extender's, columns; None where it was skipped."""

    plugin: str
    weight: int
    raw: Scores | None = None
    normalized: Scores | None = None
    extender: bool = False


@dataclass(frozen=True)
class InputRun:
    """What a plugin, or an extender, went by: one source's numbers."""

    plugin: str
    inputs: Inputs


@dataclass
class Trace:
    """Filled phase by phase; what a phase did not reach stays as it is here.

    Arrays may be those of an earlier cycle too: they are replaced, never changed.
    """

    slots: int
    evaluation: NDArray[np.uint8]
    codes: NDArray[np.uint8]  # the first code that is not Success of every slot; 0 passed them all
    first: NDArray[np.int16]  # index in `filters` of the filter that gave it; -1 where none did
    passed: NDArray[np.bool_]  # slots whose nodes no filter rejects, evaluated or not
    complete: bool = False  # every node is evaluated
    pre_filters: list[PluginVerdict] = field(default_factory=list)  # those that did not succeed, Skip left out
    narrowed_by: tuple[str, ...] = ()
    filters: list[FilterRun] = field(default_factory=list)
    scores: list[ScoreRun] = field(default_factory=list)
    totals: Scores | None = None
    inputs: list[InputRun] = field(default_factory=list)
    post_filters: list[PluginVerdict] = field(default_factory=list)
    preemption: Preemption | None = None
    nomination: Nomination | None = None  # absent: the pod's nominated node stays
    victims: tuple[PodInfo, ...] = ()  # pods that shall make room
    phases_s: dict[str, float] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)  # what went wrong without ending the attempt, in words

    @classmethod
    def start(cls, nodes: NodeColumns) -> Trace:
        """Before any phase: every node is still to be reached."""
        slots, evaluation = nodes.slots, _everywhere(nodes, Evaluation.NOT_REACHED)
        return cls(slots, evaluation, *nodes.kept("no failures", lambda: _unfiltered(slots)))

    def evaluate_all(self, nodes: NodeColumns) -> None:
        """Every node goes through the filters."""
        self.evaluation, self.complete = _everywhere(nodes, Evaluation.EVALUATED), True

    def mark(self, where: NDArray[np.intp] | int, evaluation: Evaluation) -> None:
        """This became of these slots."""
        self.evaluation, self.complete = self.evaluation.copy(), False
        self.evaluation[where] = evaluation

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """Which slots' nodes went through the filters."""
        evaluated: NDArray[np.bool_] = self.evaluation == _EVALUATED
        return evaluated

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Which slots' nodes did, and passed them all."""
        return self.passed if self.complete else self.evaluated & self.passed

    def narrow(self, run: FilterRun) -> None:
        """Keep a column that was asked about the feasible nodes alone: it can only take from them."""
        said = run.verdicts.codes(self.slots)
        newly = self.feasible & (said != 0)
        self.codes = np.where(newly, said, self.codes)
        self.first = np.where(newly, np.int16(len(self.filters)), self.first)
        self.passed = self.passed & ~newly
        self.filters.append(run)


def _unfiltered(slots: int) -> tuple[NDArray[np.uint8], NDArray[np.int16], NDArray[np.bool_]]:
    """Codes, filters and who passed, before any filter ran."""
    return np.full(slots, ABSENT_CODE, np.uint8), np.full(slots, -1, np.int16), np.zeros(slots, np.bool_)


def _everywhere(nodes: NodeColumns, evaluation: Evaluation) -> NDArray[np.uint8]:
    """Each node is where this says."""
    return nodes.kept(evaluation, lambda: np.where(nodes.live, evaluation, Evaluation.ABSENT).astype(np.uint8))
