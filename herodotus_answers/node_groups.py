"""Declare the answers about node groups and scale-down, which are parts of a ClusterReview and of a record.

Owns: their types, and what of them a record has room for. Does not own: the questions (`cluster_questions`), how they
are answered (`scheduler.engine.nodegroups`), screens. Pure.

Node groups, their sizes, amounts and labels belong to the cluster. A pod's verdicts belong to its namespace. Texts that
autoscalers wrote may name anything, so only a reader who sees every namespace gets them.

Invariant: a verdict says whether kube-scheduler's filters accept a pod on a node of the group's template. It never says
that an autoscaler will add the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypedDict

from herodotus_answers.cluster_headlines import find_problems
from herodotus_answers.declare import NotRequired
from herodotus_answers.live.cluster_objects import count_event, read_event_time
from herodotus_record.discloses import Discloses

_NODE_CLAIM: Final = re.compile(r"\bnodeclaim/([a-z0-9][a-z0-9.-]*[a-z0-9])")

# The verdicts on a pod and a node group.
Verdict = Literal["Fits", "FitsAtLimit", "DoesNotFit", "ShapeUnknown"]
FITS: Final = "Fits"
FITS_AT_LIMIT: Final = "FitsAtLimit"
DOES_NOT_FIT: Final = "DoesNotFit"
SHAPE_UNKNOWN: Final = "ShapeUnknown"

# What a record has room for. 64 verdicts with two rejections each take 20 kB, which the spool compresses on delivery.
MAX_RECORDED: Final = 64  # groups
MAX_REPORTS: Final = 5  # events of autoscalers
MAX_PROBLEMS: Final = 3  # conditions of a group
MAX_RECORDED_BYTES: Final = 64 << 10

# What is known of a group's nodes.
KNOWN: Final = "Known"
PARTLY_KNOWN: Final = "PartlyKnown"
UNKNOWN: Final = "Unknown"


# The reasons of autoscalers' events about pods. Karpenter's FailedScheduling is kube-scheduler's reason too.
_OF_PODS: Final = frozenset({"NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp", "Nominated"})
_FAILED: Final = "FailedScheduling"
_KARPENTER: Final = "karpenter"


def is_of_autoscaler(reason: str, component: str) -> bool:
    """Return whether an event about a pod is from an autoscaler, by its reason and the program that wrote it."""
    return reason in _OF_PODS or (reason == _FAILED and _KARPENTER in component.lower())


class NodeTemplate(TypedDict):
    """A node that a group would add, in one zone and of one instance type."""

    zone: Annotated[str, "Zone of the node; empty if it is not known.", Discloses.NODES]
    instanceType: Annotated[str, "Instance type of the node; empty if it is not known.", Discloses.NODES]
    source: Annotated[
        str, "Where the shape comes from: Nodes, NodeClaims, Annotations, File or Requirements.", Discloses.NOTHING
    ]
    labels: Annotated[dict[str, str], "Labels of the node.", Discloses.NODES]
    taints: Annotated[list[str], "Taints of the node, written KEY[=VALUE]:EFFECT.", Discloses.NODES]
    allocatable: Annotated[dict[str, str], "Allocatable amounts by resource.", Discloses.NODES]
    daemonPods: Annotated[
        int, "Number of pods of DaemonSets and static pods that the node starts with.", Discloses.NOTHING
    ]
    daemonRequests: Annotated[dict[str, str], "Sum of the requests of these pods by resource.", Discloses.NOTHING]
    volumeLimits: Annotated[dict[str, int], "Number of volumes that each CSI driver attaches.", Discloses.NODES]
    devices: Annotated[int, "Number of devices in the ResourceSlices of a node like it.", Discloses.NOTHING]


class NodeGroupCondition(TypedDict):
    """What an autoscaler's object reports: a condition, the phase of a machine, an event, or a group's status."""

    object: Annotated[str, "What the condition is about, such as NodePool/default.", Discloses.NODES]
    type: Annotated[str, "Type of the condition, or Phase of a machine, or Event.", Discloses.NOTHING]
    status: Annotated[str, "Status of the condition, or the phase; empty for an event.", Discloses.NOTHING]
    reason: Annotated[str, "Reason of the status or the event; empty if none is given.", Discloses.NOTHING]
    message: Annotated[str, "Message of the autoscaler.", Discloses.TEXT]
    since: Annotated[
        str, "Time since when it is so, or of the event's last occurrence; empty if unknown.", Discloses.NOTHING
    ]


class NodeGroup(TypedDict):
    """A group of equal nodes that an autoscaler or a person scales together."""

    name: Annotated[str, "Name of the group.", Discloses.NODES]
    source: Annotated[
        str, "What makes the nodes a group, such as `label eks.amazonaws.com/nodegroup`.", Discloses.NODES
    ]
    nodes: Annotated[int, "Number of nodes in the cluster.", Discloses.NOTHING]
    size: Annotated[int, "Number of nodes that the group's object requests.", Discloses.NOTHING]
    shape: Annotated[
        Literal["Known", "PartlyKnown", "Unknown"], "What is known of the group's nodes.", Discloses.NOTHING
    ]
    minSize: Annotated[int | None, "Smallest size of the group; null if it is not known.", Discloses.NOTHING]
    maxSize: Annotated[int | None, "Largest size of the group; null if it is not known.", Discloses.NOTHING]
    limits: Annotated[dict[str, str], "Limits of a NodePool by resource.", Discloses.NOTHING]
    used: Annotated[dict[str, str], "What the nodes use of these limits.", Discloses.NOTHING]
    atLimit: Annotated[str, "Why no node can be added; empty if nothing known prevents it.", Discloses.NOTHING]
    weight: Annotated[int | None, "Weight of a NodePool; null if it has none.", Discloses.NOTHING]
    taints: NotRequired[Annotated[list[str], "Taints of its nodes, written KEY[=VALUE]:EFFECT.", Discloses.NODES]]
    startupTaints: Annotated[list[str], "Taints that a new node loses by itself.", Discloses.NODES]
    disruptionBudgets: Annotated[list[str], "Disruption budgets of a NodePool.", Discloses.NOTHING]
    templates: Annotated[list[NodeTemplate], "Nodes that the group would add.", Discloses.PARTS]
    conditions: Annotated[list[NodeGroupCondition], "What autoscalers report about the group.", Discloses.PARTS]


class NodeGroupRejection(TypedDict):
    """A filter that rejects the pod on nodes of a group."""

    plugin: Annotated[str, "The filter.", Discloses.NOTHING]
    reasons: Annotated[list[str], "kube-scheduler's reasons.", Discloses.MESSAGE]
    zones: Annotated[list[str], "Zones of the templates that it rejects.", Discloses.NODES]


class NodeGroupVerdict(TypedDict):
    """Whether a pod fits on a new node of a group."""

    group: Annotated[str, "Name of the group.", Discloses.NODES]
    verdict: Annotated[Verdict, "The verdict.", Discloses.NOTHING]
    zones: Annotated[list[str], "Zones in which the pod fits, or may fit.", Discloses.NODES]
    atLimit: Annotated[str, "Why the group cannot grow; empty if nothing known prevents it.", Discloses.NOTHING]
    rejections: Annotated[list[NodeGroupRejection], "Every filter that rejects the pod.", Discloses.THIS_POD]
    change: Annotated[
        str, "Smallest change to the pod after which it fits; empty if none was found.", Discloses.THIS_POD
    ]
    unknown: Annotated[str, "What is not known; empty if the verdict is certain.", Discloses.NOTHING]


class EventReport(TypedDict):
    """An event about a pod or node, in the words of the program that wrote it."""

    component: Annotated[str, "Program that wrote the event.", Discloses.NOTHING]
    reason: Annotated[str, "Reason of the event.", Discloses.NOTHING]
    message: Annotated[str, "Message of the event.", Discloses.TEXT]
    at: Annotated[str, "Time of its last occurrence; empty if it is not known.", Discloses.NOTHING]
    count: Annotated[int, "Number of occurrences.", Discloses.NOTHING]


def list_autoscaler_reports(events: Iterable[dict[str, Any]]) -> list[EventReport]:
    """Return those of the Event objects about a pod that autoscalers wrote, given oldest first, the newest first."""
    reports = [each for each in map(read_report, events) if is_of_autoscaler(each["reason"], each["component"])]
    return reports[::-1][:MAX_REPORTS]


def read_report(event: dict[str, Any]) -> EventReport:
    """Return what an Event object says."""
    return {
        "component": str((event.get("source") or {}).get("component") or event.get("reportingComponent") or ""),
        "reason": str(event.get("reason") or ""),
        "message": str(event.get("message") or ""),
        "at": read_event_time(event),
        "count": count_event(event),
    }


def find_node_claims(reports: Iterable[EventReport]) -> list[str]:
    """Return the names of the NodeClaims that Karpenter's last report about a pod names; [] if there is none."""
    named = (_NODE_CLAIM.findall(report["message"]) for report in reports)
    return list(dict.fromkeys(next(filter(None, named), [])))


class PodVerdicts(TypedDict):
    """The verdicts on one pod for each node group, and what autoscalers report about the pod."""

    namespace: Annotated[str, "Namespace of the pod.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the pod.", Discloses.THIS_POD]
    owner: Annotated[str, "Owner of the pod as KIND/NAME; empty if it has none.", Discloses.THIS_POD]
    groups: Annotated[list[NodeGroupVerdict], "Verdict on each node group.", Discloses.PARTS]
    reports: Annotated[list[EventReport], "Events of autoscalers, the newest first.", Discloses.THIS_POD]


class NodeEstimate(TypedDict):
    """How many new nodes of one group the pending pods need, if only this group grows."""

    group: Annotated[str, "Name of the group.", Discloses.NODES]
    nodes: Annotated[int, "Number of new nodes.", Discloses.NOTHING]
    pods: Annotated[int, "Number of pods that find a node.", Discloses.NOTHING]
    onPresentNodes: Annotated[int, "Number of these pods that need no new node.", Discloses.NOTHING]
    left: Annotated[int, "Number of pods that find none.", Discloses.NOTHING]
    zones: Annotated[dict[str, int], "Number of new nodes by zone.", Discloses.NODES]
    limitedBy: Annotated[str, "Why the search ended early; empty if it did not.", Discloses.NOTHING]


class NodeGroupReview(TypedDict):
    """The node groups of a cluster, and the verdicts on the pods of the question."""

    groups: Annotated[list[NodeGroup], "The node groups.", Discloses.PARTS]
    pods: Annotated[list[PodVerdicts], "Verdicts on each pod of the question.", Discloses.PARTS]
    estimates: Annotated[list[NodeEstimate], "New nodes that the pending pods need, by group.", Discloses.PARTS]
    ungrouped: Annotated[int, "Number of nodes that belong to no group.", Discloses.NOTHING]
    conditions: Annotated[list[NodeGroupCondition], "What autoscalers report about the whole cluster.", Discloses.PARTS]


class RecordedNodeGroups(TypedDict):
    """The verdicts of the node groups on one pod, as they are stored with the record of an attempt."""

    review: Annotated[NodeGroupReview, "The verdicts, with the groups without templates.", Discloses.PARTS]
    omitted: Annotated[int, "Number of groups that found no room in the record.", Discloses.NOTHING]
    notes: Annotated[list[str], "What could not be read.", Discloses.TEXT]


class PodNodeGroups(NodeGroupReview):
    """The verdicts of the node groups on the pod that an explanation is about."""

    notes: Annotated[list[str], "What the verdicts do not take into account.", Discloses.TEXT]
    omittedGroups: NotRequired[Annotated[int, "Number of groups that found no room in the record.", Discloses.NOTHING]]
    recordedAt: NotRequired[
        Annotated[str | None, "Time at which the verdicts were made, if they are recorded.", Discloses.NOTHING]
    ]


def bound_node_groups(review: NodeGroupReview, notes: list[str]) -> RecordedNodeGroups:
    """Return the part of an answer about one pod that is recorded: at most MAX_RECORDED groups.

    Groups that fit come first, then those at their limit, those of unknown shape, and those that do not fit.
    """
    order = (FITS, FITS_AT_LIMIT, SHAPE_UNKNOWN, DOES_NOT_FIT)
    pods, names = list[PodVerdicts](), set[str]()
    for pod in review["pods"][:1]:
        recorded = sorted(pod["groups"], key=lambda verdict: order.index(verdict["verdict"]))[:MAX_RECORDED]
        names = {verdict["group"] for verdict in recorded}
        pods.append({**pod, "groups": recorded, "reports": pod["reports"][:MAX_REPORTS]})
    groups: list[NodeGroup] = [
        {
            **group,
            "templates": [],
            "conditions": [condition for condition, _ in find_problems(group["conditions"])[:MAX_PROBLEMS]],
        }
        for group in review["groups"]
        if group["name"] in names
    ]
    bounded: NodeGroupReview = {**review, "groups": groups, "pods": pods, "estimates": [], "conditions": []}
    return {"review": bounded, "omitted": len(review["groups"]) - len(groups), "notes": notes}


class ScaleDownBlocker(TypedDict):
    """Something that keeps a node in the cluster."""

    cause: Annotated[
        str,
        "ScaleDownDisabled, DoNotDisrupt, NotSafeToEvict, LocalStorage, NoController, CustomController, SystemPod,"
        " Budget, FitsNowhere, DisruptionBudget or MinSize.",
        Discloses.NOTHING,
    ]
    pod: Annotated[
        str | None, "Pod as NAMESPACE/NAME; null if the node or its group is the cause.", Discloses.NAMESPACE
    ]
    message: Annotated[str, "What keeps the node, in words.", Discloses.THIS_POD]
    reason: Annotated[
        str, "kube-scheduler's message about a pod that fits nowhere; empty for other causes.", Discloses.MESSAGE
    ]
    autoscaler: Annotated[
        str, "Autoscaler that it holds for: cluster-autoscaler or karpenter; empty for both.", Discloses.NOTHING
    ]


class NodeScaleDown(TypedDict):
    """A node and everything that keeps it from being removed; without blockers its pods fit on other nodes."""

    node: Annotated[str, "Name of the node.", Discloses.NODES]
    group: Annotated[str, "Name of its group; empty if it has none.", Discloses.NODES]
    pods: Annotated[int, "Number of pods that would have to move.", Discloses.NOTHING]
    blockers: Annotated[list[ScaleDownBlocker], "What keeps the node.", Discloses.PARTS]


class ScaleDown(TypedDict):
    """The nodes of the question with what keeps each of them."""

    nodes: Annotated[list[NodeScaleDown], "The nodes, those without blockers first.", Discloses.PARTS]
