"""Ours against theirs: does the node that a pod got follow from the cluster as it was seen, and if not, why? Pure.

Owns: what counts as agreement, and what is told of a disagreement. Does not own: which snapshots are looked at
(`window`), the evaluation (`scheduler.cycle`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Cause, Path
from scheduler.cycle import CycleResult
from scheduler.framework.sampling import ADAPTIVE, nodes_to_find


@dataclass(frozen=True)
class Theirs:
    """What another scheduler is known to do and we cannot: `unknown_plugins` of its profile, its `extenders`.

    `sampling`: its percentageOfNodesToScore, 0 for the share that shrinks with the cluster.
    """

    sampling: int = 0
    unknown_plugins: tuple[str, ...] = ()
    extenders: tuple[str, ...] = ()


def follows(result: CycleResult, slot: int | None) -> bool:
    """Whether the outcome is one that the evaluation allows: a node among the best, or none where none fits."""
    if slot is None:
        return result.path is Path.NONE
    if result.path in (Path.ONLY_FEASIBLE, Path.NOMINATED):
        return result.chosen == slot
    return result.path is Path.SCORED and bool(_best(result)[slot])


def cause(result: CycleResult, slot: int | None, theirs: Theirs) -> Cause:
    """Why the outcome does not follow from the evaluation: the first that can be the whole explanation.

    What the other scheduler asks and we do not may decide anything. A node that does not fit, or none where one fits,
    is an older or newer view of the cluster. Sampling explains a node that is not the best of all only where those that
    are better can all have been left out.
    """
    if theirs.unknown_plugins:
        return Cause.UNKNOWN_PLUGIN
    if theirs.extenders:
        return Cause.EXTENDERS
    trace = result.trace
    if slot is None or not trace.feasible[slot] or trace.totals is None:
        return Cause.STALE_VIEW
    enough = nodes_to_find(int(trace.evaluated.sum()), theirs.sampling or ADAPTIVE)
    better = int((trace.totals[trace.feasible] > trace.totals[slot]).sum())
    if better <= int(trace.feasible.sum()) - enough:
        return Cause.SAMPLING
    return Cause.UNEXPLAINED


def with_outcome(result: CycleResult, slot: int | None, message: str) -> CycleResult:
    """The evaluation with the outcome that there was: chosen is the node that the pod got, the words are theirs."""
    fits = slot is not None and bool(result.trace.feasible[slot])
    follows_path = fits or (slot is None and result.path in (Path.NONE, Path.ERROR))
    path = result.path if follows_path else Path.UNKNOWN
    return replace(result, path=path, chosen=slot, message=message)


def _best(result: CycleResult) -> NDArray[np.bool_]:
    totals, feasible = result.trace.totals, result.trace.feasible
    assert totals is not None
    best: NDArray[np.bool_] = feasible & (totals == totals[feasible].max())
    return best
