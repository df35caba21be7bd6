"""Binding of volumes to a pod's claims once its node is chosen: assume, write, wait, or undo.

Three steps: `reserve` assumes volumes and claims, so that later cycles see them as used. `write_bindings` writes, in a
binding thread, the claimRef of each volume and the selected node of each claim that needs a new volume. `check_bound`
runs in the scheduling loop's thread until the volume controller and the provisioners have bound every claim.

Source: pkg/scheduler/framework/plugins/volumebinding/binder.go v1.36 (AssumePodVolumes, BindPodVolumes, checkBindings).
As upstream, nothing that was written is undone: the next attempt finds the volume reserved for the claim.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.plugin import Handle
from scheduler.engine.framework.writes import Writes
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.storage import (
    Annotations,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageMetadata,
)
from scheduler.engine.plugins.volume_binding.claims import PodClaims
from scheduler.engine.plugins.volume_binding.search import StorageIndexes, VolumeChoices, VolumeSearch


class BindingError(Exception):
    """An error for volumes that cannot be bound as chosen, after which the pod is scheduled again."""


@dataclass
class StaticBinding:
    """The binding of an existing volume to a claim.

    `bound_by_scheduler` means that the volume was not reserved for the claim before, so the controller may release it.
    `changed` means that the volume's claimRef must be written.
    """

    volume: PersistentVolume
    claim: PersistentVolumeClaim
    bound_by_scheduler: bool
    changed: bool
    version: int = 0  # resource version of the written volume


@dataclass
class Provision:
    """A claim for which a volume is to be provisioned; its annotations name the selected node."""

    claim: PersistentVolumeClaim
    version: int = 0


@dataclass
class ReservedVolumes:
    """The state that Reserve writes: the volumes and claims that the pod's binding on `node` binds."""

    node: str
    static: list[StaticBinding] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)

    @property
    def claims(self) -> list[PersistentVolumeClaim]:
        """The claims that PreBind binds and waits for."""
        return [b.claim for b in self.static] + [p.claim for p in self.provisions]

    @property
    def description(self) -> str:
        """The claims that PreBind waits for, as text."""
        return f"volumes of {', '.join(claim.full_name for claim in self.claims)}"


def reserve(objects: ClusterObjects, choices: VolumeChoices, node: str) -> ReservedVolumes:
    """Assume in `objects` the bindings of volumes and claims that are chosen for the node, and return the bindings."""
    static, to_provision = choices.on_node(node)
    reserved = ReservedVolumes(node)
    for volume, claim in static:
        binding = _bind_to_claim(volume, claim)
        if binding.changed:
            objects.assume(binding.volume)
        reserved.static.append(binding)
    for claim in to_provision:
        annotations = msgspec.structs.replace(claim.annotations, selected_node=node)
        assumed = msgspec.structs.replace(claim, metadata=_annotated(claim.metadata, annotations))
        objects.assume(assumed)
        reserved.provisions.append(Provision(assumed))
    return reserved


def unreserve(objects: ClusterObjects, reserved: ReservedVolumes) -> None:
    """Replace the assumed volumes and claims in `objects` with the versions that the API server last sent."""
    for binding in reserved.static:
        objects.restore(binding.volume)
    for provision in reserved.provisions:
        objects.restore(provision.claim)


def write_bindings(writes: Writes, reserved: ReservedVolumes) -> None:
    """Write the volume bindings and the claims' selected nodes to the API server; raise the error of a request."""
    for binding in reserved.static:
        binding.version = writes.bind_volume(binding.volume, binding.claim, by_controller=binding.bound_by_scheduler)
    for provision in reserved.provisions:
        provision.version = writes.select_node(provision.claim, reserved.node)


def check_bound(handle: Handle, storage: StorageIndexes, reserved: ReservedVolumes) -> bool:
    """Return whether every claim is bound; raise BindingError, with kube-scheduler's message, if one cannot be bound.

    `storage` must be up to date. Also raises BindingError if the node does not exist any more.
    """
    node = handle.node(reserved.node)
    if node is None:
        raise BindingError(f'failed to get node "{reserved.node}": node "{reserved.node}" not found')
    single_node = NodeColumns()
    single_node.set_node(node)
    objects = handle.objects
    # as upstream, stop at the first claim that is not ready yet
    return all(_is_bound(objects, storage, single_node, b) for b in reserved.static) and all(
        _is_provisioned(objects, storage, single_node, reserved.node, p) for p in reserved.provisions
    )


def _is_bound(
    objects: ClusterObjects, storage: StorageIndexes, single_node: NodeColumns, binding: StaticBinding
) -> bool:
    name = binding.volume.metadata.name
    volume = objects.shown(PersistentVolume, name)
    if volume is None:
        raise BindingError(f'failed to check binding: could not find v1.PersistentVolume "{name}"')
    claim = _claim(objects, binding.claim, "failed to check binding")
    if _precedes_write(volume, binding.version):
        return False
    _check_reachable(storage, single_node, volume, claim)
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        raise BindingError(f'ClaimRef got reset for pv "{name}"')
    return claim.fully_bound


def _is_provisioned(
    objects: ClusterObjects, storage: StorageIndexes, single_node: NodeColumns, node: str, provision: Provision
) -> bool:
    claim = _claim(objects, provision.claim, "failed to check provisioning pvc")
    if _precedes_write(claim, provision.version):
        return False
    if claim.annotations.selected_node != node:  # a provisioner that fails removes the annotation
        raise BindingError(f'provisioning failed for PVC "{claim.metadata.name}"')
    if claim.spec.volume_name:
        volume = objects.shown(PersistentVolume, claim.spec.volume_name)
        if volume is None:  # not seen yet
            return False
        _check_reachable(storage, single_node, volume, claim)
    return claim.fully_bound


def _claim(objects: ClusterObjects, claim: PersistentVolumeClaim, what: str) -> PersistentVolumeClaim:
    shown = objects.shown(PersistentVolumeClaim, claim.metadata.name, claim.metadata.namespace)
    if shown is None:
        raise BindingError(f'{what}: could not find v1.PersistentVolumeClaim "{claim.full_name}"')
    return shown


def _check_reachable(
    storage: StorageIndexes, single_node: NodeColumns, volume: PersistentVolume, claim: PersistentVolumeClaim
) -> None:
    """Raise BindingError if the node in `single_node` cannot access the volume.

    The node's labels may have changed since Filter.
    """
    spec = msgspec.structs.replace(claim.spec, volume_name=volume.metadata.name)
    bound = PodClaims((msgspec.structs.replace(claim, spec=spec),), ())
    if VolumeSearch(storage, single_node).compute_verdicts(bound).ids is not None:
        (node,) = single_node.names
        name = volume.metadata.name
        raise BindingError(f'pv "{name}" node affinity doesn\'t match node "{node}": no matching NodeSelectorTerms')


def _precedes_write(shown: PersistentVolume | PersistentVolumeClaim, version: int) -> bool:
    """Return whether an object from the watch is older than the version that the scheduler wrote."""
    return int(shown.metadata.resource_version or 0) < version


def _bind_to_claim(volume: PersistentVolume, claim: PersistentVolumeClaim) -> StaticBinding:
    """Return the binding of a volume to a claim, with a copy of the volume that refers to the claim.

    Source: k8s.io/component-helpers/storage/volume GetBindVolumeToClaim.
    """
    ours = ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
    now = volume.spec.claim_ref
    is_reserved = now is not None and (now.namespace, now.name, now.uid or ours.uid) == (
        ours.namespace,
        ours.name,
        ours.uid,
    )
    spec = msgspec.structs.replace(volume.spec, claim_ref=ours)
    assumed = msgspec.structs.replace(volume, spec=spec)
    return StaticBinding(assumed, claim, bound_by_scheduler=not is_reserved, changed=now != ours)


def _annotated(metadata: StorageMetadata, annotations: Annotations) -> StorageMetadata:
    return msgspec.structs.replace(metadata, annotations=annotations)
