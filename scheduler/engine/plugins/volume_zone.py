"""VolumeZone: rejects nodes outside the zones in the labels of the pod's volumes.

Source: pkg/scheduler/framework/plugins/volumezone v1.36. VolumeBinding handles volumes with a node affinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from herodotus_record.model import Reason
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.interface import Mask
from scheduler.engine.framework.plugin import BasePlugin, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import PASS, SKIPPED, PreFilterResult, Verdicts, unresolvable
from scheduler.engine.objects.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_SEPARATOR
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    is_named_claim,
)
from scheduler.engine.plugins.volume_binding.claims import UnusableClaimError

KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
GA_KEYS = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}


class _VolumeTopology(NamedTuple):
    """A zone or region label of a persistent volume: the volume's name, the key, and the allowed values."""

    volume: str
    key: str
    values: frozenset[str]


class _VolumeTopologies(tuple[_VolumeTopology, ...]):
    """The state that PreFilter writes: the zone and region labels of the volumes of the pod's claims."""


class VolumeZone(BasePlugin):
    """A filter that rejects nodes outside the zones and regions in the labels of the pod's volumes."""

    name = "VolumeZone"
    reads = frozenset({PluginInput.NODE, PluginInput.OBJECTS})

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        yield ClusterEventWithHint(EventResource.STORAGE_CLASS, ActionType.ADD, _is_schedulable_after_class_change)
        yield ClusterEventWithHint(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        yield ClusterEventWithHint(
            EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD | ActionType.UPDATE, is_named_claim
        )
        yield ClusterEventWithHint(
            EventResource.PERSISTENT_VOLUME, ActionType.ADD | ActionType.UPDATE, _is_schedulable_after_volume_change
        )

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return not pod.has_storage

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Collect the zone and region labels of the pod's bound volumes; skip the filter if there are none.

        Reject the pod if a claim makes every node infeasible.
        """
        try:
            topologies = self._find_topologies_of_pod(pod)
        except UnusableClaimError as e:
            return PreFilterResult(unresolvable(e.reason))
        if not topologies:
            return SKIPPED
        state.write(topologies)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes outside the zones and regions in the labels of the pod's volumes.

        Nodes without any zone or region label pass, as in a cluster with one zone. If the profile disables PreFilter,
        the reasons for which it would reject the pod reject every node.
        """
        try:
            topologies = state.find(_VolumeTopologies) or self._find_topologies_of_pod(pod)
        except UnusableClaimError as e:
            return Verdicts.everywhere(unresolvable(e.reason), nodes.slots)
        somewhere = np.zeros(nodes.slots, np.bool_)
        for key in KEYS:
            somewhere |= nodes.label(key).where(nodes.slots, lambda v: v is not None)
        elsewhere = np.zeros(nodes.slots, np.bool_)
        for topology in topologies:
            elsewhere |= ~_match_nodes(nodes, topology)
        wants = ", ".join(f"{p.key}={'|'.join(sorted(p.values))} ({p.volume})" for p in topologies)
        verdict = unresolvable(Reason("volume-zone", {"wants": wants}))
        return Verdicts.reject(somewhere & elsewhere, verdict) if somewhere.any() else PASS

    def _find_topologies_of_pod(self, pod: PodInfo) -> _VolumeTopologies:
        return _VolumeTopologies(
            topology for claim in self._claims(pod) for topology in self._find_topologies_of_claim(claim)
        )

    def _claims(self, pod: PodInfo) -> Iterator[PersistentVolumeClaim]:
        for volume in pod.pod.spec.volumes or ():
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            if not name:
                raise UnusableClaimError("claim-unnamed")
            claim = self.handle.objects.get(PersistentVolumeClaim, name, pod.namespace)
            if claim is None:
                raise UnusableClaimError("claim-not-found", claim=name)
            yield claim

    def _find_topologies_of_claim(self, claim: PersistentVolumeClaim) -> Iterator[_VolumeTopology]:
        name = claim.spec.volume_name
        if not name:
            self._check_unbound(claim)
            return
        volume = self.handle.objects.get(PersistentVolume, name)
        if volume is None:
            raise UnusableClaimError("volume-not-found", volume=name)
        yield from _find_topologies(volume)

    def _check_unbound(self, claim: PersistentVolumeClaim) -> None:
        """Raise UnusableClaimError for an unbound claim unless its storage class waits for the first consumer."""
        name = claim.storage_class
        if not name:
            raise UnusableClaimError("claim-without-class")
        storage_class = self.handle.objects.get(StorageClass, name)
        if storage_class is None:
            raise UnusableClaimError("class-not-found", storage_class=name)
        if storage_class.volume_binding_mode is None:
            raise UnusableClaimError("class-without-mode", storage_class=name)
        if storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
            raise UnusableClaimError("claim-without-volume")


def _match_nodes(nodes: NodeColumns, topology: _VolumeTopology) -> Mask:
    """Return a mask of the nodes that have one of the values of a volume's zone or region label.

    If the label is a beta one, a node without it is compared by its stable counterpart.
    """
    own = nodes.label(topology.key)
    here = own.where(nodes.slots, lambda v: v in topology.values)
    if topology.key != GA_KEYS[topology.key]:
        general = nodes.label(GA_KEYS[topology.key]).where(nodes.slots, lambda v: v in topology.values)
        here |= own.where(nodes.slots, lambda v: v is None) & general
    return here


def _find_topologies(volume: PersistentVolume) -> Iterator[_VolumeTopology]:
    labels = volume.metadata.labels or {}
    for key in KEYS:
        values = frozenset(value.strip() for value in labels.get(key, "").split(ZONE_SEPARATOR))
        if "" not in values:  # a label that names nothing, or is malformed, is ignored
            yield _VolumeTopology(volume.metadata.name, key, values)


def _is_schedulable_after_class_change(pod: PodInfo, old: None, new: StorageClass) -> bool:
    return new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _is_schedulable_after_volume_change(pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume) -> bool:
    return old is None or list(_find_topologies(old)) != list(_find_topologies(new))
