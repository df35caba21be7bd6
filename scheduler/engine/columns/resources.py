"""Allocatable and requested resources as matrices with one row for each resource and one column for each slot.

Owns: the row of each resource, and the amounts of resources without a row. Does not own: which slots hold a node, and
when they changed (`nodes`).

Invariant: cpu, memory, ephemeral-storage and pods have a row, and of the resources that some node offers as many as
there is room for. Users choose the names in requests, so what no node offers is kept only where it is requested. The
last row is all zeros.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from hashlib import blake2b
from heapq import nlargest
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.engine.objects.requests import CPU, MEMORY, PODS, STORAGE, CountedRequests

Amounts = NDArray[np.int64]

MAX_ROWS: Final = 63  # resources with a row; with the last row they take 13 MB at 5,000 nodes, and few clusters have 30

_BASE: Final = (CPU, MEMORY, STORAGE, PODS)
_FIRST_ROWS: Final = 8
_ZERO_ROW: Final = -1
_INT64: Final = 1 << 64


class AmountKind(IntEnum):
    """The kinds of amounts, as indices of their matrices.

    SCORING is REQUESTED with kube-scheduler's default cpu and memory for containers without requests.
    """

    ALLOCATABLE = 0
    REQUESTED = 1
    SCORING = 2


class SparseAmounts:
    """Amounts by node slot and resource, of which only those that are not 0 are stored."""

    def __init__(self) -> None:
        self.by_slot: dict[int, dict[str, int]] = {}
        self._slots_with: dict[str, int] = {}

    def __contains__(self, resource: str) -> bool:
        """Return whether some slot has a non-zero amount of the resource."""
        return resource in self._slots_with

    def get(self, slot: int, resource: str) -> int:
        return self.by_slot.get(slot, {}).get(resource, 0)

    def set(self, slot: int, resource: str, amount: int) -> None:
        """Set the amount of a resource on the node in `slot`. An amount beyond an int64 wraps around, as in Go."""
        amount = (amount + _INT64 // 2) % _INT64 - _INT64 // 2
        if amount:
            amounts = self.by_slot.setdefault(slot, {})
            if resource not in amounts:
                self._slots_with[resource] = self._slots_with.get(resource, 0) + 1
            amounts[resource] = amount
        elif self.get(slot, resource):
            del self.by_slot[slot][resource]
            if not self.by_slot[slot]:
                del self.by_slot[slot]
            self._slots_with[resource] -= 1
            if not self._slots_with[resource]:
                del self._slots_with[resource]

    def fill(self, row: Amounts, resource: str) -> None:
        """Copy the amounts of a resource into `row`, an array of zeros by slot; slots beyond its end are ignored."""
        if resource in self:
            for slot, amounts in self.by_slot.items():
                if slot < len(row):
                    row[slot] = amounts.get(resource, 0)

    def names(self) -> Iterable[str]:
        """Return the names of the resources of which some slot has a non-zero amount."""
        return self._slots_with.keys()

    def most_frequent(self, number: int) -> list[str]:
        """Return the names of at most `number` resources: those of which most slots have a non-zero amount."""
        return nlargest(number, self._slots_with, key=self._slots_with.__getitem__) if number and self.by_slot else []

    def move(self, resource: str, row: Amounts) -> None:
        """Copy the amounts of a resource into `row`, an array of zeros by slot, and remove them from this object."""
        self.fill(row, resource)
        for slot in np.flatnonzero(row).tolist():
            self.set(slot, resource, 0)

    def select(self, chosen: NDArray[np.intp]) -> SparseAmounts:
        """Return a copy with only the amounts of the slots `chosen`."""
        part = SparseAmounts()
        if self.by_slot:
            for number, slot in enumerate(chosen.tolist()):
                if slot in self.by_slot:
                    for resource, amount in self.by_slot[slot].items():
                        part.set(number, resource, amount)
        return part


class ResourceColumns:
    """Allocatable and requested amounts in base units (milli-CPUs, bytes, counts), by resource and node slot.

    Each kind of amounts is a matrix with a row for each resource and a column for each node slot up to the capacity.
    Amounts of resources without a row are read as if they had one, at the cost of a loop.
    """

    def __init__(self, capacity: int) -> None:
        self._names = list(_BASE)  # by row; never changed in place, like `_rows`, so that parts can share them
        self._rows = {resource: row for row, resource in enumerate(_BASE)}
        self._amounts = np.zeros((len(AmountKind), _FIRST_ROWS, capacity), np.int64)
        self._offers: Counter[str] = Counter()  # nodes that offer each resource, apart from the base resources
        self._sparse_allocatable, self._sparse_requested = SparseAmounts(), SparseAmounts()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the resources that have a row, in the order of the matrix rows."""
        return tuple(self._names)

    def list_names(self) -> list[str]:
        """Return the names of all resources that a node offers or a pod requests, those with a row first."""
        return list(dict.fromkeys([*self._names, *self._sparse_allocatable.names(), *self._sparse_requested.names()]))

    def list_unknown(self, resources: Iterable[str]) -> list[str]:
        """Return those of the resources that no node offers and no pod on a node requests."""
        rows = self._rows
        unknown = [resource for resource in resources if resource not in rows]
        if not unknown:
            return unknown
        sparse = (self._sparse_allocatable, self._sparse_requested)
        return [r for r in unknown if not any(r in amounts for amounts in sparse)]

    def read(self, kind: AmountKind, resource: str, slots: int) -> Amounts:
        """Return the amounts of a resource on the first `slots` nodes, which the caller must not change."""
        row, sparse = self._rows.get(resource, _ZERO_ROW), self._sparse(kind)
        amounts: Amounts = self._amounts[kind, row, :slots]
        if row == _ZERO_ROW and resource in sparse:
            amounts = amounts.copy()
            sparse.fill(amounts, resource)
        return amounts

    def read_all(self, kind: AmountKind, resources: Sequence[str], slots: int) -> Amounts:
        """Return the amounts of several resources as a copied matrix [resource, node slot]."""
        row_of, sparse = self._rows, self._sparse(kind)
        rows = [row_of.get(resource, _ZERO_ROW) for resource in resources]
        amounts: Amounts = self._amounts[kind, :, :slots].take(rows, axis=0)
        if sparse.by_slot:
            for number, resource in enumerate(resources):
                if rows[number] == _ZERO_ROW:
                    sparse.fill(amounts[number], resource)
        return amounts

    def select(self, chosen: NDArray[np.intp]) -> ResourceColumns:
        """Return a copy with only the nodes in the slots `chosen` (row indices of the node columns)."""
        part = ResourceColumns.__new__(ResourceColumns)
        part._names, part._rows, part._offers = self._names, self._rows, self._offers
        part._amounts = self._amounts.take(chosen, axis=2)  # of a part of the rows, take() would first copy all slots
        part._sparse_allocatable = self._sparse_allocatable  # of a part, it does not change
        if self._sparse_allocatable.by_slot:
            part._sparse_allocatable = self._sparse_allocatable.select(chosen)
        part._sparse_requested = self._sparse_requested.select(chosen)
        return part

    def amounts_at(self, slots: NDArray[np.intp] | int) -> Amounts:
        """Return the allocatable and requested amounts of the nodes in these slots as an array [2, resource, slot].

        For a single slot it is [2, resource]. The resources are those of `names`, in the same order.
        """
        return self._amounts[:2, : len(self._names), slots]

    def amounts_of(self, slot: int) -> tuple[dict[str, int], dict[str, int]]:
        """Return the allocatable and the requested amounts of the node in `slot` by resource, without those of 0."""
        by_row = (
            dict(zip(self._names, row, strict=True)) for row in self._amounts[:2, : len(self._names), slot].tolist()
        )
        sparse = (self._sparse_allocatable, self._sparse_requested)
        allocatable, requested = (
            {resource: amount for resource, amount in row.items() if amount} | amounts.by_slot.get(slot, {})
            for row, amounts in zip(by_row, sparse, strict=True)
        )
        return allocatable, requested

    def content(self) -> bytes:
        """Return all amounts as bytes: a key that is equal for objects with equal amounts and as many node slots."""
        names, sparse = ",".join(self._names).encode(), b""
        if self._sparse_allocatable.by_slot or self._sparse_requested.by_slot:
            by_slot = self._sparse_allocatable.by_slot, self._sparse_requested.by_slot
            sparse = blake2b(msgspec.msgpack.encode(by_slot), digest_size=16).digest()
        return b"".join((names, sparse, self._amounts.tobytes()))

    def set_allocatable(self, slot: int, amounts: Mapping[str, int]) -> None:
        """Replace the allocatable amounts of the node in `slot`."""
        old, _ = self.amounts_of(slot)
        for resource, amount in {**dict.fromkeys(old, 0), **amounts}.items():
            if amount != old.get(resource, 0):
                self._set_allocatable(slot, resource, amount)
        for resource in self._sparse_allocatable.most_frequent(MAX_ROWS - len(self._names)):
            self._add_row(resource)

    def count(self, slot: int, requests: Mapping[str, int], scoring: tuple[int, int], sign: int) -> None:
        """Add a pod's amounts to the node in `slot` (`sign` 1), or subtract them (`sign` -1).

        `scoring` holds the pod's cpu and memory with the defaults for containers without requests.
        """
        self._amounts[1:, :, slot] += sign * self._pod_amounts(requests, scoring)  # overflow wraps around as in Go
        self._count_sparse(slot, requests, sign)

    def count_all(self, slots: Sequence[int], pods: Sequence[CountedRequests], sign: int) -> None:
        """Add the amounts of each of `pods` to the node at the same position in `slots`, or subtract them.

        `sign` is 1 to add and -1 to subtract. `slots` may have duplicates. Equal pods are computed once.
        """
        numbers = {counted: number for number, counted in enumerate(dict.fromkeys(pods))}
        if not numbers:
            return
        at, distinct = np.array(slots, np.intp), [(dict(requests), scoring) for requests, scoring in numbers]
        amounts_of_pods = np.stack([self._pod_amounts(*pod) for pod in distinct], axis=-1)
        which = [numbers[counted] for counted in pods]
        for amounts, amounts_by_pod in zip(self._amounts[1:], sign * amounts_of_pods, strict=True):
            for row in np.flatnonzero(amounts_by_pod.any(axis=1)).tolist():
                np.add.at(amounts[row], at, amounts_by_pod[row].take(which))
        for slot, number in zip(slots, which, strict=True):
            self._count_sparse(slot, distinct[number][0], sign)

    def grow(self, more: int) -> None:
        """Add capacity for `more` node slots to each matrix."""
        self._amounts = np.pad(self._amounts, ((0, 0), (0, 0), (0, more)))

    # --- rows -----------------------------------------------------------------------------------------------------

    def _pod_amounts(self, requests: Mapping[str, int], scoring: tuple[int, int]) -> Amounts:
        """Return the amounts that a pod adds to its node, as [2, resource row]: requested, and requested for scoring.

        `scoring` holds the pod's cpu and memory with the defaults for containers without requests.
        """
        pod = np.zeros((2, len(self._amounts[0])), np.int64)
        for resource, amount in requests.items():
            row = self._rows.get(resource)
            if row is not None:
                pod[:, row] = amount
        pod[:, self._rows[PODS]] += 1
        pod[1, self._rows[CPU]], pod[1, self._rows[MEMORY]] = scoring
        return pod

    def _count_sparse(self, slot: int, requests: Mapping[str, int], sign: int) -> None:
        for resource, amount in requests.items():
            if amount and resource not in self._rows:
                self._sparse_requested.set(slot, resource, self._sparse_requested.get(slot, resource) + sign * amount)

    def _sparse(self, kind: AmountKind) -> SparseAmounts:
        return self._sparse_allocatable if kind is AmountKind.ALLOCATABLE else self._sparse_requested

    def _set_allocatable(self, slot: int, resource: str, amount: int) -> None:
        """Set an allocatable amount that differs from the present one.

        The resource loses its row if no node has it in its allocatable any more.
        """
        row = self._rows.get(resource)
        if row is None:
            had = self._sparse_allocatable.get(slot, resource)
            self._sparse_allocatable.set(slot, resource, amount)
        else:
            had = self._amounts.item(0, row, slot)
            self._amounts[0, row, slot] = amount
        self._offers[resource] += bool(amount) - bool(had)
        if not self._offers[resource]:
            del self._offers[resource]
            if row is not None and resource not in _BASE:
                self._remove_row(row)

    def _add_row(self, resource: str) -> None:
        """Give a resource a row, and move its amounts there."""
        row = len(self._names)
        self._names, self._rows = [*self._names, resource], {**self._rows, resource: row}
        rows = self._amounts.shape[1]
        if len(self._names) == rows:  # the rows after the last resource's stay zero
            self._amounts = np.pad(self._amounts, ((0, 0), (0, rows), (0, 0)))
        self._sparse_allocatable.move(resource, self._amounts[0, row])
        self._sparse_requested.move(resource, self._amounts[1, row])
        self._amounts[2, row] = self._amounts[1, row]

    def _remove_row(self, row: int) -> None:
        """Remove the row of a resource; the last resource's row takes its place.

        Requests of pods for the resource are kept as sparse amounts.
        """
        resource, last = self._names[row], len(self._names) - 1
        for slot in np.flatnonzero(self._amounts[1, row]).tolist():
            self._sparse_requested.set(slot, resource, self._amounts.item(1, row, slot))
        self._amounts[:, row] = self._amounts[:, last]
        self._amounts[:, last] = 0
        names = self._names[:last]
        if row < last:
            names[row] = self._names[last]
        self._names, self._rows = names, {name: number for number, name in enumerate(names)}
        rows = self._amounts.shape[1]
        if rows > _FIRST_ROWS and last < rows // 4:
            self._amounts = self._amounts[:, : rows // 2].copy()
