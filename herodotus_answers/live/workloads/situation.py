"""Gather what is found out about a workload before its state is: numbers, problems of its pods, autoscaler, nodes.

Owns: these counts, and which nodes have no pod of a DaemonSet. Does not own: what they mean for the workload
(`workload_state`), the problems (`workload_pods`), reading (`workload_objects`). Pure.

Invariant: no number is given for what could not be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herodotus_answers.live.daemon_nodes import advise_toleration, find_nodes_without_pod, read_meant_node
from herodotus_answers.live.pods.outdated_pods import (
    REVISION_LABEL,
)
from herodotus_answers.live.workload_objects import (
    Workload,
    is_ready,
)
from herodotus_answers.live.workloads.job_state import count_wanted
from herodotus_answers.live.workloads.terminating_pods import list_terminating
from herodotus_answers.live.workloads.workload_autoscaler import find_autoscaler
from herodotus_answers.live.workloads.workload_pods import Problems, find_problems

if TYPE_CHECKING:
    from herodotus_answers.live.declarations import (
        LiveCause,
        NodesWithoutPod,
        WorkloadAutoscaler,
        WorkloadCounts,
    )
    from herodotus_answers.live.workloads.workload_pods import Explain

    Parts = tuple[str, str, list[LiveCause], str | None]  # code, headline, causes, actor

Json = dict[str, Any]


class Situation:
    """A workload with what is found out about it: counts, problems of its pods, autoscaler, nodes without a pod."""

    def __init__(self, workload: Workload, explain: Explain) -> None:
        self.workload = workload
        self.problems: Problems = find_problems(workload, explain)
        self.autoscaler: WorkloadAutoscaler | None = find_autoscaler(workload)
        self.skipped: list[NodesWithoutPod] = _list_skipped(workload)
        self.counts: WorkloadCounts = _count(workload, self.skipped)
        self.is_short = self.counts["notCreated"] > 0
        self.explain = explain

    @property
    def progress(self) -> str:
        """The pods that are ready of those that are wanted, for a sentence."""
        wanted, ready = self.counts["wanted"], self.counts["ready"]
        return f"{ready} of {wanted} pods {'is' if ready == 1 else 'are'} ready"


def _count(workload: Workload, skipped: list[NodesWithoutPod]) -> WorkloadCounts:
    """Return how many pods a workload wants and has, from its pods, or from its status if these cannot be read."""
    spec, status, active = workload.spec, workload.status, workload.active
    wanted: int | None = spec.get("replicas", 1) if workload.is_read else None
    if workload.kind == "DaemonSet" and workload.is_read:
        has_number = "desiredNumberScheduled" in status
        meant = {read_meant_node(pod) for pod in active} - {""}
        missing = sum(each["count"] for each in skipped if each["code"] == "missing")
        wanted = int(status["desiredNumberScheduled"]) if has_number else len(meant) + missing
    elif workload.kind == "Job":
        wanted = count_wanted(workload)
    elif workload.kind == "CronJob":
        wanted = None
    created = len(active) if workload.knows_pods else int(status.get("replicas") or status.get("active") or 0)
    placed = sum(bool(pod["spec"].get("nodeName")) for pod in active)
    counts: WorkloadCounts = {
        "wanted": wanted,
        "created": created,
        "notCreated": max(0, (wanted or 0) - created),
        "updated": _count_updated(workload),
        "placed": placed if workload.knows_pods else None,
        "pending": len(active) - placed,
        "ready": sum(map(is_ready, active)) if workload.knows_pods else int(status.get("readyReplicas") or 0),
        "available": status.get("availableReplicas", status.get("numberAvailable")),
        "terminating": len(list_terminating(workload)) if workload.knows_pods else _read_terminating(status),
    }
    if workload.kind == "Job":
        counts["succeeded"] = int(status.get("succeeded") or 0)
        counts["failed"] = int(status.get("failed") or 0)
    return counts


def _read_terminating(status: Json) -> int:
    return int(status.get("terminating") or status.get("terminatingReplicas") or 0)


def _count_updated(workload: Workload) -> int | None:
    if workload.kind == "Deployment" and not workload.knows_makers:
        updated: int | None = workload.status.get("updatedReplicas")
        return updated
    if workload.kind == "Deployment":
        return len(workload.list_active_of(workload.current)) if workload.current else 0
    revision = workload.status.get("updateRevision")
    if workload.kind == "StatefulSet" and revision:
        revisions = [(pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in workload.active]
        return revisions.count(revision)
    return None


def _list_skipped(workload: Workload) -> list[NodesWithoutPod]:
    if workload.kind != "DaemonSet" or not workload.is_read:
        return []
    nodes = {str(node["metadata"]["name"]): node for node in workload.objects.list_objects("Node").items}
    groups = find_nodes_without_pod(workload.pod_spec, nodes.values(), map(read_meant_node, workload.active))
    for group in groups:
        excluded = [nodes[name] for name in group["nodes"]]
        remedy = advise_toleration(workload.object, excluded) if group["code"] == "taint" else None
        if remedy is not None and remedy["command"]:
            group["command"] = remedy["command"]
    return groups
