"""What the plugin knows of the cluster's devices: slices, classes and allocations, kept up to date between cycles."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler.engine.dra.allocated import AllocatedDevices
from scheduler.engine.dra.extended_resources import map_resources
from scheduler.engine.dra.pools import PreparedSlice, SliceCatalog, SlicedDevice
from scheduler.engine.dra.requests import RUNTIME_ERROR, SelectorError
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodGroupKey, PodInfo
from scheduler.engine.objects.resource_api import (
    AllocationResult,
    DeviceAttribute,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.engine.objects.types import Object

if TYPE_CHECKING:
    from scheduler.engine.cel import CelDevice


MAX_MATCHES: Final = 64  # results of one device that are kept: 5 KiB, and a cluster may have 100,000 devices
MAX_REMOVALS: Final = 4096  # of reservations that are kept; a pod's next attempt comes soon
MAX_CHANGES: Final = 4096  # changes of nodes that are kept; a reader that is further behind reads every node


@dataclass(eq=False)
class PendingAllocation:
    """An allocation that is counted before the API server shows it.

    `name` is the one that it is counted under, `since` the revision of the claims when it was reserved. A binding
    thread sets `claim` once the claim of an extended resource is created, `is_sent` when the allocation is sent, and
    `written` once the API server has answered with a version in which the allocation is, or would have to be.
    Pods of the pod group `group` that are decided in one cycle share it: `sharers` counts them, and `lock` is held
    while one of them writes it.
    """

    claim: ResourceClaim
    allocation: AllocationResult
    name: str
    since: int
    group: PodGroupKey | None = None
    is_sent: bool = False
    written: ResourceClaim | None = None
    sharers: int = 1
    lock: threading.Lock = field(default_factory=threading.Lock)


class ReservationRemoval:
    """The removal of a pod's reservation of a claim after an attempt that failed.

    The pod's next attempt calls it off, as it would otherwise remove the reservation of that attempt.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._has_begun = self._is_called_off = False

    def run(self, remove: Callable[[], None]) -> None:
        """Call `remove`, unless the removal was called off."""
        with self._lock:
            if not self._is_called_off:
                self._has_begun = True
                remove()

    def call_off(self) -> bool:
        """Wait for the end of a removal that has begun, and return False; otherwise prevent it and return True."""
        with self._lock:
            self._is_called_off = True
            return not self._has_begun


class ClusterDevices:
    """Indexes of the device classes, resource slices with their taint rules, and allocated claims of `objects`.

    `update` brings them up to date; only what changed since the last call is read again.
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._revisions: dict[type, int] = {}
        self._prepared: dict[str, PreparedSlice] = {}
        self._allocations: dict[tuple[str, str], AllocationResult] = {}
        self._pending: dict[PendingAllocation, None] = {}  # an ordered set
        self._revision, self._everything = 0, 0
        self._changed: deque[str] = deque(maxlen=MAX_CHANGES)
        self.slices = SliceCatalog(())
        self.allocated = AllocatedDevices()
        self.classes: dict[str, DeviceClass] = {}
        self.backed: dict[str, DeviceClass] = {}
        self._removals: dict[tuple[str, str], ReservationRemoval] = {}  # by the UIDs of claim and pod, the oldest first

    def update(self) -> None:
        """Apply the changes to slices, classes and claims since the last call."""
        self.update_classes()
        if [kind for kind in (ResourceSlice, DeviceTaintRule) if self._has_changed(kind) is not None]:
            self._update_slices()
        previous = self._has_changed(ResourceClaim)
        if previous is not None:
            changed = self._objects.changed_since(ResourceClaim, previous) if previous >= 0 else None
            if changed is None:
                self.allocated, self._allocations = AllocatedDevices(), {}
                self._note_changed(None)
                changed = [(c.metadata.namespace, c.metadata.name) for c in self._objects.all(ResourceClaim)]
                for pending in self._pending:
                    self._add(pending.name, pending.allocation)
            for key in dict.fromkeys(changed):
                self._update_claim(*key)
        for pending in [each for each in self._pending if self._is_shown(each)]:
            self.remove_pending(pending)

    def _update_slices(self) -> None:
        """Read the slices that changed or to which other taint rules apply, and note their nodes as changed."""
        known, before = self._prepared, self.slices
        self._prepared = {}
        every = sorted(self._objects.all(DeviceTaintRule), key=lambda rule: rule.metadata.name)
        for obj in self._objects.all(ResourceSlice):
            rules = [rule for rule in every if rule.selects_pool(obj.spec.driver, obj.spec.pool.name)]
            prepared = known.get(obj.metadata.name)
            if prepared is None or prepared.object is not obj or prepared.rules != rules:
                prepared = PreparedSlice(obj, rules)
            self._prepared[obj.metadata.name] = prepared
        self.slices = SliceCatalog(self._prepared.values())
        for catalog, old, new in ((before, known, self._prepared), (self.slices, self._prepared, known)):
            for name, prepared in old.items():
                if new.get(name) is not prepared:
                    self._note_changed(catalog.find_node_of(prepared))

    # --- which nodes changed ----------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """A number that increases with each change that may affect which devices are available on a node."""
        return self._revision

    def list_changed_nodes(self, since: int) -> list[str] | None:
        """Return the names of the nodes whose devices or allocations changed since the revision `since`.

        A name may occur more than once. Returns None if every node may have changed.
        """
        behind = self._revision - since
        if since < self._everything or behind > len(self._changed):
            return None
        return list(islice(self._changed, len(self._changed) - behind, None))

    def _note_changed(self, node: str | None) -> None:
        """Record that the devices of a node changed, or of any node if `node` is None."""
        self._revision += 1
        self._changed.append(node or "")
        if node is None:
            self._everything = self._revision

    def _add(self, claim: str, allocation: AllocationResult | None) -> None:
        self.allocated.add(claim, allocation)
        self._note_allocation(allocation)

    def _remove(self, claim: str, allocation: AllocationResult | None) -> None:
        self.allocated.remove(claim, allocation)
        self._note_allocation(allocation)

    def _note_allocation(self, allocation: AllocationResult | None) -> None:
        results = () if allocation is None else allocation.devices.results or ()
        for device in {(result.driver, result.pool, result.device) for result in results}:
            node = self.slices.find_node(device)
            if node != "":  # a device without a pool matters to no node
                self._note_changed(node)

    # --- allocations that are being written -------------------------------------------------------------------------

    def add_pending(
        self, claim: ResourceClaim, allocation: AllocationResult, group: PodGroupKey | None = None
    ) -> PendingAllocation:
        """Count an allocation that will be written for the claim, and return it as a `PendingAllocation`.

        `group` is the pod's group if the attempt is part of the group's cycle.
        """
        pending = PendingAllocation(claim, allocation, claim.full_name, self._objects.revision_of(ResourceClaim), group)
        self._pending[pending] = None
        self._add(pending.name, allocation)
        return pending

    def begin_removal(self, claim: ResourceClaim, pod: PodInfo) -> ReservationRemoval:
        """Return a new removal of the pod's reservation of a claim, which `find_removal` returns from now on."""
        removal = self._removals[claim.metadata.uid, pod.uid] = ReservationRemoval()
        if len(self._removals) > MAX_REMOVALS:
            del self._removals[next(iter(self._removals))]
        return removal

    def find_removal(self, claim: ResourceClaim, pod: PodInfo) -> ReservationRemoval | None:
        """Return the removal of the pod's last reservation of a claim, or None."""
        return self._removals.get((claim.metadata.uid, pod.uid))

    def release_pending(self, pending: PendingAllocation) -> None:
        """Stop counting an allocation for a pod that will not be bound, unless other pods still share it.

        An allocation that was already sent counts until the cluster's objects show its result.
        """
        pending.sharers -= 1
        if pending.sharers <= 0 and not pending.is_sent:
            self.remove_pending(pending)

    def remove_pending(self, pending: PendingAllocation) -> None:
        """Stop counting an allocation that will not be written, or that the cluster's objects already show."""
        if pending in self._pending:
            del self._pending[pending]
            self._remove(pending.name, pending.allocation)

    def find_pending(self, claim: ResourceClaim) -> PendingAllocation | None:
        """Return the pending allocation of the claim, or None if it has none."""
        uid = claim.metadata.uid
        return next((each for each in self._pending if uid and each.claim.metadata.uid == uid), None)

    def _is_shown(self, pending: PendingAllocation) -> bool:
        """Return whether the cluster's objects reflect the result of writing the allocation.

        They do if they have the claim with an allocation, or a newer version without one, or if the claim was deleted.
        """
        written = pending.claim.metadata
        if not written.uid:
            return False
        shown = self._objects.get(ResourceClaim, written.name, written.namespace)
        if shown is None or shown.metadata.uid != written.uid:
            changed = self._objects.changed_since(ResourceClaim, pending.since)
            return changed is None or (written.namespace, written.name) in changed
        if shown.status.allocation is not None or pending.written is None:
            return shown.status.allocation is not None
        return int(shown.metadata.resource_version) >= int(pending.written.metadata.resource_version)

    def update_classes(self) -> None:
        """Apply the changes to device classes since the last call."""
        if self._has_changed(DeviceClass) is not None:
            classes = self._objects.all(DeviceClass)
            self.classes = {each.metadata.name: each for each in classes}
            self.backed = map_resources(classes)

    def _has_changed(self, kind: type[Object]) -> int | None:
        """Return None if objects of this kind are unchanged since the last call, else the revision at that call.

        The result is -1 at the first call. The present revision is remembered for the next call.
        """
        now, previous = self._objects.revision_of(kind), self._revisions.get(kind, -1)
        self._revisions[kind] = now
        return None if now == previous else previous

    def _update_claim(self, namespace: str, name: str) -> None:
        before = self._allocations.pop((namespace, name), None)
        claim = self._objects.get(ResourceClaim, name, namespace)
        now = claim.status.allocation if claim is not None else None
        if now is not None:
            self._allocations[namespace, name] = now
        if before is not now:
            self._remove(f"{namespace}/{name}", before)
            self._add(f"{namespace}/{name}", now)


def match_selector(expression: str, device: SlicedDevice) -> bool:
    """Return whether a CEL expression selects a device; the result is cached in the device.

    Raises SelectorError if the expression cannot be compiled or evaluated.
    """
    result = device.matches.get(expression)
    if result is None:
        if len(device.matches) >= MAX_MATCHES:
            device.matches.clear()
        result = device.matches[expression] = _evaluate(expression, device)
    if isinstance(result, str):
        raise SelectorError(result)
    return result


def _evaluate(expression: str, device: SlicedDevice) -> bool | str:
    from scheduler.engine.cel import CelError, CelRuntimeError, compile_selector  # here: few clusters have claims

    try:
        return compile_selector(expression).matches(_cel_device(device))
    except CelRuntimeError as e:
        return f"{RUNTIME_ERROR}: {e}"
    except CelError as e:
        return f"CEL compile error: {e}"


def _cel_device(device: SlicedDevice) -> CelDevice:
    """Return the device as the value `device` of CEL expressions; it is converted at the first call only."""
    from scheduler.engine.cel import CelDevice

    converted: CelDevice | None = device.converted
    if converted is None:
        attributes = {name: _drop_unset(each) for name, each in (device.device.attributes or {}).items()}
        capacity = {name: {"value": each.value} for name, each in (device.device.capacity or {}).items()}
        allows = bool(device.device.allow_multiple_allocations)
        converted = device.converted = CelDevice(device.id[0], attributes, capacity, allows)
    return converted


def _drop_unset(attribute: DeviceAttribute) -> dict[str, object]:
    return {kind: value for kind, value in msgspec.to_builtins(attribute).items() if value is not None}
