"""The ReplicaSet controller: keeps `spec.replicas` pods of a template.

Does not own: rollouts (`deployment`). Invariant: one reconcile creates or deletes at most `_BURST` pods.
"""

from __future__ import annotations

from collections import Counter

from herodotus_sim.controllers.access import (
    ControllerClient,
    find_condition,
    is_active,
    is_ready,
    parse_timestamp,
    with_condition,
)
from herodotus_sim.errors import StatusError
from herodotus_sim.kinds import POD
from herodotus_sim.selectors import label_predicate, selector_text
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object
from herodotus_sim.workloads import REPLICA_SET

# kube-controller-manager's burstReplicas.
_BURST = 500
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSetController:
    """The controller that creates and deletes the pods of ReplicaSets and writes their counts to the status."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access

    def reconcile(self, replica_set: StoredObject) -> float:
        """Create or delete pods of a ReplicaSet until it has `spec.replicas`, and update its status.

        Returns the seconds until the next check, or 0 if none is needed.
        """
        access, spec = self._access, replica_set.obj["spec"]
        pods = [p for p in access.claim(REPLICA_SET, replica_set, POD) if is_active(p.obj)]
        missing = spec["replicas"] - len(pods)
        new = range(min(missing, _BURST))
        try:
            pods.extend(access.create_pod(REPLICA_SET, replica_set, spec["template"]) for _ in new)
        except StatusError as error:
            self._write_status(replica_set, pods, error)
            raise
        if missing < 0:
            running = Counter(p.obj["spec"].get("nodeName") for p in pods)
            surplus = sorted(pods, key=lambda p: _rank(p.obj, running))[: min(-missing, _BURST)]
            for pod in surplus:
                access.delete_pod(REPLICA_SET, replica_set, pod)
            gone = {pod.key for pod in surplus}
            pods = [p for p in pods if p.key not in gone]
        again_s = self._write_status(replica_set, pods)
        return again_s or (0.01 if abs(missing) > _BURST else 0.0)

    def _write_status(
        self, replica_set: StoredObject, pods: list[StoredObject], error: StatusError | None = None
    ) -> float:
        """Write the counts of pods and why one was refused (`error`); return the seconds until the next check."""
        spec, before = replica_set.obj["spec"], replica_set.obj.get("status") or {}
        states = [self._access.availability(p.obj, spec.get("minReadySeconds") or 0) for p in pods]
        labels = ((spec["template"].get("metadata") or {}).get("labels")) or {}
        fully = label_predicate(selector_text({"matchLabels": labels}))
        counts = {
            "replicas": len(pods),
            "fullyLabeledReplicas": sum(fully(p.obj) for p in pods),
            "readyReplicas": sum(is_ready(p.obj) for p in pods),
            "availableReplicas": sum(available for available, _ in states),
        }
        status: Object = {k: v for k, v in counts.items() if v or k == "replicas"}
        status["observedGeneration"] = replica_set.obj["metadata"]["generation"]
        if error is not None:
            # As upstream, a failure for the same reason keeps the first message: each names another pod.
            known = find_condition(replica_set.obj, "ReplicaFailure")
            new = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": error.message}
            failure = known or new
            status["conditions"] = with_condition(before.get("conditions") or [], failure, self._access.clock())
        self._access.update_status(REPLICA_SET, replica_set, status)
        return min((left for _, left in states if left), default=0.0)


def _rank(pod: Object, per_node: Counter[str | None]) -> tuple[object, ...]:
    """Return a pod's sort key for scaling down, in the order of client-go's ActivePodsWithRanks.

    Pods with smaller keys are deleted first. `per_node` counts the ReplicaSet's pods by node name.
    """
    node = pod["spec"].get("nodeName")
    together = per_node[node] if node and is_ready(pod) else 0
    cost = (pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    restarts = max((c.get("restartCount", 0) for c in pod["status"].get("containerStatuses") or []), default=0)
    ready_since = (
        parse_timestamp((find_condition(pod, "Ready") or {}).get("lastTransitionTime")) if is_ready(pod) else 0.0
    )
    return (
        bool(node),
        _PHASES.get(pod["status"].get("phase", "Pending"), 0),
        is_ready(pod),
        int(cost) if cost.lstrip("-").isdigit() else 0,
        -together,
        -ready_since,
        -restarts,
        -parse_timestamp(pod["metadata"]["creationTimestamp"]),
        -int(pod["metadata"]["resourceVersion"]),
    )
