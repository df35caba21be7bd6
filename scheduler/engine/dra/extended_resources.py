"""Extended resources that device classes back, and the claim that a scheduler makes for a pod that requests them.

Source: k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache and
pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.engine.objects import quantity
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.requests import is_extended
from scheduler.engine.objects.resource_api import (
    IMPLICIT_PREFIX,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
)
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Container

CLAIM_NAME: Final = "<extended-resources>"  # of the claim until it is created

Backed = Mapping[str, DeviceClass]  # extended resource -> the class that backs it


class RequestMapping(NamedTuple):
    """The request of the claim that serves an extended resource of a container."""

    container: str
    resource: str
    request: str


def may_be_backed(resource: str) -> bool:
    """Return whether the resource is of a kind that a device class may back: extended, or with the implicit prefix."""
    return is_extended(resource) or resource.startswith(IMPLICIT_PREFIX)


def map_resources(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class that backs each extended resource.

    Of several classes with one extended resource name, the newest counts, then the first by name. As upstream, a class
    that another one precedes backs not even its implicit name if it comes later in `classes`.
    """
    by_resource: dict[str, DeviceClass] = {}
    for each in classes:
        name = each.spec.extended_resource_name
        other = by_resource.get(name) if name is not None else None
        if other is not None and _rank(each) >= _rank(other):
            continue
        if name is not None:
            by_resource[name] = each
        by_resource[IMPLICIT_PREFIX + each.metadata.name] = each
    return by_resource


def _rank(device_class: DeviceClass) -> tuple[int, str]:
    return -parse_microseconds(device_class.metadata.creation_timestamp), device_class.metadata.name


def find_backed(pod: PodInfo, backed: Backed) -> dict[str, int]:
    """Return the pod's requests, by resource, of all extended resources that device classes may back.

    The result is empty unless `backed` has one of these resources.
    """
    requests = {name: amount for name, amount in pod.requests.items() if amount and may_be_backed(name)}
    return requests if any(name in backed for name in requests) else {}


def build_requests(
    pod: PodInfo, resources: Iterable[str], backed: Backed
) -> tuple[list[DeviceRequest], list[RequestMapping]]:
    """Return the claim's requests for these extended resources, and which request serves which container.

    An init container reuses the devices of containers that start after it. If several init containers need more devices
    than that, they share one request, the largest of them.
    """
    containers = pod.containers
    initial = len(pod.pod.spec.init_containers or ())
    is_short = [i < initial and c.restart_policy != "Always" for i, c in enumerate(containers)]
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        device_class = backed.get(resource)
        if device_class is None:
            continue
        long_lived: list[DeviceRequest | None] = [None] * len(containers)
        for i, container in enumerate(containers):
            if not is_short[i]:
                long_lived[i], own_mapping = _build_request(i, container, resource, device_class, ())
                mappings += own_mapping
        largest, added, names = _build_short_lived(containers, is_short, resource, device_class, long_lived)
        if largest is not None:
            requests.append(largest)
            names -= {largest.name}
            added = [m._replace(request=largest.name) if m.request in names else m for m in added]
        mappings += added
        requests += [request for request in long_lived if request is not None]
    return sorted(requests, key=lambda request: request.name), mappings


def _build_short_lived(
    containers: Sequence[Container],
    is_short: Sequence[bool],
    resource: str,
    device_class: DeviceClass,
    long_lived: Sequence[DeviceRequest | None],
) -> tuple[DeviceRequest | None, list[RequestMapping], set[str]]:
    """Return the largest additional request of an init container, the mappings of all, and the names of all requests.

    Sidecars do not count here. The request is None if no init container needs devices besides those in `long_lived`.
    """
    largest: DeviceRequest | None = None
    mappings: list[RequestMapping] = []
    names: set[str] = set()
    for i, container in enumerate(containers):
        if not is_short[i]:
            continue
        request, own_mapping = _build_request(i, container, resource, device_class, long_lived[i:])
        mappings += own_mapping
        if request is not None:
            names.add(request.name)
            if largest is None or _count(largest) < _count(request):
                largest = request
    return largest, mappings, names


def _build_request(
    index: int,
    container: Container,
    resource: str,
    device_class: DeviceClass,
    reusable: Iterable[DeviceRequest | None],
) -> tuple[DeviceRequest | None, list[RequestMapping]]:
    """Return a request for the devices that the container needs besides `reusable` requests, or None, and its mappings.

    A mapping names a request, new or reused, that serves the container. There are none if the container does not
    request the resource, or not a whole number of it.
    """
    amounts = (container.resources.requests if container.resources is not None else None) or {}
    if resource not in amounts:
        return None, []
    nanos = quantity.parse(amounts[resource])
    wanted = nanos // quantity.NANO
    if nanos % quantity.NANO or not wanted:
        return None, []
    mappings, reused = [], 0
    for request in reusable:
        if request is not None:
            reused += _count(request)
            mappings.append(RequestMapping(container.name, resource, request.name))
            if reused >= wanted:
                return None, mappings
    name = f"container-{index}-request-{sorted(amounts).index(resource)}"
    exactly = ExactDeviceRequest(device_class_name=device_class.metadata.name, count=wanted - reused)
    return DeviceRequest(name=name, exactly=exactly), [*mappings, RequestMapping(container.name, resource, name)]


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None
    return request.exactly.count
