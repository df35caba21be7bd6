"""The trace of one cycle: the framework writes it phase by phase, `records.build` makes the record from it.

Plugins have no access.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import AllocatedDevice, Evaluation, PluginVerdict, Preemption, Reason, ScoreReasons
from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.interface import Scores
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.framework.verdicts import Verdicts
from scheduler.engine.objects.pod import PodInfo

_EVALUATED = int(Evaluation.EVALUATED)  # numpy compares faster with plain numbers
ABSENT_CODE = 255  # in `Trace.codes`: no verdict, the node was not evaluated


@dataclass(frozen=True)
class FilterRun:
    """One filter's verdicts on all nodes in a cycle. `skipped` is True if the filter did not run."""

    plugin: str
    skipped: bool
    verdicts: Verdicts


@dataclass(frozen=True)
class ScoreRun:
    """The raw and normalized scores that one score plugin or extender gave all nodes; None if it gave none."""

    plugin: str
    weight: int
    raw: Scores | None = None
    normalized: Scores | None = None
    extender: bool = False


@dataclass(frozen=True)
class InputRun:
    """The measurements from one source that a plugin or extender used for its verdicts or scores."""

    plugin: str
    inputs: NodeInputs


@dataclass
class Trace:
    """Everything that one cycle evaluated. A phase that did not run leaves the initial values.

    Arrays have one entry for each node slot. Invariant: they are replaced, never changed in place, because traces of
    several cycles may share them.
    """

    slots: int
    evaluation: NDArray[np.uint8]
    codes: NDArray[np.uint8]  # each slot's first code other than Success; 0 if all filters passed
    first: NDArray[np.int16]  # index in `filters` of the filter with that code; -1 if all passed
    passed: NDArray[np.bool_]  # slots that no filter rejects, whether their node counts as evaluated or not
    complete: bool = False  # every node is evaluated
    pre_filters: list[PluginVerdict] = field(default_factory=list)  # verdicts other than Success and Skip
    restricted_by: tuple[str, ...] = ()
    restricted_to: tuple[str, ...] = ()  # the names of the nodes that are left, also of absent ones, if they are few
    filters: list[FilterRun] = field(default_factory=list)
    # The columns without nominated pods; the same list as `filters` if nominated pods changed no verdict.
    filters_without_nominated: list[FilterRun] = field(default_factory=list)
    scores: list[ScoreRun] = field(default_factory=list)
    totals: Scores | None = None
    score_reasons: tuple[ScoreReasons, ...] = ()  # of the best two nodes
    inputs: list[InputRun] = field(default_factory=list)
    post_filters: list[PluginVerdict] = field(default_factory=list)
    preemption: Preemption | None = None
    nomination: Nomination | None = None  # None: the pod's nominated node stays as it is
    victims: tuple[PodInfo, ...] = ()  # pods to evict
    phases_s: dict[str, float] = field(default_factory=dict)
    notes: list[Reason] = field(default_factory=list)  # problems that did not end the attempt
    # Returns the devices that the pod's claims get on a node.
    list_devices: Callable[[str], tuple[AllocatedDevice, ...]] = field(default=lambda _node: ())

    @classmethod
    def start(cls, nodes: NodeColumns) -> Trace:
        """Return the trace of a cycle before its first phase, with no node evaluated yet."""
        slots, evaluation = nodes.slots, _everywhere(nodes, Evaluation.NOT_REACHED)
        return cls(slots, evaluation, *nodes.cached("no failures", lambda: _unfiltered(slots)))

    def evaluate_all(self, nodes: NodeColumns) -> None:
        """Mark every node as evaluated."""
        self.evaluation, self.complete = _everywhere(nodes, Evaluation.EVALUATED), True

    def mark(self, where: NDArray[np.intp] | int, evaluation: Evaluation) -> None:
        """Set the `Evaluation` of the nodes in the slots `where` (row indices), such as evaluated or not sampled."""
        self.evaluation, self.complete = self.evaluation.copy(), False
        self.evaluation[where] = evaluation

    @property
    def evaluated(self) -> NDArray[np.bool_]:
        """The mask of the evaluated nodes, by node slot (row index); nodes that were not sampled are False."""
        evaluated: NDArray[np.bool_] = self.evaluation == _EVALUATED
        return evaluated

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """The mask of the evaluated nodes that passed all filters, by node slot (row index)."""
        return self.passed if self.complete else self.evaluated & self.passed

    def narrow(self, run: FilterRun) -> None:
        """Append an extender's verdicts to `filters`, and mark the feasible nodes that it rejects as rejected."""
        codes = run.verdicts.codes(self.slots)
        newly = self.feasible & (codes != 0)
        self.codes = np.where(newly, codes, self.codes)
        self.first = np.where(newly, np.int16(len(self.filters)), self.first)
        self.passed = self.passed & ~newly
        self.filters.append(run)


def _unfiltered(slots: int) -> tuple[NDArray[np.uint8], NDArray[np.int16], NDArray[np.bool_]]:
    """Return the values of `Trace.codes`, `first` and `passed` before any filter ran.

    `slots` is the length of these arrays.
    """
    return np.full(slots, ABSENT_CODE, np.uint8), np.full(slots, -1, np.int16), np.zeros(slots, np.bool_)


def _everywhere(nodes: NodeColumns, evaluation: Evaluation) -> NDArray[np.uint8]:
    """Return an array with this evaluation for every node, and ABSENT at the indices that hold no node."""
    return nodes.cached(evaluation, lambda: np.where(nodes.live, evaluation, Evaluation.ABSENT).astype(np.uint8))
