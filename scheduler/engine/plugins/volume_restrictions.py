"""VolumeRestrictions: disks that one node mounts once, and claims that one pod of the cluster uses at a time.

Source: pkg/scheduler/framework/plugins/volumerestrictions v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from herodotus_record.model import Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.plugin import BasePlugin, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS, SKIPPED, PreFilterResult, Verdicts, unresolvable, unschedulable
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import READ_WRITE_ONCE_POD, PersistentVolumeClaim, is_named_claim


@dataclass
class _Exclusive:
    """The state that PreFilter writes: the names of the pod's ReadWriteOncePod claims, and their uses by other pods.

    `uses` is the total number of uses of all these claims.
    """

    claims: frozenset[str]
    uses: int

    def clone(self) -> _Exclusive:
        return replace(self)


class VolumeRestrictions(BasePlugin):
    """A filter for disks that cannot be mounted twice on a node, and for ReadWriteOncePod claims in use."""

    name = "VolumeRestrictions"
    reads = frozenset({PluginInput.NODE, PluginInput.PODS, PluginInput.OBJECTS})
    fails_without: ClassVar = {"filter": ("preFilter", 'cannot read "PreFilterVolumeRestrictions" from cycleState')}

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(EventResource.POD, ActionType.DELETE, _is_schedulable_after_pod_deletion)
        yield ClusterEventWithHint(EventResource.NODE, ActionType.ADD)
        yield ClusterEventWithHint(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD, is_named_claim)

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return not pod.has_storage

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Reject the pod if one of its claims does not exist.

        Skip the filter if the pod has neither an inline disk that may conflict nor a ReadWriteOncePod claim in use.
        """
        exclusive = set()
        for volume in pod.pod.spec.volumes or ():
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim = self.handle.objects.get(PersistentVolumeClaim, name, pod.namespace)
            if claim is None:
                return PreFilterResult(unresolvable(Reason("claim-not-found", {"claim": name})))
            if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
                exclusive.add(name)
        uses = sum(nodes.volumes.in_use(f"{pod.namespace}/{name}") for name in exclusive)
        if not pod.disks and not uses:
            return SKIPPED
        state.write(_Exclusive(frozenset(exclusive), uses))
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """Add the uses that the pod `added` makes of this pod's ReadWriteOncePod claims.

        As in kube-scheduler, namespaces are not compared.
        """
        _count(state.read(_Exclusive), added, +1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """Subtract the uses that the pod `removed` makes of this pod's ReadWriteOncePod claims."""
        _count(state.read(_Exclusive), removed, -1)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes with a conflicting disk, and all other nodes if a ReadWriteOncePod claim is in use."""
        note = state.read(_Exclusive)
        in_use = Reason("claim-in-use", {"claims": ", ".join(f"{pod.namespace}/{c}" for c in sorted(note.claims))})
        verdicts = Verdicts.everywhere(unschedulable(in_use), nodes.slots) if note.uses > 0 else PASS
        taken: dict[int, Verdict] = {}
        for disk in pod.disks:
            conflict = unschedulable(Reason("disk-conflict", {"disk": f"{disk.kind} {disk.name}"}))
            for slot in nodes.volumes.slots_with_conflicting_disk(disk):
                taken.setdefault(slot, conflict)
        return verdicts.with_verdicts(taken, nodes.slots)

    def explain_rejections(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, verdicts: Verdicts) -> Verdicts:
        """Return the verdicts with, in the reason `claim-in-use`, the first pod that uses a claim, and its node."""
        claims = {f"{pod.namespace}/{name}" for name in state.read(_Exclusive).claims}
        users = (
            (other.full_name, nodes.names[slot])
            for claim in sorted(claims)
            for slot in sorted(nodes.volumes.slots_in_use(claim))
            for other in nodes.pods[slot].values()
            if claim in other.claims and other.uid != pod.uid
        )
        first = next(users, None)
        if first is None:
            return verdicts
        found = dict(zip(("pod", "podNode"), first, strict=True))
        return verdicts.with_parameters(lambda reason: found if reason.code == "claim-in-use" else {})


def _count(note: _Exclusive, pod: PodInfo, sign: int) -> None:
    claims = (v.persistent_volume_claim for v in pod.pod.spec.volumes or ())
    note.uses += sign * sum(claim is not None and claim.claim_name in note.claims for claim in claims)


def _is_schedulable_after_pod_deletion(pod: PodInfo, old: PodInfo, new: None) -> bool:
    """Return whether the deleted pod `old` used a claim of `pod`, or a disk that conflicts with one of its disks.

    As in kube-scheduler, a pod of another namespace does not count.
    """
    if old.namespace != pod.namespace:
        return False
    return not set(pod.claims).isdisjoint(old.claims) or any(d.conflicts(o) for d in pod.disks for o in old.disks)
