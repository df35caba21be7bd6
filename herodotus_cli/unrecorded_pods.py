"""Answers about existing pods that no scheduler decided, or whose scheduler is not recorded.

Owns: the cause as far as the Pod object shows it, and the answer. Does not own: fetching the Pod (`not_found`), pods
with scheduling gates (`untried_pods`), the screen.

Invariant: an answer states a known cause. If the cause is unknown, there is no answer, and the command fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
OBSERVE = "kubectl apply -f deploy/observer.yaml"


def build_answer(pod: Json, is_recorded: Callable[[str], bool]) -> Json | None:
    """Return the document about a pod without a decision, from its Pod object, or None if the cause is unknown.

    `is_recorded` returns whether the decisions service has decisions of a scheduler.
    """
    spec = pod["spec"]
    if spec.get("schedulingGates"):
        from herodotus_cli import untried_pods  # here and below, because importing the record takes 10 ms

        return untried_pods.build_answer(pod)
    scheduler, node = spec.get("schedulerName") or "default-scheduler", spec.get("nodeName")
    if was_created_with_node(pod):
        said = f"On {node}: the pod was created with spec.nodeName, so no scheduler decided it."
        return _answer(pod, "NodeName", said)
    if is_recorded(scheduler):
        return None
    where = f"On {node}. W" if node else "Pending. W"
    said = f"{where}hy is not known: the pod belongs to {scheduler}, whose decisions are not recorded."
    changes = [f"record its decisions from now on, with a read-only observer: {OBSERVE}"]
    if not node:
        changes.append("evaluate the pod now: the same command with --local")
    return _answer(pod, "SchedulerNotRecorded", said, changes)


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
