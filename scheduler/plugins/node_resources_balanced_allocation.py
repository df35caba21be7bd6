"""NodeResourcesBalancedAllocation: prefers nodes that the pod makes more evenly used.

Source: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go v1.36, which rewards the gain in balance
(before 1.36: the balance itself).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from herodotus_record.model import SUCCESS, Verdict
from scheduler.columns import NodeColumns
from scheduler.formulas.allocation import balance_gain
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import Args, BasePlugin, Follows
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import SKIP
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem, duplicate, invalid
from scheduler.objects.requests import CPU, MEMORY, STORAGE
from scheduler.plugins.resource_args import DEFAULT_RESOURCES, ResourceSpec


class NodeResourcesBalancedAllocationArgs(Args, frozen=True):
    """Which resources should be used evenly. Their weights must be 1."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES

    def __post_init__(self) -> None:
        if not self.resources:
            msgspec.structs.force_setattr(self, "resources", DEFAULT_RESOURCES)

    def problems(self) -> Iterator[Problem]:
        """Repetitions and weights."""
        names = [spec.name for spec in self.resources]
        for i, spec in enumerate(self.resources):
            if spec.name in names[:i]:
                yield duplicate(f"resources[{i}].name", spec.name)
            if spec.weight != 1:
                yield invalid(f"resources[{i}].weight", spec.weight, "must be 1")


class NodeResourcesBalancedAllocation(BasePlugin):
    """Real requests, no defaults."""

    name = "NodeResourcesBalancedAllocation"
    follows = Follows.AMOUNTS
    args_type = NodeResourcesBalancedAllocationArgs

    def settled_by_spec(self, pod: PodInfo) -> bool:
        """Requests stand there."""
        return True

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """A pod that requests none of the resources changes no balance."""
        return SUCCESS if any(pod.requests.get(s.name, 0) for s in self.args.resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Balance with the pod against balance without it. A scalar that the pod does not request is left out."""
        names = [s.name for s in self.args.resources if s.name in (CPU, MEMORY, STORAGE) or pod.requests.get(s.name, 0)]
        allocatable, before = nodes.allocatable_of(names), nodes.requested_of(names)
        asked = np.array([pod.requests.get(name, 0) for name in names], np.int64)[:, None]
        return balance_gain(allocatable, before, before + asked)
