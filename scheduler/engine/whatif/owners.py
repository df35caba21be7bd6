"""The controllers of pods: which workload a pod belongs to, and what its controller does when a pod is gone."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod, PodStatus
from scheduler.engine.objects.workloads import ReplicaSet

_HASH_LABEL: Final = "pod-template-hash"  # of a Deployment's pods; their ReplicaSet's name ends with its value
NODE, DAEMON_SET, STATEFUL_SET = "Node", "DaemonSet", "StatefulSet"
DEPLOYMENT, REPLICA_SET = "Deployment", "ReplicaSet"


class Workload(NamedTuple):
    """The workload of a pod; for a pod of a Deployment's ReplicaSet the Deployment."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def find_workload(pod: Pod, objects: ClusterObjects) -> Workload | None:
    """Return the workload of a pod, or None for a pod without a controller.

    If the ReplicaSet is unknown, the name of its Deployment is derived from the pod's template hash.
    """
    owner = pod.metadata.controller
    if owner is None:
        return None
    if owner.kind != REPLICA_SET:
        return Workload(owner.kind, owner.name)
    replica_set = objects.get(ReplicaSet, owner.name, pod.metadata.namespace)
    above = replica_set.metadata.controller if replica_set else None
    template = (pod.metadata.labels or {}).get(_HASH_LABEL)
    if above is not None:
        return Workload(above.kind, above.name)
    if replica_set is None and template and owner.name.endswith(f"-{template}"):
        return Workload(DEPLOYMENT, owner.name.removesuffix(f"-{template}"))
    return Workload(REPLICA_SET, owner.name)


def is_replaced(pod: PodInfo) -> bool:
    """Return whether a controller makes a new pod after an eviction of this one."""
    return not pod.terminating and pod.pod.metadata.controller is not None


def build_replacement(pod: Pod, number: int) -> PodInfo:
    """Return the pod that the controller of a pod creates in its place.

    A StatefulSet's pod keeps its name; others get one with `number`, as the real one is random. The spec is the pod's,
    but without a node, and the status is empty.
    """
    owner = pod.metadata.controller
    name = pod.metadata.name
    if owner is not None and owner.kind != STATEFUL_SET:
        name = f"{owner.name}-new-{number}"
    metadata = msgspec.structs.replace(
        pod.metadata,
        name=name,
        uid=f"{pod.metadata.namespace}/{name}/{number}",
        resource_version="",
        creation_timestamp=None,
        deletion_timestamp=None,
    )
    spec = msgspec.structs.replace(pod.spec, node_name="")
    return PodInfo(msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus()))
