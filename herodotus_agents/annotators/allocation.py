"""allocation: what pods request of each node and what is left, as `kubectl describe node` has it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from herodotus_agents.annotators.controller import Values
from herodotus_agents.kube import Kube
from herodotus_agents.objects import Node, Pod
from scheduler.formulas.measurements import ALLOCATED, FREE, REQUESTED

_log: Final = logging.getLogger(__name__)

PODS: Final = "/api/v1/pods"
ON_NODES: Final = {"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}


@dataclass(frozen=True)
class Allocation:
    """`gpu_resource`: what a GPU is called."""

    gpu_resource: str = "nvidia.com/gpu"
    group: str = "allocation"

    def round(self, nodes: Sequence[Node], kube: Kube) -> Values:
        """Ten annotations a node: every pod that is on it and has not ended counts."""
        objects, _ = kube.objects(PODS, ON_NODES)
        requested: dict[str, Counter[str]] = {node.name: Counter() for node in nodes}
        for raw in objects:
            pod = msgspec.json.decode(raw, type=Pod)
            on = requested.get(pod.spec.node_name)
            if on is not None:
                on["pods"] += 1
                on.update({r: pod.demand(self._name(r)) for r in ALLOCATED if r != "pods"})
        return {node.name: self._values(node, requested[node.name]) for node in nodes}

    def _values(self, node: Node, requested: Counter[str]) -> dict[str, str | None]:
        values: dict[str, str | None] = {}
        for resource in ALLOCATED:
            has, asked = node.allocatable(self._name(resource)), requested[resource]
            values[REQUESTED[resource]] = str(asked)
            values[FREE[resource]] = str(max(has - asked, 0))
            _log.debug("node=%s %s=[%d, %d, %d]", node.name, resource, has, asked, max(has - asked, 0))
        return values

    def _name(self, resource: str) -> str:
        return self.gpu_resource if resource == "gpu" else resource
