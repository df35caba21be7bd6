"""The question and the answer of a what-if for the whole cluster, as documents of kind ClusterReview.

Owns: their structs and JSON forms. Does not own: what follows from the changes (`scheduler.engine.whatif.changes`),
masking, screens.

Invariant: every pod that a review moves, deletes or refuses to move appears in exactly one of `placements`, `blocked`,
`ignored` and `deleted`. A pod that is moved twice appears once, with its first node and its last. A replacement that a
later drain cannot move is in `blocked` under its own name.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from herodotus_answers.node_groups import NodeGroupReview, NodeGroupsQuestion, ScaleDown, ScaleDownQuestion
from herodotus_record.model import API_VERSION

Json = dict[str, Any]

KIND: Final = "ClusterReview"
COMPLETE: Final = "Complete"
RUNNING: Final = "Running"


class _Struct(msgspec.Struct, rename="camel", kw_only=True):
    pass


class _Change(_Struct, tag_field="kind", forbid_unknown_fields=True):
    pass


class Drain(_Change):
    """Drain nodes one after the other, as `kubectl drain NODE… --ignore-daemonsets` does. The flags are kubectl's."""

    nodes: list[str]
    force: bool = False
    delete_empty_dir_data: bool = False
    ignore_daemon_sets: bool = True
    disable_eviction: bool = False


class Cordon(_Change):
    """Mark nodes as unschedulable."""

    nodes: list[str]


class Uncordon(_Change):
    """Mark nodes as schedulable."""

    nodes: list[str]


class RemoveNodes(_Change):
    """Remove nodes with everything on them. Controllers replace the pods; no PodDisruptionBudget is checked."""

    nodes: list[str]


class AddNodes(_Change):
    """Add `count` empty copies of the node `like`, in `zone` unless it is "", with the DaemonSet pods that it has."""

    like: str
    count: int = 1
    zone: str = ""


class TaintNodes(_Change):
    """Add or remove taints of nodes, written as for `kubectl taint`: KEY[=VALUE]:EFFECT, KEY[:EFFECT]-."""

    nodes: list[str]
    taints: list[str]


class LabelNodes(_Change):
    """Set labels of nodes, or remove those whose value is null. Pods that run on the nodes stay."""

    nodes: list[str]
    labels: dict[str, str | None]


class Scale(_Change):
    """Change the number of pods of a workload, KIND/NAME.

    `object` is the workload's manifest. It is needed only for new pods of a workload that has none.
    """

    workload: str
    replicas: int
    namespace: str = ""
    object: Json | None = None


class Create(_Change):
    """Create a pod or a workload. `replicas` takes precedence over the manifest's number of pods."""

    object: Json
    replicas: int | None = None
    namespace: str = ""


Change = Drain | Cordon | Uncordon | RemoveNodes | AddNodes | TaintNodes | LabelNodes | Scale | Create


class CapacityQuestion(_Struct, forbid_unknown_fields=True):
    """How many more pods like those of `object` fit. The search ends after `limit` pods.

    With `group_size`, pods fit only in groups of so many.
    """

    object: Json
    limit: int = 10_000
    namespace: str = ""
    group_size: int = 0


class ConsolidationQuestion(_Struct, forbid_unknown_fields=True):
    """Which of the nodes could be emptied one after the other; `nodes` are the candidates, None for all nodes.

    The flags are those of a drain.
    """

    nodes: list[str] | None = None
    force: bool = False
    delete_empty_dir_data: bool = True


class UpgradeQuestion(_Struct, forbid_unknown_fields=True):
    """Which decisions would be others under the rules of the Kubernetes version `to`.

    `pods_per_workload` is how many pods of each workload are decided; 0 means all.
    """

    to: str
    pods_per_workload: int = 20


class ClusterReviewSpec(_Struct, forbid_unknown_fields=True):
    """The question. Exactly one of the questions, of which `continue_` is one, is set.

    `continue_` is the token of an answer that is not complete; it asks for the rest.

    `scheduler_name` decides pods of `Create`, `capacity` and `node_groups` whose manifest names no scheduler. `cluster`
    is the ID of a cluster, or "" for the service's own.
    """

    changes: list[Change] | None = None
    capacity: CapacityQuestion | None = None
    consolidate: ConsolidationQuestion | None = None
    node_groups: NodeGroupsQuestion | None = None
    scale_down: ScaleDownQuestion | None = None
    upgrade: UpgradeQuestion | None = None
    scheduler_name: str = ""
    cluster: str = ""
    continue_: str = msgspec.field(name="continue", default="")

    def __post_init__(self) -> None:
        """Raise ValueError unless the spec has exactly one question."""
        asked = (
            self.changes,
            self.capacity,
            self.consolidate,
            self.node_groups,
            self.scale_down,
            self.upgrade,
            self.continue_ or None,
        )
        if sum(question is not None for question in asked) != 1:
            raise ValueError(
                "expected exactly one of changes, capacity, consolidate, nodeGroups, scaleDown, upgrade and continue"
            )


class ReviewedPlacement(_Struct):
    """A pod that the changes move or create, and where it ends.

    `from_node` is the node that the pod or its predecessor leaves, "" for a new pod. `node` is "" if the pod stays
    pending; `reason` then is kube-scheduler's message. `plugin` is the score plugin, or other factor, that decided on
    the node. `victims` are pods, NAMESPACE/NAME, that this pod preempted. `owner` is KIND/NAME, "" for none.
    """

    namespace: str
    name: str
    cause: str
    owner: str = ""
    from_node: str = ""
    node: str = ""
    plugin: str = ""
    reason: str = ""
    victims: list[str] = []


class ReviewedGroup(_Struct):
    """A pod group whose pods were decided together.

    `pods` counts the pods that waited for a node, and `feasible` those that found one. `fits` tells whether the group
    reached its quorum, `min_count`, so that they are placed; 0 means that the pods are independent. `stopped_at` is the
    first pod without a node, or "", and `reason` is kube-scheduler's message about it.
    """

    namespace: str
    name: str
    min_count: int
    pods: int
    feasible: int = 0
    fits: bool = False
    stopped_at: str = ""
    reason: str = ""


class BlockedPod(_Struct):
    """A pod that stays on its node although the changes should move it.

    `cause` is Budget, LocalStorage, NoController, DaemonSet or NodeNotDrained. `message` has kubectl's or the API
    server's words. `budget` is the name of the PodDisruptionBudget, or "".
    """

    namespace: str
    name: str
    node: str
    cause: str
    message: str
    owner: str = ""
    budget: str = ""


class RemovedPod(_Struct):
    """A pod that a drain ignores, or that is deleted without a replacement; `cause` is the reason."""

    namespace: str
    name: str
    node: str
    cause: str
    owner: str = ""


class NodeAmounts(_Struct):
    """The number of pods on a node and the sums of their requests, in millicores and bytes."""

    pods: int
    cpu: int
    memory: int


class ChangedNode(_Struct):
    """A node before and after the changes. `before` or `after` is None where the node did not or does not exist."""

    name: str
    before: NodeAmounts | None
    after: NodeAmounts | None
    schedulable: bool


class NodeCapacity(_Struct):
    """How many of the pods fit on a node. `limited_by` is what keeps the next one from it."""

    node: str
    fits: int
    limited_by: str


class Capacity(_Struct):
    """How many of the pods fit.

    `limited` is True if the search ended at its limit. `message` is what kube-scheduler would say about the next pod.
    `zones` are the pods that fit by zone; nodes without the label topology.kubernetes.io/zone count under "". If the
    pods fit only in groups of `group_size`, `groups` is how many groups fit.
    """

    fits: int
    limited: bool
    message: str
    nodes: list[NodeCapacity] = []
    zones: dict[str, int] = {}
    groups: int | None = None
    group_size: int = 0


class EmptiedNode(_Struct):
    """A node that could be emptied, with the nodes that take its pods: node name to number of pods."""

    node: str
    pods: int
    targets: dict[str, int]


class KeptNode(_Struct):
    """A node that cannot be emptied, and the pods that keep it: NAMESPACE/NAME to the reason."""

    node: str
    pods: dict[str, str]


class Consolidation(_Struct):
    """The nodes that could be emptied, in this order, and those that could not."""

    emptied: list[EmptiedNode]
    kept: list[KeptNode]


class UpgradedDecisions(_Struct):
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
    best_before: list[str] = []
    best_after: list[str] = []
    message_before: str = ""
    message_after: str = ""
    rules: list[str] = []


class UpgradedRule(_Struct):
    """A rule or feature gate that the two versions do not share. `enabled` tells whether the other version has it.

    `plugin` is "" for a feature gate.
    """

    name: str
    plugin: str
    enabled: bool
    effect: str


class UpgradeReview(_Struct):
    """What the rules of another version would decide otherwise, of `decided` of the cluster's `pods` pods."""

    from_version: str
    to_version: str
    pods: int
    decided: int
    changes: list[UpgradedDecisions] = []
    rules: list[UpgradedRule] = []


class ReviewProgress(_Struct):
    """How many pods were decided, and how many are known to be decided in all."""

    done: int = 0
    total: int = 0


class ClusterReviewStatus(_Struct):
    """The answer. `notes` are sentences about what the answer does not take into account.

    While `phase` is Running, only `progress` and `continue_` are set: the token with which to ask for the rest.
    """

    phase: str = COMPLETE
    progress: ReviewProgress | None = None
    continue_: str = msgspec.field(name="continue", default="")

    placements: list[ReviewedPlacement] = []
    blocked: list[BlockedPod] = []
    ignored: list[RemovedPod] = []
    deleted: list[RemovedPod] = []
    pending: list[ReviewedPlacement] = []
    groups: list[ReviewedGroup] = []
    nodes: list[ChangedNode] = []
    capacity: Capacity | None = None
    consolidation: Consolidation | None = None
    node_groups: NodeGroupReview | None = None
    scale_down: ScaleDown | None = None
    upgrade: UpgradeReview | None = None
    notes: list[str] = []


class ClusterReview(_Struct):
    """A ClusterReview object as a client sends it."""

    spec: ClusterReviewSpec
    api_version: str = API_VERSION
    kind: str = KIND


def build_cluster_review(status: ClusterReviewStatus) -> Json:
    """Return the answer as a JSON document of kind ClusterReview."""
    document: Json = msgspec.to_builtins(status)
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "status": document}
