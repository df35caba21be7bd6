"""Compares the observer's evaluation with another scheduler's outcome, and names the cause if they disagree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Cause, DecisionPath, Reason
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.interface import Scores
from scheduler.engine.framework.sampling import ADAPTIVE, num_feasible_nodes_to_find
from scheduler.engine.plugins.image_locality import ImageLocality


@dataclass(frozen=True)
class ObservedScheduler:
    """What the observed scheduler uses and the observer does not: plugins unknown here, extenders and sampling.

    `sampling` is its percentageOfNodesToScore; 0 stands for the share that shrinks with the cluster.
    """

    sampling: int = 0
    unknown_plugins: tuple[str, ...] = ()
    extenders: tuple[str, ...] = ()

    def build_notes(self) -> Iterator[Reason]:
        """Yield a note about plugins that are unknown here, if any, and one for each extender, which is not called."""
        if self.unknown_plugins:
            yield Reason("unknown-plugins", {"plugins": ", ".join(self.unknown_plugins)})
        for extender in self.extenders:
            yield Reason("extender-not-asked", {"extender": extender})


def follows(result: CycleResult, slot: int | None) -> bool:
    """Return whether the outcome that was observed follows from the evaluation `result`.

    `slot` is the row index of the pod's node, which has to be one of the best nodes. If it is None (the pod was
    rejected), no node may be feasible.
    """
    if slot is None:
        return result.path is DecisionPath.NONE
    if result.path in (DecisionPath.ONLY_FEASIBLE, DecisionPath.NOMINATED):
        return result.chosen == slot
    return result.path is DecisionPath.SCORED and bool(_best(result)[slot])


def cause(
    result: CycleResult, slot: int | None, theirs: ObservedScheduler, image_points: tuple[Scores, Scores]
) -> Cause:
    """Return the first cause that alone can explain why the observed outcome does not follow from the evaluation.

    `slot` is the row index of the pod's node, or None if the pod was rejected. The causes in order: unknown plugins and
    extenders may decide anything. An infeasible node, or no node, follows from another state of the cluster. Stale
    image counts explain a node that is among the best with some ImageLocality scores between the two columns of
    `image_points`, the lowest and the highest. Sampling explains a node if all better ones may have been left out of
    the sample.
    """
    if theirs.unknown_plugins:
        return Cause.UNKNOWN_PLUGIN
    if theirs.extenders:
        return Cause.EXTENDERS
    trace = result.trace
    if slot is None or not trace.feasible[slot] or trace.totals is None:
        return Cause.STALE_VIEW
    if _best_for_some_points(result, slot, image_points):
        return Cause.IMAGE_COUNTS
    enough = num_feasible_nodes_to_find(int(trace.evaluated.sum()), theirs.sampling or ADAPTIVE)
    better = int((trace.totals[trace.feasible] > trace.totals[slot]).sum())
    if better <= int(trace.feasible.sum()) - enough:
        return Cause.SAMPLING
    return Cause.UNEXPLAINED


def _best_for_some_points(result: CycleResult, slot: int, image_points: tuple[Scores, Scores]) -> bool:
    """Return whether a feasible node may be among the best, given how far ImageLocality's scores may differ.

    `slot` is the node's row index; `image_points` holds the lowest and the highest score of each node.
    """
    trace = result.trace
    run = next((run for run in trace.scores if run.plugin == ImageLocality.name), None)
    if run is None or run.normalized is None or trace.totals is None:
        return False
    fewest, most = image_points
    rest, others = trace.totals - run.weight * run.normalized, trace.feasible.copy()
    others[slot] = False
    lowest = (rest + run.weight * fewest)[others]
    return not len(lowest) or bool(rest[slot] + run.weight * most[slot] >= lowest.max())


def with_outcome(result: CycleResult, slot: int | None, message: str) -> CycleResult:
    """Return a copy of the evaluation with the observed scheduler's outcome as the chosen node and the message.

    `slot` is the row index of the pod's node, or None if there is none. The path is UNKNOWN if it cannot lead there.
    """
    fits = slot is not None and bool(result.trace.feasible[slot])
    follows_path = fits or (slot is None and result.path in (DecisionPath.NONE, DecisionPath.ERROR))
    path = result.path if follows_path else DecisionPath.UNKNOWN
    return replace(result, path=path, chosen=slot, message=message)


def _best(result: CycleResult) -> NDArray[np.bool_]:
    totals, feasible = result.trace.totals, result.trace.feasible
    assert totals is not None
    best: NDArray[np.bool_] = feasible & (totals == totals[feasible].max())
    return best
