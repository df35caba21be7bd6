"""Build the answer document `WorkloadPlacement`, and sum up which workloads are placed on a node: how often, and why.

Owns: what decided a placement, sums over placements, the document's shape. Does not own: selecting placements (the
store). Pure.

Invariant: every sum is given with the number of placements that it covers. The record knows where pods were placed, not
which of them still exist. A document with `source` has the pods that exist now, and not what decided on their nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict

from herodotus_answers.agreements import ComparedOutcome, SchedulerAgreement, list_schedulers
from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.explain import PLACED_STATES, compute_margin
from herodotus_answers.live.declarations import LiveWorkload
from herodotus_answers.live.workload_objects import MAKERS
from herodotus_answers.pending import find_dominant_reason
from herodotus_answers.preemptions import PreemptionEntry, name_preemptor
from herodotus_answers.wording import ShortReason
from herodotus_record.model import API_VERSION, Decision, DecisionPath
from herodotus_record.units import format_timestamp, natural_sort_key, pluralize

TIE: Final = "tie"
ONLY: Final = "the only node that fits"
NOMINATED: Final = "nominated by preemption"
UNSCORED: Final = "nothing was scored"
OUTSCORED: Final = "another node scored higher"  # where the scheduler was not the one that scored
MAX_RECENT: Final = 10  # placements listed one by one


@dataclass(frozen=True)
class DecidingFactor:
    """What decided on which node a pod was placed: a plugin's name, or one of the factors above.

    `points` is the chosen node's lead over the next node, or None if scores did not decide.
    """

    by: str
    points: int | None


class PlacementCount(NamedTuple):
    """The number of placements that a factor decided, and the sum of the leads in points.

    `points` is None if none of them had a lead.
    """

    times: int
    points: int | None

    def add(self, other: PlacementCount) -> PlacementCount:
        """Return the sum of both counts."""
        points_of_both = [points for points in (self.points, other.points) if points is not None]
        return PlacementCount(self.times + other.times, sum(points_of_both) if points_of_both else None)


@dataclass(frozen=True)
class Placement:
    """A pod of a workload at its last attempt: its state, the node that was chosen, or None, and why.

    `state` is that of `derive_state`. `decided_by` and `reason` are None if the record of the attempt was not read,
    `reason` also if it rejects no node. `preempted_by` is the recorded preemption that evicted the pod since then.
    """

    namespace: str
    pod: str
    workload: str
    node: str | None
    started_us: int
    state: str
    message: str = ""
    decided_by: DecidingFactor | None = None
    moves_without: tuple[str, ...] = ()  # plugins without whose scores another node would have won
    reason: ShortReason | None = None
    preempted_by: PreemptionEntry | None = None

    @classmethod
    def from_present_pod(
        cls, namespace: str, pod: str, workload: str, node: str | None, created_us: int, message: str = ""
    ) -> Placement:
        """Return the placement of a pod that exists now. `created_us` is its creation in microseconds since 1970."""
        return cls(namespace, pod, workload, node, created_us, "Bound" if node else "Unschedulable", message)

    @property
    def result(self) -> Literal["placed", "preempted", "pending"]:
        """Whether the pod has its node, lost it to a pod of higher priority, or has none. Every count follows this."""
        if self.preempted_by is not None:
            return "preempted"
        return "placed" if self.state in PLACED_STATES else "pending"


class PendingPodOfWorkload(TypedDict):
    """A pod for which its last attempt found no node."""

    pod: Annotated[str, "Name of the pod."]
    reason: Annotated[str, "What stops the nodes that the pod may use."]
    message: Annotated[str, "Message of its FailedScheduling event."]
    startedAt: Annotated[str, "Start of the attempt."]


class PreemptedPodOfWorkload(TypedDict):
    """A pod that had a node and was evicted from it for a pod of higher priority."""

    pod: Annotated[str, "Name of the pod."]
    preemptedBy: Annotated[PreemptionEntry, "The preemption that evicted it."]


class NodeOfWorkload(TypedDict):
    """A node with pods of the workload."""

    node: Annotated[str, "Name of the node."]
    pods: Annotated[int, "Number of pods that were placed on it."]
    share: Annotated[float, "Share of the placed pods, from 0 to 1."]
    decidedBy: Annotated[dict[str, int], "Number of placements by the plugin, or tie, that decided them."]
    meanMargin: Annotated[float | None, "Mean lead over the next node in points; null if scores decided none."]
    lastAt: Annotated[str, "Start of the newest placement; with `source` the creation of the newest pod."]


class RecentPlacement(TypedDict):
    """A placement, and what decided it."""

    pod: Annotated[str, "Name of the pod."]
    node: Annotated[str | None, "Its node."]
    startedAt: Annotated[str, "Start of the attempt."]
    state: Annotated[str, "State of the attempt: Bound, Binding or DryRun."]
    decidedBy: Annotated[str | None, "Plugin that decided, or the reason why none did; null if it was not read."]
    points: Annotated[int | None, "Lead over the next node in points; null if scores did not decide."]


class WorkloadPlacement(Document):
    """Nodes on which the pods of a workload were placed, and why."""

    kind: Literal["WorkloadPlacement"]
    source: NotRequired[
        Annotated[
            Literal["evaluated", "kube-apiserver"],
            "Where the pods that exist now were read, if nothing is recorded: by local mode, which evaluates those"
            " without a node, or from the API server alone. Absent if the document is about recorded placements.",
        ]
    ]
    since: Annotated[str, "Start of the time window."]
    complete: Annotated[bool, "Whether every decision of the requested time window is counted."]
    headline: Annotated[str, "The placement in one sentence."]
    placed: Annotated[int, "Number of pods that were placed, without those of `preempted`."]
    preempted: NotRequired[
        Annotated[
            list[PreemptedPodOfWorkload],
            "Pods that were evicted for pods of higher priority, as recorded; absent if there is none.",
        ]
    ]
    observed: NotRequired[
        Annotated[
            list[SchedulerAgreement],
            "Other schedulers that decided, whose own scores are not on record: how many of their outcomes agree with"
            " an observer's evaluation, from which `decidedBy` is. Absent if every scheduler recorded its decisions.",
        ]
    ]
    pending: Annotated[list[PendingPodOfWorkload], "Pods without a node."]
    nodesTotal: Annotated[int, "Number of the cluster's nodes at the newest placement."]
    skew: Annotated[int, "Difference between the highest and the lowest number of pods on a node."]
    decided: Annotated[int, "Number of placements for which it is known what decided them."]
    decidedBy: Annotated[dict[str, int], "Number of placements by the plugin, or tie, that decided them."]
    movesWithout: Annotated[
        dict[str, int],
        "Number of these placements that another node would have won if the plugin's weight were 0, by plugin.",
    ]
    nodes: Annotated[list[NodeOfWorkload], "Pods of the workload by node."]
    recent: Annotated[list[RecentPlacement], "Newest placements."]
    live: NotRequired[Annotated[LiveWorkload, "What the API server knows now; only the plugin adds it."]]


class ListedWorkload(TypedDict):
    """Numbers of pods of a workload by the result of their last attempt."""

    namespace: Annotated[str, "Namespace of the workload."]
    workload: Annotated[str, "The workload as KIND/NAME."]
    placed: Annotated[int, "Number of pods that were placed, without those of `preempted`."]
    preempted: Annotated[int, "Number of pods that were evicted for pods of higher priority, as recorded."]
    pending: Annotated[int, "Number of pods whose last attempt found no node."]
    nodes: Annotated[int, "Number of nodes on which pods were placed."]
    mostOnOneNode: Annotated[int, "Highest number of its pods that were placed on one node."]
    lastAt: Annotated[str, "Start of the newest attempt."]


class WorkloadPlacements(Document):
    """Workloads with pods that were decided, and how their pods are spread over nodes."""

    kind: Literal["WorkloadPlacements"]
    since: Annotated[str, "Start of the time window."]
    complete: Annotated[bool, "Whether every decision of the requested time window is counted."]
    workloads: Annotated[list[ListedWorkload], "The workloads, by namespace and name."]


class WorkloadOnNode(TypedDict):
    """A workload with pods that were placed on the node."""

    workload: Annotated[str, "Name of the workload as NAMESPACE/KIND/NAME."]
    placements: Annotated[int, "Number of its pods that were placed on the node."]
    decidedBy: Annotated[dict[str, int], "Number of these placements by the plugin, or tie, that decided them."]
    meanMargin: Annotated[float | None, "Mean lead over the next node in points; null if scores decided none."]


def find_deciding_factor(decision: Decision) -> DecidingFactor:
    """Return what decided on the node of a placed pod: the plugin that gave the largest share of the lead, or a tie.

    If scores did not decide, the factor says why.
    """
    if decision.path is DecisionPath.ONLY_FEASIBLE:
        return DecidingFactor(ONLY, None)
    if decision.path is DecisionPath.NOMINATED:
        return DecidingFactor(NOMINATED, None)
    ahead = compute_margin(decision)
    if ahead is None:
        return DecidingFactor(UNSCORED, None)
    if decision.chosen is not None and decision.totals[decision.chosen] < decision.totals[ahead.best]:
        return DecidingFactor(OUTSCORED, None)
    tied = decision.ties or not ahead.shares or ahead.shares[0][1] <= 0
    return DecidingFactor(TIE if tied else ahead.shares[0][0], ahead.points)


class WorkloadName(NamedTuple):
    """The namespace of a workload, and `Kind/name`."""

    namespace: str
    name: str


_KIND_NAMES: Final = {
    "deployment": "Deployment",
    "replicaset": "ReplicaSet",
    "replicationcontroller": "ReplicationController",
    "statefulset": "StatefulSet",
    "daemonset": "DaemonSet",
    "job": "Job",
    "cronjob": "CronJob",
    "pod": "Pod",
}


def get_kind_name(kind: str) -> str:
    """Return the name of a kind with its capitals, such as Deployment for deployment."""
    return _KIND_NAMES.get(kind.lower(), kind)


def belongs_to_workload(owner: str, pod: str, suffix: str | None, kind: str, name: str) -> bool:
    """Return whether a pod belongs to a workload, directly or through a ReplicaSet or Job.

    `owner` is the pod's direct owner as KIND/NAME, or "", and `suffix` the pod's label pod-template-hash. A Deployment
    or CronJob names its ReplicaSets and Jobs after itself, with a hash or a time as suffix.
    """
    kind = get_kind_name(kind)
    if kind == "Pod":
        return not owner and pod == name
    owner_kind, _, owner_name = owner.partition("/")
    if MAKERS.get(kind) != owner_kind:
        return (owner_kind, owner_name) == (kind, name)
    if suffix:
        return owner_name == f"{name}-{suffix}"
    return bool(re.fullmatch(rf"{re.escape(name)}-[a-z0-9]{{5,10}}", owner_name))


def build_present_placement(
    workload: WorkloadName,
    pods: Sequence[Placement],
    nodes_total: int,
    source: Literal["evaluated", "kube-apiserver"],
    at_us: int,
) -> WorkloadPlacement:
    """Return the JSON document of kind WorkloadPlacement about the pods that exist at a time.

    `started_us` of each is the creation of the pod. `nodes_total` is 0 if the nodes are not known.
    """
    newest_first = sorted(pods, key=lambda pod: -pod.started_us)
    document = build_workload_placement(workload, newest_first, nodes_total, since_us=at_us, complete=True)
    placed = _select(pods, "placed")
    document["source"] = source
    document["headline"] = _present_headline(placed, len(pods) - len(placed), nodes_total)
    return document


def build_workload_placement(
    workload: WorkloadName,
    placements: Sequence[Placement],
    nodes_total: int,
    *,
    since_us: int,
    complete: bool,
    observed: Sequence[ComparedOutcome] = (),
) -> WorkloadPlacement:
    """Return the JSON document of kind WorkloadPlacement: on which nodes a workload's pods were placed, and why.

    `placements` holds the last placement of each pod, newest first, and `nodes_total` the number of the
    cluster's nodes at the newest placement. `complete` is whether these are all placements since `since_us`,
    which is in microseconds since 1970. `observed` are the outcomes among them that an observer reconstructed.
    """
    placed, preempted, waiting = (_select(placements, result) for result in ("placed", "preempted", "pending"))
    on = Counter(str(p.node) for p in placed)
    decided_placements = [p for p in placed if p.decided_by]
    rows = [_node(node, [p for p in placed if p.node == node], len(placed)) for node in on]
    document: WorkloadPlacement = {
        "apiVersion": API_VERSION,
        "kind": "WorkloadPlacement",
        "metadata": {"namespace": workload.namespace, "name": workload.name},
        "since": format_timestamp(since_us),
        "complete": complete,
        "headline": _headline(workload.name, placed, preempted, len(waiting), on, nodes_total),
        "placed": len(placed),
        "pending": [_pending(p) for p in waiting],
        "nodesTotal": nodes_total,
        "skew": max(on.values()) - (min(on.values()) if len(on) >= nodes_total else 0) if on else 0,
        "decided": len(decided_placements),
        "decidedBy": count_by_factor(decided_placements),
        "movesWithout": _count_moves_without(decided_placements),
        "nodes": sorted(rows, key=lambda row: (-row["pods"], natural_sort_key(row["node"]))),
        "recent": [_recent(p) for p in placed[:MAX_RECENT]],
    }
    if observed:
        document["observed"] = list_schedulers(observed)
        document["headline"] += f" {_describe_observed(document['observed'])}"
    if preempted:
        document["preempted"] = [{"pod": p.pod, "preemptedBy": p.preempted_by} for p in preempted if p.preempted_by]
    return document


def _select(placements: Iterable[Placement], result: str) -> list[Placement]:
    return [placement for placement in placements if placement.result == result]


def _pending(pod: Placement) -> PendingPodOfWorkload:
    reason = pod.reason.text if pod.reason else find_dominant_reason(pod.message) if pod.message else ""
    return {"pod": pod.pod, "reason": reason, "message": pod.message, "startedAt": format_timestamp(pod.started_us)}


def build_workload_placements(
    placements: Iterable[Placement], *, since_us: int, complete: bool, namespace: str
) -> WorkloadPlacements:
    """Return the JSON document of kind WorkloadPlacements: the workloads of some pods, with their numbers of pods.

    `placements` holds the last attempt of each pod; the `workload` of each is KIND/NAME. If `namespace` is "", the
    document is about all namespaces. `complete` is whether these are all placements since `since_us`.
    """
    members = dict[WorkloadName, list[Placement]]()
    for placement in placements:
        members.setdefault(WorkloadName(placement.namespace, placement.workload), []).append(placement)
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkloadPlacements",
        "metadata": {"namespace": namespace} if namespace else {},
        "since": format_timestamp(since_us),
        "complete": complete,
        "workloads": [_list_workload(workload, pods) for workload, pods in sorted(members.items())],
    }


def _list_workload(workload: WorkloadName, pods: Sequence[Placement]) -> ListedWorkload:
    results = Counter(pod.result for pod in pods)
    on = Counter(pod.node for pod in _select(pods, "placed"))
    return {
        "namespace": workload.namespace,
        "workload": workload.name,
        "placed": results["placed"],
        "preempted": results["preempted"],
        "pending": results["pending"],
        "nodes": len(on),
        "mostOnOneNode": max(on.values(), default=0),
        "lastAt": format_timestamp(max(pod.started_us for pod in pods)),
    }


def count_by_factor(placements: Iterable[Placement]) -> dict[str, int]:
    """Return how many placements each factor (a plugin, or a tie) decided, the most frequent factor first."""
    counts = Counter(p.decided_by.by for p in placements if p.decided_by)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _count_moves_without(placements: Iterable[Placement]) -> dict[str, int]:
    """Return how many placements another node would have won without each plugin's scores, the highest number first."""
    counts = Counter(plugin for p in placements for plugin in p.moves_without)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def find_pod_of_only_node(answer: Mapping[str, Any]) -> str:
    """Return the newest pod of a WorkloadPlacement for which only one node fitted; "" if there is none."""
    return next((str(each["pod"]) for each in answer.get("recent") or () if each["decidedBy"] == ONLY), "")


def describe_other_nodes(explanation: Mapping[str, Any]) -> str:
    """Return which filters rejected the other nodes of a pod, from its PodExplanation; "" if none did."""
    counts = Counter[str]()
    for group in explanation.get("rejections") or ():
        counts[group["plugin"]] += group["count"]
    named = ", ".join(f"{plugin} {count}" for plugin, count in counts.most_common())
    if not named:
        return ""
    meta = explanation["metadata"]
    return f"rejected by {named} (kubectl herodotus pod {meta['name']} -n {meta['namespace']})"


def list_top_workloads(decided: Mapping[str, Mapping[str, PlacementCount]]) -> list[WorkloadOnNode]:
    """Return, as JSON, the workloads with pods placed on a given node, those with the most such pods first.

    Each has the factors (score plugins, or a tie) that decided its placements, with their counts. `decided` maps a
    workload to these counts by factor.
    """
    rows: list[WorkloadOnNode] = [
        {
            "workload": workload,
            "placements": sum(t.times for t in by.values()),
            "decidedBy": {reason: t.times for reason, t in sorted(by.items(), key=lambda r: (-r[1].times, r[0]))},
            "meanMargin": _mean([t for t in by.values() if t.points is not None]),
        }
        for workload, by in decided.items()
    ]
    return sorted(rows, key=lambda row: (-row["placements"], row["workload"]))


def _mean(tallies: Sequence[PlacementCount]) -> float | None:
    return sum(t.points or 0 for t in tallies) / sum(t.times for t in tallies) if tallies else None


def _headline(
    workload: str,
    placed: Sequence[Placement],
    preempted: Sequence[Placement],
    waiting: int,
    on: Mapping[str, int],
    nodes_total: int,
) -> str:
    pending = f" {pluralize(waiting, 'pod')} found no node." if waiting else ""
    pending = f"{_describe_preempted(preempted)}{pending}"
    if not placed:
        return f"No pod of {workload} {'has kept its node' if preempted else 'was placed'}.{pending}"
    most = max(on.values())
    busiest = sorted((node for node, n in on.items() if n == most), key=natural_sort_key)
    where = f"{len(on)} of {pluralize(nodes_total, 'node')}"
    distribution = f"{pluralize(len(placed), 'pod')} went to {f'{busiest[0]}, {where}' if len(on) == 1 else where}"
    spread = f", {most} to each" if len(busiest) == len(on) else f", at most {most} to one ({', '.join(busiest[:3])})"
    decided = count_by_factor(placed)
    total = sum(decided.values())
    first = next(iter(decided.items()), None)
    reason = f" {_decided(*first, total)}" if first else ""
    others = [(plugin, times) for plugin, times in _count_moves_without(placed).items() if first and plugin != first[0]]
    if others and 2 * others[0][1] > total:
        reason += f" Without the score of {others[0][0]}, another node would have won {others[0][1]} of {total}."
    return f"{distribution}{spread if len(on) > 1 else ''}.{reason}{pending}"


def _describe_observed(schedulers: Sequence[SchedulerAgreement]) -> str:
    """Return sentences on schedulers whose decisions an observer reconstructed, and what is not known of them."""
    sentences = []
    for each in schedulers:
        agree, total = each["agree"] + each["agreeInWindow"], each["outcomes"]
        sentences.append(
            f"{each['scheduler']} decided {pluralize(total, 'pod')} and recorded nothing: an observer's evaluation,"
            f" with the configuration that the observer has, agrees for {agree}"
            + (
                "."
                if agree == total
                else f"; what {each['scheduler']} knew when it decided the others is not recorded."
            )
        )
    return " ".join(sentences)


def _describe_preempted(preempted: Sequence[Placement]) -> str:
    """Return a sentence, with a space before it, that says by which pods the pods were preempted; "" for no pods."""
    if not preempted:
        return ""
    distinct = list(dict.fromkeys(name_preemptor(p.preempted_by) for p in preempted if p.preempted_by))
    more = f" and {len(distinct) - 1} more" if len(distinct) > 1 else ""
    verb = "was" if len(preempted) == 1 else "were"
    return f" {pluralize(len(preempted), 'pod')} {verb} preempted by {distinct[0]}{more}."


def _present_headline(placed: Sequence[Placement], waiting: int, nodes_total: int) -> str:
    waits = f"{pluralize(waiting, 'pod')} {'waits' if waiting == 1 else 'wait'} for a node."
    if not placed:
        return waits if waiting else "It has no pod."
    nodes = {pod.node for pod in placed}
    of = f"{len(nodes)} of {pluralize(nodes_total, 'node')}" if nodes_total else pluralize(len(nodes), "node")
    text = f"{pluralize(len(placed), 'pod')} {'is' if len(placed) == 1 else 'are'} on {of}."
    return f"{text} {waits}" if waiting else text


def _decided(by: str, times: int, total: int) -> str:
    """Return a sentence on what decided `times` of `total` placements: "FACTOR decided 2 of 3." for a plugin."""
    reasons = {
        ONLY: "Why: only one node fitted",
        NOMINATED: "Why: preemption made room on the node",
        OUTSCORED: "Why is not on record: another node scored higher",
        UNSCORED: "Why is not on record: no node was scored",
    }
    if by in reasons:
        return f"{reasons[by]}, {times} of {pluralize(total, 'time')}."
    return f"{'A draw among equals' if by == TIE else by} decided {times} of {total}."


def _node(node: str, members: Sequence[Placement], placed: int) -> NodeOfWorkload:
    return {
        "node": node,
        "pods": len(members),
        "share": len(members) / placed,
        "decidedBy": count_by_factor(members),
        "meanMargin": _mean_margin(members),
        "lastAt": format_timestamp(max(p.started_us for p in members)),
    }


def _mean_margin(members: Iterable[Placement]) -> float | None:
    points = [p.decided_by.points for p in members if p.decided_by and p.decided_by.points is not None]
    return sum(points) / len(points) if points else None


def _recent(p: Placement) -> RecentPlacement:
    return {
        "pod": p.pod,
        "node": p.node,
        "startedAt": format_timestamp(p.started_us),
        "state": p.state,
        "decidedBy": p.decided_by.by if p.decided_by else None,
        "points": p.decided_by.points if p.decided_by else None,
    }
