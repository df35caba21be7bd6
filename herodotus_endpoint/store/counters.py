"""The counters that decisions add to the histories of their nodes, as columns in slot order.

Owns: the counters and their meanings. Does not own: storing counters (`rollups`), documents
(`herodotus_endpoint.api.node_history`). Pure and vectorised: no loop runs over nodes, and decisions of one template
that differ only in scores are counted together.

Counters of a node (`Name.plugin.detail`):

    considered, evaluated, feasible, chosen     decisions in which the node was that
    scored, total                               attempts in which it was scored; sum of its totals
    score.PLUGIN                                sum of its weighted scores
    filter_evaluated.F, filter_rejected.F       verdicts of filter F, independent of other filters
    filter_reached.F, filter_blocked.F          the same if evaluation stopped at the first rejection
    reason.F.CODE[/RESOURCE]                    reasons why F rejected the node
    won, lead, tied, carried.PLUGIN             chosen among several nodes: points ahead of the next, deciding plugin
    lost, behind, cost.PLUGIN                   feasible but not chosen: points behind, weighted points lost by plugin

Invariant: the columns of one `DecisionCounts` belong to one assignment of nodes to slots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record.codec import as_numpy
from herodotus_record.model import (
    NOT_RUN,
    Column,
    Decision,
    DecisionPath,
    Evaluation,
    FilterColumn,
    Reason,
    ScoreColumn,
    empty_column,
)
from herodotus_record.placements import NOMINATED, ONLY, TIE, UNSCORED, PlacementCount

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
OTHER: Final = "other"
NO_PLACEMENTS: Final = PlacementCount(0, None)
_UNCONTESTED: Final = {DecisionPath.ONLY_FEASIBLE: ONLY, DecisionPath.NOMINATED: NOMINATED}


class CounterName(NamedTuple):
    """The name of a node counter: what it counts, for which plugin, and a detail such as a reason code."""

    counter: str
    plugin: str = ""
    detail: str = ""


@dataclass
class _DecisionRun:
    """A run of consecutive decisions for one pod template that differ only in scores and the chosen node.

    Its decisions are added to the counters together when the run ends.
    """

    first: Decision
    feasible: Mask
    contest: bool  # whether a node was chosen among several feasible nodes
    decisions: int = 1
    totals: ColumnSum = field(default_factory=lambda: ColumnSum())
    normalized: dict[str, ColumnSum] = field(default_factory=dict)
    chosen_totals: int = 0
    chosen_points: dict[str, int] = field(default_factory=dict)  # sum of weighted scores of the chosen nodes, by plugin

    def continues(self, decision: Decision, feasible: Mask) -> bool:
        """Return whether a decision belongs to this run: it differs only in scores and the chosen node.

        `feasible` is the decision's mask of feasible nodes, with an entry per node slot.
        """
        a, b = self.first, decision
        return (
            (a.evaluation is b.evaluation or a.evaluation == b.evaluation)
            and (a.chosen is None) == (b.chosen is None)
            and len(a.totals) == len(b.totals)
            and a.filters == b.filters
            and [_shape(s) for s in a.scores] == [_shape(s) for s in b.scores]
            and np.array_equal(self.feasible, feasible)
        )


@dataclass
class ColumnSum:
    """The sum over decisions of an array with an entry per node slot, such as the scores of one plugin.

    Most arrays equal the one before. Equal arrays are therefore counted and multiplied once, instead of being added.
    """

    column: Column = field(default_factory=empty_column)
    repeats: int = 0
    before: Ints | None = None

    def add(self, column: Column) -> None:
        """Add the array of one decision to the sum."""
        if self.repeats and (column is self.column or column == self.column):
            self.repeats += 1
            return
        self.before = self.value() if self.repeats else None
        self.column, self.repeats = column, 1

    def value(self) -> Ints:
        """Return the sums, one for each node slot. The next `add` may change the returned array."""
        more = as_numpy(self.column)
        if self.before is None:
            return more.astype(np.int64) * self.repeats
        self.before += more if self.repeats == 1 else more.astype(np.int64) * self.repeats
        return self.before


@dataclass
class DecisionCounts:
    """Counters that a set of decisions adds to the histories of their nodes.

    `columns` has an array for each counter, with an entry per node slot. `workloads` and `decided` count placements by
    workload and node slot, and `decided` also by the factor that decided for the node. The counts are complete after
    `finish`.
    """

    slots: int
    columns: dict[CounterName, Ints] = field(default_factory=dict)
    workloads: dict[tuple[str, int], int] = field(default_factory=dict)
    decided: dict[tuple[str, str, int], PlacementCount] = field(
        default_factory=dict
    )  # by workload, deciding factor and slot
    _runs: dict[tuple[str, str], _DecisionRun] = field(
        default_factory=dict
    )  # the current run of each namespace and template

    def count(self, decision: Decision) -> None:
        """Add one decision to the counters."""
        feasible: Mask = as_numpy(decision.rank) > 0
        template = (decision.pod.namespace, decision.pod.digest)
        run = self._runs.get(template)
        if run and run.continues(decision, feasible):
            run.decisions += 1
        else:
            if run:
                self._count_run(run)
            contest = decision.chosen is not None and int(np.count_nonzero(feasible)) > 1
            run = self._runs[template] = _DecisionRun(decision, feasible, contest)
        if decision.chosen is not None:
            self._bump(CounterName("chosen"), decision.chosen)
            key = (workload_name(decision), decision.chosen)
            self.workloads[key] = self.workloads.get(key, 0) + 1
        contested = self._add_scores(run, decision) if len(decision.totals) else None
        if decision.chosen is not None:
            by, points = contested or (_UNCONTESTED.get(decision.path, UNSCORED), None)
            reason = (workload_name(decision), by, decision.chosen)
            self.decided[reason] = PlacementCount(1, points).add(self.decided.get(reason, NO_PLACEMENTS))

    def finish(self) -> None:
        """Add the decisions that `count` has collected, but not counted yet, to the counters. Call it last."""
        for run in self._runs.values():
            self._count_run(run)
        self._runs.clear()

    @cached_property
    def block(self) -> Ints:
        """All counters as one array, with a row per node slot and a column per counter. Read it only after `finish`."""
        return np.stack(list(self.columns.values()), axis=1)

    def _add_scores(self, run: _DecisionRun, decision: Decision) -> tuple[str, int] | None:
        """Add a decision's scores to its run; return the deciding plugin and the chosen node's lead in points.

        Returns None if the node was not chosen among several feasible nodes. See `_count_contest`.
        """
        run.totals.add(decision.totals)
        scores = [s for s in decision.scores if not s.skipped and len(s.normalized)]
        for s in scores:
            run.normalized.setdefault(s.plugin, ColumnSum()).add(s.normalized)
        if decision.chosen is not None and run.contest:
            return self._count_contest(run, decision, decision.chosen, scores)
        return None

    def _count_contest(
        self, run: _DecisionRun, decision: Decision, chosen: int, scores: list[ScoreColumn]
    ) -> tuple[str, int]:
        """Compare the chosen node with the next best node; return the deciding plugin and the lead in points.

        The plugin is that with the largest part in the lead, or TIE if nodes share the best total or no plugin prefers
        the chosen node. `chosen` is the slot of the chosen node.
        """
        best, next_best = _find_best_two(decision, chosen)
        self._bump(CounterName("lost"), chosen, -1)  # the run counts each feasible node as lost, also the chosen one
        self._bump(CounterName("won"), chosen)
        points = decision.totals[chosen] - decision.totals[next_best]
        self._bump(CounterName("lead"), chosen, points)
        run.chosen_totals += decision.totals[chosen]
        for s in scores:
            run.chosen_points[s.plugin] = run.chosen_points.get(s.plugin, 0) + s.normalized[chosen] * s.weight
        shares = sorted(((s.normalized[next_best] - s.normalized[chosen]) * s.weight, s.plugin) for s in scores)
        if best > 1 or not shares or shares[0][0] >= 0:
            self._bump(CounterName("tied"), chosen)
            return TIE, points
        self._bump(CounterName("carried", shares[0][1]), chosen)
        return shares[0][1], points

    def _count_run(self, run: _DecisionRun) -> None:
        """Add the decisions of a run to the counters.

        Values that its decisions share are multiplied by their number; scores are added as sums.
        """
        evaluation = as_numpy(run.first.evaluation)
        evaluated: Mask = evaluation == Evaluation.EVALUATED
        every, feasible_counts = evaluated * np.int64(run.decisions), run.feasible * np.int64(run.decisions)
        self._add(CounterName("considered"), (evaluation != Evaluation.ABSENT) * np.int64(run.decisions))
        self._add(CounterName("evaluated"), every)
        self._add(CounterName("feasible"), feasible_counts)
        self._count_filters(run.first, every)
        if not len(run.first.totals):
            return
        totals = run.totals.value() * run.feasible
        self._add(CounterName("scored"), feasible_counts)
        self._add(CounterName("total"), totals)
        if run.contest:
            self._add(CounterName("lost"), feasible_counts)
            self._add(CounterName("behind"), run.chosen_totals * run.feasible - totals)
        for s in run.first.scores:
            if s.plugin in run.normalized:
                points = run.normalized[s.plugin].value() * s.weight * run.feasible
                self._add(CounterName("score", s.plugin), points)
                if run.contest:
                    self._add(CounterName("cost", s.plugin), points - run.chosen_points[s.plugin] * run.feasible)

    def _count_filters(self, decision: Decision, every: Ints) -> None:
        """Count the verdicts of each filter and the reasons of its rejections, by node.

        `every` has an entry per node slot: how many decisions of the run evaluated the node.
        """
        reached = every
        for f in decision.filters:
            self._add(CounterName("filter_reached", f.plugin), reached)
            if f.skipped:
                continue
            if not len(f.ids):
                self._add(CounterName("filter_evaluated", f.plugin), every)
                continue
            ids = as_numpy(f.ids)
            ran = np.array([v != NOT_RUN for v in f.verdicts])
            self._add(CounterName("filter_evaluated", f.plugin), ran[ids] * every)
            rejected = np.array([v.rejects_node for v in f.verdicts])[ids]
            self._add(CounterName("filter_rejected", f.plugin), rejected * every)
            self._add(CounterName("filter_blocked", f.plugin), rejected * reached)
            self._count_reasons(f, ids, every)
            reached = reached * ~rejected

    def _count_reasons(self, f: FilterColumn, ids: NDArray[Any], every: Ints) -> None:
        """Count how often filter `f` rejected each node, by `reason_detail` of the reasons.

        `ids` has the index into `f.verdicts` for each node slot; `every` has how often the node was evaluated.
        """
        holds: dict[str, NDArray[np.bool_]] = {}
        for verdict_id, verdict in enumerate(f.verdicts):
            for reason in verdict.reasons:
                holds.setdefault(reason_detail(reason), np.zeros(len(f.verdicts), np.bool_))[verdict_id] = True
        for code, verdict_has in holds.items():
            self._add(CounterName("reason", f.plugin, code), verdict_has[ids] * every)

    def _add(self, name: CounterName, values: Ints) -> None:
        self._column(name)[:] += values

    def _bump(self, name: CounterName, slot: int, by: int = 1) -> None:
        self._column(name)[slot] += by

    def _column(self, name: CounterName) -> Ints:
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = np.zeros(self.slots, np.int64)
        return column


def _find_best_two(decision: Decision, chosen: int) -> tuple[int, int]:
    """Return the number of nodes with rank 1, and the slot of the best node apart from the one in slot `chosen`."""
    ranks = as_numpy(decision.rank)
    best = np.flatnonzero(ranks == 1)
    others = best[best != chosen]
    return len(best), int(others[0] if len(others) else (ranks == 2).argmax())


def _shape(score: ScoreColumn) -> tuple[str, int, bool, int]:
    """Return plugin, weight, whether skipped, and length of a score column.

    Decisions can be counted in one run only if these values are equal for all their score columns.
    """
    return score.plugin, score.weight, score.skipped, len(score.normalized)


def reason_detail(reason: Reason) -> str:
    """Return the key under which a reason is counted: CODE, or CODE/RESOURCE if the reason names a resource."""
    resource = reason.params.get("resource", "")
    return f"{reason.code}/{resource}" if resource else reason.code


def workload_name(decision: Decision) -> str:
    """Return `namespace/Kind/name` of the workload to which the decision's pod belongs.

    The workload is the pod's owner, the Deployment if the owner is a Deployment's ReplicaSet, or the pod itself if it
    has no owner.
    """
    pod = decision.pod
    if pod.owner is None:
        return f"{pod.namespace}/Pod/{pod.name}"
    suffix = f"-{pod.labels.get('pod-template-hash', '')}"
    if pod.owner.kind == "ReplicaSet" and len(suffix) > 1 and pod.owner.name.endswith(suffix):
        return f"{pod.namespace}/Deployment/{pod.owner.name.removesuffix(suffix)}"
    return f"{pod.namespace}/{pod.owner.kind}/{pod.owner.name}"
