"""Filter verdicts of every node, and each node's first failure, refreshed from the equivalence cache.

Invariant: every filter runs on every node, but only a node's first failure decides: the verdict of a later filter on a
node that an earlier one rejected has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Evaluation
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.equivalence_cache import (
    NO_ROWS,
    CachedColumn,
    CachedPhase,
    CacheEntry,
    Changes,
    PluginDependencies,
    Slots,
    patch_rows,
)
from scheduler.engine.framework.interface import Filter, Mask
from scheduler.engine.framework.per_node import PartialFilter
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import FilterRun, Trace
from scheduler.engine.framework.verdicts import PASS, Verdicts, error
from scheduler.engine.objects.pod import PodInfo

Codes = NDArray[np.uint8]
Positions = NDArray[np.int16]

MAX_VERDICTS: Final = 64  # in a column's table; with more, recomputing the column drops verdicts that no slot has


class FilterRunner:
    """A profile's filter plugin with its declared dependencies, inspected once so that cycles can run it cheaply."""

    def __init__(self, plugin: Filter) -> None:
        self.name = plugin.name
        self.skipped = FilterRun(plugin.name, True, PASS)
        self._plugin = plugin
        self._partial = plugin if isinstance(plugin, PartialFilter) else None
        dependencies = PluginDependencies.from_plugin(plugin, "filter")
        if self._partial is not None:  # the remaining nodes depend on the other filters
            dependencies = replace(dependencies, depends_on=DependsOn.ANYTHING)
        self.dependencies = dependencies

    def run(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, previous: Sequence[FilterRun], trace: Trace
    ) -> Verdicts:
        """Run the filter on these nodes and return its verdict on each of them.

        `previous` holds the verdicts of earlier filters. Only a `PartialFilter` depends on them: it gets only the nodes
        that no earlier filter rejected.
        """
        if self._partial is None:
            return _validated(self._plugin.filter(state, pod, nodes), nodes.slots)
        remaining = (find_first_failures(previous, nodes.slots).codes == 0) & (
            trace.evaluation == Evaluation.NOT_REACHED
        )
        return _validated(self._partial.filter_remaining(state, pod, nodes, remaining), nodes.slots)


class FirstFailures(NamedTuple):
    """For every node, the status code of the first filter that rejects it (`codes`), and that filter's index (`first`).

    The code is 0 (Success) and the index -1 where all filters accept the node.
    """

    codes: Codes
    first: Positions


class FilterPhase(CachedPhase):
    """The cached Filter results of one pod spec: each filter's verdicts, and each node's first failure.

    `passed` is the mask of nodes that no filter rejects.
    """

    def __init__(self, runners: Sequence[FilterRunner], skip: Set[str]) -> None:
        super().__init__(skip)
        self._columns = [(i, _VerdictColumn(runner)) for i, runner in enumerate(runners) if runner.name not in skip]
        self._pod_dependent = [(i, column) for i, column in self._columns if not column.node_objects_only]
        self.runs = [runner.skipped for runner in runners]
        for i, column in self._columns:
            self.runs[i] = column.run
        self.failures = find_first_failures((), 0)
        self.passed: Mask = np.zeros(0, np.bool_)

    def refresh(self, entry: CacheEntry, state: CycleState, pod: PodInfo, nodes: NodeColumns, trace: Trace) -> None:
        """Bring the verdicts, the first failures and the mask `passed` up to date.

        A plugin that raises gets an error verdict on every node, and the results are then not reused.
        """
        changes, failed = self.begin(entry, nodes), False
        changed = changes.rows if changes.node_objects else NO_ROWS  # nodes may have been added or removed
        for i, column in self._columns if changes.node_objects else self._pod_dependent:
            try:
                rows = column.run_filter(changes, state, pod, self.runs[:i], trace)
            except (Exception, SystemExit) as e:
                rows, failed = column.replace(Verdicts.everywhere(error(str(e)), nodes.slots)), True
            if rows is None or len(rows):
                self.runs[i] = column.run
                changed = changes.merge(changed, rows)
        if changed is None:
            self.failures = find_first_failures(self.runs, nodes.slots)
            self.passed = (self.failures.codes == 0) & nodes.live
        elif len(changed):
            self._update_failures(changed, nodes)
        if not failed:
            self.complete(nodes)

    def _update_failures(self, rows: Slots, nodes: NodeColumns) -> None:
        """Recompute the first failure, and whether the node passed, for the nodes in the slots `rows` (row indices)."""
        verdicts = (run.verdicts for run in self.runs)
        part = _find_first_failures([v.codes_at(rows) if v.ids is not None else None for v in verdicts], len(rows))
        codes, first = self.failures
        self.failures = FirstFailures(patch_rows(codes, rows, part.codes), patch_rows(first, rows, part.first))
        self.passed = patch_rows(self.passed, rows, (part.codes == 0) & nodes.live[rows])


class _VerdictColumn(CachedColumn[Verdicts]):
    """One filter's cached verdicts on all nodes."""

    def __init__(self, runner: FilterRunner) -> None:
        super().__init__(runner.dependencies)
        self.run = FilterRun(runner.name, False, PASS)
        self._runner = runner

    def run_filter(
        self, changes: Changes, state: CycleState, pod: PodInfo, previous: Sequence[FilterRun], trace: Trace
    ) -> Slots | None:
        """Run the filter where its verdicts may differ; return the slots (row indices) of the nodes that changed.

        Returns None if every verdict may have changed.
        """
        return self.refresh(changes, state, lambda nodes: self._runner.run(state, pod, nodes, previous, trace))

    @property
    def should_recompute(self) -> bool:
        return len(self.run.verdicts.table) > MAX_VERDICTS  # the table grows with every patch

    def replace(self, column: Verdicts) -> Slots | None:
        rows = self.run.verdicts.changed_slots(column)
        if rows is None or len(rows):
            self._set_verdicts(column)
        return rows

    def replace_rows(self, rows: Slots, part: Verdicts, slots: int) -> Slots:
        column = self.run.verdicts.with_rows(rows, part, slots)
        if column is self.run.verdicts:
            return NO_ROWS
        self._set_verdicts(column)
        return rows

    def _set_verdicts(self, verdicts: Verdicts) -> None:
        self.run = FilterRun(self.run.plugin, False, verdicts)


def find_first_failures(filters: Sequence[FilterRun], slots: int) -> FirstFailures:
    """Return each node's first failure among the verdicts of these filters; `slots` is the number of node slots."""
    verdicts = (run.verdicts for run in filters)
    return _find_first_failures([v.codes(slots) if v.ids is not None else None for v in verdicts], slots)


def _find_first_failures(columns: Sequence[Codes | None], rows: int) -> FirstFailures:
    """Return each row's first failure; `columns` holds each filter's status codes, or None if it accepts every node."""
    codes, first = np.zeros(rows, np.uint8), np.full(rows, -1, np.int16)
    for i, column in enumerate(columns):
        if column is not None:
            newly = (codes == 0) & (column != 0)
            codes[newly] = column[newly]
            first[newly] = i
    return FirstFailures(codes, first)


def _validated(verdicts: Verdicts, slots: int) -> Verdicts:
    """Return the verdicts, with a copy of `ids` if that array is a view of another one, which may change later.

    Raises ValueError or IndexError if there is not one verdict for each of `slots` slots, or an ID outside of the
    table.
    """
    if verdicts.ids is not None:
        if len(verdicts.ids) != slots:
            raise ValueError(f"returned {len(verdicts.ids)} verdicts for {slots} slots")
        verdicts.codes(slots)
        if verdicts.ids.base is not None:
            return Verdicts(verdicts.table, verdicts.ids.copy())
    return verdicts
