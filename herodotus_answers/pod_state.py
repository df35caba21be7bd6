"""Find the state that a pod is really in, from its object, its events and the objects that it names.

Owns: the state, who has to act, and the timeline. Does not own: why a pod waits for a node beyond the decision
(`waiting_causes`), reading (`cluster_objects`), types (`live`). Pure.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from herodotus_answers.cluster_objects import ClusterObjects
    from herodotus_answers.live import LiveState

Json = dict[str, Any]


def find_state(pod: Json, objects: ClusterObjects, now: datetime) -> LiveState | None:
    """Return the state of a pod, or None if the decision about it says all."""
    return None
