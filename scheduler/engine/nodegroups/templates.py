"""Template nodes: nodes that do not exist, added to the columns for as long as filters run on them.

Owns: the Node, its volume limits, devices and first pods. Does not own: shapes (`shapes`), verdicts (`verdicts`).

Invariant: after the block of `TemplateNodes.added`, the columns and objects hold what they held before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from scheduler.engine.columns import NodeColumns
from scheduler.engine.nodegroups.daemons import DaemonPods
from scheduler.engine.nodegroups.shapes import BETA_ZONE, HOSTNAME, ZONE, FoundGroup, NodeShape, parse_amounts
from scheduler.engine.objects import requests
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.lazy import lazy
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import ResourceSlice
from scheduler.engine.objects.storage import CSINode, CSINodeSpec, DriverAllocatable, NodeDriver, StorageMetadata
from scheduler.engine.objects.types import Amounts, Node, NodeMetadata, NodeSpec, NodeStatus, Object

# In place of amounts that are not known: every request fits, so only other filters reject.
_UNLIMITED: Final[Amounts] = {"cpu": "1000000", "memory": "1Ei", "ephemeral-storage": "1Ei", "pods": "100000"}


@dataclass(frozen=True)
class TemplateNode:
    """A node that a group would add: the Node, the objects that belong to it, and the pods with which it starts."""

    group: FoundGroup
    shape: NodeShape
    node: Node
    objects: tuple[Object, ...]
    pods: tuple[PodInfo, ...]

    @lazy
    def compact(self) -> TemplateNode:
        """The same node with fewer pods to add, for filters that do not read labels or affinity of other pods.

        Pods that use only resources are removed, and their requests subtracted from the allocatable amounts.
        """
        pods, left = list[PodInfo](), parse_amounts(self.node.status.allocatable)
        for pod in self.pods:
            spec = pod.pod.spec
            if pod.host_ports or spec.resource_claims or any(volume.is_storage for volume in spec.volumes or ()):
                pods.append(pod)
                continue
            for resource, amount in ((requests.PODS, 1), *pod.requests.items()):
                left[resource] = left.get(resource, 0) - amount
        allocatable: Amounts = {
            resource: f"{amount}m" if resource == requests.CPU else str(amount) for resource, amount in left.items()
        }
        status = msgspec.structs.replace(self.node.status, allocatable=allocatable)
        return replace(self, node=msgspec.structs.replace(self.node, status=status), pods=tuple(pods))

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def devices(self) -> int:
        """The number of devices in the node's ResourceSlices."""
        slices = (obj for obj in self.objects if isinstance(obj, ResourceSlice))
        return sum(len(each.spec.devices or ()) for each in slices)

    @property
    def volume_limits(self) -> dict[str, int]:
        """The number of volumes that a CSI driver can attach to the node, by driver."""
        return next((obj.limits for obj in self.objects if isinstance(obj, CSINode)), {})


class TemplateNodes:
    """Builds the template nodes of groups, and adds them to the columns of a cluster for a moment."""

    def __init__(self, nodes: NodeColumns, objects: ClusterObjects) -> None:
        """Prepare template nodes for a cluster, which no scheduler may use at the same time."""
        self.nodes, self.objects = nodes, objects
        self.daemons = DaemonPods(nodes, objects)
        self._slices: dict[str, list[ResourceSlice]] = {}
        for resource_slice in objects.all(ResourceSlice):
            if resource_slice.spec.node_name:
                self._slices.setdefault(resource_slice.spec.node_name, []).append(resource_slice)
        self._built = 0

    def build(self, group: FoundGroup, shape: NodeShape, pod: PodInfo | None = None) -> TemplateNode:
        """Return a new template node of the shape, with a new name.

        If the shape's amounts are not known, the node has enough of each usual resource and of what `pod` requests, and
        no pods.
        """
        self._built += 1
        name = f"{group.name}-new-{self._built}"
        while name in self.nodes.index:
            self._built += 1
            name = f"{group.name}-new-{self._built}"
        labels = {**shape.labels, HOSTNAME: name}
        if shape.zone:
            labels[ZONE] = shape.zone
            if BETA_ZONE in labels:
                labels[BETA_ZONE] = shape.zone
        allocatable = shape.allocatable
        if allocatable is None:
            allocatable = _UNLIMITED | {r: "1000000" for r in (pod.requests if pod else ()) if r not in _UNLIMITED}
        node = Node(
            metadata=NodeMetadata(name=name, uid=f"new/{name}", labels=labels),
            spec=NodeSpec(taints=list(shape.taints) or None),
            status=NodeStatus(allocatable=allocatable, declared_features=self._declared_features(shape.like)),
        )
        pods = self.daemons.list_pods(node, shape.like) if shape.allocatable is not None else []
        return TemplateNode(group, shape, node, tuple(self._list_objects(shape, name)), tuple(pods))

    @contextmanager
    def added(self, templates: Sequence[TemplateNode]) -> Iterator[list[int]]:
        """Add template nodes to the columns in this context, and return their slots."""
        try:
            yield [self.add(template) for template in templates]
        finally:
            for template in templates:
                self.remove(template)

    def add(self, template: TemplateNode) -> int:
        """Add a template node with its first pods to the columns, and return its slot."""
        slot = self.nodes.set_node(template.node)
        for obj in template.objects:
            self.objects.set(obj)
        for pod in template.pods:
            self.nodes.add_pod(pod, template.name)
        return slot

    def remove(self, template: TemplateNode) -> None:
        """Remove a template node and the pods with which it was added; no other pod may be on it."""
        for pod in template.pods:
            self.nodes.remove_pod(pod.uid, template.name)
        for obj in template.objects:
            self.objects.remove(obj)
        self.nodes.remove_node(template.name)

    def _declared_features(self, like: str) -> list[str] | None:
        slot = self.nodes.index.get(like)
        node = self.nodes.nodes[slot] if slot is not None else None
        return node.status.declared_features if node else None

    def _list_objects(self, shape: NodeShape, name: str) -> Iterator[Object]:
        """Yield the new node's CSINode and ResourceSlices, copied from the present node `shape.like`."""
        limits = self.objects.get(CSINode, shape.like) if shape.like else None
        if limits is not None:
            yield msgspec.structs.replace(limits, metadata=msgspec.structs.replace(limits.metadata, name=name))
        elif shape.volume_limits:
            drivers = [
                NodeDriver(name=driver, allocatable=DriverAllocatable(count=count))
                for driver, count in shape.volume_limits.items()
            ]
            yield CSINode(metadata=StorageMetadata(name=name), spec=CSINodeSpec(drivers=drivers))
        for number, resource_slice in enumerate(self._slices.get(shape.like, ()) if shape.like else ()):
            its_pool = resource_slice.spec.pool  # of the node alone, so the copy needs another name
            pool_name = name if its_pool.name == shape.like else f"{name}/{its_pool.name}"
            pool = msgspec.structs.replace(its_pool, name=pool_name)
            spec = msgspec.structs.replace(resource_slice.spec, node_name=name, pool=pool)
            metadata = msgspec.structs.replace(resource_slice.metadata, name=f"{name}-{number}", uid="")
            yield msgspec.structs.replace(resource_slice, metadata=metadata, spec=spec)
