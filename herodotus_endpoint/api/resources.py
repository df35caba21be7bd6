"""The table of served resources, from which discovery, rights and the OpenAPI document follow.

Owns: names and verbs. Does not own: routes.

Invariant: the verbs are get, list and watch, and create for reviews, which store nothing. An unavailable service
therefore delays the deletion of a namespace only briefly: the namespace holds nothing of it to delete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from herodotus_record.model import API_GROUP, API_VERSION

GROUP: Final = API_GROUP
VERSION: Final = API_VERSION.partition("/")[2]
PREFIX: Final = f"/apis/{API_VERSION}"


@dataclass(frozen=True)
class ServedResource:
    """A resource of the API group as discovery shows it: its kind, names, scope and verbs."""

    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()


DECISION: Final = ServedResource("Decision", "decisions", "decision", True, ("get", "list", "watch"), ("dec",))
EXPLANATION: Final = ServedResource("PodExplanation", "podexplanations", "podexplanation", True, ("get",))
HISTORY: Final = ServedResource("NodeHistory", "nodehistories", "nodehistory", False, ("get", "list"), ("nh",))
INCARNATION: Final = ServedResource("Incarnation", "incarnations", "incarnation", False, ("list",))
POD_HISTORY: Final = ServedResource("PodHistory", "podhistories", "podhistory", True, ("get",))
POD_COMPARISON: Final = ServedResource("PodComparison", "podcomparisons", "podcomparison", True, ("get",))
NODE_COMPARISON: Final = ServedResource("NodeComparison", "nodecomparisons", "nodecomparison", True, ("get",))
PENDING: Final = ServedResource("PendingPods", "pendingpods", "pendingpods", True, ("list",))
WORKLOAD: Final = ServedResource("WorkloadPlacement", "workloadplacements", "workloadplacement", True, ("get",))
BALANCE: Final = ServedResource("Balance", "balances", "balance", False, ("list",))
AGREEMENTS: Final = ServedResource("Agreements", "agreements", "agreements", True, ("list",))
SERVICE_VERSION: Final = ServedResource("ServiceVersion", "serviceversions", "serviceversion", False, ("list",))
REVIEW: Final = ServedResource("PlacementReview", "placementreviews", "placementreview", True, ("create",))
RESOURCES: Final = (
    DECISION,
    EXPLANATION,
    HISTORY,
    INCARNATION,
    POD_HISTORY,
    POD_COMPARISON,
    NODE_COMPARISON,
    PENDING,
    WORKLOAD,
    BALANCE,
    AGREEMENTS,
    SERVICE_VERSION,
    REVIEW,
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
