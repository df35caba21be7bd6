"""What was worked out of a pod's spec before, brought up to date row by row instead of worked out anew.

Pods come in herds: the next one mostly has the spec of the last, and between two cycles one node changed. Each column
of a cycle (a filter's verdicts, a plugin's points, what they are normalised to, totals) has a `Place`, which knows what
the column followed from, and in which rows it differs from what it was before. So whatever follows from a column can
ask which rows to work out again. A plugin takes part by saying what its columns follow from (`plugin.Follows`, and
notes that can tell how they differ); what others say is compared with what they said before.

Owns: columns kept from cycle to cycle, and which of their rows are worked out again. Does not own: what a column
follows from, order and meaning of the phases (`runtime`, `scoring`).

Invariant: a recalled column equals what would be worked out now. Columns are never changed in place, and one in which
nothing changed is the same object as before: whoever holds one may keep what it made of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.columns import NodeColumns, Rows
from scheduler.framework.plugin import Follows
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Verdicts
from scheduler.objects.pod import PodInfo

KEPT_SLOTS: Final = 400_000  # of all specs together: 79 of them at 5,000 nodes; some 200 bytes a slot, so 80 MB
SPEC_SLOTS: Final = 60  # what is kept of a spec beside its columns takes as much as so many slots do
MOST_CHANGED: Final = 8  # a whole column is the faster way where more than one row in so many changed
MOST_VERDICTS: Final = 64  # in a patched column's table, before it is asked for anew without those that nobody has

Slots = NDArray[np.intp]
Column = TypeVar("Column")
P = TypeVar("P")

NO_ROWS: Final[Slots] = np.zeros(0, np.intp)


class Place(Generic[Column]):
    """One column, and in which rows it differs from the one before. Version 0: there is none yet."""

    __slots__ = ("_rows", "column", "follows", "version")

    def __init__(self) -> None:
        self.version = 0  # goes up when the column changes
        self.follows: Any = None  # of a plugin's column: the state of what it was asked about
        self.column: Column = None  # type: ignore[assignment]
        self._rows: Slots | None = None

    def since(self, version: int) -> Slots | None:
        """The rows that changed after a version; None where that is too long ago to say."""
        if version == self.version:
            return NO_ROWS
        return self._rows if version == self.version - 1 else None

    def settle(self, column: Column) -> None:
        """The column was worked out as a whole."""
        if self.version == 0:
            self._become(column, None)
        elif column is not self.column:
            rows = _differing(self.column, column)
            if rows is None or len(rows):
                self._become(column, rows)

    def patch(self, rows: Slots, part: Column, slots: int) -> None:
        """Only these rows, of so many, were worked out again."""
        column = _patched(self.column, rows, part, slots)
        if column is not self.column:
            self._become(column, rows)

    def _become(self, column: Column, rows: Slots | None) -> None:
        self.column, self._rows = column, rows
        self.version += 1


@dataclass(frozen=True)
class Asked:
    """A plugin at Filter or Score, and what its column follows from. `note`: of which type, beside the row."""

    plugin: Any
    name: str
    follows: Follows
    note: type[Any] | None

    @property
    def recalls(self) -> bool:
        """Whether what it said before may count."""
        return self.follows is not Follows.ANYTHING

    @classmethod
    def at(cls, point: str, plugin: Any) -> Asked:
        """`point`: filter or score."""
        note = getattr(plugin, f"{point}_note", None)
        return cls(plugin, plugin.name, getattr(plugin, "follows", Follows.ANYTHING), note)


class Recall:
    """What was worked out of one spec."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._places: dict[Hashable, Any] = {}
        self._since: tuple[int, int, Slots] | None = None  # rows that changed since a generation, as of another
        self._part: tuple[Slots, int, NodeColumns] | None = None  # rows, as of a generation, as columns

    def place(self, what: Hashable, new: Callable[[], P]) -> P:
        """The place of something, or of several things together."""
        found: P | None = self._places.get(what)
        if found is None:
            found = self._places[what] = new()
        return found

    def bring(
        self, place: Place[Column], asked: Asked, state: CycleState, nodes: NodeColumns, ask: Callable[[Any], Column]
    ) -> None:
        """Bring a plugin's column up to date. `ask`: asks it about these nodes."""
        if asked.follows is Follows.NODES:
            if place.follows != nodes.node_generation:
                place.settle(ask(nodes))
                place.follows = nodes.node_generation
        elif asked.follows is Follows.ANYTHING:
            place.settle(ask(nodes))
        else:
            note = None if asked.note is None else state.find(asked.note)
            rows = self._changed(place, note, nodes)
            if rows is None:
                place.settle(ask(nodes))
            elif len(rows):
                place.patch(rows, ask(self._part_of(nodes, rows)), self.slots)
            place.follows = (nodes.generation, note)

    def few(self, *changed: Slots | None) -> Slots | None:
        """All these rows, where they are known and not too many."""
        rows = union(changed)
        return rows if rows is not None and len(rows) * MOST_CHANGED <= self.slots else None

    def _changed(self, place: Place[Any], note: Any, nodes: NodeColumns) -> Slots | None:
        """The rows that changed since the place was brought up to date, and those of which a note says otherwise."""
        if place.follows is None or _motley(place.column):
            return None
        generation, before = place.follows
        if (before is None) != (note is None):
            return None
        rows = self._rows_since(generation, nodes)
        return self.few(rows) if note is before else self.few(rows, note.differs(before, nodes))

    def _rows_since(self, generation: int, nodes: NodeColumns) -> Slots:
        """The same array for all plugins that ask alike."""
        known = self._since
        if known is None or known[:2] != (generation, nodes.generation):
            known = self._since = (generation, nodes.generation, nodes.changed_since(generation))
        return known[2]

    def _part_of(self, nodes: NodeColumns, rows: Slots) -> NodeColumns:
        """These rows as columns, the same for all plugins that ask alike."""
        known = self._part
        if known is None or known[0] is not rows or known[1] != nodes.generation:
            known = self._part = (rows, nodes.generation, Rows(nodes, rows))
        return known[2]


class Recollection:
    """The specs that came last."""

    def __init__(self, kept_slots: int = KEPT_SLOTS) -> None:
        self._kept_slots = kept_slots
        self._specs: OrderedDict[bytes, Recall] = OrderedDict()  # the one that came last at the end

    def of(self, pod: PodInfo, nodes: NodeColumns) -> Recall:
        """What is known of the pod's spec, perhaps nothing yet."""
        key = pod.spec_digest
        found = self._specs.get(key)
        if found is None or found.slots != nodes.slots:
            found = self._specs[key] = Recall(nodes.slots)
            while len(self._specs) > 1 and len(self._specs) * (nodes.slots + SPEC_SLOTS) > self._kept_slots:
                self._specs.popitem(last=False)
        self._specs.move_to_end(key)
        return found


def union(changed: Iterable[Slots | None]) -> Slots | None:
    """All these rows, some perhaps twice; None where some may be any."""
    rows = NO_ROWS
    for more in changed:
        if more is None:
            return None
        if more is not rows and len(more):
            rows = np.concatenate([rows, more]) if len(rows) else more
    return rows


def _motley(column: Any) -> bool:
    """Whether a table of verdicts has grown with every patch."""
    return isinstance(column, Verdicts) and len(column.table) > MOST_VERDICTS


def _patched(before: Any, rows: Slots, part: Any, slots: int) -> Any:
    """A column with other rows; itself where they are no other."""
    if isinstance(before, Verdicts):
        return before.patched(rows, part, slots)
    if (before[rows] == part).all():
        return before
    column = before.copy()
    column[rows] = part
    return column


def _differing(before: Any, now: Any) -> Slots | None:
    """The rows in which two columns differ; None where that cannot be said."""
    if isinstance(now, Verdicts):
        return now.differing(before)
    if len(before) != len(now):
        return None
    return np.flatnonzero(before != now)
