"""Existing pods without a decision: they have scheduling gates, had their node from the start, or are not recorded.

Owns: the cause as far as the Pod object shows it, the answer, and adding such pods to the list of pending ones. Does
not own: fetching the Pod (`not_found`, `transport.api_server_queries`), the pending-pods document
(`herodotus_answers.pending`), screens. `herodotus_record` is imported in functions, because it takes 10 ms.

Invariant: an answer states a known cause. If the cause is unknown, there is no answer, and the command fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from herodotus_answers.pending import PendingPods, UntriedPod

Json = dict[str, Any]
OBSERVE = "kubectl apply -f deploy/observer.yaml"


def build_answer(pod: Json, is_recorded: Callable[[str], bool]) -> Json | None:
    """Return the document about a pod without a decision, from its Pod object, or None if the cause is unknown.

    `is_recorded` returns whether the decisions service has decisions of a scheduler.
    """
    spec = pod["spec"]
    if spec.get("schedulingGates"):
        return _answer_gated(pod)
    scheduler, node = spec.get("schedulerName") or "default-scheduler", spec.get("nodeName")
    if was_created_with_node(pod):
        headline = f"On {node}: the pod was created with spec.nodeName, so no scheduler decided it."
        return _answer(pod, "NodeName", headline)
    if is_recorded(scheduler):
        return None
    beginning = f"On {node}. W" if node else "Pending. W"
    headline = f"{beginning}hy is not known: the pod belongs to {scheduler}, whose decisions are not recorded."
    changes = [f"record its decisions from now on, with a read-only observer: {OBSERVE}"]
    if not node:
        changes.append("evaluate the pod now: the same command with --local")
    return _answer(pod, "SchedulerNotRecorded", headline, changes)


def was_created_with_node(pod: Json) -> bool:
    """Return whether the pod had spec.nodeName from the start, so that no scheduler decides it.

    Binding sets the condition PodScheduled and leaves no trace of spec.nodeName among the managed fields.
    """
    if not pod["spec"].get("nodeName"):
        return False
    fields = [entry.get("fieldsV1") or {} for entry in pod["metadata"].get("managedFields") or ()]
    if any("f:nodeName" in (field.get("f:spec") or {}) for field in fields):
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return not any(condition.get("type") == "PodScheduled" for condition in conditions)


def add_to_pending_pods(document: PendingPods, pods: Sequence[Json]) -> PendingPods:
    """Return the pending-pods document with pods added that it lacks. `pods` are Pod objects from the API server."""
    from herodotus_answers.pending import add_untried_pods

    return add_untried_pods(document, [_read_pod(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")])


def _answer(pod: Json, cause: str, headline: str, changes: list[str] | None = None) -> Json:
    from herodotus_record.model import API_VERSION

    metadata = pod["metadata"]
    owner = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
    return {
        "apiVersion": API_VERSION,
        "kind": "UnrecordedPod",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "createdAt": metadata["creationTimestamp"],
        "owner": f"{owner['kind']}/{owner['name']}" if owner else None,
        "schedulerName": pod["spec"].get("schedulerName") or "default-scheduler",
        "node": pod["spec"].get("nodeName"),
        "cause": cause,
        "headline": headline,
        "possibleChanges": changes or [],
    }


def _answer_gated(pod: Json) -> Json:
    """Return the GatedPod document about a pod that waits for its scheduling gates, from its Pod object."""
    from herodotus_record.model import API_VERSION

    gated = _read_pod(pod)
    gates = ", ".join(gated.gates)
    return {
        "apiVersion": API_VERSION,
        "kind": "GatedPod",
        "metadata": {"name": gated.pod, "namespace": gated.namespace, "uid": gated.uid},
        "createdAt": gated.created_at,
        "owner": gated.owner,
        "schedulerName": gated.profile,
        "schedulingGates": list(gated.gates),
        "headline": f"Waits for its scheduling gates ({gates}): no scheduler tries it before they are removed.",
    }


def _read_pod(pod: Json) -> UntriedPod:
    from herodotus_answers.pending import UntriedPod

    metadata, spec = pod["metadata"], pod["spec"]
    owner = next((o for o in metadata.get("ownerReferences") or () if o.get("controller")), None)
    return UntriedPod(
        namespace=metadata["namespace"],
        pod=metadata["name"],
        uid=metadata["uid"],
        owner=f"{owner['kind']}/{owner['name']}" if owner else None,
        profile=spec.get("schedulerName") or "default-scheduler",
        created_at=metadata["creationTimestamp"],
        gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
    )
