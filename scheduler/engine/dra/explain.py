"""Why a node lacks the devices for a pod's claims: the request that falls short, and what stops each device.

The search itself tries many combinations. This module instead examines each request alone, against the allocations of
other pods, and names the first one that lacks usable devices. If every request alone has enough of them, the claims
compete for the same devices or counters, or no combination satisfies the constraints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from scheduler.engine.dra import capacity
from scheduler.engine.dra.allocator import Allocator, find_taint
from scheduler.engine.dra.constraints import find_attribute
from scheduler.engine.dra.pools import DeviceId, Pool, SlicedDevice, is_device_for
from scheduler.engine.dra.requests import AllocatableRequest, AllocationError, SelectorError, list_alternatives
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.objects.types import Node

MAX_GROUPS: Final = 8  # reasons why devices do not serve a request; the others are counted
MAX_NAMES: Final = 4  # devices that a group names; the others are counted
IN_USE: Final = "in use"
MAX_EXPRESSION: Final = 100  # characters of a selector that a reason quotes
MAX_VALUES: Final = 3  # of a device, of those that a selector names
# What a selector reads of a device: the map, the domain, and the name in one of two forms.
_NAMED_VALUE: Final = re.compile(
    r"device\.(attributes|capacity)\[\s*['\"]([^'\"]+)['\"]\s*\](?:\.(\w+)|\[\s*['\"]([^'\"]+)['\"]\s*\])"
)
MAX_HOLDERS: Final = 8  # claims that are named as holders of devices


@dataclass(frozen=True)
class Shortage:
    """A request of claim number `claim` that lacks usable devices on a node.

    `devices` is how many devices the node has, `usable` how many of them the request could use. `stoppers` says in
    words what stops the others, `holders` names the claims (NAMESPACE/NAME) that use the `held` devices which the
    request could use otherwise.
    """

    claim: int
    request: str
    needed: int
    devices: int
    usable: int
    stoppers: str
    holders: tuple[str, ...] = ()
    held: int = 0


class _Stopper(NamedTuple):
    """What stops a device, in words, whether other claims could free it, and what it has of what a selector reads."""

    text: str
    is_held: bool = False
    values: str = ""


class _NodePools(NamedTuple):
    """A node and the pools whose devices it can reach."""

    node: Node
    pools: Sequence[Pool]


def find_shortage(allocator: Allocator, node: Node, claims: Sequence[ResourceClaim]) -> Shortage:
    """Return the first request with too few usable devices on a node where the allocator found no allocation.

    If every request alone has enough, the result has the last request and says what the requests compete for, or which
    constraints they have.
    """
    reached = _NodePools(node, allocator.gather_pools(node))
    needed, reachable = 0, set[DeviceId]()
    last = Shortage(0, "", 0, 0, 0, "")
    for number, claim in enumerate(claims):
        for request in claim.spec.devices.requests or ():
            shortages = [
                _examine(allocator, reached, number, each, reachable) for each in list_alternatives(claim, request)
            ]
            best = min(shortages, key=lambda shortage: (shortage.needed - shortage.usable, -shortage.held))
            if best.usable < best.needed or not best.needed:
                return best
            needed, last = needed + best.needed, best
    if needed > len(reachable):
        why = "each request alone has enough devices, but they compete for the same ones"
        last = replace(last, needed=needed, usable=len(reachable))
    else:
        why = "; ".join(_describe_constraints(claims)) or "the devices exceed what is left of shared counters together"
    return replace(last, stoppers=f"{why}; {last.stoppers}" if last.held else why)


def _examine(
    allocator: Allocator, reached: _NodePools, claim: int, request: AllocatableRequest, reachable: set[DeviceId]
) -> Shortage:
    """Count the devices that the request could use, and group the others by what prevents their use.

    The usable devices are added to `reachable`.
    """
    groups: dict[str, list[str]] = {}
    holders: dict[str, None] = {}
    devices = usable = held = 0
    request.device_class = allocator.classes.get(request.spec.device_class_name)
    for pool in reached.pools:
        if pool.is_incomplete or pool.is_invalid:
            state = "is being updated" if pool.is_incomplete else "is invalid"
            groups[f"pool {pool} {state}"] = []
        for device in pool.devices:
            devices += 1
            stopper = _find_stopper(allocator, reached.node, pool, request, device)
            if stopper is None:
                usable += 1
                reachable.add(device.id)
                continue
            shown = f" ({stopper.values})" if stopper.values else ""
            groups.setdefault(stopper.text, []).append(f"{device.device.name}{shown}")
            if stopper.is_held:
                held += 1
                allocated = allocator.allocated
                holders.update(
                    dict.fromkeys((*allocated.whole.get(device.id, ()), *allocated.shared.get(device.id, ())))
                )
    needed = devices if request.takes_all else request.spec.count
    described = [_describe(stopper, names) for stopper, names in islice(groups.items(), MAX_GROUPS)]
    if len(groups) > MAX_GROUPS:
        described.append(f"{len(groups) - MAX_GROUPS} more reasons")
    stoppers = "; ".join(described)
    stoppers = stoppers or ("the node has no more devices" if devices else "no ResourceSlice has devices for the node")
    return Shortage(
        claim,
        request.full_name,
        max(needed, 1),
        devices,
        usable,
        stoppers,
        tuple(sorted(holders)[:MAX_HOLDERS]),
        held,
    )


def _find_stopper(
    allocator: Allocator, node: Node, pool: Pool, request: AllocatableRequest, device: SlicedDevice
) -> _Stopper | None:
    """Return the first reason why the device cannot serve the request, or None if there is none."""
    if device.slice.spec.per_device_node_selection and not is_device_for(device.device, node):
        return _Stopper("for other nodes")
    features = allocator.features
    if device.device.binding_conditions and not features.binding_conditions:
        return _Stopper("has binding conditions, whose feature gate is off")
    unselected = _find_selector(allocator, request, device)
    if unselected is not None:
        return unselected
    if not request.admin_access and allocator.is_in_use(device.id):
        return _Stopper(IN_USE, is_held=True)
    if device.consumes and not features.partitionable_devices:
        return _Stopper("consumes counters, whose feature gate is off")
    taint = find_taint(device, request.spec.tolerations, features)
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        return _Stopper(f"taint {taint.key}{value}:{taint.effect}")
    if features.consumable_capacity:
        consumed, fractions = allocator.allocated.consumed.get(device.id, {}), features.fractional_capacity
        short = capacity.find_shortfall(request.spec.capacity, device.device, consumed, fractions=fractions)
        if short is not None:
            alone = capacity.fits(request.spec.capacity, device.device, {}, fractions=fractions)
            return _Stopper(short.describe(), is_held=alone)
    available = allocator.available_counters(pool)
    for counter_set, amounts in device.consumes:
        for name, amount in amounts.items():
            if available.get(counter_set, {}).get(name, 0) < amount:
                return _Stopper(f"counter {counter_set}/{name} exhausted")
    for constraint in request.claim.spec.devices.constraints or ():
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        names = constraint.requests or ()
        if (not names or request.base_name in names or request.full_name in names) and (
            find_attribute(device, attribute) is None
        ):
            return _Stopper(f"lacks attribute {attribute}")
    return None


def _find_selector(allocator: Allocator, request: AllocatableRequest, device: SlicedDevice) -> _Stopper | None:
    """Return the first selector of the class or the request that is false or fails for the device, or None."""
    owners = [("the request", request.spec.selectors)]
    if request.device_class is not None:
        owners.insert(0, (f"class {request.device_class.metadata.name}", request.device_class.spec.selectors))
    for owner, selectors in owners:
        for i, selector in enumerate(selectors or ()):
            expression = selector.cel.expression if selector.cel is not None else ""
            try:
                if not allocator.matches(expression, device):
                    values = ", ".join(_list_values(expression, device))
                    return _Stopper(f"selector #{i} of {owner} is false ({_shorten(expression)})", values=values)
            except (SelectorError, AllocationError) as e:
                return _Stopper(f"selector #{i} of {owner}: {e}")
    return None


def _list_values(expression: str, device: SlicedDevice) -> list[str]:
    """Return what a device has of the attributes and capacities that a CEL expression names: at most MAX_VALUES."""
    texts = dict[str, None]()
    for field, domain, *names in _NAMED_VALUE.findall(expression):
        name = "".join(names)
        read = _read_attribute if field == "attributes" else _read_capacity
        value = read(device, domain, name)
        texts[f"{name} is {value}" if value is not None else f"no {name}"] = None
    return list(texts)[:MAX_VALUES]


def _read_attribute(device: SlicedDevice, domain: str, name: str) -> str | int | None:
    found = find_attribute(device, f"{domain}/{name}")
    if found is None:
        return None
    given = (found.string_value, found.version_value, found.int_value, found.bool_value)
    return next((value for value in given if value is not None), None)


def _read_capacity(device: SlicedDevice, domain: str, name: str) -> str | int | float | None:
    capacities = device.device.capacity or {}
    found = capacities.get(f"{domain}/{name}") or (capacities.get(name) if domain == device.id[0] else None)
    return found.value if found else None


def _shorten(expression: str) -> str:
    """Return a CEL expression on one line, cut to MAX_EXPRESSION characters."""
    line = " ".join(expression.split())
    return line if len(line) <= MAX_EXPRESSION else f"{line[: MAX_EXPRESSION - 1]}…"


def _describe(stopper: str, names: Sequence[str]) -> str:
    if not names:
        return stopper
    shown = ", ".join(names[:MAX_NAMES])
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{stopper}: {shown}{more}"


def _describe_constraints(claims: Sequence[ResourceClaim]) -> Iterator[str]:
    for claim in claims:
        for constraint in claim.spec.devices.constraints or ():
            if constraint.match_attribute is not None:
                yield f"no combination has one value of {constraint.match_attribute}"
            elif constraint.distinct_attribute is not None:
                yield f"no combination has distinct values of {constraint.distinct_attribute}"
