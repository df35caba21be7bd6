"""The defaults that the API server sets in a pod, as far as scheduling reads them.

Without what admission adds (the priority of a class, tolerations, the overhead of a runtime class), since a manifest
does not contain the cluster's admission configuration. `cluster` sets the namespace and the UID. Source:
pkg/apis/core/v1/defaults.go v1.36. A pod that has its defaults is returned equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from scheduler.engine.objects import requests
from scheduler.engine.objects.requests import CPU, MEMORY
from scheduler.engine.objects.types import Amounts, Container, Pod, PodSpec, ResourceRequirements

DEFAULT_SCHEDULER: Final = "default-scheduler"
_HUGE_PAGES: Final = "hugepages-"


def apply_pod_defaults(pod: Pod) -> Pod:
    """Return the pod with the defaults that the API server would set. Its quantities must be valid."""
    spec = replace(pod.spec, scheduler_name=pod.spec.scheduler_name or DEFAULT_SCHEDULER)
    spec = _each_container(spec, _requests_from_limits)
    if spec.host_network:
        spec = _each_container(spec, _host_ports)
    return replace(pod, spec=replace(spec, resources=_pod_level(replace(pod, spec=spec))))


def _each_container(spec: PodSpec, change: Callable[[Container], Container]) -> PodSpec:
    def changed(containers: Iterable[Container] | None) -> list[Container] | None:
        return None if containers is None else [change(container) for container in containers]

    return replace(spec, containers=changed(spec.containers), init_containers=changed(spec.init_containers))


def _requests_from_limits(container: Container) -> Container:
    resources = container.resources
    if resources is None or not resources.limits:
        return container
    return replace(container, resources=replace(resources, requests={**resources.limits, **(resources.requests or {})}))


def _host_ports(container: Container) -> Container:
    """Return the container with each missing host port set to the container port, as on the host network."""
    ports = [replace(p, host_port=p.host_port or p.container_port) for p in container.ports or ()]
    return replace(container, ports=ports) if ports else container


def _pod_level(pod: Pod) -> ResourceRequirements | None:
    """Return the pod's spec.resources with missing requests filled in, or None if there are none.

    Missing requests are taken from the sum over the containers, then from the limits in spec.resources.
    """
    own = pod.spec.resources
    if own is None or not (own.limits or own.requests):
        return own
    asked = _by_containers(pod)
    limits, wanted = dict(own.limits or {}), dict(own.requests or {})
    for resource in asked.keys() - wanted.keys():
        if resource.startswith(_HUGE_PAGES):
            limits.setdefault(resource, asked[resource])
    if limits:
        for resource in (CPU, MEMORY):
            if resource in asked:
                wanted.setdefault(resource, asked[resource])
        for resource, limit in limits.items():
            if resource in (CPU, MEMORY) or resource.startswith(_HUGE_PAGES):
                wanted.setdefault(resource, limit)
    return replace(own, limits=limits or None, requests=wanted or None)


def _by_containers(pod: Pod) -> Amounts:
    together = requests.compute_pod_requests(replace(pod, spec=replace(pod.spec, resources=None, overhead=None)))
    return {resource: f"{amount}m" if resource == CPU else amount for resource, amount in together.items()}
