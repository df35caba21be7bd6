"""What a reconstruction and the scheduler's log say together of one attempt.

Owns: which of the two stands for each part. Does not own: which records belong together (`attempts`), documents.

The log is what the scheduler itself said, so whatever it says stands, cell by cell: a node's points, a filter's
verdict, a count. The rest is the reconstruction's; what neither says stays unknown. Pure: neither record is changed.

Invariant: the parts that are the log's, and in how many cells it says otherwise than the reconstruction, are told.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from herodotus_record.changes import Recorded
from herodotus_record.document import reconstruction
from herodotus_record.headlines import headline
from herodotus_record.model import (
    SUCCESS,
    Column,
    Decision,
    Evaluation,
    FilterColumn,
    NodeTable,
    Outcome,
    Path,
    Preemption,
    ScoreColumn,
    Source,
    empty_column,
)

Json = dict[str, Any]

# Beginnings of marks that hold of one record alone: of the reconstruction, and of the log's.
SEEN_AT: Final = "reconstructed: the time is when the outcome was seen"
LOG_ALONE: Final = "read from a log"
LOG_FILTERS: Final = "what filters said of"
LOG_NUMBER: Final = "the number of the attempt counts"
LOG_SCORES: Final = "scores are not in the log"
LOG_WEIGHTS: Final = "weights of"
LOG_PREEMPTION: Final = "other nodes where preemption would have helped"
_ALONE: Final = (SEEN_AT, LOG_ALONE, LOG_FILTERS, LOG_NUMBER, LOG_SCORES, LOG_WEIGHTS, LOG_PREEMPTION)
_TEXTS: Final = {  # parts in words; what stands behind a dot is a plugin
    "attempt.startedAt": "when it began",
    "outcome.phases": "how the binding went",
    "outcome.path": "how it was decided",
    "nodes.total": "how many nodes there were",
    "nodes.evaluated": "how many were looked at",
    "nodes.feasible": "how many fitted",
    "ranking": "which nodes fitted, and their order",
    "scores": "points of {}",
    "filters": "verdicts of {}",
}


@dataclass(frozen=True)
class Origins:
    """Where a decision that was put together comes from. `seen`: the reconstruction, and its table; `logged`: an id.

    `parts`: those in which the log has a say, by their path in the answer: whether all of it is the log's, and how many
    cells (or values) the reconstruction has otherwise.
    """

    seen: Decision
    table: NodeTable
    logged: str
    parts: Mapping[str, tuple[bool, int]]

    @property
    def compared(self) -> Json | None:
        """Whether the outcome follows from the reconstruction."""
        return reconstruction(self.seen)

    @property
    def evaluation(self) -> str:
        """The reconstruction by itself, in a sentence."""
        return headline(self.seen, self.table)

    def document(self) -> Json:
        """As answers have it."""
        rebuilt, log = Source.RECONSTRUCTED.value, Source.LOGGED.value
        return {
            "records": {rebuilt: self.seen.id, log: self.logged},
            "parts": [
                {
                    "part": part,
                    "text": _text(part),
                    "from": [log] if whole else [log, rebuilt],
                    "overruled": otherwise,
                }
                for part, (whole, otherwise) in self.parts.items()
            ],
            "rest": rebuilt,
            "evaluation": self.evaluation,
        }


@dataclass(frozen=True)
class Merged:
    """One attempt, as two records tell it."""

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable
    origins: Origins


def merged(seen: Recorded, logged: Recorded) -> Merged:
    """`seen`: the reconstruction, `logged`: the log's record of the same attempt.

    Of a record that was pruned to a summary the cells are not all there: then those of the reconstruction stand as they
    are, and the log has its say in the rest.
    """
    ours, theirs = seen.decision, logged.decision
    cells = _Cells(seen, logged) if not (ours.summary or theirs.summary) else None
    parts: dict[str, tuple[bool, int]] = {"attempt.startedAt": (True, 0)}
    said = _said(ours, theirs, parts)
    if cells is not None:
        said |= cells.said(parts)
    if logged.outcomes:
        parts["outcome.phases"] = (True, 0)
    scored = cells is not None and cells.ranks_all
    decision = replace(
        ours,
        **said,
        times=replace(ours.times, started_us=theirs.times.started_us),
        scheduler=_scheduler(ours, theirs),
        unknown=tuple(path for path in ours.unknown if path in theirs.unknown),
        marks=tuple(mark for d in (ours, theirs) for mark in d.marks if not mark.startswith(_ALONE)),
        reconstruction=None if scored else ours.reconstruction,  # else the ranking is no longer the one it judges
    )
    origins = Origins(ours, seen.table, theirs.id, parts)
    outcomes = tuple(logged.outcomes or seen.outcomes)
    return Merged(decision, outcomes, seen.table if cells is None else cells.table, origins)


def _text(part: str) -> str:
    kind, _, plugin = part.partition(".")
    return _TEXTS.get(part) or _TEXTS.get(kind, part).format(plugin)


def with_uid(logged: Decision, uid: str) -> Decision:
    """A log's record of a pod whose UID others know."""
    if logged.pod.uid == uid:
        return logged
    unknown = tuple(path for path in logged.unknown if path not in ("pod.uid", "key.podUID"))
    return replace(logged, pod=replace(logged.pod, uid=uid), key=replace(logged.key, pod_uid=uid), unknown=unknown)


def _said(ours: Decision, theirs: Decision, parts: dict[str, tuple[bool, int]]) -> Json:
    """What the log says of the attempt as a whole."""
    said: Json = {}
    for name, path in (("nodes_total", "nodes"), ("nodes_evaluated", "evaluated"), ("nodes_feasible", "feasible")):
        if f"snapshot.{path}" not in theirs.unknown:
            said[name] = getattr(theirs, name)
            part = "nodes.total" if path == "nodes" else f"nodes.{path}"
            parts[part] = (True, int(said[name] != getattr(ours, name)))
    if theirs.path is not Path.UNKNOWN:
        said["path"] = theirs.path
        parts["outcome.path"] = (True, int(theirs.path is not ours.path and ours.path is not Path.UNKNOWN))
    if theirs.message:
        said["message"] = theirs.message
        parts["message"] = (True, int(theirs.message != ours.message))
    if theirs.preemption is not None:
        said["preemption"], otherwise = _preemption(ours.preemption, theirs.preemption)
        parts["preemption"] = (ours.preemption is None, otherwise)
    return said


def _scheduler(ours: Decision, theirs: Decision) -> Any:
    known = "scheduler.version" not in theirs.unknown
    return replace(ours.scheduler, version=theirs.scheduler.version) if known else ours.scheduler


def _preemption(ours: Preemption | None, theirs: Preemption) -> tuple[Preemption, int]:
    """The log's candidate, which is the one that was taken, among the reconstruction's."""
    if ours is None or len(theirs.candidates) != 1:
        return theirs, int(ours is not None and ours.nominated != theirs.nominated)
    (taken,) = theirs.candidates
    same = next((c for c in ours.candidates if c.node == taken.node), None)
    if same is not None:
        taken = replace(same, victims=taken.victims or same.victims)
    others = tuple(c for c in ours.candidates if c.node != taken.node)
    return Preemption(theirs.nominated, (taken, *others), evicted=True), int(ours.nominated != theirs.nominated)


class _Cells:
    """What is said of single nodes, in the reconstruction's slots; one that the log alone names gets a further one."""

    def __init__(self, seen: Recorded, logged: Recorded) -> None:
        self._ours, self._theirs = seen.decision, logged.decision
        present = (slot for slot, e in enumerate(self._ours.evaluation) if e != Evaluation.ABSENT)
        at = {seen.table.names[slot]: slot for slot in present}
        told = sorted(_named(self._theirs))
        new = [name for slot in told if (name := logged.table.names[slot]) not in at]
        self.slots = self._ours.slots + len(new)
        at |= {name: self._ours.slots + i for i, name in enumerate(new)}
        self.table = _with(seen.table, self._ours.slots, new)
        self._at = {slot: at[logged.table.names[slot]] for slot in told}  # the log's slot -> ours
        only = self._theirs.path is Path.ONLY_FEASIBLE
        self.ranks_all = bool(self._theirs.scores) or only  # else it may not name every node that fits

    def said(self, parts: dict[str, tuple[bool, int]]) -> Json:
        """The fields of the decision; what the log has a say in is added to `parts`."""
        ours, theirs = self._ours, self._theirs
        theirs_rank = {self._at[slot]: rank for slot, rank in enumerate(theirs.rank) if rank and self.ranks_all}
        filters = [self._filter(f, theirs_rank, parts) for f in ours.filters]
        evaluation = self._long(ours.evaluation, Evaluation.ABSENT)
        for slot in self._at.values():
            evaluation[slot] = Evaluation.EVALUATED
        against = {
            slot for f in filters for slot in self._at.values() if len(f.ids) and f.verdicts[f.ids[slot]].against
        }
        fitted = [slot for slot, rank in enumerate(ours.rank) if rank]
        if self.ranks_all:
            for slot in set(fitted) - theirs_rank.keys() - against:
                evaluation[slot] = Evaluation.UNRECORDED  # it fits as it was seen, and was not ranked: why is not said
            rank = self._column(theirs_rank)
            parts["ranking"] = (True, len(theirs_rank.keys() ^ fitted))
        else:
            rank = self._column(_ranks({slot: ours.rank[slot] for slot in fitted if slot not in against}))
        said: Json = {"slots": self.slots, "evaluation": evaluation, "rank": rank, "filters": tuple(filters)}
        if theirs.scores:
            said["scores"] = self._scores(sorted(theirs_rank), parts)
            said["totals"] = self._column(self._by_slot(theirs.totals))
        else:
            said["totals"] = self._long(ours.totals, 0)
            said["scores"] = tuple(
                replace(s, raw=self._long(s.raw, 0), normalized=self._long(s.normalized, 0)) for s in ours.scores
            )
        said["inputs"] = ours.inputs if self.slots == ours.slots else ()
        if theirs.chosen is not None:
            said["chosen"] = self._at[theirs.chosen]
        return said

    def _filter(
        self, ours: FilterColumn, fitting: Mapping[int, int], parts: dict[str, tuple[bool, int]]
    ) -> FilterColumn:
        """The verdicts that the log has, and a pass wherever it says that the node fitted."""
        said = dict.fromkeys(fitting, SUCCESS)
        for column in self._theirs.filters:
            if column.plugin == ours.plugin:
                verdicts = {self._at[slot]: column.verdicts[column.ids[slot]] for slot in self._at if len(column.ids)}
                said |= {slot: verdict for slot, verdict in verdicts.items() if verdict.against}
        ids = self._long(ours.ids, 0) if len(ours.ids) else array("H", bytes(2 * self.slots))
        table = list(ours.verdicts)
        otherwise = 0
        for slot, verdict in said.items():
            if table[ids[slot]] == verdict:
                continue
            otherwise += table[ids[slot]].against != verdict.against
            if verdict not in table:
                table.append(verdict)
            ids[slot] = table.index(verdict)
        if any(verdict.against for verdict in said.values()) or otherwise:
            parts[f"filters.{ours.plugin}"] = (False, otherwise)
        return replace(ours, verdicts=tuple(table), ids=ids if any(ids) else ours.ids[:0])

    def _scores(self, fitting: Sequence[int], parts: dict[str, tuple[bool, int]]) -> tuple[ScoreColumn, ...]:
        """The log's points, in the reconstruction's order; a plugin that the log does not name was skipped."""
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
            otherwise = sum(mine is None or self._points(mine, slot) != points[slot] for slot in fitting)
            raw = self._long(mine.raw, 0) if mine and not otherwise else empty_column()
            columns.append(ScoreColumn(plugin, weight, False, raw, column))
            parts[f"scores.{plugin}"] = (True, otherwise)
        return tuple(columns)

    def _points(self, column: ScoreColumn, slot: int) -> int | None:
        """What the reconstruction has; None where the node did not fit, or nothing was scored."""
        if column.skipped or not len(column.normalized) or not self._rank(slot):
            return None
        return column.normalized[slot] * column.weight

    def _rank(self, slot: int) -> int:
        return self._ours.rank[slot] if slot < len(self._ours.rank) else 0

    def _by_slot(self, column: Column) -> dict[int, int]:
        """A column of the log's, of the nodes that it ranks."""
        return {self._at[slot]: column[slot] for slot, rank in enumerate(self._theirs.rank) if rank and len(column)}

    def _column(self, values: Mapping[int, int]) -> Column:
        column = array("q", bytes(8 * self.slots))
        for slot, value in values.items():
            column[slot] = value
        return column

    def _long(self, column: Column, fill: int) -> Column:
        """A copy that reaches to the last slot, and holds any value; one that says nothing stays so."""
        if not len(column):
            return empty_column()
        return array("q", [*column, *([fill] * (self.slots - len(column)))])


def _named(logged: Decision) -> set[int]:
    """The slots of the nodes that the log tells of."""
    evaluated = {slot for slot, e in enumerate(logged.evaluation) if e == Evaluation.EVALUATED}
    ranked = {slot for slot, rank in enumerate(logged.rank) if rank}
    return evaluated | ranked | ({logged.chosen} if logged.chosen is not None else set())


def _ranks(old: Mapping[int, int]) -> dict[int, int]:
    """The ranks of those that are left, as if the others had never been there."""
    places = sorted(old.values())
    return {slot: bisect_left(places, rank) + 1 for slot, rank in old.items()}


def _with(table: NodeTable, slots: int, names: Iterable[str]) -> NodeTable:
    """The table with nodes of which no more than the name is known, behind the decision's slots."""
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
