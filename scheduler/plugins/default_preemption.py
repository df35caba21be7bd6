"""DefaultPreemption: says why evicting pods would not help; evicting them is not built yet.

Source: pkg/scheduler/framework/preemption v1.36. Where some node does hold pods of lower priority, so that eviction
might help, the message says that this version does not do it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from herodotus_record import reasons
from herodotus_record.model import Code, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.plugin import Args, InTreePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import unschedulable
from scheduler.objects.pod import PodInfo

NO_VICTIMS = reasons.sentence(Reason("no-victims"))
UNHELPFUL = reasons.sentence(Reason("preemption-unhelpful"))
NEVER = reasons.sentence(Reason("preemption-never"))
NOT_BUILT = reasons.sentence(Reason("not-built", {"feature": "preemption", "plugin": "DefaultPreemption"}))


class DefaultPreemptionArgs(Args, frozen=True):
    """How many candidate nodes to look for."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def problems(self) -> list[tuple[str, object, str]]:
        """Ranges, and not both zero."""
        found: list[tuple[str, object, str]] = []
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            found.append(("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            found.append(("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)"))
        if percentage == absolute == 0:
            other = "cannot be zero at the same time as minCandidateNodes"
            found.append(("minCandidateNodesPercentage", percentage, f"{other}Absolute"))
            found.append(("minCandidateNodesAbsolute", absolute, f"{other}Percentage"))
        return found


class DefaultPreemption(InTreePlugin):
    """PostFilter only."""

    name = "DefaultPreemption"
    args_type = DefaultPreemptionArgs

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8]) -> Verdict:
        """A node is a candidate where its first failure was Unschedulable."""
        if pod.pod.spec.preemption_policy == "Never":
            return _said(NEVER)
        total = int(nodes.live.sum())
        candidates = np.flatnonzero(codes == Code.UNSCHEDULABLE)
        with_victims = sum(any(p.priority < pod.priority for p in nodes.pods[s].values()) for s in candidates)
        counts = [
            (NO_VICTIMS, len(candidates) - with_victims),
            (NOT_BUILT, with_victims),
            (UNHELPFUL, total - len(candidates)),
        ]
        return _said(reasons.fit_error(total, [(words, count) for words, count in counts if count]))


def _said(message: str) -> Verdict:
    return unschedulable(Reason("preemption", {"message": message}))
