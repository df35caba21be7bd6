"""From raw points to totals: masked, normalised, weighed, added up; where a spec came before, in rows that changed.

Owns: what is worked out from score plugins' points, and the rules for those. Does not own: which plugins are asked
(`runtime`), extenders' points (`extenders`).

Invariant: points of nodes that are not feasible are 0 in every column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.columns import NodeColumns
from scheduler.framework.errors import PluginError
from scheduler.framework.interface import MAX_NODE_SCORE, Mask, NormalizeScore, Score, Scores
from scheduler.framework.recall import NO_ROWS, Asked, Place, Recall, Slots
from scheduler.framework.state import CycleState
from scheduler.framework.trace import ScoreRun
from scheduler.objects.pod import PodInfo


class Scorer:
    """A score plugin of a profile, ready to be asked."""

    def __init__(self, plugin: Score, weight: int) -> None:
        self.name = plugin.name
        self.weight = weight
        self.skipped = ScoreRun(plugin.name, weight)
        self.normalizer = plugin if isinstance(plugin, NormalizeScore) else None
        self._plugin = plugin
        self._asked = Asked.at("score", plugin)

    def run(
        self, recall: Recall, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Place[Mask]
    ) -> Weighed:
        """Ask for the points, and bring them to 0 to 100. PluginError where that does not work out."""
        kept = recall.place(self, lambda: Weighed(self))

        def ask(some: NodeColumns) -> Scores:  # who is asked about some rows does not look at `feasible`
            given = self._plugin.score(state, pod, some, feasible.column if some is nodes else some.live)
            # of one type, so that what is patched into it fits; a view is of something that may change
            return given.astype(np.int64, casting="same_kind", copy=given.base is not None)

        try:
            recall.bring(kept.given, self._asked, state, nodes, ask)
            follows = (kept.given.version, feasible.version, nodes.node_generation)
            if kept.follows == follows and self._asked.recalls:
                return kept
            self._mask(recall, kept, feasible)
        except (Exception, SystemExit) as e:
            raise PluginError(f'running Score plugins: plugin "{self.name}" failed with: {e}') from e
        if self.normalizer is not None:
            try:
                points = self.normalizer.normalize(state, pod, kept.raw.column, feasible.column)
                kept.normalized.settle(_points(points, feasible.column))
            except (Exception, SystemExit) as e:
                raise PluginError(f"running Normalize on Score plugins: {e}") from e
        self._check(kept)
        kept.follows = follows
        raw, normalized = kept.raw.column, kept.normalized.column
        if kept.run.raw is not raw or kept.run.normalized is not normalized:
            kept.run = ScoreRun(self.name, self.weight, raw, normalized)
        return kept

    def _mask(self, recall: Recall, kept: Weighed, feasible: Place[Mask]) -> None:
        given, mask = kept.given.column, feasible.column
        rows = None
        if kept.follows is not None:
            rows = recall.few(kept.given.since(kept.follows[0]), feasible.since(kept.follows[1]))
        if rows is None:
            kept.raw.settle(_points(given, mask))
        else:
            kept.raw.patch(rows, _points(given[rows], mask[rows]), recall.slots)

    def _check(self, kept: Weighed) -> None:
        rows = kept.normalized.since(kept.checked)
        points = kept.normalized.column if rows is None else kept.normalized.column[rows]
        if (points.view(np.uint64) > MAX_NODE_SCORE).any():  # seen as unsigned, what is negative is large
            low, high = int(points.min()), int(points.max())
            raise PluginError(
                f'plugin "{self.name}" returns an invalid score {low if low < 0 else high},'
                f" it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
            )
        kept.checked = kept.normalized.version


class Weighed:
    """One score plugin's columns of one spec."""

    def __init__(self, scorer: Scorer) -> None:
        self.weight = scorer.weight
        self.given: Place[Scores] = Place()  # what it said, of nodes that are not feasible too
        self.raw: Place[Scores] = Place()
        self.normalized: Place[Scores] = self.raw if scorer.normalizer is None else Place()
        self.checked = 0  # the version of the normalised points that is known to be in range
        self.follows: tuple[int, int, int] | None = None  # what `run` follows from
        self.run = scorer.skipped


def totals(recall: Recall, weighed: list[Weighed]) -> Scores:
    """What the plugins' points add up to."""
    kept = recall.place("totals", _Totals)
    rows = kept.changed(recall, weighed)
    if rows is None:
        kept.place.settle(_sum(((w.weight, w.normalized.column) for w in weighed), recall.slots))
    elif len(rows):
        part = _sum(((w.weight, w.normalized.column[rows]) for w in weighed), len(rows))
        kept.place.patch(rows, part, recall.slots)
    kept.weighed, kept.versions = weighed, [w.normalized.version for w in weighed]
    return kept.place.column


class _Totals:
    """What plugins' points added up to."""

    def __init__(self) -> None:
        self.place: Place[Scores] = Place()
        self.weighed: list[Weighed] | None = None
        self.versions: list[int] = []

    def changed(self, recall: Recall, weighed: list[Weighed]) -> Slots | None:
        """The rows where they add up to something else now; None where these may be any."""
        if weighed != self.weighed:  # some plugin was skipped, or is not any more
            return None
        rows: Slots | None = NO_ROWS
        for one, version in zip(weighed, self.versions, strict=True):
            if one.normalized.version != version:
                rows = recall.few(rows, one.normalized.since(version))
        return rows


def _sum(columns: Iterable[tuple[int, Scores]], slots: int) -> Scores:
    total = np.zeros(slots, np.int64)
    for weight, column in columns:
        total += column * weight if weight != 1 else column
    return total


def _points(given: NDArray[Any], feasible: Mask) -> Scores:
    """A plugin's points, 0 where the node is not feasible. TypeError when they are no integers."""
    return np.where(feasible, given, 0).astype(np.int64, casting="same_kind", copy=False)
