"""The questions that a client can ask, each with the type of its answer.

Owns: the public functions and their arguments. Does not own: paths (`api_paths`), requests (`client`). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from herodotus_client import api_paths
from herodotus_record.model import API_VERSION

if TYPE_CHECKING:
    from herodotus_answers.agreements import Agreements
    from herodotus_answers.balance import Balance
    from herodotus_answers.cluster_review import ClusterReview
    from herodotus_answers.comparison import NodeComparison, PodComparison
    from herodotus_answers.decision import DecisionDocument, DecisionList
    from herodotus_answers.node import NodeHistory
    from herodotus_answers.pending import PendingPods
    from herodotus_answers.placement_review import PlacementReview
    from herodotus_answers.pod import PodExplanation
    from herodotus_answers.pod_group import PodGroupPlacement
    from herodotus_answers.pod_history import PodHistory
    from herodotus_answers.preemptions import Preemptions
    from herodotus_answers.service import ClusterList
    from herodotus_answers.workload import WorkloadPlacement

Answer = TypeVar("Answer", covariant=True)
Json = Mapping[str, Any]
DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Question(Generic[Answer]):
    """A question about scheduling: a path of the decisions service, and the document to post to it if there is one."""

    path: str
    document: Json | None = None


def explain_pod(
    namespace: str, name: str, *, attempt: int | None = None, every_node: bool = False, node: str = ""
) -> Question[PodExplanation]:
    """Ask why a pod is on its node, or why it is Pending.

    `attempt` is the number of one of its attempts, by default the last. With `every_node` the answer has every filter
    and score of every node; with `node` it has them for this node.
    """
    return Question(api_paths.pod_explanation(namespace, name, attempt=attempt, every_node=every_node, node=node))


def list_pod_attempts(namespace: str, name: str) -> Question[PodHistory]:
    """Ask for all scheduling attempts of a pod, and what changed between them."""
    return Question(api_paths.pod_history(namespace, name))


def read_decision(namespace: str, name: str, *, attempt: int | None = None) -> Question[DecisionDocument]:
    """Ask for the full record of one attempt of a pod, by default the last."""
    return Question(api_paths.decision(namespace, name, attempt=attempt))


def list_decisions(
    namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 500
) -> Question[DecisionList]:
    """Ask for the newest `limit` decisions. An empty namespace means all; `labels` and `fields` are selectors."""
    selector = api_paths.DecisionSelector(fields, labels)
    return Question(api_paths.decisions(namespace, selector=selector, limit=limit))


def list_pending_pods(namespace: str = "", *, labels: str = "") -> Question[PendingPods]:
    """Ask for the pending pods by reason. An empty namespace means all; `labels` is a label selector."""
    return Question(api_paths.pending_pods(namespace, labels=labels))


def list_clusters() -> Question[ClusterList]:
    """Ask for the clusters whose records the service has; their IDs and names are for `ask(…, cluster=…)`."""
    return Question(api_paths.clusters())


def compare_pods(namespace: str, name: str, other: str) -> Question[PodComparison]:
    """Ask for a comparison of the last attempts of two pods."""
    return Question(api_paths.pod_comparison(namespace, name, other))


def compare_nodes(
    namespace: str, name: str, node: str, other: str, *, attempt: int | None = None
) -> Question[NodeComparison]:
    """Ask for a comparison of two nodes for one pod, in its attempt number `attempt`, by default the last."""
    return Question(api_paths.node_comparison(namespace, name, node, other, attempt=attempt))


def explain_node(name: str, *, since_s: float = DAY_S) -> Question[NodeHistory]:
    """Ask how often a node was considered, rejected and chosen in the last `since_s` seconds."""
    return Question(api_paths.node_history(name, since_s=since_s))


def explain_workload(
    namespace: str, kind: str, name: str, *, since_s: float = DAY_S, labels: str = ""
) -> Question[WorkloadPlacement]:
    """Ask where the pods of a workload, such as kind Deployment, were placed in the last `since_s` seconds."""
    return Question(api_paths.workload_placement(namespace, kind, name, since_s=since_s, labels=labels))


def explain_pod_group(namespace: str, name: str) -> Question[PodGroupPlacement]:
    """Ask how the pods of a PodGroup were placed together, or which of them block it."""
    return Question(api_paths.pod_group_placement(namespace, name))


def balance(
    *,
    since_s: float = DAY_S,
    weights: Mapping[str, int] | None = None,
    scheduler: str = "",
    decisions: int | None = None,
    labels: str = "",
) -> Question[Balance]:
    """Ask how pods spread over nodes in the last `since_s` seconds, and with other `weights` would have.

    `weights` maps names of score plugins to weights. `scheduler` restricts the answer to one scheduler name, `labels`
    to pods, and `decisions` to that number of newest placements.
    """
    words = ",".join(f"{plugin}={weight}" for plugin, weight in (weights or {}).items())
    return Question(
        api_paths.balance(since_s=since_s, weights=words, profile=scheduler, decisions=decisions, labels=labels)
    )


def agreements(
    namespace: str = "", *, since_s: float = DAY_S, scheduler: str = "", labels: str = ""
) -> Question[Agreements]:
    """Ask how often the observer's reconstruction agrees with the schedulers that it observes.

    An empty `namespace` or `scheduler` means all; `labels` is a label selector.
    """
    return Question(api_paths.agreements(namespace, since_s=since_s, scheduler=scheduler, labels=labels))


def list_preemptions(namespace: str = "", *, since_s: float = DAY_S, victim: str = "") -> Question[Preemptions]:
    """Ask for the preemptions of the last `since_s` seconds that concern pods of a namespace ("": all).

    With `victim`, only preemptions that evicted the pod of this name are listed.
    """
    return Question(api_paths.preemptions(namespace, since_s=since_s, victim=victim))


def review_placement(namespace: str, spec: Json) -> Question[PlacementReview]:
    """Ask where hypothetical pods would go. `spec` is that of a PlacementReview; nothing is created."""
    document = {"apiVersion": API_VERSION, "kind": "PlacementReview", "spec": spec}
    return Question(api_paths.placement_reviews(namespace), document)


def review_cluster(spec: Json) -> Question[ClusterReview]:
    """Ask what changes to the cluster would do, or about capacity or node groups. `spec` is that of a ClusterReview."""
    document = {"apiVersion": API_VERSION, "kind": "ClusterReview", "spec": spec}
    return Question(api_paths.cluster_reviews(), document)
