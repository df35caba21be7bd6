"""The resources that a pod requests, and the rule which resources scheduling counts.

Source: k8s.io/component-helpers/resource PodRequests, and pkg/scheduler/framework/types.go Resource.Add. Amounts are
summed exactly and rounded up once per pod and resource: two containers of 0.5m cpu request 1m. Sums that do not fit an
int64 are computed again as `quantity.Quantity`, whose form decides kube-scheduler's result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.engine.objects import quantity
from scheduler.engine.objects.types import Amounts, Container, ContainerStatus, Pod, PodSpec, ResourceRequirements

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
    """Return whether the resource is extended: its name has a `/`, outside kubernetes.io, and no prefix `requests.`."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def compute_pod_requests(pod: Pod, *, running: bool = False) -> dict[str, int]:
    """Return the pod's effective requests in base units (cpu in milli), for the resources that scheduling counts.

    `running` means that the pod is on a node, where a resize in progress counts with the largest of the desired,
    allocated and actual amount.
    """
    return _sum_in_base_units(lambda parse: _total(pod, parse, defaults={}, pod_level=True, running=running))


def compute_scoring_requests(pod: Pod, *, running: bool = False) -> tuple[int, int]:
    """Return the non-zero requests, cpu in milli, memory in bytes, with kube-scheduler's defaults for absent ones."""
    defaults = _DEFAULTS
    if _at_pod_level(pod, quantity.parse, running=running):
        # a default then replaces only a resource that neither containers nor the overhead request
        named = _total(pod, quantity.parse, defaults={}, pod_level=True, running=running)
        defaults = {r: amount for r, amount in _DEFAULTS.items() if r not in named}
    units = _sum_in_base_units(lambda parse: _total(pod, parse, defaults=defaults, pod_level=True, running=running))
    return units.get(CPU, 0), units.get(MEMORY, 0)


def compute_incoming_scoring_requests(pod: Pod) -> dict[str, int]:
    """Return the requests by resource without spec.resources, with defaults for absent cpu and memory.

    kube-scheduler's NodeResourcesFit *scores* the incoming pod with them (but filters with the effective requests):
    what only spec.resources requests, such as huge pages, does not count.
    """
    return _sum_in_base_units(lambda parse: _total(pod, parse, defaults=_DEFAULTS, pod_level=False, running=False))


def compute_largest_step_requests(pod: Pod) -> tuple[int, int]:
    """Return the non-zero requests of a pod on a node as kube-scheduler summed them up before v1.32.

    They are the larger of what the containers request together and what the largest init step requests, which is an
    init container with the sidecars started before it. Sidecars do not count beside the containers.
    """

    def total(parse: Parse) -> Sums:
        containers: Sums = {}
        for container in pod.spec.containers or ():
            _add(containers, _container(container, parse, _DEFAULTS, {}, pod))
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
    """Return the requests that the pod's spec alone determines, cached for pods with equal resources.

    Raise ValueError for an invalid quantity.
    """
    spec = pod.spec
    encoded = msgspec.msgpack.encode((spec.containers, spec.init_containers, spec.overhead, spec.resources))
    compute = _compute_encoded_spec if len(encoded) <= _MAX_CACHED_BYTES else _compute_encoded_spec.__wrapped__
    return compute(encoded)


def has_resource_status(pod: Pod) -> bool:
    """Return whether a pod's status may report allocated or actual resources, which change its requests."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources)


@lru_cache(4096)  # a few kB each; a large cluster has fewer templates
def _compute_encoded_spec(encoded: bytes) -> SpecRequests:
    containers, init_containers, overhead, resources = msgspec.msgpack.decode(encoded, type=_Parts)
    spec = PodSpec(containers=containers, init_containers=init_containers, overhead=overhead, resources=resources)
    pod = Pod(spec=spec)
    return SpecRequests(
        compute_pod_requests(pod), compute_scoring_requests(pod), compute_incoming_scoring_requests(pod)
    )


def compute_allocatable(amounts: Amounts | None) -> dict[str, int]:
    """Return a node's allocatable by resource in base units: `pods`, and the resources that scheduling counts."""
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


def _total(pod: Pod, parse: Parse, *, defaults: Amounts, pod_level: bool, running: bool) -> Sums:
    spec = pod.spec
    statuses = _statuses(pod) if running else {}
    total: Sums = {}
    for container in spec.containers or ():
        _add(total, _container(container, parse, defaults, statuses, pod))
    sidecars: Sums = {}
    init: Sums = {}
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            requested = _container(container, parse, defaults, statuses, pod)
            _add(total, requested)
            _add(sidecars, requested)
            _maximum(init, sidecars)
        else:
            requested = _container(container, parse, defaults, {}, pod)
            _add(requested, sidecars)
            _maximum(init, requested)
    _maximum(total, init)
    if pod_level:
        total |= _at_pod_level(pod, parse, running=running)
    _add(total, _parsed(spec.overhead, parse))
    return total


def _at_pod_level(pod: Pod, parse: Parse, *, running: bool) -> Sums:
    """Return the requests of spec.resources for cpu, memory and huge pages, which replace the containers' sums."""
    requested = _parsed(pod.spec.resources.requests if pod.spec.resources else None, parse)
    status = pod.status
    given = requested
    if running and status.resources is not None:
        given = _resizing(pod, parse, requested, status.resources.requests, status.allocated_resources)
    zero = parse(0)
    return {r: given.get(r, zero) for r in requested if r in (CPU, MEMORY) or r.startswith("hugepages-")}


def _container(
    container: Container, parse: Parse, defaults: Amounts, statuses: Mapping[str, ContainerStatus], pod: Pod
) -> Sums:
    requested = _parsed(container.resources.requests if container.resources else None, parse)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        requested = _resizing(pod, parse, requested, status.resources.requests, status.allocated_resources)
    for resource, text in defaults.items():
        if resource not in requested:
            requested[resource] = parse(text)
    return requested


def _resizing(pod: Pod, parse: Parse, requested: Sums, actual: Amounts | None, allocated: Amounts | None) -> Sums:
    """Return by resource the largest of the desired (`requested`), actual and allocated amounts during a resize.

    The desired amounts do not count if the resize is infeasible.
    """
    given = _parsed(actual, parse)
    _maximum(given, _parsed(allocated, parse))
    if not _resize_infeasible(pod):
        _maximum(given, requested)
    return given


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {s.name: s for group in (status.container_statuses, status.init_container_statuses) for s in group or ()}


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
