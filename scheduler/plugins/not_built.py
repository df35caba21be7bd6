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
from scheduler.objects.selectors import label_selector_matches
from scheduler.objects.types import PodAffinity, PodAffinityTerm

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


def uses_spread(pod: PodInfo, nodes: NodeColumns) -> bool:
    """Topology spread constraints of its own."""
    return bool(pod.pod.spec.topology_spread_constraints)


def uses_pod_affinity(pod: PodInfo, nodes: NodeColumns) -> bool:
    """Pod affinity or anti-affinity of its own, or a running pod's required anti-affinity against it."""
    affinity = pod.pod.spec.affinity
    if affinity and (_terms(affinity.pod_affinity) or _terms(affinity.pod_anti_affinity)):
        return True
    return any(_keeps_away(other, pod) for _, other in nodes.keeping_others_away.values())


def _terms(affinity: PodAffinity | None) -> bool:
    return affinity is not None and bool(affinity.required or affinity.preferred)


def _keeps_away(other: PodInfo, pod: PodInfo) -> bool:
    affinity = other.pod.spec.affinity
    anti = affinity.pod_anti_affinity if affinity else None
    return any(_selects(term, other, pod) for term in (anti.required or () if anti else ()))


def _selects(term: PodAffinityTerm, owner: PodInfo, pod: PodInfo) -> bool:
    """Whether a term of `owner` may mean the pod; a namespace selector is taken to select its namespace."""
    named = term.namespaces or ([owner.namespace] if term.namespace_selector is None else [])
    in_namespace = pod.namespace in named or term.namespace_selector is not None
    return in_namespace and label_selector_matches(term.label_selector, pod.labels)
