"""What plugins said of a pod's spec before, brought up to date row by row instead of asked for anew.

Pods come in herds: the next one mostly has the spec of the last, and between two cycles one node changed. A plugin that
says what its columns follow from (`plugin.Follows`) is asked about that node alone.

Owns: columns kept from cycle to cycle, and which of their rows are asked for again. Does not own: what a column follows
from, order and meaning of the phases (`runtime`).

Invariant: a recalled column equals what the plugin would say now. Columns are never changed in place, and one in which
nothing changed is the same object as before, so that what was computed from it may be kept too (`Kept.of`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.columns import NodeColumns
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import Follows
from scheduler.framework.verdicts import Verdicts
from scheduler.objects.pod import PodInfo

KEPT_SLOTS: Final = 400_000  # of all specs together: 80 of them at 5,000 nodes; some 100 bytes a slot, so 40 MB
MOST_CHANGED: Final = 1 / 8  # share of the rows beyond which a whole column is the faster way
MOST_VERDICTS: Final = 64  # in a patched column's table, before it is asked for anew without those that nobody has

Slots = NDArray[np.intp]
Column = TypeVar("Column", Verdicts, Scores)
T = TypeVar("T")


class Kept(Generic[T]):
    """One value and the objects it was computed from."""

    def __init__(self) -> None:
        self._sources: tuple[object, ...] | None = None
        self._value: T | None = None

    def of(self, sources: tuple[object, ...], compute: Callable[[], T]) -> T:
        """What was computed from these very objects, or is now."""
        known = self._sources
        if known is None or len(known) != len(sources) or any(a is not b for a, b in zip(known, sources, strict=True)):
            self._value, self._sources = compute(), sources
        return self._value  # type: ignore[return-value]


class _Seen:
    """A column, and the state of the cluster that it is of."""

    def __init__(self, column: Any, nodes: NodeColumns) -> None:
        self.column = column
        self.generation, self.node_generation = nodes.generation, nodes.node_generation


class Recall:
    """What was said of one spec."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._feasible: Mask | None = None
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._kept: dict[str, Kept[Any]] = {}
        self._changed: tuple[int, int, Slots, NodeColumns | None] | None = None  # since, as of, rows, and as columns

    def verdicts(self, plugin: Any, nodes: NodeColumns, ask: Callable[[NodeColumns], Verdicts]) -> Verdicts:
        """The plugin's filter column. `ask`: asks it about these nodes."""
        return self._column("filter", plugin, nodes, ask, _patched_verdicts)

    def points(self, plugin: Any, nodes: NodeColumns, ask: Callable[[NodeColumns], Scores]) -> Scores:
        """The plugin's raw points, of nodes that are not feasible too."""
        return self._column("score", plugin, nodes, ask, _patched_points)

    def same(self, feasible: Mask) -> Mask:
        """The mask of last time where it is equal, so that what follows from it may be kept."""
        if self._feasible is None or not np.array_equal(self._feasible, feasible):
            self._feasible = feasible
        return self._feasible

    def kept(self, what: str) -> Kept[Any]:
        """A place for what is computed from columns."""
        return self._kept.setdefault(what, Kept())

    def _column(
        self,
        point: str,
        plugin: Any,
        nodes: NodeColumns,
        ask: Callable[[NodeColumns], Column],
        patched: Callable[[Column, Slots, Column, int], Column | None],
    ) -> Column:
        follows = getattr(plugin, "follows", Follows.ANYTHING)
        if follows is Follows.ANYTHING:
            return ask(nodes)
        seen = self._seen.get((point, plugin.name))
        if seen is not None and follows is Follows.NODES and seen.node_generation == nodes.node_generation:
            kept: Column = seen.column
            return kept
        if seen is not None and follows is Follows.ROW:
            column = self._updated(seen, nodes, ask, patched)
            if column is not None:
                self._seen[point, plugin.name] = _Seen(column, nodes)
                return column
        column = ask(nodes)
        self._seen[point, plugin.name] = _Seen(column, nodes)
        return column

    def _updated(
        self,
        seen: _Seen,
        nodes: NodeColumns,
        ask: Callable[[NodeColumns], Column],
        patched: Callable[[Column, Slots, Column, int], Column | None],
    ) -> Column | None:
        """The column with the rows that changed since; None where a whole one is the better way."""
        rows = self._rows_since(seen.generation, nodes)
        if rows is None:
            return None
        column: Column = seen.column
        chosen, part = rows
        return patched(column, chosen, ask(part), nodes.slots) if len(chosen) else column

    def _rows_since(self, generation: int, nodes: NodeColumns) -> tuple[Slots, NodeColumns] | None:
        """The rows that changed since; None where they are too many."""
        if self._changed is None or self._changed[:2] != (generation, nodes.generation):
            slots = np.flatnonzero(nodes.since > generation)
            few = len(slots) <= nodes.slots * MOST_CHANGED
            self._changed = (generation, nodes.generation, slots, nodes.rows(slots) if few else None)
        _, _, slots, part = self._changed
        return None if part is None else (slots, part)


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
            while len(self._specs) > 1 and len(self._specs) * nodes.slots > self._kept_slots:
                self._specs.popitem(last=False)
        else:
            self._specs.move_to_end(key)
        return found


def _patched_verdicts(column: Verdicts, chosen: Slots, part: Verdicts, slots: int) -> Verdicts | None:
    return column.patched(chosen, part, slots) if len(column.table) <= MOST_VERDICTS else None


def _patched_points(column: Scores, chosen: Slots, part: Scores, slots: int) -> Scores:
    if np.array_equal(column[chosen], part):
        return column
    points = column.copy()
    points[chosen] = part
    return points
