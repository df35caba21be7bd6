"""GpuShares: places shares of GPUs on single GPUs, where kube-scheduler only sums them up over a node.

A pod requests thousandths of GPUs as an extended resource of its node: below 1000 a share of one GPU, else whole GPUs.
The plugin keeps which GPUs each pod has, rejects nodes on which the free shares of single GPUs do not suffice, and
chooses the GPUs at Reserve. It is for simulations, because nothing tells a real pod which GPU it has.

Owns: which GPUs the pods on nodes have, and the choices for another pod. A subclass chooses by another rule (`choose`),
and may score nodes with what is free on each GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.engine.columns import NodeColumns, RowSubset
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.plugin import Args, BasePlugin, DependsOn, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS, Verdicts, unschedulable
from scheduler.engine.objects.pod import PodInfo
from scheduler.offline.simulate.fragmentation import Ints, Mask
from scheduler.offline.traces.importing import GPU_MILLI, MILLI_PER_GPU

NO_GPU = unschedulable(Reason("text", {"text": "node(s) had too little free on single GPUs"}))


class GpuSharesArgs(Args, frozen=True):
    """Arguments of GpuShares: `resource` is the resource of which a GPU has 1000."""

    resource: str = GPU_MILLI


class GpuChoices(NamedTuple):
    """The ways to place a pod on the GPUs of each node.

    `free` has the shape [node, GPU]; `taken`, what a choice takes of each GPU, [node, choice, GPU]; `fits` [node,
    choice]. A share has a choice for each GPU; whole GPUs have one, the first idle GPUs.
    """

    free: Ints
    taken: Ints
    fits: Mask


class GpuShares(BasePlugin):
    """A plugin at Filter and Reserve that gives each pod single GPUs. It chooses the GPU on which least remains.

    Invariant: the sum that pods have of a GPU is at most 1000.
    """

    name = "GpuShares"
    args_type = GpuSharesArgs
    args: GpuSharesArgs
    reads = frozenset({PluginInput.NODE, PluginInput.PODS})
    depends_on = DependsOn.ROW  # what the pods on a node have does not change while they are there

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._nodes = NodeColumns()
        self._taken: dict[str, dict[str, Ints]] = {}  # by name of the node and UID of the pod: thousandths of each GPU

    def prepare(self, nodes: NodeColumns) -> None:
        """Keep the columns of the cluster, in which Reserve looks up the node."""
        self._nodes = nodes

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(EventResource.ASSIGNED_POD, ActionType.DELETE)
        yield ClusterEventWithHint(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes where no choice of GPUs has enough for the pod."""
        if not self.requested(pod):
            return PASS
        return Verdicts.reject(self.list_choices(pod, nodes).fits.sum(axis=1) == 0, NO_GPU)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Give the pod GPUs of the node."""
        if not self.requested(pod):
            return SUCCESS
        row = RowSubset(self._nodes, np.array([self._nodes.index[node]]))
        choices = self.list_choices(pod, row)
        if not choices.fits.any():
            return NO_GPU
        present = {uid: taken for uid, taken in self._taken.get(node, {}).items() if uid in row.pods[0]}
        self._taken[node] = present | {pod.uid: choices.taken[0, self.choose(pod, row, choices)]}
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Take the pod's GPUs back."""
        self._taken.get(node, {}).pop(pod.uid, None)

    def choose(self, pod: PodInfo, row: NodeColumns, choices: GpuChoices) -> int:
        """Return the number of a choice that fits on the only node of `row`: here, the GPU with least free."""
        return int(np.where(choices.fits[0], _count_free_where_taken(choices)[0], np.inf).argmin())

    def requested(self, pod: PodInfo) -> int:
        """Return the thousandths of GPUs that the pod requests."""
        return pod.requests.get(self.args.resource, 0)

    def list_free(self, nodes: NodeColumns) -> Ints:
        """Return the free thousandths of each GPU, with the shape [node, GPU]; 0 where a node has fewer GPUs."""
        gpus = nodes.allocatable(self.args.resource) // MILLI_PER_GPU
        free = np.where(np.arange(gpus.max(initial=0)) < gpus[:, None], MILLI_PER_GPU, 0)
        for row, (name, pods) in enumerate(zip(nodes.names, nodes.pods, strict=True)):
            taken = self._taken.get(name)
            if taken:
                for uid in taken.keys() & pods.keys():
                    free[row, : len(taken[uid])] -= taken[uid]
        return free

    def list_choices(self, pod: PodInfo, nodes: NodeColumns) -> GpuChoices:
        """Return the ways to place the pod on the GPUs of each node."""
        free, milli = self.list_free(nodes), self.requested(pod)
        if 0 < milli < MILLI_PER_GPU:
            taken = np.broadcast_to(milli * np.eye(free.shape[1], dtype=np.int64), (*free.shape, free.shape[1]))
            return GpuChoices(free, taken, free >= milli)
        idle = free == MILLI_PER_GPU
        first = idle & (idle.cumsum(axis=1) * MILLI_PER_GPU <= milli)
        taken = np.where(first, MILLI_PER_GPU, 0)
        return GpuChoices(free, taken[:, None, :], taken.sum(axis=1, keepdims=True) == milli)


def _count_free_where_taken(choices: GpuChoices) -> Ints:
    """Return for each node and choice how much is free on the GPUs that it takes."""
    counts: Ints = np.where(choices.taken > 0, choices.free[:, None, :], 0).sum(axis=2)
    return counts
