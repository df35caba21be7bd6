"""Find the pods of a workload that are being deleted, and whether new pods wait for their end.

Owns: which controllers wait, and why. Does not own: what keeps such a pod (`termination_causes`). Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herodotus_answers.live.daemon_nodes import read_meant_node
from herodotus_answers.live.objects import has_ended
from herodotus_answers.live.pod_facts import make_cause
from herodotus_answers.live.pods.pod_state import find_state

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import LiveCause
    from herodotus_answers.live.workload_objects import Workload

Json = dict[str, Any]


def list_terminating(workload: Workload) -> list[Json]:
    """Return the pods of a workload that are being deleted and have not ended, those deleted first at the front."""
    pods = [pod for pod in workload.pods if pod["metadata"].get("deletionTimestamp") and not has_ended(pod)]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["deletionTimestamp"]))


def explain_wait_for_end(workload: Workload) -> LiveCause | None:
    """Return the cause that a workload makes no new pod before one that is being deleted has ended, or None."""
    why, source = _find_rule(workload)
    pods = list_terminating(workload)
    if workload.kind == "DaemonSet":
        occupied = {read_meant_node(pod) for pod in workload.active}
        pods = [pod for pod in pods if read_meant_node(pod) not in occupied]
    if not why or not pods:
        return None
    pod, name = pods[0], str(pods[0]["metadata"]["name"])
    state = find_state(pod, workload.objects, workload.now)
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    text = f"{workload.label} replaces {name}{more} only after its end ({why}). {name}: {state['headline'].rstrip('.')}"
    remedies = [remedy for cause in state["causes"] for remedy in cause["remedies"]]
    see = f"kubectl herodotus pod {name} -n {workload.namespace}"
    at = pod["metadata"]["deletionTimestamp"]
    return make_cause(
        "waits-for-terminating-pod", text, source, of=f"Pod/{name}", at=at, remedies=remedies, inspect=see
    )


def _find_rule(workload: Workload) -> tuple[str, str]:
    """Return why a workload waits for the end of a pod that is being deleted, and the field that says so; "" if not."""
    spec = workload.spec
    match workload.kind:
        case "Job":
            default = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
            policy = spec.get("podReplacementPolicy") or default
            return ("podReplacementPolicy Failed", "spec.podReplacementPolicy") if policy == "Failed" else ("", "")
        case "StatefulSet":
            return "the new pod has the same name", "metadata.deletionTimestamp"
        case "DaemonSet":
            return "a node has one pod of it at a time", "metadata.deletionTimestamp"
        case "Deployment" if (spec.get("strategy") or {}).get("type") == "Recreate":
            return "strategy Recreate", "spec.strategy.type"
        case _:
            return "", ""
