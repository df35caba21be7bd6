"""The protocols of the extension points, which plugins implement.

A plugin is an object with a `name` and the methods of the points that it extends; the framework recognizes them by
these protocols. Nodes are passed as columns: a filter returns one verdict for each slot, a score plugin one int64. The
framework ignores the result for a slot without a node (`nodes.live` False).

Source of the points and their meaning: k8s.io/kube-scheduler/framework v1.36 (interface.go).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import AllocatedDevice, Reason, Verdict
from scheduler.engine.columns import NodeColumns, RowCopy
from scheduler.engine.formulas.inputs import NodeInputs
from scheduler.engine.framework.events import ClusterEventWithHint
from scheduler.engine.framework.extender import PreemptionCandidate, RemainingCandidates
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Deferred, Pending, PostFilterResult, PreFilterResult, Verdicts, Wait
from scheduler.engine.objects.pod import PodGroupKey, PodInfo

if TYPE_CHECKING:
    from scheduler.engine.framework.placement import GroupPlacement, ProposedPlacement

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
        """Build the plugin's data once all objects are listed, so that the first cycle is as fast as later ones."""


@runtime_checkable
class PreparePod(Plugin, Protocol):
    """A plugin that can count in advance what the terms of one pod select. Not an extension point of kube-scheduler."""

    def prepare_pod(self, pod: PodInfo, nodes: NodeColumns, has_time: Callable[[], bool]) -> bool:
        """Count the pods that the terms of `pod` select, before its cycle, so that the cycle is short.

        Stop when `has_time` returns False; return whether all is counted. The plugin keeps the counts current when the
        cluster changes.
        """


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """A plugin that declares which cluster events may help a pod that it rejected.

    If a plugin does not implement it, any event may help the pods that the plugin rejected.
    """

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """Return the cluster events with their queueing hints. Called once for each profile."""


@runtime_checkable
class PreEnqueue(Plugin, Protocol):
    """A plugin that may keep a pod out of the active queue."""

    def pre_enqueue(self, pod: PodInfo) -> Verdict:
        """Return Success to let the pod into the active queue; any other verdict keeps it out."""


@runtime_checkable
class QueueSort(Plugin, Protocol):
    """A plugin that orders the active queue."""

    def sort_key(self, pod: PodInfo, queued_s: float) -> Any:
        """Return the pod's sort key; the active queue returns the pod with the smallest key first.

        `queued_s` is the time, in monotonic seconds, at which the pod last entered a queue.
        """


@runtime_checkable
class PreFilter(Plugin, Protocol):
    """A plugin that examines the pod and the cluster once, before Filter examines each node."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Return Success, Skip so that this plugin's Filter does not run, or a rejection of the pod for all nodes.

        With Success, the result may limit the nodes that Filter evaluates.
        """


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    """A PreFilter plugin that updates its state data when a dry run adds a pod to a node or removes one.

    Dry runs are made for preemption and for nominated pods.
    """

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """Update the plugin's data in `state` after the pod `added` was added to the node in `slot`.

        `slot` is the node's row index in `nodes`, which may be other columns than in PreFilter, such as a copy of a few
        nodes.
        """

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """Update the plugin's data in `state` after the pod `removed` was removed from the node in `slot`.

        `slot` is the node's row index in `nodes`.
        """


@runtime_checkable
class Filter(Plugin, Protocol):
    """A plugin that decides for each node whether the pod may run there."""

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Return a verdict on each node of `nodes`.

        `nodes` may be other columns than in PreFilter, so data in `state` must not refer to node slots of PreFilter's
        columns.
        """


class DryRun(Protocol):
    """The filters of one attempt, which a PostFilter plugin runs on copies of nodes with pods added or removed."""

    @property
    def can_batch_nodes(self) -> bool:
        """Whether pods can be added to, or removed from, several nodes of one `RowCopy` at once.

        They cannot if a PreFilter plugin updates its state for each pod.
        """

    def dependencies(self, pod: PodInfo, nodes: NodeColumns) -> tuple[Hashable, Set[int]] | None:
        """Return a cache key, and the slots of nodes whose results must not be cached; None if no result may be cached.

        A cached result for a node holds while the pod's spec, the node's columns and the key are equal. The slots are
        those of nodes where nominated pods count.
        """

    def find_nominated_node(self, pod: PodInfo) -> str:
        """Return the node for which an earlier attempt nominated the pod, or "" if there is none."""

    def find_first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Return each node's first verdict that is not Success, or Success if all filters accept the node.

        Filters that PreFilter skipped do not run. A node with nominated pods of the same or a higher priority must pass
        both with and without these pods.
        """

    def add_pods(self, state: CycleState, pod: PodInfo, added: Sequence[tuple[int, PodInfo]], nodes: RowCopy) -> None:
        """Add pods to the copied nodes and to the plugins' data in `state`.

        `added` pairs each pod with the slot (row index in `nodes`) of its node.
        """

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: Sequence[tuple[int, PodInfo]], nodes: RowCopy
    ) -> None:
        """Remove pods from the copied nodes and from the plugins' data in `state`.

        `removed` pairs each pod with the slot (row index in `nodes`) of its node.
        """

    def run_extenders(
        self, pod: PodInfo, nodes: NodeColumns, candidates: Sequence[PreemptionCandidate]
    ) -> RemainingCandidates:
        """Return which preemption candidates the extenders keep and which they remove.

        Raises ExtenderError if an extender fails that is not ignorable.
        """


@runtime_checkable
class PostFilter(Plugin, Protocol):
    """A plugin that runs when no node is feasible, such as preemption."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8], dry_run: DryRun
    ) -> PostFilterResult:
        """Try to make the pod schedulable; return a verdict and, if that succeeds, a nominated node and victims.

        `codes` holds, for each node slot, the status code of the first filter that rejects the node, or `ABSENT_CODE`
        if the node was not evaluated.
        """


@runtime_checkable
class PreScore(Plugin, Protocol):
    """A plugin that examines the feasible nodes once, before they are scored."""

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Return Success, or Skip so that this plugin's Score does not run. The record shows the verdict's reasons."""


@runtime_checkable
class Score(Plugin, Protocol):
    """A plugin that scores every feasible node."""

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return a raw score for each node (row of `nodes`); the scores of infeasible nodes are ignored."""


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    """A score plugin that scales its raw scores to 0..100.

    A score plugin that does not implement it must return raw scores in that range.
    """

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Return a score from 0 to `MAX_NODE_SCORE` for each node; the scores of infeasible nodes are ignored."""


@runtime_checkable
class DeviceReporter(Plugin, Protocol):
    """A plugin that allocates devices, and reports them for the record.

    It is not an extension point of kube-scheduler.
    """

    def list_devices(self, state: CycleState, pod: PodInfo, node: str) -> tuple[AllocatedDevice, ...]:
        """Return the devices that the pod's claims get on a node, by the results of this cycle's Filter."""


@runtime_checkable
class InputReporter(Plugin, Protocol):
    """A plugin that reports the measurements of nodes that its Filter and Score used, for the record.

    It is not an extension point of kube-scheduler.
    """

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[NodeInputs]:
        """Return the measurements that Filter or Score used in this cycle, one `NodeInputs` per source.

        Each `NodeInputs` has one value per node slot. The framework calls this once, after Filter and Score. The result
        does not affect the decision; if the call raises, the record only notes the error.
        """


@runtime_checkable
class RejectionReporter(Plugin, Protocol):
    """A Filter plugin that can add parameters to its reasons for the record's readers, such as the pods on a host port.

    It is not an extension point of kube-scheduler.
    """

    def explain_rejections(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, verdicts: Verdicts) -> Verdicts:
        """Return this plugin's verdicts with further parameters in their reasons; codes and slots stay the same.

        The framework calls this once, after a cycle in which no node was feasible, so that successful cycles take no
        longer. The parameters do not affect the decision.
        """


@runtime_checkable
class ScoreReporter(Plugin, Protocol):
    """A Score plugin that says what made up its score of a node, such as the preferred terms that the node matches.

    It is not an extension point of kube-scheduler.
    """

    def explain_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, slot: int) -> Sequence[Reason]:
        """Return the reasons for this plugin's score of the node in `slot`, with codes of `reasons.SCORES`.

        The framework calls this after the cycle has chosen a node, for two nodes whose normalized scores by this plugin
        differ. The result does not affect the decision.
        """


@runtime_checkable
class Reserve(Plugin, Protocol):
    """A plugin that reserves something for the pod on the chosen node, such as volumes."""

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Make the plugin's reservation for the pod on `node`.

        After any verdict but Success, the framework undoes the reservations of all plugins, in reverse order.
        """

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undo the plugin's reservation for the pod on `node`. Must not fail, even if there is no reservation."""


@runtime_checkable
class Permit(Plugin, Protocol):
    """A plugin that may reject or delay the pod before binding."""

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Wait:
        """Return Success, a rejection, or Wait to delay binding until the plugin allows or rejects the pod.

        The plugin finds the waiting pod in `Handle.waiting_pods`.
        """


@runtime_checkable
class PreBind(Plugin, Protocol):
    """A plugin with work that must be done before the pod is bound."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Pending:
        """Do the plugin's work before binding; return the verdict, or Pending if the work continues in the background.

        It runs in one of few binding threads, so work that takes long must return Pending.
        """


@runtime_checkable
class PreBindPreFlight(Plugin, Protocol):
    """A PreBind plugin that reports beforehand whether it has work to do.

    Other PreBind plugins count as having work.
    """

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Return Skip if the plugin has nothing to do at PreBind, else Success.

        If a plugin has work to do, the scheduler first writes the nominated node into the pod's status.
        """


@runtime_checkable
class Bind(Plugin, Protocol):
    """A plugin that binds the pod to the node."""

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Deferred:
        """Bind the pod to `node`, in a binding thread, and return the verdict.

        Skip leaves the pod to the next Bind plugin. Deferred means that the binding is done asynchronously.
        """


@runtime_checkable
class BindAtOnce(Bind, Protocol):
    """A Bind plugin that does not block, because it returns Deferred.

    If `binds_at_once` is True, it may run in the thread of the scheduling loop.
    """

    binds_at_once: bool


@runtime_checkable
class PostBind(Plugin, Protocol):
    """A plugin that is notified after a pod was bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Do the plugin's work after the pod was bound to `node`, in a binding thread."""


@runtime_checkable
class PlacementGenerate(Plugin, Protocol):
    """A plugin that generates the sets of nodes in which a pod group may be placed. A profile has at most one."""

    def generate_placements(
        self, group: PodGroupKey, parent: GroupPlacement, nodes: NodeColumns
    ) -> Sequence[GroupPlacement] | Verdict:
        """Return placements of nodes in `parent`, in the order in which they are tried, or a rejection or error."""


@runtime_checkable
class PlacementScore(Plugin, Protocol):
    """A plugin that scores the placements in which a pod group can be scheduled, if there are several."""

    def score_placement(self, group: PodGroupKey, proposed: ProposedPlacement) -> int:
        """Return the raw score of a placement."""

    def normalize_placements(self, raw: Sequence[int]) -> Sequence[int]:
        """Return the scores of all placements, from 0 to MAX_NODE_SCORE."""


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
    "placementGenerate": PlacementGenerate,
    "placementScore": PlacementScore,
}
