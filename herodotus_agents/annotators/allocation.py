"""The annotator `allocation`: requested and free amounts of each node, as in `kubectl describe node`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from herodotus_agents.annotators.controller import Values
from herodotus_agents.objects import NodeView, read_allocatable
from herodotus_kube.http import ApiServer
from scheduler.engine.formulas.measurements import ALLOCATED, FREE, REQUESTED
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod

_log: Final = logging.getLogger(__name__)

PODS: Final = "/api/v1/pods"
_UNITS: Final = {"cpu": "m"}  # all other resources are whole numbers or bytes
ON_NODES: Final = {"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}


@dataclass(frozen=True)
class AllocationAnnotator:
    """Annotates nodes with the requested and free amounts of cpu, memory, pods, GPUs and ephemeral storage.

    `gpu_resource` is the resource name of GPUs.
    """

    gpu_resource: str = "nvidia.com/gpu"
    group: str = "allocation"

    def measure(self, nodes: Sequence[NodeView], kube: ApiServer) -> Values:
        """Return, by node name, the annotations with the requested and the free amount of five resources.

        Every pod on the node that has not ended counts as requested.
        """
        requested: dict[str, Counter[str]] = {node.name: Counter() for node in nodes}
        for pod in map(PodInfo, kube.list_objects(PODS, Pod, ON_NODES)):
            totals = requested.get(pod.pod.spec.node_name)
            if totals is not None:
                totals["pods"] += 1
                totals.update({r: pod.requests.get(self._name(r), 0) for r in ALLOCATED if r != "pods"})
        values: dict[str, dict[str, str | None]] = {node.name: {} for node in nodes}
        for resource in ALLOCATED:
            for node, allocatable in zip(nodes, read_allocatable(nodes, self._name(resource)), strict=True):
                used = requested[node.name][resource]
                free = max(allocatable - used, 0)
                values[node.name] |= {REQUESTED[resource]: str(used), FREE[resource]: str(free)}
                _log.debug("node=%s %s=[%d, %d, %d]", node.name, resource, allocatable, used, free)
        return values

    def format_table(self, nodes: Sequence[NodeView]) -> list[str]:
        """Return the lines of a text table of requested and free amounts by node and resource, from the annotations."""
        rows = [("NODE", "RESOURCE", "REQUESTED", "FREE")]
        for node in sorted(nodes, key=lambda n: n.name):
            for resource in ALLOCATED:
                requested, free = (node.annotations.get(keys[resource], "") for keys in (REQUESTED, FREE))
                if requested or free:
                    unit = _UNITS.get(resource, "")
                    rows.append((node.name, self._name(resource), f"{requested}{unit}", f"{free}{unit}"))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return [
            f"{name:{widths[0]}}  {resource:{widths[1]}}  {requested:>{widths[2]}}  {free:>{widths[3]}}"
            for name, resource, requested, free in rows
        ]

    def _name(self, resource: str) -> str:
        return self.gpu_resource if resource == "gpu" else resource
