"""The resources that are served: one table, from which discovery, rights and the OpenAPI document follow.

Owns: names and verbs. Does not own: routes.

Invariant: get, list and watch only, and the creation of reviews, which stores nothing. A service that is away then
blocks no deletion of a namespace for long: there is nothing in it that anybody could delete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from herodotus_record.model import API_GROUP, API_VERSION

GROUP: Final = API_GROUP
VERSION: Final = API_VERSION.partition("/")[2]
PREFIX: Final = f"/apis/{API_VERSION}"


@dataclass(frozen=True)
class Kind:
    """A resource and its kind."""

    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()


DECISION: Final = Kind("Decision", "decisions", "decision", True, ("get", "list", "watch"), ("dec",))
EXPLANATION: Final = Kind("PodExplanation", "podexplanations", "podexplanation", True, ("get",))
HISTORY: Final = Kind("NodeHistory", "nodehistories", "nodehistory", False, ("get", "list"), ("nh",))
INCARNATION: Final = Kind("Incarnation", "incarnations", "incarnation", False, ("list",))
POD_HISTORY: Final = Kind("PodHistory", "podhistories", "podhistory", True, ("get",))
POD_COMPARISON: Final = Kind("PodComparison", "podcomparisons", "podcomparison", True, ("get",))
NODE_COMPARISON: Final = Kind("NodeComparison", "nodecomparisons", "nodecomparison", True, ("get",))
PENDING: Final = Kind("PendingPods", "pendingpods", "pendingpods", True, ("list",))
WORKLOAD: Final = Kind("WorkloadPlacement", "workloadplacements", "workloadplacement", True, ("get",))
BALANCE: Final = Kind("Balance", "balances", "balance", False, ("list",))
AGREEMENTS: Final = Kind("Agreements", "agreements", "agreements", True, ("list",))
SERVICE_VERSION: Final = Kind("ServiceVersion", "serviceversions", "serviceversion", False, ("list",))
REVIEW: Final = Kind("PlacementReview", "placementreviews", "placementreview", True, ("create",))
KINDS: Final = (
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
