"""Records of one pod from an observer and from the scheduler's log."""

from __future__ import annotations

from tests.builders import INSUFFICIENT_CPU, SCORES
from tests.observed import logged, seen, turned_away

NODES = ("worker-1", "worker-2", "worker-3")
POINTS = {
    "worker-1": {"TaintToleration": 300, "NodeResourcesFit": 60, "ImageLocality": 0},
    "worker-2": {"TaintToleration": 300, "NodeResourcesFit": 50, "ImageLocality": 0},
}
NORMALISED = {n: {p: v // SCORES[p] for p, v in by.items()} for n, by in POINTS.items()}
LOGGED_POINTS = {**POINTS, "worker-2": POINTS["worker-2"] | {"NodeResourcesFit": 55}}
FULL = {n: {"NodeResourcesFit": INSUFFICIENT_CPU} for n in NODES}
REJECTED = seen(50, rejected=FULL)
PLACED = seen(9_050, points=NORMALISED, rejected={"worker-3": FULL["worker-3"]}, attempt=2, sequence=2)
LOG_REJECTED = turned_away(REJECTED.decision.message)
LOG_AGAIN = turned_away(REJECTED.decision.message, at_ms=4_000)  # the same words again: nothing changes on the pod
LOG_PLACED = logged("worker-1", LOGGED_POINTS, at_ms=9_000)
SEEN, LOGS = (REJECTED, PLACED), (LOG_REJECTED, LOG_AGAIN, LOG_PLACED)
