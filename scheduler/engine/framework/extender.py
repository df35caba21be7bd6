"""The protocol of an extender, a service outside of the process that may fail, with its results.

`scheduler.extenders` implements it over HTTP, and `extenders` decides when an extender is called.

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
    """The failure of a call to an extender, or an invalid response. Its message appears in the pod's event."""


@dataclass(frozen=True)
class FilteredNodes:
    """An extender's response to a filter request: names of accepted nodes, and messages of rejected nodes by name.

    `unresolvable` holds the rejected nodes on which preemption cannot help. A node that is missing everywhere is
    rejected without a message. `inputs` are the measurements that the extender used, with one entry per requested node,
    in order.
    """

    passed: frozenset[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    inputs: tuple[NodeInputs, ...] = ()


@dataclass(frozen=True)
class HostPriorities:
    """An extender's response to a prioritize request: scores (`points`) from 0 to 10 by node name.

    A node that is missing gets 0. `inputs` are the measurements that the extender used, with one entry per requested
    node, in order.
    """

    points: Mapping[str, int]
    inputs: tuple[NodeInputs, ...] = ()


@dataclass(frozen=True)
class PreemptionCandidate:
    """A node on which the pod fits once the victims (`pods`) are evicted, the most important victim first.

    `pdb_violations` counts the victims whose eviction violates a PodDisruptionBudget.
    """

    node: str
    pods: tuple[PodInfo, ...]
    pdb_violations: int

    # Both are computed lazily: a candidate stays the same object while nothing changes on its node.

    @lazy
    def eviction_cost(self) -> tuple[Any, ...]:
        """The key by which candidates are sorted; the smallest is the best node for preemption.

        Its entries are PodDisruptionBudget violations, highest priority of a victim, sum of priorities, number of
        victims, and start time, the latest first. An entry decides only if all earlier ones are equal.

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
        """This candidate as the record stores it: node, names of victims, number of PodDisruptionBudget violations."""
        return Candidate(self.node, tuple(p.full_name for p in self.pods), self.pdb_violations)


@dataclass(frozen=True)
class ExtenderVictims:
    """The victims that an extender chose on one node: their UIDs, and the number of PodDisruptionBudget violations."""

    uids: tuple[str, ...]
    pdb_violations: int


@dataclass(frozen=True)
class RemainingCandidates:
    """The preemption candidates that all extenders kept, and the others, each with the extender that removed it."""

    kept: tuple[PreemptionCandidate, ...]
    refused: tuple[tuple[PreemptionCandidate, str], ...] = ()


class Extender(Protocol):
    """A scheduler extender: a service outside of the process that filters, scores, binds or preempts.

    Within the extender's timeout, each method returns or raises ExtenderError; it raises no other error.
    """

    @property
    def name(self) -> str:
        """The extender's URL, which is its name in records and logs."""

    @property
    def weight(self) -> int:
        """The factor by which the extender's scores are multiplied."""

    @property
    def ignorable(self) -> bool:
        """Whether an attempt continues when the extender fails."""

    @property
    def filters(self) -> bool:
        """Whether the extender supports `filter`."""

    @property
    def prioritizes(self) -> bool:
        """Whether the extender supports `prioritize`."""

    @property
    def binds(self) -> bool:
        """Whether the extender supports `bind`."""

    @property
    def preempts(self) -> bool:
        """Whether the extender supports `preempt`."""

    def interested(self, pod: PodInfo) -> bool:
        """Return whether the extender must be called for this pod.

        True if the extender manages a resource that the pod requests, or if it handles all pods.
        """

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> FilteredNodes:
        """Return which of the nodes the extender accepts."""

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> HostPriorities:
        """Return the extender's scores for these nodes."""

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod to the node."""

    def preempt(self, pod: PodInfo, candidates: Sequence[PreemptionCandidate]) -> Mapping[str, ExtenderVictims]:
        """Return the victims that the extender chooses, by the name of each node that may remain a candidate."""
