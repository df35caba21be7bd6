"""PrioritySort: the pod of the highest priority first, then the one that has waited longest."""

from __future__ import annotations

from scheduler.framework.plugin import BasePlugin
from scheduler.objects.pod import PodInfo


class PrioritySort(BasePlugin):
    """Orders the active queue."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_s: float) -> tuple[int, float]:
        """Smaller first."""
        return -pod.priority, queued_s
