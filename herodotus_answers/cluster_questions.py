"""The questions of a what-if for the whole cluster, as clients send them in documents of kind ClusterReview.

Owns: their structs and JSON forms: a field that the question does not declare is refused. Does not own: the answers
(`cluster_review`, `node_groups`), what follows from the changes (`scheduler.engine.whatif.changes`). Only what answers
questions imports it; the plugin sends plain JSON.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from herodotus_answers.cluster_review import KIND
from herodotus_record.model import API_VERSION

Json = dict[str, Any]

_NAMES_PRESENT: Final = ("workload", "podGroup", "spread")  # fields with names of objects in the field `namespace`


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

    With `group_size`, pods fit only in groups of so many. `changes` are applied first, such as nodes that are added;
    pods that are displaced then or wait are placed before any is counted.
    """

    object: Json
    limit: int = 10_000
    namespace: str = ""
    group_size: int = 0
    changes: list[Change] = msgspec.field(default_factory=list)


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


class PlanQuestion(_Struct, forbid_unknown_fields=True):
    """Which changes, and in which order, make pods fit.

    `pods` are waiting pods, NAMESPACE/NAME. `workload`, KIND/NAME, and `pod_group` stand for their waiting pods in
    `namespace`. `object` is a pod or workload that does not exist, of which `replicas` pods are created after the other
    steps. `kinds` are the kinds of changes that are allowed (`plans.KINDS`).

    Other goals: `drain` these nodes; `consolidate`: empty as many nodes as possible, but at most `nodes` unless that is
    0; `spread`: restore the spread of the workload KIND/NAME. Exactly one goal is given.

    The flags are those of a drain. With `rolling`, a drained node takes pods again before the next is drained.
    """

    pods: list[str] = []
    workload: str = ""
    pod_group: str = ""
    object: Json | None = None
    replicas: int | None = None
    namespace: str = ""
    drain: list[str] = []
    rolling: bool = False
    consolidate: bool = False
    nodes: int = 0
    spread: str = ""
    force: bool = False
    delete_empty_dir_data: bool = False
    kinds: list[str] = []
    max_changes: int = 5
    time_limit_seconds: float = 20.0


class DescheduleQuestion(_Struct, forbid_unknown_fields=True):
    """What the descheduler of kubernetes-sigs would evict now, by a policy of descheduler/v1alpha2.

    For `pods` on nodes, NAMESPACE/NAME, the answer has why each plugin does not evict them.
    """

    policy: Json
    pods: list[str] = []
    time_limit_seconds: float = 20.0


class ClusterQuestion(_Struct, forbid_unknown_fields=True):
    """The question. Exactly one of the questions, of which `continue_` is one, is set.

    `continue_` is the token of an answer that is not complete; it asks for the rest.

    `scheduler_name` decides pods of `Create`, `capacity`, `node_groups` and `plan` whose manifest names no scheduler.
    `cluster` is the ID of a cluster, or "" for the service's own.
    """

    changes: list[Change] | None = None
    capacity: CapacityQuestion | None = None
    consolidate: ConsolidationQuestion | None = None
    node_groups: NodeGroupsQuestion | None = None
    scale_down: ScaleDownQuestion | None = None
    upgrade: UpgradeQuestion | None = None
    plan: PlanQuestion | None = None
    deschedule: DescheduleQuestion | None = None
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
            self.plan,
            self.deschedule,
            self.continue_ or None,
        )
        if sum(question is not None for question in asked) != 1:
            raise ValueError(
                "expected exactly one of changes, capacity, consolidate, nodeGroups, scaleDown, upgrade, plan,"
                " deschedule and continue"
            )


def list_namespaces(question: ClusterQuestion) -> frozenset[str]:
    """Return the namespaces of all pods, workloads and manifests that a question names."""
    namespaces, parts = set[str](), [msgspec.to_builtins(question)]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        if not isinstance(part, dict):
            continue
        namespace, pods = part.get("namespace"), part.get("pods")
        if isinstance(namespace, str) and (namespace or any(part.get(field) for field in _NAMES_PRESENT)):
            namespaces.add(namespace or "default")
        if isinstance(pods, list):
            namespaces |= {pod.partition("/")[0] for pod in pods if isinstance(pod, str)}
        parts += part.values()
    return frozenset(namespaces)


class ClusterQuestionDocument(_Struct):
    """A ClusterReview object as a client sends it."""

    spec: ClusterQuestion
    api_version: str = API_VERSION
    kind: str = KIND
