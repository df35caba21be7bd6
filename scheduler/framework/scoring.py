"""From raw points to the best nodes: masked, normalised, weighed, added up; in rows that changed, where a spec came
before.

Owns: what is worked out from score plugins' points, and the rules for those. Does not own: which plugins are skipped
(`runtime`), extenders' points (`extenders`), the draw among the best (`cycle`).

Invariant: points of nodes that are not feasible are 0 in every column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.columns import NodeColumns
from scheduler.framework.errors import PluginError
from scheduler.framework.interface import MAX_NODE_SCORE, Mask, NormalizeScore, Score, Scores
from scheduler.framework.plugin import Follows
from scheduler.framework.recall import NO_ROWS, Asked, Changes, Phase, Recall, Slots, Standing, patched
from scheduler.framework.state import CycleState
from scheduler.framework.trace import ScoreRun
from scheduler.objects.pod import PodInfo

_LEAST: Final = np.iinfo(np.int64).min  # below every total


class Scorer:
    """A score plugin of a profile, ready to be asked."""

    def __init__(self, plugin: Score, weight: int) -> None:
        self.name = plugin.name
        self.weight = weight
        self.skipped = ScoreRun(plugin.name, weight)
        self.asked = Asked.at("score", plugin)
        self.restless = self.asked.follows is Follows.ANYTHING
        self.normalizer = plugin if isinstance(plugin, NormalizeScore) else None
        self._plugin = plugin

    def points(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, changes: Changes, feasible: Mask) -> Scores:
        """What it gives these nodes. Who is asked about some of them only does not look at `feasible`."""
        return self._plugin.score(state, pod, nodes, feasible if nodes is changes.nodes else nodes.live)

    def check(self, points: Scores) -> None:
        """PluginError where normalised points are out of range."""
        if np.count_nonzero(points.view(np.uint64) > MAX_NODE_SCORE):  # seen as unsigned, what is negative is large
            low, high = int(points.min()), int(points.max())
            raise PluginError(
                f'plugin "{self.name}" returns an invalid score {low if low < 0 else high},'
                f" it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
            )


class Totals(Phase):
    """What a profile's score plugins gave for one spec, what it adds up to, and the nodes with the most."""

    def __init__(self, scorers: Sequence[Scorer], skip: Set[str]) -> None:
        super().__init__(skip)
        self._weighed = [(i, _Weighed(scorer)) for i, scorer in enumerate(scorers) if scorer.name not in skip]
        self._moving = [(i, weighed) for i, weighed in self._weighed if weighed.given.moves]
        self.runs = [scorer.skipped for scorer in scorers]
        self.totals: Scores = np.zeros(0, np.int64)
        self._best: Best | None = None
        self._feasible: Mask = np.zeros(0, np.bool_)

    def bring(self, recall: Recall, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> None:
        """Ask about what may have changed. PluginError where that does not work out."""
        changes = self.begin(recall, nodes)
        turned = None if changes.rows is None else self._turned(feasible)
        changed = turned
        every = changes.objects or turned is None or len(turned)
        for i, weighed in self._weighed if every else self._moving:
            changed = changes.few(changed, weighed.bring(changes, turned, state, pod, feasible))
            self.runs[i] = weighed.run
        self._add_up(changed, feasible)
        self._feasible = feasible
        self.end(nodes)

    @property
    def best(self) -> Slots:
        """The feasible slots with the most, ascending."""
        return NO_ROWS if self._best is None else self._best.slots

    def _turned(self, feasible: Mask) -> Slots:
        """The nodes that became feasible, or are not any more."""
        return NO_ROWS if feasible is self._feasible else np.flatnonzero(feasible != self._feasible)

    def _add_up(self, rows: Slots | None, feasible: Mask) -> None:
        best = self._best
        if best is None or rows is None:
            self.totals = _sum(((w.weight, w.normalized) for _, w in self._weighed), len(feasible))
            self._best = Best(self.totals, feasible)
        elif len(rows):
            part = _sum(((w.weight, w.normalized.take(rows)) for _, w in self._weighed), len(rows))
            self.totals = patched(self.totals, rows, part)
            self._best = best.changed(rows, self.totals, feasible)


class _Given(Standing[Scores]):
    """What one plugin gave, to nodes that are not feasible too. No trace holds it: it is changed in place."""

    def __init__(self, scorer: Scorer) -> None:
        super().__init__(scorer.asked)
        self.column: Scores = np.zeros(0, np.int64)

    def take(self, column: Scores) -> Slots | None:
        """A whole column."""
        before, self.column = self.column, column.astype(np.int64, casting="same_kind")
        return np.flatnonzero(before != self.column) if len(before) == len(column) else None

    def take_rows(self, rows: Slots, part: Scores, slots: int) -> Slots:
        """Some rows."""
        self.column[rows] = part.astype(np.int64, casting="same_kind", copy=False)
        return rows


class _Weighed:
    """One score plugin's columns."""

    def __init__(self, scorer: Scorer) -> None:
        self.weight = scorer.weight
        self.given = _Given(scorer)
        self.normalized: Scores = np.zeros(0, np.int64)
        self.run = scorer.skipped
        self._scorer = scorer
        self._raw: Scores = np.zeros(0, np.int64)

    def bring(
        self, changes: Changes, turned: Slots | None, state: CycleState, pod: PodInfo, feasible: Mask
    ) -> Slots | None:
        """Ask for points; the rows in which the normalised ones changed, None where these may be any.

        `turned`: the rows of which `feasible` is not what it was.
        """
        scorer, raw, normalized = self._scorer, self._raw, self.normalized
        try:
            given = self.given.bring(changes, state, lambda nodes: scorer.points(state, pod, nodes, changes, feasible))
            rows = self._mask(changes.few(given, turned), feasible)
        except (Exception, SystemExit) as e:
            raise PluginError(f'running Score plugins: plugin "{scorer.name}" failed with: {e}') from e
        try:
            rows = self._normalize(changes, changes.few(rows, turned), state, pod, feasible)
        except (Exception, SystemExit) as e:
            raise PluginError(f"running Normalize on Score plugins: {e}") from e
        scorer.check(self.normalized if rows is None else self.normalized.take(rows))
        if self._raw is not raw or self.normalized is not normalized:
            self.run = ScoreRun(scorer.name, scorer.weight, self._raw, self.normalized)
        return rows

    def _mask(self, rows: Slots | None, feasible: Mask) -> Slots | None:
        """Raw points from what was given in these rows; the rows in which they may differ."""
        before = self._raw
        if rows is None:
            self._raw, rows = _instead(before, _points(self.given.column, feasible))
        elif len(rows):
            self._raw = patched(before, rows, np.where(feasible.take(rows), self.given.column.take(rows), 0))
        return NO_ROWS if self._raw is before else rows

    def _normalize(
        self, changes: Changes, rows: Slots | None, state: CycleState, pod: PodInfo, feasible: Mask
    ) -> Slots | None:
        """Normalised points from raw ones that differ in these rows; the rows in which the normalised ones do."""
        normalizer, scorer = self._scorer.normalizer, self._scorer
        if normalizer is None:
            self.normalized = self._raw
            return rows
        if rows is not None and not len(rows) and not changes.objects and not scorer.restless:
            return NO_ROWS
        points = _points(normalizer.normalize(state, pod, self._raw, feasible), feasible)
        self.normalized, changed = _instead(self.normalized, points)
        return changed


class Best:
    """The feasible slots with the highest total, of at least one feasible slot. `slots`: these, ascending."""

    def __init__(self, totals: Scores, feasible: Mask) -> None:
        counted = np.where(feasible, totals, _LEAST)
        self._highest = int(counted.max())
        self._among: Mask = counted == self._highest  # changed in place
        self.slots: Slots = self._among.nonzero()[0]

    def changed(self, rows: Slots, totals: Scores, feasible: Mask) -> Best:
        """Where only the totals of these rows are others, or whether they count."""
        counted = np.where(feasible.take(rows), totals.take(rows), _LEAST)
        highest = int(counted.max())
        if highest > self._highest:
            self._highest = highest
            self._among[:] = False
        self._among[rows] = counted == self._highest
        self.slots = self._among.nonzero()[0]
        return self if len(self.slots) else Best(totals, feasible)


def _sum(columns: Iterable[tuple[int, Scores]], slots: int) -> Scores:
    total = np.zeros(slots, np.int64)
    for weight, column in columns:
        total += column * weight if weight != 1 else column
    return total


def _points(given: NDArray[Any], feasible: Mask) -> Scores:
    """A plugin's points, 0 where the node is not feasible. TypeError when they are no integers."""
    return np.where(feasible, given, 0).astype(np.int64, casting="same_kind", copy=False)


def _instead(before: Scores, now: Scores) -> tuple[Scores, Slots | None]:
    """The column to go on with, the one before where nothing differs; and the rows in which they differ."""
    if len(before) != len(now):
        return now, None
    rows = np.flatnonzero(before != now)
    return (now, rows) if len(rows) else (before, NO_ROWS)
