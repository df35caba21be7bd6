"""The DaemonSet controller: keeps one pod for each node on which the template's pods may run.

Does not own: the choice of the node, which the scheduler makes by the affinity that each pod gets. Not here: surges
(`workloads.check_supported` rejects them), ControllerRevisions, and affinity terms of the template other than its node
selector.
"""

from __future__ import annotations

from typing import Final

from herodotus_sim.controllers.access import ControllerClient, is_active, is_ready
from herodotus_sim.controllers.deployment import template_hash
from herodotus_sim.kinds import NODE, POD
from herodotus_sim.storage import StoredObject
from herodotus_sim.wire import Object
from herodotus_sim.workloads import DAEMON_SET, resolve

_HASH_LABEL: Final = "controller-revision-hash"
_NODE_TAINTS: Final = {
    "NoExecute": ("not-ready", "unreachable"),
    "NoSchedule": ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"),
}
TOLERATED: Final = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": effect}
    for effect, taints in _NODE_TAINTS.items()
    for taint in taints
]


class DaemonSetController:
    """The controller that creates and deletes the pods of DaemonSets and writes their counts to the status."""

    def __init__(self, access: ControllerClient) -> None:
        self._access = access

    def reconcile(self, daemon_set: StoredObject) -> float:
        """Create the pods that nodes lack, delete those without a node, and update the status.

        Returns 0, because no later check is needed.
        """
        access, spec = self._access, daemon_set.obj["spec"]
        template, hash_ = spec["template"], template_hash(spec["template"], 0)
        nodes = [node.key[1] for node in access.store.list_sorted(NODE) if _may_run(template["spec"], node.obj)]
        by_node: dict[str, StoredObject] = {}
        for pod in access.claim(DAEMON_SET, daemon_set, POD):
            node = _read_node(pod.obj)
            if not is_active(pod.obj) or node not in nodes or node in by_node:
                access.delete_pod(DAEMON_SET, daemon_set, pod)
            else:
                by_node[node] = pod
        if spec["updateStrategy"]["type"] == "RollingUpdate":
            unavailable = resolve(spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"], len(nodes), up=True)
            for node in _select_outdated(by_node, hash_, unavailable - (len(nodes) - len(by_node))):
                access.delete_pod(DAEMON_SET, daemon_set, by_node.pop(node))
        for node in nodes:
            if node not in by_node:
                pinned = _pin(template, node)
                by_node[node] = access.create_pod(DAEMON_SET, daemon_set, pinned, **{_HASH_LABEL: hash_})
        ready = sum(is_ready(pod.obj) for pod in by_node.values())
        status = {
            "desiredNumberScheduled": len(nodes),
            "currentNumberScheduled": len(by_node),
            "numberReady": ready,
            "numberAvailable": ready,
            "numberUnavailable": len(nodes) - ready,
            "updatedNumberScheduled": sum(_read_hash(pod.obj) == hash_ for pod in by_node.values()),
            "numberMisscheduled": 0,
            "observedGeneration": daemon_set.obj["metadata"]["generation"],
        }
        access.update_status(DAEMON_SET, daemon_set, status)
        return 0.0


def _select_outdated(by_node: dict[str, StoredObject], hash_: str, budget: int) -> list[str]:
    """Return the nodes whose pod, created from an older template, is to be deleted now. `by_node` has each node's pod.

    All outdated pods that are not ready are among them. Of the ready ones there are as many as are left of `budget`,
    the number of pods that may be unavailable, after subtracting every pod that is not ready. kube-controller-manager's
    `rollingUpdate` does the same.
    """
    waiting = [node for node, pod in by_node.items() if not is_ready(pod.obj)]
    outdated = [node for node, pod in by_node.items() if _read_hash(pod.obj) != hash_]
    ready = [node for node in outdated if node not in waiting]
    return [node for node in outdated if node in waiting] + ready[: max(budget - len(waiting), 0)]


def _read_hash(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_HASH_LABEL, ""))


def _may_run(spec: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    tolerations = [*(spec.get("tolerations") or ()), *TOLERATED]
    return all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items()) and all(
        taint.get("effect") == "PreferNoSchedule" or any(_tolerates(t, taint) for t in tolerations)
        for taint in (node.get("spec") or {}).get("taints") or ()
    )


def _tolerates(toleration: Object, taint: Object) -> bool:
    return (
        toleration.get("effect") in (None, "", taint.get("effect"))
        and toleration.get("key") in (None, "", taint["key"])
        and (toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or ""))
    )


def _pin(template: Object, node: str) -> Object:
    """Return the template with the affinity to one node and the tolerations that pods of DaemonSets get."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    tolerations = [*(template["spec"].get("tolerations") or ()), *TOLERATED]
    return {**template, "spec": {**template["spec"], "affinity": affinity, "tolerations": tolerations}}


def _read_node(pod: Object) -> str:
    """Return the node to which a pod's affinity pins the pod, or "" if there is none, as in an adopted pod."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    fields = [field for term in terms for field in term.get("matchFields") or ()]
    return str(fields[0]["values"][0]) if fields else ""
