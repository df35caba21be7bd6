"""Every filter's column, and of each node the first filter that failed it; brought up to date where a spec came before.

Owns: how one filter is asked, first failures. Does not own: which filters run and in which order (`runtime`), what
follows from failures (`cycle`).

Invariant: every filter is run on every node, yet a node's first failure alone decides: what a later filter says of a
node that an earlier one rejected has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Code, Evaluation
from scheduler.columns import NodeColumns
from scheduler.framework.interface import Filter
from scheduler.framework.per_node import PartialFilter
from scheduler.framework.recall import Asked, Place, Recall, Slots
from scheduler.framework.state import CycleState
from scheduler.framework.trace import FilterRun, Trace
from scheduler.framework.verdicts import PASS, Verdicts
from scheduler.objects.pod import PodInfo

Codes = NDArray[np.uint8]
Positions = NDArray[np.int16]

ERRORS: Final = (Code.ERROR, Code.WAIT, Code.SKIP)  # Wait and Skip mean nothing at Filter


class Filterer:
    """A filter plugin of a profile, ready to be asked."""

    def __init__(self, plugin: Filter) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.skipped = FilterRun(plugin.name, True, PASS)
        self._asked = Asked.at("filter", plugin)
        self._partial = plugin if isinstance(plugin, PartialFilter) else None

    def run(self, recall: Recall, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> Filtered:
        """Ask about every node. `trace`: of the filters before, for those that are told which nodes are left."""
        kept = recall.place(("filter", self.name), lambda: Filtered(self.name))

        def ask(some: NodeColumns) -> Verdicts:
            return _checked(self.plugin.filter(state, pod, some), some.slots)

        if self._partial is None:
            recall.bring(kept.said, self._asked, state, nodes, ask)
        else:
            left = (first_failures(trace.filters, trace.slots).codes == 0) & (
                trace.evaluation == Evaluation.NOT_REACHED
            )
            kept.said.settle(_checked(self._partial.filter_left(state, pod, nodes, left), trace.slots))
        return kept


class Filtered:
    """One filter's column of one spec."""

    def __init__(self, name: str) -> None:
        self.said: Place[Verdicts] = Place()
        self._name = name
        self._run: FilterRun | None = None

    @property
    def column(self) -> FilterRun:
        """As the trace has it."""
        if self._run is None or self._run.verdicts is not self.said.column:
            self._run = FilterRun(self._name, False, self.said.column)
        return self._run


class Failures(NamedTuple):
    """Of every slot, the first code that is not Success and which filter gave it; 0 and -1 where none did."""

    codes: Codes
    first: Positions


def first_failures(filters: Sequence[FilterRun], slots: int) -> Failures:
    """Worked out from the columns of the filters that ran."""
    said = (run.verdicts for run in filters)
    return _first_failures([v.codes(slots) if v.ids is not None else None for v in said], slots)


def failures_of(recall: Recall, filtered: Sequence[Filtered | None], trace: Trace) -> Failures:
    """The same of a spec's columns; None stands for a filter that was skipped."""
    kept = recall.place("first failures", _KeptFailures)
    follows = tuple(None if one is None else one.said.version for one in filtered)
    if kept.follows != follows:
        rows = kept.changed(recall, filtered)
        if rows is None:
            found = first_failures(trace.filters, trace.slots)
            kept.codes.settle(found.codes)
            kept.first.settle(found.first)
        elif len(rows):
            said = (run.verdicts for run in trace.filters)
            part = _first_failures([v.codes_at(rows) if v.ids is not None else None for v in said], len(rows))
            kept.codes.patch(rows, part.codes, trace.slots)
            kept.first.patch(rows, part.first, trace.slots)
        kept.follows = follows
    return Failures(kept.codes.column, kept.first.column)


class _KeptFailures:
    """First failures of one spec, and the versions of the filters' columns that they follow from."""

    def __init__(self) -> None:
        self.codes: Place[Codes] = Place()
        self.first: Place[Positions] = Place()
        self.follows: tuple[int | None, ...] | None = None

    def changed(self, recall: Recall, filtered: Sequence[Filtered | None]) -> Slots | None:
        """The rows of which some filter says something else; None where these may be any."""
        changed: list[Slots | None] = []
        if self.follows is None:
            return None
        for one, version in zip(filtered, self.follows, strict=True):
            if one is not None and version is not None:
                changed.append(one.said.since(version))
            elif one is not None or version is not None:  # skipped now, or then
                return None
        return recall.few(*changed)


def _first_failures(said: Sequence[Codes | None], rows: int) -> Failures:
    """`said`: each filter's codes; None where all passed."""
    codes, first = np.zeros(rows, np.uint8), np.full(rows, -1, np.int16)
    for i, column in enumerate(said):
        if column is not None:
            newly = (codes == 0) & (column != 0)
            codes[newly] = column[newly]
            first[newly] = i
    return Failures(codes, first)


def _checked(verdicts: Verdicts, slots: int) -> Verdicts:
    """The column, to keep; raises where it is too short, or names a verdict that is not there."""
    if verdicts.ids is not None:
        if len(verdicts.ids) != slots:
            raise ValueError(f"returned {len(verdicts.ids)} verdicts for {slots} slots")
        verdicts.codes(slots)
        if verdicts.ids.base is not None:  # a view of something that may change
            return Verdicts(verdicts.table, verdicts.ids.copy())
    return verdicts
