"""kube-scheduler's plugins that are not built yet: they refuse pods that need them, and leave the others alone.

A pod is never scheduled as if a feature were absent: PreFilter turns it away with a reason that names the feature.
"""

from __future__ import annotations

from collections.abc import Callable

from herodotus_record.model import Reason
from scheduler.columns import NodeColumns
from scheduler.framework.plugin import InTreePlugin
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import SKIP, PreFilterResult, Verdicts, unresolvable
from scheduler.objects.pod import PodInfo

Uses = Callable[[PodInfo, NodeColumns], bool]


def not_built(plugin: str, feature: str, uses: Uses) -> type[InTreePlugin]:
    """A plugin class of this name that refuses the pods for which `uses` holds."""
    refused = unresolvable(Reason("not-built", {"feature": feature, "plugin": plugin}))

    class NotBuilt(InTreePlugin):
        name = plugin

        def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
            return PreFilterResult(refused if uses(pod, nodes) else SKIP)

        def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
            return Verdicts()

    NotBuilt.__name__ = NotBuilt.__qualname__ = plugin
    return NotBuilt


def uses_disks(pod: PodInfo, nodes: NodeColumns) -> bool:
    """Volumes that exclude each other on a node."""
    volumes = pod.pod.spec.volumes or ()
    return any(v.gce_persistent_disk or v.aws_elastic_block_store or v.rbd or v.iscsi for v in volumes)


def uses_claims(pod: PodInfo, nodes: NodeColumns) -> bool:
    """Persistent volume claims, generic ephemeral volumes among them."""
    volumes = pod.pod.spec.volumes or ()
    return any(v.persistent_volume_claim or v.ephemeral is not None for v in volumes)


def uses_limited_volumes(pod: PodInfo, nodes: NodeColumns) -> bool:
    """In-tree volumes that a CSI driver has taken over and may limit."""
    volumes = pod.pod.spec.volumes or ()
    return any(v.azure_disk or v.cinder or v.vsphere_volume or v.portworx_volume for v in volumes)
