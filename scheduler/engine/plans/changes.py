"""Changes of which plans consist, and sets of them: of alike changes, one set is as good as another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Final, NamedTuple

from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.plans.verification import DISPLACED, SCALE_DOWN, Tracked
from scheduler.engine.plans.world import World

MAX_COMPARED: Final = 2000  # changes; of more, two are too many to try all, and comparing each takes 40 us


@dataclass(frozen=True, eq=False)
class Change:
    """One change: `pod` moves away from `node` or ends there, or `node` is uncordoned."""

    kind: str
    node: str
    pod: PodInfo | None = None

    @property
    def has_claims(self) -> bool:
        """Whether the change's pod has resource claims."""
        return self.pod is not None and bool(self.pod.pod.spec.resource_claims)

    def make(self, world: World) -> None:
        """Remove the pod from its node in the world, or uncordon the node."""
        if self.pod is None:
            world.set_schedulable((self.node,), True)
        else:
            world.remove(self.pod, self.node)

    @cached_property
    def key(self) -> object:
        """What alike changes share: pods of one node and controller that nothing else tells apart."""
        pod = self.pod
        if pod is None or pod.has_storage or self.has_claims:
            return self.kind, self.node, pod.uid if pod else ""
        return self.kind, self.node, Tracked(pod, DISPLACED).key, pod.pod.status.phase


class Move(NamedTuple):
    """A change in a sequence, and the node that its pod's successor gets; "" if there is none."""

    change: Change
    to: str


def count_sets(changes: Sequence[Change], largest: int) -> list[int]:
    """Return how many sets `list_sets` yields of each size from 0 to `largest`; of many changes, alike ones apart."""
    if len(changes) > MAX_COMPARED:
        return [comb(len(changes), size) for size in range(largest + 1)]
    counts = [1, *[0] * largest]
    for alike in Counter(change.key for change in changes).values():
        counts = [sum(counts[max(0, each - alike) : each + 1]) for each in range(largest + 1)]
    return counts


def list_sets(changes: Sequence[Change], size: int) -> Generator[tuple[Change, ...], None, None]:
    """Yield the sets of some size, one of those that differ only in which of several alike changes they have."""
    groups: dict[object, list[Change]] = {}
    for change in changes:
        alike = groups.setdefault(change.key, [])
        alike.insert(0 if change.kind == SCALE_DOWN else len(alike), change)  # not those that move in the same set

    def choose(kinds: list[list[Change]], size: int) -> Generator[tuple[Change, ...], None, None]:
        if size == 0:
            yield ()
            return
        for number, alike in enumerate(kinds):
            for count in range(min(size, len(alike)), 0, -1):
                for rest in choose(kinds[number + 1 :], size - count):
                    yield (*alike[:count], *rest)

    return choose(list(groups.values()), size)


def repeats_pod(changes: Sequence[Change]) -> bool:
    """Return whether a pod would both move and end."""
    uids = [change.pod.uid for change in changes if change.pod is not None]
    return len(set(uids)) < len(uids)
