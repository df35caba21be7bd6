"""A machine is lost, and with it a scheduler and its spool: what was recorded and not delivered is known to miss."""

from __future__ import annotations

import time

import pytest

from tests.e2e.cluster import Cluster, Herodotus, node, pod
from tests.processes import eventually

pytestmark = pytest.mark.timeout(120)

PODS = 20


def test_the_next_leader_tells_of_the_missing_tail(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    cluster.create("/api/v1/nodes", node("n"))
    cluster.create(f"/api/v1/namespaces/{namespace}/pods", pod("delivered"))
    eventually(lambda: len(herodotus.decisions(namespace)) == 1, "the first decision")
    (first,) = herodotus.incarnations()
    herodotus.endpoint.kill()
    cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"p{i}", cpu="10m") for i in range(PODS)])
    eventually(lambda: len(cluster.bound(namespace)) == PODS + 1, "every pod to be bound")
    time.sleep(1.0)  # three renewals of the Lease
    herodotus.scheduler.kill_all()
    # in one step: a killed shipper may be in the middle of its last write
    herodotus.spool.rename(herodotus.spool.with_name("lost"))

    herodotus.start_endpoint()
    herodotus.start_scheduler()
    name = first["metadata"]["name"]

    def told() -> bool:
        known = {i["metadata"]["name"]: i for i in herodotus.incarnations()}
        return len(known) == 2 and known[name]["missing"] > 0

    eventually(told, "the successor's word", 30)
    known = {i["metadata"]["name"]: i for i in herodotus.incarnations()}
    # a decision and its outcome each
    assert known[name]["missing"] == 2 * PODS
    assert known[name]["highestSequence"] == 2 * (PODS + 1)
