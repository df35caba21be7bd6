"""A machine with a scheduler and its spool is lost: records that were not delivered are reported as missing."""

from __future__ import annotations

from scheduler.recorder.recorder import HIGH_WATER_ANNOTATION
from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, node, pod
from tests.processes import eventually

PODS = 20
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{SCHEDULER}"


def test_the_next_leader_reports_the_missing_records(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    herodotus.add_nodes(node("n"))
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("delivered"))
    eventually(
        lambda: [d["status"]["state"] for d in herodotus.decisions(namespace)] == ["Bound"], "the first decision's end"
    )
    (first,) = herodotus.incarnations()
    name, reached = first["metadata"]["name"], 2 * (PODS + 1)  # a decision and its outcome each
    herodotus.endpoint.kill_all()
    cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"p{i}", cpu="10m") for i in range(PODS)])
    eventually(lambda: len(cluster.bound(namespace)) == PODS + 1, "every pod to be bound")
    eventually(
        lambda: cluster.get(LEASE)["metadata"]["annotations"].get(HIGH_WATER_ANNOTATION) == f"{name} {reached}",
        "the Lease to say how far the leader came",
    )
    herodotus.scheduler.kill_all()
    # in one step: a killed shipper may be in the middle of its last write
    herodotus.spool.rename(herodotus.spool.with_name("lost"))

    herodotus.start_endpoint()
    herodotus.start_scheduler()

    def told() -> bool:
        known = {i["metadata"]["name"]: i for i in herodotus.incarnations()}
        return len(known) == 2 and known[name]["missing"] > 0

    eventually(told, "the successor's word")
    known = {i["metadata"]["name"]: i for i in herodotus.incarnations()}
    assert known[name]["missing"] == 2 * PODS
    assert known[name]["highestSequence"] == reached
