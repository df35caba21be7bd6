"""The allocator: an exhaustive depth-first search for devices that satisfy all claims of a pod on one node.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go v1.36. Where
`AllocatorFeatures.is_stable`, it differs as stable/allocator_stable.go does. It tries devices in the same order and
keeps the same state between candidates, also where that state is wrong: counters that a rejected device consumed stay
consumed, and counters are known by the name of the pool without its driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from herodotus_record.reasons import CATALOGUE
from scheduler.engine.dra import capacity, results
from scheduler.engine.dra.allocated import AllocatedDevices, ConsumedCapacity, add_capacity, remove_capacity
from scheduler.engine.dra.constraints import AttributeConstraint, build_constraint
from scheduler.engine.dra.features import DEFAULT_FEATURES, AllocatorFeatures
from scheduler.engine.dra.pools import Counters, DeviceId, Pool, SliceCatalog, SlicedDevice
from scheduler.engine.dra.requests import AllocatableRequest, AllocationError, Classes, Matcher, list_alternatives
from scheduler.engine.dra.results import ChosenDevice
from scheduler.engine.objects.resource_api import (
    MAX_RESULTS,
    AllocationResult,
    DeviceRequest,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
)
from scheduler.engine.objects.types import Node

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
MAX_SIZE: Final = "allocation max size exceeded"

# Why the search passes over a device.
IN_USE, NOT_SELECTED, NO_CAPACITY, NO_COUNTER, TAINTED, CONSTRAINED = (
    "in-use",
    "selector",
    "capacity",
    "counter",
    "taint",
    "constraint",
)


class InvalidPoolError(Exception):
    """The error of a node where no devices were found and one of its pools is invalid."""

    def __init__(self) -> None:
        super().__init__(CATALOGUE["invalid-pools"])


class _TooManyDevicesError(Exception):
    """The claim would get more devices than a result may hold; other subrequests may need fewer."""


class SearchPosition(NamedTuple):
    """A place in the search: the indices of the claim, its request, the subrequest, and the request's device."""

    claim: int = 0
    request: int = 0
    subrequest: int = 0
    device: int = 0


class Allocator:
    """The search for devices for claims, on one node after the other, during one scheduling attempt.

    Keeps the available counters of each pool from the first node on, as upstream does.
    """

    def __init__(
        self,
        allocated: AllocatedDevices,
        classes: Classes,
        slices: SliceCatalog,
        matches: Matcher,
        features: AllocatorFeatures = DEFAULT_FEATURES,
    ) -> None:
        self.features = features
        self.allocated = allocated
        self.classes = classes
        self.slices = slices
        self.matches = matches
        self._available: dict[str, Counters] = {}

    def allocate(
        self, node: Node, claims: Sequence[ResourceClaim], is_expired: Callable[[], bool] = lambda: False
    ) -> list[AllocationResult] | None:
        """Return an allocation for each claim, or None if the node does not have the devices for all of them.

        Raises InvalidPoolError if there is none and a pool of the node is invalid, AllocationError if the attempt must
        end, and TimeoutError when `is_expired` returns True.
        """
        search = _Search(self, node, claims, self.gather_pools(node), is_expired)
        if not search.run():
            if self.features.tolerates_invalid_pools and any(pool.is_invalid for pool in search.pools):
                raise InvalidPoolError
            return None
        return [
            results.build_allocation(
                claim, chosen, [search.chosen_request(c, r) for r in range(len(requests))], node, self.features
            )
            for c, (claim, chosen, requests) in enumerate(zip(claims, search.chosen, search.requests, strict=True))
        ]

    def gather_pools(self, node: Node) -> list[Pool]:
        """Return the pools with devices or counters for the node, in the order in which the search tries them."""
        features = self.features
        return self.slices.gather_pools(
            node, partitions=features.partitionable_devices, completes=features.completes_pools
        )

    def is_in_use(self, device: DeviceId) -> bool:
        """Return whether an allocated claim uses the device exclusively.

        Without the feature of consumable capacity, a claim that shares the device counts too.
        """
        allocated = self.allocated
        return device in allocated.whole or (not self.features.consumable_capacity and device in allocated.shared)

    def available_counters(self, pool: Pool) -> Counters:
        """Return the pool's counters minus what its allocated devices consume.

        The result is cached by the name of the pool, without its driver, at the first call in the attempt.
        """
        available = self._available.get(pool.name)
        if available is None:
            available = {name: dict(counters) for name, counters in pool.counters.items()}
            for device in (*pool.devices, *pool.others):
                if device.consumes and self.allocated.is_allocated(device.id):
                    _subtract(available, device)
            self._available[pool.name] = available
        return available


class _Search:
    """The search on one node. Invariant: what a device took is returned in the reverse order."""

    def __init__(
        self,
        allocator: Allocator,
        node: Node,
        claims: Sequence[ResourceClaim],
        pools: Sequence[Pool],
        is_expired: Callable[[], bool],
    ) -> None:
        self.pools = pools
        self.chosen: list[list[ChosenDevice]] = [[] for _ in claims]
        self._allocator = allocator
        self._node = node
        self._is_expired = is_expired
        self._consumed: dict[str, Counters] = {}
        self._allocating: dict[DeviceId, set[int]] = {}
        self._allocating_capacity: dict[DeviceId, ConsumedCapacity] = {}
        # claim -> request -> alternatives
        self.requests: list[list[list[AllocatableRequest]]] = []
        self._constraints: list[list[AttributeConstraint]] = []
        self._selected: dict[tuple[int, int], int] = {}
        for claim in claims:
            self.requests.append(self._prepare_requests(claim))
            self._constraints.append(_build_constraints(claim, allocator.features))

    def _prepare_requests(self, claim: ResourceClaim) -> list[list[AllocatableRequest]]:
        allocator, least, prepared = self._allocator, 0, []
        for request in claim.spec.devices.requests or ():
            _check_supported(claim, request, allocator.features)
            alternatives = list_alternatives(claim, request)
            first = alternatives[:2]
            if not allocator.features.keeps_alternative and all(each.takes_all for each in first):
                first[-1].share_selection(first[0])
            for each in alternatives:
                each.prepare(self._node, self.pools, allocator)
            least += min(each.count for each in alternatives)
            prepared.append(alternatives)
        if least > MAX_RESULTS:
            raise AllocationError(
                f"claim {claim.full_name}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            )
        return prepared

    def chosen_request(self, claim: int, request: int) -> AllocatableRequest:
        """Return the request with these indices, or the subrequest that the search chose for it."""
        return self.requests[claim][request][self._selected.get((claim, request), 0)]

    def run(self) -> bool:
        """Choose devices for all claims; return whether that succeeds. Raises AllocationError and TimeoutError."""
        if self._lacks_devices():
            return False
        try:
            return self._allocate_claim(0)
        except _TooManyDevicesError:
            raise AllocationError(MAX_SIZE) from None

    def _lacks_devices(self) -> bool:
        """Return whether the first request of the first claim alone needs more devices than are usable.

        This ends a search early that would fail only after it tried all combinations of these devices.
        """
        if not self.requests or not self.requests[0] or len(self.requests[0][0]) > 1:
            return False
        if not self._allocator.features.tolerates_invalid_pools and any(pool.is_invalid for pool in self.pools):
            return False  # the search may end with the error of that pool
        request, at, missing = self.requests[0][0][0], SearchPosition(), self.requests[0][0][0].count
        if request.takes_all or missing > MAX_RESULTS:
            return False
        for pool in self.pools:
            for device in pool.devices:
                missing -= self._check(at, request, device) is None
                if missing <= 0:
                    return False
        return missing > 0

    def _allocate_claim(self, claim: int) -> bool:
        return claim >= len(self.requests) or self._allocate_request(claim, 0)

    def _allocate_request(self, claim: int, request: int) -> bool:
        """Choose devices for this request and all later ones, also of later claims; return whether that succeeds.

        Raises TimeoutError, AllocationError, and _TooManyDevicesError if the claim would get too many devices.
        """
        if self._is_expired():
            raise TimeoutError
        requests = self.requests[claim]
        if request >= len(requests):
            try:
                return self._allocate_claim(claim + 1)
            except _TooManyDevicesError:  # an earlier claim may leave devices for a smaller subrequest
                return False
        alternatives = requests[request]
        if not alternatives[0].parent:
            return self._allocate_device(SearchPosition(claim, request))
        too_many = True
        for number in range(len(alternatives)):
            try:
                if self._allocate_device(SearchPosition(claim, request, number)):
                    self._selected[claim, request] = number
                    return True
                too_many = False
            except _TooManyDevicesError:
                continue
        if too_many:
            raise _TooManyDevicesError
        return False

    def _allocate_device(self, at: SearchPosition, pool_start: int = 0, device_start: int = 0) -> bool:
        """Choose device number `at.device` of the request and all later devices; return whether that succeeds.

        Only devices from `device_start` of the pool `pool_start` on are tried, so that each combination of devices is
        tried in one order only.
        """
        request = self.requests[at.claim][at.request][at.subrequest]
        if request.takes_all and not request.every:
            return False
        if at.device >= request.count:
            return self._allocate_request(at.claim, at.request + 1)
        if self._is_expired():
            raise TimeoutError
        if len(self.chosen[at.claim]) + request.count - at.device > MAX_RESULTS:
            raise _TooManyDevicesError
        if request.takes_all:
            pool, device = request.every[at.device]
            return self._take(at, request, pool, device, must=True) is None and self._continue(
                at, request, pool, device, (0, 0)
            )
        for pool_index in range(pool_start, len(self.pools)):
            pool = self.pools[pool_index]
            if pool.is_invalid and not self._allocator.features.tolerates_invalid_pools:
                raise AllocationError(f"pool {pool.name} is invalid: {pool.invalid_reason}")
            first = device_start if pool_index == pool_start else 0
            for device_index in range(first, len(pool.devices)):
                device = pool.devices[device_index]
                stopper = self._check(at, request, device) or self._take(at, request, pool, device, must=False)
                if stopper is None and self._continue(at, request, pool, device, (pool_index, device_index + 1)):
                    return True
        return False

    def _continue(
        self, at: SearchPosition, request: AllocatableRequest, pool: Pool, device: SlicedDevice, start: tuple[int, int]
    ) -> bool:
        """Choose the devices after `device`, from the indices `start` (pool, device) on; return whether that succeeds.

        If it fails, `device` is released (`_return`).
        """
        subrequest = at.subrequest if self._allocator.features.keeps_alternative or not request.takes_all else 0
        try:
            done = self._allocate_device(SearchPosition(at.claim, at.request, subrequest, at.device + 1), *start)
        except _TooManyDevicesError:
            self._return(at, request, pool, device)
            raise
        if not done:
            self._return(at, request, pool, device)
        return done

    def _check(self, at: SearchPosition, request: AllocatableRequest, device: SlicedDevice) -> str | None:
        """Return the reason why the device cannot be allocated, or None, without changing the state of the search.

        Counters, taints and constraints are checked by `_take` only.
        """
        if request.admin_access:
            if at.claim in self._allocating.get(device.id, ()):
                return IN_USE
        elif self._is_in_use(device.id):
            return IN_USE
        if not request.selects(device, self._node, self._allocator):
            return NOT_SELECTED
        return None if self._has_capacity(request, device) else NO_CAPACITY

    def _take(
        self, at: SearchPosition, request: AllocatableRequest, pool: Pool, device: SlicedDevice, *, must: bool
    ) -> str | None:
        """Allocate the device to the request and return None, or return the reason why that is not possible.

        With `must`, for a request that takes all devices, raises AllocationError if a constraint forbids the device.
        """
        features = self._allocator.features
        shared = features.consumable_capacity and bool(device.device.allow_multiple_allocations)
        if request.admin_access:
            if not shared and at.claim in self._allocating.get(device.id, ()):
                return IN_USE
        elif self._is_in_use(device.id):
            return IN_USE
        if device.consumes and not features.partitionable_devices:
            return NO_COUNTER
        if device.consumes and not (shared and self._is_capacity_in_use(device.id)) and not self._consume(pool, device):
            return NO_COUNTER
        if find_taint(device, request.spec.tolerations, features) is not None:
            return TAINTED
        constraints = self._constraints[at.claim]
        for i, constraint in enumerate(constraints):
            if not constraint.add(request.base_name, request.subrequest, device):
                if must:
                    name = "/".join(device.id)
                    unsatisfied = "because a claim constraint would not be satisfied"
                    raise AllocationError(f"{request.describe()}: cannot add device {name} {unsatisfied}")
                for added in constraints[:i]:
                    added.remove(request.base_name, request.subrequest)
                return CONSTRAINED
        if not shared:
            self._allocating.setdefault(device.id, set()).add(at.claim)
        if not self._has_capacity(request, device):
            return NO_CAPACITY
        fractions = features.fractional_capacity
        consumed = capacity.consume(request.spec.capacity, device.device, fractions=fractions) if shared else None
        chosen = ChosenDevice(request, device, consumed)
        if shared:
            add_capacity(self._allocating_capacity, device.id, chosen.consumed_amounts)
        self.chosen[at.claim].append(chosen)
        return None

    def _return(self, at: SearchPosition, request: AllocatableRequest, pool: Pool, device: SlicedDevice) -> None:
        """Undo `_take` for the device that was allocated last."""
        for constraint in self._constraints[at.claim]:
            constraint.remove(request.base_name, request.subrequest)
        self._allocating.get(device.id, set()).discard(at.claim)
        chosen = self.chosen[at.claim].pop()
        if chosen.consumed is None:
            if device.consumes:
                _subtract(self._consumed[pool.name], device)
        elif chosen.consumed:
            remove_capacity(self._allocating_capacity, device.id, chosen.consumed_amounts)

    def _consume(self, pool: Pool, device: SlicedDevice) -> bool:
        """Count what the device consumes of the pool's counters; if too little is left, undo that and return False."""
        available = self._allocator.available_counters(pool)
        consumed = self._consumed.setdefault(pool.name, {})
        for counter_set, amounts in device.consumes:
            counters = consumed.setdefault(counter_set, {})
            for name, amount in amounts.items():
                counters[name] = counters.get(name, 0) + amount
        for counter_set, counters in available.items():
            taken: Mapping[str, int] = consumed.get(counter_set, {})
            if any(amount < taken.get(name, 0) for name, amount in counters.items()):
                _subtract(consumed, device)
                return False
        return True

    def _has_capacity(self, request: AllocatableRequest, device: SlicedDevice) -> bool:
        if not self._allocator.features.consumable_capacity:
            return True
        if not device.device.capacity and request.spec.capacity is None:
            return True
        used = dict(self._allocator.allocated.consumed.get(device.id, {}))
        for name, amount in self._allocating_capacity.get(device.id, {}).items():
            used[name] = used.get(name, 0) + amount
        fractions = self._allocator.features.fractional_capacity
        return capacity.fits(request.spec.capacity, device.device, used, fractions=fractions)

    def _is_in_use(self, device: DeviceId) -> bool:
        return self._allocator.is_in_use(device) or bool(self._allocating.get(device))

    def _is_capacity_in_use(self, device: DeviceId) -> bool:
        return device in self._allocator.allocated.consumed or device in self._allocating_capacity


def _check_supported(claim: ResourceClaim, request: DeviceRequest, features: AllocatorFeatures) -> None:
    """Raise AllocationError for a request with subrequests or for capacity if that feature is disabled."""
    if request.first_available and not features.prioritized_list:
        raise AllocationError(
            f"claim {claim.full_name}, request {request.name}: "
            "has subrequests, but the DRAPrioritizedList feature is disabled"
        )
    if features.consumable_capacity or features.is_stable:
        return
    asks = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    if request.exactly is not None and request.exactly.capacity is not None:
        raise AllocationError(f"claim {claim.full_name}, request {request.name}: {asks}")
    for sub in request.first_available or ():
        if sub.capacity is not None:
            raise AllocationError(f"claim {claim.full_name}, subrequest {sub.name}: {asks}")


def _build_constraints(claim: ResourceClaim, features: AllocatorFeatures) -> list[AttributeConstraint]:
    constraints = []
    for i, each in enumerate(claim.spec.devices.constraints or ()):
        constraint = None if features.is_stable and each.match_attribute is None else build_constraint(each)
        if constraint is None:
            raise AllocationError(
                f"claim {claim.full_name}, constraint #{i}: empty constraint (unsupported constraint type?)"
            )
        constraints.append(constraint)
    return constraints


def find_taint(
    device: SlicedDevice, tolerations: Sequence[DeviceToleration] | None, features: AllocatorFeatures
) -> DeviceTaint | None:
    """Return the first taint of a device that prevents its allocation and is not tolerated, or None.

    Effects other than NoSchedule and NoExecute do not prevent it; neither do taints whose feature is off.
    """
    if not features.device_taints:
        return None
    taints: list[DeviceTaint] = [*(device.device.taints or ())]
    if features.device_taint_rules:
        taints += device.rule_taints
        if features.unselective_taint_rules:
            taints += device.unselective_taints
    for taint in taints:
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not any(_tolerates(t, taint) for t in tolerations or ()):
            return taint
    return None


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def _subtract(counters: Counters, device: SlicedDevice) -> None:
    """Subtract what the device consumes from `counters`, in place; counters that do not exist there are ignored."""
    for counter_set, amounts in device.consumes:
        available = counters.get(counter_set, {})
        for name, amount in amounts.items():
            if name in available:
                available[name] -= amount
