"""The protocols of the extension points, which plugins implement.

A plugin is an object with a `name` and the methods of the points that it extends; the framework recognizes them by
these protocols. Nodes are passed as columns: a filter returns one verdict for each slot, a score plugin one int64. The
framework ignores the result for a slot without a node (`nodes.live` False).

Source of the points and their meaning: k8s.io/kube-scheduler/framework v1.36 (interface.go).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Verdict
from scheduler.engine.columns import NodeColumns, RowCopy
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.events import ClusterEventWithHint
from scheduler.engine.framework.extender import PreemptionCandidate, RemainingCandidates
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Deferred, Pending, PostFilterResult, PreFilterResult, Verdicts, Wait
from scheduler.engine.objects.pod import PodInfo

Scores = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_NODE_SCORE = 100


class Plugin(Protocol):
    """An object that extends at least one extension point."""

    @property
    def name(self) -> str:
        """The plugin's name in configurations and records."""


@runtime_checkable
class Prepare(Plugin, Protocol):
    """A plugin that keeps data about the cluster across cycles. Not an extension point of kube-scheduler."""

    def prepare(self, nodes: NodeColumns) -> None:
        """Build the data now, after the first list, so that the first cycle is not slower than later ones."""


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """A plugin that declares which cluster events may help a pod that it rejected. Without it, every event may."""

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """Return the events with their queueing hints. Called once, when the profile is built."""


@runtime_checkable
class PreEnqueue(Plugin, Protocol):
    """A plugin that may keep a pod out of the active queue."""

    def pre_enqueue(self, pod: PodInfo) -> Verdict:
        """Return Success to let the pod in; any other verdict keeps it out."""


@runtime_checkable
class QueueSort(Plugin, Protocol):
    """A plugin that orders the active queue."""

    def sort_key(self, pod: PodInfo, queued_s: float) -> Any:
        """Return the sort key, smallest first. `queued_s` is when the pod last entered a queue (monotonic)."""


@runtime_checkable
class PreFilter(Plugin, Protocol):
    """A plugin that examines the pod and the cluster once, before the nodes."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Return Success, Skip (its Filter does not run), or a rejection of the pod as a whole."""


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    """A PreFilter plugin that updates its state data in dry runs (preemption, nominated pods)."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """Update the state for a pod added to `slot` of `nodes`, which may be other columns than in PreFilter."""

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """Update the state for a pod removed from `slot` of `nodes`."""


@runtime_checkable
class Filter(Plugin, Protocol):
    """A plugin that decides for each node whether the pod may run there."""

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Return a verdict for each slot of `nodes`.

        `nodes` may be other columns than in PreFilter, so state data must not refer to slots of those.
        """


class DryRun(Protocol):
    """Filters of one attempt that a PostFilter plugin runs on changed copies of nodes."""

    @property
    def can_batch_nodes(self) -> bool:
        """Whether several nodes may be tried at once in one copy."""

    def dependencies(self, pod: PodInfo, nodes: NodeColumns) -> tuple[Hashable, Set[int]] | None:
        """Return when a cached result of this dry run may be used again, or None if none may.

        A result for a node holds as long as the pod's spec, the node's columns and the first returned value, a key, are
        equal. The second value names the slots whose results are never cached, because nominated pods count there.
        """

    def find_first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Return each slot's first verdict other than Success, or Success, from all filters that are not skipped."""

    def add_pods(self, state: CycleState, pod: PodInfo, added: Sequence[tuple[int, PodInfo]], nodes: RowCopy) -> None:
        """Add pods to slots of `nodes` and to the plugins' state."""

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: Sequence[tuple[int, PodInfo]], nodes: RowCopy
    ) -> None:
        """Remove pods from slots of `nodes` and from the plugins' state."""

    def run_extenders(
        self, pod: PodInfo, nodes: NodeColumns, candidates: Sequence[PreemptionCandidate]
    ) -> RemainingCandidates:
        """Return what the extenders leave of the candidates. Raises ExtenderError if one fails that must not."""


@runtime_checkable
class PostFilter(Plugin, Protocol):
    """A plugin that runs when no node is feasible."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8], dry_run: DryRun
    ) -> PostFilterResult:
        """Return the result, such as a nomination with its victims.

        `codes` holds each slot's first failing code, `ABSENT_CODE` where the node was not evaluated.
        """


@runtime_checkable
class PreScore(Plugin, Protocol):
    """A plugin that examines the feasible nodes once, before they are scored."""

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Return Success, or Skip if Score is not to run. The reasons of either become a mark in the record."""


@runtime_checkable
class Score(Plugin, Protocol):
    """A plugin that scores every feasible node."""

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return a raw score for each slot; only those of feasible slots count."""


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    """A score plugin that scales its raw scores to 0..100. Without it, raw scores must be in that range."""

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Return a score from 0 to `MAX_NODE_SCORE` for each slot; only those of feasible slots count."""


@runtime_checkable
class InputReporter(Plugin, Protocol):
    """A plugin that reports the inputs of its Filter and Score. Not an extension point of kube-scheduler."""

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        """Return the values that Filter or Score used in this cycle: one `NodeInputs` per source, one entry per slot.

        Called once, after both. It does not affect the decision; an exception becomes a mark in the record.
        """


@runtime_checkable
class Reserve(Plugin, Protocol):
    """A plugin that reserves something for the pod on the chosen node."""

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Reserve. Any verdict but Success undoes the reservations of all plugins, in reverse order."""

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undo the reservation. Must not fail, and may be called without a reservation."""


@runtime_checkable
class Permit(Plugin, Protocol):
    """A plugin that may reject or delay the pod before binding."""

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Wait:
        """Return Success, a rejection, or Wait until the plugin allows or rejects it (`Handle.waiting_pods`)."""


@runtime_checkable
class PreBind(Plugin, Protocol):
    """A plugin with work that must be done before the pod is bound."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Pending:
        """Do the work, in one of few binding threads: return Pending for what takes long."""


@runtime_checkable
class PreBindPreFlight(Plugin, Protocol):
    """A PreBind plugin that reports whether it will have work. Without it, the framework assumes that it will."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Return Skip if there is nothing to do, else Success.

        With work to do, the scheduler writes the nominated node into the pod's status before PreBind.
        """


@runtime_checkable
class Bind(Plugin, Protocol):
    """A plugin that binds the pod to the node."""

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Deferred:
        """Bind the pod, in a binding thread. Skip leaves it to the next Bind plugin; Deferred binds asynchronously."""


@runtime_checkable
class BindAtOnce(Bind, Protocol):
    """A Bind plugin that never blocks, because it returns Deferred. It may run in the loop's thread."""

    binds_at_once: bool


@runtime_checkable
class PostBind(Plugin, Protocol):
    """A plugin that is notified after a pod was bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Handle the bound pod, in a binding thread."""


# Configuration name -> protocol, in the order of a cycle.
EXTENSION_POINTS: dict[str, type[Any]] = {
    "preEnqueue": PreEnqueue,
    "queueSort": QueueSort,
    "preFilter": PreFilter,
    "filter": Filter,
    "postFilter": PostFilter,
    "preScore": PreScore,
    "score": Score,
    "reserve": Reserve,
    "permit": Permit,
    "preBind": PreBind,
    "bind": Bind,
    "postBind": PostBind,
}
