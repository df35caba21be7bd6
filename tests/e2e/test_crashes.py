"""Whatever is killed, no decision of a bound pod is lost, and none is stored twice."""

from __future__ import annotations

import random
import time

import pytest

from tests.e2e.cluster import Cluster, Herodotus, attempts, node, placements, pod
from tests.processes import eventually

pytestmark = pytest.mark.timeout(240)

PODS = 200


def all_accounted_for(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """Every bound pod has a stored decision for its node, and every stored attempt is there once."""

    def complete() -> bool:
        stored = placements(herodotus.decisions(namespace))
        return all(
            p["spec"]["nodeName"] in [d["node"] for d in stored.get(p["metadata"]["uid"], [])]
            for p in cluster.bound(namespace).values()
        )

    eventually(lambda: len(cluster.bound(namespace)) == PODS, "every pod to be bound", 120)
    eventually(complete, "a stored decision for every bound pod", 60)
    decisions = herodotus.decisions(namespace)
    assert set(attempts(decisions).values()) == {1}
    assert [i["missing"] for i in herodotus.incarnations()] == [0] * len(herodotus.incarnations())
    assert [i["explainedByGaps"] for i in herodotus.incarnations()] == [0] * len(herodotus.incarnations())


def test_the_endpoint_is_killed(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """Scheduling goes on without it; the spool delivers once it is back, each record exactly once."""
    cluster.create_all("/api/v1/nodes", [node(f"n{i}") for i in range(10)])
    cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"a{i}") for i in range(PODS // 2)])
    eventually(lambda: len(herodotus.decisions(namespace)) > 10, "the first decisions")
    herodotus.endpoint.kill()
    cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"b{i}") for i in range(PODS // 2)])
    eventually(lambda: len(cluster.bound(namespace)) == PODS, "every pod to be bound without the endpoint", 120)
    herodotus.start_endpoint()
    all_accounted_for(cluster, namespace, herodotus)
    placed = placements(herodotus.decisions(namespace))
    assert {len(d) for d in placed.values()} == {1}


def test_the_scheduler_is_killed(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """SIGKILL at random moments under load: what was bound has its decision stored."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    cluster.create_all("/api/v1/nodes", [node(f"n{i}") for i in range(10)])
    for batch in range(4):
        herodotus.scheduler.wait_for(r'"Scheduling" profiles')
        cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"p{batch}-{i}") for i in range(PODS // 4)])
        time.sleep(moments.uniform(0, 0.4))
        herodotus.scheduler.kill()
        herodotus.scheduler.log.rename(herodotus.scheduler.log.with_suffix(f".{batch}"))
        herodotus.start_scheduler()
    all_accounted_for(cluster, namespace, herodotus)


def test_the_shipper_is_killed(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """It is started again, and goes on where its deliveries were acknowledged."""
    import subprocess

    cluster.create_all("/api/v1/nodes", [node(f"n{i}") for i in range(10)])
    herodotus.scheduler.wait_for(r'"Scheduling" profiles')
    for batch in range(2):
        children = subprocess.run(
            ["ps", "--ppid", str(herodotus.scheduler.pid), "-o", "pid=,args="],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        shippers = [line.split()[0] for line in children.splitlines() if " ship " in line]
        assert shippers
        cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"s{batch}-{i}") for i in range(PODS // 2)])
        subprocess.run(["kill", "-9", *shippers], check=True)
        time.sleep(1.0)
    all_accounted_for(cluster, namespace, herodotus)


def test_only_the_leader_schedules(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """A second replica waits for the Lease; when the leader stops, it takes over; no pod is decided twice at once."""
    first = herodotus.scheduler
    first.wait_for(r'"Scheduling" profiles')
    first.log.rename(first.log.with_name("first.log"))
    second = herodotus.start_scheduler()
    second.wait_for("Attempting to acquire leader lease")
    cluster.create_all("/api/v1/nodes", [node(f"n{i}") for i in range(10)])
    cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"l{i}") for i in range(PODS // 2)])
    eventually(lambda: len(cluster.bound(namespace)) == PODS // 2, "the leader to bind them", 60)
    assert "Attempting to schedule" not in second.output()
    assert first.stop() == 0
    second.wait_for(r'"Scheduling" profiles')
    cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"m{i}") for i in range(PODS // 2)])
    all_accounted_for(cluster, namespace, herodotus)
