"""One replica schedules, the other waits; `test_reliability` covers other ends of replicas."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Cluster, Herodotus, attempts, node, placements, pod
from tests.processes import eventually

PODS = 200
PODS_LEFT = 20  # whose records a killed leader has not delivered


def check_all_decisions_are_stored(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """Check that every bound pod has a stored decision for its node, and every attempt is stored once."""

    def complete() -> bool:
        stored = placements(herodotus.decisions(namespace))
        return all(
            p["spec"]["nodeName"] in [d["status"]["node"] for d in stored.get(p["metadata"]["uid"], [])]
            for p in cluster.bound(namespace).values()
        )

    eventually(lambda: len(cluster.bound(namespace)) == PODS, "every pod to be bound", 120)
    eventually(complete, "a stored decision for every bound pod", 60)
    decisions = herodotus.decisions(namespace)
    assert set(attempts(decisions).values()) == {1}
    assert [i["missing"] for i in herodotus.incarnations()] == [0] * len(herodotus.incarnations())
    assert [i["explainedByGaps"] for i in herodotus.incarnations()] == [0] * len(herodotus.incarnations())


def test_only_the_leader_schedules(cluster: Cluster, namespace: str, herodotus: Herodotus) -> None:
    """A second replica waits for the Lease and takes over when the leader stops; no pod is decided twice at once."""
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
    check_all_decisions_are_stored(cluster, namespace, herodotus)


def test_a_standby_delivers_what_a_killed_leader_left_in_its_spool(
    cluster: Cluster, namespace: str, herodotus: Herodotus, tmp_path: Path
) -> None:
    """A container that is killed starts again as a standby, and may not lead for weeks."""
    herodotus.add_nodes(node("n"))
    herodotus.endpoint.kill_all()
    cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", [pod(f"p{i}", cpu="10m") for i in range(PODS_LEFT)])
    eventually(lambda: len(cluster.bound(namespace)) == PODS_LEFT, "every pod to be bound")
    herodotus.scheduler.kill_all()
    leader = herodotus.start_scheduler("--spool", str(tmp_path / "another"), name="leader")
    leader.wait_for(r'"Scheduling" profiles')
    standby = herodotus.start_scheduler(name="standby")  # on the spool of the killed one
    herodotus.start_endpoint()
    eventually(lambda: len(herodotus.decisions(namespace)) == PODS_LEFT, "the records of the killed leader")
    assert '"Scheduling" profiles' not in standby.output()
    assert leader.running
