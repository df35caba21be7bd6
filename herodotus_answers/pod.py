"""Build the answer document `PodExplanation`: what happened to a pod, as small JSON.

Owns: the document's shape, and what a default answer omits. Does not own: what is computed from the record (`explain`,
`node_results`), HTTP, layout. Pure.

Invariant: everything that a default answer omits is counted (`...Omitted`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from herodotus_answers.decision import (
    Archive,
    GroupCycle,
    Origins,
    Reconstruction,
    Repeats,
    RequeueEvent,
    Retry,
    build_part,
    build_repeats,
    read_node_groups,
    set_unknown_to_null,
)
from herodotus_answers.declare import Document, NotRequired
from herodotus_answers.devices import AllocatedDevice, DeviceShortage, build_device_shortage
from herodotus_answers.explain import (
    RejectionGroup,
    compute_margin,
    count_evaluations,
    count_tied,
    count_verdicts,
    derive_state,
    group_rejections,
    list_possible_changes,
    rank_slots,
)
from herodotus_answers.headlines import format_headline, format_node_headline, format_summary
from herodotus_answers.live.declarations import LivePod
from herodotus_answers.node_columns import NodeColumns
from herodotus_answers.node_groups import NodeGroupReview, PodNodeGroups
from herodotus_answers.node_results import (
    ReasonDetail,
    build_reason_detail,
    is_evaluated,
    list_possible_node_changes,
    list_verdicts,
)
from herodotus_answers.pod_group import FEW_MEMBERS
from herodotus_answers.preemptions import PreemptionEntry
from herodotus_answers.pruned import Pruned, build_pruned, describe_kept, find_slot
from herodotus_answers.score_differences import ScoreDifference, explain_margin
from herodotus_answers.spread import SpreadDomains, build_spread_domains
from herodotus_answers.suggestions import SuggestedChange, build_suggestions
from herodotus_record import notes, reasons
from herodotus_record.kubernetes_version import find_wording_version
from herodotus_record.model import (
    ADDITIONS,
    API_VERSION,
    EVALUATION,
    NODE_GROUPS_PHASE,
    NOT_RUN,
    POD_GROUP_PHASE,
    Candidate,
    Code,
    Decision,
    Evaluation,
    Inputs,
    NodeTable,
    Outcome,
    PluginVerdict,
    SchedulerInfo,
    Source,
)
from herodotus_record.units import format_requests, format_timestamp, natural_sort_key

MAX_RANKED = 10  # rows of the ranking in a default answer, enough to fill a screen
MAX_NAMED = 8  # nodes listed for one reason in a default answer
_SHARED = {  # fields of the whole record that have another path in the answer
    "times.podCreatedAt": "attempt.podCreatedAt",
    "times.queuedAt": "attempt.queuedAt",
    "times.phaseSeconds": "attempt.phaseSeconds",
    "times.queueSeconds": "attempt.queueSeconds",
    "scheduler.profile": "attempt.profile",
    "scheduler.identity": "attempt.scheduler",
    "scheduler.version": "attempt.version",
    "scheduler.rules": "attempt.rules",
    "scheduler.rulesSource": "attempt.rulesSource",
    "snapshot.nodes": "nodes.total",
    "snapshot.evaluated": "nodes.evaluated",
    "snapshot.feasible": "nodes.feasible",
}
MAX_PER_NODE = 20  # up to this many nodes, a default answer lists every node separately


class PodFacts(TypedDict):
    """The pod that the attempt was for."""

    owner: Annotated[str | None, "Owner of the pod as KIND/NAME."]
    labels: Annotated[dict[str, str] | None, "Labels of the pod."]
    priority: Annotated[int | None, "Priority of the pod."]
    requests: Annotated[dict[str, str] | None, "Requests of the pod by resource."]
    nominatedNode: Annotated[str | None, "Node that an earlier attempt nominated."]
    podGroup: Annotated[str | None, "PodGroup of the pod."]


class Attempt(TypedDict):
    """Which attempt it was, and when."""

    number: Annotated[int, "The scheduler's count of the pod's attempts, which restarts with the scheduler."]
    id: Annotated[str, "ID of the decision."]
    sequence: Annotated[int, "Sequence number of the record."]
    cluster: Annotated[str, "UID of the cluster's namespace kube-system."]
    source: Annotated[str, "Source of the record: scheduler, reconstructed, logged or evaluated."]
    incarnation: Annotated[str, "ID of the scheduler's process."]
    profile: Annotated[str | None, "Scheduler name (spec.schedulerName) of the profile."]
    scheduler: Annotated[str | None, "Identity of the scheduler's process, as in its Lease."]
    version: Annotated[str | None, "Version of the scheduler."]
    rules: Annotated[str | None, "Version of kube-scheduler whose rules applied."]
    rulesSource: Annotated[
        str | None,
        "Where it comes from: flag, configuration, scheduler-image, lease-candidate, api-server, log or default.",
    ]
    generation: Annotated[int, "Generation of the node table."]
    podCreatedAt: Annotated[str | None, "Time at which the pod was created."]
    queuedAt: Annotated[str | None, "Time at which the pod came into the queue."]
    startedAt: Annotated[str, "Start of the attempt."]
    phaseSeconds: Annotated[dict[str, float] | None, "Duration of each phase, in seconds."]
    queueSeconds: Annotated[dict[str, float] | None, "Time in each queue before the attempt, in seconds."]
    requeuedBy: Annotated[RequeueEvent | None, "Event that requeued the pod before the attempt."]
    retry: Annotated[Retry | None, "When the pod is tried again; null if it is not."]
    podGroupCycle: Annotated[GroupCycle | None, "Cycle of the pod's group; null if it was decided alone."]
    repeats: Annotated[Repeats | None, "Later attempts that equal this one; null if there are none."]
    ordinal: NotRequired[Annotated[int, "Number of the attempt among those that the service has of the pod, from 1."]]
    lastOrdinal: NotRequired[
        Annotated[int, "Number of the last attempt that equals it and shares its record; else `ordinal`."]
    ]
    attempts: NotRequired[Annotated[int, "Number of attempts that the service has of the pod."]]
    failedBefore: NotRequired[Annotated[int, "Number of earlier attempts that failed."]]


class BindingPhase(TypedDict):
    """A phase after the decision."""

    phase: Annotated[str, "Name of the phase."]
    status: Annotated[str, "Status code of its result."]
    message: Annotated[str, "Message of its result."]
    at: Annotated[str, "Time at which it ended."]
    durationSeconds: Annotated[float, "Its duration, in seconds."]


class AttemptOutcome(TypedDict):
    """Outcome of the attempt."""

    state: Annotated[str, "State of the attempt: Bound, Binding, DryRun, Failed, Unschedulable or Error."]
    path: Annotated[str, "How the node was found, such as scored or only-feasible."]
    node: Annotated[str | None, "Node that was chosen."]
    final: Annotated[bool, "Whether nothing more follows."]
    phases: Annotated[list[BindingPhase], "Phases after the decision."]
    lost: NotRequired[Annotated[bool, "Whether the result was not recorded because the scheduler was restarted."]]
    message: NotRequired[Annotated[str, "Sentence about the lost result."]]


class NodeCounts(TypedDict):
    """Numbers of nodes in the snapshot."""

    total: Annotated[int | None, "Number of all nodes."]
    evaluated: Annotated[int | None, "Number of nodes on which the filters ran."]
    feasible: Annotated[int | None, "Number of nodes that passed every filter."]
    notEvaluated: Annotated[dict[str, int], "Number of nodes on which they did not run, by cause."]


class Tie(TypedDict):
    """Nodes that shared the best total, and how one of them was chosen."""

    nodes: Annotated[list[str], "Names of the nodes."]
    nodesOmitted: Annotated[int, "Number of these nodes that are not listed."]
    seed: Annotated[int | None, "Seed of the draw; null if it is not known."]


class ScoreMargin(TypedDict):
    """Lead of the best node over the next best one."""

    points: Annotated[int, "Difference of their totals."]
    runnerUp: Annotated[str, "The next best node."]
    shares: Annotated[dict[str, int], "Share of each score plugin in the difference, in weighted points."]
    best: Annotated[str, "The best node."]
    reasons: Annotated[list[ScoreDifference], "What made up the scores that differ, as far as the record tells."]


class PluginResult(TypedDict):
    """Status that a plugin returned for the pod as a whole."""

    plugin: Annotated[str, "The plugin."]
    code: Annotated[str, "Status code of its result."]
    reasons: Annotated[list[str], "kube-scheduler's sentences."]


class FilterCounts(TypedDict):
    """Number of nodes that a filter passed and rejected."""

    plugin: Annotated[str, "The filter."]
    skipped: Annotated[bool, "Whether it had nothing to check."]
    passed: Annotated[int, "Number of nodes that it passed."]
    rejected: Annotated[int, "Number of nodes that it rejected."]


class ScorePlugin(TypedDict):
    """A score plugin of the profile."""

    plugin: Annotated[str, "The plugin."]
    weight: Annotated[int, "Its weight."]
    skipped: Annotated[bool, "Whether it had nothing to score."]


class MeasuredNumber(TypedDict):
    """A number that is measured for each node."""

    name: Annotated[str, "Name of the number."]
    unit: Annotated[str, "Its unit; empty if it has none."]
    digits: Annotated[int, "Number of decimals to show."]


class InputSource(TypedDict):
    """A source of measurements that a plugin or extender read, with its metrics. `NodeInputs` has the values."""

    plugin: Annotated[str, "The plugin or extender."]
    source: Annotated[str, "Where the measurements are from."]
    numbers: Annotated[list[MeasuredNumber], "Metrics of the source."]


class NodeInputs(TypedDict):
    """Measurements of one source for a node."""

    plugin: Annotated[str, "The plugin or extender that used them."]
    values: Annotated[dict[str, float | None], "Value of each number; null if it was not measured."]
    measuredAt: Annotated[str | None, "Time of the measurement."]
    stale: Annotated[bool, "Whether they were too old to be used."]


class Score(TypedDict):
    """Score that a plugin gave a node."""

    raw: Annotated[int | None, "Score before normalization."]
    normalized: Annotated[int, "Score from 0 to 100."]
    weighted: Annotated[int, "Normalized score times the weight of the plugin."]


class DecidedNode(TypedDict):
    """A node of the snapshot."""

    node: Annotated[str, "Name of the node."]
    chosen: Annotated[bool, "Whether it was chosen."]
    inputs: NotRequired[Annotated[list[NodeInputs], "Measurements that plugins used for the node."]]


class RankedNode(DecidedNode):
    """A feasible node with its scores."""

    rank: Annotated[int, "Rank of the node, from 1."]
    total: Annotated[int | None, "Total of the weighted scores; null if nothing was scored."]
    scores: Annotated[dict[str, Score], "Scores by plugin."]


class PreemptionCandidate(TypedDict):
    """A node on which preemption could make room."""

    node: Annotated[str, "Name of the node."]
    victims: Annotated[list[str], "Pods that would be evicted, as NAMESPACE/NAME."]
    pdbViolations: Annotated[int, "Number of victims that a PodDisruptionBudget protects."]
    rejectedBy: Annotated[str | None, "Extender that rejected the node; null if none did."]


class PreemptionResult(TypedDict):
    """Result of preemption: the nominated node, and the nodes that it considered."""

    nominatedNode: Annotated[str | None, "Node that was nominated."]
    evicted: Annotated[bool, "Whether pods were evicted for the pod."]
    candidates: Annotated[list[PreemptionCandidate], "Nodes on which preemption could make room."]
    candidatesOmitted: Annotated[int, "Number of such nodes that are not listed."]


class NodeRejection(TypedDict):
    """Rejection of a node by a filter."""

    plugin: Annotated[str, "The filter."]
    code: Annotated[str, "Status code of its verdict."]
    reasons: Annotated[list[ReasonDetail], "Its reasons."]


class NodeExplanation(DecidedNode):
    """How one node fared."""

    rank: Annotated[int | None, "Rank of the node, from 1; null if it is not feasible."]
    total: Annotated[int | None, "Total of the weighted scores; null if nothing was scored."]
    scores: Annotated[dict[str, Score], "Scores by plugin; empty if the node is not feasible."]
    headline: Annotated[str, "How the node fared, in one sentence."]
    evaluation: Annotated[str, "Whether the filters ran on the node, or why not."]
    feasible: Annotated[bool, "Whether it passed every filter."]
    passed: Annotated[list[str], "Filters that it passed."]
    skipped: Annotated[list[str], "Filters that had nothing to check."]
    rejectedBy: Annotated[list[NodeRejection], "Filters that rejected it."]
    possibleChanges: Annotated[list[str], "Changes after which it would pass, as sentences."]
    eviction: Annotated[PreemptionCandidate | None, "What preemption would evict there; null if it would not help."]


class PodExplanation(Document):
    """Explanation of one attempt to schedule a pod: its result, and the verdicts and scores behind it."""

    kind: Literal["PodExplanation"]
    pod: PodFacts
    attempt: Attempt
    outcome: AttemptOutcome
    headline: Annotated[str, "Result of the attempt in one sentence."]
    groupHeadline: NotRequired[
        Annotated[str, "Why the pod's group is not placed, though the attempt found a node; only the plugin adds it."]
    ]
    summary: Annotated[str, "Result of the attempt with the reasons."]
    message: Annotated[str, "Message of the pod's FailedScheduling event."]
    nodes: NodeCounts
    tie: Annotated[Tie | None, "Nodes that shared the best total; null if one node alone had it."]
    margin: Annotated[
        ScoreMargin | None, "Lead of the best node over the next best one; null if fewer than two nodes were scored."
    ]
    preFilters: Annotated[list[PluginResult], "PreFilter plugins that did not succeed."]
    restrictedBy: Annotated[list[str], "PreFilter plugins that restricted the nodes to evaluate."]
    filters: Annotated[list[FilterCounts], "Number of nodes that each filter passed and rejected."]
    scorePlugins: Annotated[list[ScorePlugin], "Score plugins with their weights."]
    inputs: Annotated[list[InputSource], "Measurements that plugins and extenders used, one entry per source."]
    ranking: Annotated[list[RankedNode], "Feasible nodes with the highest totals."]
    rankingOmitted: Annotated[int, "Number of feasible nodes that are not listed."]
    rejections: Annotated[list[RejectionGroup], "Rejected nodes, grouped by reason."]
    preemption: Annotated[PreemptionResult | None, "Nodes on which preemption could make room; null if it did not run."]
    postFilters: Annotated[list[PluginResult], "Results of the PostFilter plugins."]
    possibleChanges: Annotated[list[str], "Changes that may help; not checked."]
    suggestions: Annotated[list[SuggestedChange], "Changes after which the pod would fit, the smallest first."]
    devices: Annotated[list[AllocatedDevice], "Devices that the pod's resource claims have on the chosen node."]
    deviceShortage: Annotated[DeviceShortage | None, "How usable devices are spread over nodes; null if nothing lacks."]
    notes: Annotated[list[str], "Limits of the record: what it does not know, or what was switched off."]
    pruned: Annotated[Pruned | None, "What is left of a pruned record; null if it is complete."]
    reconstruction: Annotated[
        Reconstruction | None, "Whether the outcome of another scheduler agrees with this reconstruction, and why not."
    ]
    origins: NotRequired[Origins]
    archive: NotRequired[Archive]
    preemptedBy: NotRequired[
        Annotated[
            PreemptionEntry,
            "First preemption that evicted the pod after this decision. If its `evicted` is false, only the observer's"
            " evaluation says so.",
        ]
    ]
    madeRoom: NotRequired[
        Annotated[
            PreemptionEntry,
            "Preemption of an earlier attempt of this pod, which nominated the node that the pod got.",
        ]
    ]
    spread: NotRequired[Annotated[list[SpreadDomains], "Domains of the spread constraints that rejected nodes."]]
    nodeGroups: NotRequired[Annotated[PodNodeGroups, "Verdicts of node groups on a pending pod."]]
    live: NotRequired[Annotated[LivePod, "What the API server knows now; only the plugin adds it."]]
    columns: NotRequired[Annotated[NodeColumns, "All nodes as columns, if the request sets `columns`."]]
    perNode: NotRequired[
        Annotated[
            list[NodeExplanation],
            "Verdicts and scores of each node, if there are few nodes or the request sets `all` or `node`.",
        ]
    ]


def build_pod_explanation(
    decision: Decision, outcomes: Sequence[Outcome], table: NodeTable, *, every_node: bool = False, node: str = ""
) -> PodExplanation:
    """Return the JSON document of kind PodExplanation, which answers "what happened to this pod".

    With `every_node` nothing is omitted and each node is listed separately. With `node`, `perNode` holds only that
    node. Raises KeyError if the node was not in the cluster at that generation, PrunedError if its entries are no
    longer kept.
    """
    order = rank_slots(decision)
    shown = _by_name_among_equals(decision, table, order, len(order) if every_node else MAX_RANKED)
    listed = (
        _slots_to_list(decision, table, node) if every_node or node or decision.nodes_total <= MAX_PER_NODE else None
    )
    answer: PodExplanation = {
        "apiVersion": API_VERSION,
        "kind": "PodExplanation",
        "metadata": {"namespace": decision.pod.namespace, "name": decision.pod.name, "uid": decision.pod.uid},
        "pod": _pod(decision),
        "attempt": _attempt(decision, outcomes),
        "outcome": _outcome(decision, outcomes, table),
        "headline": _describe_wait(decision, outcomes, table) or format_headline(decision, table),
        "summary": format_summary(decision, table),
        "message": decision.message,
        "nodes": {
            "total": decision.nodes_total,
            "evaluated": decision.nodes_evaluated,
            "feasible": decision.nodes_feasible,
            "notEvaluated": _not_evaluated(decision),
        },
        "tie": _tie(decision, table),
        "margin": _margin(decision, table),
        "preFilters": [_plugin_verdict(v, decision.scheduler) for v in decision.pre_filters],
        "restrictedBy": list(decision.restricted_by),
        "filters": _filters(decision),
        "scorePlugins": [{"plugin": s.plugin, "weight": s.weight, "skipped": s.skipped} for s in decision.scores],
        "inputs": list_sources(decision),
        "ranking": [_ranked(decision, table, slot) for slot in shown],
        "rankingOmitted": len(order) - len(shown) + (decision.nodes_feasible - len(order) if decision.summary else 0),
        "rejections": group_rejections(decision, table, named=None if every_node else MAX_NAMED),
        "preemption": _preemption(decision),
        "postFilters": [_plugin_verdict(v, decision.scheduler) for v in decision.post_filters],
        "possibleChanges": list_possible_changes(decision, table),
        "suggestions": build_suggestions(decision),
        "devices": [build_part(device) for device in decision.devices],
        "deviceShortage": build_device_shortage(decision, table),
        "notes": [*notes.format_decision_notes(decision), *filter(None, [describe_kept(decision)])],
        "pruned": build_pruned(decision),
        "reconstruction": build_part(decision.reconstruction),
    }
    spread = build_spread_domains(decision, table)
    if spread:
        answer["spread"] = spread
    recorded = find_node_groups(outcomes)
    if recorded is not None:
        answer["nodeGroups"] = recorded
    if listed is not None:
        answer["perNode"] = [explain_node(decision, table, slot) for slot in listed]
    set_unknown_to_null(
        answer, [_SHARED.get(path, path) for path in decision.unknown if path in _SHARED or path.startswith("pod.")]
    )
    return answer


def _by_name_among_equals(decision: Decision, table: NodeTable, order: Sequence[int], most: int) -> list[int]:
    """Return the first `most` slots of the ranking `order`, with nodes of equal rank sorted by name.

    The chosen node stays before the others of its rank.
    """
    rank, chosen = decision.rank, decision.chosen
    if most < len(order):
        order = order[: bisect_right(order, rank[order[most - 1]], key=rank.__getitem__)]
    return sorted(order, key=lambda s: (rank[s], s != chosen, natural_sort_key(table.names[s])))[:most]


def _slots_to_list(decision: Decision, table: NodeTable, node: str) -> list[int]:
    """Return the slots of the nodes to explain separately: that of `node`, or all in the order of node names.

    A slot is a node's index in the node table. Raises KeyError if `node` is not in it.
    """
    if node:
        return [find_slot(decision, table, node)]
    present = [slot for slot, e in enumerate(decision.evaluation) if e != Evaluation.ABSENT]
    return sorted(present, key=lambda slot: natural_sort_key(table.names[slot]))


def _pod(decision: Decision) -> PodFacts:
    pod = decision.pod
    return {
        "owner": str(pod.owner) if pod.owner else None,
        "labels": dict(pod.labels),
        "priority": pod.priority,
        "requests": format_requests(dict(pod.requests)),
        "nominatedNode": pod.nominated_node or None,
        "podGroup": pod.pod_group or None,
    }


def _attempt(decision: Decision, outcomes: Sequence[Outcome]) -> Attempt:
    key, times = decision.key, decision.times
    return {
        "number": key.attempt,
        "id": decision.id,
        "sequence": decision.sequence,
        "cluster": key.cluster,
        "source": key.source.value,
        "incarnation": key.incarnation,
        "profile": decision.scheduler.profile,
        "scheduler": decision.scheduler.identity,
        "version": decision.scheduler.version,
        "rules": decision.scheduler.rules,
        "rulesSource": decision.scheduler.rules_source,
        "generation": decision.generation,
        "podCreatedAt": format_timestamp(times.created_us),
        "queuedAt": format_timestamp(times.queued_us),
        "startedAt": format_timestamp(times.started_us),
        "phaseSeconds": dict(times.phases_s),
        "queueSeconds": dict(times.queues_s),
        "requeuedBy": build_part(decision.requeued_by),
        "retry": build_part(decision.retry),
        "podGroupCycle": build_part(decision.group_cycle),
        "repeats": build_repeats(outcomes),
    }


def _describe_wait(decision: Decision, outcomes: Sequence[Outcome], table: NodeTable) -> str:
    """Return a sentence about a pod for which a node was found and that is on none; "" for any other pod."""
    if decision.chosen is not None and any(o.phase == EVALUATION for o in outcomes) and decision.message:
        node = table.names[decision.chosen]
        text = format_headline(decision, table).replace(f"On {node}: ", f"It would go to {node}: ", 1)
        return f"The pod {decision.message}. {text}"
    return _describe_group_wait(decision, outcomes, table)


def _describe_group_wait(decision: Decision, outcomes: Sequence[Outcome], table: NodeTable) -> str:
    """Return a sentence about a pod that fits and waits for its pod group; "" for any other pod."""
    undone = [o for o in outcomes if o.phase == POD_GROUP_PHASE and o.status is not Code.SUCCESS]
    cycle = decision.group_cycle
    if not undone or decision.chosen is None or cycle is None:
        return ""
    alone = f"It alone would fit {table.names[decision.chosen]}."
    if cycle.scheduled + cycle.pods < cycle.min_count:
        few = FEW_MEMBERS.format(known=cycle.scheduled + cycle.pods, needed=cycle.min_count)
        return f"Pending with its pod group: {few}. {alone}"
    why = notes.format_outcome_message(undone[-1]).rstrip(".")
    return f"Pending with its pod group, which was not placed as a whole: {why}. {alone}"


def _outcome(decision: Decision, outcomes: Sequence[Outcome], table: NodeTable) -> AttemptOutcome:
    return {
        "state": derive_state(decision, outcomes),
        "path": decision.path.value,
        "node": None if decision.chosen is None else table.names[decision.chosen],
        "final": decision.final or any(o.final for o in outcomes),
        "phases": [
            {
                "phase": o.phase,
                "status": o.status.label,
                "message": notes.format_outcome_message(o),
                "at": format_timestamp(o.at_us),
                "durationSeconds": o.duration_s,
            }
            for o in outcomes
            if o.phase not in ADDITIONS
        ],
    }


def find_node_groups(outcomes: Sequence[Outcome]) -> PodNodeGroups | None:
    """Return the newest verdicts of node groups among the outcomes, or None if none can be read.

    Their form is not checked.
    """
    recorded = [o for o in outcomes if o.phase == NODE_GROUPS_PHASE and o.node_groups]
    if not recorded:
        return None
    newest = max(recorded, key=lambda o: o.at_us)
    groups = read_node_groups(newest) or {}
    try:
        review: NodeGroupReview = groups["review"]
        return {
            **review,
            "notes": groups["notes"],
            "omittedGroups": groups["omitted"],
            "recordedAt": format_timestamp(newest.at_us),
        }
    except (KeyError, TypeError):
        return None


def _not_evaluated(decision: Decision) -> dict[str, int]:
    """Return how many nodes were not evaluated, by the label of the reason.

    Nodes whose evaluation the record does not hold are not counted.
    """
    excluded = (Evaluation.EVALUATED.label, Evaluation.ABSENT.label, Evaluation.UNRECORDED.label)
    return {label: nodes for label, nodes in count_evaluations(decision).items() if label not in excluded}


def _preemption(decision: Decision) -> PreemptionResult | None:
    preemption = decision.preemption
    if preemption is None:
        return None

    def nearest(c: Candidate) -> tuple[bool, bool, object]:
        return c.node != preemption.nominated_node, bool(c.rejected_by), natural_sort_key(c.node)

    return {
        "nominatedNode": preemption.nominated_node or None,
        "evicted": preemption.evicted and decision.key.source is not Source.EVALUATED,  # nobody acts on an evaluation
        "candidates": [_candidate(c) for c in sorted(preemption.candidates, key=nearest)[:MAX_NAMED]],
        "candidatesOmitted": max(0, len(preemption.candidates) - MAX_NAMED),
    }


def _candidate(c: Candidate) -> PreemptionCandidate:
    return {
        "node": c.node,
        "victims": list(c.victims),
        "pdbViolations": c.pdb_violations,
        "rejectedBy": c.rejected_by or None,
    }


def _tie(decision: Decision, table: NodeTable) -> Tie | None:
    if not decision.ties:
        return None
    seed = None if "seed" in decision.unknown else decision.seed
    names = sorted((table.names[s] for s in decision.ties), key=natural_sort_key)
    return {"nodes": names, "nodesOmitted": count_tied(decision) - len(names), "seed": seed}


def _margin(decision: Decision, table: NodeTable) -> ScoreMargin | None:
    margin = compute_margin(decision)
    if margin is None:
        return None
    return {
        "points": margin.points,
        "runnerUp": table.names[margin.runner_up],
        "shares": dict(margin.shares),
        "best": table.names[margin.best],
        "reasons": explain_margin(decision, table, margin) if margin.points else [],
    }


def _filters(decision: Decision) -> list[FilterCounts]:
    rows = list[FilterCounts]()
    evaluated = count_evaluations(decision).get(Evaluation.EVALUATED.label, 0)
    for f, counts in zip(decision.filters, count_verdicts(decision), strict=True):
        rejected = sum(n for n, v in zip(counts, f.verdicts, strict=True) if v.rejects_node)
        not_run = sum(n for n, v in zip(counts, f.verdicts, strict=True) if v == NOT_RUN)
        ran = 0 if f.skipped else evaluated - not_run
        rows.append({"plugin": f.plugin, "skipped": f.skipped, "passed": ran - rejected, "rejected": rejected})
    return rows


def _ranked(decision: Decision, table: NodeTable, slot: int) -> RankedNode:
    return {
        **_decided(decision, table, slot),
        "rank": decision.rank[slot],
        "total": _total(decision, slot),
        "scores": _scores(decision, slot),
    }


def _total(decision: Decision, slot: int) -> int | None:
    return decision.totals[slot] if decision.rank[slot] and len(decision.totals) else None


def _scores(decision: Decision, slot: int) -> dict[str, Score]:
    if not decision.rank[slot]:
        return {}
    return {
        s.plugin: {
            "raw": s.raw[slot] if len(s.raw) else None,
            "normalized": s.normalized[slot],
            "weighted": s.normalized[slot] * s.weight,
        }
        for s in decision.scores
        if not s.skipped and len(s.normalized)
    }


def _decided(decision: Decision, table: NodeTable, slot: int) -> DecidedNode:
    """Return a node with its measurements, ordered as `list_sources`; it has none if it was not evaluated."""
    node: DecidedNode = {"node": table.names[slot], "chosen": slot == decision.chosen}
    if decision.inputs and is_evaluated(decision, slot):
        node["inputs"] = [_node_entry(inputs, slot) for inputs in decision.inputs]
    return node


def explain_node(decision: Decision, table: NodeTable, slot: int) -> NodeExplanation:
    """Return, as JSON, how one node fared: each filter's verdict, its rank and scores, and what would make it feasible.

    `eviction` is what preemption would evict there, or None if that would not help or preemption did not run.
    """
    verdicts = list_verdicts(decision, slot)
    name = table.names[slot]
    candidates = decision.preemption.candidates if decision.preemption else ()
    return {
        **_decided(decision, table, slot),
        "rank": decision.rank[slot] or None,
        "total": _total(decision, slot),
        "scores": _scores(decision, slot),
        "headline": format_node_headline(decision, table, slot),
        "evaluation": Evaluation(decision.evaluation[slot]).label,
        "feasible": bool(decision.rank[slot]),
        "passed": [plugin for plugin, verdict in verdicts if verdict.code is Code.SUCCESS],
        "skipped": [f.plugin for f in decision.filters if f.skipped],
        "rejectedBy": [
            {
                "plugin": plugin,
                "code": verdict.code.label,
                "reasons": [build_reason_detail(decision, table, slot, reason) for reason in verdict.reasons],
            }
            for plugin, verdict in verdicts
            if verdict.code is not Code.SUCCESS
        ],
        "possibleChanges": list_possible_node_changes(decision, table, slot),
        "eviction": next((_candidate(c) for c in candidates if c.node == name), None),
    }


def _plugin_verdict(v: PluginVerdict, scheduler: SchedulerInfo) -> PluginResult:
    version = find_wording_version(scheduler.rules)
    return {
        "plugin": v.plugin,
        "code": v.verdict.code.label,
        "reasons": [reasons.format_reason(reason, version) for reason in v.verdict.reasons],
    }


def list_sources(decision: Decision) -> list[InputSource]:
    """Return the sources of each plugin's measurements, with the names and units of what was measured, as JSON."""
    return [
        {
            "plugin": inputs.plugin,
            "source": inputs.source,
            "numbers": [{"name": n.name, "unit": n.unit, "digits": n.digits} for n in inputs.numbers],
        }
        for inputs in decision.inputs
    ]


def _node_entry(inputs: Inputs, slot: int) -> NodeInputs:
    measured_s = inputs.measured_s(slot)
    return {
        "plugin": inputs.plugin,
        "values": {number.name: number.value_at(slot) for number in inputs.numbers},
        "measuredAt": format_timestamp(measured_s * 1_000_000) if measured_s else None,
        "stale": bool(len(inputs.stale) and inputs.stale[slot]),
    }
