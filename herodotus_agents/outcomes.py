"""Derives from a pod's status how well the pod ran on its node: an outcome and its reward.

Pure functions. The rules come from IBM's kubeRL, with two corrections: the time between two terminations is a duration,
not the seconds field of a clock; and an outcome has a name, so that a state that is seen twice counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from herodotus_agents.objects import ContainerStatusView, PodView
from scheduler.engine.formulas import reward as rewards

# Time between two terminations of a container, in seconds. After a longer run a termination counts like the first one.
MTTF_S: Final = 600.0


@dataclass(frozen=True)
class PodOutcome:
    """How a pod did on its node: it runs, or one of its containers ended, or it failed.

    `name` is unique among the outcomes of one pod. `reward` is between 0 (failed) and 1 (runs).
    """

    name: str
    reward: float


def classify(pod: PodView) -> PodOutcome | None:
    """Return the outcome that a pod's status shows, or None if it shows none, as for a Pending pod.

    It is the phase if that is Failed or Unknown. For a Running pod it is the outcome of the last container that has
    one.
    """
    phase = pod.status.phase
    if phase in ("Failed", "Unknown"):
        return PodOutcome(phase, rewards.FAILED)
    if phase != "Running":
        return None
    outcomes = [_classify_container(status) for status in pod.status.container_statuses or ()]
    return next((outcome for outcome in reversed(outcomes) if outcome is not None), None)


def _classify_container(status: ContainerStatusView) -> PodOutcome | None:
    now, before = status.state.terminated, status.last_state.terminated
    if now is None:
        runs_first = status.state.running is not None and before is None
        return PodOutcome("running", rewards.RUNNING) if runs_first else None
    name = f"{status.name}/{now.finished_at or status.restart_count}"
    if before is None:
        return PodOutcome(name, rewards.ENDED)
    between_s = _seconds(now.finished_at) - _seconds(before.finished_at)
    return PodOutcome(name, rewards.ENDED if between_s > MTTF_S else rewards.FAILED)


def _seconds(time: str | None) -> float:
    return datetime.fromisoformat(time).timestamp() if time else 0.0
