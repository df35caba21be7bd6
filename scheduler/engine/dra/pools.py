"""Resource slices grouped into the pools of one node.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler.engine.objects import quantity
from scheduler.engine.objects.resource_api import CounterSet, Device, DeviceTaint, DeviceTaintRule, ResourceSlice
from scheduler.engine.objects.selectors import node_matches_any_term
from scheduler.engine.objects.types import Node, NodeSelector

DeviceId = tuple[str, str, str]  # driver, pool, device
Counters = dict[str, dict[str, int]]  # counter set -> counter -> amount in 10^-9 units


class SlicedDevice:
    """A device with its slice, and what the allocator derives from both.

    `rule_taints` are the taints that DeviceTaintRules with a selector add, `unselective_taints` those of rules without
    one, which only v1.37.0 applies. `consumes` holds what the device consumes of counters.
    `matches` memoizes the results of selectors by expression: whether the expression selects the device, or the message
    of its error. `converted` is the device in the form that the evaluator of selectors reads.
    """

    __slots__ = ("consumes", "converted", "device", "id", "matches", "rule_taints", "slice", "unselective_taints")

    def __init__(self, device: Device, owner: ResourceSlice, rules: Iterable[DeviceTaintRule] = ()) -> None:
        self.device = device
        selecting = [rule for rule in rules if rule.selects_device(device.name)]
        self.rule_taints: list[DeviceTaint] = [rule.spec.taint for rule in selecting if rule.has_selector]
        self.unselective_taints: list[DeviceTaint] = [rule.spec.taint for rule in selecting if not rule.has_selector]
        self.slice = owner
        self.id: DeviceId = (owner.spec.driver, owner.spec.pool.name, device.name)
        self.consumes = [
            (c.counter_set, {name: quantity.parse(v.value) for name, v in (c.counters or {}).items()})
            for c in device.consumes_counters or ()
        ]
        self.matches: dict[str, bool | str] = {}
        self.converted: Any = None


class PreparedSlice:
    """A resource slice with its devices prepared for the allocator, and the DeviceTaintRules for its pool."""

    __slots__ = ("devices", "object", "pool_id", "rules")

    def __init__(self, obj: ResourceSlice, rules: Sequence[DeviceTaintRule] = ()) -> None:
        self.object = obj
        self.pool_id = (obj.spec.driver, obj.spec.pool.name)
        self.rules = rules
        self.devices = [SlicedDevice(device, obj, rules) for device in obj.spec.devices or ()]

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def generation(self) -> int:
        return self.object.spec.pool.generation

    @property
    def is_partitioned(self) -> bool:
        """Whether the slice has shared counters or sets `perDeviceNodeSelection`, which the feature gate switches."""
        spec = self.object.spec
        return bool(spec.shared_counters) or spec.per_device_node_selection is not None

    def is_relevant_for(self, node: Node) -> bool:
        """Return whether the slice has shared counters, which matter on every node, or has devices for this node."""
        spec = self.object.spec
        if spec.shared_counters:
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
        if spec.per_device_node_selection:
            return any(is_device_for(each.device, node) for each in self.devices)
        return False


@dataclass
class Pool:
    """A pool as one node sees it.

    The devices of an incomplete or invalid pool cannot be allocated. `devices` are those for the node, in order.
    `others` are the devices of the pool's slices that are for other nodes; they count against the counters.
    """

    driver: str
    name: str
    is_incomplete: bool = False
    invalid_reason: str = ""
    devices: list[SlicedDevice] = field(default_factory=list)
    others: list[SlicedDevice] = field(default_factory=list)
    counters: Counters = field(default_factory=dict)

    @property
    def is_invalid(self) -> bool:
        """Whether the pool's slices contradict each other."""
        return bool(self.invalid_reason)

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class _InvalidPoolError(Exception):
    """The error of a pool with contradictory slices."""


class _PoolId(NamedTuple):
    driver: str
    name: str


class SliceCatalog:
    """All resource slices of the cluster, by the node for which they are.

    `has_ambiguous_pools` is True if pools of two drivers have one name and one of them has counters. The allocator
    mixes such pools, so what it finds on a node depends on the nodes before.
    """

    def __init__(self, slices: Iterable[PreparedSlice]) -> None:
        self._all: dict[_PoolId, list[PreparedSlice]] = {}
        self._on_node: dict[str, list[PreparedSlice]] = {}
        self._shared: list[PreparedSlice] = []
        self._reached: dict[_PoolId, str | None] = {}
        # by node and the options of `gather_pools`, where no slice is for several nodes
        self._pools: dict[tuple[str, bool, bool], list[Pool]] = {}
        for each in slices:
            spec = each.object.spec
            self._all.setdefault(_PoolId(*each.pool_id), []).append(each)
            if spec.node_name and not spec.shared_counters:
                self._on_node.setdefault(spec.node_name, []).append(each)
            else:
                self._shared.append(each)

        for pool_id, pool_slices in self._all.items():
            names = {each.object.spec.node_name or "" for each in pool_slices if each.devices}
            self._reached[pool_id] = (names.pop() or None) if len(names) == 1 else None
        drivers: dict[str, set[str]] = {}
        for pool_id in self._all:
            drivers.setdefault(pool_id.name, set()).add(pool_id.driver)
        self.has_ambiguous_pools = any(
            each.object.spec.shared_counters and len(drivers[pool_id.name]) > 1
            for pool_id, pool_slices in self._all.items()
            for each in pool_slices
        )

    def find_node(self, device: DeviceId) -> str | None:
        """Return the name of the node to which the device's pool is restricted, or "" if there is no such pool.

        Returns None if the pool has devices for several nodes.
        """
        return self._reached.get(_PoolId(device[0], device[1]), "")

    def find_node_of(self, each: PreparedSlice) -> str | None:
        """Return the name of the only node whose allocation can depend on the pool of this slice, else None."""
        pool = self._all[_PoolId(*each.pool_id)]
        names = {other.object.spec.node_name or "" for other in pool}
        is_shared = len(names) > 1 or any(other.object.spec.shared_counters for other in pool)
        return None if is_shared else names.pop() or None

    def __iter__(self) -> Iterator[PreparedSlice]:
        return (each for slices in self._all.values() for each in slices)

    def gather_pools(self, node: Node, *, partitions: bool = True, completes: bool = True) -> list[Pool]:
        """Return the pools with slices for a node, in the order in which the allocator tries them.

        Pools are sorted by driver and name, those with binding conditions last. Without `partitions`, slices with
        shared counters or devices for several nodes are ignored, and counters are not checked. Without `completes`, a
        pool with slices for other nodes is incomplete. Raises InvalidSelectorError for a malformed node selector.
        """
        if self._shared:
            return self._gather_pools(node, partitions=partitions, completes=completes)
        key = (node.metadata.name, partitions, completes)
        pools = self._pools.get(key)
        if pools is None:
            pools = self._pools[key] = self._gather_pools(node, partitions=partitions, completes=completes)
        return pools

    def _gather_pools(self, node: Node, *, partitions: bool, completes: bool) -> list[Pool]:
        slices_by_pool: dict[_PoolId, list[PreparedSlice]] = {}
        for each in (*self._on_node.get(node.metadata.name, ()), *self._shared):
            if (partitions or not each.is_partitioned) and each.is_relevant_for(node):
                self._add(slices_by_pool, each)
        built = (
            self._build(pool_id, slices, partitions=partitions)
            if completes or len(slices) == slices[0].object.spec.pool.resource_slice_count
            else Pool(*pool_id, is_incomplete=True)
            for pool_id, slices in slices_by_pool.items()
        )
        pools = [pool for pool in built if pool is not None]
        return sorted(pools, key=lambda pool: (_has_binding_conditions(pool), pool.driver, pool.name))

    def _add(self, slices_by_pool: dict[_PoolId, list[PreparedSlice]], each: PreparedSlice) -> None:
        """Add a slice to its pool, where only slices of the newest generation are kept."""
        slices = slices_by_pool.setdefault(_PoolId(*each.pool_id), [])
        if slices and each.generation > slices[0].generation:
            slices.clear()
        if not slices or each.generation == slices[0].generation:
            slices.append(each)

    def _build(self, pool_id: _PoolId, slices: Sequence[PreparedSlice], *, partitions: bool) -> Pool | None:
        """Return the pool that `slices`, those for a node, form, or None if the pool has a newer generation elsewhere.

        The pool is marked as incomplete if slices are missing, and as invalid if they contradict each other.
        """
        generation, expected = slices[0].generation, slices[0].object.spec.pool.resource_slice_count
        others: list[PreparedSlice] = []
        if len(slices) != expected:
            every = self._all[pool_id]
            if any(each.generation > generation for each in every):
                return None
            every = [each for each in every if each.generation == generation]
            if len(every) != expected:
                return Pool(*pool_id, is_incomplete=True)
            names = {each.name for each in slices}
            others = [each for each in every if each.name not in names]
        ordered = sorted(slices, key=lambda each: each.name)
        devices = [device for each in ordered if not each.object.spec.shared_counters for device in each.devices]
        beside = [device for each in others for device in each.devices]
        try:
            counters = _collect_counters(ordered) if partitions else {}
            consumers = [*(d for each in ordered for d in each.devices), *beside] if partitions else []
            _check(devices, consumers, counters)
        except _InvalidPoolError as e:
            return Pool(*pool_id, invalid_reason=str(e))
        return Pool(*pool_id, devices=devices, others=beside, counters=counters)


def node_matches(node: Node, name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
    """Return whether a slice or device can be used on the node, by its nodeName, allNodes and nodeSelector fields."""
    if name:
        return node.metadata.name == name
    return bool(all_nodes) or (selector is not None and node_matches_any_term(selector.node_selector_terms or (), node))


def is_device_for(device: Device, node: Node) -> bool:
    """Return whether a device can be used on the node, by the device's own fields (`perDeviceNodeSelection`)."""
    return node_matches(node, device.node_name, device.all_nodes, device.node_selector)


def _has_binding_conditions(pool: Pool) -> bool:
    return any(each.device.binding_conditions is not None for each in pool.devices)


def _collect_counters(slices: Iterable[PreparedSlice]) -> Counters:
    counters: Counters = {}
    for counter_set in (s for each in slices for s in each.object.spec.shared_counters or ()):
        if counter_set.name in counters:
            raise _InvalidPoolError(f"duplicate counter set name {counter_set.name}")
        counters[counter_set.name] = _amounts(counter_set)
    return counters


def _amounts(counter_set: CounterSet) -> dict[str, int]:
    return {name: quantity.parse(counter.value) for name, counter in (counter_set.counters or {}).items()}


def _check(devices: Sequence[SlicedDevice], every: Iterable[SlicedDevice], counters: Counters) -> None:
    """Raise _InvalidPoolError for two devices of one name, and for a counter that does not exist."""
    names = set[str]()
    for each in devices:
        if each.device.name in names:
            raise _InvalidPoolError(f"duplicate device name {each.device.name}")
        names.add(each.device.name)
    for each in every:
        for counter_set, consumed in each.consumes:
            if counter_set not in counters or not consumed.keys() <= counters[counter_set].keys():
                raise _InvalidPoolError(f"counter set {counter_set} or one of its counters not found")
