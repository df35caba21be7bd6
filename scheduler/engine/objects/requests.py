"""The resources that a pod requests, and the rule which resources scheduling counts.

Source: k8s.io/component-helpers/resource PodRequests (v0.36, and for v1.37 that of 2026-07-24), and
pkg/scheduler/framework/types.go Resource.Add. Amounts are summed exactly and rounded up once per pod and resource: two
containers of 0.5m cpu request 1m. Sums that do not fit an int64 are computed again as `quantity.Quantity`, whose form
decides kube-scheduler's result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from herodotus_record.typed_decoding import decode_msgpack
from scheduler.engine.objects import quantity
from scheduler.engine.objects.types import Amounts, Container, Pod, PodSpec, ResourceRequirements

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
DEFAULT_MILLI_CPU = 100  # counted in scoring for a container without cpu request
DEFAULT_MEMORY = 200 << 20  # counted in scoring for a container without memory request

_DEFAULTS: Final[Amounts] = {CPU: f"{DEFAULT_MILLI_CPU}m", MEMORY: str(DEFAULT_MEMORY)}

_MAX_CACHED_BYTES: Final = 8 << 10  # of a pod's containers, which users may make 100 times as large

CountedRequests = tuple[
    tuple[tuple[str, int], ...], tuple[int, int]
]  # effective requests by resource; those for scoring
Sums = dict[str, Any]  # by resource, each an integer of 10^-9 units or a `Quantity`, as `Parse` makes them
Parse = Callable[[str | int | float], Any]
_Parts = tuple[list[Container] | None, list[Container] | None, Amounts | None, ResourceRequirements | None]


class Resize(Enum):
    """How an in-place resize in progress counts among a pod's requests.

    The desired, the actual and the allocated amounts differ during a resize. The desired ones do not count if it is
    infeasible.
    """

    IGNORED = "the desired amounts count, as for a pod without a node"
    LARGEST_OF_CONTAINER = "of each container the largest amount counts, as up to v1.36"
    LARGEST_OF_POD = "the largest of the sums over the pod counts, as since v1.37"


def is_counted(resource: str) -> bool:
    """Return whether scheduling counts the resource: cpu, memory, ephemeral-storage and every scalar resource."""
    return resource in (CPU, MEMORY, STORAGE) or is_scalar(resource)


def is_scalar(resource: str) -> bool:
    """Return whether the resource is extended, a huge page, a prefixed native resource or an attachable volume."""
    return (
        is_extended(resource)
        or resource.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in resource
    )


def is_extended(resource: str) -> bool:
    """Return whether a resource is extended: its name has a `/`, no `kubernetes.io/`, and no prefix `requests.`."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def compute_pod_requests(pod: Pod, resize: Resize = Resize.IGNORED) -> dict[str, int]:
    """Return the pod's effective requests in base units (cpu in milli), for the resources that scheduling counts."""
    return _sum_in_base_units(lambda parse: _total(pod, parse, {}, resize))


def compute_scoring_requests(pod: Pod, resize: Resize = Resize.IGNORED) -> tuple[int, int]:
    """Return the non-zero requests, cpu in milli, memory in bytes, with kube-scheduler's defaults for absent ones."""
    defaults = _DEFAULTS
    if _at_pod_level(pod, quantity.parse, resize):
        # a default then replaces only a resource that neither containers nor the overhead request
        named = _total(pod, quantity.parse, {}, resize)
        defaults = {r: amount for r, amount in _DEFAULTS.items() if r not in named}
    units = _sum_in_base_units(lambda parse: _total(pod, parse, defaults, resize))
    return units.get(CPU, 0), units.get(MEMORY, 0)


def compute_incoming_scoring_requests(pod: Pod) -> dict[str, int]:
    """Return the requests by resource without spec.resources, with defaults for absent cpu and memory.

    kube-scheduler's NodeResourcesFit *scores* the incoming pod by these amounts (but filters by the effective
    requests). So a resource that only spec.resources requests, such as huge pages, does not count.
    """
    alone = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resources=None))
    return _sum_in_base_units(lambda parse: _total(alone, parse, _DEFAULTS, Resize.IGNORED))


def compute_largest_step_requests(pod: Pod) -> tuple[int, int]:
    """Return the non-zero requests (cpu in milli, memory in bytes) of a pod on a node by the rule before v1.32.

    They are the larger of two sums: of the containers, without sidecars, and of the largest init step, which is an init
    container with the sidecars started before it.
    """

    def total(parse: Parse) -> Sums:
        containers: Sums = {}
        amounts = _ContainerAmounts(pod, parse, _DEFAULTS)
        for container in pod.spec.containers or ():
            _add(containers, amounts.desired(container))
        sidecars: Sums = {}
        for container in pod.spec.init_containers or ():
            step = _parsed(container.resources.requests if container.resources else None, parse)
            if container.restart_policy == "Always":
                _add(sidecars, step)
                step = dict(sidecars)
            else:
                _add(step, sidecars)
            _maximum(containers, {resource: parse(text) for resource, text in _DEFAULTS.items()} | step)
        _add(containers, _parsed(pod.spec.overhead, parse))
        return containers

    units = _sum_in_base_units(total)
    return units.get(CPU, 0), units.get(MEMORY, 0)


class SpecRequests(NamedTuple):
    """The requests that a pod's spec alone determines, for pods whose status reports no resources."""

    requests: Mapping[str, int]
    scoring: tuple[int, int]
    incoming_scoring: Mapping[str, int]  # without pod-level resources


def compute_spec_requests(pod: Pod) -> SpecRequests:
    """Return the requests that the pod's spec alone determines; they are cached by the pod's resources.

    Raise ValueError for an invalid quantity.
    """
    spec = pod.spec
    encoded = msgspec.msgpack.encode((spec.containers, spec.init_containers, spec.overhead, spec.resources))
    if len(encoded) <= _MAX_CACHED_BYTES:
        return _compute_encoded_spec(encoded)
    return _compute_spec_parts(spec.containers, spec.init_containers, spec.overhead, spec.resources)


def may_be_resizing(pod: Pod) -> bool:
    """Return whether the pod's status may change its effective requests, as during an in-place resize.

    That is so if the status reports amounts that differ from those in the spec of their container, even if only in
    notation, amounts of the whole pod, or that a resize is infeasible.
    """
    status = pod.status
    if status.resources is not None or status.allocated_resources is not None or _resize_infeasible(pod):
        return True
    reported = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    if not reported:
        return False
    containers = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    desired = {c.name: (c.resources.requests if c.resources else None) or {} for c in containers}
    for each in reported:
        actual = each.resources.requests if each.resources else None
        if any(
            amounts is not None and amounts != desired.get(each.name) for amounts in (actual, each.allocated_resources)
        ):
            return True
    return False


@lru_cache(4096)  # a few kB each; a large cluster has fewer templates
def _compute_encoded_spec(encoded: bytes) -> SpecRequests:
    return _compute_spec_parts(*decode_msgpack(encoded, _Parts))


def _compute_spec_parts(
    containers: list[Container] | None,
    init_containers: list[Container] | None,
    overhead: Amounts | None,
    resources: ResourceRequirements | None,
) -> SpecRequests:
    spec = PodSpec(containers=containers, init_containers=init_containers, overhead=overhead, resources=resources)
    pod = Pod(spec=spec)
    return SpecRequests(
        compute_pod_requests(pod), compute_scoring_requests(pod), compute_incoming_scoring_requests(pod)
    )


def compute_allocatable(amounts: Amounts | None) -> dict[str, int]:
    """Return a node's status.allocatable in base units, for `pods` and the resources that scheduling counts.

    None gives 0 pods and no other resources.
    """
    pods = quantity.scaled_value((amounts or {}).get(PODS, 0), quantity.WHOLE)
    return _sum_in_base_units(lambda parse: _parsed(amounts, parse)) | {PODS: pods}


def compute_running_requests(pod: Pod, resource: str) -> int:
    """Return the sum of the containers' requests of a resource in base units, without init containers and overhead."""
    containers = Pod(spec=PodSpec(containers=pod.spec.containers))
    return compute_spec_requests(containers).requests.get(resource, 0)


def _sum_in_base_units(total: Callable[[Parse], Sums]) -> dict[str, int]:
    """Return the sums by resource in base units (cpu in milli), for the resources that scheduling counts.

    `total` takes a parser of quantities and returns sums of the amounts that the parser returns.
    """
    nanos = {resource: amount for resource, amount in total(quantity.parse).items() if is_counted(resource)}
    units = {r: quantity.milli(amount) if r == CPU else quantity.value(amount) for r, amount in nanos.items()}
    if all(map(quantity.fits_int64, units.values())):
        return units
    exact = total(quantity.Quantity.parse)
    return {r: exact[r].scaled_value(quantity.MILLI if r == CPU else quantity.WHOLE) for r in units}


def _total(pod: Pod, parse: Parse, defaults: Amounts, resize: Resize) -> Sums:
    """Return the pod's requests by resource, with overhead and pod-level requests.

    `defaults` are added to each container that has no request for these resources.
    """
    amounts = _ContainerAmounts(pod, parse, defaults)
    if resize is Resize.LARGEST_OF_POD:
        total = _sum_largest_of_pod(pod, parse, amounts)
    else:
        total = _sum_containers(pod, amounts.desired if resize is Resize.IGNORED else amounts.largest)
    total |= _at_pod_level(pod, parse, resize)
    _add(total, _parsed(pod.spec.overhead, parse))
    return total


def _sum_containers(pod: Pod, requests_of: Callable[[Container], Sums]) -> Sums:
    """Return by resource the larger of two sums: of all containers and sidecars, and of the largest init step.

    An init step is an init container with the sidecars that start before it. `requests_of` returns a container's
    amounts.
    """
    total: Sums = {}
    for container in pod.spec.containers or ():
        _add(total, requests_of(container))
    sidecars: Sums = {}
    init: Sums = {}
    for container in pod.spec.init_containers or ():
        requested = requests_of(container)
        if container.restart_policy == "Always":
            _add(total, requested)
            _add(sidecars, requested)
            _maximum(init, sidecars)
        else:
            _add(requested, sidecars)
            _maximum(init, requested)
    _maximum(total, init)
    return total


def _sum_largest_of_pod(pod: Pod, parse: Parse, amounts: _ContainerAmounts) -> Sums:
    """Return by resource the largest of the sums over the pod: of the desired, the actual and the allocated amounts.

    Actual and allocated amounts are those that the status reports for the whole pod, or else the sums of the
    containers'. Desired amounts do not count if the resize is infeasible.
    """
    actual = pod.status.resources.requests if pod.status.resources is not None else None
    if actual is not None and pod.status.allocated_resources is not None:
        total = _parsed(actual, parse)
        _maximum(total, _parsed(pod.status.allocated_resources, parse))
    else:
        total = _sum_containers(pod, amounts.actual)
        _maximum(total, _sum_containers(pod, amounts.allocated))
    if not _resize_infeasible(pod):
        _maximum(total, _sum_containers(pod, amounts.desired))
    return total


def _at_pod_level(pod: Pod, parse: Parse, resize: Resize) -> Sums:
    """Return the pod-level requests (spec.resources) for cpu, memory and huge pages.

    They replace the sums of the containers' requests. Unless `resize` is IGNORED, amounts that the status reports for
    the whole pod count if they are larger.
    """
    requested = _parsed(pod.spec.resources.requests if pod.spec.resources else None, parse)
    names = [resource for resource in requested if _may_be_at_pod_level(resource)]
    status = pod.status
    if not names or resize is Resize.IGNORED or status.resources is None:
        return {resource: requested[resource] for resource in names}
    largest = _find_largest(pod, parse, requested, status.resources.requests, status.allocated_resources)
    if resize is Resize.LARGEST_OF_POD:
        return {resource: amount for resource, amount in largest.items() if _may_be_at_pod_level(resource)}
    zero = parse(0)
    return {resource: largest.get(resource, zero) for resource in names}


def is_at_pod_level(pod: Pod, resource: str) -> bool:
    """Return whether spec.resources has a request for the resource, which replaces the containers' requests."""
    requested = (pod.spec.resources.requests if pod.spec.resources else None) or {}
    return resource in requested and _may_be_at_pod_level(resource)


def _may_be_at_pod_level(resource: str) -> bool:
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


class _ContainerAmounts:
    """Reads the amounts of a pod's containers with `parse`, and adds `defaults` for resources that they lack."""

    def __init__(self, pod: Pod, parse: Parse, defaults: Amounts) -> None:
        self._pod, self._parse, self._defaults = pod, parse, defaults
        status = pod.status
        reported = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        self._statuses = {each.name: each for each in reported}
        steps = (c for c in pod.spec.init_containers or () if c.restart_policy != "Always")
        self._init_steps = {container.name for container in steps}

    def desired(self, container: Container) -> Sums:
        """Return the requests in the container's spec."""
        return self._complete(container.resources.requests if container.resources else None)

    def largest(self, container: Container) -> Sums:
        """Return by resource the largest of the container's desired, actual and allocated amounts.

        Only the desired amounts count for an init container that is no sidecar, and for a container without
        status.resources.
        """
        status = None if container.name in self._init_steps else self._statuses.get(container.name)
        if status is None or status.resources is None:
            return self.desired(container)
        desired = _parsed(container.resources.requests if container.resources else None, self._parse)
        largest = _find_largest(self._pod, self._parse, desired, status.resources.requests, status.allocated_resources)
        return self._add_defaults(largest)

    def actual(self, container: Container) -> Sums:
        """Return the container's status.resources.requests or, if that is missing, the allocated amounts."""
        status = self._statuses.get(container.name)
        if status is not None and status.resources is not None and status.resources.requests is not None:
            return self._complete(status.resources.requests)
        return self.allocated(container)

    def allocated(self, container: Container) -> Sums:
        """Return the container's status.allocatedResources or, if that is missing, the desired amounts.

        If the resize is infeasible, the desired amounts do not count, and only defaults are returned.
        """
        status = self._statuses.get(container.name)
        if status is not None and status.allocated_resources is not None:
            return self._complete(status.allocated_resources)
        return self._complete(None) if _resize_infeasible(self._pod) else self.desired(container)

    def _complete(self, amounts: Amounts | None) -> Sums:
        return self._add_defaults(_parsed(amounts, self._parse))

    def _add_defaults(self, amounts: Sums) -> Sums:
        for resource, text in self._defaults.items():
            if resource not in amounts:
                amounts[resource] = self._parse(text)
        return amounts


def _find_largest(pod: Pod, parse: Parse, desired: Sums, actual: Amounts | None, allocated: Amounts | None) -> Sums:
    """Return by resource the largest of the amounts, without the desired ones if the pod's resize is infeasible."""
    largest = _parsed(actual, parse)
    _maximum(largest, _parsed(allocated, parse))
    if not _resize_infeasible(pod):
        _maximum(largest, desired)
    return largest


def _resize_infeasible(pod: Pod) -> bool:
    return any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions or ())


def _parsed(amounts: Amounts | None, parse: Parse) -> Sums:
    return {resource: parse(text) for resource, text in (amounts or {}).items()}


def _add(to: Sums, amounts: Sums) -> None:
    for resource, amount in amounts.items():
        to[resource] = to[resource] + amount if resource in to else amount


def _maximum(to: Sums, amounts: Sums) -> None:
    for resource, amount in amounts.items():
        to[resource] = max(to.get(resource, amount), amount)
