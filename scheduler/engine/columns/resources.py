"""Allocatable and requested resources as matrices with one row for each resource and one column for each slot.

Owns: the row of each resource. Does not own: which slots hold a node, and when they changed (`nodes`).

Invariant: the last row is all zeros. It is the row of every resource that no node has and no pod requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.objects.requests import CPU, MEMORY, PODS, STORAGE, CountedRequests

Amounts = NDArray[np.int64]

_FIRST_ROWS: Final = 8
_UNKNOWN: Final = -1


class ResourceColumns:
    """Allocatable and requested amounts in base units (milli-CPUs, bytes, counts), by resource and node slot.

    Each kind of amounts is a matrix with a row for each resource and a column for each node slot up to the capacity.
    """

    def __init__(self, capacity: int) -> None:
        self._rows: dict[str, int] = {CPU: 0, MEMORY: 1, STORAGE: 2, PODS: 3}
        self._amounts = np.zeros((3, _FIRST_ROWS, capacity), np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all resources that a node has or a pod requests, in the order of the matrix rows."""
        return tuple(self._rows)

    @property
    def allocatable(self) -> Amounts:
        """The nodes' allocatable amounts as a matrix [resource row, node slot]."""
        return self._matrix(0)

    @property
    def requested(self) -> Amounts:
        """The sums of the requests of each node's pods as a matrix [resource row, node slot]."""
        return self._matrix(1)

    @property
    def scoring(self) -> Amounts:
        """The matrix `requested`, with kube-scheduler's default cpu and memory for containers without requests."""
        return self._matrix(2)

    def row(self, resource: str) -> int:
        """Return the matrix row of a resource; for a resource that is not known, the last row, which is all zeros."""
        return self._rows.get(resource, _UNKNOWN)

    def rows(self, resources: Iterable[str]) -> list[int]:
        """Return the matrix rows of several resources; for one that is not known, the last row, which is all zeros."""
        return [self._rows.get(resource, _UNKNOWN) for resource in resources]

    def select(self, chosen: NDArray[np.intp]) -> ResourceColumns:
        """Return a copy with only the nodes in the slots `chosen` (row indices of the node columns)."""
        part = ResourceColumns.__new__(ResourceColumns)
        part._rows, part._amounts = dict(self._rows), self._amounts.take(chosen, axis=2)
        return part

    def amounts_at(self, slots: NDArray[np.intp] | int) -> Amounts:
        """Return the allocatable and requested amounts of the nodes in these slots as an array [2, resource, slot].

        For a single slot it is [2, resource]. The resources are those of `names`, in the same order.
        """
        return self._amounts[:2, : len(self._rows), slots]

    def content(self) -> bytes:
        """Return all amounts as bytes: a key that is equal for objects with equal amounts and as many node slots."""
        return self._amounts.tobytes()

    def set_allocatable(self, slot: int, amounts: Mapping[str, int]) -> None:
        """Replace the allocatable amounts of the node in `slot`."""
        self._intern(amounts)
        self.allocatable[:, slot] = 0
        for resource, amount in amounts.items():
            self.allocatable[self._rows[resource], slot] = amount

    def count(self, slot: int, requests: Mapping[str, int], scoring: tuple[int, int], sign: int) -> None:
        """Add a pod's amounts to the node in `slot` (`sign` 1), or subtract them (`sign` -1).

        `scoring` holds the pod's cpu and memory with the defaults for containers without requests.
        """
        self._intern(requests)
        self._amounts[1:, :, slot] += sign * self._pod_amounts(requests, scoring)  # overflow wraps around as in Go

    def count_all(self, slots: Sequence[int], pods: Sequence[CountedRequests], sign: int) -> None:
        """Add the amounts of each of `pods` to the node at the same position in `slots`, or subtract them.

        `sign` is 1 to add and -1 to subtract. `slots` may have duplicates. Equal pods are computed once.
        """
        numbers = {counted: number for number, counted in enumerate(dict.fromkeys(pods))}
        for requests, _ in numbers:
            self._intern(resource for resource, _ in requests)
        if numbers:
            at = np.array(slots, np.intp)
            distinct = np.stack([self._pod_amounts(dict(requests), scoring) for requests, scoring in numbers], axis=-1)
            which = [numbers[counted] for counted in pods]
            for amounts, amounts_by_pod in zip(self._amounts[1:], sign * distinct, strict=True):
                for row in np.flatnonzero(amounts_by_pod.any(axis=1)).tolist():
                    np.add.at(amounts[row], at, amounts_by_pod[row].take(which))

    def _pod_amounts(self, requests: Mapping[str, int], scoring: tuple[int, int]) -> Amounts:
        """Return what a pod adds to a node's requested amounts, as [2, resource row]: for Filter, then for scoring.

        `scoring` holds the pod's cpu and memory with the defaults for containers without requests. Each resource must
        have a row.
        """
        pod = np.zeros((2, len(self._amounts[0])), np.int64)
        for resource, amount in requests.items():
            pod[:, self._rows[resource]] = amount
        pod[:, self._rows[PODS]] += 1
        pod[1, self._rows[CPU]], pod[1, self._rows[MEMORY]] = scoring
        return pod

    def grow(self, more: int) -> None:
        """Add capacity for `more` node slots to each matrix."""
        self._amounts = np.pad(self._amounts, ((0, 0), (0, 0), (0, more)))

    def _intern(self, resources: Iterable[str]) -> None:
        for resource in resources:
            self._rows.setdefault(resource, len(self._rows))
        rows = self._amounts.shape[1]
        if len(self._rows) >= rows:
            self._amounts = np.pad(self._amounts, ((0, 0), (0, max(rows, len(self._rows) - rows + 1)), (0, 0)))

    def _matrix(self, number: int) -> Amounts:
        matrix: Amounts = self._amounts[number]
        return matrix
