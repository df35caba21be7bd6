"""Results of extension points: verdict columns of filters, and the values that other points return.

Contains `Verdicts` (one verdict for each slot, each distinct verdict stored once), functions that build a verdict, and
the results of PreFilter, PostFilter, Permit, PreBind and Bind.

Invariant: in a `Verdicts`, `table[0]` is Success, and `ids` is None if every node passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Code, Preemption, Reason, Verdict
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.pod import PodInfo

ERRORS: Final = (
    Code.ERROR,
    Code.WAIT,
    Code.SKIP,
)  # codes that count as an error of a filter: Wait and Skip have no meaning at Filter

Mask = NDArray[np.bool_]
Ids = NDArray[np.integer]


def unschedulable(*reasons: Reason) -> Verdict:
    """Return the verdict Unschedulable: the node rejects the pod, and preemption might resolve that."""
    return Verdict(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: Reason) -> Verdict:
    """Return the verdict UnschedulableAndUnresolvable: the node rejects the pod, and preemption cannot resolve that."""
    return Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(text: str) -> Verdict:
    """Return an error verdict with this message, for a failure that is not a property of the node."""
    return Verdict(Code.ERROR, (Reason("text", {"text": text}),))


SKIP = Verdict(Code.SKIP)


@dataclass(frozen=True)
class Verdicts:
    """One filter's verdict on each node.

    `ids` holds, for each node slot (row index in the columns), an index into `table`, the distinct verdicts. `table[0]`
    is Success. If `ids` is None, the filter accepts every node.
    """

    table: tuple[Verdict, ...] = (SUCCESS,)
    ids: Ids | None = None

    @classmethod
    def reject(cls, where: Mask, verdict: Verdict) -> Verdicts:
        """Return verdicts that are `verdict` on the nodes of the mask `where` and Success on the others."""
        return cls((SUCCESS, verdict), where.view(np.uint8)) if where.any() else PASS

    @classmethod
    def everywhere(cls, verdict: Verdict, slots: int) -> Verdicts:
        """Return verdicts that are `verdict`, which is not Success, on each of `slots` nodes."""
        return cls((SUCCESS, verdict), np.ones(slots, np.uint8))

    @classmethod
    def from_ids(cls, ids: NDArray[np.integer], distinct: int, verdict: Callable[[int], Verdict]) -> Verdicts:
        """Return verdicts on nodes that are grouped by an ID, where all nodes with the same ID get the same verdict.

        `ids` holds each node's ID, which is below `distinct`, such as the ID of its labels' value or a bit mask. Calls
        `verdict` once for each ID that occurs.
        """
        occurring = np.flatnonzero(np.bincount(ids, minlength=distinct))
        table = [SUCCESS]
        numbers = np.zeros(int(occurring[-1]) + 1 if len(occurring) else 1, np.uint16)
        for number in occurring:
            value = verdict(int(number))
            if value not in table:
                table.append(value)
            numbers[number] = table.index(value)
        return cls(tuple(table), numbers.take(ids)) if len(table) > 1 else PASS

    def codes(self, slots: int) -> NDArray[np.uint8]:
        """Return the status code of the verdict on each node; `slots` is the number of node slots."""
        return np.zeros(slots, np.uint8) if self.ids is None else self._codes.take(self.ids)

    @lazy
    def _codes(self) -> NDArray[np.uint8]:
        return np.array([v.code for v in self.table], np.uint8)

    @lazy
    def fails(self) -> bool:
        """Whether some verdict in `table` is an error."""
        return any(verdict.code in ERRORS for verdict in self.table)

    def codes_at(self, rows: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Return the status codes of the verdicts on the nodes in the slots `rows` (row indices)."""
        return np.zeros(len(rows), np.uint8) if self.ids is None else self._codes.take(self.ids[rows])

    def verdict_at(self, slot: int) -> Verdict:
        """Return the verdict on the node in `slot` (its row index in the columns)."""
        return self.table[self.id_at(slot)]

    def id_at(self, slot: int) -> int:
        """Return the position in `table` of the verdict on the node in `slot`."""
        return 0 if self.ids is None else int(self.ids[slot])

    def with_rows(self, where: NDArray[np.intp], part: Verdicts, slots: int) -> Verdicts:
        """Return a copy with the verdicts `part` on the nodes in the slots `where` (row indices).

        `slots` is the number of all slots. If nothing differs, the result is `self`.
        """
        if self.ids is None and part.ids is None:
            return self
        table = self._extended_table(part.table)
        numbers = np.array([table.index(verdict) for verdict in part.table], np.uint16)
        fresh = numbers.take(np.zeros(len(where), np.intp) if part.ids is None else part.ids)
        if self.ids is not None and np.array_equal(self.ids[where], fresh):
            return self
        ids = np.zeros(slots, np.uint16) if self.ids is None else self.ids.astype(np.uint16)
        ids[where] = fresh
        return Verdicts(tuple(table), ids)

    def changed_slots(self, other: Verdicts) -> NDArray[np.intp] | None:
        """Return the slots (row indices) of the nodes on which `other` has another verdict.

        Returns None if the tables differ, so that any verdict may differ.
        """
        if self.table != other.table:
            return None
        if self.ids is None or other.ids is None:
            ids = self.ids if self.ids is not None else other.ids
            return np.flatnonzero(np.zeros(0) if ids is None else ids)
        return np.flatnonzero(self.ids != other.ids)

    def with_parameters(self, explain: Callable[[Reason], Mapping[str, str]]) -> Verdicts:
        """Return a copy in which each reason also has the parameters that `explain` returns for it.

        Returns `self` if `explain` adds none, or if two distinct verdicts would become equal.
        """

        def extend(reason: Reason) -> Reason:
            more = explain(reason)
            return Reason(reason.code, {**reason.params, **more}) if more else reason

        table = tuple(
            replace(verdict, reasons=tuple(map(extend, verdict.reasons))) if verdict.reasons else verdict
            for verdict in self.table
        )
        # equal verdicts would get two numbers, which a column must not have
        return Verdicts(table, self.ids) if table != self.table and len(set(table)) == len(table) else self

    def with_verdicts(self, verdicts: Mapping[int, Verdict], slots: int) -> Verdicts:
        """Return a copy with some verdicts replaced by `verdicts`, which maps node slots (row indices) to new ones.

        `slots` is the number of all slots.
        """
        if not verdicts:
            return self
        table = self._extended_table(verdicts.values())
        ids = np.zeros(slots, np.uint16) if self.ids is None else self.ids.astype(np.uint16)
        for slot, verdict in verdicts.items():
            ids[slot] = table.index(verdict)
        return Verdicts(tuple(table), ids)

    def _extended_table(self, more: Iterable[Verdict]) -> list[Verdict]:
        """Return `table` with the missing verdicts of `more` appended, so that existing IDs keep their meaning."""
        present = set(self.table)
        return [*self.table, *(verdict for verdict in dict.fromkeys(more) if verdict not in present)]


PASS = Verdicts()


@dataclass(frozen=True)
class PostFilterResult:
    """The result of a PostFilter plugin, with what it found if it searched for pods to evict.

    If `nomination` is None, the pod's nominated node stays as it is. `victims` must be evicted before the pod fits.
    """

    verdict: Verdict
    preemption: Preemption | None = None
    nomination: Nomination | None = None
    victims: tuple[PodInfo, ...] = ()


@dataclass(frozen=True)
class Wait:
    """The result of a Permit plugin that decides later.

    Until then, the pod counts on its node as assumed. It is rejected after `timeout_s` seconds. `reason` says what the
    plugin waits for.
    """

    timeout_s: float
    reason: Reason | None = None


@dataclass(frozen=True)
class Pending:
    """The result of a PreBind plugin whose work continues in the background, without a thread that waits for it.

    The thread of the scheduling loop calls `check` every second; it returns the verdict, or None while the work
    continues. `late` is the verdict after `timeout_s` seconds without a result. `what` says in words what the plugin
    waits for.
    """

    check: Callable[[], Verdict | None]
    timeout_s: float
    late: Verdict
    what: str


@dataclass(frozen=True)
class Deferred:
    """The result of a Bind plugin that binds asynchronously, without a thread that waits for it.

    `begin` sends the request and takes a callback, which is called once with the verdict. The callback runs in a thread
    that serves all such requests, so it must not block.
    """

    begin: Callable[[Callable[[Verdict], None]], None]


@dataclass(frozen=True)
class PreFilterResult:
    """The result of a PreFilter plugin: a verdict and, if `node_names` is set, the only nodes that Filter evaluates."""

    verdict: Verdict = SUCCESS
    node_names: frozenset[str] | None = field(default=None)


SKIPPED = PreFilterResult(SKIP)
