"""Which candidate is best: the node where evicting does the least harm.

Source: pkg/scheduler/framework/preemption/preemption.go v1.36, pickOneNodeForPreemption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.framework.extender import Victims
from scheduler.plugins.default_preemption.victims import started

_OFFSET = 1 << 31  # makes every priority count as at least one, as upstream does, so that fewer victims sum to less


def best(candidates: Sequence[Victims]) -> Victims:
    """The best of at least one candidate; each criterion only decides between equals of those before it."""
    return min(candidates, key=_harm)


def _harm(candidate: Victims) -> tuple[Any, ...]:
    pods = candidate.pods
    highest = pods[0].priority
    earliest = min(started(p) for p in pods if p.priority == highest)
    return (
        candidate.pdb_violations,
        highest,
        sum(p.priority + _OFFSET for p in pods),
        len(pods),
        _descending(earliest),
    )


def _descending(text: str) -> tuple[int, ...]:
    """A sort key that puts the latest time first."""
    return tuple(-ord(c) for c in text)
