"""PodGroupPodsCount: prefers the placement in which the most pods of a group are on nodes.

Source: pkg/scheduler/framework/plugins/podgrouppodscount v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.engine.framework.interface import MAX_NODE_SCORE
from scheduler.engine.framework.placement import ProposedPlacement
from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.objects.pod import PodGroupKey


class PodGroupPodsCount(BasePlugin):
    """The plugin that scores a placement by the number of the group's pods: those on nodes, and those to be placed."""

    name = "PodGroupPodsCount"

    def score_placement(self, group: PodGroupKey, proposed: ProposedPlacement) -> int:
        """Return the number of the group's pods that would be on nodes."""
        return self.handle.pod_groups.count_scheduled(group) + proposed.placed

    def normalize_placements(self, raw: Sequence[int]) -> Sequence[int]:
        """Return the scores scaled so that the highest becomes 100. Raises ValueError if no placement has a pod."""
        most = max(raw)
        if not most:
            raise ValueError("no pods from pod group are assigned to any of the candidate placements")
        return [score * MAX_NODE_SCORE // most for score in raw]
