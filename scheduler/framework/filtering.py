"""Every filter's column, and of each node the first filter that failed it; brought up to date where a spec came before.

Owns: how one filter is asked, first failures. Does not own: which filters are skipped (`runtime`), what follows from
failures (`cycle`).

Invariant: every filter is run on every node, yet a node's first failure alone decides: what a later filter says of a
node that an earlier one rejected has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Evaluation
from scheduler.columns import NodeColumns
from scheduler.framework.errors import PluginError
from scheduler.framework.interface import Filter, Mask
from scheduler.framework.per_node import PartialFilter
from scheduler.framework.plugin import Follows
from scheduler.framework.recall import NO_ROWS, Asked, Changes, Phase, Recall, Slots, Standing, patched
from scheduler.framework.state import CycleState
from scheduler.framework.trace import FilterRun, Trace
from scheduler.framework.verdicts import PASS, Verdicts
from scheduler.objects.pod import PodInfo

Codes = NDArray[np.uint8]
Positions = NDArray[np.int16]

MOST_VERDICTS: Final = 64  # in a patched column's table, before it is asked for anew without those that nobody has


class Filterer:
    """A filter plugin of a profile, ready to be asked."""

    def __init__(self, plugin: Filter) -> None:
        self.name = plugin.name
        self.skipped = FilterRun(plugin.name, True, PASS)
        self._plugin = plugin
        self._partial = plugin if isinstance(plugin, PartialFilter) else None
        asked = Asked.at("filter", plugin)  # which nodes are left follows from other filters
        self.asked = asked if self._partial is None else replace(asked, follows=Follows.ANYTHING)

    def verdicts(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, before: Sequence[FilterRun], trace: Trace
    ) -> Verdicts:
        """Its column of these nodes. `before`: the columns of the filters before, for one that is told what is left."""
        if self._partial is None:
            return _checked(self._plugin.filter(state, pod, nodes), nodes.slots)
        left = (first_failures(before, nodes.slots).codes == 0) & (trace.evaluation == Evaluation.NOT_REACHED)
        return _checked(self._partial.filter_left(state, pod, nodes, left), nodes.slots)


class Failures(NamedTuple):
    """Of every slot, the first code that is not Success and which filter gave it; 0 and -1 where none did."""

    codes: Codes
    first: Positions


class Filters(Phase):
    """What a profile's filters said of one spec, and what follows. `passed`: the nodes that none of them rejects."""

    def __init__(self, filterers: Sequence[Filterer], skip: Set[str]) -> None:
        super().__init__(skip)
        self._said = [(i, _Said(filterer)) for i, filterer in enumerate(filterers) if filterer.name not in skip]
        self._moving = [(i, said) for i, said in self._said if said.moves]
        self.runs = [filterer.skipped for filterer in filterers]
        for i, said in self._said:
            self.runs[i] = said.run
        self.failures = first_failures((), 0)
        self.passed: Mask = np.zeros(0, np.bool_)

    def bring(self, recall: Recall, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> None:
        """Ask about what may have changed. PluginError where a plugin fails."""
        changes = self.begin(recall, nodes)
        changed = changes.rows if changes.objects else NO_ROWS  # nodes may have gone or come
        for i, said in self._said if changes.objects else self._moving:
            try:
                rows = said.ask(changes, state, pod, self.runs[:i], trace)
            except (Exception, SystemExit) as e:
                raise PluginError(f'running "{said.run.plugin}" filter plugin: {e}') from e
            if rows is None or len(rows):
                self.runs[i] = said.run
                changed = changes.few(changed, rows)
        if changed is None:
            self.failures = first_failures(self.runs, nodes.slots)
            self.passed = (self.failures.codes == 0) & nodes.live
        elif len(changed):
            self._judge_again(changed, nodes)
        self.end(nodes)

    def _judge_again(self, rows: Slots, nodes: NodeColumns) -> None:
        said = (run.verdicts for run in self.runs)
        part = _first_failures([v.codes_at(rows) if v.ids is not None else None for v in said], len(rows))
        codes, first = self.failures
        self.failures = Failures(patched(codes, rows, part.codes), patched(first, rows, part.first))
        self.passed = patched(self.passed, rows, (part.codes == 0) & nodes.live[rows])


class _Said(Standing[Verdicts]):
    """What one filter said."""

    def __init__(self, filterer: Filterer) -> None:
        super().__init__(filterer.asked)
        self.run = FilterRun(filterer.name, False, PASS)
        self._filterer = filterer

    def ask(
        self, changes: Changes, state: CycleState, pod: PodInfo, before: Sequence[FilterRun], trace: Trace
    ) -> Slots | None:
        """Ask about what may have changed; the rows in which it did, None where these may be any."""
        return self.bring(changes, state, lambda nodes: self._filterer.verdicts(state, pod, nodes, before, trace))

    @property
    def motley(self) -> bool:
        """Its table has grown with every patch."""
        return len(self.run.verdicts.table) > MOST_VERDICTS

    def take(self, column: Verdicts) -> Slots | None:
        """A whole column."""
        rows = self.run.verdicts.differing(column)
        if rows is None or len(rows):
            self._become(column)
        return rows

    def take_rows(self, rows: Slots, part: Verdicts, slots: int) -> Slots:
        """Some rows."""
        column = self.run.verdicts.patched(rows, part, slots)
        if column is self.run.verdicts:
            return NO_ROWS
        self._become(column)
        return rows

    def _become(self, column: Verdicts) -> None:
        self.run = FilterRun(self.run.plugin, False, column)


def first_failures(filters: Sequence[FilterRun], slots: int) -> Failures:
    """Worked out from the columns of the filters that ran."""
    said = (run.verdicts for run in filters)
    return _first_failures([v.codes(slots) if v.ids is not None else None for v in said], slots)


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
