"""Shrinking: the shortest list of steps found after which a run still fails in the same way.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002 (ddmin).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrink(steps: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of `steps`, in order, for which `fails` is True and of which no single chunk can be left out.

    `fails(steps)` must be True. It is called for a few candidates per remaining step.
    """
    kept, chunks = list(steps), 2
    while len(kept) >= 2:
        size = max(1, len(kept) // chunks)
        for start in range(0, len(kept), size):
            candidate = kept[:start] + kept[start + size :]
            if candidate and fails(candidate):
                kept, chunks = candidate, max(chunks - 1, 2)
                break
        else:
            if size == 1:
                return kept
            chunks = min(chunks * 2, len(kept))
    return kept
