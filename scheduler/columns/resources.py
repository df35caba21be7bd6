"""What nodes have of each resource and what their pods request: one row a resource, one column a slot.

Owns: which row is which resource's. Does not own: which slots hold a node, when they changed (`nodes`).

Invariant: the last row is all zeros: it is that of every resource that nobody has or requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.objects.requests import CPU, MEMORY, PODS, STORAGE, Counted

Amounts = NDArray[np.int64]

_FIRST_ROWS: Final = 8
_UNKNOWN: Final = -1


class Resources:
    """Amounts in base units, as long as there is room for slots."""

    def __init__(self, capacity: int) -> None:
        self._rows: dict[str, int] = {CPU: 0, MEMORY: 1, STORAGE: 2, PODS: 3}
        self._amounts = np.zeros((3, _FIRST_ROWS, capacity), np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """Every resource that some node has or some pod requests, in the order of the rows."""
        return tuple(self._rows)

    @property
    def allocatable(self) -> Amounts:
        """What nodes have, as `[row, slot]`."""
        return self._matrix(0)

    @property
    def requested(self) -> Amounts:
        """What their pods request."""
        return self._matrix(1)

    @property
    def scoring(self) -> Amounts:
        """The same with defaults for cpu and memory."""
        return self._matrix(2)

    def row(self, resource: str) -> int:
        """The row of a resource."""
        return self._rows.get(resource, _UNKNOWN)

    def rows(self, resources: Iterable[str]) -> list[int]:
        """The rows of several."""
        return [self._rows.get(resource, _UNKNOWN) for resource in resources]

    def of(self, chosen: NDArray[np.intp]) -> Resources:
        """A copy of some slots' columns."""
        part = Resources.__new__(Resources)
        part._rows, part._amounts = dict(self._rows), self._amounts.take(chosen, axis=2)
        return part

    def content(self) -> bytes:
        """Equal where all amounts are, of the same slots' number."""
        return self._amounts.tobytes()

    def set_allocatable(self, slot: int, amounts: Mapping[str, int]) -> None:
        """Put what a slot's node has, and nothing else."""
        self._intern(amounts)
        self.allocatable[:, slot] = 0
        for resource, amount in amounts.items():
            self.allocatable[self._rows[resource], slot] = amount

    def count(self, slot: int, requests: Mapping[str, int], scoring: tuple[int, int], sign: int) -> None:
        """Count a pod more, or less. `scoring`: its cpu and memory with defaults."""
        self._intern(requests)
        self._amounts[1:, :, slot] += sign * self._of_pod(requests, scoring)  # arrays wrap around as Go's int64 does

    def count_all(self, slots: Sequence[int], pods: Sequence[Counted], sign: int) -> None:
        """Likewise, a pod on each of these slots, which may be the same; pods that count alike are looked at once."""
        numbers = {counted: number for number, counted in enumerate(dict.fromkeys(pods))}
        for requests, _ in numbers:
            self._intern(resource for resource, _ in requests)
        if numbers:
            at = np.array(slots, np.intp)
            distinct = np.stack([self._of_pod(dict(requests), scoring) for requests, scoring in numbers], axis=-1)
            which = [numbers[counted] for counted in pods]
            for amounts, of_pods in zip(self._amounts[1:], sign * distinct, strict=True):
                for row in np.flatnonzero(of_pods.any(axis=1)).tolist():
                    np.add.at(amounts[row], at, of_pods[row].take(which))

    def _of_pod(self, requests: Mapping[str, int], scoring: tuple[int, int]) -> Amounts:
        """What a pod adds to `requested` and to `scoring`, row by row. Its resources have rows."""
        pod = np.zeros((2, len(self._amounts[0])), np.int64)
        for resource, amount in requests.items():
            pod[:, self._rows[resource]] = amount
        pod[:, self._rows[PODS]] += 1
        pod[1, self._rows[CPU]], pod[1, self._rows[MEMORY]] = scoring
        return pod

    def grow(self, more: int) -> None:
        """Make room for so many more slots."""
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
