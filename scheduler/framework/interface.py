"""The extension points, as plugins implement them.

A plugin is an object with a `name` and the methods of the points it extends; the runtime finds them by these protocols.
Nodes come as columns: a filter returns one verdict a slot, a score plugin one int64 a slot. What a plugin says of a
slot without a node (`nodes.live` False) is ignored.

Source of the points and their meaning: k8s.io/kube-scheduler/framework v1.36 (interface.go).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import Verdict
from scheduler.columns import Copy, NodeColumns
from scheduler.formulas.inputs import Inputs
from scheduler.framework.events import ClusterEventWithHint
from scheduler.framework.extender import Agreement, Victims
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Deferred, Pending, PostFilterResult, PreFilterResult, Verdicts, Wait
from scheduler.objects.pod import PodInfo

Scores = NDArray[np.int64]
Mask = NDArray[np.bool_]

MAX_NODE_SCORE = 100


class Plugin(Protocol):
    """Anything that extends a point."""

    @property
    def name(self) -> str:
        """The plugin's name, as configurations and records write it."""


@runtime_checkable
class Prepare(Plugin, Protocol):
    """Keeps something about the cluster from cycle to cycle. No extension point of kube-scheduler."""

    def prepare(self, nodes: NodeColumns) -> None:
        """Build it now: the cluster was read, and the first cycle shall be no slower than the next."""


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """Says what may change its mind about a pod that it rejected. Without it everything may."""

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        """Asked once, when the profile is built."""


@runtime_checkable
class PreEnqueue(Plugin, Protocol):
    """May hold a pod back before it enters the active queue."""

    def pre_enqueue(self, pod: PodInfo) -> Verdict:
        """Success lets it in; anything else keeps it out."""


@runtime_checkable
class QueueSort(Plugin, Protocol):
    """Orders the active queue."""

    def sort_key(self, pod: PodInfo, queued_s: float) -> Any:
        """Smaller is scheduled earlier. `queued_s`: when the pod was last put into a queue, monotonic."""


@runtime_checkable
class PreFilter(Plugin, Protocol):
    """Looks at the pod and the cluster once, before any node."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> PreFilterResult:
        """Success, Skip (this plugin's Filter is not run), or a rejection of the pod as a whole."""


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    """Keeps a PreFilter's notes right while pods are tried on, or off, a node (preemption, nominated pods)."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """`added` now counts on the node in `slot` of `nodes`, which need not be the columns that PreFilter saw."""

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeColumns, slot: int) -> None:
        """`removed` no longer counts on it."""


@runtime_checkable
class Filter(Plugin, Protocol):
    """Says of every node whether the pod may run there."""

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """One verdict a slot of `nodes`, which need not be the columns that PreFilter saw: keep notes by value."""


class DryRun(Protocol):
    """Lets a PostFilter plugin ask: would the pod fit if?"""

    @property
    def together(self) -> bool:
        """Whether several nodes may be tried on at once, in one copy of theirs."""

    def follows(self, pod: PodInfo, nodes: NodeColumns) -> tuple[Hashable, Set[int]] | None:
        """What answers follow from beside the pod's spec and a node's row, to compare; and of which slots from more.

        None where they follow from more for every slot.
        """

    def first_failures(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Each slot's first verdict that is not Success, or Success, by all filters that PreFilter did not skip."""

    def add_pods(self, state: CycleState, pod: PodInfo, added: Sequence[tuple[int, PodInfo]], nodes: Copy) -> None:
        """Count pods on slots of `nodes` and in the plugins' notes."""

    def remove_pods(self, state: CycleState, pod: PodInfo, removed: Sequence[tuple[int, PodInfo]], nodes: Copy) -> None:
        """Stop counting them."""

    def agreement(self, pod: PodInfo, nodes: NodeColumns, candidates: Sequence[Victims]) -> Agreement:
        """What the extenders leave of the candidates. ExtenderError where one fails that may not."""


@runtime_checkable
class PostFilter(Plugin, Protocol):
    """Runs when no node was left."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, codes: NDArray[np.uint8], dry_run: DryRun
    ) -> PostFilterResult:
        """`codes`: each slot's first failing code, `ABSENT_CODE` where its node was not evaluated."""


@runtime_checkable
class PreScore(Plugin, Protocol):
    """Looks at the feasible nodes once, before they are scored."""

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Success, or Skip: the plugin gives no points for this pod. Reasons with either are a mark in the record."""


@runtime_checkable
class Score(Plugin, Protocol):
    """Gives every feasible node points."""

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Raw points a slot; only feasible slots count."""


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    """Brings a score plugin's raw points to 0..100. Without it raw points must be in that range already."""

    def normalize(self, state: CycleState, pod: PodInfo, raw: Scores, feasible: Mask) -> Scores:
        """Points from 0 to `MAX_NODE_SCORE` a slot; only feasible slots count."""


@runtime_checkable
class TellsInputs(Plugin, Protocol):
    """Says by which numbers its Filter and Score decided. No extension point of kube-scheduler."""

    def inputs(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Iterable[Inputs]:
        """One for each source, with an entry a slot: those that Filter or Score saw in this cycle.

        Asked once, after both. It changes no outcome: where it raises, the record says so.
        """


@runtime_checkable
class Reserve(Plugin, Protocol):
    """Keeps something for the pod on the chosen node."""

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Anything but Success undoes the reservation of every plugin, in reverse order."""

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Give back what was kept. Must not fail, and may be called without a reservation."""


@runtime_checkable
class Permit(Plugin, Protocol):
    """The last say before binding."""

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Wait:
        """Success, a rejection, or Wait: until the plugin allows or rejects the pod (`Handle.waiting_pods`)."""


@runtime_checkable
class PreBind(Plugin, Protocol):
    """What must be done before the pod is bound."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Pending:
        """Runs in a binding thread, of which there are few: what takes long is Pending."""


@runtime_checkable
class PreBindPreFlight(Plugin, Protocol):
    """Says whether PreBind will have anything to do. Of a plugin without it, it will."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> Verdict:
        """Success, or Skip: nothing to do. Where something is, the pod's status names the node before it is bound."""


@runtime_checkable
class Bind(Plugin, Protocol):
    """Binds the pod to the node."""

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Verdict | Deferred:
        """Runs in a binding thread. Skip leaves it to the next Bind plugin; what is Deferred is taken."""


@runtime_checkable
class BindAtOnce(Bind, Protocol):
    """A Bind plugin that never waits: what it does is Deferred. It may run in the loop's thread."""

    binds_at_once: bool


@runtime_checkable
class PostBind(Plugin, Protocol):
    """Is told of a bound pod."""

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Runs in a binding thread."""


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
