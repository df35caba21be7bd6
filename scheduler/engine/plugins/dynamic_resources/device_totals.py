"""The number of devices behind an extended resource on each node, for the plugins that score resources.

Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go v1.36 (calculateDRAResourceTotals). As
upstream, devices of outdated slices count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns
from scheduler.engine.dra.pools import PreparedSlice, SlicedDevice, is_device_for, node_matches
from scheduler.engine.dra.requests import SelectorError
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import DeviceClass
from scheduler.engine.objects.selectors import InvalidSelectorError
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins.dynamic_resources.devices import ClusterDevices, match_selector

Amounts = NDArray[np.int64]


@dataclass(frozen=True)
class DeviceTotals:
    """State for scoring: the scored resources that the pod requests and that device classes back.

    Each plugin that scores resources has a subclass, because their resources may differ.
    """

    devices: ClusterDevices
    classes: dict[str, DeviceClass]

    @classmethod
    def write(cls, state: CycleState, devices: ClusterDevices, pod: PodInfo, resources: Iterable[str]) -> None:
        """Write the state if one of the scored resources is requested by the pod and backed by a class."""
        devices.update_classes()
        if not devices.backed:
            return
        backed = devices.backed
        classes = {name: backed[name] for name in resources if name in backed and pod.requests.get(name, 0)}
        if classes:
            devices.update()
            state.write(cls(devices, classes))

    def changed_slots(self, previous: Any, nodes: NodeColumns) -> NDArray[np.intp] | None:
        """Return None (any node may differ), because devices may have been allocated on any node."""
        return None

    def fill(
        self, names: Sequence[str], nodes: NodeColumns, allocatable: Amounts, requested: Amounts
    ) -> tuple[Amounts, Amounts]:
        """Return copies of both matrices with the node's devices where its allocatable of a resource is 0.

        There, `allocatable` gets the number of devices and `requested` that of allocated ones. The matrices have a row
        for each of the resources `names` and a column for each node slot.
        """
        allocatable, requested = allocatable.copy(), requested.copy()
        for row, name in enumerate(names):
            device_class = self.classes.get(name)
            if device_class is None:
                continue
            for slot in np.flatnonzero(nodes.live & (allocatable[row] == 0)).tolist():
                node = nodes.nodes[slot]
                assert node is not None
                total, used = self._count(node, device_class)
                if total:
                    allocatable[row, slot], requested[row, slot] = total, used
        return allocatable, requested

    def _count(self, node: Node, device_class: DeviceClass) -> tuple[int, int]:
        """Return how many devices of the class a node has, and how many of them are allocated.

        Both are 0 if a selector cannot be evaluated.
        """
        selectors = [s.cel.expression for s in device_class.spec.selectors or () if s.cel is not None]
        total = used = 0
        try:
            for each in self.devices.slices:
                for device in _devices_for(each, node):
                    if all(match_selector(expression, device) for expression in selectors):
                        total += 1
                        used += self.devices.allocated.is_allocated(device.id)
        except (SelectorError, InvalidSelectorError):
            return 0, 0
        return total, used


def _devices_for(each: PreparedSlice, node: Node) -> Iterator[SlicedDevice]:
    spec = each.object.spec
    if spec.per_device_node_selection:
        return (device for device in each.devices if is_device_for(device.device, node))
    names_other_node = bool(spec.node_name) and spec.node_name != node.metadata.name
    if not spec.all_nodes and spec.node_name != node.metadata.name and spec.node_selector is not None:
        is_for_node = node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    else:
        is_for_node = bool(spec.all_nodes) or not names_other_node
    return iter(each.devices if is_for_node else ())
