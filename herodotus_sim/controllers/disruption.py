"""The disruption controller: writes to the status of PodDisruptionBudgets how many pods may be evicted.

Does not own: the eviction (`subresources`), which takes from what this controller allowed. A percentage is of the pods
that the budget covers now, and not, as upstream, of the replicas that their controllers want.
"""

from __future__ import annotations

from herodotus_sim.controllers.access import ControllerClient, is_active, is_ready
from herodotus_sim.kinds import POD, POD_DISRUPTION_BUDGET
from herodotus_sim.storage import StoredObject
from herodotus_sim.subresources import covers_pod
from herodotus_sim.workloads import resolve


class DisruptionController:
    """The controller of PodDisruptionBudgets."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access

    def reconcile(self, budget: StoredObject) -> float:
        """Write the counts of a budget's pods to its status.

        Returns 0, because no later check is needed: every change of a pod enqueues the budget again.
        """
        spec = budget.obj.get("spec") or {}
        pods = [p for p in self._access.store.list_sorted(POD) if covers_pod(budget, p) and is_active(p.obj)]
        healthy, expected = sum(is_ready(pod.obj) for pod in pods), len(pods)
        if spec.get("maxUnavailable") is not None:
            desired = expected - resolve(spec["maxUnavailable"], expected, up=True)
        else:
            desired = resolve(spec.get("minAvailable", 1), expected, up=True)
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": max(desired, 0),
            "expectedPods": expected,
            "disruptionsAllowed": max(healthy - max(desired, 0), 0),
            "observedGeneration": budget.obj["metadata"]["generation"],
        }
        self._access.update_status(POD_DISRUPTION_BUDGET, budget, status)
        return 0.0
