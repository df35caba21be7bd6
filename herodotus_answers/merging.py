"""Merge the reconstruction and the scheduler's log record of one attempt.

Owns: which of the two provides each part. Does not own: matching the two records (`attempts`), documents.

The log states what the scheduler itself did, so its values win, cell by cell: a node's score, a filter's verdict, a
count. The reconstruction provides the rest, and what neither holds stays unknown. Pure: neither record is changed.

Invariant: the result lists which parts are from the log, and in how many cells the log differs from the reconstruction.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from herodotus_answers.changes import RecordedDecision
from herodotus_answers.decision import Origins, Reconstruction, build_part
from herodotus_answers.headlines import format_headline
from herodotus_record.model import (
    ADDITIONS,
    SUCCESS,
    Column,
    Decision,
    DecisionPath,
    Evaluation,
    FilterColumn,
    NodeTable,
    Outcome,
    Preemption,
    ScoreColumn,
    Source,
    empty_column,
)
from herodotus_record.notes import OF_ONE_RECORD

Json = dict[str, Any]

_TEXTS: Final = {  # names of the parts; after a dot follows a plugin
    "attempt.startedAt": "when it began",
    "outcome.phases": "how the binding went",
    "outcome.path": "how it was decided",
    "nodes.total": "how many nodes there were",
    "nodes.evaluated": "how many were evaluated",
    "nodes.feasible": "how many fitted",
    "ranking": "which nodes fitted, and their order",
    "scores": "points of {}",
    "filters": "verdicts of {}",
}


@dataclass(frozen=True)
class MergeOrigins:
    """Which parts of a merged decision are from the observer's reconstruction and which from the scheduler's log.

    `reconstructed` is the reconstruction with its node `table`; `logged` is the id of the log's decision. `parts` maps
    each part to which the log contributes, by its path in the answer, to a pair: whether the whole part is from the
    log, and in how many values the reconstruction differs.
    """

    reconstructed: Decision
    table: NodeTable
    logged: str
    parts: Mapping[str, tuple[bool, int]]

    @property
    def reconstruction(self) -> Reconstruction | None:
        """Return, as JSON, how the reconstruction compares with the outcome, or None if it was not compared."""
        reconstruction: Reconstruction | None = build_part(self.reconstructed.reconstruction)
        return reconstruction

    @property
    def evaluation_headline(self) -> str:
        """Return one sentence about what the reconstruction alone says of the pod."""
        return format_headline(self.reconstructed, self.table)

    def to_document(self) -> Origins:
        """Return the origins of the parts as the JSON object that answers contain."""
        rebuilt, log = Source.RECONSTRUCTED.value, Source.LOGGED.value
        return {
            "records": {rebuilt: self.reconstructed.id, log: self.logged},
            "parts": [
                {
                    "part": part,
                    "text": _text(part),
                    "from": [log] if whole else [log, rebuilt],
                    "overruled": differing,
                }
                for part, (whole, differing) in self.parts.items()
            ],
            "rest": rebuilt,
            "evaluation": self.evaluation_headline,
        }


@dataclass(frozen=True)
class MergedAttempt:
    """One scheduling attempt as merged from the observer's reconstruction and the scheduler's log record."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable
    origins: MergeOrigins


def merge_records(seen: RecordedDecision, logged: RecordedDecision) -> MergedAttempt:
    """Return the attempt merged from the observer's reconstruction `seen` and the scheduler's log record `logged`.

    Where both have a value, that of the log is used. If one of the records was pruned and lacks the values of single
    nodes, these come from the reconstruction, and only values of the whole attempt come from the log.
    """
    ours, theirs = seen.decision, logged.decision
    cells = _NodeValueMerger(seen, logged) if not (ours.summary or theirs.summary) else None
    parts: dict[str, tuple[bool, int]] = {"attempt.startedAt": (True, 0)}
    fields = _values_from_log(ours, theirs, parts)
    if cells is not None:
        fields |= cells.merge_fields(parts)
    if logged.outcomes:
        parts["outcome.phases"] = (True, 0)
    scored = cells is not None and cells.ranks_all
    decision = replace(
        ours,
        **fields,
        times=replace(ours.times, started_us=theirs.times.started_us),
        scheduler=_scheduler(ours, theirs),
        unknown=tuple(path for path in ours.unknown if path in theirs.unknown),
        notes=tuple(note for d in (ours, theirs) for note in d.notes if note.code not in OF_ONE_RECORD),
        text_notes=(*ours.text_notes, *theirs.text_notes),
        reconstruction=None if scored else ours.reconstruction,  # it judged the ranking that is replaced
    )
    origins = MergeOrigins(ours, seen.table, theirs.id, parts)
    additions = (o for o in seen.outcomes if o.phase in ADDITIONS)
    outcomes = (*logged.outcomes, *additions) if logged.outcomes else tuple(seen.outcomes)
    return MergedAttempt(decision, outcomes, seen.table if cells is None else cells.table, origins)


def _text(part: str) -> str:
    kind, _, plugin = part.partition(".")
    return _TEXTS.get(part) or _TEXTS.get(kind, part).format(plugin)


def set_pod_uid(logged: Decision, uid: str) -> Decision:
    """Return a log's decision with the pod's UID, which logs lack and another record of the pod provided."""
    if logged.pod.uid == uid:
        return logged
    unknown = tuple(path for path in logged.unknown if path not in ("pod.uid", "key.podUID"))
    return replace(logged, pod=replace(logged.pod, uid=uid), key=replace(logged.key, pod_uid=uid), unknown=unknown)


def _values_from_log(ours: Decision, theirs: Decision, parts: dict[str, tuple[bool, int]]) -> Json:
    """Return the log's values for fields of the whole attempt, such as node counts, by field name of Decision.

    `ours` is the reconstruction, `theirs` the log's decision. Adds each such field to `parts`, in the form of
    `MergeOrigins.parts`.
    """
    fields: Json = {}
    for name, path in (("nodes_total", "nodes"), ("nodes_evaluated", "evaluated"), ("nodes_feasible", "feasible")):
        if f"snapshot.{path}" not in theirs.unknown:
            fields[name] = getattr(theirs, name)
            part = "nodes.total" if path == "nodes" else f"nodes.{path}"
            parts[part] = (True, int(fields[name] != getattr(ours, name)))
    if theirs.path is not DecisionPath.UNKNOWN:
        fields["path"] = theirs.path
        parts["outcome.path"] = (True, int(theirs.path is not ours.path and ours.path is not DecisionPath.UNKNOWN))
    if theirs.message:
        fields["message"] = theirs.message
        parts["message"] = (True, int(theirs.message != ours.message))
    if theirs.preemption is not None:
        fields["preemption"], differing = _preemption(ours.preemption, theirs.preemption)
        parts["preemption"] = (ours.preemption is None, differing)
    return fields


def _scheduler(ours: Decision, theirs: Decision) -> Any:
    has_version = "scheduler.version" not in theirs.unknown
    return replace(ours.scheduler, version=theirs.scheduler.version) if has_version else ours.scheduler


def _preemption(ours: Preemption | None, theirs: Preemption) -> tuple[Preemption, int]:
    """Return the merged preemption, and 1 if the two nominate different nodes, else 0.

    The log names only the candidate that was taken. Its victims replace those of the reconstruction's candidate on that
    node; the other candidates are the reconstruction's.
    """
    if ours is None or len(theirs.candidates) != 1:
        return theirs, int(ours is not None and ours.nominated_node != theirs.nominated_node)
    (taken,) = theirs.candidates
    same = next((c for c in ours.candidates if c.node == taken.node), None)
    if same is not None:
        taken = replace(same, victims=taken.victims or same.victims)
    others = tuple(c for c in ours.candidates if c.node != taken.node)
    return Preemption(theirs.nominated_node, (taken, *others), evicted=True), int(
        ours.nominated_node != theirs.nominated_node
    )


class _NodeValueMerger:
    """The values per node and plugin, merged from reconstruction and log, in the reconstruction's node slots.

    A node that only the log names gets an additional slot.
    """

    def __init__(self, seen: RecordedDecision, logged: RecordedDecision) -> None:
        self._ours, self._theirs = seen.decision, logged.decision
        present = (slot for slot, e in enumerate(self._ours.evaluation) if e != Evaluation.ABSENT)
        slot_by_name = {seen.table.names[slot]: slot for slot in present}
        logged_slots = sorted(_logged_slots(self._theirs))
        new = [name for slot in logged_slots if (name := logged.table.names[slot]) not in slot_by_name]
        self.slots = self._ours.slots + len(new)
        slot_by_name |= {name: self._ours.slots + i for i, name in enumerate(new)}
        self.table = _extend_table(seen.table, self._ours.slots, new)
        # The log's slot -> the reconstruction's.
        self._at = {slot: slot_by_name[logged.table.names[slot]] for slot in logged_slots}
        only = self._theirs.path is DecisionPath.ONLY_FEASIBLE
        self.ranks_all = bool(self._theirs.scores) or only  # if not, the log may omit feasible nodes

    def merge_fields(self, parts: dict[str, tuple[bool, int]]) -> Json:
        """Merge the reconstruction with the log's decision; return the fields with an entry per node, by field name.

        Adds to `parts` each field that takes a value from the log: whether the whole field is from the log, and in how
        many values the reconstruction differs (as in `MergeOrigins.parts`).
        """
        ours, theirs = self._ours, self._theirs
        theirs_rank = {self._at[slot]: rank for slot, rank in enumerate(theirs.rank) if rank and self.ranks_all}
        filters = [self._filter(f, theirs_rank, parts) for f in ours.filters]
        evaluation = self._extend(ours.evaluation, Evaluation.ABSENT)
        for slot in self._at.values():
            evaluation[slot] = Evaluation.EVALUATED
        against = {
            slot for f in filters for slot in self._at.values() if len(f.ids) and f.verdicts[f.ids[slot]].rejects_node
        }
        fitted = [slot for slot, rank in enumerate(ours.rank) if rank]
        if self.ranks_all:
            for slot in set(fitted) - theirs_rank.keys() - against:
                # The reconstruction passes the node and the log does not rank it: neither record has the reason.
                evaluation[slot] = Evaluation.UNRECORDED
            rank = self._column(theirs_rank)
            parts["ranking"] = (True, len(theirs_rank.keys() ^ fitted))
        else:
            rank = self._column(_rerank({slot: ours.rank[slot] for slot in fitted if slot not in against}))
        fields: Json = {"slots": self.slots, "evaluation": evaluation, "rank": rank, "filters": tuple(filters)}
        if theirs.scores:
            fields["scores"] = self._scores(sorted(theirs_rank), parts)
            fields["totals"] = self._column(self._by_slot(theirs.totals))
        else:
            fields["totals"] = self._extend(ours.totals, 0)
            fields["scores"] = tuple(
                replace(s, raw=self._extend(s.raw, 0), normalized=self._extend(s.normalized, 0)) for s in ours.scores
            )
        fields["inputs"] = ours.inputs if self.slots == ours.slots else ()
        if theirs.chosen is not None:
            fields["chosen"] = self._at[theirs.chosen]
        return fields

    def _filter(
        self, ours: FilterColumn, fitting: Mapping[int, int], parts: dict[str, tuple[bool, int]]
    ) -> FilterColumn:
        """Return a reconstructed filter column with the log's rejections, and Success for nodes that the log ranks.

        `fitting` maps the slots of those nodes to their rank. Adds the filter to `parts` if the log has a rejection by
        it or differs.
        """
        verdicts_by_slot = dict.fromkeys(fitting, SUCCESS)
        for column in self._theirs.filters:
            if column.plugin == ours.plugin:
                verdicts = {self._at[slot]: column.verdicts[column.ids[slot]] for slot in self._at if len(column.ids)}
                verdicts_by_slot |= {slot: verdict for slot, verdict in verdicts.items() if verdict.rejects_node}
        ids = self._extend(ours.ids, 0) if len(ours.ids) else array("H", bytes(2 * self.slots))
        table = list(ours.verdicts)
        differing = 0
        for slot, verdict in verdicts_by_slot.items():
            if table[ids[slot]] == verdict:
                continue
            differing += table[ids[slot]].rejects_node != verdict.rejects_node
            if verdict not in table:
                table.append(verdict)
            ids[slot] = table.index(verdict)
        if any(verdict.rejects_node for verdict in verdicts_by_slot.values()) or differing:
            parts[f"filters.{ours.plugin}"] = (False, differing)
        return replace(ours, verdicts=tuple(table), ids=ids if any(ids) else ours.ids[:0])

    def _scores(self, fitting: Sequence[int], parts: dict[str, tuple[bool, int]]) -> tuple[ScoreColumn, ...]:
        """Return the log's score columns, those of plugins in the reconstruction first.

        `fitting` holds the slots that the log ranks. A plugin that the log does not name counts as skipped. Adds each
        column to `parts`.
        """
        theirs = {column.plugin: column for column in self._theirs.scores}
        ours = {column.plugin: column for column in self._ours.scores}
        columns = []
        for plugin in dict.fromkeys((*ours, *theirs)):
            mine, other = ours.get(plugin), theirs.get(plugin)
            if other is None or not len(other.normalized):
                columns.append(ScoreColumn(plugin, mine.weight if mine else 1, skipped=True))
                continue
            points = {slot: n * other.weight for slot, n in self._by_slot(other.normalized).items()}
            weights = (mine.weight if mine else 0, other.weight, 1)
            weight = next(w for w in weights if w and all(p % w == 0 for p in points.values()))
            column = self._column({slot: points[slot] // weight for slot in fitting})
            differing = sum(mine is None or self._points(mine, slot) != points[slot] for slot in fitting)
            raw = self._extend(mine.raw, 0) if mine and not differing else empty_column()
            columns.append(ScoreColumn(plugin, weight, False, raw, column))
            parts[f"scores.{plugin}"] = (True, differing)
        return tuple(columns)

    def _points(self, column: ScoreColumn, slot: int) -> int | None:
        """Return the reconstruction's weighted score of a node, or None if it was infeasible or nothing was scored."""
        if column.skipped or not len(column.normalized) or not self._rank(slot):
            return None
        return column.normalized[slot] * column.weight

    def _rank(self, slot: int) -> int:
        return self._ours.rank[slot] if slot < len(self._ours.rank) else 0

    def _by_slot(self, column: Column) -> dict[int, int]:
        """Return the values of `column`, a column of the log's decision, by node slot in the merged decision.

        The result has only the nodes to which the log gives a rank.
        """
        return {self._at[slot]: column[slot] for slot, rank in enumerate(self._theirs.rank) if rank and len(column)}

    def _column(self, values: Mapping[int, int]) -> Column:
        column = array("q", bytes(8 * self.slots))
        for slot, value in values.items():
            column[slot] = value
        return column

    def _extend(self, column: Column, fill: int) -> Column:
        """Return a 64-bit copy of a reconstructed column, extended by `fill` to the number of merged slots.

        An empty column stays empty.
        """
        if not len(column):
            return empty_column()
        return array("q", [*column, *([fill] * (self.slots - len(column)))])


def _logged_slots(logged: Decision) -> set[int]:
    """Return the slots, in the log's decision, of the nodes that the log evaluates, ranks or chooses."""
    evaluated = {slot for slot, e in enumerate(logged.evaluation) if e == Evaluation.EVALUATED}
    ranked = {slot for slot, rank in enumerate(logged.rank) if rank}
    return evaluated | ranked | ({logged.chosen} if logged.chosen is not None else set())


def _rerank(old: Mapping[int, int]) -> dict[int, int]:
    """Return the ranks of the given nodes by slot, recomputed among these nodes alone; equal ranks stay equal."""
    places = sorted(old.values())
    return {slot: bisect_left(places, rank) + 1 for slot, rank in old.items()}


def _extend_table(table: NodeTable, slots: int, names: Iterable[str]) -> NodeTable:
    """Return the node table cut to the decision's `slots` and extended by nodes of which only the name is known.

    If there are no such nodes, the given table is returned.
    """
    new = list(names)
    if not new:
        return table
    return NodeTable(
        generation=table.generation,
        names=[*table.names[:slots], *new],
        uids=[*table.uids[:slots], *("" for _ in new)],
        since=[*table.since[:slots], *(table.generation for _ in new)],
        allocatable=[*table.allocatable[:slots], *({} for _ in new)],
        requested=[*table.requested[:slots], *({} for _ in new)],
    )
