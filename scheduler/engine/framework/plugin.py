"""What a plugin is built from: its arguments, its handle to the scheduler, and its declared dependencies.

A plugin is a class with a `name`, an `args_type` (a frozen struct in the plugin's file), and the methods of the
extension points that it extends (`interface`). Each profile that enables a plugin constructs it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.metric_query import MetricQuery
from scheduler.engine.framework.waiting import WaitingPods
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.engine.objects.types import Node


class Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of all plugin arguments: camelCase in files, unknown keys are errors.

    `api_version` and `kind` are accepted, as in kube-scheduler, and ignored.
    """

    api_version: str = ""
    kind: str = ""

    def problems(self) -> Iterable[Problem]:
        """Return the invalid values, in kube-scheduler's order; paths are relative to `args`."""
        return ()


class NoArgs(Args, frozen=True):
    """The arguments of a plugin that has none."""


class Handle(Protocol):
    """The plugin's access to the scheduler: cluster objects, waiting pods, writes and metrics."""

    @property
    def objects(self) -> ClusterObjects:
        """The cluster's objects other than nodes and pods, as of the cycle's snapshot."""

    @property
    def preempts(self) -> bool:
        """Whether DefaultPreemption searches for victims."""

    @property
    def evicts(self) -> bool:
        """Whether the victims are evicted; otherwise they are only recorded."""

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that wait on Permit: call it for all of them, or `get` one, then allow or reject."""

    def is_preempting(self, uid: str) -> bool:
        """Return whether evictions for this pod are under way."""

    def node(self, name: str) -> Node | None:
        """Return the node as it is now, not as of the snapshot; None if unknown. For the loop's thread only."""

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """Bind the pod through the API server without waiting.

        `done` is called in another thread with the error, or with None.
        """

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        """Set the volume's claimRef if the volume has not changed since; return its new resource version.

        `by_controller` marks the binding as made by a controller, so that the volume controller may undo it. Raises
        the error of the request.
        """

    def query_metrics(self, url: str, query: str, label: str, *, every_s: float, timeout_s: float) -> MetricQuery:
        """Return a query to a Prometheus server that is repeated in the background from the first `latest` on.

        `label` is the key of the result; of several series with the same label value the largest counts.
        """

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        """Annotate the claim with the selected node, for dynamic provisioning; return its new resource version."""


class StateData(Protocol):
    """State data of PreFilter or PreScore that the results of Filter or Score depend on.

    Invariant: it does not change after it was written, so that a later cycle can compare with it.
    """

    def changed_slots(self, previous: Any, nodes: NodeColumns) -> NDArray[np.intp] | None:
        """Return the slots for which it differs from the state data of an earlier pod; None if any may.

        The earlier pod has the same spec, but may have other labels or another namespace. Slots whose own row
        changed need not be included.
        """


class DependsOn(Enum):
    """What the Filter and Score results of a plugin depend on, besides the pod's spec.

    A plugin that declares less than ANYTHING runs only on what changed since the last pod of the same spec. It must
    not look at `feasible`, and at no state data except that which it names and that which depends on the spec alone.
    Its normalized scores may depend only on raw scores, `feasible`, the spec and the Node objects.
    """

    ANYTHING = "anything"  # runs on every node in every cycle
    NODES = "nodes"  # all Node objects: runs on every node when a Node object changed
    NODE = "node"  # that Node object: runs on changed nodes when a Node object changed
    ROW = "row"  # that node's row (its object and the sums over its pods), and the state data that it names
    AMOUNTS = "amounts"  # the allocatable and requested amounts of that row; rows with equal amounts share a result


class BasePlugin:
    """Base of every plugin, in-tree or out-of-tree, with its declarations for the framework."""

    name: ClassVar[str]
    args_type: ClassVar[type[Args]] = NoArgs
    depends_on: ClassVar[DependsOn] = DependsOn.ANYTHING
    filter_state: ClassVar[type[StateData] | None] = None
    score_state: ClassVar[type[StateData] | None] = None
    # Extension points of kube-scheduler's plugin that this one does not need; a configuration may name it there.
    idle_at: ClassVar[frozenset[str]] = frozenset()
    # Point -> (earlier point, error): the error of kube-scheduler's plugin at the point, on every node, if the profile
    # disables it at the earlier point.
    fails_without: ClassVar[Mapping[str, tuple[str, str]]] = MappingProxyType({})

    # Keys of the node annotations that the plugin reads (`NodeColumns.annotation`). The cache keeps no others, and a
    # change of these is a cluster event. A plugin that reads annotations must declare DependsOn.ANYTHING, because a
    # row does not count as changed when an annotation changes.
    annotations: frozenset[str] = frozenset()

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        """Return whether the results and state data of PreFilter and PreScore depend on the pod's spec alone.

        They then run once for each spec. For this purpose the spec of a pod holds its image volumes, and only
        whether there are other volumes.
        """
        return False
