"""Questions about node groups and scale-down, and their answers, as parts of a ClusterReview.

Owns: their structs and JSON forms. Does not own: the answers (`scheduler.engine.nodegroups`), masking, screens.

Invariant: a verdict says whether kube-scheduler's filters accept a pod on a node of the group's template. It never says
that an autoscaler will add the node.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Json = dict[str, Any]

# The verdicts on a pod and a node group.
FITS: Final = "Fits"
FITS_AT_LIMIT: Final = "FitsAtLimit"
DOES_NOT_FIT: Final = "DoesNotFit"
SHAPE_UNKNOWN: Final = "ShapeUnknown"

# What a record has room for. 64 verdicts with two rejections each take 20 kB, which the spool compresses on delivery.
MAX_RECORDED: Final = 64  # groups
MAX_REPORTS: Final = 5  # events of autoscalers
MAX_RECORDED_BYTES: Final = 64 << 10

# What is known of a group's nodes.
KNOWN: Final = "Known"
PARTLY_KNOWN: Final = "PartlyKnown"
UNKNOWN: Final = "Unknown"


class _Struct(msgspec.Struct, rename="camel", kw_only=True):
    pass


class NodeGroupShape(_Struct, forbid_unknown_fields=True):
    """A node group that a user describes in a file, with what a new node of it has.

    `selector` has the labels of the nodes that belong to the group. `taints` are written KEY[=VALUE]:EFFECT.
    `volume_limits` has the number of volumes that each CSI driver attaches to one node. A group that the cluster has
    under the same name takes what it lacks from the file.
    """

    name: str
    selector: dict[str, str] = {}
    zones: list[str] = []
    labels: dict[str, str] = {}
    taints: list[str] = []
    allocatable: dict[str, str | int | float] = {}
    volume_limits: dict[str, int] = {}
    min_size: int | None = None
    max_size: int | None = None


class NodeGroupsQuestion(_Struct, forbid_unknown_fields=True):
    """Which node groups there are, and which of them would take pods.

    `pods` are pending pods, NAMESPACE/NAME. `object` is a pod or workload that does not exist; its namespace is
    `namespace` if it names none. With `estimate`, the answer has the number of new nodes that all pending pods need in
    each group. `label_keys` are labels that name a node's group, before the well-known ones.
    """

    pods: list[str] = []
    object: Json | None = None
    namespace: str = ""
    estimate: bool = False
    label_keys: list[str] = []
    shapes: list[NodeGroupShape] = []


class ScaleDownQuestion(_Struct, forbid_unknown_fields=True):
    """What keeps an autoscaler from removing nodes; `nodes` is None for all nodes."""

    nodes: list[str] | None = None


class NodeTemplate(_Struct):
    """A node that a group would add, in one zone and of one instance type, "" if these are not known.

    `source` says where the shape comes from: Nodes, NodeClaims, Annotations, File or Requirements. `daemon_pods` is the
    number of pods of DaemonSets and static pods that the node starts with, and `daemon_requests` the sum of their
    requests. `devices` is the number of devices in the ResourceSlices of a node like it.
    """

    zone: str
    instance_type: str
    source: str
    labels: dict[str, str]
    taints: list[str]
    allocatable: dict[str, str]
    daemon_pods: int
    daemon_requests: dict[str, str]
    volume_limits: dict[str, int]
    devices: int


class NodeGroupCondition(_Struct):
    """A condition of a NodePool or of one of its NodeClaims, or what cluster-autoscaler reports about a group.

    `object` names what the condition is about, such as `NodePool/default`.
    """

    object: str
    type: str
    status: str
    reason: str
    message: str


class NodeGroup(_Struct):
    """A group of equal nodes that an autoscaler or a person scales together.

    `source` is what makes the nodes a group, such as `label eks.amazonaws.com/nodegroup`. `nodes` are those in the
    cluster, `size` what the group's object requests. `limits` and `used` are a NodePool's amounts by resource.
    `at_limit` says why no node can be added, or is "". `shape` is Known, PartlyKnown or Unknown.
    """

    name: str
    source: str
    nodes: int
    size: int
    shape: str
    min_size: int | None = None
    max_size: int | None = None
    limits: dict[str, str] = {}
    used: dict[str, str] = {}
    at_limit: str = ""
    weight: int | None = None
    startup_taints: list[str] = []
    disruption_budgets: list[str] = []
    templates: list[NodeTemplate] = []
    conditions: list[NodeGroupCondition] = []


class GroupRejection(_Struct):
    """A filter that rejects the pod on nodes of a group, with kube-scheduler's reasons.

    `zones` are those of the templates that it rejects.
    """

    plugin: str
    reasons: list[str]
    zones: list[str]


class GroupVerdict(_Struct):
    """Whether a pod fits on a new node of a group: Fits, FitsAtLimit, DoesNotFit or ShapeUnknown.

    `zones` are those in which it fits. `at_limit` says why the group cannot grow. `rejections` has every filter that
    rejects the pod. `change` is the smallest change to the pod after which it fits, "" if none was found. `unknown`
    says what is not known.
    """

    group: str
    verdict: str
    zones: list[str] = []
    at_limit: str = ""
    rejections: list[GroupRejection] = []
    change: str = ""
    unknown: str = ""


class AutoscalerReport(_Struct):
    """An event of an autoscaler about a pod, in the autoscaler's own words.

    `component` is the program that wrote it, and `at` the time of the last occurrence.
    """

    component: str
    reason: str
    message: str
    at: str
    count: int


class PodGroupVerdicts(_Struct):
    """The verdicts on one pod for each node group, and what autoscalers report about the pod."""

    namespace: str
    name: str
    owner: str = ""
    groups: list[GroupVerdict] = []
    reports: list[AutoscalerReport] = []


class NodeEstimate(_Struct):
    """How many new nodes of one group the pending pods need, if only this group grows.

    `pods` find a node, of which `on_present_nodes` need no new one; `left` find none. `zones` has the new nodes by
    zone. `limited_by` says why the search ended early, or is "".
    """

    group: str
    nodes: int
    pods: int
    on_present_nodes: int
    left: int
    zones: dict[str, int] = {}
    limited_by: str = ""


class NodeGroupReview(_Struct):
    """The node groups of a cluster, and the verdicts on the pods of the question.

    `ungrouped` is the number of nodes that belong to no group. `conditions` are those of the autoscaler as a whole.
    """

    groups: list[NodeGroup] = []
    pods: list[PodGroupVerdicts] = []
    estimates: list[NodeEstimate] = []
    ungrouped: int = 0
    conditions: list[NodeGroupCondition] = []


class RecordedNodeGroups(_Struct):
    """The verdicts of the node groups on one pod, as they are stored with the record of an attempt.

    `review` has the groups without their templates. `omitted` is the number of groups that found no room in the record,
    and `notes` says what could not be read.
    """

    review: NodeGroupReview
    omitted: int = 0
    notes: list[str] = []


def bound_node_groups(review: NodeGroupReview, notes: list[str]) -> RecordedNodeGroups:
    """Return the part of an answer about one pod that is recorded: at most MAX_RECORDED groups.

    Groups that fit come first, then those at their limit, those of unknown shape, and those that do not fit.
    """
    order = (FITS, FITS_AT_LIMIT, SHAPE_UNKNOWN, DOES_NOT_FIT)
    pods, names = list[PodGroupVerdicts](), set[str]()
    for pod in review.pods[:1]:
        recorded = sorted(pod.groups, key=lambda verdict: order.index(verdict.verdict))[:MAX_RECORDED]
        names = {verdict.group for verdict in recorded}
        pods.append(msgspec.structs.replace(pod, groups=recorded, reports=pod.reports[:MAX_REPORTS]))
    groups = [
        msgspec.structs.replace(group, templates=[], conditions=[]) for group in review.groups if group.name in names
    ]
    return RecordedNodeGroups(
        review=NodeGroupReview(groups=groups, pods=pods, ungrouped=review.ungrouped),
        omitted=len(review.groups) - len(groups),
        notes=notes,
    )


class ScaleDownBlocker(_Struct):
    """Something that keeps a node in the cluster.

    `cause` is ScaleDownDisabled, DoNotDisrupt, NotSafeToEvict, LocalStorage, NoController, CustomController, SystemPod,
    Budget, FitsNowhere, DisruptionBudget or MinSize. `pod` is NAMESPACE/NAME, or "" if the node or its group is the
    cause. `autoscaler` is the one that it holds for, `cluster-autoscaler` or `karpenter`, or "" for both.
    """

    cause: str
    message: str
    pod: str = ""
    autoscaler: str = ""


class NodeScaleDown(_Struct):
    """A node and everything that keeps it from being removed; without blockers its pods fit on other nodes."""

    node: str
    group: str
    pods: int
    blockers: list[ScaleDownBlocker]


class ScaleDown(_Struct):
    """The nodes of the question with what keeps each of them."""

    nodes: list[NodeScaleDown]
