"""The counters that decisions add to the histories of their nodes, as columns in slot order.

Owns: the counters and their meanings. Does not own: storing counters (`rollups`), documents
(`herodotus_answers.node`). Pure and vectorised: no loop runs over nodes, and decisions of one template are
counted together. Where a node's results change between them, only its entries are counted apart.

Counters of a node (`Name.plugin.detail`):

    considered, evaluated, feasible, chosen     decisions in which the node was that
    not_evaluated..WHY                          decisions that did not evaluate the node, by `Evaluation.label`
    misfit                                      chosen, by another scheduler, although a filter rejects the node
    scored, total                               attempts in which it was scored; sum of its totals
    score.PLUGIN                                sum of its weighted scores
    filter_evaluated.F, filter_rejected.F       verdicts of filter F, independent of other filters
    filter_reached.F, filter_blocked.F          the same if evaluation stopped at the first rejection
    reason.F.CODE[/RESOURCE]                    reasons why F rejected the node
    won, lead, tied, carried.PLUGIN             chosen among several nodes: points ahead of the next, deciding plugin
    outscored                                   chosen although another node scores higher: no lead, no such plugin
    lost, behind, cost.PLUGIN                   feasible but not chosen: points behind, weighted points lost by plugin
    ahead                                       lost to a node that scores less or does not fit: no points, no plugin

Invariant: the columns of one `DecisionCounts` belong to one assignment of nodes to slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_answers.node import CounterName
from herodotus_answers.workload import NOMINATED, ONLY, OUTSCORED, TIE, UNSCORED, PlacementCount
from herodotus_record.codec import DERIVED, as_numpy
from herodotus_record.model import (
    NOT_RUN,
    SUCCESS,
    Column,
    Decision,
    DecisionPath,
    Evaluation,
    FilterColumn,
    Reason,
    ScoreColumn,
    Verdict,
    empty_column,
)

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
OTHER: Final = "other"
NO_PLACEMENTS: Final = PlacementCount(0, None)
MIN_SHARE_OF_ROWS: Final = 4  # if more than a quarter of the nodes change, counting all nodes is as fast
_INFEASIBLE: Final = np.int64(-1 << 62)  # below all totals and negated ranks
_NOT_EVALUATED: Final = [why for why in Evaluation if why not in (Evaluation.EVALUATED, Evaluation.ABSENT)]
_COUNTED_APART: Final = {TIE: CounterName("tied"), OUTSCORED: CounterName("outscored")}  # no plugin decided
_UNCONTESTED: Final = {DecisionPath.ONLY_FEASIBLE: ONLY, DecisionPath.NOMINATED: NOMINATED}


class _Result(NamedTuple):
    """What a filter's verdict on a node adds to the counters; verdicts that add the same have equal results."""

    ran: bool
    rejects: bool
    reasons: frozenset[str]  # of the rejection, see `reason_detail`


class _NodeResults(NamedTuple):
    """The parts of a decision that counters of filters follow from, with an entry per node slot, or for some slots.

    `filters` has the place in `_DecisionRun.results` of the node's result, per filter; None if all nodes passed.
    """

    evaluation: NDArray[Any]
    feasible: Mask
    filters: tuple[NDArray[Any] | None, ...]

    def select_rows(self, rows: Ints) -> _NodeResults:
        """Return the entries of the node slots `rows`, in this order."""
        filters = [np.zeros(len(rows), np.uint8) if ids is None else ids[rows] for ids in self.filters]
        return _NodeResults(self.evaluation[rows], self.feasible[rows], tuple(filters))


class _ScoreSums(NamedTuple):
    """Sums of scores over decisions, per node slot: totals, normalized scores by plugin, and those of chosen nodes."""

    totals: Ints
    normalized: dict[str, Ints]
    chosen_totals: int | Ints
    chosen_points: Mapping[str, int | Ints]


@dataclass
class _Changes:
    """Node slots whose results changed at one decision of a run, with what was counted until then.

    `old` are the former results of these slots, which `decisions` decisions had. The sums of scores cover all earlier
    decisions of the run; those of plugins are omitted if `left` is 0 everywhere. `left` is 1 for a slot that was
    feasible before and is not now, -1 for the reverse, else 0.
    """

    rows: Ints
    decisions: Ints
    old: _NodeResults
    left: Ints
    totals: Ints
    normalized: dict[str, Ints]
    chosen_totals: int
    chosen_points: dict[str, int]


@dataclass
class _DecisionRun:
    """A run of consecutive decisions for one pod template that ran the same plugins with the same weights.

    Results that a node keeps from decision to decision are multiplied by their number: `since` has, per node slot, the
    number of decisions in the run before the node got its present results. `changes` has the former results. Scores
    are added as sums.
    """

    last: Decision
    contest: bool  # whether a node was chosen among several feasible nodes
    feasible: InitVar[Mask]
    present: _NodeResults = field(init=False)
    since: Ints = field(init=False)
    results: list[dict[_Result, int]] = field(init=False)  # per filter: the distinct results, numbered
    changes: list[_Changes] = field(default_factory=list)
    changed_rows: int = 0  # over all `changes`
    decisions: int = 0
    totals: ColumnSum = field(default_factory=lambda: ColumnSum())
    normalized: dict[str, ColumnSum] = field(default_factory=dict)
    chosen_totals: int = 0
    chosen_points: dict[str, int] = field(default_factory=dict)  # sum of weighted scores of the chosen nodes, by plugin

    def __post_init__(self, feasible: Mask) -> None:
        """Take the results of the first decision, `last`, which `continue_with` then counts."""
        first = self.last
        self.results = [{_PASSED: 0} for _ in first.filters]
        ids = tuple([self._number(place, f) for place, f in enumerate(first.filters)])
        self.present = _NodeResults(as_numpy(first.evaluation), feasible, ids)
        self.since = np.zeros(first.slots, np.int64)

    def continue_with(self, decision: Decision, feasible: Mask, *, contest: bool) -> bool:
        """Take a decision into the run, or return False if it ran other plugins or most nodes have other results.

        `feasible` is the decision's mask of feasible nodes, with an entry per node slot. `contest` says whether the
        decision chose among several feasible nodes; all decisions of a run agree in that.
        """
        last, present = self.last, self.present
        if (
            contest is not self.contest
            or (last.chosen is None) is not (decision.chosen is None)
            or len(last.totals) != len(decision.totals)
            or not _have_same_plugins(last, decision)
        ):
            return False
        if feasible is present.feasible:
            self.last = decision
            self.decisions += 1
            return True
        evaluation, filters, changed = present.evaluation, present.filters, present.feasible != feasible
        if decision.evaluation is not last.evaluation:
            evaluation = as_numpy(decision.evaluation)
            changed |= evaluation != present.evaluation
        for place, (f, previous) in enumerate(zip(decision.filters, last.filters, strict=True)):
            if f is not previous and (len(f.ids) or len(previous.ids)):
                before, now = filters[place], self._number(place, f)
                changed |= (0 if now is None else now) != (0 if before is None else before)
                filters = (*filters[:place], now, *filters[place + 1 :])
        if changed.any():
            rows = np.flatnonzero(changed)
            if len(rows) * MIN_SHARE_OF_ROWS > len(feasible):
                return False
            self._keep_former(rows, feasible[rows])
        self.present = _NodeResults(evaluation, feasible, filters)
        self.last = decision
        self.decisions += 1
        return True

    def _keep_former(self, rows: Ints, feasible: Mask) -> None:
        """Append the present results and score sums of the node slots `rows` to `changes`.

        `feasible` says, for each of these slots, whether its node is feasible from the next decision on.
        """
        old = self.present.select_rows(rows)
        left = old.feasible.astype(np.int64) - feasible
        totals = self.totals.sum_rows(rows)
        normalized = {plugin: sums.sum_rows(rows) for plugin, sums in self.normalized.items()} if left.any() else {}
        former = (left, totals, normalized, self.chosen_totals, dict(self.chosen_points))
        self.changes.append(_Changes(rows, self.decisions - self.since[rows], old, *former))
        self.since[rows] = self.decisions
        self.changed_rows += len(rows)

    def _number(self, place: int, f: FilterColumn) -> NDArray[Any] | None:
        """Return, per node slot, the number in `results[place]` of the result of filter `f`.

        Returns None if all nodes passed or the filter was skipped. A result without a number gets the next one.
        """
        if f.skipped or not len(f.ids):
            return None
        numbers_by_result = self.results[place]
        numbers = [numbers_by_result.setdefault(_classify(verdict), len(numbers_by_result)) for verdict in f.verdicts]
        ids = as_numpy(f.ids)
        return ids if numbers == list(range(len(numbers))) else np.array(numbers).take(ids)


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

    def sum_rows(self, rows: Ints) -> Ints:
        """Return, for each of the node slots `rows`, the sum over the decisions so far."""
        if not len(self.column):
            return np.zeros(len(rows), np.int64)
        more = as_numpy(self.column)[rows].astype(np.int64) * self.repeats
        return more if self.before is None else more + self.before[rows]


@dataclass
class DecisionCounts:
    """Counters that a set of decisions adds to the histories of their nodes.

    `columns` has an array for each counter, with an entry per node slot. `workloads` and `decided` count placements by
    node slot and workload, and `decided` also by the factor that decided for the node. The counts are complete after
    `finish`.
    """

    slots: int
    columns: dict[CounterName, Ints] = field(default_factory=dict)
    workloads: dict[int, dict[str, int]] = field(default_factory=dict)
    decided: dict[int, dict[tuple[str, str], PlacementCount]] = field(
        default_factory=dict
    )  # by slot, then by workload and deciding factor
    _chosen: list[int] = field(default_factory=list)  # slots
    _misfits: list[int] = field(default_factory=list)  # those of `_chosen` at which the node was not feasible
    _contested_misfits: list[int] = field(default_factory=list)  # those of `_misfits` that are in `_contests`, too
    _contests: list[tuple[str, int | None, int]] = field(default_factory=list)  # factor, lead in points, chosen slot
    _runs: dict[tuple[str, str], _DecisionRun] = field(
        default_factory=dict
    )  # the current run of each namespace and template

    def count(self, decision: Decision, feasible: Mask) -> None:
        """Add one decision to the counters. `feasible` is its mask of feasible nodes, with an entry per node slot.

        Decisions that share the mask as the same object share their evaluation and filter results too.
        """
        contest = decision.chosen is not None and int(np.count_nonzero(feasible)) > 1
        template = (decision.pod.namespace, decision.pod.digest)
        run = self._runs.get(template)
        if run is None or not run.continue_with(decision, feasible, contest=contest):
            if run:
                self._count_run(run)
            run = self._runs[template] = _DecisionRun(decision, contest, feasible)
            run.decisions = 1
        elif run.changed_rows > self.slots:
            self._count_changes(run)
        contested = self._add_scores(run, decision) if len(decision.totals) else None
        if decision.chosen is not None:
            workload = workload_name(decision)
            self._chosen.append(decision.chosen)
            if not feasible[decision.chosen]:
                self._misfits.append(decision.chosen)
            placed = self.workloads.setdefault(decision.chosen, {})
            placed[workload] = placed.get(workload, 0) + 1
            by, points = contested or (_UNCONTESTED.get(decision.path, UNSCORED), None)
            decided = self.decided.setdefault(decision.chosen, {})
            before = decided.get((workload, by))
            decided[workload, by] = (
                PlacementCount(1, points) if before is None else PlacementCount(1, points).add(before)
            )

    def finish(self) -> None:
        """Add the decisions that `count` has collected, but not counted yet, to the counters. Call it last."""
        for run in self._runs.values():
            self._count_run(run)
        self._runs.clear()
        self._add_at(CounterName("chosen"), self._chosen)
        decided_by: dict[str, list[int]] = {}
        for factor, _, chosen in self._contests:
            decided_by.setdefault(factor, []).append(chosen)
        slots = [chosen for _, _, chosen in self._contests]
        self._add_at(CounterName("won"), slots)
        self._add_at(CounterName("lead"), slots, [points or 0 for _, points, _ in self._contests])
        self._add_at(CounterName("lost"), slots, -1)  # runs count each feasible node as lost, also the chosen one
        self._add_at(CounterName("lost"), self._contested_misfits)  # which was not feasible there
        self._add_at(CounterName("misfit"), self._misfits)
        for factor, chosen_slots in decided_by.items():
            self._add_at(_COUNTED_APART.get(factor, CounterName("carried", factor)), chosen_slots)
        self._chosen, self._misfits, self._contested_misfits, self._contests = [], [], [], []

    @cached_property
    def block(self) -> Ints:
        """All counters as one array, with a row per node slot and a column per counter. Read it only after `finish`."""
        return np.stack(list(self.columns.values()), axis=1)

    def _add_scores(self, run: _DecisionRun, decision: Decision) -> tuple[str, int | None] | None:
        """Add a decision's scores to its run; return the deciding plugin and the chosen node's lead in points.

        Returns None if the node was not chosen among several feasible nodes. See `_count_contest`.
        """
        run.totals.add(decision.totals)
        scores = [s for s in decision.scores if not s.skipped and len(s.normalized)]
        for s in scores:
            sums = run.normalized.get(s.plugin)
            if sums is None:
                sums = run.normalized[s.plugin] = ColumnSum()
            sums.add(s.normalized)
        if decision.chosen is not None and run.contest:
            return self._count_contest(run, decision, decision.chosen, scores)
        return None

    def _count_contest(
        self, run: _DecisionRun, decision: Decision, chosen: int, scores: list[ScoreColumn]
    ) -> tuple[str, int | None]:
        """Compare the chosen node with the next best node; return the deciding plugin and the lead in points.

        The plugin is that with the largest part in the lead, or TIE if nodes share the best total or no plugin prefers
        the chosen node. If another node scores higher, as an evaluation of a pod that runs may find, the result is
        OUTSCORED and no lead. `chosen` is the slot of the chosen node.
        """
        misfit = not run.present.feasible[chosen]
        if misfit:
            self._contested_misfits.append(chosen)
        best, next_best = _find_best_two(decision, run.present.feasible, chosen)
        points = decision.totals[chosen] - decision.totals[next_best]
        run.chosen_totals += decision.totals[chosen]
        for s in scores:
            run.chosen_points[s.plugin] = run.chosen_points.get(s.plugin, 0) + s.normalized[chosen] * s.weight
        by = TIE
        if points < 0 or misfit:
            self._leave_out_nodes_ahead(run.present.feasible, decision, chosen, scores, misfit=misfit)
        if points < 0:
            self._contests.append((OUTSCORED, None, chosen))
            return OUTSCORED, None
        if best == 1 and scores:
            share, plugin = min(((s.normalized[next_best] - s.normalized[chosen]) * s.weight, s.plugin) for s in scores)
            by = plugin if share < 0 else TIE
        self._contests.append((by, points, chosen))
        return by, points

    def _leave_out_nodes_ahead(
        self, feasible: Mask, decision: Decision, chosen: int, scores: list[ScoreColumn], *, misfit: bool
    ) -> None:
        """Count the nodes that score more than the chosen one as ahead of it, and not in `behind` and `cost`.

        If the chosen node does not fit (`misfit`), these are all feasible nodes. `_count_scores` adds the differences
        of every feasible node over the whole run, so that those of these nodes are subtracted here.
        """
        behind = decision.totals[chosen] - as_numpy(decision.totals).astype(np.int64)
        ahead = feasible if misfit else feasible & (behind < 0)
        self._add(CounterName("ahead"), None, ahead.astype(np.int64))
        self._add(CounterName("behind"), None, -behind * ahead)
        for s in scores:
            points = (as_numpy(s.normalized).astype(np.int64) - s.normalized[chosen]) * s.weight
            self._add(CounterName("cost", s.plugin), None, -points * ahead)

    def _count_run(self, run: _DecisionRun) -> None:
        """Add the decisions of a run to the counters.

        Results that a node kept are multiplied by the number of decisions; scores are added as sums.
        """
        self._count_changes(run)
        present = run.present
        self._count_results(run, None, run.decisions - run.since, present)
        if not len(run.last.totals):
            return
        normalized = {plugin: sums.value() for plugin, sums in run.normalized.items()}
        sums = _ScoreSums(run.totals.value(), normalized, run.chosen_totals, run.chosen_points)
        self._count_scores(run, None, sums, present.feasible)

    def _count_changes(self, run: _DecisionRun) -> None:
        """Add the former results of those nodes of a run whose results changed to the counters, and forget them.

        A node's scores count while it is feasible: the sums until it became infeasible are added, and those until it
        became feasible are subtracted, because `_count_run` adds the sums of feasible nodes over the whole run.
        """
        changes = run.changes
        if not changes:
            return
        rows = np.concatenate([c.rows for c in changes])
        old = _NodeResults(
            np.concatenate([c.old.evaluation for c in changes]),
            np.concatenate([c.old.feasible for c in changes]),
            tuple([np.concatenate(ids) for ids in zip(*(c.old.filters for c in changes), strict=True)]),
        )
        self._count_results(run, rows, np.concatenate([c.decisions for c in changes]), old)
        moved = [c for c in changes if c.left.any()]
        if moved and len(run.last.totals):
            self._count_scores_of_changes(run, moved)
        run.changes, run.changed_rows = [], 0

    def _count_scores_of_changes(self, run: _DecisionRun, changes: list[_Changes]) -> None:
        rows, left = (np.concatenate([getattr(c, name) for c in changes]) for name in ("rows", "left"))
        sizes = [len(c.rows) for c in changes]
        sums = _ScoreSums(
            np.concatenate([c.totals for c in changes]),
            {plugin: np.concatenate([c.normalized[plugin] for c in changes]) for plugin in run.normalized},
            np.repeat([c.chosen_totals for c in changes], sizes),
            {p: np.repeat([c.chosen_points[p] for c in changes], sizes) for p in run.chosen_points if run.contest},
        )
        self._count_scores(run, rows, sums, left)

    def _count_scores(self, run: _DecisionRun, rows: Ints | None, sums: _ScoreSums, times: Ints | Mask) -> None:
        """Add sums of scores of the node slots `rows`, None for all, each multiplied by its entry in `times`."""
        self._add(CounterName("total"), rows, sums.totals * times)
        if run.contest:
            self._add(CounterName("behind"), rows, (sums.chosen_totals - sums.totals) * times)
        for s in run.last.scores:
            if s.plugin in sums.normalized:
                points = sums.normalized[s.plugin] * s.weight
                self._add(CounterName("score", s.plugin), rows, points * times)
                if run.contest:
                    self._add(CounterName("cost", s.plugin), rows, (points - sums.chosen_points[s.plugin]) * times)

    def _count_results(self, run: _DecisionRun, rows: Ints | None, decisions: Ints, node_results: _NodeResults) -> None:
        """Count evaluations, the results of each filter and the reasons of its rejections, by node.

        `rows` are the node slots, or None for all, `node_results` their results, and `decisions` how many decisions of
        the run had them.
        """
        is_evaluated = node_results.evaluation == Evaluation.EVALUATED
        every = decisions * is_evaluated
        feasible = decisions * node_results.feasible
        self._add(CounterName("considered"), rows, decisions * (node_results.evaluation != Evaluation.ABSENT))
        self._add(CounterName("evaluated"), rows, every)
        for why in () if is_evaluated.all() else _NOT_EVALUATED:
            matches = node_results.evaluation == why
            if matches.any():
                self._add(CounterName("not_evaluated", detail=why.label), rows, decisions * matches)
        self._add(CounterName("feasible"), rows, feasible)
        if len(run.last.totals):
            self._add(CounterName("scored"), rows, feasible)
            if run.contest:
                self._add(CounterName("lost"), rows, feasible)
        reached = every
        for f, ids, results in zip(run.last.filters, node_results.filters, run.results, strict=True):
            self._add(CounterName("filter_reached", f.plugin), rows, reached)
            if f.skipped:
                continue
            if ids is None or len(results) == 1:
                self._add(CounterName("filter_evaluated", f.plugin), rows, every)
                continue
            rejected = np.array([result.rejects for result in results])[ids]
            self._add(CounterName("filter_evaluated", f.plugin), rows, np.array([r.ran for r in results])[ids] * every)
            self._add(CounterName("filter_rejected", f.plugin), rows, rejected * every)
            self._add(CounterName("filter_blocked", f.plugin), rows, rejected * reached)
            for code in dict.fromkeys(code for result in results for code in sorted(result.reasons)):
                holds = np.array([code in result.reasons for result in results])[ids]
                self._add(CounterName("reason", f.plugin, code), rows, holds * every)
            reached = reached * ~rejected

    def _add(self, name: CounterName, rows: Ints | None, values: Ints) -> None:
        """Add values to the counter `name` of the node slots `rows` (None: all), which may have a slot repeatedly."""
        if rows is None:
            self._column(name)[:] += values
        else:
            np.add.at(self._column(name), rows, values)

    def _add_at(self, name: CounterName, slots: list[int], values: list[int] | int = 1) -> None:
        """Add `values`, one number for all slots or one for each, to the counter `name` of the node slots `slots`."""
        if slots:
            np.add.at(self._column(name), np.array(slots), np.array(values))

    def _column(self, name: CounterName) -> Ints:
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = np.zeros(self.slots, np.int64)
        return column


def _find_best_two(decision: Decision, feasible: Mask, chosen: int) -> tuple[int, int]:
    """Return the number of nodes with rank 1, and the slot of the best node apart from the one in slot `chosen`.

    At least two nodes must be feasible. A rank that the decision's writer omitted follows from the totals.
    """
    by_total = decision.rank is DERIVED
    points = as_numpy(decision.totals) if by_total else -as_numpy(decision.rank).astype(np.int64)
    points = np.where(feasible, points, _INFEASIBLE)
    own, points[chosen] = points[chosen], _INFEASIBLE
    other = int(points.argmax())
    if own > points[other]:
        return 1, other
    return int(np.count_nonzero(points == points[other])) + int(own == points[other]), other


def _have_same_plugins(one: Decision, other: Decision) -> bool:
    """Return whether two decisions ran the same filters and scores, skipped the same, and scored with equal weights."""
    filters, scores = zip(one.filters, other.filters, strict=False), zip(one.scores, other.scores, strict=False)
    return (
        len(one.filters) == len(other.filters)
        and len(one.scores) == len(other.scores)
        and all(a is b or (a.plugin == b.plugin and a.skipped is b.skipped) for a, b in filters)
        and all(a is b or _shape(a) == _shape(b) for a, b in scores)
    )


def _shape(score: ScoreColumn) -> tuple[str, int, bool, int]:
    """Return plugin, weight, whether skipped, and length of a score column.

    Decisions can be counted in one run only if these values are equal for all their score columns.
    """
    return score.plugin, score.weight, score.skipped, len(score.normalized)


def _classify(verdict: Verdict) -> _Result:
    """Return what a filter's verdict adds to the counters."""
    return _Result(verdict != NOT_RUN, verdict.rejects_node, frozenset(map(reason_detail, verdict.reasons)))


def reason_detail(reason: Reason) -> str:
    """Return the key under which a reason is counted: CODE, or CODE/RESOURCE if the reason names a resource."""
    resource = reason.params.get("resource", "")
    return f"{reason.code}/{resource}" if resource else reason.code


def workload_name(decision: Decision) -> str:
    """Return `namespace/Kind/name` of the workload to which the decision's pod belongs."""
    pod = decision.pod
    owner = str(pod.owner) if pod.owner else ""
    return f"{pod.namespace}/{name_workload(owner, pod.name, pod.labels)}"


def name_workload(owner: str, pod: str, labels: Mapping[str, str]) -> str:
    """Return `Kind/name` of the workload of a pod with these labels. `owner` is its owner as KIND/NAME, or "".

    The workload is the owner, the Deployment if the owner is a Deployment's ReplicaSet, or the pod itself if it has no
    owner.
    """
    suffix = f"-{labels.get('pod-template-hash', '')}"
    if owner.startswith("ReplicaSet/") and len(suffix) > 1 and owner.endswith(suffix):
        return f"Deployment/{owner.removeprefix('ReplicaSet/').removesuffix(suffix)}"
    return owner or f"Pod/{pod}"


_PASSED: Final = _classify(SUCCESS)
