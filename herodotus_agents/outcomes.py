"""What a pod's state says about the node it is on: an outcome and what it earns.

Pure. Source of the rules: IBM's kubeRL. Corrected: the time between two ends is a time, not the seconds of a clock;
and an outcome has a name, so that the same state seen twice counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from herodotus_agents.objects import ContainerStatus, Pod
from scheduler.formulas import reward

MTTF_S: Final = 600.0  # between two ends of a container: longer is no worse than a first one


@dataclass(frozen=True)
class Outcome:
    """`name` tells one from another of the same pod; `earned`: 0 to 1."""

    name: str
    earned: float


def of(pod: Pod) -> Outcome | None:
    """The newest outcome of a pod; None where nothing can be said yet."""
    phase = pod.status.phase
    if phase in ("Failed", "Unknown"):
        return Outcome(phase, reward.FAILED)
    if phase != "Running":
        return None
    found = [_of_container(status) for status in pod.status.container_statuses or ()]
    return next((outcome for outcome in reversed(found) if outcome is not None), None)


def _of_container(status: ContainerStatus) -> Outcome | None:
    now, before = status.state.terminated, status.last_state.terminated
    if now is None:
        runs_first = status.state.running is not None and before is None
        return Outcome("running", reward.RUNNING) if runs_first else None
    name = f"{status.name}/{now.finished_at or status.restart_count}"
    if before is None:
        return Outcome(name, reward.ENDED)
    between_s = _seconds(now.finished_at) - _seconds(before.finished_at)
    return Outcome(name, reward.ENDED if between_s > MTTF_S else reward.FAILED)


def _seconds(time: str | None) -> float:
    return datetime.fromisoformat(time).timestamp() if time else 0.0
