"""PrioritySort: orders pods by priority, then by the time at which they were queued."""

from __future__ import annotations

from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.objects.pod import PodInfo


class PrioritySort(BasePlugin):
    """The queue sort plugin: orders the active queue by priority, then by the time at which pods were queued."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_s: float) -> tuple[int, float]:
        return -pod.priority, queued_s
