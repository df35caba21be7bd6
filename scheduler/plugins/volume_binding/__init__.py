"""VolumeBinding: a pod goes where its volumes are, or can be made, and is bound when they are.

Owns: the plugin's extension points and arguments. Which claims a pod has is `claims`; on which nodes their volumes can
be had is `search`; how they are bound there is `binding`. Source: pkg/scheduler/framework/plugins/volumebinding v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from herodotus_record.model import SUCCESS, Verdict
from scheduler.columns import NodeColumns
from scheduler.framework.events import Action, ClusterEventWithHint, Resource
from scheduler.framework.interface import Mask, Scores
from scheduler.framework.plugin import Args, BasePlugin, Handle
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import PASS, SKIP, SKIPPED, Pending, PreFilterResult, Verdicts, error, unresolvable
from scheduler.objects.pod import PodInfo
from scheduler.objects.problems import Problem, invalid
from scheduler.plugins.volume_binding import binding, hints
from scheduler.plugins.volume_binding.binding import Reserved
from scheduler.plugins.volume_binding.claims import Claims, UnusableClaimError, claims_of
from scheduler.plugins.volume_binding.search import Choices, Search, Storage
from scheduler.plugins.volume_hints import any_claim


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


class VolumeBinding(BasePlugin):
    """Filters; gives no points, as long as StorageCapacityScoring is off."""

    name = "VolumeBinding"
    args_type = VolumeBindingArgs

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

    def settled_by_spec(self, pod: PodInfo) -> bool:
        """Where there is no volume to look at."""
        return not pod.has_storage

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Every claim must be there and, but for those that wait for their first consumer, bound."""
        try:
            claims = claims_of(pod, self.handle.objects)
        except UnusableClaimError as e:
            return PreFilterResult(unresolvable(e.reason))
        if claims is None:
            return SKIPPED
        state.write(claims)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Bound volumes must reach the node; for waiting claims there must be a volume, or a way to make one."""
        claims = state.find(Claims)
        if claims is None:
            return PASS
        search = Search(self._storage, nodes)
        verdicts = search.verdicts(claims)
        state.write(search.choices(claims))
        return verdicts

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Never any points."""
        return SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Never reached."""
        return np.zeros(nodes.slots, np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Count the chosen volumes as taken; nothing to do where every claim is bound."""
        choices = state.find(Choices)
        if choices is not None and choices.delayed:
            state.write(binding.reserve(self.handle.objects, choices, node))
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Count them as free again. What was written stays written: the volume is kept for the claim."""
        kept = state.find(Reserved)
        if kept is not None:
            binding.unreserve(self.handle.objects, kept)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Nothing to do where every claim is bound."""
        return SKIP if state.find(Reserved) is None else SUCCESS

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Pending:
        """Write, then wait until every claim is bound."""
        kept = state.find(Reserved)
        if kept is None:
            return SUCCESS
        binding.write(self.handle, kept)
        late = error("binding volumes: context deadline exceeded")
        return Pending(lambda: self._bound(kept), self.args.bind_timeout_seconds, late, kept.waited_for)

    def _bound(self, kept: Reserved) -> Verdict | None:
        try:
            return SUCCESS if binding.check(self.handle, self._storage, kept) else None
        except binding.BindingError as e:
            return error(f"binding volumes: {e}")
