"""Say which containers make up a pod's request for a resource, for the reason that a node has too little of it.

The rule by which they add up is that of `requests`: containers and sidecars run beside each other, an init container
runs alone beside the sidecars started before it, and pod-level resources replace what the containers request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from herodotus_record.units import format_requested
from scheduler.engine.objects import quantity
from scheduler.engine.objects.requests import CPU, is_at_pod_level
from scheduler.engine.objects.types import Amounts, Container, Pod

MAX_PARTS: Final = 4  # containers that are named; the others are summed up
_SIDECAR: Final = "Always"  # restartPolicy of an init container that stays


class _Part(NamedTuple):
    """A part of a request: what asks for it, and how much, in base units."""

    name: str
    amount: int


def describe_parts(pod: Pod, resources: Collection[str]) -> dict[str, str]:
    """Return, by resource, which containers make up the pod's request as text, such as `main 8 + sidecar side 8`.

    The largest parts come first. A text is "" if the pod has only one container, whose request is the pod's. Each
    container's requests are read once, because a user may write thousands of resources and of containers.
    """
    running = _group_by_resource(pod.spec.containers, resources)
    init = _group_by_resource(pod.spec.init_containers, resources)
    return {resource: _describe(pod, resource, running[resource], init[resource]) for resource in resources}


def _group_by_resource(
    containers: Iterable[Container] | None, resources: Collection[str]
) -> dict[str, list[Container]]:
    """Return for each of the resources the containers that request it, in their order."""
    requesting: dict[str, list[Container]] = {resource: [] for resource in resources}
    for container in containers or ():
        for resource in _requests(container) or ():
            if resource in requesting:
                requesting[resource].append(container)
    return requesting


def _describe(pod: Pod, resource: str, running: Sequence[Container], init: Sequence[Container]) -> str:
    """Return the text for one resource, which the containers `running` and the init containers `init` request."""
    spec = pod.spec
    parts = [_Part(f"sidecar {c.name}", _amount(_requests(c), resource)) for c in init if _is_sidecar(c)]
    parts += [_Part(c.name, _amount(_requests(c), resource)) for c in running]
    step = _find_largest_step(resource, init)
    if sum(part.amount for part in step) > sum(part.amount for part in parts):
        parts = step
    at_pod_level = is_at_pod_level(pod, resource)
    if at_pod_level:
        requests = spec.resources.requests if spec.resources else None
        parts = [_Part("spec.resources of the pod", _amount(requests, resource))]
    overhead = _Part("overhead of the runtime class", _amount(spec.overhead, resource))
    parts = sorted((part for part in parts if part.amount), key=lambda part: -part.amount)
    if len(parts) > MAX_PARTS:
        rest = parts[MAX_PARTS - 1 :]
        parts = [*parts[: MAX_PARTS - 1], _Part(f"{len(rest)} other containers", sum(part.amount for part in rest))]
    if overhead.amount:
        parts.append(overhead)
    if len(parts) == 1:
        is_alone = len(spec.containers or ()) + len(spec.init_containers or ()) == 1 and not at_pod_level
        name = parts[0].name
        return "" if is_alone else name if " " in name else f"container {name}"
    return " + ".join(f"{part.name} {format_requested(resource, part.amount)}" for part in parts)


def _find_largest_step(resource: str, containers: Iterable[Container]) -> list[_Part]:
    """Return the parts of the largest init step: an init container and the sidecars that start before it.

    `containers` are the init containers that request the resource. Returns an empty list if none of them ends.
    """
    sidecars: list[_Part] = []
    largest: tuple[int, _Part, int] | None = None  # the sum, the init container, and the number of sidecars before it
    beside = 0  # what the sidecars so far request
    for container in containers:
        amount = _amount(_requests(container), resource)
        if _is_sidecar(container):
            sidecars.append(_Part(f"sidecar {container.name}", amount))
            beside += amount
        elif largest is None or amount + beside > largest[0]:
            largest = amount + beside, _Part(f"init container {container.name}", amount), len(sidecars)
    return [] if largest is None else [largest[1], *sidecars[: largest[2]]]


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == _SIDECAR


def _requests(container: Container) -> Amounts | None:
    return container.resources.requests if container.resources else None


def _amount(amounts: Amounts | None, resource: str) -> int:
    """Return the amount of the resource in base units, 0 if `amounts` is None or lacks the resource."""
    parsed = quantity.parse((amounts or {}).get(resource, 0))
    return quantity.milli(parsed) if resource == CPU else quantity.value(parsed)
