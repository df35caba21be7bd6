"""NodeResourcesFit: rejects nodes without room for the pod's requests, and scores by the configured strategy.

Source: pkg/scheduler/framework/plugins/noderesources/fit.go and its three strategies, v1.36.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from herodotus_record.model import SUCCESS, Code, Reason, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.dra.extended_resources import Backed, may_be_backed
from scheduler.engine.formulas import allocation
from scheduler.engine.framework.events import ActionType, ClusterEventWithHint, EventResource
from scheduler.engine.framework.interface import Mask, Scores
from scheduler.engine.framework.plugin import Args, BasePlugin, DependsOn, Handle, PluginInput
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.update_events import occupies_node
from scheduler.engine.framework.verdicts import PASS, Verdicts
from scheduler.engine.objects.names import validate_label_key
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.problems import Problem, forbidden, invalid, not_supported, required
from scheduler.engine.objects.request_parts import describe_parts
from scheduler.engine.objects.requests import CPU, MEMORY, PODS, STORAGE, compute_allocatable, is_extended, is_scalar
from scheduler.engine.objects.resource_api import DeviceClass
from scheduler.engine.objects.types import Node
from scheduler.engine.plugins.dynamic_resources.device_totals import DeviceTotals
from scheduler.engine.plugins.dynamic_resources.devices import ClusterDevices
from scheduler.engine.plugins.utilization_shape import ShapePoint, find_shape_problems, scale_points
from scheduler.engine.rules import Rules
from scheduler.engine.rules.feature_gates import EXTENDED_RESOURCE
from scheduler.engine.rules.version_rules import STRICT_FIT_ARGS, UNRESOLVABLE_REQUESTS


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A resource that a plugin scores, with its weight in the score. A weight of 0 means 1."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        if self.weight == 0:
            msgspec.structs.force_setattr(self, "weight", 1)


DEFAULT_RESOURCES = (ResourceSpec(CPU, 1), ResourceSpec(MEMORY, 1))


LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
_MAX_UNOFFERED: Final = 64  # nodes whose reason has the capacity; each may be a verdict of its own
_MAX_REPEATED: Final = 4096  # reasons in these verdicts, because a user may request thousands of resources
_AT_ONCE: Final = 40  # resources that are compared in one matrix; with the number of the group they fill an int64


class RatioParam(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The argument requestedToCapacityRatio: a function from utilization to score."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The argument scoringStrategy: the type of the strategy, and the weighted resources that it scores."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RatioParam | None = None

    def __post_init__(self) -> None:
        if not self.resources:
            msgspec.structs.force_setattr(self, "resources", DEFAULT_RESOURCES)


class NodeResourcesFitArgs(Args, frozen=True):
    """Arguments of NodeResourcesFit: the resources that the filter ignores, and the scoring strategy."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type=LEAST)

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for each value that kube-scheduler rejects when it creates the plugin."""
        for i, resource in enumerate(self.ignored_resources):
            path = f"ignoredResources[{i}]"
            yield from (invalid(path, resource, wrong) for wrong in validate_label_key(resource))
        for i, group in enumerate(self.ignored_resource_groups):
            path = f"ignoredResourceGroups[{i}]"
            if "/" in group:
                yield invalid(path, group, "resource group name can't contain '/'")
            yield from (invalid(path, group, wrong) for wrong in validate_label_key(group))
        yield from (problem.below("scoringStrategy") for problem in _strategy_problems(self.scoring_strategy))

    def problems_in(self, rules: Rules) -> Iterator[Problem]:
        """Yield a problem for each value that is invalid in the version of Kubernetes that `rules` describe.

        Older versions accept `requestedToCapacityRatio` beside another strategy, and check only its shape.
        """
        strategy = self.scoring_strategy
        if rules.enabled(STRICT_FIT_ARGS) or strategy.type not in (LEAST, MOST):
            yield from self.problems()
            return
        ratio = strategy.requested_to_capacity_ratio
        unused = msgspec.structs.replace(strategy, requested_to_capacity_ratio=None)
        yield from msgspec.structs.replace(self, scoring_strategy=unused).problems()
        if ratio is not None:
            path = "scoringStrategy.requestedToCapacityRatio.shape"
            yield from (problem.below(path) for problem in find_shape_problems(ratio.shape))


class _FitDeviceTotals(DeviceTotals):
    """The state that this plugin's PreScore writes."""


class NodeResourcesFit(BasePlugin):
    """The plugin that filters nodes by the pod's requests and scores them by the configured strategy.

    Scores use the non-zero requests, which have defaults for absent requests.
    """

    name = "NodeResourcesFit"
    reads = frozenset({PluginInput.NODE, PluginInput.PODS, PluginInput.OBJECTS})
    depends_on = DependsOn.AMOUNTS
    score_state = _FitDeviceTotals
    computes_pre_score = True
    discards_cache_for = (DeviceClass,)
    args_type = NodeResourcesFitArgs
    idle_at = frozenset({"preFilter"})
    fails_without: ClassVar = {
        "filter": ("preFilter", 'error reading "PreFilterNodeResourcesFit" from cycleState: not found')
    }

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._allocatable = _AllocatableCache()
        self._devices = handle.objects.derived(ClusterDevices)

    def events_to_register(self) -> Iterable[ClusterEventWithHint]:
        pods = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
        yield ClusterEventWithHint(EventResource.POD, pods, _is_schedulable_after_pod_change)
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        yield ClusterEventWithHint(EventResource.NODE, nodes, self._is_schedulable_after_node_change)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> Verdicts:
        """Reject nodes with too little free of a resource; the verdict has a reason for each such resource.

        With the rule UNRESOLVABLE_REQUESTS, the verdict is UnschedulableAndUnresolvable if a request exceeds the
        allocatable of the empty node.
        """
        backed = self._update_backed()
        wanted = {PODS: 1} | {r: q for r, q in _order_requests(pod) if q > 0 and not self._ignored(r)}
        present, nowhere, unknown = wanted, frozenset[str](), nodes.list_unknown_resources(wanted)
        if unknown:
            left_out = frozenset(unknown)
            present, nowhere = {r: q for r, q in wanted.items() if r not in left_out}, left_out.difference(backed)
        groups, shortages = _group_by_shortage(present, backed, nodes)
        if not nowhere and not any(shortages):
            return PASS
        is_unresolvable = self.rules.enabled(UNRESOLVABLE_REQUESTS)
        reasons = {r: Reason("insufficient", {"resource": r}) for r in wanted} | {PODS: Reason("too-many-pods")}

        def verdict(number: int) -> Verdict:
            """Return the verdict on the nodes with this group number; 0 is the group of slots without a node."""
            shortage = shortages[number - 1] if number else 0
            if not number or not (shortage or nowhere):
                return SUCCESS
            short = nowhere.union(resource for i, resource in enumerate(present, 1) if shortage >> i & 1)
            too_large = bool(nowhere) or shortage & 1
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if is_unresolvable and too_large else Code.UNSCHEDULABLE
            return Verdict(code, tuple(reason for resource, reason in reasons.items() if resource in short))

        return Verdicts.from_ids(np.where(nodes.live, groups + 1, 0), len(shortages) + 1, verdict)

    def explain_rejections(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, verdicts: Verdicts) -> Verdicts:
        """Return the verdicts with further parameters in the reasons for a resource of which a node has too little.

        They are the containers' parts of the request, that the node has nothing allocatable and, for an extended
        resource, the node's capacity if that exceeds its allocatable; for ephemeral storage, of which the kubelet keeps
        a part, only if nothing is allocatable.
        """
        verdicts = _mark_absent(verdicts, nodes)
        short = [{r.params["resource"] for r in v.reasons if r.code == "insufficient"} for v in verdicts.table]
        scarce = set[str]().union(*short)
        parts = describe_parts(pod.pod, scarce)
        explained = verdicts.with_parameters(
            lambda reason: {"parts": text} if (text := parts.get(reason.params.get("resource", ""), "")) else {}
        )
        capacities: dict[int, dict[str, str]] = {}
        most = min(_MAX_UNOFFERED, _MAX_REPEATED // max(len(scarce), 1))
        for resource in sorted(r for r in scarce & _list_capacities(nodes) if is_extended(r) or r == STORAGE):
            for slot, capacity in _find_unoffered(resource, nodes).items():
                is_shown = slot in capacities or len(capacities) < most
                if is_shown and resource in short[verdicts.id_at(slot)]:
                    capacities.setdefault(slot, {})[resource] = capacity
        unoffered = {slot: _with_capacities(explained.verdict_at(slot), each) for slot, each in capacities.items()}
        return explained.with_verdicts(unoffered, nodes.slots)

    def depends_only_on_spec(self, pod: PodInfo) -> bool:
        return not any(may_be_backed(name) for name in pod.requests)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Verdict:
        """Write the device classes that back scored resources into `state`, for Score; always return Success."""
        if self.rules.enabled(EXTENDED_RESOURCE):
            _FitDeviceTotals.write(
                state, self._devices, pod, (spec.name for spec in self.args.scoring_strategy.resources)
            )
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, feasible: Mask) -> Scores:
        """Return, for each node slot, the weighted mean of the scores that the strategy gives the node's resources."""
        strategy: ScoringStrategy = self.args.scoring_strategy
        requests = pod.incoming_scoring_requests
        specs = [s for s in strategy.resources if s.name in (CPU, MEMORY, STORAGE) or requests.get(s.name, 0)]
        if not specs:
            return np.zeros(nodes.slots, np.int64)
        names = [s.name for s in specs]
        allocatable = nodes.allocatable_of(names)
        requested = nodes.scoring_requested_of(names)
        totals = state.find(_FitDeviceTotals)
        if totals is not None:
            allocatable, requested = totals.fill(names, nodes, allocatable, requested)
        requested = requested + np.array([requests.get(n, 0) for n in names], np.int64)[:, None]
        scores = self._strategy()(allocatable, requested)
        mean = allocation.rounded_mean_of_positive if strategy.type == RATIO else allocation.weighted_mean
        return mean(scores, allocatable != 0, [s.weight for s in specs])

    def _is_schedulable_after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> bool:
        """Return whether the pod fits the empty node, and the node is new or has more of a requested resource."""
        requests = {r: q for r, q in pod.requests.items() if q > 0 and not self._ignored(r)} | {PODS: 1}
        has = self._allocatable.get(new)
        backed = self._update_backed()
        delegated = {r for r in requests if r in backed and not has.get(r, 0)}
        if any(amount > has.get(resource, 0) for resource, amount in requests.items() if resource not in delegated):
            return False
        had = None if old is None else self._allocatable.get(old)
        return (
            had is None or bool(delegated) or any(has.get(resource, 0) > had.get(resource, 0) for resource in requests)
        )

    def _update_backed(self) -> Backed:
        """Return the extended resources that device classes back now; none without the feature gate."""
        if not self.rules.enabled(EXTENDED_RESOURCE):
            return {}
        self._devices.update_classes()
        return self._devices.backed

    def _strategy(self) -> Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]:
        strategy: ScoringStrategy = self.args.scoring_strategy
        if strategy.type == LEAST:
            return allocation.least_allocated
        if strategy.type == MOST:
            return allocation.most_allocated
        ratio = strategy.requested_to_capacity_ratio
        shape = scale_points(ratio.shape if ratio else ())
        return partial(_by_shape, shape)

    def _ignored(self, resource: str) -> bool:
        if not is_extended(resource):
            return False
        args: NodeResourcesFitArgs = self.args
        return resource in args.ignored_resources or resource.split("/")[0] in args.ignored_resource_groups


def _mark_absent(verdicts: Verdicts, nodes: NodeColumns) -> Verdicts:
    """Return the verdicts with `allocatable` 0 in the reasons for a resource of which a node has nothing at all.

    Nodes that are full of a resource and nodes without it then have verdicts of their own. The verdicts are unchanged
    if these would have too many reasons.
    """
    short = [{r.params["resource"] for r in v.reasons if r.code == "insufficient"} for v in verdicts.table]
    scarce, ids = sorted(set[str]().union(*short)), verdicts.ids
    if not scarce or ids is None:
        return verdicts
    unknown = frozenset(nodes.list_unknown_resources(scarce))
    known = [resource for resource in scarce if resource not in unknown]
    lacking = nodes.allocatable_of(known) == 0
    groups, found = ids.astype(np.int64), [(number, unknown) for number in range(len(verdicts.table))]
    for position in np.flatnonzero(lacking.any(axis=1)).tolist():
        distinct, groups = np.unique(groups << 1 | lacking[position], return_inverse=True)
        found = [
            (number, absent | {known[position]} if pair & 1 else absent)
            for pair in distinct.tolist()
            for number, absent in (found[pair >> 1],)
        ]
        if sum(len(verdicts.table[number].reasons) for number, _ in found) > _MAX_REPEATED:
            return verdicts
    return Verdicts.from_ids(
        groups, len(found), lambda group: _with_absent(verdicts.table[found[group][0]], found[group][1])
    )


def _with_absent(verdict: Verdict, absent: frozenset[str]) -> Verdict:
    """Return the verdict with `allocatable` 0 in each reason for a resource that `absent` contains."""

    def extend(reason: Reason) -> Reason:
        is_absent = reason.code == "insufficient" and reason.params["resource"] in absent
        return Reason(reason.code, {**reason.params, "allocatable": "0"}) if is_absent else reason

    return Verdict(verdict.code, tuple(map(extend, verdict.reasons))) if verdict.reasons else verdict


def _list_capacities(nodes: NodeColumns) -> frozenset[str]:
    """Return the resources of which a node states its capacity. Users choose the names in requests, but not these."""
    return nodes.cached(
        "capacities", lambda: frozenset().union(*(n.status.capacity or () for n in nodes.nodes if n is not None))
    )


def _find_unoffered(resource: str, nodes: NodeColumns) -> Mapping[int, str]:
    """Return the capacity of a resource by node slot, for nodes that do not offer it, or not all of it if extended."""

    def find() -> dict[int, str]:
        found = {}
        for slot, node in enumerate(nodes.nodes):
            text = (node.status.capacity or {}).get(resource) if node is not None else None
            if node is not None and text and text != (node.status.allocatable or {}).get(resource, "0"):
                has = compute_allocatable({resource: text}).get(resource, 0)
                offered = compute_allocatable(node.status.allocatable).get(resource, 0)
                if has > offered and (is_extended(resource) or not offered):
                    found[slot] = str(has)
        return found

    return nodes.cached(("unoffered", resource), find)


def _with_capacities(verdict: Verdict, capacities: Mapping[str, str]) -> Verdict:
    """Return the verdict with the capacity in each reason for a resource that `capacities` contains."""

    def extend(reason: Reason) -> Reason:
        capacity = capacities.get(reason.params["resource"]) if reason.code == "insufficient" else None
        return Reason(reason.code, {**reason.params, "capacity": capacity}) if capacity else reason

    return Verdict(verdict.code, tuple(map(extend, verdict.reasons)))


def _order_requests(pod: PodInfo) -> list[tuple[str, int]]:
    """Return the pod's requests as (resource, amount), in the order in which messages name them.

    The order is cpu, memory, ephemeral-storage, then scalar resources by name.
    """
    first = [(r, pod.requests.get(r, 0)) for r in (CPU, MEMORY, STORAGE)]
    return first + sorted((r, q) for r, q in pod.requests.items() if is_scalar(r))


def _group_by_shortage(
    wanted: Mapping[str, int], backed: Backed, nodes: NodeColumns
) -> tuple[NDArray[np.int64], list[int]]:
    """Group the nodes by the resources of which they have too little; return each slot's group, and a mask per group.

    In a mask, bit n (from 1 on) says that the n-th resource of `wanted` is short; the first is `pods`. Bit 0 says that
    a request other than `pods` exceeds the allocatable of the empty node.
    """
    groups, shortages = np.zeros(nodes.slots, np.int64), [0]
    for first in range(0, len(wanted), _AT_ONCE):
        names = list(islice(wanted, first, first + _AT_ONCE))
        amounts = np.array([wanted[name] for name in names], np.int64)[:, None]
        allocatable = nodes.allocatable_of(names)
        short = amounts > allocatable - nodes.requested_of(names)
        short &= nodes.live
        for resource in backed.keys() & names if backed else ():  # devices serve it where no device plugin does
            short[names.index(resource)] &= allocatable[names.index(resource)] > 0
        if not short.any():
            continue
        too_large = (short & (amounts > allocatable))[1 if first == 0 else 0 :].any(axis=0)
        bits = (groups << (_AT_ONCE + 1)) | too_large
        for i, row in enumerate(short, 1):
            bits |= row.astype(np.int64) << i
        distinct, groups = np.unique(bits, return_inverse=True)
        shortages = [
            shortages[number >> (_AT_ONCE + 1)] | number & 1 | (number % (2 << _AT_ONCE) >> 1) << (first + 1)
            for number in distinct.tolist()
        ]
    return groups, shortages


def _by_shape(
    shape: list[tuple[int, int]], allocatable: NDArray[np.int64], requested: NDArray[np.int64]
) -> NDArray[np.int64]:
    return allocation.broken_linear(shape, allocation.utilization(allocatable, requested))


def _strategy_problems(strategy: ScoringStrategy) -> Iterator[Problem]:
    ratio, path = strategy.requested_to_capacity_ratio, "requestedToCapacityRatio"
    if strategy.type not in (LEAST, MOST, RATIO):
        yield not_supported("type", strategy.type, (LEAST, MOST, RATIO))
    for i, spec in enumerate(strategy.resources):
        if not 0 < spec.weight <= 100:
            detail = f"resource weight of {spec.name} not in valid range (0, 100]"
            yield invalid(f"resources[{i}].weight", spec.weight, detail)
    if strategy.type != RATIO:
        if ratio is not None:
            yield forbidden(path, f"must be nil when type is not {RATIO}")
    elif ratio is None:
        yield required(path, f"must be specified when type is {RATIO}")
    else:
        yield from (problem.below(f"{path}.shape") for problem in find_shape_problems(ratio.shape))


def _is_schedulable_after_pod_change(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> bool:
    """Return whether a running pod freed a resource that `pod` requests, or `pod` itself changed.

    A running pod frees resources if it is deleted or scaled down.
    """
    if new is None:
        return occupies_node(old)
    if new.uid == pod.uid:
        return True
    wanted = (resource for resource, amount in pod.requests.items() if amount)
    return bool(new.pod.spec.node_name) and any(new.requests.get(r, 0) < old.requests.get(r, 0) for r in wanted)


class _AllocatableCache:
    """A cache of the allocatable of the two latest nodes.

    It suffices because an event has the same old and new node for every pending pod that is checked.
    """

    def __init__(self) -> None:
        self._last: deque[tuple[Node, dict[str, int]]] = deque(maxlen=2)

    def get(self, node: Node) -> dict[str, int]:
        for key, amounts in self._last:
            if key is node:
                return amounts
        self._last.append((node, compute_allocatable(node.status.allocatable)))
        return self._last[-1][1]
