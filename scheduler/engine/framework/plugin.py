"""What a plugin is built from: its arguments, its handle to the scheduler, and its declared dependencies.

A plugin is a class with a `name`, an `args_type` (a frozen struct in the plugin's file), and the methods of the
extension points that it extends (`interface`). Each profile that enables a plugin constructs it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.waiting import WaitingPod, WaitingPods
from scheduler.engine.framework.writes import Writes
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.engine.objects.problems import Problem, forbidden, invalid
from scheduler.engine.objects.types import Node, Object
from scheduler.engine.rules import DEFAULT_RULES, Rules


@dataclass(frozen=True)
class MetricAnswer:
    """The result of a metrics query: `values` maps each value of one label, such as a node name, to a number.

    `received_s` is when the values arrived, in monotonic seconds; None before the first response. `evaluated_s` is when
    the server evaluated the query, in seconds since 1970; None if it returned no series. `error` says why the last
    request failed.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    received_s: float | None = None
    evaluated_s: float | None = None
    error: str = ""


class MetricQuery(Protocol):
    """A query to a metrics server that is repeated in the background."""

    def latest(self) -> MetricAnswer:
        """Return the newest result without waiting, however old it is."""


class Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base class of plugin arguments, which are camelCase in configuration files. Unknown keys are errors.

    `api_version` and `kind` are accepted, as in kube-scheduler, and ignored.
    """

    api_version: str = ""
    kind: str = ""

    def problems(self) -> Iterable[Problem]:
        """Return a problem for each invalid value, in kube-scheduler's order; field paths are relative to `args`."""
        return ()

    def problems_in(self, rules: Rules) -> Iterable[Problem]:
        """Return a problem for each value that is invalid in the version of Kubernetes that `rules` describe.

        The default is `problems`, for all versions. A plugin whose validation differs by version overrides it.
        """
        return self.problems()


class NoArgs(Args, frozen=True):
    """The arguments of a plugin that has none."""


@dataclass(frozen=True)
class GatedArgument:
    """An argument of a plugin that may only be set while all of `gates` are on; `detail` is the error otherwise.

    kube-scheduler's error calls the argument forbidden, or with `is_value_invalid` its value invalid.
    """

    gates: tuple[str, ...]
    detail: str
    is_value_invalid: bool = False

    def is_allowed(self, rules: Rules) -> bool:
        """Return whether a configuration may set the argument with these feature gates."""
        return all(rules.enabled(gate) for gate in self.gates)

    def build_problem(self, name: str, value: object) -> Problem:
        """Return the error for a configuration that sets the argument `name` to this value."""
        return invalid(name, value, self.detail) if self.is_value_invalid else forbidden(name, self.detail)


class PodGroupStates(Protocol):
    """The members of pod groups. A pod that is assumed in the scheduling cycle of its group counts as scheduled."""

    def count_members(self, group: PodGroupKey) -> int:
        """Return the number of pods of the group, on nodes or waiting."""

    def count_scheduled(self, group: PodGroupKey) -> int:
        """Return the number of pods of the group that are bound or assumed."""

    def list_scheduled(self, group: PodGroupKey) -> list[tuple[PodInfo, str]]:
        """Return the pods of the group that are bound or assumed, each with the name of its node."""

    def find_waiting(self, group: PodGroupKey) -> list[WaitingPod]:
        """Return the pods of the group that wait on Permit."""


class Handle(Protocol):
    """The plugin's access to the scheduler: cluster objects, waiting pods, writes and metrics."""

    @property
    def objects(self) -> ClusterObjects:
        """The cluster's objects other than nodes and pods, as of the cycle's snapshot."""

    @property
    def preempts(self) -> bool:
        """Whether preemption is enabled: if False, the plugin DefaultPreemption searches for no victims."""

    @property
    def evicts(self) -> bool:
        """Whether the scheduler evicts the victims of preemption; if False, it only records them."""

    @property
    def writes(self) -> Writes:
        """The writes to the API server.

        In a dry run, in a copy of the scheduler, and before the process is the leader, methods that only report do
        nothing. Methods that bind, evict or return an object then raise RuntimeError.
        """

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that wait because a Permit plugin returned Wait.

        A plugin calls the object for a list of all of them, or `get` for one, and then allows or rejects a pod.
        """

    @property
    def pod_groups(self) -> PodGroupStates:
        """The pods of each pod group that this scheduler knows: waiting ones, and scheduled ones with their nodes."""

    def is_preempting(self, uid: str) -> bool:
        """Return whether evictions of victims for the pod with this UID are still under way."""

    def node(self, name: str) -> Node | None:
        """Return the Node object as it is now, which may be newer than the snapshot, or None if the node is unknown.

        Only the thread of the scheduling loop may call it.
        """

    def query_metrics(self, url: str, query: str, label: str, *, every_s: float, timeout_s: float) -> MetricQuery:
        """Return a query to the Prometheus server at `url` that is repeated in the background every `every_s` seconds.

        It starts with the first call of `latest`. The result has one number for each value of the label `label`; of
        several series with the same label value, the largest number counts.
        """


class StateData(Protocol):
    """Data that a plugin computes at PreFilter or PreScore and on which its Filter or Score results depend.

    Invariant: the data does not change after it was written, so that a later cycle can compare with it.
    """

    def changed_slots(self, previous: Any, nodes: NodeColumns) -> NDArray[np.intp] | None:
        """Return the slots of the nodes for which this data differs from `previous`, or None if every node may differ.

        `previous` is the data of an earlier pod with the same spec, but perhaps with other labels or in another
        namespace. Nodes whose own row in the columns changed need not be included.
        """


class DependsOn(Enum):
    """What the Filter and Score results of a plugin depend on, besides the pod's spec.

    A plugin that declares less than ANYTHING runs only on the nodes that changed since the last pod of the same spec.
    Such a plugin must not read `feasible`. It may read only state data that it names (`filter_state`, `score_state`) or
    that depends on the spec alone. Its normalized scores may depend only on raw scores, `feasible`, the spec and the
    Node objects.
    """

    ANYTHING = "anything"  # runs on every node in every cycle
    NODES = "nodes"  # all Node objects: runs on every node when a Node object changed
    NODE = "node"  # that Node object: runs on changed nodes when a Node object changed
    ROW = "row"  # that node's row (its object and the sums over its pods), and the state data that it names
    AMOUNTS = "amounts"  # the allocatable and requested amounts of that row; rows with equal amounts share a result


class PluginInput(Enum):
    """What a plugin reads besides the pod, with the words by which errors name it."""

    NODE = "the Node objects that are evaluated"
    ALL_NODES = "all nodes of the cluster"
    PODS = "pods on nodes"
    OBJECTS = "other objects of the cluster"
    METRICS = "metrics from Prometheus"


class BasePlugin:
    """Base class of every plugin, in-tree or out-of-tree.

    Its class attributes declare to the framework the plugin's name, its arguments and what its results depend on.
    """

    name: ClassVar[str]
    args_type: ClassVar[type[Args]] = NoArgs
    depends_on: ClassVar[DependsOn] = DependsOn.ANYTHING
    # What PreFilter, Filter, PreScore and Score read. The extender service runs a plugin only if a request contains it.
    reads: ClassVar[frozenset[PluginInput]] = frozenset(PluginInput)
    filter_state: ClassVar[type[StateData] | None] = None
    score_state: ClassVar[type[StateData] | None] = None
    # Kinds of objects on which results depend although `depends_on` does not cover them. A change of one discards all
    # cached results of the profile, so it must be rare.
    discards_cache_for: ClassVar[tuple[type[Object], ...]] = ()
    # Arguments by their names in a configuration that need feature gates.
    gated_args: ClassVar[Mapping[str, GatedArgument]] = MappingProxyType({})
    # Extension points of kube-scheduler's plugin that this one does not need; a configuration may name it there.
    idle_at: ClassVar[frozenset[str]] = frozenset()
    # Extension points at which only some versions of kube-scheduler run the plugin, with the version rule.
    rule_at: ClassVar[Mapping[str, str]] = MappingProxyType({})
    # Point -> (earlier point, error, rules): the error of kube-scheduler's plugin at the point, on every node, if the
    # profile disables it at the earlier point and the rules hold, if there are any.
    fails_without: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    # Whether Score computes the state of PreScore if the profile disables the plugin there alone.
    computes_pre_score: ClassVar[bool] = False

    # Keys of the node annotations that the plugin reads (`NodeColumns.annotation`). The cache keeps no others, reading
    # another one raises UndeclaredAnnotationError, and a change of these is a cluster event. A profile refuses a plugin
    # that declares annotations and less than DependsOn.ANYTHING, because a row does not count as changed when an
    # annotation changes.
    annotations: frozenset[str] = frozenset()

    # The feature gates of the process. A profile sets them on the plugins that it builds, after their constructor.
    rules: Rules = DEFAULT_RULES

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        """Return whether the results and state data of PreFilter and PreScore depend on the pod's spec alone.

        If so, PreFilter and PreScore run once for each spec, and their results are reused. When specs are compared,
        image volumes count in full; of other volumes, only whether there are any.
        """
        return False
