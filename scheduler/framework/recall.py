"""What was worked out of a pod's spec before, brought up to date row by row instead of worked out anew.

Pods come in herds: the next one mostly has the spec of the last, and between two cycles one node changed. So of each
spec that came lately, what a phase came to stays (`Phase`): what plugins said, and what was made of it. The next time,
only those are asked whose answer may be another one, and only about rows that changed; what is made of the answers is
made again in the rows in which they differ. A plugin takes part by saying what its answers follow from
(`plugin.Follows`, `BasePlugin.settled_by_spec`, and notes that can tell how they differ); others are asked about
everything, every time.

Owns: what stays of a spec, who is asked again, and about which rows. Does not own: what a column follows from, order
and meaning of the phases (`runtime`, `filtering`, `scoring`).

Invariant: what a phase comes to equals what it would come to now, worked out anew. Columns that a trace may hold are
never changed in place, and one in which nothing changed is the same object as before: whoever holds one may keep what
it made of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Verdict
from scheduler.columns import NodeColumns, Rows
from scheduler.framework.plugin import Follows
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import SKIP
from scheduler.objects.pod import PodInfo

KEPT_SLOTS: Final = 400_000  # of all specs together: 79 of them at 5,000 nodes; some 200 bytes a slot, so 80 MB
SPEC_SLOTS: Final = 250  # what is kept of a spec beside its columns takes as much as so many slots do
KEPT_ANSWERS: Final = 16  # of a plugin about rows that are alike: some plugins, a few hundred bytes a row
MOST_ALIKE: Final = 4  # rows of such an answer: more are hardly ever alike
MOST_CHANGED: Final = 8  # a whole column is the faster way where more than one row in so many changed

Slots = NDArray[np.intp]
Column = TypeVar("Column")
P = TypeVar("P", bound="Phase")

NO_ROWS: Final[Slots] = np.zeros(0, np.intp)


@dataclass(frozen=True)
class Asked:
    """A plugin at Filter or Score, and what its column follows from. `note`: of which type, beside the row."""

    plugin: Any
    name: str
    follows: Follows
    note: type[Any] | None

    @classmethod
    def at(cls, point: str, plugin: Any) -> Asked:
        """`point`: filter or score."""
        note = getattr(plugin, f"{point}_note", None)
        return cls(plugin, plugin.name, getattr(plugin, "follows", Follows.ANYTHING), note)


class Changes:
    """What is not as it was when a phase was last worked out. `rows`: None where these may be any."""

    def __init__(self, nodes: NodeColumns, rows: Slots | None, *, objects: bool) -> None:
        """`objects`: whether some Node object is another one."""
        self.nodes = nodes
        self.rows = rows
        self.objects = objects
        self._part: tuple[Slots, Rows] | None = None

    def few(self, rows: Slots | None, more: Slots | None) -> Slots | None:
        """Both of them, some perhaps twice; None where they may be any, or are too many."""
        if rows is None or more is None:
            return None
        both = rows if rows is more or not len(more) else np.concatenate([rows, more]) if len(rows) else more
        return both if len(both) * MOST_CHANGED <= self.nodes.slots else None

    def part(self, rows: Slots) -> Rows:
        """These rows as columns, the same for all plugins that are asked about the same."""
        if self._part is None or self._part[0] is not rows:
            self._part = (rows, Rows(self.nodes, rows))
        return self._part[1]


class Phase:
    """What Filter or Score came to for one spec, some plugins skipped."""

    def __init__(self, skip: Set[str]) -> None:
        self.skip = frozenset(skip)
        self._as_of: tuple[int, int] | None = None  # generations of rows and of nodes; None: nothing stands

    def begin(self, recall: Recall, nodes: NodeColumns) -> Changes:
        """What has changed since. A phase that does not get to its end then does not stand."""
        changes, self._as_of = recall.changes(self._as_of, nodes), None
        return changes

    @property
    def stands(self) -> bool:
        """Whether it got to its end."""
        return self._as_of is not None

    def end(self, nodes: NodeColumns) -> None:
        """All of it is as of now."""
        self._as_of = (nodes.generation, nodes.node_generation)


class Recall:
    """What stays of one spec."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._phases: dict[type[Phase], Phase] = {}
        self._answers: dict[str, Answers] = {}
        self._changes: tuple[tuple[int, int], int, Changes] | None = None  # since when, as of when

    def phase(self, kind: type[P], skip: Set[str], new: Callable[[], P]) -> P:
        """The last phase of a kind, where it stands and the same plugins were skipped; else a new one."""
        found = self._phases.get(kind)
        if not isinstance(found, kind) or found.skip != skip or not found.stands:
            found = self._phases[kind] = new()
        return found

    def answers(self, point: str, ask: Callable[[], Answers]) -> Answers:
        """What plugins say at PreFilter or PreScore, as far as the spec settles it."""
        found = self._answers.get(point)
        if found is None:
            found = self._answers[point] = ask()
        return found

    def changes(self, since: tuple[int, int] | None, nodes: NodeColumns) -> Changes:
        """What changed since these generations of rows and nodes: the same object for phases that ask alike."""
        if since is None:
            return Changes(nodes, None, objects=True)
        known = self._changes
        if known is None or known[:2] != (since, nodes.generation):
            rows = nodes.changed_since(since[0])
            few = rows if len(rows) * MOST_CHANGED <= self.slots else None
            changes = Changes(nodes, few, objects=since[1] != nodes.node_generation)
            known = self._changes = (since, nodes.generation, changes)
        return known[2]


class Answers:
    """What a profile's plugins say at PreFilter or PreScore of all pods of a spec that settles it, asked once.

    `others`: the plugins that have to be asked each time, with their numbers among all; those too that said more than
    Success or Skip.
    """

    def __init__(self, plugins: Sequence[Any], pod: PodInfo, ask: Callable[[Any, CycleState], Verdict | None]) -> None:
        """`ask`: asks a plugin, its notes to be in that state; None where it said more than a code."""
        self.others: list[tuple[int, Any]] = []
        self._skipped: list[tuple[int, str]] = []
        self._notes: list[tuple[int, CycleState]] = []
        for number, plugin in enumerate(plugins):
            notes = CycleState()
            said = _settled(plugin, pod, lambda: ask(plugin, notes))  # noqa: B023 - called at once
            if said is None or said not in (SUCCESS, SKIP):
                self.others.append((number, plugin))
                continue
            if said == SKIP:
                self._skipped.append((number, plugin.name))
            if notes:
                self._notes.append((number, notes))

    def tell(self, skip: set[str], state: CycleState, up_to: int | None = None) -> None:
        """Who is skipped, and what was noted. `up_to`: by the plugins before that number alone."""
        for number, name in self._skipped:
            if up_to is None or number < up_to:
                skip.add(name)
        for number, notes in self._notes:
            if up_to is None or number < up_to:
                state.take(notes)


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


class Standing(ABC, Generic[Column]):
    """What one plugin said of every node, as it stands."""

    def __init__(self, asked: Asked) -> None:
        self.moves = asked.follows not in (Follows.NODES, Follows.NODE)  # also where all Node objects stay the same
        self._asked = asked
        self._note: Any = None  # of the plugin, when it was last asked
        self._alike: dict[bytes, Column] = {}  # what it said of few rows, by what is in them

    def bring(self, changes: Changes, state: CycleState, ask: Callable[[NodeColumns], Column]) -> Slots | None:
        """Bring it up to date; the rows in which it changed, None where these may be any. `ask`: about these nodes."""
        rows = self._to_ask(changes, state)
        if rows is None or (len(rows) and self.motley):
            return self.take(ask(changes.nodes))
        return (
            self.take_rows(rows, self._ask_rows(changes.part(rows), ask), changes.nodes.slots) if len(rows) else NO_ROWS
        )

    def _ask_rows(self, part: Rows, ask: Callable[[NodeColumns], Column]) -> Column:
        """Rows that are like those that were asked about are not asked about again."""
        if self._asked.follows is not Follows.AMOUNTS or part.slots > MOST_ALIKE:
            return ask(part)
        said = self._alike.get(part.content)
        if said is None:
            if len(self._alike) >= KEPT_ANSWERS:
                self._alike.clear()
            said = self._alike[part.content] = ask(part)
        return said

    def _to_ask(self, changes: Changes, state: CycleState) -> Slots | None:
        """The rows of which the plugin may say something else; None: of any."""
        follows, before = self._asked.follows, self._note
        if follows is Follows.ANYTHING:
            return None
        if not self.moves:
            whole = None if follows is Follows.NODES else changes.rows
            return whole if changes.objects else NO_ROWS
        note = self._note = None if self._asked.note is None else state.find(self._asked.note)
        if note is before or changes.rows is None:
            return changes.rows
        if note is None or before is None:
            return None
        return changes.few(changes.rows, note.differs(before, changes.nodes))

    @property
    def motley(self) -> bool:
        """Whether it had better be asked for as a whole."""
        return False

    @abstractmethod
    def take(self, column: Column) -> Slots | None:
        """Take a whole column; the rows in which it differs from the one before, None where these may be any."""

    @abstractmethod
    def take_rows(self, rows: Slots, part: Column, slots: int) -> Slots:
        """Take these rows, of so many; those in which it may differ."""


def _settled(plugin: Any, pod: PodInfo, ask: Callable[[], Verdict | None]) -> Verdict | None:
    """What a plugin says, where the spec settles it; None where it does not, or where the plugin fails."""
    settled = getattr(plugin, "settled_by_spec", None)
    try:
        return ask() if settled is not None and settled(pod) else None
    except (Exception, SystemExit):
        return None


def union(changed: Iterable[Slots | None]) -> Slots | None:
    """All these rows, some perhaps twice; None where some may be any."""
    rows = NO_ROWS
    for more in changed:
        if more is None:
            return None
        if more is not rows and len(more):
            rows = np.concatenate([rows, more]) if len(rows) else more
    return rows


def patched(before: NDArray[Any], rows: Slots, part: NDArray[Any]) -> NDArray[Any]:
    """A column with other rows, of the same type; itself where they are no other."""
    if before.take(rows).tobytes() == part.tobytes():
        return before
    column = before.copy()
    column[rows] = part
    return column
