"""Pigeon: chooses the node that suits the cluster as a whole, by one of three objectives.

Only Herodotus has this plugin. The cluster is the feasible nodes; their usage is the sum of their pods' requests.
Source: IBM's kube-safe-scheduler, agent `pigeon`; the objectives are `formulas.packing`.

Invariant: the usual demand of pods is learned from every pod that is scored, and at the start from the running pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns
from scheduler.engine.formulas import measurements, packing
from scheduler.engine.formulas.inputs import NodeInputColumn, NodeInputs
from scheduler.engine.formulas.packing import Demand, Floats
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid, not_supported
from scheduler.engine.objects.requests import PODS
from scheduler.engine.plugins.node_measurements import TenPointPlugin

A_BINPACK: Final = "A_BINPACK"
LOAD_BALANCE: Final = "LOAD_BALANCE"
CONSOLIDATE: Final = "CONSOLIDATE"
OBJECTIVES: Final = (A_BINPACK, LOAD_BALANCE, CONSOLIDATE)


class PigeonArgs(Args, frozen=True):
    """Arguments of Pigeon: the objective, and the resources that it counts.

    `num_resources` is how many of cpu, memory, pods, gpu and ephemeral-storage count, in this order.
    `policy_resource_index` is the index of the resource that LOAD_BALANCE and CONSOLIDATE use. `gpu_resource` is the
    name of the GPU resource.
    """

    policy_objective: str = A_BINPACK
    num_resources: int = 2
    policy_resource_index: int = 0
    gpu_resource: str = "nvidia.com/gpu"

    def problems(self) -> Iterator[Problem]:
        if self.policy_objective not in OBJECTIVES:
            yield not_supported("policyObjective", self.policy_objective, OBJECTIVES)
        if not 1 <= self.num_resources <= len(measurements.ALLOCATED):
            yield invalid("numResources", self.num_resources, f"must be from 1 to {len(measurements.ALLOCATED)}")
        if not 0 <= self.policy_resource_index < self.num_resources:
            yield invalid("policyResourceIndex", self.policy_resource_index, "must be less than numResources")


@dataclass(frozen=True)
class ScoredNodes:
    """The state that Score writes: the objective's value by node slot, and the number of pods learned from."""

    values: Floats
    pods: int


class Pigeon(TenPointPlugin):
    """A score plugin that rates what the whole cluster would be like with the pod on each node.

    The rating follows one of three objectives: A_BINPACK, LOAD_BALANCE or CONSOLIDATE.
    """

    name = "Pigeon"
    args_type = PigeonArgs
    reads = frozenset({PluginInput.NODE, PluginInput.PODS})

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.resources = measurements.ALLOCATED[: args.num_resources]
        self._learned = Demand()

    def prepare(self, nodes: NodeColumns) -> None:
        """Learn the distribution of pods' requests from the running pods, in the order of their creation."""
        existing = [pod for pods in nodes.pods for pod in pods.values()]
        existing.sort(key=lambda pod: (pod.pod.metadata.creation_timestamp or "", pod.uid))
        capacity = self._matrix(nodes.live, nodes.allocatable)
        for pod in existing[-packing.WINDOW :] if nodes.live.any() else ():
            self.learn(self._demand(pod), capacity)

    def learn(self, demand: Floats, capacity: Floats) -> None:
        """Add a pod's demand, one amount for each resource, to the learned distribution.

        `capacity`, in the shape [resource, node], limits the demand that counts.
        """
        self._learned = packing.learn(self._learned, demand.tolist(), capacity)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return 10 points for the best feasible node by the objective, down to 1 for the worst.

        A node on which the pod does not fit gets 0.
        """
        demand = self._demand(pod)
        capacity = self._matrix(feasible, nodes.allocatable)
        self.learn(demand, capacity)
        usage = self.read_usage(state, nodes, feasible)
        raw = np.zeros(nodes.slots, np.int64)
        values = np.full(nodes.slots, np.nan)
        values[feasible] = self._values(capacity, usage, demand)
        state.write(ScoredNodes(values, self._learned.count))
        raw[feasible] = packing.points(values[feasible])
        return raw

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        """Report, for the record, the objective's value with the pod on each node; NaN if the pod does not fit."""
        scored = state.read(ScoredNodes)
        learned = f"; demand of {scored.pods} pod(s)" if self.args.policy_objective == A_BINPACK else ""
        source = f"{self.args.policy_objective} of requested {', '.join(self.resources)}{learned}"
        return (NodeInputs(source, (NodeInputColumn("objective", scored.values, digits=6),)),)

    def read_usage(self, state: CycleState, nodes: NodeColumns, feasible: Mask) -> Floats:
        """Return the sums of pods' requests on the feasible nodes as a matrix [resource, node]."""
        return self._matrix(feasible, nodes.requested)

    def requested_by(self, pod: PodInfo, resource: str) -> int:
        """Return the pod's request of a resource in base units."""
        return pod.requests.get(resource, 0)

    def _values(self, capacity: Floats, usage: Floats, demand: Floats) -> Floats:
        if self.args.policy_objective == LOAD_BALANCE:
            return packing.load_balance(capacity, usage, demand, self.args.policy_resource_index)
        if self.args.policy_objective == CONSOLIDATE:
            return packing.consolidate(capacity, usage, demand, self.args.policy_resource_index)
        return packing.adaptive_bin_pack(capacity, usage, demand, self._learned)

    def _matrix(self, feasible: Mask, column: Callable[[str], NDArray[np.int64]]) -> Floats:
        return np.array([packing.scaled(r, column(self._name(r))[feasible]) for r in self.resources], np.float64)

    def _demand(self, pod: PodInfo) -> Floats:
        def amount(resource: str) -> int:
            if resource == PODS:
                return 1
            requested = packing.scaled(resource, self.requested_by(pod, self._name(resource)))
            return requested if requested > 0 else packing.LEAST.get(resource, 0)

        return np.array([amount(resource) for resource in self.resources], np.float64)

    def _name(self, resource: str) -> str:
        return str(self.args.gpu_resource) if resource == "gpu" else resource
