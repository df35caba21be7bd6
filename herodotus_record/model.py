"""Define a record: the `Decision` of one scheduling attempt, its `Outcome`s, and the node table that they refer to.

Owns: the terms of a record, the shapes of its parts, and the one declaration of each field. Does not own: encoding
(`codec`), sentences (`reasons`, `notes`), questions about a record (`explain`). Imports only the standard library and
`fields`, because the kubectl plugin imports this module and must start fast.

Invariant: a record holds only what was observed, no guesses. Facts about nodes are *columns* with one entry for each
slot of the node table at the decision's snapshot generation. A node keeps its slot during an incarnation, so two
decisions of one incarnation can be compared entry by entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from herodotus_record.discloses import Discloses
from herodotus_record.fields import INLINE, declare, record_part

API_GROUP = "herodotus.dev"
VERSION_OF_API = "v1alpha1"
API_VERSION = f"{API_GROUP}/{VERSION_OF_API}"
EVALUATION: Final = "Evaluation"  # phase of the outcome of an evaluated pod that fits and that no scheduler has placed

if TYPE_CHECKING:
    Column = array[int]
else:
    Column = array  # of ints, one entry for each slot, in the narrowest type that holds the values


def empty_column() -> Column:
    """Return a new column (array of integers) without entries, the default of optional columns.

    The class that has such a field documents what an empty column means there.
    """
    return array("B")


class Code(IntEnum):
    """The status code of a plugin's result, with kube-scheduler's numbers and names."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """Return the name of the status code as kube-scheduler spells it, such as `UnschedulableAndUnresolvable`."""
        return "".join(word.capitalize() if word != "AND" else "And" for word in self.name.split("_"))

    @property
    def is_rejection(self) -> bool:
        """Return whether the code rejects a node or pod, as opposed to success or an error."""
        return self in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class Evaluation(IntEnum):
    """Whether an attempt ran its filters on a node and, if it did not, why."""

    EVALUATED = 0
    ABSENT = 1  # no node in this slot at this generation
    RESTRICTED = 2  # a PreFilter plugin, or the placement of its group, restricted the pod to other nodes
    NOT_SAMPLED = 3  # enough feasible nodes had been found (percentageOfNodesToScore)
    NOT_NEEDED = 4  # the nominated node was feasible, so no other was evaluated
    NOT_REACHED = 5  # the cycle ended first: PreFilter rejected the pod, or an error
    UNRECORDED = 6  # not recorded: the record was read from a log that omits it

    @property
    def label(self) -> str:
        """Return the name of the value as JSON documents spell it, such as `not-sampled`."""
        return self.name.lower().replace("_", "-")


class DecisionPath(str, Enum):
    """The way in which an attempt reached its result, such as by scores or because one node alone was feasible."""

    SCORED = "scored"  # best total of several feasible nodes
    ONLY_FEASIBLE = "only-feasible-node"  # one node is feasible, so kube-scheduler does not score
    NOMINATED = "nominated-node"  # the node in status.nominatedNodeName is feasible
    NONE = "no-feasible-node"
    ERROR = "error"
    UNKNOWN = "unknown"  # a node was chosen; the record does not hold why no other was


class Source(str, Enum):
    """The origin of a record: the scheduler that decided, a reconstruction by the observer, or a scheduler's log."""

    SCHEDULER = "scheduler"  # the Herodotus scheduler decided
    RECONSTRUCTED = "reconstructed"  # evaluated afterwards for another scheduler's pod
    LOGGED = "logged"  # read from another scheduler's log
    EVALUATED = "evaluated"  # evaluated on request, for an answer that is not stored


class Agreement(str, Enum):
    """Whether another scheduler's outcome follows from the observer's own evaluation of the same attempt."""

    AGREE = "agree"  # the node is among the best, or neither found a node
    IN_WINDOW = "agree-in-window"  # the same on a snapshot that reorders events near the outcome
    DISAGREE = "disagree"
    UNKNOWN = "unknown"  # nothing to compare with


class Cause(str, Enum):
    """Why another scheduler's outcome differs from the observer's evaluation or cannot be compared with it."""

    SAMPLING = "sampling"  # the other scheduler may not have evaluated the better nodes
    EXTENDERS = "extenders"  # it calls extenders, which the evaluation does not call
    STALE_VIEW = "stale-view"  # it must have decided on another state of the cluster
    UNKNOWN_PLUGIN = "unknown-plugin"  # it runs a plugin that this version does not know
    IMAGE_COUNTS = "image-counts"  # it may have used an older count of nodes with an image
    BATCHING = "batching"  # it may have reused the ranking of the equal pod before
    UNEXPLAINED = "unexplained"
    NOT_WATCHED = "not-watched"  # the watch was interrupted while the pod was placed
    NOT_EVALUATED = "not-evaluated"  # the evaluation ended in an error
    EVALUATED_LATER = "evaluated-later"  # the cluster has changed since the pod was placed


@record_part
class Reason:
    """Why a plugin rejected a node or a pod: a code of `reasons.CATALOGUE` and its parameters.

    `params` omits what follows from the pod's requests and the node's state (free, allocatable): readers derive those
    numbers from the node table of the decision's generation. Notes have the same form, with codes of `notes.CATALOGUE`.
    """

    code: str = declare(Discloses.REASON, "code", "Code of the reason in the record's catalogue of reasons.")
    params: Mapping[str, str] = declare(
        Discloses.REASON,
        "params",
        "Parameters of the sentence that do not follow from the pod's requests and the node's resources.",
        default_factory=dict,
    )

    def __hash__(self) -> int:
        return hash((self.code, *sorted(self.params.items())))


@record_part
class Verdict:
    """A plugin's result for a node or a pod: the status code and, unless it is Success, the reasons.

    The reasons are in kube-scheduler's order.
    """

    code: Code = declare(Discloses.NOTHING, "code", "kube-scheduler's status code of the verdict.")
    reasons: tuple[Reason, ...] = declare(
        Discloses.PARTS, "reasons", "Reasons of the verdict, in kube-scheduler's order.", default=()
    )

    @property
    def rejects_node(self) -> bool:
        """Return whether this verdict of a filter excludes the node, which every code except Success and Skip does."""
        return self.code not in (Code.SUCCESS, Code.SKIP)


SUCCESS = Verdict(Code.SUCCESS)
NOT_RUN = Verdict(Code.SKIP)  # the filter did not run on the node: an earlier filter had rejected it


@record_part
class PluginVerdict:
    """The verdict of one plugin on the pod as a whole (PreFilter, PostFilter, Reserve or Permit)."""

    plugin: str = declare(Discloses.NOTHING, "plugin", "Name of the plugin.")
    verdict: Verdict = declare(Discloses.PARTS, INLINE)


@record_part
class Candidate:
    """A node on which preemption could make room.

    `victims` are NAMESPACE/NAME, the most important pod first. `rejected_by` is the extender that rejected the
    candidate, or "".
    """

    node: str = declare(Discloses.NODES, "node", "Name of the node.")
    victims: tuple[str, ...] = declare(
        Discloses.PODS, "victims", "Pods to evict as NAMESPACE/NAME, the most important first."
    )
    pdb_violations: int = declare(
        Discloses.NOTHING, "pdbViolations", "Number of victims that a PodDisruptionBudget protects."
    )
    rejected_by: str = declare(
        Discloses.NOTHING,
        "rejectedBy",
        "Extender that rejected the candidate; null if none did.",
        null_if_empty=True,
        default="",
    )


@record_part
class Preemption:
    """The result of preemption.

    `nominated_node` is the node of one of the candidates, or "" if preemption nominated none. `evicted` is whether the
    victims were evicted; if not, the candidates only show what would help.
    """

    nominated_node: str = declare(
        Discloses.NODES,
        "nominatedNode",
        "Node that preemption nominated for the pod; null if it nominated none.",
        null_if_empty=True,
    )
    candidates: tuple[Candidate, ...] = declare(
        Discloses.PARTS, "candidates", "Nodes on which preemption could make room."
    )
    evicted: bool = declare(
        Discloses.NOTHING,
        "evicted",
        "Whether the victims were evicted. If false, the candidates only show which evictions would help.",
    )


@record_part
class Suggestion:
    """A change to a rejected pod or to a node after which the pod fits on that node.

    It consists of `changes`, all of which are needed: codes of `reasons.CHANGES` with their parameters.
    """

    node: str = declare(Discloses.NODES, "node", "Name of the node on which the pod then fits.")
    changes: tuple[Reason, ...] = declare(Discloses.PARTS, "changes", "Changes, all of which are needed.")
    patch: str = declare(
        Discloses.THIS_POD,
        "patch",
        "Strategic merge patch of the pod's spec that makes the changes to it, as JSON; empty if the spec stays.",
        default="",
    )
    is_checked: bool = declare(
        Discloses.NOTHING,
        "checked",
        "Whether the pod with the changes passed all filters on the snapshot of the attempt.",
        default=False,
    )
    helps: int = declare(
        Discloses.NOTHING,
        "helps",
        "Number of other waiting pods of which each alone would fit there with the same changes, as far as known.",
        unit="pods",
        default=0,
    )


@record_part
class FilterColumn:
    """The verdicts of one filter plugin on all nodes of a decision.

    `ids` has one entry for each node slot (row of the node table): an index into `verdicts`, whose first entry is
    Success. If `ids` is empty, every evaluated node passed. Entries of nodes that were not evaluated are 0 and mean
    nothing. `skipped` means that the plugin had nothing to check for this pod.
    """

    plugin: str = declare(Discloses.NOTHING, "plugin", "Name of the filter plugin, or address of the extender.")
    skipped: bool = declare(
        Discloses.NOTHING, "skipped", "Whether the filter had nothing to check for this pod.", default=False
    )
    verdicts: tuple[Verdict, ...] = declare(Discloses.PARTS, default=(SUCCESS,))
    ids: Column = declare(
        Discloses.NODES,
        "rejected",
        "Verdicts on the nodes that the filter rejected, by node.",
        default_factory=empty_column,
    )


@record_part
class ScoreColumn:
    """The scores of one plugin, raw and normalized to 0–100, with one entry for each node slot.

    Entries of infeasible nodes are 0.
    """

    plugin: str = declare(Discloses.NOTHING, "plugin", "Name of the score plugin, or address of the extender.")
    weight: int = declare(Discloses.NOTHING, "weight", "Weight by which the normalized scores are multiplied.")
    skipped: bool = declare(
        Discloses.NOTHING, "skipped", "Whether the plugin had nothing to score for this pod.", default=False
    )
    raw: Column = declare(
        Discloses.NODES,
        "raw",
        "Score of each feasible node before normalization, by node.",
        unknown=True,
        default_factory=empty_column,
    )
    normalized: Column = declare(
        Discloses.NODES,
        "normalized",
        "Score of each feasible node after normalization to 0 to 100, by node.",
        default_factory=empty_column,
    )


@record_part
class ScoreReasons:
    """What made up the score that a plugin gave a node: codes of `reasons.SCORES`, such as a preferred term it matches.

    A record has them of the best two nodes and of the plugins that gave the two different points.
    """

    plugin: str = declare(Discloses.NOTHING, "plugin", "Name of the score plugin.")
    node: str = declare(Discloses.NODES, "node", "Name of the node.")
    reasons: tuple[Reason, ...] = declare(Discloses.PARTS, "reasons", "What made up the score; empty if nothing did.")


@record_part
class InputColumn:
    """One measurement, such as a node's load, with one entry for each node slot.

    An entry of `values` is the measured value times 10 to the power of `digits`, rounded. `unit` is printed after the
    number and may be "". `lacking` holds 1 for nodes without the measurement; if it is empty, no node lacks it.
    """

    name: str = declare(Discloses.TERMS, "name", "Name of the measurement.")
    unit: str = declare(Discloses.TERMS, "unit", "Unit that is printed after the number; empty if the number has none.")
    digits: int = declare(Discloses.NOTHING)
    values: Column = declare(
        Discloses.NODES,
        "values",
        "Measured value of each evaluated node, by node; null if the node has no measurement.",
    )
    lacking: Column = declare(Discloses.NODES, default_factory=empty_column)

    def value_at(self, slot: int) -> float | None:
        """Return the measured value of the node in a slot, or None if that node has no measurement."""
        return None if len(self.lacking) and self.lacking[slot] else self.values[slot] / 10**self.digits


@record_part
class Inputs:
    """The measurements from one source by which a plugin or an extender decided, for all evaluated nodes.

    `source` describes where the measurements are from. `measured` holds for each node slot when they were taken, in
    whole seconds since 1970, or 0 if unknown. A single entry applies to all nodes; an empty column means that no time
    is known. `stale` holds 1 for nodes whose measurement was too old and therefore ignored; an empty column means that
    none was.
    """

    plugin: str = declare(
        Discloses.NOTHING, "plugin", "Name of the plugin, or address of the extender, that used the measurements."
    )
    source: str = declare(Discloses.TEXT, "source", "Description of the source of the measurements.")
    numbers: tuple[InputColumn, ...] = declare(Discloses.PARTS, "numbers", "Measurements from this source.")
    measured: Column = declare(
        Discloses.NODES,
        "measuredAt",
        "Time at which the measurements of each evaluated node were taken, by node; null if unknown.",
        default_factory=empty_column,
    )
    stale: Column = declare(
        Discloses.NODES,
        "stale",
        "Nodes whose measurements the plugin ignored because they were too old.",
        default_factory=empty_column,
    )

    def measured_s(self, slot: int) -> int:
        """Return when the measurements of a slot's node were taken, in seconds since 1970, or 0 if unknown."""
        return self.measured[slot if len(self.measured) > 1 else 0] if len(self.measured) else 0


@record_part
class AttemptKey:
    """The unique key of an attempt. It includes the incarnation because attempts may restart at 1 after a failover."""

    cluster: str = declare(Discloses.NOTHING, "cluster", "UID of the cluster's namespace kube-system.", unknown=True)
    source: Source = declare(Discloses.NOTHING, "source", "Origin of the record.")
    incarnation: str = declare(
        Discloses.NOTHING, "incarnation", "UUID of the run of a scheduler process that made the attempt."
    )
    pod_uid: str = declare(Discloses.THIS_POD, "podUID", "UID of the pod.", unknown=True)
    attempt: int = declare(
        Discloses.NOTHING,
        "attempt",
        "Number of the attempt as the scheduler counts it; it may restart at 1 after a failover.",
    )


@record_part
class SchedulerInfo:
    """The scheduler that decided. `profile` is the pod's spec.schedulerName."""

    profile: str = declare(
        Discloses.NOTHING, "profile", "Name of the scheduler profile, the pod's spec.schedulerName.", unknown=True
    )
    identity: str = declare(
        Discloses.NOTHING, "identity", "Identity of the scheduler process, as in its Lease.", unknown=True
    )
    version: str = declare(Discloses.NOTHING, "version", "Version of the scheduler.", unknown=True)
    rules: str = declare(
        Discloses.NOTHING,
        "rules",
        "Version of kube-scheduler whose rules were applied, such as v1.34.2.",
        default="",
        unknown=True,
    )
    rules_source: str = declare(
        Discloses.NOTHING,
        "rulesSource",
        "Where it comes from: flag, configuration, scheduler-image, lease-candidate, api-server, log or default.",
        default="",
        unknown=True,
    )


@record_part
class Owner:
    """The controller that owns the pod, from its `metadata.ownerReferences`."""

    kind: str = declare(Discloses.THIS_POD, "kind", "Kind of the controller.")
    name: str = declare(Discloses.THIS_POD, "name", "Name of the controller.")

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@record_part
class RecordedPod:
    """The pod as the scheduling cycle read it. `requests` are in base units: CPU in millicores, bytes, counts."""

    namespace: str = declare(Discloses.NAMESPACE, "namespace", "Namespace of the pod.")
    name: str = declare(Discloses.THIS_POD, "name", "Name of the pod.")
    uid: str = declare(Discloses.THIS_POD, "uid", "UID of the pod.", unknown=True)
    labels: Mapping[str, str] = declare(
        Discloses.THIS_POD, "labels", "Labels of the pod, except those of --omit-labels.", unknown=True
    )
    owner: Owner | None = declare(
        Discloses.THIS_POD, "owner", "Controller that owns the pod; null if it has none.", unknown=True
    )
    priority: int = declare(Discloses.THIS_POD, "priority", "Priority of the pod.", unknown=True)
    requests: Mapping[str, int] = declare(
        Discloses.THIS_POD,
        "requests",
        "Resources that the pod requests, by name.",
        unknown=True,
        unit="base units (millicores of CPU, bytes, counts)",
    )
    digest: str = declare(
        Discloses.THIS_POD,
        "digest",
        "Digest of all pod fields that scheduling reads; pods of one equivalence class have equal digests.",
        unknown=True,
    )
    nominated_node: str = declare(
        Discloses.THIS_POD,
        "nominatedNode",
        "The pod's status.nominatedNodeName at the start of the attempt; null if it was not set.",
        unknown=True,
        null_if_empty=True,
        default="",
    )
    pod_group: str = declare(
        Discloses.THIS_POD,
        "podGroup",
        "Name of the PodGroup that the pod belongs to, its spec.schedulingGroup; null if it belongs to none.",
        null_if_empty=True,
        default="",
    )


@record_part
class Times:
    """When the attempt happened: wall clock times in microseconds since 1970 (UTC), monotonic durations in seconds."""

    created_us: int = declare(Discloses.NOTHING, "podCreatedAt", "Time at which the pod was created.", unknown=True)
    queued_us: int = declare(
        Discloses.NOTHING, "queuedAt", "Time at which the scheduler first saw the pod.", unknown=True
    )
    started_us: int = declare(Discloses.NOTHING, "startedAt", "Time at which the attempt started.")
    phases_s: Mapping[str, float] = declare(
        Discloses.NOTHING,
        "phaseSeconds",
        "Duration of each of the phases PreFilter, Filter, PostFilter, PreScore and Score.",
        unknown=True,
        unit="seconds",
        default_factory=dict,
    )
    queues_s: Mapping[str, float] = declare(
        Discloses.NOTHING,
        "queueSeconds",
        "Time that the pod spent in each of the queues active, backoff, unschedulable and gated.",
        unknown=True,
        unit="seconds",
        default_factory=dict,
    )


@record_part
class RequeueEvent:
    """The cluster event that moved a waiting pod back to the active or backoff queue.

    `plugin` is the plugin whose queueing hint asked for it, or "" if no plugin did.
    """

    event: str = declare(Discloses.NOTHING, "event", "Cluster event, named as kube-scheduler names it.")
    plugin: str = declare(
        Discloses.NOTHING,
        "plugin",
        "Plugin whose queueing hint asked for the requeue; null if no plugin did.",
        null_if_empty=True,
    )


@record_part
class Retry:
    """When the scheduler tries a rejected pod again: the earliest and the latest time, in microseconds since 1970.

    `queue` names the part of the scheduling queue in which the pod waits. `latest_us` is None if the pod waits only for
    the end of its backoff.
    """

    queue: str = declare(Discloses.NOTHING, "queue", "Part of the scheduling queue in which the pod waits.")
    not_before_us: int = declare(Discloses.NOTHING, "notBefore", "Earliest time of the next attempt.")
    latest_us: int | None = declare(
        Discloses.NOTHING,
        "latest",
        "Latest time of the next attempt; null if the pod waits only for the end of its backoff.",
    )


@record_part
class Reconstruction:
    """How the observer's reconstruction of an attempt compares with what the other scheduler did.

    `cause` is None where both agree. `in_flight` counts bindings near the outcome: negative for those seen before it
    that the snapshot omits, positive for those seen after it that the snapshot includes. `deletions` counts deleted
    pods in the same way.
    """

    agreement: Agreement = declare(
        Discloses.NOTHING, "agreement", "Whether the other scheduler's outcome follows from the observer's evaluation."
    )
    cause: Cause | None = declare(
        Discloses.NOTHING,
        "cause",
        "Why the outcome differs from the evaluation or cannot be compared; null if they agree.",
        default=None,
    )
    in_flight: int = declare(
        Discloses.NOTHING,
        "bindingsInFlight",
        "Number of bindings near the outcome: negative for earlier ones that the snapshot omits, positive for later"
        " ones that it includes.",
        default=0,
    )
    deletions: int = declare(
        Discloses.NOTHING,
        "deletionsInFlight",
        "Number of pod deletions near the outcome, counted like `bindingsInFlight`.",
        default=0,
    )


@record_part
class FirstRejection:
    """The number of nodes that one filter was the first to reject, all with the same verdict.

    `filter` is the filter's index in `Decision.filters`, `verdict` the verdict's index in its `verdicts`. `also` maps
    later plugins to how many of these nodes they rejected as well; plugins that rejected none are absent.
    """

    filter: int = declare(Discloses.NOTHING)
    verdict: int = declare(Discloses.NOTHING)
    nodes: int = declare(Discloses.NOTHING)
    also: Mapping[str, int] = declare(Discloses.NOTHING)


@record_part
class Summary:
    """The counts over all nodes that replace the columns of a decision whose full record was pruned.

    `evaluation` counts nodes by `Evaluation.label`; `verdicts` counts, for each filter, evaluated nodes by verdict.
    `ties` is how many nodes shared the best total, 0 if one node alone had it.
    """

    pruned_us: int = declare(Discloses.NOTHING, "at", "Time at which retention reduced the record to a summary.")
    evaluation: Mapping[str, int] = declare(
        Discloses.NOTHING, "evaluation", "Number of nodes with each value of `spec.evaluation`."
    )
    verdicts: tuple[tuple[int, ...], ...] = declare(
        Discloses.NOTHING, "filters", "Number of nodes with each verdict, for each filter."
    )
    first_rejections: tuple[FirstRejection, ...] = declare(Discloses.NOTHING)
    ties: int = declare(
        Discloses.NOTHING, "ties", "Number of nodes that shared the best total; 0 if one node alone had it."
    )


@record_part
class AllocatedDevice:
    """A device that one of the pod's resource claims has on the chosen node.

    `claim` is the name in the pod's spec. `consumed_capacity` is what the claim consumes of a shared device.
    """

    claim: str = declare(Discloses.THIS_POD, "claim", "Name of the resource claim in the pod's spec.")
    request: str = declare(Discloses.THIS_POD, "request", "Request of the claim, as REQUEST or REQUEST/SUBREQUEST.")
    driver: str = declare(Discloses.THIS_POD, "driver", "Driver of the device.")
    pool: str = declare(Discloses.THIS_POD, "pool", "Pool of the device.")
    device: str = declare(Discloses.THIS_POD, "device", "Name of the device in its pool.")
    admin_access: bool = declare(
        Discloses.THIS_POD, "adminAccess", "Whether the claim has admin access, beside other claims.", default=False
    )
    consumed_capacity: Mapping[str, str] = declare(
        Discloses.THIS_POD,
        "consumedCapacity",
        "Quantity that the claim consumes of each capacity of a shared device.",
        default_factory=dict,
    )


@record_part
class PodGroupCycle:
    """The scheduling cycle of a pod group in which the pod was decided, and the pod's place in it.

    All decisions of an incarnation with the same group and `number` belong to one cycle. Whether the group was placed
    follows from their outcomes: an outcome of phase PodGroup undoes a placement, and any other confirms it.
    """

    number: int = declare(Discloses.NOTHING, "number", "Number of the cycle among all group cycles of the incarnation.")
    position: int = declare(Discloses.NOTHING, "position", "Position of the pod in the order of the cycle, from 1.")
    pods: int = declare(Discloses.NOTHING, "pods", "Number of pods that the cycle had to decide.")
    scheduled: int = declare(
        Discloses.NOTHING, "scheduled", "Number of pods of the group that were on a node before the cycle."
    )
    min_count: int = declare(
        Discloses.NOTHING, "minCount", "Number of pods that the group needs at least; 0 without the gang policy."
    )


@record_part
class Decision:
    """The complete record of one attempt to schedule one pod.

    `sequence` is contiguous over all frames of an incarnation. `evaluation`, `rank`, `totals` and the columns of
    filters and scores have one entry for each node slot, or are empty if the whole column has no meaning, such as
    `totals` when nothing was scored. `rank` is 1 for the best node; nodes with equal totals share a rank, and
    infeasible nodes have 0. `seed` determined the random choice among the best nodes.
    """

    # UUIDv7
    id: str = declare(Discloses.THIS_POD)
    key: AttemptKey = declare(Discloses.PARTS, "spec.key", "Unique key of the attempt.")
    sequence: int = declare(
        Discloses.NOTHING,
        "spec.sequence",
        "Number of the record among all records of the incarnation; a gap in the numbers means missing records.",
    )
    scheduler: SchedulerInfo = declare(Discloses.PARTS, "spec.scheduler", "Scheduler that made the attempt.")
    pod: RecordedPod = declare(Discloses.PARTS, "spec.pod", "Pod as the attempt read it.")
    times: Times = declare(Discloses.PARTS, "spec.times", "Times and durations of the attempt.")
    generation: int = declare(
        Discloses.NOTHING,
        "spec.snapshot.generation",
        "Generation of the snapshot, which selects the rows of the node table.",
        unknown=True,
    )
    slots: int = declare(Discloses.NOTHING)
    nodes_total: int = declare(
        Discloses.NOTHING, "spec.snapshot.nodes", "Number of nodes in the snapshot.", unknown=True
    )
    nodes_evaluated: int = declare(
        Discloses.NOTHING,
        "spec.snapshot.evaluated",
        "Number of nodes on which the attempt ran its filters.",
        unknown=True,
    )
    nodes_feasible: int = declare(
        Discloses.NOTHING, "spec.snapshot.feasible", "Number of nodes that passed every filter.", unknown=True
    )
    path: DecisionPath = declare(Discloses.NOTHING, "status.path", "Way in which the attempt reached its result.")
    chosen: int | None = declare(
        Discloses.NODES, "status.node", "Name of the chosen node; null if the attempt chose none."
    )
    pre_filters: tuple[PluginVerdict, ...] = declare(
        Discloses.PARTS, "spec.preFilters", "Verdicts of the PreFilter plugins that did not succeed.", unknown=True
    )
    restricted_by: tuple[str, ...] = declare(
        Discloses.NOTHING, "spec.restrictedBy", "PreFilter plugins that restricted the pod to some nodes.", unknown=True
    )
    evaluation: Column = declare(
        Discloses.NODES,
        "spec.evaluation",
        "Whether the attempt ran its filters on each node or why it did not, by node.",
    )
    filters: tuple[FilterColumn, ...] = declare(
        Discloses.PARTS,
        "spec.filters",
        "Verdicts of each filter plugin and extender, in the order of evaluation. Evaluated nodes in neither `rejected`"
        " nor `notRun` passed.",
    )
    scores: tuple[ScoreColumn, ...] = declare(
        Discloses.PARTS, "spec.scores", "Scores of each score plugin and extender."
    )
    totals: Column = declare(
        Discloses.NODES,
        "spec.totals",
        "Total of each feasible node, by node: the sum of normalized scores times weights.",
    )
    rank: Column = declare(
        Discloses.NODES,
        "spec.rank",
        "Rank of each feasible node, by node; 1 is the best, and nodes with equal totals share a rank.",
    )
    seed: int = declare(
        Discloses.NOTHING, "spec.seed", "Seed of the random choice among the nodes with the best total.", unknown=True
    )
    post_filters: tuple[PluginVerdict, ...] = declare(
        Discloses.PARTS, "spec.postFilters", "Verdicts of the PostFilter plugins.", unknown=True
    )
    message: str = declare(
        Discloses.MESSAGE,
        "status.message",
        "Message of the pod's FailedScheduling event; empty if the attempt chose a node.",
    )
    preemption: Preemption | None = declare(
        Discloses.PARTS,
        "spec.preemption",
        "Result of preemption; null if no PostFilter plugin found pods to evict.",
        default=None,
    )
    # notes as text, from older writers; such a text may name any pod
    text_notes: tuple[str, ...] = declare(Discloses.TEXT, default=())
    requeued_by: RequeueEvent | None = declare(
        Discloses.PARTS,
        "spec.requeuedBy",
        "Cluster event that requeued the pod; null if the pod had not waited for one.",
        unknown=True,
        default=None,
    )
    retry: Retry | None = declare(
        Discloses.PARTS,
        "spec.retry",
        "Time of the next attempt for a rejected pod; null if the attempt chose a node.",
        unknown=True,
        default=None,
    )
    inputs: tuple[Inputs, ...] = declare(
        Discloses.PARTS,
        "spec.inputs",
        "Measurements that plugins and extenders used, one entry for each source.",
        default=(),
    )
    unknown: tuple[str, ...] = declare(
        Discloses.NOTHING,
        "spec.unknown",
        "Paths, relative to `spec`, of the fields whose values the record does not know; these fields are null.",
        default=(),
    )
    reconstruction: Reconstruction | None = declare(
        Discloses.PARTS,
        "spec.reconstruction",
        "Comparison of the observer's reconstruction with the other scheduler's outcome; null if there is none.",
        default=None,
    )
    # if set, slots are those of the few kept nodes
    summary: Summary | None = declare(
        Discloses.PARTS,
        "spec.pruned",
        "Summary that replaces a pruned record; null if the record is complete. Fields with an entry per node then"
        " contain only the kept nodes.",
        default=None,
    )
    # what is not known, failed or was disabled: codes of `notes`
    notes: tuple[Reason, ...] = declare(
        Discloses.PARTS,
        "spec.notes",
        "Notes on what the record does not know, what failed and what was disabled.",
        default=(),
    )
    suggestions: tuple[Suggestion, ...] = declare(
        Discloses.PARTS,
        "spec.suggestions",
        "Changes after which the pod would fit, the smallest first; empty if it was placed or none is known.",
        default=(),
    )
    devices: tuple[AllocatedDevice, ...] = declare(
        Discloses.PARTS,
        "spec.devices",
        "Devices that the pod's resource claims have on the chosen node; empty if it has no claim or no node.",
        default=(),
    )
    group_cycle: PodGroupCycle | None = declare(
        Discloses.PARTS,
        "spec.podGroupCycle",
        "Scheduling cycle of the pod's group in which it was decided; null if the pod was decided alone.",
        default=None,
    )
    restricted_to: tuple[str, ...] = declare(
        Discloses.NODES,
        "spec.restrictedTo",
        "Names of the only nodes that the spec of a pod without a node allows; empty if they are many or all.",
        default=(),
    )
    score_reasons: tuple[ScoreReasons, ...] = declare(
        Discloses.PARTS,
        "spec.scoreReasons",
        "What made up the scores of the best two nodes, for each plugin that can tell and gave them different points,"
        " or without which another node would have been ahead of both.",
        default=(),
    )

    @cached_property
    def ties(self) -> tuple[int, ...]:
        """Return the slots (row indices) of the nodes that share rank 1, or an empty tuple if fewer than two do.

        The scheduler drew the chosen node from these.
        """
        if self.rank.count(1) < 2:
            return ()
        return tuple(slot for slot, rank in enumerate(self.rank) if rank == 1)

    @property
    def final(self) -> bool:
        """Return whether no Outcome follows this decision, which is so if it chose no node."""
        return self.chosen is None


FOUND_LATER: Final = 0  # the sequence of an outcome that its own incarnation did not record


POD_GROUP_PHASE: Final = "PodGroup"  # phase of an outcome that undoes a placement, as the pod's group was not placed
NODE_GROUPS_PHASE: Final = "NodeGroups"  # phase of an outcome that adds the verdicts of node groups
REPEATS_PHASE: Final = "Repeats"  # phase of an outcome that adds how often an attempt without a node was repeated
ADDITIONS: Final = (NODE_GROUPS_PHASE, REPEATS_PHASE)  # phases of outcomes that add to a record and end nothing


@record_part
class Outcome:
    """The result of one phase after a decision: Reserve, Permit, PreBind, Bind, Evict, NodeGroups or Repeats.

    No outcome follows one whose `final` is true. `message` is text of a plugin or the API server. If the outcome names
    other pods, `reason` replaces `message`: a code of `notes.CATALOGUE` with the names as parameters. Sequence
    FOUND_LATER marks an outcome that a later scheduler process found for an incarnation that ended without learning it.

    In the phase NodeGroups, `node_groups` is a `node_groups.RecordedNodeGroups` as JSON, and `at_us` the time at which
    the verdicts were made. In the phase Repeats, `repeats` counts later attempts of the pod that would have the same
    record apart from their times and are not recorded: the last one started at `at_us`, the first one `duration_s`
    earlier. Older readers see a phase without a node.
    """

    incarnation: str = declare(Discloses.NOTHING)
    sequence: int = declare(
        Discloses.NOTHING,
        "sequence",
        "Number of the record among all records of the incarnation; 0 if a later scheduler process found the result.",
    )
    decision_id: str = declare(Discloses.THIS_POD)
    decision_sequence: int = declare(Discloses.NOTHING)
    phase: str = declare(
        Discloses.NOTHING,
        "phase",
        "Extension point of the phase, such as Reserve, Permit, PreBind or Bind, or Evict, NodeGroups or Repeats.",
    )
    status: Code = declare(Discloses.NOTHING, "status", "kube-scheduler's status code of the phase.")
    node: str = declare(Discloses.NODES, "node", "Name of the node.")
    message: str = declare(Discloses.TEXT, "message", "Error message; empty if the phase succeeded.")
    at_us: int = declare(Discloses.NOTHING, "at", "Time at which the phase ended.")
    duration_s: float = declare(Discloses.NOTHING, "durationSeconds", "Duration of the phase.", unit="seconds")
    final: bool = declare(Discloses.NOTHING, "final", "Whether no other outcome follows.")
    reason: Reason | None = declare(Discloses.PARTS, default=None)
    node_groups: str = declare(
        Discloses.TEXT,
        "nodeGroups",
        "Verdicts of the node groups on the pod in the phase NodeGroups; null in other phases.",
        null_if_empty=True,
        default="",
    )
    repeats: int = declare(
        Discloses.NOTHING,
        "repeats",
        "Number of later attempts that equal this one and are only counted, in the phase Repeats, which lasts from the"
        " first to the last of them; 0 in other phases.",
        unit="attempts",
        default=0,
    )


@record_part
class Gap:
    """A range of sequence numbers, `first` to `last`, of one incarnation whose records are lost, and why.

    `sequence` is the number of the gap's own frame.
    """

    incarnation: str = declare(Discloses.NOTHING)
    sequence: int = declare(Discloses.NOTHING)
    first: int = declare(Discloses.NOTHING)
    last: int = declare(Discloses.NOTHING)
    reason: str = declare(Discloses.TEXT)
    at_us: int = declare(Discloses.NOTHING)


@record_part
class HighWater:
    """The highest sequence number that an earlier scheduler process is known to have written.

    `incarnation` is the process that states it, `of` the earlier one, and `reached` the number. Records up to that
    number that never arrive are missing: the earlier spool was lost with its disk, or is not delivered yet.
    """

    incarnation: str = declare(Discloses.NOTHING)
    # the frame's own
    sequence: int = declare(Discloses.NOTHING)
    of: str = declare(Discloses.NOTHING)
    reached: int = declare(Discloses.NOTHING)
    at_us: int = declare(Discloses.NOTHING)


@record_part
class NodeRows:
    """The changed rows of the node table: which node has a slot since which generation, and its resources.

    All sequences are parallel, with one entry for each row. `name` is empty where the slot became free. `allocatable`
    and `requested` have one column for each of `resources` (CPU in millicores, bytes, counts; `pods` counts pods).
    `base` is the generation of the preceding NodeRows frame; -1 marks a complete table, from which a reader can start.
    """

    cluster: str = declare(Discloses.NOTHING)
    incarnation: str = declare(Discloses.NOTHING)
    base: int = declare(Discloses.NOTHING)
    generation: int = declare(Discloses.NOTHING)
    resources: tuple[str, ...] = declare(Discloses.NOTHING)
    slot: Column = declare(Discloses.NODES)
    since: Column = declare(Discloses.NODES)
    name: tuple[str, ...] = declare(Discloses.NODES)
    uid: tuple[str, ...] = declare(Discloses.NODES)
    allocatable: tuple[Column, ...] = declare(Discloses.NODES)
    requested: tuple[Column, ...] = declare(Discloses.NODES)


Frame = Decision | Outcome | Gap | NodeRows | HighWater


@dataclass
class NodeTable:
    """The names, UIDs and resources of all nodes, by node slot, as one incarnation knew them at one generation.

    A reader builds it by applying `NodeRows` frames in order.
    """

    generation: int = -1
    names: list[str] = field(default_factory=list)  # by slot; "" where the slot is free
    uids: list[str] = field(default_factory=list)
    since: list[int] = field(default_factory=list)
    allocatable: Sequence[Mapping[str, int]] = field(default_factory=list)
    requested: Sequence[Mapping[str, int]] = field(default_factory=list)

    def apply(self, rows: NodeRows) -> None:
        """Apply changed rows and advance the table to their snapshot generation.

        Raises ValueError if the frame of rows that precedes these was not applied.
        """
        if rows.base > self.generation:
            raise ValueError(f"node rows start after generation {rows.base}, the table is at {self.generation}")
        allocatable, requested = list(self.allocatable), list(self.requested)
        for i, slot in enumerate(rows.slot):
            while slot >= len(self.names):
                self.names.append("")
                self.uids.append("")
                self.since.append(-1)
                allocatable.append({})
                requested.append({})
            if rows.since[i] < self.since[slot]:
                continue  # the row is from a frame that was sent twice
            self.names[slot], self.uids[slot], self.since[slot] = rows.name[i], rows.uid[i], rows.since[i]
            allocatable[slot] = {r: c[i] for r, c in zip(rows.resources, rows.allocatable, strict=True)}
            requested[slot] = {r: c[i] for r, c in zip(rows.resources, rows.requested, strict=True)}
        self.allocatable, self.requested = allocatable, requested
        self.generation = max(self.generation, rows.generation)

    def rows(self, cluster: str, incarnation: str) -> NodeRows:
        """Return the whole table as one NodeRows frame, which a reader can apply without any earlier frame."""
        resources = tuple(sorted({r for row in self.allocatable for r in row} | {r for q in self.requested for r in q}))
        return NodeRows(
            cluster=cluster,
            incarnation=incarnation,
            base=-1,
            generation=self.generation,
            resources=resources,
            slot=array("q", range(len(self.names))),
            since=array("q", self.since),
            name=tuple(self.names),
            uid=tuple(self.uids),
            allocatable=tuple(array("q", (row.get(r, 0) for row in self.allocatable)) for r in resources),
            requested=tuple(array("q", (row.get(r, 0) for row in self.requested)) for r in resources),
        )

    def find_slot(self, name: str) -> int | None:
        """Return the slot (row index) of the node called `name`, or None if the table has no such node."""
        return next((slot for slot, n in enumerate(self.names) if n == name), None)

    def free(self, slot: int, resource: str) -> int:
        """Return how much of a resource the slot's node has free: allocatable minus requested, in base units.

        The amount is negative if the node is overcommitted. A resource that the node lacks counts as 0 allocatable.
        """
        return self.allocatable[slot].get(resource, 0) - self.requested[slot].get(resource, 0)

    def free_amounts(self, slots: Collection[int], resource: str) -> list[int]:
        """Return, for each of the slots in order, how much of a resource the node has free, as `free` computes it."""
        return [self.free(slot, resource) for slot in slots]
