"""TopologyPlacementGenerator: the domains of a pod group's topology constraint, in each of which the group is tried.

Source: pkg/scheduler/framework/plugins/topologyaware v1.36. Differs from it in that domains are in the order of their
names; upstream's order is random.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herodotus_record.model import Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.placement import GroupPlacement
from scheduler.engine.framework.plugin import BasePlugin
from scheduler.engine.framework.verdicts import error
from scheduler.engine.objects.pod import PodGroupKey
from scheduler.engine.objects.pod_groups import find_pod_group


class _DomainError(Exception):
    """The error of a group whose pods on nodes are not in one domain."""


class TopologyPlacementGenerator(BasePlugin):
    """The plugin that generates a placement for each value of the node label that a group's constraint names."""

    name = "TopologyPlacementGenerator"

    def generate_placements(
        self, group: PodGroupKey, parent: GroupPlacement, nodes: NodeColumns
    ) -> Sequence[GroupPlacement] | Verdict:
        """Return one placement for each topology domain of the nodes in `parent`, sorted by domain.

        If pods of the group are bound or assumed, only their domain is returned; without a topology constraint, only
        `parent`. Returns an error if the PodGroup does not exist, or if its pods are not in one domain.
        """
        pod_group = find_pod_group(self.handle.objects, group)
        if pod_group is None:
            return error(f'podgroup.scheduling.k8s.io "{group.name}" not found')
        key = pod_group.topology_key
        if key is None:
            return (parent,)
        try:
            required = self._find_required_domain(group, key, nodes)
        except _DomainError as e:
            return error(f"cannot determine domain for already scheduled pods: {e}")
        slots: dict[str, list[int]] = {}
        for slot in np.flatnonzero(parent.mask & nodes.live).tolist():
            domain = _find_domain(nodes, slot, key)
            if domain is not None and required in (None, domain):
                slots.setdefault(domain, []).append(slot)
        placements = []
        for domain in sorted(slots):
            mask = np.zeros(nodes.slots, np.bool_)
            mask[slots[domain]] = True
            placements.append(GroupPlacement(domain, mask))
        return placements

    def _find_required_domain(self, group: PodGroupKey, key: str, nodes: NodeColumns) -> str | None:
        """Return the domain of the group's bound or assumed pods, or None if the group has no such pods.

        Raises _DomainError if these pods are in several domains, or one is on a node without the label.
        """
        domain = None
        for pod, node in self.handle.pod_groups.list_scheduled(group):
            slot = nodes.index.get(node)
            if slot is None or not nodes.live[slot]:
                raise _DomainError(f'getting node for pod {pod.full_name}: nodeinfo not found for node name "{node}"')
            value = _find_domain(nodes, slot, key)
            if value is None:
                raise _DomainError(f"no topology domain found for pod {pod.full_name}")
            if domain is not None and domain != value:
                raise _DomainError(f"more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain


def _find_domain(nodes: NodeColumns, slot: int, key: str) -> str | None:
    """Return the value of the label `key` of the node in `slot`, or None if it has none."""
    node = nodes.nodes[slot]
    return None if node is None else (node.metadata.labels or {}).get(key)
