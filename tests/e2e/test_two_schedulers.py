"""Two schedulers of one name without leader election bind each pod once, and one decision claims it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from scheduler.live.unknown_bindings import DECISION_ANNOTATION
from tests.e2e.cluster import SCHEDULER, Cluster, Herodotus, Json, node, placements, pod
from tests.processes import eventually

PODS = 40
ROUNDS = 5  # until the schedulers have competed: on a busy machine one may bind every pod before the other runs
COMPETED = PODS // 10


def test_one_decision_claims_each_pod(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """Both choose a node for most pods, often the same one; the pod's annotation names the decision that bound it."""
    herodotus = Herodotus(cluster, tmp_path, leaderElection={"leaderElect": False, "resourceName": SCHEDULER})
    first = herodotus.scheduler
    try:
        second = herodotus.start_scheduler("--spool", str(tmp_path / "second"), name="second")

        def placed() -> dict[str, list[Json]]:
            return placements(herodotus.decisions(namespace))

        for number in range(1, ROUNDS + 1):
            pods = [pod(f"p{number}-{i}", nodeSelector={"round": str(number)}) for i in range(PODS)]
            cluster.create_all(f"/api/v1/namespaces/{namespace}/pods", pods)
            for process in (first, second):

                def has_tried(log: Path = process.log, attempts: int = number * PODS) -> bool:
                    return log.read_text().count("Unable to schedule") >= attempts

                eventually(has_tried, f"{process.name} to try them")
                os.kill(process.pid, signal.SIGSTOP)
            cluster.create("/api/v1/nodes", node(f"n{number}", cpu="32", labels={"round": str(number)}))
            for process in (first, second):  # both try every pod again, at the same time
                os.kill(process.pid, signal.SIGCONT)

            def are_bound(pods: int = number * PODS) -> bool:
                return len(cluster.bound(namespace)) == pods

            eventually(are_bound, "every pod to be bound", 60)

            def settled(pods: int = number * PODS) -> bool:
                made = placed()
                return len(made) == pods and all(
                    decision["status"]["state"] in ("Bound", "Failed") for each in made.values() for decision in each
                )

            eventually(settled, "the result of every decision", 60)
            if sum(len(made) > 1 for made in placed().values()) >= COMPETED:
                break
        chosen = placed()
        claimed = {
            uid: [(d["metadata"]["name"], d["status"]["node"]) for d in made if d["status"]["state"] == "Bound"]
            for uid, made in chosen.items()
        }
        assert claimed == {
            p["metadata"]["uid"]: [(p["metadata"]["annotations"][DECISION_ANNOTATION], p["spec"]["nodeName"])]
            for p in cluster.bound(namespace).values()
        }
        assert sum(len(made) > 1 for made in chosen.values()) >= COMPETED, "the schedulers did not compete"
    finally:
        herodotus.stop()
