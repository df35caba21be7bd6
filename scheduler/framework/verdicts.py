"""What a filter says of all nodes: one verdict a slot, each distinct verdict once.

Invariant: `table[0]` is Success; `ids` is None where every node passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Code, Preemption, Reason, Verdict
from scheduler.framework.nominated import Nomination
from scheduler.objects.lazy import lazy
from scheduler.objects.pod import PodInfo

ERRORS: Final = (Code.ERROR, Code.WAIT, Code.SKIP)  # of a filter; Wait and Skip mean nothing there

Mask = NDArray[np.bool_]
Ids = NDArray[np.integer]


def unschedulable(*reasons: Reason) -> Verdict:
    """Rejected, but preemption on that node might help."""
    return Verdict(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: Reason) -> Verdict:
    """Rejected, and preemption would not help."""
    return Verdict(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(text: str) -> Verdict:
    """Something went wrong that is not the node's fault."""
    return Verdict(Code.ERROR, (Reason("text", {"text": text}),))


SKIP = Verdict(Code.SKIP)


@dataclass(frozen=True)
class Verdicts:
    """One filter's verdict column."""

    table: tuple[Verdict, ...] = (SUCCESS,)
    ids: Ids | None = None

    @classmethod
    def reject(cls, where: Mask, verdict: Verdict) -> Verdicts:
        """`verdict` for the slots of the mask, Success for the others."""
        return cls((SUCCESS, verdict), where.view(np.uint8)) if where.any() else PASS

    @classmethod
    def each(cls, ids: NDArray[np.integer], distinct: int, verdict: Callable[[int], Verdict]) -> Verdicts:
        """One verdict for each of `distinct` numbers in `ids` (a dictionary column's, or bit masks).

        `verdict` is asked once for each number that occurs.
        """
        occurring = np.flatnonzero(np.bincount(ids, minlength=distinct))
        table = [SUCCESS]
        numbers = np.zeros(int(occurring[-1]) + 1 if len(occurring) else 1, np.uint16)
        for number in occurring:
            said = verdict(int(number))
            if said not in table:
                table.append(said)
            numbers[number] = table.index(said)
        return cls(tuple(table), numbers.take(ids)) if len(table) > 1 else PASS

    def codes(self, slots: int) -> NDArray[np.uint8]:
        """The status code of every slot."""
        return np.zeros(slots, np.uint8) if self.ids is None else self._codes.take(self.ids)

    @lazy
    def _codes(self) -> NDArray[np.uint8]:
        return np.array([v.code for v in self.table], np.uint8)

    @lazy
    def fails(self) -> bool:
        """Whether some verdict is an error."""
        return any(verdict.code in ERRORS for verdict in self.table)

    def codes_at(self, rows: NDArray[np.intp]) -> NDArray[np.uint8]:
        """The status codes of some slots."""
        return np.zeros(len(rows), np.uint8) if self.ids is None else self._codes.take(self.ids[rows])

    def at(self, slot: int) -> Verdict:
        """The verdict of one slot."""
        return self.table[0 if self.ids is None else int(self.ids[slot])]

    def patched(self, where: NDArray[np.intp], part: Verdicts, slots: int) -> Verdicts:
        """The same, but for the slots of `where`, whose column `part` is; itself where nothing differs."""
        if self.ids is None and part.ids is None:
            return self
        table = self._with(part.table)
        numbers = np.array([table.index(verdict) for verdict in part.table], np.uint16)
        fresh = numbers.take(np.zeros(len(where), np.intp) if part.ids is None else part.ids)
        if self.ids is not None and np.array_equal(self.ids[where], fresh):
            return self
        ids = np.zeros(slots, np.uint16) if self.ids is None else self.ids.astype(np.uint16)
        ids[where] = fresh
        return Verdicts(tuple(table), ids)

    def differing(self, other: Verdicts) -> NDArray[np.intp] | None:
        """The slots of which another column says something else; None where the tables have to be compared too."""
        if self.table != other.table:
            return None
        if self.ids is None or other.ids is None:
            ids = self.ids if self.ids is not None else other.ids
            return np.flatnonzero(np.zeros(0) if ids is None else ids)
        return np.flatnonzero(self.ids != other.ids)

    def replaced(self, said: Mapping[int, Verdict], slots: int) -> Verdicts:
        """The same with other verdicts for some slots."""
        if not said:
            return self
        table = self._with(said.values())
        ids = np.zeros(slots, np.uint16) if self.ids is None else self.ids.astype(np.uint16)
        for slot, verdict in said.items():
            ids[slot] = table.index(verdict)
        return Verdicts(tuple(table), ids)

    def _with(self, more: Iterable[Verdict]) -> list[Verdict]:
        """The table with what it lacks of these at its end: the numbers that there are go on meaning the same."""
        known = set(self.table)
        return [*self.table, *(verdict for verdict in dict.fromkeys(more) if verdict not in known)]


PASS = Verdicts()


@dataclass(frozen=True)
class PostFilterResult:
    """What a PostFilter plugin says, and what it found if it looked for pods to evict.

    `nomination`: absent, the pod's nominated node stays as it is. `victims`: must go before the pod fits there.
    """

    verdict: Verdict
    preemption: Preemption | None = None
    nomination: Nomination | None = None
    victims: tuple[PodInfo, ...] = ()


@dataclass(frozen=True)
class Wait:
    """Permit: neither yes nor no yet. The pod keeps its place for so long at most, then it is rejected."""

    timeout_s: float


@dataclass(frozen=True)
class Pending:
    """PreBind: asked for, not done yet. The binding goes on when `check` says so, and no thread waits for that.

    `check` runs in the loop's thread, every second, on objects that do not change meanwhile: None means not yet.
    `late` is the verdict when nothing was said after `timeout_s`. `what` is waited for, in words.
    """

    check: Callable[[], Verdict | None]
    timeout_s: float
    late: Verdict
    what: str


@dataclass(frozen=True)
class Deferred:
    """Bind: a request that no thread waits for. `begin` sends it, and what it is given is told the verdict, once.

    It is told so in a thread that serves all such requests, and must not wait either.
    """

    begin: Callable[[Callable[[Verdict], None]], None]


@dataclass(frozen=True)
class PreFilterResult:
    """What a PreFilter plugin says of the pod, and, where it names nodes, the only ones to look at."""

    verdict: Verdict = SUCCESS
    node_names: frozenset[str] | None = field(default=None)


SKIPPED = PreFilterResult(SKIP)
