"""Scores: raw, masked, normalized, weighted and summed, refreshed from the equivalence cache.

Each score plugin has one column of raw scores (`_RawColumn`) and the columns derived from it (`_PluginScores`);
`ScorePhase` sums the normalized scores with their weights, and `BestNodes` keeps the nodes with the highest total.
Masking and summing have two functions each: for all nodes, and for only the rows in which their input changed.

Invariant: the score of an infeasible node is 0 in every column of a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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
from scheduler.engine.framework.interface import MAX_NODE_SCORE, Mask, NormalizeScore, Score, Scores
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.plugin_results import PluginError
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.trace import ScoreRun
from scheduler.engine.objects.pod import PodInfo

_LEAST: Final = np.iinfo(np.int64).min  # lower than every total


class ScoreRunner:
    """A profile's score plugin with its weight and dependencies, inspected once so that cycles can run it cheaply."""

    def __init__(self, plugin: Score, weight: int) -> None:
        self.name = plugin.name
        self.weight = weight
        self.skipped = ScoreRun(plugin.name, weight)
        self.dependencies = PluginDependencies.from_plugin(plugin, "score")
        self.depends_on_anything = self.dependencies.depends_on is DependsOn.ANYTHING
        self.normalizer = plugin if isinstance(plugin, NormalizeScore) else None
        self._plugin = plugin

    def run(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, changes: Changes, feasible: Mask) -> Scores:
        """Return the plugin's raw scores of the nodes in `nodes`, which are all nodes or only those that changed.

        If only some nodes changed, the plugin gets `nodes.live` in place of `feasible`, which it declared not to read.
        """
        return self._plugin.score(state, pod, nodes, feasible if nodes is changes.nodes else nodes.live)

    def validate(self, scores: Scores) -> None:
        """Raise PluginError if a normalized score is not from 0 to 100."""
        invalid = scores.view(np.uint64) > MAX_NODE_SCORE  # as unsigned integers, negative scores are large
        if np.count_nonzero(invalid):
            raise PluginError(
                f'applying score defaultWeights on Score plugins: plugin "{self.name}" returns an invalid score'
                f" {int(scores[invalid.argmax()])},"
                f" it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
            )


class ScorePhase(CachedPhase):
    """The cached Score results of one pod spec: each plugin's scores, each node's total, and the best nodes."""

    def __init__(self, runners: Sequence[ScoreRunner], skip: Set[str]) -> None:
        super().__init__(skip)
        self._plugins = [(i, _PluginScores(runner)) for i, runner in enumerate(runners) if runner.name not in skip]
        self._pod_dependent = [(i, plugin) for i, plugin in self._plugins if not plugin.unmasked.node_objects_only]
        self.runs = [runner.skipped for runner in runners]
        self.totals: Scores = np.zeros(0, np.int64)
        self._best: BestNodes | None = None
        self._feasible: Mask = np.zeros(0, np.bool_)

    def refresh(self, entry: CacheEntry, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> None:
        """Bring all scores, the totals and the best nodes up to date. Raises PluginError if a plugin fails."""
        changes = self.begin(entry, nodes)
        feasibility_changed = None if changes.rows is None else self._compare_feasible(feasible)
        changed = feasibility_changed
        refresh_all = changes.node_objects or feasibility_changed is None or len(feasibility_changed)
        for i, plugin in self._plugins if refresh_all else self._pod_dependent:
            changed = changes.merge(changed, plugin.refresh(changes, feasibility_changed, state, pod, feasible))
            self.runs[i] = plugin.run
        if changed is None or self._best is None:
            self._sum_all(feasible)
        elif len(changed):
            self._sum_rows(changed, feasible, self._best)
        self._feasible = feasible
        self.complete(nodes)

    @property
    def best(self) -> Slots:
        """The slots (row indices) of the feasible nodes with the highest total, ascending."""
        return NO_ROWS if self._best is None else self._best.slots

    def _compare_feasible(self, feasible: Mask) -> Slots:
        """Return the slots of the nodes that became feasible or infeasible since the last cycle of this pod spec."""
        return NO_ROWS if feasible is self._feasible else np.flatnonzero(feasible != self._feasible)

    def _sum_all(self, feasible: Mask) -> None:
        self.totals = _weighted_sum(((p.weight, p.normalized) for _, p in self._plugins), len(feasible))
        self._best = BestNodes(self.totals, feasible)

    def _sum_rows(self, rows: Slots, feasible: Mask, best: BestNodes) -> None:
        """Recompute the totals and the best nodes after only the nodes in the slots `rows` changed."""
        part = _weighted_sum(((p.weight, p.normalized.take(rows)) for _, p in self._plugins), len(rows))
        self.totals = patch_rows(self.totals, rows, part)
        self._best = best.update(rows, self.totals, feasible)


class _RawColumn(CachedColumn[Scores]):
    """One score plugin's cached raw scores of all nodes, feasible or not.

    No trace holds the array, so it may be changed in place.
    """

    def __init__(self, runner: ScoreRunner) -> None:
        super().__init__(runner.dependencies)
        self.column: Scores = np.zeros(0, np.int64)

    def replace(self, column: Scores) -> Slots | None:
        previous, self.column = self.column, column.astype(np.int64, casting="same_kind")
        return np.flatnonzero(previous != self.column) if len(previous) == len(column) else None

    def replace_rows(self, rows: Slots, part: Scores, slots: int) -> Slots:
        self.column[rows] = part.astype(np.int64, casting="same_kind", copy=False)
        return rows


class _PluginScores:
    """One score plugin's cached scores: raw of all nodes, raw of feasible nodes, and normalized."""

    def __init__(self, runner: ScoreRunner) -> None:
        self.weight = runner.weight
        self.unmasked = _RawColumn(runner)
        self.normalized: Scores = np.zeros(0, np.int64)
        self.run = runner.skipped
        self._runner = runner
        self._raw: Scores = np.zeros(0, np.int64)

    def refresh(
        self, changes: Changes, feasibility_changed: Slots | None, state: CycleState, pod: PodInfo, feasible: Mask
    ) -> Slots | None:
        """Bring the scores up to date; return the slots (row indices) of the nodes whose normalized score changed.

        Returns None if every score may have changed. `feasibility_changed` holds the slots of nodes that became
        feasible or infeasible, or None if every node may have. Raises PluginError if Score or NormalizeScore fails or
        returns an invalid score.
        """
        runner, raw, normalized = self._runner, self._raw, self.normalized
        try:
            changed = self.unmasked.refresh(
                changes, state, lambda nodes: runner.run(state, pod, nodes, changes, feasible)
            )
            rows = changes.merge(changed, feasibility_changed)
            rows = self._mask_all(feasible) if rows is None else self._mask_rows(rows, feasible)
        except (Exception, SystemExit) as e:
            raise PluginError(f'running Score plugins: plugin "{runner.name}" failed with: {e}') from e
        try:
            rows = self._normalize(changes, changes.merge(rows, feasibility_changed), state, pod, feasible)
        except (Exception, SystemExit) as e:
            raise PluginError(f"running Normalize on Score plugins: {e}") from e
        runner.validate(self.normalized if rows is None else self.normalized.take(rows))
        if self._raw is not raw or self.normalized is not normalized:
            self.run = ScoreRun(runner.name, runner.weight, self._raw, self.normalized)
        return rows

    def _mask_all(self, feasible: Mask) -> Slots | None:
        """Update all raw scores, with 0 for infeasible nodes; return the slots that differ, or None for every slot."""
        self._raw, rows = _keep_if_equal(self._raw, _mask_scores(self.unmasked.column, feasible))
        return rows

    def _mask_rows(self, rows: Slots, feasible: Mask) -> Slots:
        """Update the raw scores of the nodes in the slots `rows`; return `rows`, or no slots if no score differs."""
        previous = self._raw
        if len(rows):
            self._raw = patch_rows(previous, rows, np.where(feasible.take(rows), self.unmasked.column.take(rows), 0))
        return NO_ROWS if self._raw is previous else rows

    def _normalize(
        self, changes: Changes, rows: Slots | None, state: CycleState, pod: PodInfo, feasible: Mask
    ) -> Slots | None:
        """Normalize the raw scores; return the slots (row indices) of the nodes whose normalized score changed.

        Returns None if every score may have changed. `rows` holds the slots whose raw score or feasibility changed, or
        is None if every slot's may have. NormalizeScore needs the scores of all nodes, and does not run if nothing that
        it depends on changed.
        """
        normalizer, runner = self._runner.normalizer, self._runner
        if normalizer is None:
            self.normalized = self._raw
            return rows
        if rows is not None and not len(rows) and not changes.node_objects and not runner.depends_on_anything:
            return NO_ROWS
        scores = _mask_scores(normalizer.normalize(state, pod, self._raw, feasible), feasible)
        self.normalized, changed = _keep_if_equal(self.normalized, scores)
        return changed


class BestNodes:
    """The feasible nodes with the highest total; `slots` holds their slots (row indices), ascending.

    At least one node must be feasible.
    """

    def __init__(self, totals: Scores, feasible: Mask) -> None:
        candidates = np.where(feasible, totals, _LEAST)
        self._highest = int(candidates.max())
        self._is_best: Mask = candidates == self._highest  # changed in place
        self.slots: Slots = self._is_best.nonzero()[0]

    def update(self, rows: Slots, totals: Scores, feasible: Mask) -> BestNodes:
        """Return the best nodes after the total or feasibility of the nodes in the slots `rows` (at least one) changed.

        `self` is changed in place and returned. If none of its nodes is still best, the result is a new object.
        """
        candidates = np.where(feasible.take(rows), totals.take(rows), _LEAST)
        highest = int(candidates.max())
        if highest > self._highest:
            self._highest = highest
            self._is_best[:] = False
        self._is_best[rows] = candidates == self._highest
        self.slots = self._is_best.nonzero()[0]
        return self if len(self.slots) else BestNodes(totals, feasible)


def _weighted_sum(columns: Iterable[tuple[int, Scores]], slots: int) -> Scores:
    total = np.zeros(slots, np.int64)
    for weight, column in columns:
        total += column * weight if weight != 1 else column
    return total


def _mask_scores(scores: NDArray[Any], feasible: Mask) -> Scores:
    """Return a plugin's scores with 0 for infeasible nodes. Raises TypeError if the scores are not integers."""
    return np.where(feasible, scores, 0).astype(np.int64, casting="same_kind", copy=False)


def _keep_if_equal(previous: Scores, column: Scores) -> tuple[Scores, Slots | None]:
    """Return `previous` if both arrays are equal, else `column`, with the indices at which they differ.

    The indices are None if the lengths differ.
    """
    if len(previous) != len(column):
        return column, None
    rows = np.flatnonzero(previous != column)
    return (column, rows) if len(rows) else (previous, NO_ROWS)
