"""The protocol of an extender, a service outside of the process that may fail, with its results.

Owns: the protocol and the types of its results. Does not own: HTTP (`scheduler.extenders`); when an extender is
called, and what a result means (`extenders`).

Source: k8s.io/kube-scheduler/framework v1.36, Extender.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from herodotus_record.model import Candidate
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Node

_OFFSET: Final = 1 << 31  # added to each priority as upstream does, so that fewer victims have a smaller sum
_BACKWARDS: Final = bytes(range(255, -1, -1))  # translation table that reverses the sort order of bytes


class ExtenderError(Exception):
    """A call to an extender failed, or its answer is invalid; the message goes into the pod's event."""


@dataclass(frozen=True)
class FilteredNodes:
    """The result of filter: names of the nodes that passed, and messages for rejected nodes, which may be missing.

    `inputs` are the inputs that the extender reports, with an entry for each node of the request, in order.
    """

    passed: frozenset[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    inputs: tuple[NodeInputs, ...] = ()


@dataclass(frozen=True)
class HostPriorities:
    """Scores from 0 to 10 by node name; a node that is missing gets none. `inputs` as in `FilteredNodes`."""

    points: Mapping[str, int]
    inputs: tuple[NodeInputs, ...] = ()


@dataclass(frozen=True)
class PreemptionCandidate:
    """A node on which the pod fits without these victims, the most important victim first."""

    node: str
    pods: tuple[PodInfo, ...]
    pdb_violations: int

    # Both are computed lazily: a candidate stays the same object while nothing changes on its node.

    @lazy
    def eviction_cost(self) -> tuple[Any, ...]:
        """Return the sort key of candidates, the best first; a criterion decides only if all earlier ones are equal.

        Source: pkg/scheduler/framework/preemption/preemption.go v1.36, pickOneNodeForPreemption.
        """
        highest = self.pods[0].priority
        earliest = min(p.started for p in self.pods if p.priority == highest)
        return (
            self.pdb_violations,
            highest,
            sum(p.priority + _OFFSET for p in self.pods),
            len(self.pods),
            earliest.encode().translate(_BACKWARDS),  # the latest first
        )

    @lazy
    def candidate(self) -> Candidate:
        """Return the candidate in the form of the record."""
        return Candidate(self.node, tuple(p.full_name for p in self.pods), self.pdb_violations)


@dataclass(frozen=True)
class ExtenderVictims:
    """The result of preempt for one node: UIDs of the victims."""

    uids: tuple[str, ...]
    pdb_violations: int


@dataclass(frozen=True)
class RemainingCandidates:
    """The candidates that the extenders kept, and the others with the name of the extender that removed them."""

    kept: tuple[PreemptionCandidate, ...]
    refused: tuple[tuple[PreemptionCandidate, str], ...] = ()


class Extender(Protocol):
    """One extender. Its methods return or raise ExtenderError, and nothing else, within its timeout."""

    @property
    def name(self) -> str:
        """Its URL, which is its name in records and logs."""

    @property
    def weight(self) -> int:
        """The factor of its scores."""

    @property
    def ignorable(self) -> bool:
        """Whether an attempt continues when it fails."""

    @property
    def filters(self) -> bool:
        """Whether it supports `filter`."""

    @property
    def prioritizes(self) -> bool:
        """Whether it supports `prioritize`."""

    @property
    def binds(self) -> bool:
        """Whether it supports `bind`."""

    @property
    def preempts(self) -> bool:
        """Whether it supports `preempt`."""

    def interested(self, pod: PodInfo) -> bool:
        """Return whether it manages a resource that the pod requests, or all pods."""

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> FilteredNodes:
        """Return which of the nodes the extender accepts."""

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> HostPriorities:
        """Return the extender's scores for the nodes."""

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod to the node."""

    def preempt(self, pod: PodInfo, candidates: Sequence[PreemptionCandidate]) -> Mapping[str, ExtenderVictims]:
        """Return the victims on each candidate's node that remains, by node name."""
