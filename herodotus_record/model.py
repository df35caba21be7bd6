"""Define a record: the `Decision` of one scheduling attempt, its `Outcome`s, and the node table that they refer to.

Owns: the terms of a record and the shapes of its parts. Does not own: encoding (`codec`), sentences (`reasons`,
`notes`), questions about a record (`explain`). Imports only the standard library, because the kubectl plugin imports
this module and must start fast.

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

API_GROUP = "herodotus.dev"
API_VERSION = f"{API_GROUP}/v1alpha1"

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
    NARROWED = 2  # a PreFilter plugin restricted the pod to other nodes
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


@dataclass(frozen=True)
class Reason:
    """Why a plugin rejected a node or a pod: a code of `reasons.CATALOGUE` and its parameters.

    `params` omits what follows from the pod's requests and the node's state (free, allocatable): readers derive those
    numbers from the node table of the decision's generation. Notes have the same form, with codes of `notes.CATALOGUE`.
    """

    code: str
    params: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.code, *sorted(self.params.items())))


@dataclass(frozen=True)
class Verdict:
    """A plugin's result for a node or a pod: the status code and, unless it is Success, the reasons.

    The reasons are in kube-scheduler's order.
    """

    code: Code
    reasons: tuple[Reason, ...] = ()

    @property
    def rejects_node(self) -> bool:
        """Return whether this verdict of a filter excludes the node, which every code except Success and Skip does."""
        return self.code not in (Code.SUCCESS, Code.SKIP)


SUCCESS = Verdict(Code.SUCCESS)
NOT_RUN = Verdict(Code.SKIP)  # the filter did not run on the node: an earlier filter had rejected it


@dataclass(frozen=True)
class PluginVerdict:
    """The verdict of one plugin on the pod as a whole (PreFilter, PostFilter, Reserve or Permit)."""

    plugin: str
    verdict: Verdict


@dataclass(frozen=True)
class Candidate:
    """A node on which preemption could make room.

    `victims` are NAMESPACE/NAME, the most important pod first. `refused_by` is the extender that rejected the
    candidate, or "".
    """

    node: str
    victims: tuple[str, ...]
    pdb_violations: int
    refused_by: str = ""


@dataclass(frozen=True)
class Preemption:
    """The result of preemption.

    `nominated` is the node of one of the candidates, or "" if preemption nominated none. `evicted` is whether the
    victims were evicted; if not, the candidates only show what would help.
    """

    nominated: str
    candidates: tuple[Candidate, ...]
    evicted: bool


@dataclass(frozen=True)
class FilterColumn:
    """The verdicts of one filter plugin on all nodes of a decision.

    `ids` has one entry for each node slot (row of the node table): an index into `verdicts`, whose first entry is
    Success. If `ids` is empty, every evaluated node passed. Entries of nodes that were not evaluated are 0 and mean
    nothing. `skipped` means that the plugin had nothing to check for this pod.
    """

    plugin: str
    skipped: bool = False
    verdicts: tuple[Verdict, ...] = (SUCCESS,)
    ids: Column = field(default_factory=empty_column)


@dataclass(frozen=True)
class ScoreColumn:
    """The scores of one plugin, raw and normalized to 0–100, with one entry for each node slot.

    Entries of infeasible nodes are 0.
    """

    plugin: str
    weight: int
    skipped: bool = False
    raw: Column = field(default_factory=empty_column)
    normalized: Column = field(default_factory=empty_column)


@dataclass(frozen=True)
class InputColumn:
    """One measurement, such as a node's load, with one entry for each node slot.

    An entry of `values` is the measured value times 10 to the power of `digits`, rounded. `unit` is printed after the
    number and may be "". `lacking` holds 1 for nodes without the measurement; if it is empty, no node lacks it.
    """

    name: str
    unit: str
    digits: int
    values: Column
    lacking: Column = field(default_factory=empty_column)

    def value_at(self, slot: int) -> float | None:
        """Return the measured value of the node in a slot, or None if that node has no measurement."""
        return None if len(self.lacking) and self.lacking[slot] else self.values[slot] / 10**self.digits


@dataclass(frozen=True)
class Inputs:
    """The measurements from one source by which a plugin or an extender decided, for all evaluated nodes.

    `source` describes where the measurements are from. `measured` holds for each node slot when they were taken, in
    whole seconds since 1970, or 0 if unknown. A single entry applies to all nodes; an empty column means that no time
    is known. `stale` holds 1 for nodes whose measurement was too old and therefore ignored; an empty column means that
    none was.
    """

    plugin: str
    source: str
    numbers: tuple[InputColumn, ...]
    measured: Column = field(default_factory=empty_column)
    stale: Column = field(default_factory=empty_column)

    def measured_s(self, slot: int) -> int:
        """Return when the measurements of a slot's node were taken, in seconds since 1970, or 0 if unknown."""
        return self.measured[slot if len(self.measured) > 1 else 0] if len(self.measured) else 0


@dataclass(frozen=True)
class AttemptKey:
    """The unique key of an attempt. It includes the incarnation because attempts may restart at 1 after a failover."""

    cluster: str  # UID of the namespace kube-system
    source: Source
    incarnation: str  # UUID of one run of a scheduler process
    pod_uid: str
    attempt: int


@dataclass(frozen=True)
class SchedulerInfo:
    """The scheduler that decided. `profile` is the pod's spec.schedulerName."""

    profile: str
    identity: str
    version: str


@dataclass(frozen=True)
class Owner:
    """The controller that owns the pod, from its `metadata.ownerReferences`."""

    kind: str
    name: str


@dataclass(frozen=True)
class RecordedPod:
    """The pod as the scheduling cycle read it. `requests` are in base units: CPU in millicores, bytes, counts."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner: Owner | None
    priority: int
    requests: Mapping[str, int]
    digest: str  # of all fields that scheduling reads: equal for pods of one equivalence class
    nominated_node: str = ""


@dataclass(frozen=True)
class Times:
    """When the attempt happened: wall clock times in microseconds since 1970 (UTC), monotonic durations in seconds."""

    created_us: int
    queued_us: int  # when this scheduler first saw the pod
    started_us: int
    phases_s: Mapping[str, float] = field(default_factory=dict)  # PreFilter, Filter, PostFilter, PreScore, Score
    queues_s: Mapping[str, float] = field(default_factory=dict)  # active, backoff, unschedulable, gated


@dataclass(frozen=True)
class RequeueEvent:
    """The cluster event that moved a waiting pod back to the active or backoff queue.

    `plugin` is the plugin whose queueing hint asked for it, or "" if no plugin did.
    """

    event: str
    plugin: str


@dataclass(frozen=True)
class Retry:
    """When the scheduler tries a rejected pod again: the earliest and the latest time, in microseconds since 1970.

    `queue` names the part of the scheduling queue in which the pod waits. `latest_us` is None if the pod waits only for
    the end of its backoff.
    """

    queue: str
    not_before_us: int
    latest_us: int | None


@dataclass(frozen=True)
class Reconstruction:
    """How the observer's reconstruction of an attempt compares with what the other scheduler did.

    `cause` is None where both agree. `in_flight` counts bindings near the outcome: negative for those seen before it
    that the snapshot omits, positive for those seen after it that the snapshot includes. `deletions` counts deleted
    pods in the same way.
    """

    agreement: Agreement
    cause: Cause | None = None
    in_flight: int = 0
    deletions: int = 0


@dataclass(frozen=True)
class FirstRejection:
    """The number of nodes that one filter was the first to reject, all with the same verdict.

    `filter` is the filter's index in `Decision.filters`, `verdict` the verdict's index in its `verdicts`. `also` maps
    later plugins to how many of these nodes they rejected as well; plugins that rejected none are absent.
    """

    filter: int
    verdict: int
    nodes: int
    also: Mapping[str, int]


@dataclass(frozen=True)
class Summary:
    """The counts over all nodes that replace the columns of a decision whose full record was pruned.

    `evaluation` counts nodes by `Evaluation.label`; `verdicts` counts, for each filter, evaluated nodes by verdict.
    `ties` is how many nodes shared the best total, 0 if one node alone had it.
    """

    pruned_us: int
    evaluation: Mapping[str, int]
    verdicts: tuple[tuple[int, ...], ...]
    first_rejections: tuple[FirstRejection, ...]
    ties: int


@dataclass(frozen=True)
class Decision:
    """The complete record of one attempt to schedule one pod.

    `sequence` is contiguous over all frames of an incarnation. `evaluation`, `rank`, `totals` and the columns of
    filters and scores have one entry for each node slot, or are empty if the whole column has no meaning, such as
    `totals` when nothing was scored. `rank` is 1 for the best node; nodes with equal totals share a rank, and
    infeasible nodes have 0. `seed` determined the random choice among the best nodes.
    """

    id: str  # UUIDv7
    key: AttemptKey
    sequence: int
    scheduler: SchedulerInfo
    pod: RecordedPod
    times: Times
    generation: int
    slots: int
    nodes_total: int
    nodes_evaluated: int
    nodes_feasible: int
    path: DecisionPath
    chosen: int | None  # slot
    pre_filters: tuple[PluginVerdict, ...]  # plugins whose PreFilter did not succeed
    narrowed_by: tuple[str, ...]
    evaluation: Column
    filters: tuple[FilterColumn, ...]
    scores: tuple[ScoreColumn, ...]
    totals: Column
    rank: Column
    seed: int
    post_filters: tuple[PluginVerdict, ...]
    message: str  # the full message of the FailedScheduling event; empty if a node was chosen
    preemption: Preemption | None = None  # if a PostFilter plugin found pods to evict
    marks: tuple[str, ...] = ()  # notes as text, from older writers; such a text may name any pod
    woken_by: RequeueEvent | None = None  # None if the pod was not waiting for an event
    retry: Retry | None = None  # None if a node was chosen, and from older writers
    inputs: tuple[Inputs, ...] = ()  # from plugins and extenders that report them
    unknown: tuple[str, ...] = ()  # fields without a known value, as paths in the document's `spec`
    reconstruction: Reconstruction | None = None  # for source RECONSTRUCTED with an outcome to compare
    summary: Summary | None = None  # if set, slots are those of the few kept nodes
    notes: tuple[Reason, ...] = ()  # what is not known, failed or was disabled: codes of `notes`

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


@dataclass(frozen=True)
class Outcome:
    """The result of one phase after a decision: Reserve, Permit, PreBind, Bind or Evict.

    No outcome follows one whose `final` is true. `message` is text of a plugin or the API server. If the outcome names
    other pods, `reason` replaces `message`: a code of `notes.CATALOGUE` with the names as parameters. Sequence
    FOUND_LATER marks an outcome that a later scheduler process found for an incarnation that ended without learning it.
    """

    incarnation: str
    sequence: int
    decision_id: str
    decision_sequence: int
    phase: str
    status: Code
    node: str
    message: str
    at_us: int
    duration_s: float
    final: bool
    reason: Reason | None = None


@dataclass(frozen=True)
class Gap:
    """A range of sequence numbers, `first` to `last`, of one incarnation whose records are lost, and why.

    `sequence` is the number of the gap's own frame.
    """

    incarnation: str
    sequence: int
    first: int
    last: int
    reason: str
    at_us: int


@dataclass(frozen=True)
class HighWater:
    """The highest sequence number that an earlier scheduler process is known to have written.

    `incarnation` is the process that states it, `of` the earlier one, and `reached` the number. Records up to that
    number that never arrive are missing: the earlier spool was lost with its disk, or is not delivered yet.
    """

    incarnation: str
    sequence: int  # the frame's own
    of: str
    reached: int
    at_us: int


@dataclass(frozen=True)
class NodeRows:
    """The changed rows of the node table: which node has a slot since which generation, and its resources.

    All sequences are parallel, with one entry for each row. `name` is empty where the slot became free. `allocatable`
    and `requested` have one column for each of `resources` (CPU in millicores, bytes, counts; `pods` counts pods).
    `base` is the generation of the preceding NodeRows frame; -1 marks a complete table, from which a reader can start.
    """

    cluster: str
    incarnation: str
    base: int
    generation: int
    resources: tuple[str, ...]
    slot: Column
    since: Column
    name: tuple[str, ...]
    uid: tuple[str, ...]
    allocatable: tuple[Column, ...]
    requested: tuple[Column, ...]


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

        The amount is negative if the node is overcommitted, and 0 if it lacks the resource.
        """
        return self.allocatable[slot].get(resource, 0) - self.requested[slot].get(resource, 0)

    def free_amounts(self, slots: Collection[int], resource: str) -> list[int]:
        """Return, for each of the slots in order, how much of a resource the node has free, as `free` computes it."""
        return [self.free(slot, resource) for slot in slots]
