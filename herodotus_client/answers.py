"""Types of answers, from their JSON Schemas (`kubectl herodotus schema`).

This file is generated (`scripts/client_types.py`). A newer service may add fields, and an older one may lack some.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class AgreementsMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class Agreements(TypedDict, total=False):
    """Comparison of other schedulers' outcomes with the observer's reconstructions."""

    apiVersion: str
    kind: Literal["Agreements"]
    metadata: AgreementsMetadata
    since: str
    until: str
    complete: bool
    schedulers: list[dict[str, Any]]
    causes: list[dict[str, Any]]
    disagreements: list[dict[str, Any]]
    disagreementsOmitted: int


class AutoscalerReport(TypedDict, total=False):
    """An event of an autoscaler about a pod, in the autoscaler's own words.

    `component` is the program that wrote it, and `at` the time of the last occurrence.
    """

    component: str
    reason: str
    message: str
    at: str
    count: int


class BalanceMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class Balance(TypedDict, total=False):
    """How placements spread over nodes, which plugins decided, and which node would win with other weights."""

    apiVersion: str
    kind: Literal["Balance"]
    metadata: BalanceMetadata
    since: str
    to: str
    headline: str
    decisions: int
    complete: bool
    plugins: list[dict[str, Any]]
    overTime: list[dict[str, Any]]
    otherReasons: dict[str, int]
    nodes: list[dict[str, Any]]
    nodesOmitted: int
    weights: dict[str, int] | None
    moved: int | None
    moves: list[dict[str, Any]]
    movesOmitted: int


class BlockedPod(TypedDict, total=False):
    """A pod that stays on its node although the changes should move it.

    `cause` is Budget, LocalStorage, NoController, DaemonSet or NodeNotDrained. `message` has kubectl's or the API
    server's words. `budget` is the name of the PodDisruptionBudget, or "".
    """

    namespace: str
    name: str
    node: str
    cause: str
    message: str
    owner: str
    budget: str


class Capacity(TypedDict, total=False):
    """How many of the pods fit.

    `limited` is True if the search ended at its limit. `message` is what kube-scheduler would say about the next pod.
    `zones` are the pods that fit by zone; nodes without the label topology.kubernetes.io/zone count under "". If the
    pods fit only in groups of `group_size`, `groups` is how many groups fit.
    """

    fits: int
    limited: bool
    message: str
    nodes: list[NodeCapacity]
    zones: dict[str, int]
    groups: int | None
    groupSize: int


class ChangedNode(TypedDict, total=False):
    """A node before and after the changes.

    `before` or `after` is None where the node did not or does not exist.
    """

    name: str
    before: NodeAmounts | None
    after: NodeAmounts | None
    schedulable: bool


class ClusterMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class Cluster(TypedDict, total=False):
    """A cluster whose records the service has, which `cluster` of a request names."""

    apiVersion: str
    kind: Literal["Cluster"]
    metadata: ClusterMetadata
    displayName: str | None
    own: bool
    lastSeenAt: str
    schedulers: list[str]
    incarnations: int
    missing: int
    explainedByGaps: int


# Metadata of the page.
ClusterListMetadata = TypedDict(
    "ClusterListMetadata",
    {
        "continue": "str",
        "resourceVersion": "str",
    },
    total=False,
)


class ClusterList(TypedDict, total=False):
    """A page of items of kind Cluster."""

    apiVersion: str
    kind: Literal["ClusterList"]
    metadata: ClusterListMetadata
    items: list[Cluster]


class ClusterReview(TypedDict, total=False):
    """What would follow if a cluster were changed, and how many pods would fit."""

    apiVersion: str
    kind: Literal["ClusterReview"]
    metadata: dict[str, Any]
    status: ClusterReviewStatus


# The answer. `notes` are sentences about what the answer does not take into account. While `phase` is Running, only
# `progress` and `continue_` are set: the token with which to ask for the rest.
ClusterReviewStatus = TypedDict(
    "ClusterReviewStatus",
    {
        "phase": "str",
        "progress": "ReviewProgress | None",
        "continue": "str",
        "placements": "list[ReviewedPlacement]",
        "blocked": "list[BlockedPod]",
        "ignored": "list[RemovedPod]",
        "deleted": "list[RemovedPod]",
        "pending": "list[ReviewedPlacement]",
        "groups": "list[ReviewedGroup]",
        "nodes": "list[ChangedNode]",
        "capacity": "Capacity | None",
        "consolidation": "Consolidation | None",
        "nodeGroups": "NodeGroupReview | None",
        "scaleDown": "ScaleDown | None",
        "upgrade": "UpgradeReview | None",
        "notes": "list[str]",
    },
    total=False,
)


class Consolidation(TypedDict, total=False):
    """The nodes that could be emptied, in this order, and those that could not."""

    emptied: list[EmptiedNode]
    kept: list[KeptNode]


class DecisionMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class DecisionSpecKey(TypedDict, total=False):
    """Unique key of the attempt."""

    cluster: str | None
    source: str
    incarnation: str
    podUID: str | None
    attempt: int


class DecisionSpecScheduler(TypedDict, total=False):
    """Scheduler that made the attempt."""

    profile: str | None
    identity: str | None
    version: str | None
    rules: str | None
    rulesSource: str | None


class DecisionSpecPodOwner(TypedDict, total=False):
    """Controller that owns the pod; null if it has none."""

    kind: str
    name: str


class DecisionSpecPod(TypedDict, total=False):
    """Pod as the attempt read it."""

    namespace: str
    name: str
    uid: str | None
    labels: dict[str, str] | None
    owner: DecisionSpecPodOwner | None
    priority: int | None
    requests: dict[str, int] | None
    digest: str | None
    nominatedNode: str | None
    podGroup: str | None


class DecisionSpecTimes(TypedDict, total=False):
    """Times and durations of the attempt."""

    podCreatedAt: str | None
    queuedAt: str | None
    startedAt: str
    phaseSeconds: dict[str, float] | None
    queueSeconds: dict[str, float] | None


class DecisionSpecSnapshot(TypedDict, total=False):
    """Snapshot of the cluster on which the attempt decided."""

    generation: int | None
    nodes: int | None
    evaluated: int | None
    feasible: int | None


class DecisionSpecPreFiltersItemReasonsItem(TypedDict, total=False):
    """An entry of DecisionSpecPreFiltersItemReasons."""

    code: str
    params: dict[str, str]
    sentence: str


class DecisionSpecPreFiltersItem(TypedDict, total=False):
    """An entry of DecisionSpecPreFilters."""

    plugin: str
    code: str
    reasons: list[DecisionSpecPreFiltersItemReasonsItem]


class DecisionSpecFiltersItemRejectedValueReasonsItem(TypedDict, total=False):
    """An entry of DecisionSpecFiltersItemRejectedValueReasons."""

    code: str
    params: dict[str, str]
    sentence: str


class DecisionSpecFiltersItemRejectedValue(TypedDict, total=False):
    """An entry of DecisionSpecFiltersItemRejectedValue."""

    code: str
    reasons: list[DecisionSpecFiltersItemRejectedValueReasonsItem]


class DecisionSpecFiltersItem(TypedDict, total=False):
    """An entry of DecisionSpecFilters."""

    plugin: str
    skipped: bool
    rejected: dict[str, DecisionSpecFiltersItemRejectedValue]
    notRun: list[str]


class DecisionSpecScoresItem(TypedDict, total=False):
    """An entry of DecisionSpecScores."""

    plugin: str
    weight: int
    skipped: bool
    raw: dict[str, int] | None
    normalized: dict[str, int]


class DecisionSpecPostFiltersItemReasonsItem(TypedDict, total=False):
    """An entry of DecisionSpecPostFiltersItemReasons."""

    code: str
    params: dict[str, str]
    sentence: str


class DecisionSpecPostFiltersItem(TypedDict, total=False):
    """An entry of DecisionSpecPostFilters."""

    plugin: str
    code: str
    reasons: list[DecisionSpecPostFiltersItemReasonsItem]


class DecisionSpecPreemptionCandidatesItem(TypedDict, total=False):
    """An entry of DecisionSpecPreemptionCandidates."""

    node: str
    victims: list[str]
    pdbViolations: int
    rejectedBy: str | None


class DecisionSpecPreemption(TypedDict, total=False):
    """Result of preemption; null if no PostFilter plugin found pods to evict."""

    nominatedNode: str | None
    candidates: list[DecisionSpecPreemptionCandidatesItem]
    evicted: bool


class DecisionSpecRequeuedBy(TypedDict, total=False):
    """Cluster event that requeued the pod; null if the pod had not waited for one."""

    event: str
    plugin: str | None


class DecisionSpecRetry(TypedDict, total=False):
    """Time of the next attempt for a rejected pod; null if the attempt chose a node."""

    queue: str
    notBefore: str
    latest: str | None


class DecisionSpecInputsItemNumbersItem(TypedDict, total=False):
    """An entry of DecisionSpecInputsItemNumbers."""

    name: str
    unit: str
    values: dict[str, float | None]


class DecisionSpecInputsItem(TypedDict, total=False):
    """An entry of DecisionSpecInputs."""

    plugin: str
    source: str
    numbers: list[DecisionSpecInputsItemNumbersItem]
    measuredAt: dict[str, str | None]
    stale: list[str]


class DecisionSpecReconstruction(TypedDict, total=False):
    """Comparison of the observer's reconstruction with the other scheduler's outcome; null if there is none."""

    agreement: str
    cause: str | None
    bindingsInFlight: int
    deletionsInFlight: int


class DecisionSpecPrunedFiltersItemVerdictsItemReasonsItem(TypedDict, total=False):
    """An entry of DecisionSpecPrunedFiltersItemVerdictsItemReasons."""

    code: str
    params: dict[str, str]
    sentence: str


class DecisionSpecPrunedFiltersItemVerdictsItem(TypedDict, total=False):
    """Verdict and the number of nodes with it."""

    code: str
    reasons: list[DecisionSpecPrunedFiltersItemVerdictsItemReasonsItem]
    nodes: int
    first: int


class DecisionSpecPrunedFiltersItem(TypedDict, total=False):
    """Verdicts of one filter."""

    plugin: str
    verdicts: list[DecisionSpecPrunedFiltersItemVerdictsItem]


class DecisionSpecPruned(TypedDict, total=False):
    """Summary that replaces a pruned record; null if the record is complete.

    Fields with an entry per node then contain only the kept nodes.
    """

    at: str
    evaluation: dict[str, int]
    filters: list[DecisionSpecPrunedFiltersItem]
    ties: int
    keptNodes: int
    text: str


class DecisionSpecSuggestionsItemChangesItem(TypedDict, total=False):
    """An entry of DecisionSpecSuggestionsItemChanges."""

    code: str
    params: dict[str, str]
    sentence: str


class DecisionSpecSuggestionsItem(TypedDict, total=False):
    """An entry of DecisionSpecSuggestions."""

    node: str
    changes: list[DecisionSpecSuggestionsItemChangesItem]
    patch: str
    checked: bool


class DecisionSpecDevicesItem(TypedDict, total=False):
    """An entry of DecisionSpecDevices."""

    claim: str
    request: str
    driver: str
    pool: str
    device: str
    adminAccess: bool
    consumedCapacity: dict[str, str]


class DecisionSpecPodGroupCycle(TypedDict, total=False):
    """Scheduling cycle of the pod's group in which it was decided; null if the pod was decided alone."""

    number: int
    position: int
    pods: int
    scheduled: int
    minCount: int


# One part.
DecisionSpecOriginsPartsItem = TypedDict(
    "DecisionSpecOriginsPartsItem",
    {
        "part": "str",
        "text": "str",
        "from": "list[str]",
        "overruled": "int",
    },
    total=False,
)


class DecisionSpecOrigins(TypedDict, total=False):
    """Origin of each part if a log record and a reconstruction of one attempt are merged; otherwise absent."""

    records: dict[str, str]
    parts: list[DecisionSpecOriginsPartsItem]
    rest: str
    evaluation: str


class DecisionSpecArchive(TypedDict, total=False):
    """Where the decision comes from, if it is in the archive and not in the database any more."""

    day: str


class DecisionSpec(TypedDict, total=False):
    """What the scheduling attempt read and computed.

    Lists omit the fields with an entry per node.
    """

    key: DecisionSpecKey
    sequence: int
    scheduler: DecisionSpecScheduler
    pod: DecisionSpecPod
    times: DecisionSpecTimes
    snapshot: DecisionSpecSnapshot
    preFilters: list[DecisionSpecPreFiltersItem] | None
    restrictedBy: list[str] | None
    evaluation: dict[str, str]
    filters: list[DecisionSpecFiltersItem]
    scores: list[DecisionSpecScoresItem]
    totals: dict[str, int]
    rank: dict[str, int]
    seed: int | None
    postFilters: list[DecisionSpecPostFiltersItem] | None
    preemption: DecisionSpecPreemption | None
    requeuedBy: DecisionSpecRequeuedBy | None
    retry: DecisionSpecRetry | None
    inputs: list[DecisionSpecInputsItem]
    unknown: list[str]
    reconstruction: DecisionSpecReconstruction | None
    pruned: DecisionSpecPruned | None
    notes: list[str]
    suggestions: list[DecisionSpecSuggestionsItem]
    devices: list[DecisionSpecDevicesItem]
    podGroupCycle: DecisionSpecPodGroupCycle | None
    ties: list[str]
    origins: DecisionSpecOrigins
    archive: DecisionSpecArchive


class DecisionStatusOutcomesItem(TypedDict, total=False):
    """An entry of DecisionStatusOutcomes."""

    sequence: int
    phase: str
    status: str
    node: str
    message: str
    at: str
    durationSeconds: float
    final: bool
    nodeGroups: dict[str, Any] | None
    repeats: int


class DecisionStatus(TypedDict, total=False):
    """Outcome of the attempt."""

    state: str
    path: str
    node: str | None
    message: str
    lost: bool
    outcomes: list[DecisionStatusOutcomesItem]


class Decision(TypedDict, total=False):
    """One attempt to schedule one pod."""

    apiVersion: str
    kind: Literal["Decision"]
    metadata: DecisionMetadata
    spec: DecisionSpec
    status: DecisionStatus


# Metadata of the page.
DecisionListMetadata = TypedDict(
    "DecisionListMetadata",
    {
        "continue": "str",
        "resourceVersion": "str",
    },
    total=False,
)


class DecisionList(TypedDict, total=False):
    """A page of items of kind Decision."""

    apiVersion: str
    kind: Literal["DecisionList"]
    metadata: DecisionListMetadata
    items: list[Decision]


class EmptiedNode(TypedDict, total=False):
    """A node that could be emptied, with the nodes that take its pods: node name to number of pods."""

    node: str
    pods: int
    targets: dict[str, int]


class GatedPodMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class GatedPodQueueQuotaItem(TypedDict, total=False):
    """Quota of one resource."""

    flavor: str | None
    resource: str
    used: str | None
    limit: str | None


class GatedPodQueue(TypedDict, total=False):
    """The queue of Kueue or Volcano in which the pod waits, as their objects describe it; absent for other pods."""

    by: str
    object: str | None
    localQueue: str | None
    queue: str | None
    state: str | None
    message: str | None
    minMember: int | None
    position: int | None
    waiting: int | None
    quota: list[GatedPodQueueQuotaItem]
    notes: list[str]


class GatedPod(TypedDict, total=False):
    """A pod that waits for its scheduling gates."""

    apiVersion: str
    kind: Literal["GatedPod"]
    metadata: GatedPodMetadata
    schedulingGates: list[str]
    queue: GatedPodQueue
    createdAt: str
    owner: str | None
    schedulerName: str
    headline: str


class GroupRejection(TypedDict, total=False):
    """A filter that rejects the pod on nodes of a group, with kube-scheduler's reasons.

    `zones` are those of the templates that it rejects.
    """

    plugin: str
    reasons: list[str]
    zones: list[str]


class GroupVerdict(TypedDict, total=False):
    """Whether a pod fits on a new node of a group: Fits, FitsAtLimit, DoesNotFit or ShapeUnknown.

    `zones` are those in which it fits. `at_limit` says why the group cannot grow. `rejections` has every filter that
    rejects the pod. `change` is the smallest change to the pod after which it fits, "" if none was found. `unknown`
    says what is not known.
    """

    group: str
    verdict: str
    zones: list[str]
    atLimit: str
    rejections: list[GroupRejection]
    change: str
    unknown: str


class IncarnationMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class IncarnationMissingRangesItem(TypedDict, total=False):
    """One range of missing sequence numbers."""

    first: int
    last: int
    explained: bool


class Incarnation(TypedDict, total=False):
    """One run of a scheduler process, and which of its records are missing."""

    apiVersion: str
    kind: Literal["Incarnation"]
    metadata: IncarnationMetadata
    cluster: str | None
    identity: str | None
    profiles: list[str]
    lastSeenAt: str
    nodeTableGeneration: int | None
    highestSequence: int | None
    missing: int
    explainedByGaps: int
    missingRanges: list[IncarnationMissingRangesItem]
    missingRangesOmitted: int


# Metadata of the page.
IncarnationListMetadata = TypedDict(
    "IncarnationListMetadata",
    {
        "continue": "str",
        "resourceVersion": "str",
    },
    total=False,
)


class IncarnationList(TypedDict, total=False):
    """A page of items of kind Incarnation."""

    apiVersion: str
    kind: Literal["IncarnationList"]
    metadata: IncarnationListMetadata
    items: list[Incarnation]


class KeptNode(TypedDict, total=False):
    """A node that cannot be emptied, and the pods that keep it: NAMESPACE/NAME to the reason."""

    node: str
    pods: dict[str, str]


class NodeAmounts(TypedDict, total=False):
    """The number of pods on a node and the sums of their requests, in millicores and bytes."""

    pods: int
    cpu: int
    memory: int


class NodeCapacity(TypedDict, total=False):
    """How many of the pods fit on a node.

    `limited_by` is what keeps the next one from it.
    """

    node: str
    fits: int
    limitedBy: str


class NodeComparisonMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class NodeComparison(TypedDict, total=False):
    """Comparison of two nodes for one pod."""

    apiVersion: str
    kind: Literal["NodeComparison"]
    metadata: NodeComparisonMetadata
    headline: str
    attempt: dict[str, Any]
    nodes: list[dict[str, Any]]
    filters: list[dict[str, Any]]
    scores: list[dict[str, Any]]
    totals: list[int] | None


class NodeEstimate(TypedDict, total=False):
    """How many new nodes of one group the pending pods need, if only this group grows.

    `pods` find a node, of which `on_present_nodes` need no new one; `left` find none. `zones` has the new nodes by
    zone. `limited_by` says why the search ended early, or is "".
    """

    group: str
    nodes: int
    pods: int
    onPresentNodes: int
    left: int
    zones: dict[str, int]
    limitedBy: str


class NodeGroup(TypedDict, total=False):
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
    minSize: int | None
    maxSize: int | None
    limits: dict[str, str]
    used: dict[str, str]
    atLimit: str
    weight: int | None
    startupTaints: list[str]
    disruptionBudgets: list[str]
    templates: list[NodeTemplate]
    conditions: list[NodeGroupCondition]


class NodeGroupCondition(TypedDict, total=False):
    """A condition of a NodePool or of one of its NodeClaims, or what cluster-autoscaler reports about a group.

    `object` names what the condition is about, such as `NodePool/default`.
    """

    object: str
    type: str
    status: str
    reason: str
    message: str


class NodeGroupReview(TypedDict, total=False):
    """The node groups of a cluster, and the verdicts on the pods of the question.

    `ungrouped` is the number of nodes that belong to no group. `conditions` are those of the autoscaler as a whole.
    """

    groups: list[NodeGroup]
    pods: list[PodGroupVerdicts]
    estimates: list[NodeEstimate]
    ungrouped: int
    conditions: list[NodeGroupCondition]


class NodeHistoryMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


# Time window in which decisions are counted.
NodeHistoryWindow = TypedDict(
    "NodeHistoryWindow",
    {
        "from": "str",
        "to": "str",
        "bucketSeconds": "int",
    },
    total=False,
)


class NodeHistory(TypedDict, total=False):
    """How often a node was considered, rejected and chosen in a time window, and why."""

    apiVersion: str
    kind: Literal["NodeHistory"]
    metadata: NodeHistoryMetadata
    source: str
    window: NodeHistoryWindow
    considered: int
    evaluated: int
    feasible: int
    chosen: int
    notEvaluated: int
    eligibility: dict[str, Any]
    overTime: list[dict[str, Any]]
    filters: list[dict[str, Any]]
    scores: dict[str, Any]
    won: dict[str, Any]
    lost: dict[str, Any]
    workloads: list[dict[str, Any]]
    workloadsOmitted: int
    recent: list[dict[str, Any]]
    recentOf: int
    share: dict[str, Any]
    keepsGetting: list[dict[str, Any]]
    keepsGettingOf: int


# Metadata of the page.
NodeHistoryListMetadata = TypedDict(
    "NodeHistoryListMetadata",
    {
        "continue": "str",
        "resourceVersion": "str",
    },
    total=False,
)


class NodeHistoryList(TypedDict, total=False):
    """A page of items of kind NodeHistory."""

    apiVersion: str
    kind: Literal["NodeHistoryList"]
    metadata: NodeHistoryListMetadata
    items: list[NodeHistory]


class NodeScaleDown(TypedDict, total=False):
    """A node and everything that keeps it from being removed; without blockers its pods fit on other nodes."""

    node: str
    group: str
    pods: int
    blockers: list[ScaleDownBlocker]


class NodeTemplate(TypedDict, total=False):
    """A node that a group would add, in one zone and of one instance type, "" if these are not known.

    `source` says where the shape comes from: Nodes, NodeClaims, Annotations, File or Requirements. `daemon_pods` is the
    number of pods of DaemonSets and static pods that the node starts with, and `daemon_requests` the sum of their
    requests. `devices` is the number of devices in the ResourceSlices of a node like it.
    """

    zone: str
    instanceType: str
    source: str
    labels: dict[str, str]
    taints: list[str]
    allocatable: dict[str, str]
    daemonPods: int
    daemonRequests: dict[str, str]
    volumeLimits: dict[str, int]
    devices: int


class PendingPodsMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class PendingPodsGoneItem(TypedDict, total=False):
    """A pod."""

    namespace: str
    pod: str
    uid: str
    startedAt: str | None
    fate: str | None


class PendingPods(TypedDict, total=False):
    """Pods whose last attempt did not find a node."""

    apiVersion: str
    kind: Literal["PendingPods"]
    metadata: PendingPodsMetadata
    at: str
    count: int
    overdue: int
    groups: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    podsOmitted: int
    source: str
    noRecords: bool
    gone: list[PendingPodsGoneItem]


class PlacementReviewMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class PlacementReviewSpec(TypedDict, total=False):
    """The hypothetical pods."""

    object: dict[str, Any]
    manifest: str
    replicas: int
    schedulerName: str
    node: str
    allNodes: bool
    cluster: str
    kind: str


class PlacementReviewStatus(TypedDict, total=False):
    """Result of the review."""

    headline: str
    fits: int
    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    first: dict[str, Any]
    stopped: dict[str, Any] | None


class PlacementReview(TypedDict, total=False):
    """Placement of hypothetical pods by the engine of a running scheduler."""

    apiVersion: str
    kind: Literal["PlacementReview"]
    metadata: PlacementReviewMetadata
    spec: PlacementReviewSpec
    status: PlacementReviewStatus


class PluginExplanationMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class PluginExplanationReasonsItem(TypedDict, total=False):
    """A reason."""

    code: str
    message: str


class PluginExplanation(TypedDict, total=False):
    """A plugin: what it checks, and how a pod that it rejects can be helped."""

    apiVersion: str
    kind: Literal["PluginExplanation"]
    metadata: PluginExplanationMetadata
    checks: str
    fields: list[str]
    reasons: list[PluginExplanationReasonsItem]
    possibleChanges: list[str]
    documentation: str


class PluginExplanationListMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class PluginExplanationListItemsItemReasonsItem(TypedDict, total=False):
    """A reason."""

    code: str
    message: str


class PluginExplanationListItemsItem(TypedDict, total=False):
    """A plugin: what it checks, and how a pod that it rejects can be helped."""

    checks: str
    fields: list[str]
    reasons: list[PluginExplanationListItemsItemReasonsItem]
    possibleChanges: list[str]
    documentation: str


class PluginExplanationList(TypedDict, total=False):
    """All plugins."""

    apiVersion: str
    kind: Literal["PluginExplanationList"]
    metadata: PluginExplanationListMetadata
    items: list[PluginExplanationListItemsItem]


class PodComparisonMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class PodComparison(TypedDict, total=False):
    """Comparison of two pods, each at its last attempt."""

    apiVersion: str
    kind: Literal["PodComparison"]
    metadata: PodComparisonMetadata
    headline: str
    sameQuestion: bool
    secondsApart: float
    pods: list[dict[str, Any]]
    differences: dict[str, Any]
    nodes: list[dict[str, Any]]


class PodExplanationMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


# A change.
PodExplanationSuggestionsItemAlsoItem = TypedDict(
    "PodExplanationSuggestionsItemAlsoItem",
    {
        "kind": "str",
        "object": "str",
        "field": "str",
        "from": "str | None",
        "to": "str | None",
    },
    total=False,
)


class PodExplanationSuggestionsItemRightsItem(TypedDict, total=False):
    """A right."""

    verb: str
    resource: str
    namespace: str


# A change after which the pod would fit on a node.
PodExplanationSuggestionsItem = TypedDict(
    "PodExplanationSuggestionsItem",
    {
        "kind": "str",
        "object": "str",
        "field": "str",
        "from": "str | None",
        "to": "str | None",
        "also": "list[PodExplanationSuggestionsItemAlsoItem]",
        "node": "str",
        "text": "str",
        "command": "str | None",
        "deletes": "list[str]",
        "rights": "list[PodExplanationSuggestionsItemRightsItem]",
        "checked": "bool",
    },
    total=False,
)


# One part.
PodExplanationOriginsPartsItem = TypedDict(
    "PodExplanationOriginsPartsItem",
    {
        "part": "str",
        "text": "str",
        "from": "list[str]",
        "overruled": "int",
    },
    total=False,
)


class PodExplanationOrigins(TypedDict, total=False):
    """Origin of each part if a log record and a reconstruction of one attempt are merged; otherwise absent."""

    records: dict[str, str]
    parts: list[PodExplanationOriginsPartsItem]
    rest: str
    evaluation: str


class PodExplanationArchive(TypedDict, total=False):
    """Where the decision comes from, if it is in the archive and not in the database any more."""

    day: str


class PodExplanationPrunedFiltersItemVerdictsItemReasonsItem(TypedDict, total=False):
    """An entry of PodExplanationPrunedFiltersItemVerdictsItemReasons."""

    code: str
    params: dict[str, str]
    sentence: str


class PodExplanationPrunedFiltersItemVerdictsItem(TypedDict, total=False):
    """Verdict and the number of nodes with it."""

    code: str
    reasons: list[PodExplanationPrunedFiltersItemVerdictsItemReasonsItem]
    nodes: int
    first: int


class PodExplanationPrunedFiltersItem(TypedDict, total=False):
    """Verdicts of one filter."""

    plugin: str
    verdicts: list[PodExplanationPrunedFiltersItemVerdictsItem]


class PodExplanationPruned(TypedDict, total=False):
    """Summary that replaces a pruned record; null if the record is complete.

    Fields with an entry per node then contain only the kept nodes.
    """

    at: str
    evaluation: dict[str, int]
    filters: list[PodExplanationPrunedFiltersItem]
    ties: int
    keptNodes: int
    text: str


class PodExplanationQueueQuotaItem(TypedDict, total=False):
    """Quota of one resource."""

    flavor: str | None
    resource: str
    used: str | None
    limit: str | None


class PodExplanationQueue(TypedDict, total=False):
    """The queue of Kueue or Volcano in which the pod waits, as their objects describe it; absent for other pods."""

    by: str
    object: str | None
    localQueue: str | None
    queue: str | None
    state: str | None
    message: str | None
    minMember: int | None
    position: int | None
    waiting: int | None
    quota: list[PodExplanationQueueQuotaItem]
    notes: list[str]


class PodExplanation(TypedDict, total=False):
    """Explanation of one attempt to schedule a pod: its result, and the verdicts and scores behind it."""

    apiVersion: str
    kind: Literal["PodExplanation"]
    metadata: PodExplanationMetadata
    headline: str
    summary: str
    message: str
    pod: dict[str, Any]
    attempt: dict[str, Any]
    outcome: dict[str, Any]
    nodes: dict[str, Any]
    ranking: list[dict[str, Any]]
    rejections: list[dict[str, Any]]
    possibleChanges: list[str]
    suggestions: list[PodExplanationSuggestionsItem]
    devices: list[dict[str, Any]]
    deviceShortage: dict[str, Any] | None
    tie: dict[str, Any] | None
    margin: dict[str, Any] | None
    preFilters: list[dict[str, Any]]
    restrictedBy: list[str]
    filters: list[dict[str, Any]]
    scorePlugins: list[dict[str, Any]]
    inputs: list[dict[str, Any]]
    rankingOmitted: int
    preemption: dict[str, Any] | None
    postFilters: list[dict[str, Any]]
    notes: list[str]
    nodeGroups: dict[str, Any]
    reconstruction: dict[str, Any] | None
    origins: PodExplanationOrigins
    archive: PodExplanationArchive
    pruned: PodExplanationPruned | None
    columns: dict[str, Any]
    perNode: list[dict[str, Any]]
    preemptedBy: dict[str, Any]
    queue: PodExplanationQueue


class PodGroupPlacementMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class PodGroupPlacementCycle(TypedDict, total=False):
    """Last cycle of the group; null if its pods were decided alone."""

    number: int
    pods: int
    scheduledBefore: int
    startedAt: str
    seconds: float


class PodGroupPlacementShortageClosestNode(TypedDict, total=False):
    """Rejected node that is closest to fitting the next pod."""

    node: str
    reason: str


class PodGroupPlacementShortage(TypedDict, total=False):
    """What would have been enough; null if no pod is missing."""

    pods: int
    requests: dict[str, Any]
    closestNode: PodGroupPlacementShortageClosestNode | None
    enoughMinCount: int | None


class PodGroupPlacementReasonsItem(TypedDict, total=False):
    """A reason and its pods."""

    reason: str
    pods: int
    first: str
    position: int | None
    id: str
    message: str
    headline: str | None
    suggestions: list[dict[str, Any]]


class PodGroupPlacementNodesItem(TypedDict, total=False):
    """A node."""

    node: str
    pods: int
    last: str
    position: int | None
    full: bool | None
    reason: str | None


class PodGroupPlacementPodsItem(TypedDict, total=False):
    """A pod."""

    namespace: str
    pod: str
    uid: str
    position: int | None
    state: str
    node: str | None
    provisional: bool
    reason: str | None
    attempt: int
    startedAt: str
    id: str


class PodGroupPlacement(TypedDict, total=False):
    """How the pods of a PodGroup were placed together, or which of them block it."""

    apiVersion: str
    kind: Literal["PodGroupPlacement"]
    metadata: PodGroupPlacementMetadata
    source: str
    state: str
    headline: str
    message: str
    minCount: int | None
    members: int
    placed: int
    provisional: int
    blocked: int
    notRecorded: int
    missing: int
    cycle: PodGroupPlacementCycle | None
    shortage: PodGroupPlacementShortage | None
    reasons: list[PodGroupPlacementReasonsItem]
    reasonsOmitted: int
    nodes: list[PodGroupPlacementNodesItem]
    pods: list[PodGroupPlacementPodsItem]


class PodGroupVerdicts(TypedDict, total=False):
    """The verdicts on one pod for each node group, and what autoscalers report about the pod."""

    namespace: str
    name: str
    owner: str
    groups: list[GroupVerdict]
    reports: list[AutoscalerReport]


class PodHistoryMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class PodHistoryArchive(TypedDict, total=False):
    """Where the decision comes from, if it is in the archive and not in the database any more."""

    day: str


class PodHistory(TypedDict, total=False):
    """Attempts to schedule a pod, oldest first."""

    apiVersion: str
    kind: Literal["PodHistory"]
    metadata: PodHistoryMetadata
    owner: str | None
    createdAt: str
    attempts: list[dict[str, Any]]
    attemptsOmitted: int
    repeatedAttempts: int
    archive: PodHistoryArchive


class PreemptionsMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class Preemptions(TypedDict, total=False):
    """Pods that were evicted to make room for pods of higher priority, by the decision that chose them."""

    apiVersion: str
    kind: Literal["Preemptions"]
    metadata: PreemptionsMetadata
    since: str
    until: str
    complete: bool
    preemptions: list[dict[str, Any]]


class RemovedPod(TypedDict, total=False):
    """A pod that a drain ignores, or that is deleted without a replacement; `cause` is the reason."""

    namespace: str
    name: str
    node: str
    cause: str
    owner: str


class ReviewProgress(TypedDict, total=False):
    """How many pods were decided, and how many are known to be decided in all."""

    done: int
    total: int


class ReviewedGroup(TypedDict, total=False):
    """A pod group whose pods were decided together.

    `pods` counts the pods that waited for a node, and `feasible` those that found one. `fits` tells whether the group
    reached its quorum, `min_count`, so that they are placed; 0 means that the pods are independent. `stopped_at` is the
    first pod without a node, or "", and `reason` is kube-scheduler's message about it.
    """

    namespace: str
    name: str
    minCount: int
    pods: int
    feasible: int
    fits: bool
    stoppedAt: str
    reason: str


class ReviewedPlacement(TypedDict, total=False):
    """A pod that the changes move or create, and where it ends.

    `from_node` is the node that the pod or its predecessor leaves, "" for a new pod. `node` is "" if the pod stays
    pending; `reason` then is kube-scheduler's message. `plugin` is the score plugin, or other factor, that decided on
    the node. `victims` are pods, NAMESPACE/NAME, that this pod preempted. `owner` is KIND/NAME, "" for none.
    """

    namespace: str
    name: str
    cause: str
    owner: str
    fromNode: str
    node: str
    plugin: str
    reason: str
    victims: list[str]


class ScaleDown(TypedDict, total=False):
    """The nodes of the question with what keeps each of them."""

    nodes: list[NodeScaleDown]


class ScaleDownBlocker(TypedDict, total=False):
    """Something that keeps a node in the cluster.

    `cause` is ScaleDownDisabled, DoNotDisrupt, NotSafeToEvict, LocalStorage, NoController, CustomController, SystemPod,
    Budget, FitsNowhere, DisruptionBudget or MinSize. `pod` is NAMESPACE/NAME, or "" if the node or its group is the
    cause. `autoscaler` is the one that it holds for, `cluster-autoscaler` or `karpenter`, or "" for both.
    """

    cause: str
    message: str
    pod: str
    autoscaler: str


class ServiceVersionMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class ServiceVersion(TypedDict, total=False):
    """Version of the decisions service."""

    apiVersion: str
    kind: Literal["ServiceVersion"]
    metadata: ServiceVersionMetadata
    version: str
    frameVersion: int


class Status(TypedDict, total=False):
    """Error response of a failed request."""

    kind: Literal["Status"]
    apiVersion: str
    metadata: dict[str, Any]
    status: str
    message: str
    reason: str
    details: dict[str, Any]
    code: int


class UnrecordedPodMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class UnrecordedPodQueueQuotaItem(TypedDict, total=False):
    """Quota of one resource."""

    flavor: str | None
    resource: str
    used: str | None
    limit: str | None


class UnrecordedPodQueue(TypedDict, total=False):
    """The queue of Kueue or Volcano in which the pod waits, as their objects describe it; absent for other pods."""

    by: str
    object: str | None
    localQueue: str | None
    queue: str | None
    state: str | None
    message: str | None
    minMember: int | None
    position: int | None
    waiting: int | None
    quota: list[UnrecordedPodQueueQuotaItem]
    notes: list[str]


class UnrecordedPod(TypedDict, total=False):
    """A pod that no scheduler decided, or whose scheduler is not recorded."""

    apiVersion: str
    kind: Literal["UnrecordedPod"]
    metadata: UnrecordedPodMetadata
    node: str | None
    cause: str
    possibleChanges: list[str]
    queue: UnrecordedPodQueue
    createdAt: str
    owner: str | None
    schedulerName: str
    headline: str


class UpgradeReview(TypedDict, total=False):
    """What the rules of another version would decide otherwise, of `decided` of the cluster's `pods` pods."""

    fromVersion: str
    toVersion: str
    pods: int
    decided: int
    changes: list[UpgradedDecisions]
    rules: list[UpgradedRule]


class UpgradedDecisions(TypedDict, total=False):
    """The pods of a workload, `owner`, whose decisions differ between two versions in one way.

    `change` is FitsNoMore, NodeRejects (its node no longer fits, another does), FitsNow, OtherNode (no node is among
    the best of both), MayMove (some are) or OtherMessage. `name` is one of the `pods` pods, `node` its node or "", and
    the other fields are about that pod: some of the nodes among which the scheduler draws, kube-scheduler's message if
    no node fits, and the rules and feature gates that alone cause the difference.
    """

    namespace: str
    owner: str
    change: str
    pods: int
    name: str
    node: str
    bestBefore: list[str]
    bestAfter: list[str]
    messageBefore: str
    messageAfter: str
    rules: list[str]


class UpgradedRule(TypedDict, total=False):
    """A rule or feature gate that the two versions do not share.

    `enabled` tells whether the other version has it. `plugin` is "" for a feature gate.
    """

    name: str
    plugin: str
    enabled: bool
    effect: str


class WorkloadPlacementMetadata(TypedDict, total=False):
    """Standard object's metadata."""

    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    labels: dict[str, str]


class WorkloadPlacementZonesItem(TypedDict, total=False):
    """A zone."""

    zone: str
    pods: int


class WorkloadPlacement(TypedDict, total=False):
    """Nodes on which the pods of a workload were placed, and why."""

    apiVersion: str
    kind: Literal["WorkloadPlacement"]
    metadata: WorkloadPlacementMetadata
    since: str
    complete: bool
    headline: str
    placed: int
    pending: list[dict[str, Any]]
    nodesTotal: int
    skew: int
    decided: int
    decidedBy: dict[str, int]
    nodes: list[dict[str, Any]]
    recent: list[dict[str, Any]]
    zones: list[WorkloadPlacementZonesItem]
