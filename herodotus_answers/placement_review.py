"""Build the answer document `PlacementReview`: where hypothetical pods would be placed, and what stops the next one.

Owns: the document's shape and its headline. Does not own: the explanation of one pod (`pod`), the decisions. Pure.

Invariant: pods are listed in the order of their placement, each decided as if the preceding ones were running. The pod
that does not fit is explained as its attempt would be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict

from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.pod import PodExplanation, build_pod_explanation
from herodotus_answers.suggestions import build_hypothetical_suggestions
from herodotus_answers.workload import find_deciding_factor
from herodotus_record.model import API_VERSION, Decision, Frame, NodeRows, NodeTable, Outcome
from herodotus_record.units import describe_all, natural_sort_key, pluralize

MAX_REPLICAS: Final = 100  # each is a whole scheduling cycle: 100 take one to two seconds on 5,000 nodes
REVIEWED: Final = "Review"  # the phase of the outcome that ends the decision of a placed pod
NOTHING_CREATED: Final = "reviewed: nothing is created"
_NAMED: Final = 5  # nodes named in the headline


@dataclass(frozen=True)
class ReviewedAttempt:
    """The decision for one hypothetical pod of a review, with its outcomes and its node table.

    `table` is at the decision's generation. The next attempt changes the same object, so use it before reading on.
    """

    decision: Decision
    outcomes: tuple[Outcome, ...]
    table: NodeTable


def parse_attempts(frames: Iterable[Frame]) -> Iterable[ReviewedAttempt]:
    """Yield the attempts of a review from its frames, which are node rows, a decision and an outcome for each attempt.

    The decision for a pod that fits on no node has no outcome. Raises ValueError if the frames are in another order.
    """
    table, decision = NodeTable(), None
    for frame in frames:
        if isinstance(frame, Outcome) and decision is not None:
            yield ReviewedAttempt(decision, (frame,), table)
            decision = None
        elif decision is not None:
            raise ValueError("an attempt without its outcome")
        elif isinstance(frame, NodeRows):
            table.apply(frame)
        elif isinstance(frame, Decision) and frame.generation <= table.generation:
            decision = frame
            if frame.chosen is None:
                yield ReviewedAttempt(frame, (), table)
                decision = None
        else:
            raise ValueError(f"a {type(frame).__name__} where an attempt is expected")
    if decision is not None:
        raise ValueError("an attempt without its outcome")


class ReviewedWorkload(NamedTuple):
    """The hypothetical workload of a review: its kind, its name, and how many pods it creates."""

    kind: str
    name: str
    replicas: int


class PlacedPod(TypedDict):
    """A hypothetical pod that fits, and what decided for its node."""

    pod: Annotated[str, "Name of the pod."]
    node: Annotated[str, "Its node."]
    decidedBy: Annotated[str, "Plugin that decided for the node, or the reason why none did."]
    points: Annotated[int | None, "Lead of the node in points; null if nothing was compared."]
    feasible: Annotated[int, "Number of nodes that passed every filter."]


class NodeWithPods(TypedDict):
    """A node on which hypothetical pods would be placed."""

    node: Annotated[str, "Name of the node."]
    pods: Annotated[int, "Number of hypothetical pods on the node."]


class PlacementReviewSpec(TypedDict, total=False):
    """The question: which hypothetical pods to place, and how to explain them."""

    object: Annotated[dict[str, Any], "A Pod, or a workload with a pod template."]
    manifest: Annotated[str, "The object as YAML or JSON text, in place of `object`."]
    replicas: Annotated[int, "Number of pods; by default the replicas of the object."]
    schedulerName: Annotated[str, "Scheduler that decides, in place of the one that the object names."]
    node: Annotated[str, "Name of the only node to explain."]
    allNodes: Annotated[bool, "Whether to explain every node."]
    cluster: Annotated[str, "UID of the cluster's namespace kube-system, if schedulers of several clusters answer."]
    kind: Annotated[str, "Kind of the object, set in the response."]


class PlacementReviewStatus(TypedDict):
    """Result of the review."""

    headline: Annotated[str, "The result in one sentence."]
    fits: Annotated[int, "Number of pods that would find a node."]
    nodes: Annotated[list[NodeWithPods], "Nodes on which pods would be placed, most pods first."]
    pods: Annotated[list[PlacedPod], "Pods that fit, in the order of placement."]
    first: Annotated[PodExplanation, "Explanation of the first pod."]
    stopped: Annotated[PodExplanation | None, "Explanation of the first pod that does not fit."]


class PlacementReview(Document):
    """Placement of hypothetical pods by the engine of a running scheduler."""

    kind: Literal["PlacementReview"]
    spec: PlacementReviewSpec
    status: NotRequired[PlacementReviewStatus]


def build_placement_review(
    workload: ReviewedWorkload,
    attempts: Iterable[ReviewedAttempt],
    *,
    every_node: bool = False,
    node: str = "",
) -> PlacementReview:
    """Return the JSON document of kind PlacementReview: where hypothetical pods of a workload would be placed.

    `attempts` are those of its pods, in order. `every_node` and `node` are passed to
    `build_pod_explanation`. Raises KeyError if `node` is not in the cluster, ValueError if there is no attempt.
    """
    pods = list[PlacedPod]()
    first: PodExplanation | None = None
    stopped: PodExplanation | None = None
    decision = None
    for attempt in attempts:
        decision, table = attempt.decision, attempt.table
        placed = decision.chosen is not None
        if first is None or not placed:
            explanation = build_pod_explanation(decision, attempt.outcomes, table, every_node=every_node, node=node)
            explanation["suggestions"] = build_hypothetical_suggestions(decision)
            first, stopped = first or explanation, None if placed else explanation
        if placed:
            pods.append(_placed(decision, table))
    if first is None or decision is None:
        raise ValueError("a review needs an attempt")
    on = Counter(str(pod["node"]) for pod in pods)
    return {
        "apiVersion": API_VERSION,
        "kind": "PlacementReview",
        "metadata": {"namespace": decision.pod.namespace, "name": workload.name},
        "spec": {"kind": workload.kind, "replicas": workload.replicas, "schedulerName": decision.scheduler.profile},
        "status": {
            "headline": _headline(workload.replicas, pods, on, first, stopped),
            "fits": len(pods),
            "nodes": [{"node": n, "pods": on[n]} for n in sorted(on, key=lambda n: (-on[n], natural_sort_key(n)))],
            "pods": pods,
            "first": first,
            "stopped": stopped,
        },
    }


def _placed(decision: Decision, table: NodeTable) -> PlacedPod:
    reason = find_deciding_factor(decision)
    assert decision.chosen is not None
    return {
        "pod": decision.pod.name,
        "node": table.names[decision.chosen],
        "decidedBy": reason.by,
        "points": reason.points,
        "feasible": decision.nodes_feasible,
    }


def _headline(
    replicas: int,
    pods: Sequence[PlacedPod],
    on: Counter[str],
    first: PodExplanation,
    stopped: PodExplanation | None,
) -> str:
    if replicas == 1:
        return first["headline"]
    node_counts = ", ".join(f"{node} ({n})" for node, n in on.most_common(_NAMED))
    more = f" and {len(on) - _NAMED} more" if len(on) > _NAMED else ""
    spread = f", on {node_counts}{more}" if on else ""
    if stopped is None:
        return f"{describe_all(replicas, 'pod')} fit{spread}."
    if not pods:
        return f"None of {pluralize(replicas, 'pod')} fits. {stopped['headline']}"
    return f"{len(pods)} of {replicas} pods fit{spread}. Number {len(pods) + 1} does not: {stopped['headline']}"
