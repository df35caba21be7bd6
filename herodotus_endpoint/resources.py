"""The resources of the API group, in the order of discovery.

Owns: their kinds, names and scopes. Does not own: their verbs, which follow from the routes (`routing`).

Invariant: the verbs are get, list and watch, and create for reviews, which store nothing. An unavailable service
therefore delays the deletion of a namespace only briefly: the namespace holds nothing of it to delete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from herodotus_record.model import API_GROUP, API_VERSION, VERSION_OF_API

GROUP: Final = API_GROUP
VERSION: Final = VERSION_OF_API
PREFIX: Final = f"/apis/{API_VERSION}"


@dataclass(frozen=True)
class ServedResource:
    """A resource of the API group as discovery shows it: its kind, names and scope."""

    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()


DECISION: Final = ServedResource("Decision", "decisions", "decision", True, ("dec",))
EXPLANATION: Final = ServedResource("PodExplanation", "podexplanations", "podexplanation", True)
HISTORY: Final = ServedResource("NodeHistory", "nodehistories", "nodehistory", False, ("nh",))
CLUSTER: Final = ServedResource("Cluster", "clusters", "cluster", False)  # without objects of the API server
INCARNATION: Final = ServedResource("Incarnation", "incarnations", "incarnation", False)
POD_HISTORY: Final = ServedResource("PodHistory", "podhistories", "podhistory", True)
POD_COMPARISON: Final = ServedResource("PodComparison", "podcomparisons", "podcomparison", True)
NODE_COMPARISON: Final = ServedResource("NodeComparison", "nodecomparisons", "nodecomparison", True)
PENDING: Final = ServedResource("PendingPods", "pendingpods", "pendingpods", True)
WORKLOAD: Final = ServedResource("WorkloadPlacement", "workloadplacements", "workloadplacement", True)
POD_GROUP: Final = ServedResource("PodGroupPlacement", "podgroupplacements", "podgroupplacement", True)
BALANCE: Final = ServedResource("Balance", "balances", "balance", False)
AGREEMENTS: Final = ServedResource("Agreements", "agreements", "agreements", True)
PREEMPTIONS: Final = ServedResource("Preemptions", "preemptions", "preemptions", True)
SERVICE_VERSION: Final = ServedResource("ServiceVersion", "serviceversions", "serviceversion", False)
REVIEW: Final = ServedResource("PlacementReview", "placementreviews", "placementreview", True)
CLUSTER_REVIEW: Final = ServedResource("ClusterReview", "clusterreviews", "clusterreview", False)
RESOURCES: Final = (
    DECISION,
    EXPLANATION,
    HISTORY,
    CLUSTER,
    INCARNATION,
    POD_HISTORY,
    POD_COMPARISON,
    NODE_COMPARISON,
    PENDING,
    WORKLOAD,
    POD_GROUP,
    BALANCE,
    AGREEMENTS,
    PREEMPTIONS,
    SERVICE_VERSION,
    REVIEW,
    CLUSTER_REVIEW,
)

# The labels of a decision in addition to those of its pod, and the columns that hold their values. An invalid label
# value is left out.
LABELS: Final = {
    f"{GROUP}/pod": "pod",
    f"{GROUP}/profile": "profile",
    f"{GROUP}/state": "state",
    f"{GROUP}/path": "path",
    f"{GROUP}/node": "node",
}
