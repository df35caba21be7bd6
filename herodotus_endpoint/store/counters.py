"""What a decision adds to the histories of its nodes, counted column by column in slot order.

Owns: which counters there are and what each means. Does not own: where they are kept (`rollups`), or how a history
reads (`herodotus_endpoint.history`). Pure and vectorised: no loop over nodes.

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
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from herodotus_record.codec import as_numpy
from herodotus_record.model import NOT_RUN, Decision, Evaluation, FilterColumn, Reason

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
OTHER: Final = "other"


class Name(NamedTuple):
    """A counter's name."""

    counter: str
    plugin: str = ""
    detail: str = ""


@dataclass
class Counted:
    """Counters in slot order, and how often a workload went to a slot."""

    slots: int
    columns: dict[Name, Ints] = field(default_factory=dict)
    workloads: dict[tuple[str, int], int] = field(default_factory=dict)

    def count(self, decision: Decision) -> None:
        """Add one decision."""
        evaluation = as_numpy(decision.evaluation)
        evaluated: Mask = evaluation == Evaluation.EVALUATED
        feasible: Mask = as_numpy(decision.rank) > 0
        self._add(Name("considered"), evaluation != Evaluation.ABSENT)
        self._add(Name("evaluated"), evaluated)
        self._add(Name("feasible"), feasible)
        self._filters(decision, evaluated)
        if decision.chosen is not None:
            self._bump(Name("chosen"), decision.chosen)
            key = (workload(decision), decision.chosen)
            self.workloads[key] = self.workloads.get(key, 0) + 1
        if len(decision.totals):
            self._scores(decision, feasible)

    def _filters(self, decision: Decision, evaluated: Mask) -> None:
        reached = evaluated
        for f in decision.filters:
            self._add(Name("filter_reached", f.plugin), reached)
            if f.skipped:
                continue
            if not len(f.ids):
                self._add(Name("filter_evaluated", f.plugin), evaluated)
                continue
            ids = as_numpy(f.ids)
            ran = np.array([v != NOT_RUN for v in f.verdicts])
            self._add(Name("filter_evaluated", f.plugin), ran[ids] & evaluated)
            rejects = np.array([v.against for v in f.verdicts])
            rejected = rejects[ids] & evaluated
            self._add(Name("filter_rejected", f.plugin), rejected)
            self._add(Name("filter_blocked", f.plugin), rejected & reached)
            self._reasons(f, ids, evaluated)
            reached = reached & ~rejected

    def _reasons(self, f: FilterColumn, ids: NDArray[Any], evaluated: Mask) -> None:
        """One column a code, however many parameters its verdicts differ in."""
        holds: dict[str, NDArray[np.bool_]] = {}
        for verdict_id, verdict in enumerate(f.verdicts):
            for reason in verdict.reasons:
                holds.setdefault(detail(reason), np.zeros(len(f.verdicts), np.bool_))[verdict_id] = True
        for code, verdict_has in holds.items():
            self._add(Name("reason", f.plugin, code), verdict_has[ids] & evaluated)

    def _scores(self, decision: Decision, feasible: Mask) -> None:
        totals = as_numpy(decision.totals).astype(np.int64)
        weighted = {
            s.plugin: as_numpy(s.normalized).astype(np.int64) * s.weight * feasible
            for s in decision.scores
            if not s.skipped and len(s.normalized)
        }
        self._add(Name("scored"), feasible)
        self._add(Name("total"), totals * feasible)
        for plugin, points in weighted.items():
            self._add(Name("score", plugin), points)
        if decision.chosen is not None and np.count_nonzero(feasible) > 1:
            self._contest(decision, decision.chosen, feasible, totals, weighted)

    def _contest(
        self, decision: Decision, chosen: int, feasible: Mask, totals: Ints, weighted: dict[str, Ints]
    ) -> None:
        others = feasible.copy()
        others[chosen] = False
        self._add(Name("lost"), others)
        self._add(Name("behind"), (totals[chosen] - totals) * others)
        for plugin, points in weighted.items():
            self._add(Name("cost", plugin), (points - points[chosen]) * others)
        next_best = int(np.argmax(np.where(others, totals, np.iinfo(np.int64).min)))
        self._bump(Name("won"), chosen)
        self._bump(Name("lead"), chosen, int(totals[chosen]) - int(totals[next_best]))
        shares = sorted((int(p[next_best]) - int(p[chosen]), plugin) for plugin, p in weighted.items())
        if decision.ties or not shares or shares[0][0] >= 0:
            self._bump(Name("tied"), chosen)
        else:
            self._bump(Name("carried", shares[0][1]), chosen)

    def _add(self, name: Name, values: NDArray[Any]) -> None:
        self._column(name)[:] += values

    def _bump(self, name: Name, slot: int, by: int = 1) -> None:
        self._column(name)[slot] += by

    def _column(self, name: Name) -> Ints:
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = np.zeros(self.slots, np.int64)
        return column


def detail(reason: Reason) -> str:
    """What reasons are counted by: the code, and the resource where they are about one."""
    resource = reason.params.get("resource", "")
    return f"{reason.code}/{resource}" if resource else reason.code


def workload(decision: Decision) -> str:
    """`namespace/Kind/name` of what the pod belongs to: its owner as recorded, the Deployment behind a ReplicaSet."""
    pod = decision.pod
    if pod.owner is None:
        return f"{pod.namespace}/Pod/{pod.name}"
    suffix = f"-{pod.labels.get('pod-template-hash', '')}"
    if pod.owner.kind == "ReplicaSet" and len(suffix) > 1 and pod.owner.name.endswith(suffix):
        return f"{pod.namespace}/Deployment/{pod.owner.name.removesuffix(suffix)}"
    return f"{pod.namespace}/{pod.owner.kind}/{pod.owner.name}"
