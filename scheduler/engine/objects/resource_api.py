"""The objects of Dynamic Resource Allocation (resource.k8s.io/v1) with the fields that scheduling reads or writes.

Quantities stay texts, since allocations repeat them as written. Opaque configuration stays as decoded JSON.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.engine.objects.types import Amounts, Condition, Int64, Metadata, NodeSelector, Object, Struct

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
EXACT_COUNT, ALL = "ExactCount", "All"  # allocation modes
MAX_RESULTS: Final = 32  # devices of one claim (AllocationResultsMaxSize)
MAX_SUBREQUESTS: Final = 8  # of one request (FirstAvailableDeviceRequestMaxSize)
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"  # of the extended resource that each class has
_TRUE: Final = "true"

Config = list[dict[str, Any]]


class CelSelector(Struct, frozen=True):
    """A CEL expression that selects devices."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """A selector of devices, with one field for each kind of selector."""

    cel: CelSelector | None = None


# --- what drivers publish -------------------------------------------------------------------------------------------


class DeviceAttribute(Struct, frozen=True):
    """The value of an attribute of a device; exactly one field is set."""

    int_value: Int64 | None = msgspec.field(name="int", default=None)
    bool_value: bool | None = msgspec.field(name="bool", default=None)
    string_value: str | None = msgspec.field(name="string", default=None)
    version_value: str | None = msgspec.field(name="version", default=None)


class CapacityRange(Struct, frozen=True):
    """The consumable amounts from `min` to `max`, in steps of `step`."""

    min: str | int | float | None = None
    max: str | int | float | None = None
    step: str | int | float | None = None


class CapacityRequestPolicy(Struct, frozen=True):
    """How a request for a capacity of a shared device is rounded and limited, and what it is by default."""

    default: str | int | float | None = None
    valid_values: list[str | int | float] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(Struct, frozen=True):
    """A capacity of a device, and the policy for requests if the device can be shared."""

    value: str | int | float = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Struct, frozen=True):
    """An amount of a counter."""

    value: str | int | float = "0"


class CounterSet(Struct, frozen=True):
    """A named set of counters that the devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] | None = None


class CounterConsumption(Struct, frozen=True):
    """What a device consumes of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class DeviceTaint(Struct, frozen=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Device(Struct, frozen=True):
    """A device of a resource slice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[CounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(Struct, frozen=True):
    """The pool of a resource slice, with the slice's generation and the number of the generation's slices."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Struct, frozen=True):
    """The spec of a resource slice."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: list[Device] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(Object, frozen=True):
    """A ResourceSlice of resource.k8s.io/v1: devices of one pool of a driver."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Struct, frozen=True):
    """The devices that a DeviceTaintRule taints: each field that is set must match."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True):
    """The spec of a DeviceTaintRule."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Object, frozen=True):
    """A DeviceTaintRule of resource.k8s.io/v1: a taint that is added to the selected devices.

    Whether a rule without a selector taints every device or none depends on the version. An empty selector selects all.
    """

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()

    @property
    def has_selector(self) -> bool:
        """Whether the rule has a selector, which may be empty."""
        return self.spec.device_selector is not None

    def selects_pool(self, driver: str, pool: str) -> bool:
        """Return whether driver and pool of the rule's selector, where set, equal these; True without a selector."""
        selector = self.spec.device_selector or DeviceTaintSelector()
        return selector.driver in (None, driver) and selector.pool in (None, pool)

    def selects_device(self, device: str) -> bool:
        """Return whether the rule's device name, if set, equals this one; the caller checks the pool."""
        selector = self.spec.device_selector or DeviceTaintSelector()
        return selector.device in (None, device)


class DeviceClassSpec(Struct, frozen=True):
    """The spec of a device class."""

    selectors: list[DeviceSelector] | None = None
    config: Config | None = None
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A DeviceClass of resource.k8s.io/v1."""

    spec: DeviceClassSpec = DeviceClassSpec()


# --- what users request ---------------------------------------------------------------------------------------------


class DeviceToleration(Struct, frozen=True, omit_defaults=True):
    """A toleration of device taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(Struct, frozen=True):
    """The amounts of capacities that a request needs of each device."""

    requests: Amounts | None = None


class ExactDeviceRequest(Struct, frozen=True):
    """A request for devices of one class. The defaults are those of the API server."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None

    def __post_init__(self) -> None:
        if not self.allocation_mode:
            msgspec.structs.force_setattr(self, "allocation_mode", EXACT_COUNT)
        if self.allocation_mode == EXACT_COUNT and not self.count:
            msgspec.structs.force_setattr(self, "count", 1)


class DeviceSubRequest(ExactDeviceRequest, frozen=True):
    """One of several alternative requests; it never asks for admin access."""

    name: str = ""


class DeviceRequest(Struct, frozen=True):
    """A request of a claim: either `exactly` or the first of `first_available` that can be allocated."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Struct, frozen=True):
    """A constraint over all devices of some requests: one common value, or distinct values, of an attribute."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Struct, frozen=True):
    """The devices that a claim requests."""

    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: Config | None = None


class ResourceClaimSpec(Struct, frozen=True):
    """The spec of a resource claim."""

    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Struct, frozen=True, omit_defaults=True):
    """A device that is allocated for a request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: Amounts | None = None


class DeviceResults(Struct, frozen=True, omit_defaults=True):
    """The allocated devices of a claim, with the configuration for their drivers."""

    results: list[DeviceResult] | None = None
    config: Config | None = None


class AllocationResult(Struct, frozen=True, omit_defaults=True):
    """The allocation of a claim: its devices and the nodes where they can be used, None for all nodes."""

    devices: DeviceResults = DeviceResults()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ConsumerReference(Struct, frozen=True, omit_defaults=True):
    """An object for which a claim is reserved."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Struct, frozen=True):
    """The conditions that a driver reports for an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: list[Condition] | None = None


class ClaimStatus(Struct, frozen=True):
    """The status of a resource claim."""

    allocation: AllocationResult | None = None
    reserved_for: list[ConsumerReference] | None = None
    devices: list[AllocatedDeviceStatus] | None = None


class ClaimAnnotations(Struct, frozen=True):
    """The metadata.annotations of a claim that scheduling reads."""

    extended_resource_claim: str | None = msgspec.field(
        name="resource.kubernetes.io/extended-resource-claim", default=None
    )


class ClaimMetadata(Metadata, frozen=True):
    """The ObjectMeta of a resource claim."""

    annotations: ClaimAnnotations | None = None
    finalizers: list[str] | None = None


class ResourceClaim(Object, frozen=True):
    """A ResourceClaim of resource.k8s.io/v1."""

    metadata: ClaimMetadata = ClaimMetadata()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def full_name(self) -> str:
        """NAMESPACE/NAME, as messages of kube-scheduler name the claim."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_for_extended_resources(self) -> bool:
        """Whether a scheduler created the claim for a pod's extended resources."""
        annotations = self.metadata.annotations
        return annotations is not None and annotations.extended_resource_claim == _TRUE

    def is_controlled_by(self, uid: str) -> bool:
        """Return whether the owner with this UID is the claim's controller."""
        controller = self.metadata.controller
        return controller is not None and controller.uid == uid

    def is_reserved_for(self, uid: str) -> bool:
        """Return whether status.reservedFor has a consumer with this UID: a pod, or a pod group."""
        return any(consumer.uid == uid for consumer in self.status.reserved_for or ())


class ResourceClaimTemplateSpec(Struct, frozen=True):
    """The spec of a resource claim template: the spec of the claims."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True):
    """A ResourceClaimTemplate of resource.k8s.io/v1. The controller manager creates claims from it."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


def to_json(value: object) -> Any:
    """Return API objects as JSON, without the fields that are not set."""
    return _drop_unset(msgspec.to_builtins(value))


def _drop_unset(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_unset(each) for key, each in value.items() if each not in (None, "", [], {})}
    return [_drop_unset(each) for each in value] if isinstance(value, list) else value
