"""What an extender is to a scheduling cycle: another process that is asked, and may fail.

Owns: the protocol and its values. Does not own: HTTP (`scheduler.extenders`); who is asked when, and what an answer
means (`extenders`).

Source: k8s.io/kube-scheduler/framework v1.36, Extender.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from herodotus_record.model import Candidate
from scheduler.formulas.inputs import Inputs
from scheduler.objects.lazy import lazy
from scheduler.objects.pod import PodInfo
from scheduler.objects.types import Node

_OFFSET: Final = 1 << 31  # makes every priority count as at least one, as upstream does: fewer victims sum to less
_BACKWARDS: Final = bytes(range(255, -1, -1))  # what is translated so sorts the other way round


class ExtenderError(Exception):
    """An extender did not answer, or not as it may; the message is what the pod's event says."""


@dataclass(frozen=True)
class Filtered:
    """An answer to filter: names of the nodes that are left, and messages for others. Some may have none.

    `inputs`: by which numbers, where the extender says so; an entry for each node that it was asked about, in order.
    """

    passed: frozenset[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    inputs: tuple[Inputs, ...] = ()


@dataclass(frozen=True)
class Prioritized:
    """An answer to prioritize: points by node, 0 to 10. Nodes that are not named get none. `inputs`: as `Filtered`."""

    points: Mapping[str, int]
    inputs: tuple[Inputs, ...] = ()


@dataclass(frozen=True)
class Victims:
    """A node on which the pod would fit, and who would have to go, the most important first."""

    node: str
    pods: tuple[PodInfo, ...]
    pdb_violations: int

    # asked for in every cycle in which the node is a candidate: mostly nothing has happened there in between

    @lazy
    def harm(self) -> tuple[Any, ...]:
        """A sort key, the least harm first; each criterion only decides between equals of those before it.

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
        """As a record says it."""
        return Candidate(self.node, tuple(p.full_name for p in self.pods), self.pdb_violations)


@dataclass(frozen=True)
class Sacrifice:
    """An answer to preempt, for one node: UIDs of the pods that have to go."""

    uids: tuple[str, ...]
    pdb_violations: int


@dataclass(frozen=True)
class Agreement:
    """What extenders left of preemption's candidates; the others by the extender that would not have them."""

    kept: tuple[Victims, ...]
    refused: tuple[tuple[Victims, str], ...] = ()


class Extender(Protocol):
    """One extender. Its methods raise ExtenderError, and nothing else, within its time-out."""

    @property
    def name(self) -> str:
        """What records and logs call it: its URL."""

    @property
    def weight(self) -> int:
        """What its points are multiplied by."""

    @property
    def ignorable(self) -> bool:
        """Whether an attempt goes on without it when it fails."""

    @property
    def filters(self) -> bool:
        """Whether `filter` may be asked."""

    @property
    def prioritizes(self) -> bool:
        """Whether `prioritize` may be asked."""

    @property
    def binds(self) -> bool:
        """Whether `bind` may be asked."""

    @property
    def preempts(self) -> bool:
        """Whether `preempt` may be asked."""

    def interested(self, pod: PodInfo) -> bool:
        """Whether the pod is its business."""

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> Filtered:
        """Which of the nodes are left."""

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> Prioritized:
        """How much each of the nodes suits."""

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod."""

    def preempt(self, pod: PodInfo, candidates: Sequence[Victims]) -> Mapping[str, Sacrifice]:
        """On which of the candidates' nodes which pods may be evicted."""
