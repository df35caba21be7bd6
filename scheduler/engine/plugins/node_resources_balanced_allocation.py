"""NodeResourcesBalancedAllocation: prefers nodes that the pod makes more evenly used.

Source: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from herodotus_record.model import SUCCESS, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.dra.extended_resources import may_be_backed
from scheduler.engine.formulas.allocation import balance, balance_gain
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin, DependsOn, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import SKIP
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, duplicate, invalid
from scheduler.engine.objects.requests import CPU, MEMORY, STORAGE
from scheduler.engine.plugins.dynamic_resources.device_totals import DeviceTotals
from scheduler.engine.plugins.dynamic_resources.devices import ClusterDevices
from scheduler.engine.plugins.node_resources_fit import DEFAULT_RESOURCES, ResourceSpec
from scheduler.engine.rules.feature_gates import EXTENDED_RESOURCE
from scheduler.engine.rules.version_rules import BALANCE_GAIN, SKIP_BALANCE_OF_BEST_EFFORT


class NodeResourcesBalancedAllocationArgs(Args, frozen=True):
    """Arguments of NodeResourcesBalancedAllocation: the resources to balance, whose weights must be 1."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES

    def __post_init__(self) -> None:
        if not self.resources:
            msgspec.structs.force_setattr(self, "resources", DEFAULT_RESOURCES)

    def problems(self) -> Iterator[Problem]:
        names = [spec.name for spec in self.resources]
        for i, spec in enumerate(self.resources):
            if spec.name in names[:i]:
                yield duplicate(f"resources[{i}].name", spec.name)
            if spec.weight != 1:
                yield invalid(f"resources[{i}].weight", spec.weight, "must be 1")


class _BalancedDeviceTotals(DeviceTotals):
    """The state that this plugin's PreScore writes."""


class NodeResourcesBalancedAllocation(BasePlugin):
    """A score plugin that prefers nodes whose resources the pod makes more evenly used.

    It uses the actual requests, without defaults for absent ones. Rules of versions: BALANCE_GAIN,
    SKIP_BALANCE_OF_BEST_EFFORT.
    """

    name = "NodeResourcesBalancedAllocation"
    reads = frozenset({PluginInput.NODE, PluginInput.PODS, PluginInput.OBJECTS})
    depends_on = DependsOn.AMOUNTS
    score_state = _BalancedDeviceTotals
    computes_pre_score = True
    args_type = NodeResourcesBalancedAllocationArgs

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return not any(may_be_backed(name) for name in pod.requests)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Return Skip if `_is_skipped`, else Success; also write the devices behind scored resources into `state`."""
        if self._is_skipped(pod):
            return SKIP
        if self.rules.enabled(EXTENDED_RESOURCE):
            devices = self.handle.objects.derived(ClusterDevices)
            _BalancedDeviceTotals.write(state, devices, pod, (spec.name for spec in self.args.resources))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, a score of how evenly the node's resources are used with the pod.

        With the rule BALANCE_GAIN, the score depends on how much more even the pod makes it. Scalar resources that the
        pod does not request do not count. If the profile disables PreScore, pods that it would skip score 0 everywhere.
        """
        if self._is_skipped(pod):
            return np.zeros(nodes.slots, np.int64)
        names = [s.name for s in self.args.resources if s.name in (CPU, MEMORY, STORAGE) or pod.requests.get(s.name, 0)]
        allocatable, before = nodes.allocatable_of(names), nodes.requested_of(names)
        totals = state.find(_BalancedDeviceTotals)
        if totals is not None:
            allocatable, before = totals.fill(names, nodes, allocatable, before)
        requests = np.array([pod.requests.get(name, 0) for name in names], np.int64)[:, None]
        if not self.rules.enabled(BALANCE_GAIN):
            return balance(allocatable, before + requests)
        return balance_gain(allocatable, before, before + requests)

    def _is_skipped(self, pod: PodInfo) -> bool:
        """Return whether the pod requests none of the configured resources and is therefore not scored.

        Without the rule SKIP_BALANCE_OF_BEST_EFFORT, no pod is skipped.
        """
        if not self.rules.enabled(SKIP_BALANCE_OF_BEST_EFFORT):
            return False
        return not any(pod.requests.get(spec.name, 0) for spec in self.args.resources)
