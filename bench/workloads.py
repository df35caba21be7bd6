"""Workloads, named and shaped as kube-scheduler's scheduler_perf families (test/integration/scheduler_perf/templates).

Owns: nodes and pods as manifests. Does not own: how they are run (`algorithm`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

ZONES = 3
LABELS = {"color": "blue"}


@dataclass(frozen=True)
class Workload:
    """`pod(i)`: the i-th pod's spec beyond its container. `before`: pods that are there already, per node."""

    name: str
    pod: Callable[[int], Json]
    before_per_node: int = 0


def node(i: int) -> Json:
    """scheduler_perf's node-default.yaml: 4 cpu, 32Gi, 110 pods; with a zone."""
    return {
        "metadata": {
            "name": f"node-{i:05}",
            "uid": f"00000000-0000-4000-8000-{i:012}",
            "labels": {"kubernetes.io/hostname": f"node-{i:05}", "topology.kubernetes.io/zone": f"zone-{i % ZONES}"},
        },
        "status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}},
    }


def pod(name: str, spec: Json) -> Json:
    """scheduler_perf's pod-default.yaml: 100m cpu, 500Mi."""
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": "bench", "uid": name, "labels": LABELS}
    return {"metadata": metadata, "spec": {"schedulerName": "bench", "containers": [container], **spec}}


def _affinity(kind: str, required: bool, key: str) -> Json:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": LABELS}}
    if required:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    weighted = {"weight": 1, "podAffinityTerm": term}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


def _spread(when: str) -> Json:
    constraint = {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": when}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": LABELS}}]}


def _node_affinity() -> Json:
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-0", "zone-1"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

WORKLOADS: tuple[Workload, ...] = (
    Workload("SchedulingBasic", lambda i: {}),
    Workload("SchedulingNodeAffinity", lambda i: _node_affinity()),
    Workload("TopologySpreading", lambda i: _spread("DoNotSchedule"), before_per_node=1),
    Workload("PreferredTopologySpreading", lambda i: _spread("ScheduleAnyway"), before_per_node=1),
    Workload("SchedulingPodAffinity", lambda i: _affinity("podAffinity", True, ZONE), before_per_node=1),
    Workload("SchedulingPodAntiAffinity", lambda i: _affinity("podAntiAffinity", True, HOST)),
    Workload("SchedulingPreferredPodAffinity", lambda i: _affinity("podAffinity", False, HOST), before_per_node=1),
    Workload(
        "SchedulingPreferredPodAntiAffinity", lambda i: _affinity("podAntiAffinity", False, HOST), before_per_node=1
    ),
)
