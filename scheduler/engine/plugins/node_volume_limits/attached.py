"""The number of CSI volumes that are attached to each node, and each driver's limit, as columns.

Invariant: after `update` the columns equal those built from scratch. `update` counts a node slot again only if the slot
changed, or an object on which its numbers depend.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.interface import Mask
from scheduler.engine.objects import quantity
from scheduler.engine.objects.cluster import ClusterObjects, Index
from scheduler.engine.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.engine.objects.types import Object
from scheduler.engine.plugins.node_volume_limits.volumes import (
    ALL_MIGRATED,
    NONE_MIGRATED,
    PORTWORX,
    CsiVolume,
    MigratedPlugins,
    ObjectDependency,
    UncountableError,
    VolumeLookup,
)

Amounts = NDArray[np.int64]
K = TypeVar("K")

READ: tuple[type[Object], ...] = (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, VolumeAttachment)

_LIMIT_PREFIX = "attachable-volumes-csi-"
_MAX_KEY = 63  # of characters in a resource's name; longer keys end with a hash of the driver's name

_NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class LimitSources:
    """Where limits come from besides CSINodes: `allocatable` of nodes, as before v1.32.

    With `portworx_by_node`, as before v1.36, Portworx volumes count only where the CSINode says that they are migrated.
    """

    allocatable: bool = False
    portworx_by_node: bool = False


class AttachedVolumes:
    """The attached CSI volumes, and each driver's limit of them, for every node slot of one `NodeColumns`.

    Callers call `update` before they read it.
    """

    def __init__(
        self, objects: ClusterObjects, attachments: Index[str, VolumeAttachment], sources: LimitSources
    ) -> None:
        """Create empty columns. `attachments` is an index of the VolumeAttachments by node name."""
        self._sources = sources
        self._without_portworx = np.zeros(0, np.bool_)
        self.uncountable: dict[int, Verdict] = {}  # slots with a pod whose volumes cannot be counted
        self._objects = objects
        self._attachments = attachments
        self._generation = -1
        self._revisions: dict[type[Object], int] = {}
        self._known = np.zeros(0, np.bool_)
        self._drivers: dict[str, set[int]] = {}  # the slots of the nodes on which each CSI driver is installed
        self._limits: dict[str, Amounts] = {}
        self._attached: dict[str, Amounts] = {}
        self._volumes: dict[int, set[CsiVolume]] = {}
        self._holders: dict[CsiVolume, set[int]] = {}
        self._dependencies: dict[int, set[ObjectDependency]] = {}
        self._dependents: dict[ObjectDependency, set[int]] = {}

    def group_nodes(self) -> Iterator[tuple[MigratedPlugins, Mask]]:
        """Yield sets of migrated in-tree plugins, each with a mask of the node slots where exactly these are migrated.

        Volumes of migrated plugins count as CSI volumes there. On a node without a CSINode, no plugin is migrated.
        """
        yield ALL_MIGRATED, self._known & ~self._without_portworx
        if self._without_portworx.any():
            yield ALL_MIGRATED - {PORTWORX}, self._known & self._without_portworx
        yield NONE_MIGRATED, ~self._known

    def has_driver(self, driver: str) -> Mask:
        """Return a mask of the node slots on whose nodes a CSI driver is installed."""
        mask = np.zeros(len(self._known), np.bool_)
        mask[list(self._drivers.get(driver, ()))] = True
        return mask

    def get_limits(self, driver: str) -> Amounts:
        """Return, for each node slot, the driver's limit of volumes; the largest int64 stands for no limit."""
        return self._column(self._limits, _build_limit_key(driver), _NO_LIMIT)

    def get_attached(self, driver: str) -> Amounts:
        """Return, for each node slot, the number of distinct attached volumes of the driver.

        It is 0 for a node without any driver's limit.
        """
        return self._column(self._attached, driver, 0)

    def get_slots_using(self, volume: CsiVolume) -> list[int]:
        """Return the slots of the nodes with pods that use the volume."""
        return list(self._holders.get(volume, ()))

    def update(self, nodes: NodeColumns) -> None:
        """Count the volumes again for each node slot whose node, pods or storage objects changed."""
        if len(self._known) < nodes.slots:
            self._grow(nodes.slots)
        changed = self._changed(nodes)
        self._generation = nodes.generation
        self._revisions = {kind: self._objects.revision_of(kind) for kind in READ}
        for slot in range(nodes.slots) if changed is None else sorted(changed):
            self._forget(slot)
            self._count(nodes, slot)

    def _changed(self, nodes: NodeColumns) -> set[int] | None:
        """Return the node slots whose volumes must be counted again, or None if all must be."""
        if self._generation < 0:
            return None
        changed = set(np.flatnonzero(nodes.since > self._generation).tolist())
        for kind, revision in self._revisions.items():
            changes = self._objects.changed_since(kind, revision)
            if changes is None:
                return None
            for namespace, name in changes:
                changed |= self._dependents.get(ObjectDependency(kind, namespace, name), set())
                changed.update(self._named(nodes, kind, name))
        return changed

    def _named(self, nodes: NodeColumns, kind: type[Object], name: str) -> Iterator[int]:
        """Yield the slot of the node that a CSINode or VolumeAttachment refers to, if the node exists."""
        attachment = self._objects.get(VolumeAttachment, name) if kind is VolumeAttachment else None
        node = name if kind is CSINode else attachment.spec.node_name if attachment else ""
        if node in nodes.index:
            yield nodes.index[node]

    def _count(self, nodes: NodeColumns, slot: int) -> None:
        csi_node = self._objects.get(CSINode, nodes.names[slot]) if nodes.live[slot] else None
        self._known[slot] = csi_node is not None
        for driver in csi_node.driver_names if csi_node else ():
            self._drivers.setdefault(driver, set()).add(slot)
        migrated = ALL_MIGRATED if csi_node else NONE_MIGRATED
        if csi_node and self._sources.portworx_by_node and PORTWORX not in csi_node.migrated:
            self._without_portworx[slot] = True
            migrated -= {PORTWORX}
        limits = self._read_allocatable(nodes, slot) if self._sources.allocatable and nodes.live[slot] else {}
        limits |= {_build_limit_key(driver): limit for driver, limit in (csi_node.limits if csi_node else {}).items()}
        if not limits:
            return
        lookup = VolumeLookup(self._objects)
        volumes: set[CsiVolume] = set()
        try:
            for pod in nodes.pods[slot].values():
                if pod.pod.spec.volumes:
                    volumes |= lookup.find_volumes(pod, incoming=False, migrated=migrated)
        except UncountableError as e:
            self.uncountable[slot] = e.verdict
        attached = volumes | set(self._attached_volumes(nodes.names[slot], lookup))
        for key, limit in limits.items():
            self._column(self._limits, key, _NO_LIMIT)[slot] = limit
        for driver, count in Counter(volume.driver for volume in attached).items():
            self._column(self._attached, driver, 0)[slot] = count
        self._volumes[slot], self._dependencies[slot] = volumes, lookup.dependencies
        for volume in volumes:
            self._holders.setdefault(volume, set()).add(slot)
        for dependency in lookup.dependencies:
            self._dependents.setdefault(dependency, set()).add(slot)

    def _read_allocatable(self, nodes: NodeColumns, slot: int) -> dict[str, int]:
        """Return the volume limits in the node's status.allocatable, by resource name."""
        node = nodes.nodes[slot]
        allocatable = (node.status.allocatable if node else None) or {}
        return {
            name: quantity.scaled_value(q, quantity.WHOLE)
            for name, q in allocatable.items()
            if name.startswith(_LIMIT_PREFIX)
        }

    def _attached_volumes(self, node: str, lookup: VolumeLookup) -> Iterator[CsiVolume]:
        for attachment in self._attachments.get(node):
            lookup.dependencies.add(ObjectDependency(VolumeAttachment, "", attachment.metadata.name))
            name = attachment.spec.source.persistent_volume_name
            volume = lookup.get_volume(name) if name is not None and attachment.spec.attacher else None
            if volume is not None and volume.spec.csi is not None:
                yield CsiVolume(attachment.spec.attacher, volume.spec.csi.volume_handle)

    def _forget(self, slot: int) -> None:
        self.uncountable.pop(slot, None)
        self._known[slot] = self._without_portworx[slot] = False
        for slots in self._drivers.values():
            slots.discard(slot)
        for column in self._limits.values():
            column[slot] = _NO_LIMIT
        for column in self._attached.values():
            column[slot] = 0
        for volume in self._volumes.pop(slot, ()):
            _drop(self._holders, volume, slot)
        for dependency in self._dependencies.pop(slot, ()):
            _drop(self._dependents, dependency, slot)

    def _column(self, columns: dict[str, Amounts], driver: str, default: int) -> Amounts:
        if driver not in columns:
            columns[driver] = np.full(len(self._known), default, np.int64)
        return columns[driver]

    def _grow(self, slots: int) -> None:
        more = (0, slots - len(self._known))
        self._known = np.pad(self._known, more)
        self._without_portworx = np.pad(self._without_portworx, more)
        self._limits = {d: np.pad(c, more, constant_values=_NO_LIMIT) for d, c in self._limits.items()}
        self._attached = {d: np.pad(c, more) for d, c in self._attached.items()}


def _build_limit_key(driver: str) -> str:
    """Return the name of the resource that stands for a CSI driver's limit in a node's allocatable."""
    if len(_LIMIT_PREFIX) + len(driver) < _MAX_KEY:
        return _LIMIT_PREFIX + driver
    return f"{_LIMIT_PREFIX}{driver[:23]}{hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()[:16]}"


def _drop(slots_of: dict[K, set[int]], key: K, slot: int) -> None:
    slots_of[key].discard(slot)
    if not slots_of[key]:
        del slots_of[key]
