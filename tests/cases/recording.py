"""A simulated cluster whose pods Herodotus schedules, with its decisions service where the plugin looks for it.

The scheduler replaces kube-scheduler, so that it decides pods that name no scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from herodotus_sim.cluster import SimulatedCluster
from tests.e2e.cluster import Cluster, Herodotus
from tests.processes import eventually

Json = dict[str, Any]
NAMESPACE: Final = "herodotus"
SERVICE: Final = {"name": "herodotus-endpoint", "namespace": NAMESPACE}
PROFILE: Final = "default-scheduler"
GATES: Final = "GenericWorkload=true,GangScheduling=true"


@contextmanager
def record_decisions(simulated: SimulatedCluster, folder: Path) -> Iterator[None]:
    """Run the scheduler and the service, and wait until every pod that can be tried has a stored decision."""
    cluster = Cluster("simulated", simulated.url, {}, folder / "kubeconfig")
    gates = ("--feature-gates", GATES) if any(is_member(pod) for pod in cluster.items("/api/v1/pods")) else ()
    herodotus = Herodotus(cluster, folder, PROFILE, flags=("--replace-default-scheduler", *gates))
    try:
        publish(cluster, int(herodotus.endpoint_url.rpartition(":")[2]))
        pods = cluster.items("/api/v1/pods")
        waiting = [
            pod for pod in pods if can_be_tried(pod) and (not is_member(pod) or has_all_members(cluster, pod, pods))
        ]
        namespaces = {pod["metadata"]["namespace"] for pod in waiting}

        def are_decided() -> bool:
            decided = {d["spec"]["pod"]["uid"] for namespace in namespaces for d in herodotus.decisions(namespace)}
            return {pod["metadata"]["uid"] for pod in waiting} <= decided

        eventually(are_decided, "every waiting pod to be decided")
        yield
    finally:
        herodotus.stop()
        cluster.close()


def publish(cluster: Cluster, port: int) -> None:
    """Create the Service of the decisions service, and the Endpoints with the port at which it listens."""
    cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    ports = [{"name": "plain-http", "port": 8000}]
    cluster.create(f"/api/v1/namespaces/{NAMESPACE}/services", {"metadata": SERVICE, "spec": {"ports": ports}})
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "plain-http", "port": port}]}
    cluster.create(f"/api/v1/namespaces/{NAMESPACE}/endpoints", {"metadata": SERVICE, "subsets": [subset]})


def is_member(pod: Json) -> bool:
    """Return whether the pod belongs to a PodGroup."""
    return "schedulingGroup" in pod["spec"]


def has_all_members(cluster: Cluster, pod: Json, pods: list[Json]) -> bool:
    """Return whether the PodGroup of a pod exists and has as many pods as it needs before any of them is tried."""
    name, namespace = pod["spec"]["schedulingGroup"]["podGroupName"], pod["metadata"]["namespace"]
    groups = {
        (group["metadata"]["namespace"], group["metadata"]["name"]): group
        for group in cluster.items("/apis/scheduling.k8s.io/v1alpha2/podgroups")
    }
    if (namespace, name) not in groups:
        return False
    policy = groups[namespace, name]["spec"].get("schedulingPolicy") or {}
    members = [
        each
        for each in pods
        if each["metadata"]["namespace"] == namespace
        and (each["spec"].get("schedulingGroup") or {}).get("podGroupName") == name
    ]
    least: int = (policy.get("gang") or {}).get("minCount", 1)
    return len(members) >= least


def can_be_tried(pod: Json) -> bool:
    """Return whether the scheduler tries the pod for sure: it may hold back pods with claims, and members of groups."""
    spec = pod["spec"]
    is_mine = spec.get("schedulerName", PROFILE) == PROFILE and not spec.get("nodeName")
    may_be_held = spec.get("schedulingGates") or spec.get("resourceClaims")
    is_here = pod["status"].get("phase") == "Pending" and not pod["metadata"].get("deletionTimestamp")
    return is_mine and is_here and not may_be_held
