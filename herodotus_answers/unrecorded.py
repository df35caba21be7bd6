"""Build the documents `GatedPod` and `UnrecordedPod` about existing pods without a decision.

Such a pod waits for its scheduling gates, had its node from the start, or belongs to a scheduler that is not recorded.

Owns: the cause as far as the Pod object shows it, and the documents. Does not own: their types (`live`), fetching the
Pod, screens. Pure. `herodotus_record` is imported in functions, because it takes 10 ms.

Invariant: an answer states a known cause. If the cause is unknown, there is no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from herodotus_answers.live_objects import read_owner, read_scheduler

if TYPE_CHECKING:
    from herodotus_answers.live import GatedPod, UnrecordedPod

Json = dict[str, Any]
OBSERVE = "kubectl apply -f deploy/observer.yaml"


def build_undecided(pod: Json, is_recorded: Callable[[str], bool]) -> GatedPod | UnrecordedPod | None:
    """Return the document about a pod without a decision, from its Pod object, or None if the cause is unknown.

    `is_recorded` returns whether the decisions service has decisions of a scheduler.
    """
    spec = pod["spec"]
    if spec.get("schedulingGates"):
        return _build_gated(pod)
    scheduler, node = read_scheduler(pod), spec.get("nodeName")
    if was_created_with_node(pod):
        headline = f"On {node}: the pod was created with spec.nodeName, so no scheduler decided it."
        return _build_unrecorded(pod, "NodeName", headline, [])
    if is_recorded(scheduler):
        return None
    beginning = f"On {node}. W" if node else "Pending. W"
    headline = f"{beginning}hy is not known: the pod belongs to {scheduler}, whose decisions are not recorded."
    changes = [f"record its decisions from now on, with a read-only observer: {OBSERVE}"]
    if not node:
        changes.append("evaluate the pod now: the same command with --local")
    return _build_unrecorded(pod, "SchedulerNotRecorded", headline, changes)


def build_unevaluated(pod: Json, why: str) -> UnrecordedPod:
    """Return the document about a pod that could not be evaluated; `why` is the reason, without a full stop."""
    return _build_unrecorded(pod, "NotEvaluated", f"Not evaluated: {why}.", [])


def was_created_with_node(pod: Json) -> bool:
    """Return whether the pod had spec.nodeName from the start, so that no scheduler decides it.

    Binding sets the condition PodScheduled with its time, and leaves no trace of spec.nodeName among the managed
    fields. The kubelet sets the condition too, at first without a time.
    """
    if not pod["spec"].get("nodeName"):
        return False
    fields = [entry.get("fieldsV1") or {} for entry in pod["metadata"].get("managedFields") or ()]
    if any("f:nodeName" in (field.get("f:spec") or {}) for field in fields):
        return True
    conditions = (pod.get("status") or {}).get("conditions") or ()
    times = [c.get("lastTransitionTime") for c in conditions if c.get("type") == "PodScheduled"]
    return not any(times)


def _build_unrecorded(
    pod: Json, cause: Literal["NodeName", "SchedulerNotRecorded", "NotEvaluated"], headline: str, changes: list[str]
) -> UnrecordedPod:
    from herodotus_record.model import API_VERSION

    metadata = pod["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": "UnrecordedPod",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "createdAt": metadata["creationTimestamp"],
        "owner": read_owner(pod),
        "schedulerName": read_scheduler(pod),
        "node": pod["spec"].get("nodeName"),
        "cause": cause,
        "headline": headline,
        "possibleChanges": changes,
    }


def _build_gated(pod: Json) -> GatedPod:
    from herodotus_record.model import API_VERSION

    metadata = pod["metadata"]
    gates = [gate["name"] for gate in pod["spec"]["schedulingGates"]]
    return {
        "apiVersion": API_VERSION,
        "kind": "GatedPod",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "createdAt": metadata["creationTimestamp"],
        "owner": read_owner(pod),
        "schedulerName": read_scheduler(pod),
        "schedulingGates": gates,
        "headline": f"Waits for its scheduling gates ({', '.join(gates)}):"
        " no scheduler tries it before they are removed.",
    }
