"""Build the document `UndecidedPod` about an existing pod without a decision and without an evaluation.

Such a pod waits for its scheduling gates, had its node from the start, has ended, or belongs to a scheduler that is not
recorded; or the cluster could not be evaluated.

Owns: what the Pod object alone shows, and the document. Does not own: its type (`live.declarations`), the state of the
pod (`pod_state`), fetching the Pod, screens. Pure. `herodotus_record` is imported in functions, because it takes 10 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from herodotus_answers.live.objects import read_owner, read_scheduler, was_created_with_node

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import PodWithoutDecision

Json = dict[str, Any]
OBSERVE: Final = "kubectl apply -f deploy/observer.yaml"


def build_undecided(pod: Json, notes: Sequence[str] = (), possible_changes: Sequence[str] = ()) -> PodWithoutDecision:
    """Return the document about a pod without a decision, from its Pod object.

    `notes` say why there is none, and `possible_changes` what to do to get one.
    """
    from herodotus_record.model import API_VERSION

    metadata = pod["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": "UndecidedPod",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "createdAt": metadata["creationTimestamp"],
        "owner": read_owner(pod),
        "schedulerName": read_scheduler(pod),
        "node": pod["spec"].get("nodeName"),
        "schedulingGates": [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()],
        "headline": _describe(pod),
        "notes": list(notes),
        "possibleChanges": list(possible_changes),
    }


def _describe(pod: Json) -> str:
    """Return what the Pod object says about the pod's state, in one sentence."""
    spec = pod["spec"]
    node, phase = spec.get("nodeName"), (pod.get("status") or {}).get("phase") or "Pending"
    if gates := spec.get("schedulingGates"):
        names = ", ".join(gate["name"] for gate in gates)
        return f"Waits for its scheduling gates ({names}): no scheduler tries it before they are removed."
    if was_created_with_node(pod):
        return f"On {node}: the pod was created with spec.nodeName, so no scheduler decided it."
    return f"{phase} on {node}." if node else f"{phase}, without a node."
