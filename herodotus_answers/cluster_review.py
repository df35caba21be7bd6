"""Build the answer document `ClusterReview`: the answer to a what-if for the whole cluster.

Owns: its types, with what each field discloses. Does not own: the questions (`cluster_questions`), what follows from
the changes (`scheduler.engine.whatif.changes`), masking, the headline's words (`cluster_headlines`), screens.

A reader with the right to ask about the whole cluster may see all nodes and all amounts. Names of pods, their owners
and budgets belong to the pod's namespace.

Invariant: every pod that a review moves, deletes or refuses to move appears in exactly one of `placements`, `blocked`,
`ignored` and `deleted`. A pod that is moved twice appears once, with its first node and its last. A replacement that a
later drain cannot move is in `blocked` under its own name.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from herodotus_answers.cluster_headlines import format_cluster_headline
from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.descheduling import DescheduleReview
from herodotus_answers.node_groups import NodeGroupReview, ScaleDown
from herodotus_answers.plans import PlanReview
from herodotus_record.discloses import Discloses
from herodotus_record.model import API_VERSION

KIND: Final = "ClusterReview"
COMPLETE: Final = "Complete"
RUNNING: Final = "Running"
MAX_UNREADY: Final = 5  # pods of a budget that are named
MAX_PEERS: Final = 3  # pods beside which another cannot run, as an answer names them


class ReviewedPlacement(TypedDict):
    """A pod that the changes move or create, and where it ends."""

    namespace: Annotated[str, "Namespace of the pod.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the pod.", Discloses.THIS_POD]
    cause: Annotated[str, "Why the pod needs a node, such as Drained or Created.", Discloses.NOTHING]
    owner: Annotated[str, "Owner of the pod as KIND/NAME; empty if it has none.", Discloses.THIS_POD]
    fromNode: Annotated[str, "Node that the pod or its predecessor leaves; empty for a new pod.", Discloses.NODES]
    node: Annotated[str, "Its new node; empty if the pod stays pending.", Discloses.NODES]
    plugin: Annotated[str, "Score plugin, or other factor, that decided for the node.", Discloses.NOTHING]
    reason: Annotated[str, "kube-scheduler's message if the pod stays pending.", Discloses.MESSAGE]
    victims: Annotated[list[str], "Pods as NAMESPACE/NAME that this pod preempted.", Discloses.PODS]
    peers: Annotated[list[str], "The first pods as NAMESPACE/NAME whose presence keeps it pending.", Discloses.PODS]


class CheckedBudget(TypedDict):
    """A PodDisruptionBudget that a drain asked before it evicted pods."""

    namespace: Annotated[str, "Namespace of the budget.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the budget.", Discloses.THIS_POD]
    pods: Annotated[int, "Number of pods of the drained nodes that it selects.", Discloses.NOTHING]


class BudgetCheck(TypedDict):
    """That drains asked budgets before they evicted pods."""

    selecting: Annotated[list[CheckedBudget], "Budgets that select pods of the drained nodes.", Discloses.PARTS]


class ReviewedGroup(TypedDict):
    """A pod group whose pods were decided together."""

    namespace: Annotated[str, "Namespace of the group.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the group.", Discloses.THIS_POD]
    minCount: Annotated[
        int, "Number of pods that the group needs at least; 0 if they are independent.", Discloses.NOTHING
    ]
    pods: Annotated[int, "Number of pods that waited for a node.", Discloses.NOTHING]
    feasible: Annotated[int, "Number of these pods that found one.", Discloses.NOTHING]
    fits: Annotated[bool, "Whether the group reached its quorum, so that its pods are placed.", Discloses.NOTHING]
    stoppedAt: Annotated[str, "Name of the first pod without a node; empty if every pod has one.", Discloses.THIS_POD]
    reason: Annotated[str, "kube-scheduler's message about that pod.", Discloses.MESSAGE]


class BlockedPod(TypedDict):
    """A pod that stays on its node although the changes should move it."""

    namespace: Annotated[str, "Namespace of the pod.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the pod.", Discloses.THIS_POD]
    node: Annotated[str, "Node of the pod.", Discloses.NODES]
    cause: Annotated[str, "Budget, LocalStorage, NoController, DaemonSet or NodeNotDrained.", Discloses.NOTHING]
    message: Annotated[
        str,
        "Message of kubectl or of the API server, and how to make a budget countable that cannot be computed.",
        Discloses.THIS_POD,
    ]
    owner: Annotated[str, "Owner of the pod as KIND/NAME; empty if it has none.", Discloses.THIS_POD]
    budget: Annotated[str, "Name of the PodDisruptionBudget; empty for other causes.", Discloses.THIS_POD]
    unready: Annotated[list[str], "The first pods as NAMESPACE/NAME of the budget that are not ready.", Discloses.PODS]
    remedy: Annotated[str, "What would make its budgets allow the eviction; empty if not known.", Discloses.THIS_POD]


class RemovedPod(TypedDict):
    """A pod that a drain ignores, or that is deleted without a replacement."""

    namespace: Annotated[str, "Namespace of the pod.", Discloses.NAMESPACE]
    name: Annotated[str, "Name of the pod.", Discloses.THIS_POD]
    node: Annotated[str, "Node of the pod.", Discloses.NODES]
    cause: Annotated[str, "Why it is ignored or deleted.", Discloses.NOTHING]
    owner: Annotated[str, "Owner of the pod as KIND/NAME; empty if it has none.", Discloses.THIS_POD]


class NodeAmounts(TypedDict):
    """The number of pods on a node, and the sums of their requests."""

    pods: Annotated[int, "Number of pods.", Discloses.NOTHING]
    cpu: Annotated[int, "Requested CPU, in millicores.", Discloses.NOTHING]
    memory: Annotated[int, "Requested memory, in bytes.", Discloses.NOTHING]


class ChangedNode(TypedDict):
    """A node before and after the changes."""

    name: Annotated[str, "Name of the node.", Discloses.NODES]
    before: Annotated[NodeAmounts | None, "Amounts before; null if the node did not exist.", Discloses.PARTS]
    after: Annotated[NodeAmounts | None, "Amounts after; null if the node does not exist.", Discloses.PARTS]
    schedulable: Annotated[bool, "Whether pods may be scheduled to the node afterwards.", Discloses.NOTHING]


class NodeCapacity(TypedDict):
    """How many of these pods fit on a node."""

    node: Annotated[str, "Name of the node.", Discloses.NODES]
    fits: Annotated[int, "Number of pods that fit.", Discloses.NOTHING]
    limitedBy: Annotated[str, "kube-scheduler's reasons that keep the next pod from the node.", Discloses.MESSAGE]
    isNew: NotRequired[
        Annotated[bool, "Present and true for a node that the question's changes add.", Discloses.NOTHING]
    ]


class ScatteredResource(TypedDict):
    """A resource of which enough is free for another pod, and not on one node. Amounts are in base units."""

    resource: Annotated[str, "Name of the resource.", Discloses.NOTHING]
    requested: Annotated[int, "Amount that a pod requests.", Discloses.NOTHING]
    free: Annotated[int, "Amount that is free on all nodes together.", Discloses.NOTHING]
    most: Annotated[int, "The largest amount that is free on one node.", Discloses.NOTHING]


class Capacity(TypedDict):
    """How many pods like those of the question fit."""

    fits: Annotated[int, "Number of pods that fit.", Discloses.NOTHING]
    limited: Annotated[bool, "Whether the search ended at its limit.", Discloses.NOTHING]
    message: Annotated[str, "What kube-scheduler would say about the next pod.", Discloses.MESSAGE]
    nodes: Annotated[list[NodeCapacity], "The nodes, those with the most pods first.", Discloses.PARTS]
    zones: Annotated[
        dict[str, int],
        "Number of pods that fit by zone, 0 for a zone that takes none; nodes without the label"
        " topology.kubernetes.io/zone count under the empty name.",
        Discloses.NODES,
    ]
    groups: Annotated[int | None, "Number of groups that fit; null if pods need not fit in groups.", Discloses.NOTHING]
    groupSize: Annotated[int, "Number of pods in a group; 0 if they need not fit in groups.", Discloses.NOTHING]
    scattered: Annotated[
        list[ScatteredResource], "Resources that are free in parts, each too small for the next pod.", Discloses.PARTS
    ]


class EmptiedNode(TypedDict):
    """A node that could be emptied."""

    node: Annotated[str, "Name of the node.", Discloses.NODES]
    pods: Annotated[int, "Number of pods that leave it.", Discloses.NOTHING]
    targets: Annotated[dict[str, int], "Number of these pods by the node that takes them.", Discloses.NODES]


class KeepingPod(TypedDict):
    """A pod that keeps a node from being emptied."""

    pod: Annotated[str, "Pod as NAMESPACE/NAME.", Discloses.NAMESPACE]
    reason: Annotated[str, "Why it cannot move, in the words of kubectl or kube-scheduler.", Discloses.MESSAGE]


class KeptNode(TypedDict):
    """A node that cannot be emptied, with the reasons."""

    node: Annotated[str, "Name of the node.", Discloses.NODES]
    pods: Annotated[list[KeepingPod], "Pods that keep it.", Discloses.PARTS]


class Consolidation(TypedDict):
    """The nodes that could be emptied, and those that could not."""

    emptied: Annotated[list[EmptiedNode], "Nodes that could be emptied, in this order.", Discloses.PARTS]
    kept: Annotated[list[KeptNode], "Nodes that could not.", Discloses.PARTS]


class UpgradedDecisions(TypedDict):
    """The pods of a workload whose decisions differ between two versions in one way, with one of them as example."""

    namespace: Annotated[str, "Namespace of the workload.", Discloses.NAMESPACE]
    owner: Annotated[str, "The workload as KIND/NAME; empty for a pod without an owner.", Discloses.THIS_POD]
    change: Annotated[
        str,
        "FitsNoMore, NodeRejects (its node no longer fits, another does), FitsNow, OtherNode (no node is among the best"
        " of both), MayMove (some are) or OtherMessage.",
        Discloses.NOTHING,
    ]
    pods: Annotated[int, "Number of pods.", Discloses.NOTHING]
    name: Annotated[str, "Name of one of the pods, which the other fields are about.", Discloses.THIS_POD]
    node: Annotated[str, "Its node; empty if it has none.", Discloses.NODES]
    bestBefore: Annotated[
        list[str], "Some of the nodes among which the scheduler draws by the present rules.", Discloses.NODES
    ]
    bestAfter: Annotated[list[str], "Some of those by the rules of the other version.", Discloses.NODES]
    messageBefore: Annotated[str, "kube-scheduler's message if no node fits by the present rules.", Discloses.MESSAGE]
    messageAfter: Annotated[str, "Its message if none fits by the other rules.", Discloses.MESSAGE]
    rules: Annotated[list[str], "Rules and feature gates that alone cause the difference.", Discloses.NOTHING]


class UpgradedRule(TypedDict):
    """A rule or feature gate that the two versions do not share."""

    name: Annotated[str, "Name of the rule or feature gate.", Discloses.NOTHING]
    plugin: Annotated[str, "Plugin that has the rule; empty for a feature gate.", Discloses.NOTHING]
    enabled: Annotated[bool, "Whether the other version has it.", Discloses.NOTHING]
    effect: Annotated[str, "What it changes.", Discloses.NOTHING]


class UpgradeReview(TypedDict):
    """What the rules of another version would decide otherwise."""

    fromVersion: Annotated[str, "Version whose rules apply now.", Discloses.NOTHING]
    toVersion: Annotated[str, "The other version.", Discloses.NOTHING]
    pods: Annotated[int, "Number of pods in the cluster.", Discloses.NOTHING]
    decided: Annotated[int, "Number of pods that were decided by both.", Discloses.NOTHING]
    changes: Annotated[list[UpgradedDecisions], "Decisions that differ, the most serious first.", Discloses.PARTS]
    rules: Annotated[list[UpgradedRule], "Rules that the versions do not share.", Discloses.PARTS]


class ReviewProgress(TypedDict):
    """How far an answer is."""

    done: Annotated[int, "Number of pods that were decided.", Discloses.NOTHING]
    total: Annotated[int, "Number of pods that are known to be decided.", Discloses.NOTHING]
    smallestPlan: NotRequired[
        Annotated[int, "Changes of the smallest plan that was found so far, 0 without one.", Discloses.NOTHING]
    ]


_Continued = TypedDict(
    "_Continued",
    {"continue": Annotated[str, "Token with which to ask again, while the phase is Running.", Discloses.NOTHING]},
)


class ClusterReviewStatus(_Continued):
    """Result of the review, as the scheduler sends it."""

    phase: Annotated[
        Literal["Running", "Complete"], "Running until every pod was decided, then Complete.", Discloses.NOTHING
    ]
    progress: Annotated[ReviewProgress | None, "How far the answer is; null when it is complete.", Discloses.PARTS]
    placements: Annotated[list[ReviewedPlacement], "Pods that the changes move or create.", Discloses.PARTS]
    blocked: Annotated[list[BlockedPod], "Pods that stay although they should move.", Discloses.PARTS]
    ignored: Annotated[list[RemovedPod], "Pods that a drain leaves alone.", Discloses.PARTS]
    budgets: Annotated[BudgetCheck | None, "Budgets that drains asked; null if none asked them.", Discloses.PARTS]
    drained: Annotated[list[str], "Nodes that the changes drain, in order.", Discloses.NODES]
    drainCommands: Annotated[
        list[str], "Shell command of each drain, in order; empty if a pod blocks one.", Discloses.NODES
    ]
    deleted: Annotated[list[RemovedPod], "Pods that end without a replacement.", Discloses.PARTS]
    pending: Annotated[list[ReviewedPlacement], "Pods that waited and get a node.", Discloses.PARTS]
    stillPending: Annotated[list[ReviewedPlacement], "Pods that waited and still get no node.", Discloses.PARTS]
    groups: Annotated[list[ReviewedGroup], "Pod groups that were decided, each as decided last.", Discloses.PARTS]
    nodes: Annotated[list[ChangedNode], "Nodes that change.", Discloses.PARTS]
    capacity: Annotated[
        Capacity | None, "How many pods fit, in all, per node and per zone; null unless asked.", Discloses.PARTS
    ]
    consolidation: Annotated[
        Consolidation | None,
        "Nodes that could be emptied, in order, and those that could not; null unless asked.",
        Discloses.PARTS,
    ]
    nodeGroups: Annotated[
        NodeGroupReview | None,
        "Node groups, and the verdicts on pods for each group; null unless asked.",
        Discloses.PARTS,
    ]
    scaleDown: Annotated[
        ScaleDown | None, "What keeps an autoscaler from removing nodes; null unless asked.", Discloses.PARTS
    ]
    upgrade: Annotated[
        UpgradeReview | None,
        "What the rules of another version would decide otherwise; null unless asked.",
        Discloses.PARTS,
    ]
    plan: Annotated[
        PlanReview | None, "Plans after which pods fit, with their proofs; null unless asked.", Discloses.PARTS
    ]
    deschedule: Annotated[
        DescheduleReview | None, "What a run of the descheduler would do; null unless asked.", Discloses.PARTS
    ]
    notes: Annotated[list[str], "What the answer does not take into account.", Discloses.TEXT]


class AnsweredStatus(ClusterReviewStatus):
    """Result of the review. While the phase is Running, only `headline`, `progress` and `continue` are set."""

    headline: Annotated[str, "The answer in one sentence."]
    refusals: Annotated[
        list[str],
        "Sentences on the quotas and LimitRanges that refuse pods which the question creates, as the plugin reads them"
        " from the API server; the service leaves it empty.",
    ]


_Continuing = TypedDict(
    "_Continuing",
    {"continue": Annotated[str, "Token of an answer whose phase is Running, to get the rest."]},
    total=False,
)


class ClusterReviewSpec(_Continuing, total=False):
    """The question: one of the fields up to `plan`, or `continue`."""

    changes: Annotated[
        list[dict[str, Any]],
        "Changes in order. `kind` is Drain, Cordon, Uncordon, RemoveNodes, AddNodes, TaintNodes, LabelNodes, Scale or"
        " Create.",
    ]
    capacity: Annotated[dict[str, Any], "A pod or workload of which to find out how many more pods fit."]
    consolidate: Annotated[dict[str, Any], "Nodes of which to find out whether they could be emptied."]
    nodeGroups: Annotated[dict[str, Any], "Node groups, and pods of which to find out which groups would take them."]
    scaleDown: Annotated[dict[str, Any], "Nodes of which to find out what keeps an autoscaler from removing them."]
    upgrade: Annotated[dict[str, Any], "A version of Kubernetes, to find out which decisions its rules would change."]
    deschedule: Annotated[dict[str, Any], "A policy of the descheduler, to find out which pods it would evict."]
    plan: Annotated[dict[str, Any], "Pods for which to find the fewest changes after which they fit."]
    schedulerName: Annotated[str, "Scheduler that answers; by default the one of the cluster that answers."]
    cluster: Annotated[
        str, "UID of the namespace kube-system of the cluster, if schedulers of several clusters answer."
    ]


class ClusterReview(Document):
    """What would follow if nodes were changed and workloads created or scaled, and how many pods would fit."""

    kind: Literal["ClusterReview"]
    spec: NotRequired[ClusterReviewSpec]
    status: NotRequired[AnsweredStatus]


def build_empty_status() -> ClusterReviewStatus:
    """Return the complete answer to a question about nothing, to which a builder adds the results."""
    return {
        "phase": COMPLETE,
        "progress": None,
        "continue": "",
        "placements": [],
        "blocked": [],
        "ignored": [],
        "budgets": None,
        "drained": [],
        "drainCommands": [],
        "deleted": [],
        "pending": [],
        "stillPending": [],
        "groups": [],
        "nodes": [],
        "capacity": None,
        "consolidation": None,
        "nodeGroups": None,
        "scaleDown": None,
        "upgrade": None,
        "plan": None,
        "deschedule": None,
        "notes": [],
    }


def build_cluster_review(status: ClusterReviewStatus) -> ClusterReview:
    """Return the answer as a document of kind ClusterReview. `status` is masked for the reader."""
    answered: AnsweredStatus = {"headline": format_cluster_headline(status), "refusals": [], **status}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "status": answered}
