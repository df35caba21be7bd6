"""What a decision adds to the histories of its nodes, counted column by column in slot order.

Owns: which counters there are and what each means. Does not own: where they are kept (`rollups`), or how a history
reads (`herodotus_endpoint.api.node_history`). Pure and vectorised: no loop over nodes, and decisions of
one template that differ in their scores alone are counted together.

Counters of a node (`Name.plugin.detail`):

    considered, evaluated, feasible, chosen     decisions in which it was so
    scored, total                               attempts in which it was scored; its totals added up
    score.PLUGIN                                its weighted scores added up
    filter_evaluated.F, filter_rejected.F       what filter F said of it, whatever other filters said
    filter_reached.F, filter_blocked.F          the same as a scheduler sees it that stops at the first rejection
    reason.F.CODE[/RESOURCE]                    why F rejected it
    won, lead, tied, carried.PLUGIN             chosen against others: points ahead of the next, and what carried it
    lost, behind, cost.PLUGIN                   feasible but not chosen: points behind, and weighted points against it

Invariant: the columns of one `Counted` belong to one assignment of nodes to slots.
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
    """The name of a counter, with plugin and detail."""

    counter: str
    plugin: str = ""
    detail: str = ""


@dataclass
class _Run:
    """Decisions of one template that differ in nothing but their scores: counted at once when the run ends."""

    like: Decision
    feasible: Mask
    contest: bool  # a node was chosen against others
    decisions: int = 1
    totals: ColumnSum = field(default_factory=lambda: ColumnSum())
    normalized: dict[str, ColumnSum] = field(default_factory=dict)
    chosen_totals: int = 0
    chosen_points: dict[str, int] = field(default_factory=dict)  # weighted, of each plugin

    def continues(self, decision: Decision, feasible: Mask) -> bool:
        """Whether the decision differs from those of the run in nothing but its scores."""
        a, b = self.like, decision
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
    """A column added up over decisions. One that is the same again is added later, once: most are."""

    column: Column = field(default_factory=empty_column)
    again: int = 0
    before: Ints | None = None

    def add(self, column: Column) -> None:
        """Add one decision's column."""
        if self.again and (column is self.column or column == self.column):
            self.again += 1
            return
        self.before = self.value() if self.again else None
        self.column, self.again = column, 1

    def value(self) -> Ints:
        """The sums, by slot. May be changed by the next `add`."""
        more = as_numpy(self.column)
        if self.before is None:
            return more.astype(np.int64) * self.again
        self.before += more if self.again == 1 else more.astype(np.int64) * self.again
        return self.before


@dataclass
class DecisionCounts:
    """Counters in slot order, and how often a workload went to a slot and why. Complete after `finish`."""

    slots: int
    columns: dict[CounterName, Ints] = field(default_factory=dict)
    workloads: dict[tuple[str, int], int] = field(default_factory=dict)
    decided: dict[tuple[str, str, int], PlacementCount] = field(default_factory=dict)  # by workload, reason and slot
    _runs: dict[tuple[str, str], _Run] = field(default_factory=dict)  # the open one of each namespace and template

    def count(self, decision: Decision) -> None:
        """Add one decision to the counters."""
        feasible: Mask = as_numpy(decision.rank) > 0
        template = (decision.pod.namespace, decision.pod.digest)
        run = self._runs.get(template)
        if run and run.continues(decision, feasible):
            run.decisions += 1
        else:
            if run:
                self._end(run)
            contest = decision.chosen is not None and int(np.count_nonzero(feasible)) > 1
            run = self._runs[template] = _Run(decision, feasible, contest)
        if decision.chosen is not None:
            self._bump(CounterName("chosen"), decision.chosen)
            key = (workload_name(decision), decision.chosen)
            self.workloads[key] = self.workloads.get(key, 0) + 1
        contested = self._scores(run, decision) if len(decision.totals) else None
        if decision.chosen is not None:
            by, points = contested or (_UNCONTESTED.get(decision.path, UNSCORED), None)
            reason = (workload_name(decision), by, decision.chosen)
            self.decided[reason] = PlacementCount(1, points).add(self.decided.get(reason, NO_PLACEMENTS))

    def finish(self) -> None:
        """Count what is still gathered."""
        for run in self._runs.values():
            self._end(run)
        self._runs.clear()

    @cached_property
    def block(self) -> Ints:
        """A row a slot of all columns, when all is counted."""
        return np.stack(list(self.columns.values()), axis=1)

    def _scores(self, run: _Run, decision: Decision) -> tuple[str, int] | None:
        """Add its scores. What decided and by how many points, where it was a contest."""
        run.totals.add(decision.totals)
        scores = [s for s in decision.scores if not s.skipped and len(s.normalized)]
        for s in scores:
            run.normalized.setdefault(s.plugin, ColumnSum()).add(s.normalized)
        if decision.chosen is not None and run.contest:
            return self._contest(run, decision, decision.chosen, scores)
        return None

    def _contest(self, run: _Run, decision: Decision, chosen: int, scores: list[ScoreColumn]) -> tuple[str, int]:
        """The chosen node against the next best: the plugin that carried it, or TIE, and how far it is ahead."""
        best, next_best = _first_two(decision, chosen)
        self._bump(CounterName("lost"), chosen, -1)  # the run counts every feasible node as one that lost
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

    def _end(self, run: _Run) -> None:
        """Count a run: what its decisions share times their number, and the sums of their scores."""
        evaluation = as_numpy(run.like.evaluation)
        evaluated: Mask = evaluation == Evaluation.EVALUATED
        every, fits = evaluated * np.int64(run.decisions), run.feasible * np.int64(run.decisions)
        self._add(CounterName("considered"), (evaluation != Evaluation.ABSENT) * np.int64(run.decisions))
        self._add(CounterName("evaluated"), every)
        self._add(CounterName("feasible"), fits)
        self._filters(run.like, every)
        if not len(run.like.totals):
            return
        totals = run.totals.value() * run.feasible
        self._add(CounterName("scored"), fits)
        self._add(CounterName("total"), totals)
        if run.contest:
            self._add(CounterName("lost"), fits)
            self._add(CounterName("behind"), run.chosen_totals * run.feasible - totals)
        for s in run.like.scores:
            if s.plugin in run.normalized:
                points = run.normalized[s.plugin].value() * s.weight * run.feasible
                self._add(CounterName("score", s.plugin), points)
                if run.contest:
                    self._add(CounterName("cost", s.plugin), points - run.chosen_points[s.plugin] * run.feasible)

    def _filters(self, decision: Decision, every: Ints) -> None:
        """`every`: in how many decisions each node was evaluated."""
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
            self._reasons(f, ids, every)
            reached = reached * ~rejected

    def _reasons(self, f: FilterColumn, ids: NDArray[Any], every: Ints) -> None:
        """One column a code, however many parameters its verdicts differ in."""
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


def _first_two(decision: Decision, chosen: int) -> tuple[int, int]:
    """How many nodes are of rank 1, and the best one beside the chosen node, where there is one."""
    ranks = as_numpy(decision.rank)
    best = np.flatnonzero(ranks == 1)
    others = best[best != chosen]
    return len(best), int(others[0] if len(others) else (ranks == 2).argmax())


def _shape(score: ScoreColumn) -> tuple[str, int, bool, int]:
    """What of a score's column does not depend on the nodes' points."""
    return score.plugin, score.weight, score.skipped, len(score.normalized)


def reason_detail(reason: Reason) -> str:
    """What reasons are counted by: the code, and the resource where they are about one."""
    resource = reason.params.get("resource", "")
    return f"{reason.code}/{resource}" if resource else reason.code


def workload_name(decision: Decision) -> str:
    """`namespace/Kind/name` of what the pod belongs to: its owner as recorded, the Deployment behind a ReplicaSet."""
    pod = decision.pod
    if pod.owner is None:
        return f"{pod.namespace}/Pod/{pod.name}"
    suffix = f"-{pod.labels.get('pod-template-hash', '')}"
    if pod.owner.kind == "ReplicaSet" and len(suffix) > 1 and pod.owner.name.endswith(suffix):
        return f"{pod.namespace}/Deployment/{pod.owner.name.removesuffix(suffix)}"
    return f"{pod.namespace}/{pod.owner.kind}/{pod.owner.name}"
