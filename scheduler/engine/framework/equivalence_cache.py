"""Results of the last cycle of each pod spec, brought up to date instead of computed anew.

Pods created from one template form an equivalence class: the next pod mostly has the spec of the last one, and
between two cycles only a few nodes changed. The cache keeps, for each recent spec, what the plugins returned at Filter
and Score and what the framework derived from it (`CachedPhase`). In the next cycle of the same spec only the plugins
whose result may differ run, only on the rows that changed, and the derived columns change only in the rows where a
result differs. A plugin takes part by declaring its dependencies: `plugin.DependsOn`,
`BasePlugin.depends_only_on_spec`, and state data that can be compared (`plugin.StateData`). A plugin without a
declaration runs on every node in every cycle.

Invariant: the result of a phase equals the result that computing it from scratch would give. The cache never changes
a column that a trace may hold, and a column in which nothing changed remains the same object: a holder may keep what it
derived from that object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from herodotus_record.lru import Lru
from herodotus_record.model import SUCCESS, Verdict
from scheduler.engine.columns import NodeColumns, RowSubset
from scheduler.engine.framework.plugin import DependsOn
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import SKIP
from scheduler.engine.objects.pod import PodInfo

MAX_CACHED_SLOTS: Final = 400_000  # of all entries: 79 entries at 5,000 nodes, about 200 bytes a slot, 80 MB
ENTRY_OVERHEAD_SLOTS: Final = 250  # an entry without its columns takes as much memory as this many slots
MAX_SHARED_RESULTS: Final = 16  # for each plugin with DependsOn.AMOUNTS: a few hundred bytes a row
MAX_SHARED_ROWS: Final = 4  # in one shared result: larger sets of rows are hardly ever equal
MIN_SLOTS_PER_CHANGED_ROW: Final = 8  # with more changed rows than one in eight, the whole column is faster

Slots = NDArray[np.intp]
Column = TypeVar("Column")
P = TypeVar("P", bound="CachedPhase")

NO_ROWS: Final[Slots] = np.zeros(0, np.intp)


@dataclass(frozen=True)
class PluginDependencies:
    """A filter or score plugin with its declared dependencies: what its results depend on besides the pod's spec.

    `state_data` is the type of the PreFilter or PreScore data that the results depend on; None if they depend on none.
    """

    plugin: Any
    name: str
    depends_on: DependsOn
    state_data: type[Any] | None

    @classmethod
    def from_plugin(cls, plugin: Any, point: str) -> PluginDependencies:
        """Return the dependencies that the plugin declares for the extension point `point`, "filter" or "score".

        The results of a plugin that declares nothing may depend on anything (`DependsOn.ANYTHING`).
        """
        state_data = getattr(plugin, f"{point}_state", None)
        return cls(plugin, plugin.name, getattr(plugin, "depends_on", DependsOn.ANYTHING), state_data)


def find_cache_revision(plugins: Iterable[Any]) -> int:
    """Return a number that changes when all cached results of these plugins must be discarded.

    That is when an object changes of a kind that a plugin names in `discards_cache_for`.
    """
    kinds = ((plugin.handle.objects, kind) for plugin in plugins for kind in getattr(plugin, "discards_cache_for", ()))
    return sum(objects.revision_of(kind) for objects, kind in kinds)


class Changes:
    """The changes of nodes and their pods since a Filter or Score result was last computed.

    `rows` holds the node slots (row indices in the columns) that changed, or is None if every node may have changed.
    `node_objects` is True if a Node object changed, and not only the pods on nodes.
    """

    def __init__(self, nodes: NodeColumns, rows: Slots | None, *, node_objects: bool) -> None:
        self.nodes = nodes
        self.rows = rows
        self.node_objects = node_objects
        self._subset: tuple[Slots, RowSubset] | None = None

    def merge(self, rows: Slots | None, more: Slots | None) -> Slots | None:
        """Return the slots (row indices) of the nodes in either array, possibly with duplicates.

        Returns None, which means that any node may have changed, if either array is None, or if so many nodes changed
        that recomputing all of them is faster.
        """
        if rows is None or more is None:
            return None
        both = rows if rows is more or not len(more) else np.concatenate([rows, more]) if len(rows) else more
        return both if len(both) * MIN_SLOTS_PER_CHANGED_ROW <= self.nodes.slots else None

    def select(self, rows: Slots) -> RowSubset:
        """Return the columns of only the nodes in the slots `rows`; a repeated call with the same array is cached."""
        if self._subset is None or self._subset[0] is not rows:
            self._subset = (rows, RowSubset(self.nodes, rows))
        return self._subset[1]


class CachedPhase:
    """The cached result of Filter or of Score for pods of one spec.

    The result is computed without the plugins that `skip` names, and is reused only for pods that skip the same
    plugins.
    """

    def __init__(self, skip: Set[str]) -> None:
        self.skip = frozenset(skip)
        self._computed_at: tuple[int, int] | None = None  # row and node generation; None: incomplete

    def begin(self, entry: CacheEntry, nodes: NodeColumns) -> Changes:
        """Return what changed in the node columns since the result was computed, and mark the result as incomplete.

        The result may be reused again after `complete` is called.
        """
        changes, self._computed_at = entry.changes_since(self._computed_at, nodes), None
        return changes

    @property
    def is_complete(self) -> bool:
        """Whether the result was computed without an error, so that it may be reused."""
        return self._computed_at is not None

    def complete(self, nodes: NodeColumns) -> None:
        """Mark the result as valid for the present state of the node columns."""
        self._computed_at = (nodes.generation, nodes.node_generation)


class CacheEntry:
    """The cached plugin results of one pod spec: phases for Filter and Score, memos for PreFilter and PreScore.

    `slots` is the number of node slots (rows of the columns) for which the results were computed.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._phases: dict[type[CachedPhase], CachedPhase] = {}
        self._memos: dict[str, PluginStateMemo] = {}
        # The changes between a (row, Node-object) generation and a row generation, as the last call returned them.
        self._changes: tuple[tuple[int, int], int, Changes] | None = None

    def get_phase(self, kind: type[P], skip: Set[str], create: Callable[[], P]) -> P:
        """Return the cached result of Filter or Score (`kind`) if it is complete and skipped the same plugins.

        Otherwise, the result of `create` replaces it and is returned.
        """
        phase = self._phases.get(kind)
        if not isinstance(phase, kind) or phase.skip != skip or not phase.is_complete:
            phase = self._phases[kind] = create()
        return phase

    def get_memo(self, point: str, create: Callable[[], PluginStateMemo]) -> PluginStateMemo:
        """Return the cached results of PreFilter or PreScore, created by `create` at the first call.

        `point` is "preFilter" or "preScore".
        """
        memo = self._memos.get(point)
        if memo is None:
            memo = self._memos[point] = create()
        return memo

    def changes_since(self, generations: tuple[int, int] | None, nodes: NodeColumns) -> Changes:
        """Return what changed in the node columns since `generations`, a pair of row and Node-object generation.

        If `generations` is None, everything counts as changed. Filter and Score of one cycle mostly pass the same
        generations and then get the same object.
        """
        if generations is None:
            return Changes(nodes, None, node_objects=True)
        last = self._changes
        if last is None or last[:2] != (generations, nodes.generation):
            rows = nodes.changed_since(generations[0])
            few = rows if len(rows) * MIN_SLOTS_PER_CHANGED_ROW <= self.slots else None
            changes = Changes(nodes, few, node_objects=generations[1] != nodes.node_generation)
            last = self._changes = (generations, nodes.generation, changes)
        return last[2]


class PluginStateMemo:
    """PreFilter or PreScore results and state data that the pod's spec alone determines, computed once for a spec.

    `uncached` holds the plugins that must run in each cycle, as (position in the profile, plugin): those that do not
    declare `depends_only_on_spec`, and those that failed or returned more than Success or Skip.
    """

    def __init__(self, plugins: Sequence[Any], pod: PodInfo, run: Callable[[Any, CycleState], Verdict | None]) -> None:
        """Run every plugin whose results depend on the spec alone, and keep its verdict and state data.

        `run` runs a plugin, which writes into the given state, and returns its verdict, or None if the plugin returned
        more than a verdict.
        """
        self.uncached: list[tuple[int, Any]] = []
        self._skipped: list[tuple[int, str]] = []
        self._states: list[tuple[int, CycleState]] = []
        for position, plugin in enumerate(plugins):
            state = CycleState()
            verdict = _run_if_spec_only(plugin, pod, lambda: run(plugin, state))  # noqa: B023 - called at once
            if verdict is None or verdict not in (SUCCESS, SKIP):
                self.uncached.append((position, plugin))
                continue
            if verdict == SKIP:
                self._skipped.append((position, plugin.name))
            if state:
                self._states.append((position, state))

    def apply(self, skip: set[str], state: CycleState, before: int | None = None) -> None:
        """Add the names of plugins that returned Skip to `skip`, and copy the stored state data into `state`.

        If `before` is not None, only plugins before that position in the profile count, because the phase ended there.
        """
        for position, name in self._skipped:
            if before is None or position < before:
                skip.add(name)
        for position, cached in self._states:
            if before is None or position < before:
                state.update(cached)


class EquivalenceCache:
    """An LRU cache of plugin results, with one `CacheEntry` for each recently scheduled pod spec.

    `max_slots` limits the node slots of all entries together.
    """

    def __init__(self, max_slots: int = MAX_CACHED_SLOTS) -> None:
        self._max_slots = max_slots
        self._entries: Lru[bytes, CacheEntry] = Lru(1)

    def get(self, pod: PodInfo, nodes: NodeColumns) -> CacheEntry:
        """Return the cache entry of the pod's spec, or a new one if there is none or its number of node slots differs.

        The new entry is stored, except for a pod with `is_large`.
        """
        if pod.is_large:
            return CacheEntry(nodes.slots)
        key = pod.spec_digest
        entry = self._entries.get(key)
        if entry is None or entry.slots != nodes.slots:
            self._entries.set_limit(self._max_slots // (nodes.slots + ENTRY_OVERHEAD_SLOTS))
            entry = self._entries.put(key, CacheEntry(nodes.slots))
        return entry


class CachedColumn(ABC, Generic[Column]):
    """One plugin's cached result for every node, which a refresh recomputes only for the nodes that need it.

    `node_objects_only` is True if the result can change only when a Node object changes, and not with the pods on
    nodes.
    """

    def __init__(self, dependencies: PluginDependencies) -> None:
        self.node_objects_only = dependencies.depends_on in (DependsOn.NODES, DependsOn.NODE)
        self._dependencies = dependencies
        self._state_data: Any = None  # of the cycle in which the plugin last ran
        self._shared: dict[bytes, Column] = {}  # results for a few rows, by the content of these rows

    def refresh(self, changes: Changes, state: CycleState, run: Callable[[NodeColumns], Column]) -> Slots | None:
        """Bring the results up to date; return the slots (row indices) of the nodes whose result changed.

        The return value is None if every result may have changed. `run` runs the plugin on columns of all nodes, or of
        only the nodes that may have changed.
        """
        rows = self._rows_to_refresh(changes, state)
        if rows is None or (len(rows) and self.should_recompute):
            return self.replace(run(changes.nodes))
        return (
            self.replace_rows(rows, self._run_on_rows(changes.select(rows), run), changes.nodes.slots)
            if len(rows)
            else NO_ROWS
        )

    def _run_on_rows(self, subset: RowSubset, run: Callable[[NodeColumns], Column]) -> Column:
        """Return the plugin's result for the nodes in `subset`.

        If the plugin declares DependsOn.AMOUNTS, an earlier result for nodes with equal resource amounts is reused.
        """
        if self._dependencies.depends_on is not DependsOn.AMOUNTS or subset.slots > MAX_SHARED_ROWS:
            return run(subset)
        result = self._shared.get(subset.content)
        if result is None:
            if len(self._shared) >= MAX_SHARED_RESULTS:
                self._shared.clear()
            result = self._shared[subset.content] = run(subset)
        return result

    def _rows_to_refresh(self, changes: Changes, state: CycleState) -> Slots | None:
        """Return the slots of the nodes for which the plugin may return another result; None means any node."""
        depends_on, previous = self._dependencies.depends_on, self._state_data
        if depends_on is DependsOn.ANYTHING:
            return None
        if self.node_objects_only:
            rows = None if depends_on is DependsOn.NODES else changes.rows
            return rows if changes.node_objects else NO_ROWS
        kind = self._dependencies.state_data
        data = self._state_data = None if kind is None else state.find(kind)
        if data is previous or changes.rows is None:
            return changes.rows
        if data is None or previous is None:
            return None
        return changes.merge(changes.rows, data.changed_slots(previous, changes.nodes))

    @property
    def should_recompute(self) -> bool:
        """Whether to recompute the result for all nodes even if only a few nodes changed."""
        return False

    @abstractmethod
    def replace(self, column: Column) -> Slots | None:
        """Replace the results of all nodes; return the slots (row indices) of the nodes whose result differs.

        The return value is None if every result may differ.
        """

    @abstractmethod
    def replace_rows(self, rows: Slots, part: Column, slots: int) -> Slots:
        """Replace the results of the nodes in the slots `rows` by `part`; return the slots whose result may differ.

        `slots` is the number of slots (row indices) in the whole column.
        """


def _run_if_spec_only(plugin: Any, pod: PodInfo, run: Callable[[], Verdict | None]) -> Verdict | None:
    """Run a PreFilter or PreScore plugin if the pod's spec alone determines its results, and return its verdict.

    Returns None if the results depend on more than the spec, if the plugin raises, or if `run` returns None.
    """
    declares = getattr(plugin, "depends_only_on_spec", None)
    try:
        return run() if declares is not None and declares(pod) else None
    except (Exception, SystemExit):
        return None


def union_rows(changed: Iterable[Slots | None]) -> Slots | None:
    """Return the node slots (row indices) in any of the arrays, possibly with duplicates.

    Returns None, which means any slot, if one of them is None.
    """
    rows = NO_ROWS
    for more in changed:
        if more is None:
            return None
        if more is not rows and len(more):
            rows = np.concatenate([rows, more]) if len(rows) else more
    return rows


def patch_rows(column: NDArray[Any], rows: Slots, part: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of `column` with `part` at the indices `rows`, or `column` itself if it has these values."""
    if column.take(rows).tobytes() == part.tobytes():
        return column
    patched = column.copy()
    patched[rows] = part
    return patched
