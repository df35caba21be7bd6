"""Build the answer documents `NodeComparison` (two nodes for one pod) and `PodComparison` (two pods, often siblings).

A PodComparison may also be of one pod in two simulations.

Owns: the documents' shapes and their sentences. Does not own: the explanation of one node (`pod`, `node_results`),
the differences between two decisions (`changes`). Pure.

Invariant: both sides keep the order of the request; differences run from the earlier decision to the later one, or from
the first simulation to the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from herodotus_answers.changes import Difference, RecordedDecision, compare_decisions
from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.explain import (
    SnapshotCounts,
    compare_scores,
    count_nodes,
    derive_state,
    format_shares,
    rank_slots,
    weigh_scores,
)
from herodotus_answers.headlines import format_headline, format_node_headline
from herodotus_answers.node_results import (
    build_reason_detail,
    explain_not_evaluated,
    is_evaluated,
    list_rejections,
    list_verdicts,
)
from herodotus_answers.pod import NodeExplanation, explain_node
from herodotus_answers.pruned import NOT_KEPT, describe_kept, find_slot
from herodotus_record.model import API_VERSION, Decision, Evaluation, Verdict
from herodotus_record.units import format_requests, format_timestamp, pluralize

MAX_BEST = 3  # best nodes of each pod that are compared for both pods


class ComparedAttempt(TypedDict):
    """Which attempt it was, and when."""

    number: Annotated[int, "The scheduler's count of the pod's attempts, which restarts with the scheduler."]
    id: Annotated[str, "ID of the decision."]
    startedAt: Annotated[
        str, "Start of the attempt; of a simulated one, the time since the start of the trace, from 1970 on."
    ]
    ordinal: NotRequired[Annotated[int, "Number of the attempt among those that the service has of the pod, from 1."]]
    lastOrdinal: NotRequired[
        Annotated[int, "Number of the last attempt that equals it and shares its record; else `ordinal`."]
    ]
    attempts: NotRequired[Annotated[int, "Number of attempts that the service has of the pod."]]


class ComparedVerdicts(TypedDict):
    """Verdicts of a filter on the two compared nodes."""

    plugin: Annotated[str, "The filter."]
    verdicts: Annotated[list[str], "Verdict on each node: pass, reject, skipped or not-run."]


class ComparedScores(TypedDict):
    """Scores of a plugin for the two nodes."""

    plugin: Annotated[str, "The plugin."]
    weight: Annotated[int, "Its weight."]
    points: Annotated[list[int], "Weighted score of each node."]
    difference: Annotated[int, "Weighted score of the first node minus that of the second."]


class NodeComparison(Document):
    """Comparison of two nodes for one pod."""

    kind: Literal["NodeComparison"]
    attempt: ComparedAttempt
    headline: Annotated[str, "The difference in one sentence."]
    nodes: Annotated[list[NodeExplanation], "The two nodes."]
    filters: Annotated[list[ComparedVerdicts], "Verdict of each filter on both nodes."]
    scores: Annotated[list[ComparedScores], "Scores of each plugin for both nodes; empty unless both were scored."]
    totals: Annotated[list[int] | None, "Totals of the two nodes; null unless both were scored."]


class ComparedPod(TypedDict):
    """A pod at its last attempt, or at one attempt of a simulation."""

    variant: NotRequired[Annotated[str, "Name of the simulated variant that decided; absent if it was no simulation."]]
    namespace: Annotated[str, "Namespace of the pod."]
    name: Annotated[str, "Name of the pod."]
    uid: Annotated[str, "UID of the pod."]
    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    priority: Annotated[int, "Priority of the pod."]
    requests: Annotated[dict[str, str], "Requests of the pod by resource."]
    attempt: ComparedAttempt
    state: Annotated[str, "State of the attempt: Bound, Binding, DryRun, Failed, Unschedulable or Error."]
    node: Annotated[str | None, "Node that was chosen."]
    nodes: SnapshotCounts
    headline: Annotated[str, "Result of the attempt in one sentence."]


PodDifferences = TypedDict(
    "PodDifferences",
    {
        "from": Annotated[
            str,
            "Name of the pod with the earlier attempt; NAMESPACE/NAME if the namespaces differ. In a simulation, the"
            " pod with the first variant.",
        ],
        "to": Annotated[str, "Name of the pod with the later attempt, or with the second variant, in the same form."],
        "changes": Annotated[
            list[Difference],
            "Differences of the two pods and of their verdicts, and what changed in the cluster between the attempts.",
        ],
    },
)


class NodeResult(TypedDict):
    """How one node fared for one pod.

    If the node was not in the cluster, `chosen` is false, `scores` is absent, and the other values are null.
    """

    evaluation: Annotated[str | None, "Whether the filters ran on the node, or why not."]
    rejectedBy: Annotated[str | None, "First filter that rejected it."]
    why: Annotated[str | None, "Why it was rejected, or not evaluated."]
    rank: Annotated[int | None, "Rank of the node, from 1; null if it is not feasible."]
    total: Annotated[int | None, "Total of the weighted scores; null if nothing was scored."]
    scores: NotRequired[Annotated[dict[str, int], "Weighted score by plugin; empty if the node is not feasible."]]
    chosen: Annotated[bool, "Whether it was chosen."]


class ComparedNode(TypedDict):
    """A node with its result for each pod."""

    node: Annotated[str, "Name of the node."]
    pods: Annotated[list[NodeResult], "Its result for each of the two pods."]


class PodComparison(Document):
    """Comparison of two pods, each at its last attempt."""

    kind: Literal["PodComparison"]
    headline: Annotated[str, "The difference in one sentence."]
    sameQuestion: Annotated[bool, "Whether both pods are equal in everything that scheduling reads."]
    secondsApart: Annotated[float, "Seconds between the two attempts."]
    pods: Annotated[list[ComparedPod], "The two pods."]
    differences: Annotated[PodDifferences, "What differs between the two decisions, the earlier one first."]
    nodes: Annotated[list[ComparedNode], "Best nodes of both attempts."]


def build_node_comparison(recorded: RecordedDecision, nodes: Sequence[str]) -> NodeComparison:
    """Return the JSON document of kind NodeComparison: how two nodes fared for one pod.

    Raises KeyError with the name of a node that was not in the cluster, PrunedError if the record was pruned and no
    longer holds the node's results.
    """
    d, table = recorded.decision, recorded.table
    a, b = slots = [find_slot(d, table, node) for node in nodes]
    sides = [dict(list_verdicts(d, slot)) for slot in slots]
    scored = [s.plugin for s in d.scores if not s.skipped and len(s.normalized)] if d.rank[a] and d.rank[b] else []
    points = [weigh_scores(d, slot) for slot in slots]
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeComparison",
        "metadata": {"namespace": d.pod.namespace, "name": d.pod.name, "uid": d.pod.uid},
        "attempt": _attempt(d),
        "headline": _headline_of_nodes(recorded, a, b),
        "nodes": [explain_node(d, table, slot) for slot in slots],
        "filters": [
            {"plugin": f.plugin, "verdicts": [_verdict_name(f.plugin, side, f.skipped) for side in sides]}
            for f in d.filters
        ],
        "scores": [
            {
                "plugin": plugin,
                "weight": next(s.weight for s in d.scores if s.plugin == plugin),
                "points": [side[plugin] for side in points],
                "difference": points[0][plugin] - points[1][plugin],
            }
            for plugin in scored
        ],
        "totals": [d.totals[slot] for slot in slots] if scored else None,
    }


def build_pod_comparison(
    pods: Sequence[RecordedDecision], variants: Sequence[str] = (), attempts: Sequence[int] = ()
) -> PodComparison:
    """Return the JSON document of kind PodComparison: what differs between the decisions for two pods.

    `pods` holds one decision for each pod. `variants` are the names of two simulations of the same pod, and `attempts`
    the numbers of two attempts at one pod.
    """
    first, second = pods
    sides = [f"Attempt {number}" for number in attempts] or _name_sides(first, second, variants)
    named = list(zip(pods, sides, strict=True))
    (earlier, before), (later, after) = (
        named if variants else sorted(named, key=lambda side: side[0].decision.times.started_us)
    )
    names = (before, after)
    document: PodComparison = {
        "apiVersion": API_VERSION,
        "kind": "PodComparison",
        "metadata": {"namespace": first.decision.pod.namespace, "name": first.decision.pod.name},
        "headline": _headline_of_pods(earlier, later, names),
        "sameQuestion": first.decision.pod.digest == second.decision.pod.digest != "",
        "secondsApart": abs(later.decision.times.started_us - earlier.decision.times.started_us) / 1e6,
        "pods": [_pod(pod) for pod in pods],
        "differences": {
            "from": names[0],
            "to": names[1],
            "changes": compare_decisions(earlier, later, names),
        },
        "nodes": [{"node": node, "pods": [_node_result(pod, node) for pod in pods]} for node in _select_nodes(pods)],
    }
    for side, variant in zip(document["pods"], variants, strict=bool(variants)):
        side["variant"] = variant
    return document


def _headline_of_nodes(recorded: RecordedDecision, a: int, b: int) -> str:
    d, names = recorded.decision, recorded.table.names
    if not (d.rank[a] and d.rank[b] and len(d.totals)):
        return " ".join(dict.fromkeys(format_node_headline(d, recorded.table, slot) for slot in (a, b)))
    best, other = sorted((a, b), key=lambda slot: (d.rank[slot], slot != d.chosen))
    points = d.totals[best] - d.totals[other]
    if not points:
        drawn = f"; {names[best]} was drawn" if best == d.chosen else ""
        return f"{names[best]} and {names[other]} are equal: rank {d.rank[best]}, {d.totals[best]} points{drawn}."
    return (
        f"{names[best]} (rank {d.rank[best]}) is {pluralize(points, 'point')} ahead of {names[other]}"
        f" (rank {d.rank[other]}): {format_shares(compare_scores(d, best, other))}."
    )


def _headline_of_pods(earlier: RecordedDecision, later: RecordedDecision, names: tuple[str, str]) -> str:
    before, after = _chosen_node(earlier), _chosen_node(later)
    if before is None and after is None:
        return f"Neither is placed. {names[0]}: {format_headline(earlier.decision, earlier.table)}"
    if before == after:
        return f"Both are on {before}. For {names[1]}: {format_headline(later.decision, later.table)}"
    headline_text = f"{names[0]} {_placement(before)}, {names[1]} {_placement(after)}."
    if before is None:
        return f"{headline_text} {_explain_other_node(earlier, names[0], str(after))}"
    return f"{headline_text} {_explain_other_node(later, names[1], before)}"


def _name_sides(earlier: RecordedDecision, later: RecordedDecision, variants: Sequence[str]) -> tuple[str, str]:
    """Return what sentences call the two sides: the pods, with namespaces if these differ, or with their variants."""
    one, other = earlier.decision.pod, later.decision.pod
    if variants:
        return f"{one.name} with {variants[0]}", f"{other.name} with {variants[1]}"
    if one.namespace == other.namespace:
        return one.name, other.name
    return f"{one.namespace}/{one.name}", f"{other.namespace}/{other.name}"


def _chosen_node(recorded: RecordedDecision) -> str | None:
    return None if recorded.decision.chosen is None else recorded.table.names[recorded.decision.chosen]


def _placement(node: str | None) -> str:
    return "fits nowhere" if node is None else f"is on {node}"


def _explain_other_node(recorded: RecordedDecision, name: str, node: str) -> str:
    """Return a sentence about how this decision judged `node`, the node of the pod that it is compared with.

    `name` is that of the decided pod.
    """
    d = recorded.decision
    slot = recorded.table.find_slot(node)
    when = f"When {name} was decided, {node}"
    if slot is None and d.summary:
        return f"Of {node} nothing is kept for {name}: {describe_kept(d)}."
    if slot is None or d.evaluation[slot] == Evaluation.ABSENT:
        return f"{when} was not in the cluster."
    if not is_evaluated(d, slot):
        return f"{when} was not evaluated: {explain_not_evaluated(d, slot)}."
    against = list_rejections(d, slot)
    if against:
        plugin, verdict = against[0]
        why = ", ".join(build_reason_detail(d, recorded.table, slot, reason)["text"] for reason in verdict.reasons)
        return f"{when} did not fit: {plugin}{', ' if why else ''}{why}."
    if not d.rank[slot]:
        return f"{when} passed every filter that ran; the attempt ended before it was ranked."
    if not len(d.totals):
        return f"{when} fitted too; nothing was scored."
    best = rank_slots(d)[0]
    points = d.totals[best] - d.totals[slot]
    if not points:
        return f"{when} had the same total as {recorded.table.names[best]}, which was drawn."
    behind = f"{pluralize(points, 'point')} behind {recorded.table.names[best]}"
    return f"{when} ranked {d.rank[slot]}, {behind} ({format_shares(compare_scores(d, slot, best))})."


def _pod(recorded: RecordedDecision) -> ComparedPod:
    d = recorded.decision
    return {
        "namespace": d.pod.namespace,
        "name": d.pod.name,
        "uid": d.pod.uid,
        "owner": str(d.pod.owner) if d.pod.owner else None,
        "priority": d.pod.priority,
        "requests": format_requests(dict(d.pod.requests)),
        "attempt": _attempt(d),
        "state": derive_state(d, recorded.outcomes),
        "node": _chosen_node(recorded),
        "nodes": count_nodes(d),
        "headline": format_headline(d, recorded.table),
    }


def _attempt(d: Decision) -> ComparedAttempt:
    return {"number": d.key.attempt, "id": d.id, "startedAt": format_timestamp(d.times.started_us)}


def _select_nodes(pods: Sequence[RecordedDecision]) -> list[str]:
    """Return the names of the nodes to compare: each pod's first-ranked node, then the other best nodes of both."""
    best = [[p.table.names[slot] for slot in rank_slots(p.decision)[:MAX_BEST]] for p in pods]
    return list(dict.fromkeys([*(names[0] for names in best if names), *(name for names in best for name in names)]))


def _node_result(recorded: RecordedDecision, node: str) -> NodeResult:
    """Return, as JSON, how one node fared for one pod: its evaluation, first rejection, rank, total and scores.

    If the node was not in the cluster, `chosen` is False, and the other values are None.
    """
    d = recorded.decision
    slot = recorded.table.find_slot(node)
    if slot is None and d.summary:
        unknown = Evaluation.UNRECORDED.label
        return {
            "evaluation": unknown,
            "rejectedBy": None,
            "why": NOT_KEPT,
            "rank": None,
            "total": None,
            "chosen": False,
        }
    if slot is None or d.evaluation[slot] == Evaluation.ABSENT:
        return {"evaluation": None, "rejectedBy": None, "why": None, "rank": None, "total": None, "chosen": False}
    against = list_rejections(d, slot)
    why = [build_reason_detail(d, recorded.table, slot, reason)["text"] for _, v in against[:1] for reason in v.reasons]
    return {
        "evaluation": Evaluation(d.evaluation[slot]).label,
        "rejectedBy": against[0][0] if against else None,
        "why": ", ".join(why) or explain_not_evaluated(d, slot) or None,
        "rank": d.rank[slot] or None,
        "total": d.totals[slot] if d.rank[slot] and len(d.totals) else None,
        "scores": weigh_scores(d, slot) if d.rank[slot] else {},
        "chosen": slot == d.chosen,
    }


def _verdict_name(plugin: str, verdicts: Mapping[str, Verdict], skipped: bool) -> str:
    """Return a filter's verdict on one node as a word: pass, reject, skipped or not-run."""
    if skipped:
        return "skipped"
    if plugin not in verdicts:
        return "not-run"
    return "reject" if verdicts[plugin].rejects_node else "pass"
