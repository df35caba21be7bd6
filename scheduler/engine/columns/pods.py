"""The pods on nodes as arrays with a row for each pod, for matching selectors and counting by node.

Owns: rows with labels, namespaces and affinity terms. Does not own: sums of requests (`resources`), running counts
(`tallies`).

Invariant: there is a row for each pod in `NodeColumns.pods`. A free row has no namespace, labels, terms or slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns.dictionary import DictionaryColumn
from scheduler.engine.columns.keyed import KeyedColumns, match_requirement
from scheduler.engine.columns.tallies import CountedPod, Counts, PodWeights, Tallies, Tally
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_affinity import PodTerms
from scheduler.engine.objects.selectors import label_selector_matches
from scheduler.engine.objects.types import LabelSelector, Requirement

Mask = NDArray[np.bool_]


class Namespaces(Hashable, Protocol):
    """Some namespaces, by name: a frozenset of their names, or what decides for each name."""

    def __contains__(self, name: object, /) -> bool: ...


_NO_SLOT: Final = -1
_FIRST_CAPACITY: Final = 64  # rows; doubles when full
_MANY_REQUIREMENTS: Final = 8
_MAX_UNUSED_TERMS: Final = 1024  # about a megabyte; users write terms, and a pod may have 8,000


class PodRows:
    """The pods on all nodes as a table with one row for each pod, for label selectors and counts by node.

    Only the thread that changes the node columns changes it.
    """

    def __init__(self, pods: Iterable[Mapping[str, PodInfo]]) -> None:
        """Build the table. `pods` holds, for each node slot, the pods on that node by UID."""
        placed = [(slot, pod) for slot, on_slot in enumerate(pods) for pod in on_slot.values()]
        self.count = len(placed)  # the high-water mark: rows are numbered below it
        self._pods: list[PodInfo | None] = [pod for _, pod in placed]
        self._row_of = {(slot, pod.uid): row for row, (slot, pod) in enumerate(placed)}
        self._free: list[int] = []
        self._tallies = Tallies()
        self._capacity = max(_FIRST_CAPACITY, self.count)
        self._slots = np.full(self._capacity, _NO_SLOT, np.int32)
        self._terminating = np.zeros(self._capacity, np.bool_)
        self._namespaces: DictionaryColumn[str | None] = DictionaryColumn(None, self._capacity)
        self._terms: DictionaryColumn[PodTerms | None] = DictionaryColumn(None, self._capacity)
        self._labels = KeyedColumns(self._capacity, (pod.labels for _, pod in placed))
        self._slots[: self.count] = [slot for slot, _ in placed]
        self._terminating[: self.count] = [pod.terminating for _, pod in placed]
        self._namespaces.fill(pod.namespace for _, pod in placed)
        self._terms.fill(pod.terms for _, pod in placed)
        self._pods_with_terms = Counter(pod.terms for _, pod in placed if pod.terms is not None)
        self._unused_terms = 0  # at most so many terms in `_terms` that no pod has any more

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> NDArray[np.int32]:
        """For each row, the slot of its pod's node; negative for a free row."""
        return self._slots[: self.count]

    @property
    def terminating(self) -> Mask:
        """For each row, whether its pod is terminating."""
        return self._terminating[: self.count]

    @property
    def terms(self) -> DictionaryColumn[PodTerms | None]:
        """For each row, its pod's affinity and anti-affinity terms, or None if the pod has none."""
        return self._terms

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of the pods, and possibly namespaces that no pod has any more."""
        return [name for name in self._namespaces.values if name is not None]

    def pod(self, row: int) -> PodInfo:
        """Return the pod of `row`, which must not be free."""
        pod = self._pods[row]
        assert pod is not None
        return pod

    def count_terminating(self, slots: int) -> NDArray[np.intp]:
        """Return, for each node slot below `slots`, the number of terminating pods on its node."""
        return np.bincount(self._slots[: self.count][self.terminating], minlength=slots)

    def matching(self, selector: LabelSelector | None, namespaces: Namespaces | None) -> Mask:
        """Return the mask of the rows whose pod is in one of the namespaces and matches the selector.

        If `namespaces` is None, all namespaces count. If `selector` is None, no pod matches.
        """
        if selector is None:
            return np.zeros(self.count, np.bool_)
        rows = self._in_namespaces(namespaces)
        for key, value in (selector.match_labels or {}).items():
            rows &= self._labels.column(key).among(self.count, (value,))
        for requirement in _merge(selector.match_expressions or ()):
            if not rows.any():
                break
            if requirement.key in self._labels or requirement.operator not in ("NotIn", "DoesNotExist"):
                rows &= match_requirement(self._labels.column(requirement.key), self.count, requirement)
        return rows

    def tally(
        self, selector: LabelSelector | None, namespaces: Namespaces | None, slots: int, *, staying: bool = False
    ) -> Tally:
        """Return the number of matching pods on each of the first `slots` node slots.

        Counts pods that are in one of the namespaces and match the selector. If `namespaces` is None, all namespaces
        count. If `staying` is True, terminating pods do not count.
        """

        def weigh(pod: CountedPod, _parts: int) -> int:
            in_namespace = namespaces is None or pod.namespace in namespaces
            return in_namespace and not (staying and pod.terminating) and label_selector_matches(selector, pod.labels)

        def count(_part: int) -> Counts:
            rows = self.matching(selector, namespaces)
            return self.per_slot(rows & ~self.terminating if staying else rows, slots)

        tried = 1 if selector is None else len(selector.match_labels or ()) + len(selector.match_expressions or ())
        query = (msgspec.msgpack.encode(selector), namespaces, staying)
        return self._tallies.get(query, slots, PodWeights(weigh, count, tried=tried))

    def tally_terms(self, query: Hashable, weights: Mapping[PodTerms, int], slots: int) -> Tally:
        """Return, for each of the first `slots` node slots, the sum of its pods' weights.

        `weights` maps the affinity terms of a pod to its weight; pods with other terms count 0. The sums are cached
        under `query`, so equal queries must have equal weights. Weights of terms that no pod had before may be added
        later.
        """

        def weigh(pod: CountedPod, _parts: int) -> int:
            terms = pod.terms
            return 0 if terms is None else weights.get(terms, 0)

        def count(_part: int) -> Counts:
            by_number = np.array([0 if t is None else weights.get(t, 0) for t in self._terms.values], np.int64)
            weight, placed = by_number.take(self._terms.ids(self.count)), self.slots != _NO_SLOT
            return np.bincount(self.slots[placed], weight[placed], minlength=slots).astype(np.int64)

        return self._tallies.get(query, slots, PodWeights(weigh, count))

    def tally_weights(
        self, query: Hashable, weights: PodWeights, slots: int, has_time: Callable[[], bool] = lambda: True
    ) -> Tally:
        """Return the sums of these weights on each of the first `slots` node slots, cached under `query`.

        If `has_time` returns False, the sums may be those of the first parts of the query only; `Tally.parts` counts
        them.
        """
        return self._tallies.count_parts(query, slots, weights, has_time)

    def per_slot(self, rows: Mask, slots: int) -> Counts:
        """Return how many pods of the row mask `rows` are on each of the first `slots` node slots."""
        return np.bincount(self.slots[rows], minlength=slots).astype(np.int64)

    # --- changing -------------------------------------------------------------------------------------------------

    def set(self, slot: int, pod: PodInfo) -> None:
        """Add a pod to the node in `slot`, or replace the pod there that has the same UID."""
        row = self._row_of.get((slot, pod.uid))
        if row is None:
            row = self._row_of[slot, pod.uid] = self._new_row()
            self._tallies.record(slot, pod, +1)
        elif not _counts_alike(old := self.pod(row), pod):
            self._tallies.record(slot, old, -1)
            self._tallies.record(slot, pod, +1)
        self._pods[row] = pod
        self._slots[row] = slot
        self._terminating[row] = pod.terminating
        self._namespaces.set(row, pod.namespace)
        self._set_terms(row, pod.terms)
        self._labels.set(row, pod.labels)

    def remove(self, slot: int, uid: str) -> None:
        """Free the row of the pod with this UID on the node in `slot`. Raises KeyError if there is none."""
        row = self._row_of.pop((slot, uid))
        self._tallies.record(slot, self.pod(row), -1)
        self._pods[row] = None
        self._slots[row] = _NO_SLOT
        self._terminating[row] = False
        self._namespaces.set(row, None)
        self._set_terms(row, None)
        self._labels.set(row, None)
        self._free.append(row)

    def _set_terms(self, row: int, terms: PodTerms | None) -> None:
        """Set the affinity terms of a row's pod; remove terms without pods from the column once they are many."""
        old = self._terms.values[self._terms.ids(row + 1)[row]]
        if old == terms:
            return
        self._terms.set(row, terms)
        if terms is not None:
            self._pods_with_terms[terms] += 1
        if old is not None:
            self._pods_with_terms[old] -= 1
            if not self._pods_with_terms[old]:
                del self._pods_with_terms[old]
                self._unused_terms += old.size
                if self._unused_terms > _MAX_UNUSED_TERMS:
                    self._unused_terms = 0
                    self._terms.drop_unused()

    def _in_namespaces(self, namespaces: Namespaces | None) -> Mask:
        if namespaces is None:
            placed: Mask = self.slots != _NO_SLOT
            return placed
        if isinstance(namespaces, frozenset):
            return self._namespaces.among(self.count, namespaces)
        return self._namespaces.where(self.count, lambda name: name is not None and name in namespaces)

    # --- rows ---------------------------------------------------------------------------------------------------

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        row = self.count
        self.count += 1
        self._pods.append(None)
        if self.count > self._capacity:
            self._grow()
        return row

    def _grow(self) -> None:
        more = self._capacity
        self._capacity *= 2
        self._slots = np.pad(self._slots, (0, more), constant_values=_NO_SLOT)
        self._terminating = np.pad(self._terminating, (0, more))
        self._terms.grow(self._capacity)
        self._namespaces.grow(self._capacity)
        self._labels.grow(self._capacity)


def _counts_alike(pod: PodInfo, other: PodInfo) -> bool:
    """Return whether two versions of a pod have equal labels, namespace, deletion state and affinity terms.

    Every query then counts them alike.
    """
    return (pod.labels, pod.terminating, pod.namespace) == (other.labels, other.terminating, other.namespace) and (
        pod.terms == other.terms
    )


def _merge(requirements: Sequence[Requirement]) -> Sequence[Requirement]:
    """Return equivalent requirements with at most one NotIn and one In for each key.

    A selector may have thousands of requirements, and evaluating one takes a pass over all pods. A short list is
    returned as it is.
    """
    if len(requirements) < _MANY_REQUIREMENTS:
        return requirements
    wanted: dict[str, set[str]] = {}
    unwanted: dict[str, set[str]] = {}
    others: dict[tuple[str, str], Requirement] = {}
    for requirement in requirements:
        key, values = requirement.key, set(requirement.values or ())
        if requirement.operator == "In":
            wanted[key] = wanted[key] & values if key in wanted else values
        elif requirement.operator == "NotIn":
            unwanted.setdefault(key, set()).update(values)
        else:
            others[key, requirement.operator] = requirement
    return [
        *(Requirement(key=key, operator="In", values=[*values]) for key, values in wanted.items()),
        *others.values(),
        *(Requirement(key=key, operator="NotIn", values=[*values]) for key, values in unwanted.items()),
    ]
