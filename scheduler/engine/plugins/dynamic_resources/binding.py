"""Writing of a pod's allocations once its node is chosen: reserve in memory, write, wait for drivers, or undo.

`reserve` counts the chosen devices as allocated until the API server shows the allocation. `write_claims` writes the
finalizer, the allocation and the reservation of each claim in a binding thread, and creates the claim for extended
resources. `is_ready` runs in the scheduling loop's thread until drivers report their binding conditions.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go v1.36 (Reserve, PreBind, bindClaim,
Unreserve) and extendeddynamicresources.go. Claims are patched with their version; upstream replaces the object.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from herodotus_record.typed_decoding import convert
from scheduler.engine.dra.extended_resources import CLAIM_NAME
from scheduler.engine.framework.writes import ChangedMeanwhileError, Writes
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import FINALIZER, AllocationResult, ConsumerReference, ResourceClaim, to_json
from scheduler.engine.objects.times import format_seconds
from scheduler.engine.plugins.dynamic_resources import binding_conditions
from scheduler.engine.plugins.dynamic_resources.attempt import ClaimsOfAttempt, NodeAllocation
from scheduler.engine.plugins.dynamic_resources.claims import name_consumer
from scheduler.engine.plugins.dynamic_resources.devices import ClusterDevices, PendingAllocation, ReservationRemoval

MAX_TRIES: Final = 5  # of a write that conflicts with another one, as in client-go's DefaultRetry


class ClaimBindingError(Exception):
    """The error of a claim that cannot be bound, after which the pod is scheduled again."""


@dataclass
class ReservedDevices:
    """The state that Reserve writes: what each claim of the pod gets on `node`.

    `pending` maps the index of a claim to its new allocation. `written` holds the claims that were written, by index;
    the binding thread adds them one after the other. `removals` are those of the pod's last reservations, by index.
    """

    node: str
    on_node: NodeAllocation
    pending: dict[int, PendingAllocation] = field(default_factory=dict)
    written: dict[int, ResourceClaim] = field(default_factory=dict)
    removals: dict[int, ReservationRemoval] = field(default_factory=dict)


def reserve(
    devices: ClusterDevices, attempt: ClaimsOfAttempt, pod: PodInfo, node: str, *, in_pod_group_cycle: bool = False
) -> ReservedDevices:
    """Count the devices that the claims get on the node as allocated, and return the reservation.

    With `in_pod_group_cycle`, later pods of the group may share the new allocations. Raises ClaimBindingError if the
    attempt found no devices for the node.
    """
    allocation = attempt.nodes.get(node, NodeAllocation(()))
    reserved = ReservedDevices(node, allocation, dict(attempt.shared))
    for number, claim in enumerate(attempt.claims):
        if (removal := devices.find_removal(claim, pod)) is not None:
            reserved.removals[number] = removal
    for shared in attempt.shared.values():
        shared.sharers += 1
    numbers = list(attempt.to_allocate())
    if not allocation.results:
        if all(number == attempt.extended for number in numbers):
            return reserved
        for shared in attempt.shared.values():
            devices.release_pending(shared)
        raise ClaimBindingError("claim allocation not found for node")
    group = pod.pod_group if in_pod_group_cycle else None
    for number, result in zip(numbers, allocation.results, strict=True):
        if number == attempt.extended and not result.devices.results:
            continue
        reserved.pending[number] = devices.add_pending(attempt.claims[number], _with_share_ids(result), group)
    return reserved


def build_bound_claims(
    attempt: ClaimsOfAttempt, pod: PodInfo, node: str, objects: ClusterObjects
) -> list[ResourceClaim]:
    """Return the pod's claims as its binding to the node would leave them, without writing to the API server.

    A claim for extended resources is named after the pod. Claims that the pod shares with earlier pods of its group are
    those of `objects`, because the binding of such a pod has changed them since the attempt.
    """
    on_node, claims = attempt.nodes.get(node, NodeAllocation(())), []
    allocations = dict(zip(attempt.to_allocate(), map(_with_share_ids, on_node.results), strict=False))
    for number, claim in enumerate(attempt.claims):
        allocation = allocations.get(number)
        if number == attempt.extended and (allocation is None or not allocation.devices.results):
            continue
        if number in attempt.shared:
            claim = objects.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace) or claim
        if claim.metadata.name == CLAIM_NAME:
            claim = convert(_build_extended_claim(pod, on_node), ResourceClaim)
            name = f"{pod.name}-extended-resources"
            metadata = msgspec.structs.replace(claim.metadata, name=name, uid=f"{pod.uid}/{name}")
            claim = msgspec.structs.replace(claim, metadata=metadata)
        if allocation is not None:
            finalizers = [each for each in claim.metadata.finalizers or () if each != FINALIZER]
            metadata = msgspec.structs.replace(claim.metadata, finalizers=[*finalizers, FINALIZER])
            status = msgspec.structs.replace(claim.status, allocation=allocation)
            claim = msgspec.structs.replace(claim, metadata=metadata, status=status)
        if not claim.is_reserved_for(pod.uid):
            users = [*(claim.status.reserved_for or ()), name_consumer(pod)]
            claim = msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=users))
        claims.append(claim)
    return claims


def write_claims(
    writes: Writes, attempt: ClaimsOfAttempt, reserved: ReservedDevices, pod: PodInfo, *, with_timestamps: bool
) -> None:
    """Write the allocation and the reservation of each claim to the API server, and add them to `reserved.written`.

    The claim for extended resources is created. With `with_timestamps`, each allocation gets the present time, from
    which the timeout for binding conditions counts. Raises ClaimBindingError, and errors of requests.
    """
    for number, claim in enumerate(attempt.claims):
        pending = reserved.pending.get(number)
        removal = reserved.removals.get(number)
        if removal is not None and not removal.call_off():
            claim = writes.read_claim(claim)
        if attempt.is_reserved(claim, pod) or (number == attempt.extended and pending is None):
            reserved.written[number] = claim
            continue
        consumer = attempt.find_consumer(number, pod)
        if pending is not None and pending.group is not None and number != attempt.extended:
            with pending.lock:
                reserved.written[number] = _write_shared(writes, pending, consumer, with_timestamps=with_timestamps)
            continue
        if claim.metadata.name == CLAIM_NAME:
            claim = writes.create_claim(pod.namespace, _build_extended_claim(pod, reserved.on_node))
            reserved.written[number] = claim
            if pending is not None:
                pending.claim = claim
        reserved.written[number] = _write_claim(writes, claim, pending, consumer, with_timestamps=with_timestamps)
        if number == attempt.extended:
            writes.set_extended_claim(pod, _build_pod_status(reserved.written[number], reserved.on_node))


def _write_shared(
    writes: Writes, pending: PendingAllocation, consumer: ConsumerReference, *, with_timestamps: bool
) -> ResourceClaim:
    """Write an allocation that the pods of a group share, unless another of them has written it, and return the claim.

    In either case the claim is reserved for `consumer`.
    """
    if pending.written is None:
        _write_claim(writes, pending.claim, pending, consumer, with_timestamps=with_timestamps)
    elif not pending.written.is_reserved_for(consumer.uid):
        pending.written = _write_claim(writes, pending.written, None, consumer, with_timestamps=with_timestamps)
    assert pending.written is not None
    return pending.written


def _write_claim(
    writes: Writes,
    claim: ResourceClaim,
    pending: PendingAllocation | None,
    consumer: ConsumerReference,
    *,
    with_timestamps: bool,
) -> ResourceClaim:
    """Write one claim's finalizer, allocation and reservation for `consumer`; return the claim as written.

    `pending` None writes no allocation. If the claim has changed since it was read, it is read and written again, at
    most `MAX_TRIES` times. Raises ClaimBindingError if it was deleted, allocated or deallocated, or still changes.
    """
    allocation = pending.allocation if pending is not None else None
    for tries_left in reversed(range(MAX_TRIES)):
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimBindingError(f"claim {claim.full_name} got deleted in the meantime")
        if allocation is not None and claim.status.allocation is not None:
            raise ClaimBindingError(f"claim {claim.full_name} got allocated elsewhere in the meantime")
        if with_timestamps and allocation is None and claim.status.allocation is None:
            raise ClaimBindingError(f"claim {claim.full_name} got deallocated elsewhere in the meantime")
        if allocation is None and claim.is_reserved_for(consumer.uid):
            return claim  # the pod names it twice
        try:
            finalizers = claim.metadata.finalizers or []
            if allocation is not None and FINALIZER not in finalizers:
                claim = writes.patch_claim(claim, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
            status = _build_status(claim, allocation, consumer, with_timestamps=with_timestamps)
            if pending is not None:
                pending.is_sent = True
            claim = writes.patch_claim_status(claim, status)
            if pending is not None:
                pending.written = claim
            return claim
        except ChangedMeanwhileError as e:
            if not tries_left:
                raise ClaimBindingError(f"add reservation to claim {claim.full_name}: {e}") from e
            claim = writes.read_claim(claim)
    raise AssertionError("the last try returns or raises")


def is_ready(objects: ClusterObjects, reserved: ReservedDevices, timeout_s: float, now_s: float) -> bool:
    """Return whether the binding conditions of all written claims are true.

    Raises ClaimBindingError if a claim does not exist, if its driver reports a failure, or if it takes longer than
    `timeout_s` seconds. `now_s` is in seconds since 1970.
    """
    for written in reserved.written.values():
        claim = objects.get(ResourceClaim, written.metadata.name, written.metadata.namespace)
        if claim is None:
            raise ClaimBindingError(f'could not find ResourceClaim "{written.full_name}"')
        try:
            ready = binding_conditions.is_ready(claim)
        except binding_conditions.DeviceBindingError as e:
            raise ClaimBindingError(str(e)) from e
        if not ready:
            if binding_conditions.is_late(claim, timeout_s, now_s):
                raise ClaimBindingError(f"device binding timeout: claim={claim.metadata.name}")
            return False
    return True


def has_binding_conditions(reserved: ReservedDevices) -> bool:
    """Return whether a device of the pod's claims must become ready before the pod is bound."""
    allocations = (claim.status.allocation for claim in reserved.written.values())
    return any(r.binding_conditions for a in allocations if a is not None for r in a.devices.results or ())


def unreserve(
    writes: Writes,
    devices: ClusterDevices,
    attempt: ClaimsOfAttempt,
    reserved: ReservedDevices,
    pod: PodInfo,
) -> None:
    """Free the reserved devices; in other threads, remove the pod's written reservations and delete its own claim.

    The claim that is deleted is the one for extended resources. Other claims keep an allocation that was written, for
    the pod's next attempt.
    """
    for pending in reserved.pending.values():
        devices.release_pending(pending)
        if pending.is_sent and pending.written is None:
            writes.submit(lambda api, pending=pending: _settle_write(api, pending, pod), "read resourceclaim")  # type: ignore[misc]
    for number, claim in list(reserved.written.items()):
        if number == attempt.extended:
            writes.submit(lambda api, claim=claim: api.delete_claim(claim), "delete resourceclaim")  # type: ignore[misc]
        elif claim.is_reserved_for(pod.uid):  # a reservation for the group stays for its other pods
            removal = devices.begin_removal(claim, pod)
            remove = partial(_remove_reservation, claim=claim, pod=pod)
            writes.submit(lambda api, removal=removal, remove=remove: removal.run(partial(remove, api)), "unreserve")  # type: ignore[misc]


def _settle_write(writes: Writes, pending: PendingAllocation, pod: PodInfo) -> None:
    """Read a claim whose write got no response, remove the pod's reservation, and set `pending.written`.

    If the claim cannot be read, `pending.written` is its version before the write. Raises the error of the request.
    """
    claim = pending.claim
    try:
        claim = writes.read_claim(claim)
        if claim.is_reserved_for(pod.uid):
            _remove_reservation(writes, claim, pod)
    finally:
        pending.written = claim


def _remove_reservation(writes: Writes, claim: ResourceClaim, pod: PodInfo) -> None:
    for tries_left in reversed(range(MAX_TRIES)):
        others = to_json([each for each in claim.status.reserved_for or () if each.uid != pod.uid])
        try:
            writes.patch_claim_status(claim, {"reservedFor": others or None})
            return
        except ChangedMeanwhileError:
            if not tries_left:
                raise
            claim = writes.read_claim(claim)


def unreserve_group(writes: Writes, claim: ResourceClaim, group: str) -> None:
    """Remove the reservation of a claim for the pod group with the UID `group`."""
    others = to_json([each for each in claim.status.reserved_for or () if each.uid != group])
    writes.patch_claim_status(claim, {"reservedFor": others or None})


def deallocate(writes: Writes, claim: ResourceClaim) -> None:
    """Remove the allocation of a claim, so that it is allocated anew."""
    writes.patch_claim_status(claim, {"allocation": None, "reservedFor": None, "devices": None})


def _build_status(
    claim: ResourceClaim, allocation: AllocationResult | None, consumer: ConsumerReference, *, with_timestamps: bool
) -> dict[str, Any]:
    """Return the merge patch of a claim's status that adds `consumer` to its reservations.

    The patch has `allocation` unless that is None. With `with_timestamps`, it sets the allocation's timestamp if that
    is missing.
    """
    consumers = to_json(claim.status.reserved_for or [])
    status: dict[str, Any] = {
        "reservedFor": [*consumers, to_json(consumer)],
    }
    present = claim.status.allocation
    written = {} if allocation is None else to_json(allocation)
    if with_timestamps and (present is None or not present.allocation_timestamp):
        status["allocation"] = {**written, "allocationTimestamp": format_seconds(time.time())}
    elif written:
        status["allocation"] = written
    return status


def _with_share_ids(allocation: AllocationResult) -> AllocationResult:
    """Return an allocation with a random share ID for each shared device."""
    results = [
        result if result.share_id is None else msgspec.structs.replace(result, share_id=str(uuid.uuid4()))
        for result in allocation.devices.results or ()
    ]
    return msgspec.structs.replace(allocation, devices=msgspec.structs.replace(allocation.devices, results=results))


def _build_extended_claim(pod: PodInfo, on_node: NodeAllocation) -> dict[str, Any]:
    assert on_node.extended_claim is not None
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    return {
        "metadata": {
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": pod.namespace,
            "ownerReferences": [owner],
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        },
        "spec": to_json(on_node.extended_claim.spec),
    }


def _build_pod_status(claim: ResourceClaim, on_node: NodeAllocation) -> dict[str, Any]:
    mappings = [
        {"containerName": each.container, "resourceName": each.resource, "requestName": each.request}
        for each in on_node.mappings
    ]
    return {"resourceClaimName": claim.metadata.name, "requestMappings": mappings}
