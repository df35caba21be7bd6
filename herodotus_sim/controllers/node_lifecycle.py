"""The node lifecycle controller: taints a cordoned node, and removes the taint when the node is uncordoned.

Does not own: taints that follow from conditions of a node (not ready, pressure), which the simulated kubelets never
report.
"""

from __future__ import annotations

from typing import Final

from herodotus_sim.controllers.access import ControllerClient
from herodotus_sim.kinds import NODE
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object

_CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class NodeLifecycleController:
    """The controller of the taint that a node has while its `spec.unschedulable` is true."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access

    def reconcile(self, node: StoredObject) -> float:
        """Add the taint to a cordoned node, or remove it from another one.

        Returns 0, because no later check is needed.
        """
        self._access.update(NODE, node, _taint)
        return 0.0


def _taint(node: Object) -> Object:
    spec = node.get("spec") or {}
    taints = [t for t in spec.get("taints") or () if not all(t.get(k) == v for k, v in _CORDONED.items())]
    if spec.get("unschedulable"):
        taints = spec["taints"] if len(taints) < len(spec.get("taints") or ()) else [*taints, _CORDONED]
    return {**node, "spec": {**spec, "taints": taints or None}}
