"""Decision and Outcome: what one scheduling attempt saw, chose, and what became of it.

Owns: the vocabulary of a record and its shapes. Does not own: how a record is encoded (`codec`), worded (`reasons`)
or read (`explain`). Standard library only, because the kubectl plugin imports this room and must start fast.

Invariant: a record holds what was seen, never what a reader could only guess. Per-node facts are *columns*: one entry
a slot of the node table at the decision's snapshot generation; slot numbers are stable within an incarnation, so two
decisions of one incarnation compare entry by entry.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

API_GROUP = "herodotus.dev"
API_VERSION = f"{API_GROUP}/v1alpha1"

if TYPE_CHECKING:
    Column = array[int]
else:
    Column = array  # of ints, one entry a slot; writers pick the narrowest type that holds the values


def empty_column() -> Column:
    """A column that says nothing: what it stands for is in the docstring of the field that holds it."""
    return array("B")


class Code(IntEnum):
    """A plugin's status code, numbered and named as kube-scheduler's."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """kube-scheduler's spelling, as in its metrics: `UnschedulableAndUnresolvable`."""
        return "".join(word.capitalize() if word != "AND" else "And" for word in self.name.split("_"))

    @property
    def rejected(self) -> bool:
        """Whether the code turns a node or pod away without being an error."""
        return self in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


class Evaluation(IntEnum):
    """Whether a slot's node went through the filters, and why not where it did not."""

    EVALUATED = 0
    ABSENT = 1  # no node in this slot at this generation
    NARROWED = 2  # a PreFilter plugin named other nodes
    NOT_SAMPLED = 3  # enough feasible nodes had been found (percentageOfNodesToScore)
    NOT_NEEDED = 4  # the nominated node fitted, so no other was looked at
    NOT_REACHED = 5  # the cycle ended before: PreFilter rejected the pod, or an error
    UNRECORDED = 6  # the record does not say: it was read from a log that does not

    @property
    def label(self) -> str:
        """As documents write it: `not-sampled`."""
        return self.name.lower().replace("_", "-")


class Path(str, Enum):
    """How the attempt came to its end."""

    SCORED = "scored"  # best total of several feasible nodes
    ONLY_FEASIBLE = "only-feasible-node"  # one node fits: kube-scheduler does not score
    NOMINATED = "nominated-node"  # status.nominatedNodeName named it and it fits
    NONE = "no-feasible-node"
    ERROR = "error"
    UNKNOWN = "unknown"  # a node was chosen; why no other fitted, or was looked at, is not recorded


class Source(str, Enum):
    """Where a decision comes from."""

    SCHEDULER = "scheduler"  # our own scheduler took it
    RECONSTRUCTED = "reconstructed"  # evaluated afterwards for another scheduler's pod
    LOGGED = "logged"  # read from another scheduler's log


class Agreement(str, Enum):
    """Whether another scheduler's outcome follows from what was reconstructed."""

    AGREE = "agree"  # the node is among the best, or there is none where none fits
    IN_WINDOW = "agree-in-window"  # likewise, on a snapshot without, or with, what was still in flight
    DISAGREE = "disagree"
    UNKNOWN = "unknown"  # nothing to compare with


class Cause(str, Enum):
    """Why an outcome does not follow, or cannot be compared."""

    SAMPLING = "sampling"  # the other scheduler need not have looked at the better nodes
    EXTENDERS = "extenders"  # it asks extenders, which were not asked here
    STALE_VIEW = "stale-view"  # it must have seen another state of the cluster
    UNKNOWN_PLUGIN = "unknown-plugin"  # it runs a plugin that is not known here
    UNEXPLAINED = "unexplained"
    NOT_WATCHED = "not-watched"  # the watch was interrupted while the pod was placed
    NOT_EVALUATED = "not-evaluated"  # the evaluation ended in an error


@dataclass(frozen=True)
class Reason:
    """Why a node or a pod was turned away: a code of `reasons.CATALOGUE` and its parameters.

    What follows from the pod's requests and the node's state (free, allocatable) is not repeated in `params`: it is
    derived from the node table of the decision's generation.
    """

    code: str
    params: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.code, *sorted(self.params.items())))


@dataclass(frozen=True)
class Verdict:
    """A status: the code and, where it is not Success, its reasons in the order that kube-scheduler prints them."""

    code: Code
    reasons: tuple[Reason, ...] = ()

    @property
    def against(self) -> bool:
        """In a filter's column: whether it turns the node away. Success does not, and NOT_RUN says nothing."""
        return self.code not in (Code.SUCCESS, Code.SKIP)


SUCCESS = Verdict(Code.SUCCESS)
NOT_RUN = Verdict(Code.SKIP)  # of a node that the filter was not asked about: an earlier one had rejected it


@dataclass(frozen=True)
class PluginVerdict:
    """What one plugin said of the pod as a whole (PreFilter, PostFilter, Reserve, Permit)."""

    plugin: str
    verdict: Verdict


@dataclass(frozen=True)
class Candidate:
    """A node on which evicting pods would make room: `victims` as NAMESPACE/NAME, the most important first.

    `refused_by`: the extender that would not have it, "" where none objected.
    """

    node: str
    victims: tuple[str, ...]
    pdb_violations: int
    refused_by: str = ""


@dataclass(frozen=True)
class Preemption:
    """What preemption found. `nominated` is one of the candidates' nodes, "" where there is none.

    `evicted` says whether the victims were told to go, or whether this is only what would help.
    """

    nominated: str
    candidates: tuple[Candidate, ...]
    evicted: bool


@dataclass(frozen=True)
class FilterColumn:
    """What one filter said of every evaluated node.

    `ids` indexes `verdicts` a slot; `verdicts[0]` is Success. Empty `ids`: every evaluated node passed. Slots whose
    `evaluation` is not EVALUATED hold 0 and mean nothing. `skipped`: the plugin had nothing to check for this pod.
    """

    plugin: str
    skipped: bool = False
    verdicts: tuple[Verdict, ...] = (SUCCESS,)
    ids: Column = field(default_factory=empty_column)


@dataclass(frozen=True)
class ScoreColumn:
    """What one score plugin gave every feasible node: raw, and normalised to 0..100. Other slots hold 0."""

    plugin: str
    weight: int
    skipped: bool = False
    raw: Column = field(default_factory=empty_column)
    normalized: Column = field(default_factory=empty_column)


@dataclass(frozen=True)
class Number:
    """One number of every node: an entry is the value times 10 to the power of `digits`, rounded.

    `unit`: as it is written behind the number, "" for none. `lacking`: 1 where the node has none; empty: nowhere.
    """

    name: str
    unit: str
    digits: int
    values: Column
    lacking: Column = field(default_factory=empty_column)

    def of(self, slot: int) -> float | None:
        """The node's number; None where it has none."""
        return None if len(self.lacking) and self.lacking[slot] else self.values[slot] / 10**self.digits


@dataclass(frozen=True)
class Inputs:
    """What a plugin or an extender went by, of one source: the numbers of every node that was looked at.

    `source`: what they came from, in words. `measured`: when, in whole seconds since 1970, 0 where it is not said; one
    entry stands for all slots, none says nothing. `stale`: 1 where it was too old, and ignored; empty: nowhere.
    """

    plugin: str
    source: str
    numbers: tuple[Number, ...]
    measured: Column = field(default_factory=empty_column)
    stale: Column = field(default_factory=empty_column)

    def measured_s(self, slot: int) -> int:
        """When the node's numbers were measured, in seconds since 1970; 0 where it is not said."""
        return self.measured[slot if len(self.measured) > 1 else 0] if len(self.measured) else 0


@dataclass(frozen=True)
class Key:
    """What makes an attempt unique. Attempts may restart at 1 after a failover: hence the incarnation."""

    cluster: str  # UID of the namespace kube-system
    source: Source
    incarnation: str  # UUID of one life of a scheduler process
    pod_uid: str
    attempt: int


@dataclass(frozen=True)
class SchedulerInfo:
    """Who decided. `profile` is the pod's spec.schedulerName."""

    profile: str
    identity: str
    version: str


@dataclass(frozen=True)
class Owner:
    """The pod's controller."""

    kind: str
    name: str


@dataclass(frozen=True)
class PodInfo:
    """The pod as the cycle read it. `requests` in base units: cpu in milli, bytes, counts."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner: Owner | None
    priority: int
    requests: Mapping[str, int]
    digest: str  # of everything that scheduling reads of the pod: equal digests, equal questions
    nominated_node: str = ""


@dataclass(frozen=True)
class Times:
    """Wall clock in microseconds since the epoch, UTC; durations from the monotonic clock, in seconds."""

    created_us: int
    queued_us: int  # when this scheduler first saw the pod
    started_us: int
    phases_s: Mapping[str, float] = field(default_factory=dict)  # PreFilter, Filter, PostFilter, PreScore, Score
    queues_s: Mapping[str, float] = field(default_factory=dict)  # active, backoff, unschedulable, gated


@dataclass(frozen=True)
class WokenBy:
    """What made a waiting pod be tried again: the event's label, and the plugin that hoped for it ("": any)."""

    event: str
    plugin: str


@dataclass(frozen=True)
class Retry:
    """When a pod that was not placed is tried again: not before one moment, and no later than another.

    `queue`: where it waits. `latest_us`: None where it waits for nothing but the end of its backoff.
    """

    queue: str
    not_before_us: int
    latest_us: int | None


@dataclass(frozen=True)
class Reconstruction:
    """How a reconstructed decision compares with what another scheduler did. `cause`: absent where both agree.

    `in_flight`: how many bindings the snapshot leaves out that were seen before the outcome (negative), or counts that
    were seen only after it (positive). `deletions`: likewise of pods that went.
    """

    agreement: Agreement
    cause: Cause | None = None
    in_flight: int = 0
    deletions: int = 0


@dataclass(frozen=True)
class FirstRejection:
    """How many nodes a filter (by its position) was the first to turn away, with a verdict (by its number).

    `also`: of those, how many each later filter rejected too, by plugin; filters that rejected none are absent.
    """

    filter: int
    verdict: int
    nodes: int
    also: Mapping[str, int]


@dataclass(frozen=True)
class Summary:
    """What stands for the columns of a decision whose full record was pruned: counts over all nodes.

    `evaluation`: nodes by `Evaluation.label`. `verdicts`: for each filter, evaluated nodes by the verdict's number.
    `ties`: nodes that shared the best total, 0 where one had it alone.
    """

    pruned_us: int
    evaluation: Mapping[str, int]
    verdicts: tuple[tuple[int, ...], ...]
    first_rejections: tuple[FirstRejection, ...]
    ties: int


@dataclass(frozen=True)
class Decision:
    """One attempt to schedule one pod, complete.

    `sequence` is contiguous over all frames of an incarnation. `evaluation`, `rank`, `totals` and the columns of
    filters and scores have one entry a slot (or none where the whole column means nothing, e.g. `totals` when nothing
    was scored). `rank`: 1 is best, equal totals share a rank, 0 is not feasible. `seed` is what drew among equals.
    """

    id: str  # UUIDv7
    key: Key
    sequence: int
    scheduler: SchedulerInfo
    pod: PodInfo
    times: Times
    generation: int
    slots: int
    nodes_total: int
    nodes_evaluated: int
    nodes_feasible: int
    path: Path
    chosen: int | None  # slot
    pre_filters: tuple[PluginVerdict, ...]  # those that did not succeed
    narrowed_by: tuple[str, ...]
    evaluation: Column
    filters: tuple[FilterColumn, ...]
    scores: tuple[ScoreColumn, ...]
    totals: Column
    rank: Column
    seed: int
    post_filters: tuple[PluginVerdict, ...]
    message: str  # the whole text of the pod's FailedScheduling event; empty where a node was chosen
    preemption: Preemption | None = None  # where a PostFilter plugin looked for pods to evict, and found some
    marks: tuple[str, ...] = ()  # what this record does not know or what was switched off
    woken_by: WokenBy | None = None  # what ended its wait for an event; None where it had not waited for one
    retry: Retry | None = None  # None where a node was chosen, and in records of writers that do not say
    inputs: tuple[Inputs, ...] = ()  # of plugins and extenders that say what they went by
    unknown: tuple[str, ...] = ()  # fields whose value means nothing, by their path in the document's `spec`
    reconstruction: Reconstruction | None = None  # of source RECONSTRUCTED, where there was an outcome to compare with
    summary: Summary | None = None  # where it is there, slots are those of the few nodes that are kept

    @cached_property
    def ties(self) -> tuple[int, ...]:
        """The slots that shared rank 1 when more than one did: the chosen one was drawn among them."""
        if self.rank.count(1) < 2:
            return ()
        return tuple(slot for slot, rank in enumerate(self.rank) if rank == 1)

    @property
    def final(self) -> bool:
        """Whether no Outcome will follow: nothing was chosen, so nothing is bound."""
        return self.chosen is None


@dataclass(frozen=True)
class Outcome:
    """How one later phase of a decision ended: Reserve, Permit, PreBind, Bind. `final`: no other follows."""

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


@dataclass(frozen=True)
class Gap:
    """Records that were not kept: sequences `first` to `last` of an incarnation, and why. `sequence` is its own."""

    incarnation: str
    sequence: int
    first: int
    last: int
    reason: str
    at_us: int


@dataclass(frozen=True)
class HighWater:
    """What `incarnation` knows of an earlier one: `of` had numbered records at least up to `reached`.

    What of them never arrives is missing: the earlier one's spool was lost with its disk, or is still on its way.
    """

    incarnation: str
    sequence: int  # its own
    of: str
    reached: int
    at_us: int


@dataclass(frozen=True)
class NodeRows:
    """Rows of the node table that changed: who is in a slot since a generation, and what it has and holds.

    Parallel sequences, one entry a row. `name` is empty where the slot became free. `allocatable` and `requested`:
    for each of `resources` one column (cpu in milli, bytes, counts; `pods` counts pods). `base` is the generation of
    the rows frame before this one; -1 marks a complete table, from which a reader can start.
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
    """The node table of one incarnation as of a generation: built by applying `NodeRows` in order."""

    generation: int = -1
    names: list[str] = field(default_factory=list)  # by slot; "" where the slot is free
    uids: list[str] = field(default_factory=list)
    since: list[int] = field(default_factory=list)
    allocatable: Sequence[Mapping[str, int]] = field(default_factory=list)
    requested: Sequence[Mapping[str, int]] = field(default_factory=list)

    def apply(self, rows: NodeRows) -> None:
        """Bring the table to `rows.generation`. ValueError when rows before these are missing."""
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
                continue  # a row of a frame that was sent again
            self.names[slot], self.uids[slot], self.since[slot] = rows.name[i], rows.uid[i], rows.since[i]
            allocatable[slot] = {r: c[i] for r, c in zip(rows.resources, rows.allocatable, strict=True)}
            requested[slot] = {r: c[i] for r, c in zip(rows.resources, rows.requested, strict=True)}
        self.allocatable, self.requested = allocatable, requested
        self.generation = max(self.generation, rows.generation)

    def rows(self, cluster: str, incarnation: str) -> NodeRows:
        """The whole table as one frame that a reader can start from."""
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

    def slot_of(self, name: str) -> int | None:
        """The slot that holds the node called `name`, or None."""
        return next((slot for slot, n in enumerate(self.names) if n == name), None)

    def free(self, slot: int, resource: str) -> int:
        """Allocatable minus requested; negative on an overcommitted node, 0 for a resource the node does not have."""
        return self.allocatable[slot].get(resource, 0) - self.requested[slot].get(resource, 0)

    def free_of(self, slots: Collection[int], resource: str) -> list[int]:
        """`free` of many slots."""
        return [self.free(slot, resource) for slot in slots]
