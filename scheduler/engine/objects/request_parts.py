"""Say which containers make up a pod's request for a resource, for the reason that a node has too little of it.

The rule by which they add up is that of `requests`: containers and sidecars run beside each other, an init container
runs alone beside the sidecars started before it, and pod-level resources replace what the containers request.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def describe_parts(pod: Pod, resource: str) -> str:
    """Return as text which containers make up the pod's request for a resource, such as `main 8 + sidecar side 8`.

    The largest parts come first. Returns "" if the pod has only one container, whose request is the pod's.
    """
    spec = pod.spec
    running = [_Part(c.name, _amount(_requests(c), resource)) for c in spec.containers or ()]
    parts, init = list(_list_sidecars(pod, resource)) + running, _find_largest_step(pod, resource)
    if sum(part.amount for part in init) > sum(part.amount for part in parts):
        parts = init
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


def _list_sidecars(pod: Pod, resource: str) -> Iterator[_Part]:
    for container in pod.spec.init_containers or ():
        if container.restart_policy == _SIDECAR:
            yield _Part(f"sidecar {container.name}", _amount(_requests(container), resource))


def _find_largest_step(pod: Pod, resource: str) -> list[_Part]:
    """Return the parts of the largest init step: an init container and the sidecars that start before it.

    Returns an empty list if no init container requests the resource.
    """
    largest: list[_Part] = []
    sidecars: list[_Part] = []
    for container in pod.spec.init_containers or ():
        amount = _amount(_requests(container), resource)
        if container.restart_policy == _SIDECAR:
            sidecars.append(_Part(f"sidecar {container.name}", amount))
            continue
        step = [_Part(f"init container {container.name}", amount), *sidecars]
        if sum(part.amount for part in step) > sum(part.amount for part in largest):
            largest = step
    return largest


def _requests(container: Container) -> Amounts | None:
    return container.resources.requests if container.resources else None


def _amount(amounts: Amounts | None, resource: str) -> int:
    """Return the amount of the resource in base units, 0 if `amounts` is None or lacks the resource."""
    parsed = quantity.parse((amounts or {}).get(resource, 0))
    return quantity.milli(parsed) if resource == CPU else quantity.value(parsed)
