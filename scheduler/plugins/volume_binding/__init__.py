"""VolumeBinding: a pod goes where its volumes are, or can be made.

Owns: the plugin's extension points and arguments. Which claims a pod has is `claims`; on which nodes their volumes can
be had is `search`. Source: pkg/scheduler/framework/plugins/volumebinding v1.36.

Binding and provisioning (PreBind) are not built: where the scheduler around the plugin does not do it either
(`Handle.binds_volumes`), a pod with a claim that waits for its node is refused, never bound without its volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from herodotus_record.model import SUCCESS, Reason, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import Args, Handle, InTreePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import PASS, SKIP, PreFilterResult, Verdicts, unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem, invalid
from scheduler.plugins.volume_binding import hints
from scheduler.plugins.volume_binding.claims import Claims, UnusableClaimError, claims_of
from scheduler.plugins.volume_binding.search import Search, Storage
from scheduler.plugins.volume_hints import any_claim

NOT_BUILT = unresolvable(
    Reason("not-built", {"feature": "binding volumes to claims that wait for their pod", "plugin": "VolumeBinding"})
)


class VolumeBindingArgs(Args, frozen=True):
    """How long PreBind may wait. `shape` belongs to an alpha feature (StorageCapacityScoring) that is off."""

    bind_timeout_seconds: int = 600
    shape: list[dict[str, int]] | None = None

    def problems(self) -> Iterator[Problem]:
        """No negative time, no shape."""
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid("bindTimeoutSeconds", self.bind_timeout_seconds, detail)
        if self.shape is not None:
            detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            yield invalid("shape", self.shape, detail)


class VolumeBinding(InTreePlugin):
    """Filters; gives no points, as long as StorageCapacityScoring is off."""

    name = "VolumeBinding"
    args_type = VolumeBindingArgs
    idle_at = frozenset({"preBind"})

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """Claims of the pod, and whatever may make a volume or a way to one."""
        either = Action.ADD | Action.UPDATE
        yield ClusterEventWithHint(Resource.STORAGE_CLASS, either, hints.after_class)
        yield ClusterEventWithHint(Resource.PERSISTENT_VOLUME_CLAIM, either, any_claim)
        yield ClusterEventWithHint(Resource.PERSISTENT_VOLUME, either)
        yield ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        yield ClusterEventWithHint(Resource.CSI_NODE, either, hints.after_csi_node)
        yield ClusterEventWithHint(Resource.CSI_DRIVER, Action.UPDATE, hints.after_driver)
        yield ClusterEventWithHint(Resource.CSI_STORAGE_CAPACITY, either, hints.after_capacity)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._storage = Storage(handle.objects)

    def prepare(self, nodes: NodeColumns) -> None:
        """Bring the indexes of volumes and capacities up to date."""
        self._storage.catch_up()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Every claim must be there and, but for those that wait for their first consumer, bound."""
        try:
            claims = claims_of(pod, self.handle.objects)
        except UnusableClaimError as e:
            return PreFilterResult(unresolvable(e.reason))
        if claims is None:
            return PreFilterResult(SKIP)
        if claims.delayed and not self.handle.binds_volumes:
            return PreFilterResult(NOT_BUILT)
        state.write(claims)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Bound volumes must reach the node; for waiting claims there must be a volume, or a way to make one."""
        claims = state.find(Claims)
        return PASS if claims is None else Search(self._storage, nodes).verdicts(claims)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Never any points."""
        return SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Never reached."""
        return np.zeros(nodes.slots, np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """The last barrier before a pod is bound: all of its volumes are."""
        claims = state.find(Claims)
        return NOT_BUILT if claims is not None and claims.delayed else SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Nothing was kept."""
