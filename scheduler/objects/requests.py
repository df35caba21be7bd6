"""What a pod requests, and which resources scheduling counts.

Source: k8s.io/component-helpers/resource PodRequests, and pkg/scheduler/framework/types.go Resource.Add. Amounts are
summed exactly and rounded up once a pod and resource: two containers of 0.5m cpu request 1m.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from scheduler.objects import quantity
from scheduler.objects.types import Amounts, Container, ContainerStatus, Pod, PodSpec, Resources

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
INT64_MAX = (1 << 63) - 1  # amounts are Go int64; larger quantities are cut to it there too
DEFAULT_MILLI_CPU = 100  # what scoring assumes of a container that requests no cpu
DEFAULT_MEMORY = 200 << 20  # and of one that requests no memory

_DEFAULTS = {CPU: DEFAULT_MILLI_CPU * 10**6, MEMORY: DEFAULT_MEMORY * quantity.NANO}

Counted = tuple[tuple[tuple[str, int], ...], tuple[int, int]]  # effective requests by resource; those for scoring
Nanos = dict[str, int]
_Parts = tuple[list[Container] | None, list[Container] | None, Amounts | None, Resources | None]


def counted(resource: str) -> bool:
    """Whether scheduling counts the resource: cpu, memory, ephemeral-storage, and everything "scalar"."""
    return resource in (CPU, MEMORY, STORAGE) or is_scalar(resource)


def is_scalar(resource: str) -> bool:
    """Extended resources, huge pages, prefixed native resources and attachable volumes."""
    return (
        is_extended(resource)
        or resource.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in resource
    )


def is_extended(resource: str) -> bool:
    """A qualified name outside kubernetes.io, and none that quota writes with the prefix `requests.`."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def pod_requests(pod: Pod, *, running: bool = False) -> dict[str, int]:
    """The pod's effective requests in base units (cpu in milli), of the resources that count.

    `running`: for a pod on a node, a resize in progress counts with the larger of what was asked, allotted and given.
    """
    return _base_units(_total(pod, defaults={}, pod_level=True, running=running))


def scoring_requests(pod: Pod, *, running: bool = False, pod_level: bool = True) -> tuple[int, int]:
    """(cpu in milli, memory in bytes) with kube-scheduler's defaults for containers that name none: "non-zero".

    `pod_level=False` leaves spec.resources out, as kube-scheduler's NodeResourcesFit does when it *scores* the incoming
    pod (though not when it filters).
    """
    defaults: Mapping[str, int] = _DEFAULTS
    if pod_level and _at_pod_level(pod, running=running):
        # then a default stands in only for what nothing of the pod names, be it a container or the overhead
        named = _total(pod, defaults={}, pod_level=True, running=running)
        defaults = {r: amount for r, amount in _DEFAULTS.items() if r not in named}
    total = _total(pod, defaults=defaults, pod_level=pod_level, running=running)
    return _cut(quantity.milli(total.get(CPU, 0))), _cut(quantity.value(total.get(MEMORY, 0)))


class Asked(NamedTuple):
    """What a pod asks for, as long as nothing in its status counts."""

    requests: Mapping[str, int]
    scoring: tuple[int, int]
    incoming_scoring: tuple[int, int]  # without pod-level resources


def asked(pod: Pod) -> Asked:
    """The three amounts by the spec alone, computed once for all pods that ask for the same. ValueError as for one."""
    spec = pod.spec
    return _asked(msgspec.msgpack.encode((spec.containers, spec.init_containers, spec.overhead, spec.resources)))


def status_counts(pod: Pod) -> bool:
    """Whether the status of a running pod may say something of its resources."""
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources)


@lru_cache(4096)  # some kilobytes each; more distinct specs than a large cluster has templates
def _asked(encoded: bytes) -> Asked:
    containers, init_containers, overhead, resources = msgspec.msgpack.decode(encoded, type=_Parts)
    spec = PodSpec(containers=containers, init_containers=init_containers, overhead=overhead, resources=resources)
    pod = Pod(spec=spec)
    return Asked(pod_requests(pod), scoring_requests(pod), scoring_requests(pod, pod_level=False))


def base_units(amounts: Amounts | None) -> dict[str, int]:
    """A node's allocatable in base units, of the resources that count, `pods` among them."""
    nanos = {resource: quantity.parse(text) for resource, text in (amounts or {}).items()}
    return _base_units(nanos) | {PODS: _cut(quantity.value(nanos.get(PODS, 0)))}


def _base_units(nanos: Mapping[str, int]) -> dict[str, int]:
    return {
        resource: _cut(quantity.milli(amount) if resource == CPU else quantity.value(amount))
        for resource, amount in nanos.items()
        if counted(resource)
    }


def _cut(amount: int) -> int:
    return max(-INT64_MAX, min(amount, INT64_MAX))


def _total(pod: Pod, *, defaults: Mapping[str, int], pod_level: bool, running: bool) -> Nanos:
    spec = pod.spec
    statuses = _statuses(pod) if running else {}
    total: Nanos = {}
    for container in spec.containers or ():
        _add(total, _container(container, defaults, statuses, pod))
    sidecars: Nanos = {}
    init: Nanos = {}
    for container in spec.init_containers or ():
        if container.restart_policy == "Always":
            asked = _container(container, defaults, statuses, pod)
            _add(total, asked)
            _add(sidecars, asked)
            _maximum(init, sidecars)
        else:
            asked = _container(container, defaults, {}, pod)
            _add(asked, sidecars)
            _maximum(init, asked)
    _maximum(total, init)
    if pod_level:
        total |= _at_pod_level(pod, running=running)
    _add(total, _nanos(spec.overhead))
    return total


def _at_pod_level(pod: Pod, *, running: bool) -> Nanos:
    """What the pod as a whole asks for: cpu, memory and huge pages, which replace what its containers add up to."""
    asked = _nanos(pod.spec.resources.requests if pod.spec.resources else None)
    status = pod.status
    given = asked
    if running and status.resources is not None:
        given = _resizing(pod, asked, status.resources.requests, status.allocated_resources)
    return {r: given.get(r, 0) for r in asked if r in (CPU, MEMORY) or r.startswith("hugepages-")}


def _container(
    container: Container, defaults: Mapping[str, int], statuses: Mapping[str, ContainerStatus], pod: Pod
) -> Nanos:
    asked = _nanos(container.resources.requests if container.resources else None)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        asked = _resizing(pod, asked, status.resources.requests, status.allocated_resources)
    for resource, amount in defaults.items():
        asked.setdefault(resource, amount)
    return asked


def _resizing(pod: Pod, asked: Nanos, actual: Amounts | None, allocated: Amounts | None) -> Nanos:
    """The largest of what was asked, what it has and what was allotted; an infeasible wish does not count."""
    given = _nanos(actual)
    _maximum(given, _nanos(allocated))
    if not _resize_infeasible(pod):
        _maximum(given, asked)
    return given


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {s.name: s for group in (status.container_statuses, status.init_container_statuses) for s in group or ()}


def _resize_infeasible(pod: Pod) -> bool:
    return any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions or ())


def _nanos(amounts: Amounts | None) -> Nanos:
    return {resource: quantity.parse(text) for resource, text in (amounts or {}).items()}


def _add(to: Nanos, amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        to[resource] = to.get(resource, 0) + amount


def _maximum(to: Nanos, amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        to[resource] = max(to.get(resource, amount), amount)
