"""Find the node groups of a cluster, from its nodes, Cluster API, Karpenter and a user's file, without any cloud API.

Owns: to which group a node belongs, and which source supplies what of a group. Does not own: each source
(`cluster_api`, `karpenter`), shapes (`shapes`).

A node belongs to the group of the first of these that names one: a label key of the question, the selector of a group
in the file, its NodePool, the owner of its machine, a well-known label.

Invariant: group names are unique. Where two sources use one name, the later group's name has its source as a prefix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from herodotus_answers.cluster_questions import NodeGroupShape
from herodotus_record.units import natural_sort_key
from scheduler.engine.columns import NodeColumns
from scheduler.engine.nodegroups.cluster_api import MachineGroups, read_machine_owner
from scheduler.engine.nodegroups.karpenter import find_node_pools
from scheduler.engine.nodegroups.shapes import (
    FILE,
    ZONE,
    FoundGroup,
    NodeShape,
    find_shapes,
    parse_amounts,
    parse_taint,
)
from scheduler.engine.objects.autoscaling import NODE_POOL_LABEL
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.types import Node

# Labels with which cloud providers and installers mark the nodes of a pool; the first that a node has names its group.
# Talos and kubeadm set no label of their own: `label_keys` of a question names theirs.
_POOL_LABELS: Final = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",  # of AKS before 1.24
    "kops.k8s.io/instancegroup",
    "doks.digitalocean.com/node-pool",
    "k8s.scaleway.com/pool-name",
    "lke.linode.com/pool-id",
)


class NodeGroupError(ValueError):
    """A shape of the question is invalid. The message names the group and the field."""


@dataclass
class FoundGroups:
    """The node groups by name, the number of nodes without one, and sentences about what could not be used.

    `group_of` has the name of each node's group; nodes without one are absent.
    """

    groups: list[FoundGroup] = field(default_factory=list)
    group_of: dict[str, str] = field(default_factory=dict)
    ungrouped: int = 0
    notes: list[str] = field(default_factory=list)


def find_groups(
    nodes: NodeColumns, objects: ClusterObjects, label_keys: Sequence[str] = (), shapes: Sequence[NodeGroupShape] = ()
) -> FoundGroups:
    """Return the node groups of a cluster. Raises NodeGroupError for an invalid shape.

    `label_keys` are labels whose values name groups, and `shapes` the descriptions of groups in the user's file.
    """
    discovery = _Discovery(objects, label_keys, shapes)
    for name, slot in nodes.index.items():
        node = nodes.nodes[slot]
        if node is not None:
            discovery.add_node(node, name, slot)
    return discovery.finish(nodes)


class _Discovery:
    """The groups while the nodes are assigned to them."""

    def __init__(self, objects: ClusterObjects, label_keys: Sequence[str], shapes: Sequence[NodeGroupShape]) -> None:
        self._keys, self._shapes = tuple(label_keys), {shape.name: shape for shape in shapes}
        self._selectors = [shape for shape in shapes if shape.selector]
        self._pools = find_node_pools(objects)
        self._machines = MachineGroups(objects)
        self._by_label: dict[tuple[str, str], FoundGroup] = {}
        self._from_file: dict[str, FoundGroup] = {}
        self._slots: dict[int, list[int]] = defaultdict(list)  # by id of the group
        self._ungrouped = 0

    def add_node(self, node: Node, name: str, slot: int) -> None:
        group = self._find(node)
        if group is None:
            self._ungrouped += 1
            return
        group.nodes.append(name)
        self._slots[id(group)].append(slot)

    def _find(self, node: Node) -> FoundGroup | None:
        labels = node.metadata.labels or {}
        label = _find_label(labels, self._keys)
        if label is not None:
            return self._labelled(*label)
        for shape in self._selectors:
            if all(labels.get(key) == value for key, value in shape.selector.items()):
                return self._from_file.setdefault(shape.name, FoundGroup(shape.name, "file"))
        pool = labels.get(NODE_POOL_LABEL)
        if pool:
            return self._pools.get(pool) or self._labelled(NODE_POOL_LABEL, pool)
        owner = read_machine_owner(node)
        group = self._machines.find_group(*owner) if owner else None
        if group is not None:
            return group
        label = _find_label(labels, _POOL_LABELS)
        return self._labelled(*label) if label else None

    def _labelled(self, key: str, value: str) -> FoundGroup:
        return self._by_label.setdefault((key, value), FoundGroup(value, f"label {key}"))

    def finish(self, nodes: NodeColumns) -> FoundGroups:
        """Return the groups, after setting their shapes from their nodes and adding what the user's file says."""
        present = [*self._pools.values(), *self._machines.groups, *self._by_label.values(), *self._from_file.values()]
        notes, taken = list(self._machines.problems), set[str]()
        for group in present:
            slots = self._slots[id(group)]
            if slots:
                seen = find_shapes(nodes, slots, group.ignored_taints)
                group.shapes = _merge_shapes(seen, group)
            if group.name in taken:
                group.name = f"{group.source}/{group.name}"
            taken.add(group.name)
        groups = {group.name: group for group in present}
        for shape in self._shapes.values():
            _apply_file(shape, groups.setdefault(shape.name, FoundGroup(shape.name, "file")))
        listed = sorted(groups.values(), key=lambda group: natural_sort_key(group.name))
        group_of = {node: group.name for group in listed for node in group.nodes}
        return FoundGroups(listed, group_of, self._ungrouped, notes)


def _merge_shapes(seen: list[NodeShape], group: FoundGroup) -> list[NodeShape]:
    """Return the shapes `seen` on a group's nodes, and those of its object for zones and types that no node has.

    A shape from annotations has no instance type, so it counts only for zones in which the group has no node.
    """
    zones, kinds = {shape.zone for shape in seen}, {(shape.zone, shape.instance_type) for shape in seen}
    others = [
        shape
        for shape in group.shapes
        if (shape.instance_type and (shape.zone, shape.instance_type) not in kinds)
        or (not shape.instance_type and shape.zone and shape.zone not in zones and shape.allocatable is not None)
    ]
    return [*seen, *others]


def _apply_file(shape: NodeGroupShape, group: FoundGroup) -> None:
    """Set sizes and shapes of a group from the user's file where the cluster does not determine them.

    Raises NodeGroupError for an invalid taint or quantity.
    """
    group.min_size = shape.min_size if group.min_size is None else group.min_size
    group.max_size = shape.max_size if group.max_size is None else group.max_size
    try:
        taints = tuple(map(parse_taint, shape.taints))
        parse_amounts(shape.allocatable)
    except ValueError as e:
        raise NodeGroupError(f"node group {shape.name}: {e}") from e
    with_amounts = [observed for observed in group.shapes if observed.allocatable is not None]
    if not shape.allocatable and not (shape.labels or taints or shape.zones):
        return
    base = NodeShape(
        source=FILE,
        labels=dict(shape.labels),
        taints=taints,
        allocatable=dict(shape.allocatable) or None,
        volume_limits=shape.volume_limits or None,
    )
    zones = shape.zones or ([shape.labels[ZONE]] if ZONE in shape.labels else [""])
    there = {observed.zone for observed in with_amounts}
    added = [replace(base, zone=zone) for zone in zones if zone not in there and (zone or not with_amounts)]
    group.shapes = [*with_amounts, *added] or group.shapes


def _find_label(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, str] | None:
    """Return the first of `keys` for which a node has a non-empty label, and the label's value, or None."""
    for key in keys:
        value = labels.get(key)
        if value:
            return key, value
    return None
