"""VolumeBinding: places a pod where its volumes are accessible or can be provisioned, and binds them to its claims.

`claims` finds the pod's claims, `search` the nodes on which their volumes are available, `scoring` compares their
storage, and `binding` binds them.
Source: pkg/scheduler/framework/plugins/volumebinding v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from herodotus_record.model import SUCCESS, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin, GatedArgument, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import (
    PASS,
    SKIP,
    SKIPPED,
    Pending,
    PreFilterResult,
    Verdicts,
    error,
    unresolvable,
)
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, invalid
from scheduler.engine.objects.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, is_claim_of_pod
from scheduler.engine.plugins.utilization_shape import (
    MAX_POINT_SCORE,
    ShapePoint,
    find_shape_problems,
    scale_points,
)
from scheduler.engine.plugins.volume_binding import binding
from scheduler.engine.plugins.volume_binding.binding import ReservedVolumes
from scheduler.engine.plugins.volume_binding.claims import PodClaims, UnusableClaimError, find_claims
from scheduler.engine.plugins.volume_binding.scoring import score_storage
from scheduler.engine.plugins.volume_binding.search import StorageIndexes, VolumeChoices, VolumeSearch
from scheduler.engine.rules.feature_gates import STORAGE_CAPACITY_SCORING

DEFAULT_SHAPE: Final = (ShapePoint(utilization=0, score=MAX_POINT_SCORE), ShapePoint(utilization=100, score=0))


class VolumeBindingArgs(Args, frozen=True):
    """Arguments of VolumeBinding: the seconds that PreBind may wait until the volumes are bound, and how it scores.

    `shape` maps the utilization of the storage to a score. By default, nodes with more free storage score more.
    """

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] = DEFAULT_SHAPE

    def __post_init__(self) -> None:
        if not self.shape:
            msgspec.structs.force_setattr(self, "shape", DEFAULT_SHAPE)

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for a negative timeout, and for each invalid point of the shape."""
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid("bindTimeoutSeconds", self.bind_timeout_seconds, detail)
        yield from (problem.below("shape") for problem in find_shape_problems(self.shape))


class VolumeBinding(BasePlugin):
    """The plugin that filters nodes by the volumes of the pod's claims, and binds volumes to the claims.

    It scores only with the feature StorageCapacityScoring, which is on by default since v1.37.
    """

    name = "VolumeBinding"
    args_type = VolumeBindingArgs
    gated_args: ClassVar = {
        "shape": GatedArgument(
            (STORAGE_CAPACITY_SCORING,),
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
            is_value_invalid=True,
        )
    }
    reads = frozenset({PluginInput.NODE, PluginInput.OBJECTS})
    fails_without: ClassVar = dict.fromkeys(("filter", "reserve", "preBind"), ("preFilter", "not found")) | (
        dict.fromkeys(("preScore", "score"), ("preFilter", "not found", STORAGE_CAPACITY_SCORING))
    )

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        either = ActionType.ADD | ActionType.UPDATE
        yield ClusterEventWithHint(EventResource.STORAGE_CLASS, either, _is_schedulable_after_class_change)
        yield ClusterEventWithHint(EventResource.PERSISTENT_VOLUME_CLAIM, either, is_claim_of_pod)
        yield ClusterEventWithHint(EventResource.PERSISTENT_VOLUME, either)
        yield ClusterEventWithHint(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        yield ClusterEventWithHint(EventResource.CSI_NODE, either, _is_schedulable_after_csi_node_change)
        yield ClusterEventWithHint(EventResource.CSI_DRIVER, ActionType.UPDATE, _is_schedulable_after_driver_change)
        yield ClusterEventWithHint(EventResource.CSI_STORAGE_CAPACITY, either, _is_schedulable_after_capacity_change)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._storage = StorageIndexes(handle.objects)
        self._shape = scale_points(args.shape)

    def prepare(self, nodes: NodeColumns) -> None:
        """Bring the indexes of storage objects up to date, so that the first cycle need not."""
        self._storage.update()

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return not pod.has_storage

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Reject the pod unless each of its claims exists and is bound or waits for its first consumer.

        Skip the filter if the pod has no claims.
        """
        try:
            claims = find_claims(pod, self.handle.objects)
        except UnusableClaimError as e:
            return PreFilterResult(unresolvable(e.reason))
        if claims is None:
            return SKIPPED
        state.write(claims)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes without access to a bound volume, and nodes where an unbound claim can get no volume.

        An unbound claim gets an existing volume that suits it, or a volume that a provisioner makes.
        """
        claims = state.find(PodClaims)
        if claims is None:
            return PASS
        search = VolumeSearch(self._storage, nodes, scores=self.rules.enabled(STORAGE_CAPACITY_SCORING))
        verdicts = search.compute_verdicts(claims)
        state.write(search.build_choices(claims))
        return verdicts

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        return SUCCESS if self.rules.enabled(STORAGE_CAPACITY_SCORING) else SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return each node's score for the storage that the pod's delayed claims would use; 0 without such claims."""
        choices = state.find(VolumeChoices)
        if choices is None:
            return np.zeros(nodes.slots, np.int64)
        return score_storage(choices.matches, choices.provisions, self._shape, nodes.slots)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Assume in memory the bindings that Filter chose for `node`, if the pod has delayed claims; return Success."""
        choices = state.find(VolumeChoices)
        if choices is not None and choices.delayed:
            state.write(binding.reserve(self.handle.objects, choices, node))
        else:
            state.write(ReservedVolumes(node))
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Drop the assumed bindings of volumes. Bindings that were already written to the API server remain."""
        reserved = state.find(ReservedVolumes)
        if reserved is not None:
            binding.unreserve(self.handle.objects, reserved)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Return Skip if Reserve found no claim to bind, so that PreBind has nothing to do, else Success.

        If the profile disables Reserve, returns an error for a pod without claims, and Success for others; PreBind then
        fails.
        """
        reserved = state.find(ReservedVolumes)
        if reserved is None and state.find(VolumeChoices) is None:
            return error(f'no pod volume found for node "{node}"')
        return SUCCESS if reserved is None or reserved.claims else SKIP

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Pending:
        """Write the assumed bindings to the API server, and return Pending until every claim is bound."""
        reserved = state.find(ReservedVolumes)
        if reserved is None:
            return error(f'failed to get cached bindings for pod "{pod.full_name}"')
        if not reserved.claims:
            return SUCCESS
        binding.write_bindings(self.handle.writes, reserved)
        late = error("binding volumes: context deadline exceeded")
        return Pending(lambda: self._bound(reserved), self.args.bind_timeout_seconds, late, reserved.description)

    def _bound(self, reserved: ReservedVolumes) -> Verdict | None:
        try:
            return SUCCESS if binding.check_bound(self.handle, self._storage, reserved) else None
        except binding.BindingError as e:
            return error(f"binding volumes: {e}")


def _is_schedulable_after_class_change(pod: PodInfo, old: StorageClass | None, new: StorageClass) -> bool:
    return old is None or old.allowed_topologies != new.allowed_topologies


def _is_schedulable_after_csi_node_change(pod: PodInfo, old: CSINode | None, new: CSINode) -> bool:
    return old is None or old.migrated != new.migrated


def _is_schedulable_after_driver_change(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> bool:
    """Return whether the CSI driver stopped tracking storage capacity, whether or not the pod uses it.

    Upstream returns False unless an inline volume of the pod uses the driver.
    """
    return bool(old.spec.storage_capacity) and not new.spec.storage_capacity


def _is_schedulable_after_capacity_change(
    pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> bool:
    """Return whether the CSIStorageCapacity is new or allows larger volumes than before."""
    before, after = None if old is None else old.largest_volume, new.largest_volume
    return old is None or (after is not None and (before is None or after > before))
