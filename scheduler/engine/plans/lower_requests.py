"""Lower requests with which pods fit: for each resource the largest amount, found by bisection with the engine.

Amounts are rounded as those of `engine.suggestions`, so that both name the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from herodotus_record.units import format_exact_quantity
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.requests import CPU, MEMORY, STORAGE
from scheduler.engine.objects.types import Container, ResourceRequirements
from scheduler.engine.plans.world import World
from scheduler.engine.suggestions.changes import round_request

# Fewer of an extended resource, such as GPUs, are another job: an owner would not call it a smaller request.
_LOWERED: Final = (CPU, MEMORY, STORAGE)
_SMALLEST: Final = {CPU: 10, MEMORY: 1 << 20, STORAGE: 1 << 20}  # the precision of an answer, in base units


@dataclass(frozen=True)
class LowerRequest:
    """One request of one container that is lower, and the pods with it. `present` and `to` are as in a manifest."""

    container: str
    resource: str
    present: str
    to: str
    share: float  # of the present request
    pods: list[PodInfo]


def find_lower_requests(world: World, pods: Sequence[PodInfo]) -> Iterator[LowerRequest]:
    """Yield for each resource the largest request of the pods' largest container with which all of them fit.

    Requests are rounded down. The resource that must be lowered least comes first. Yield nothing unless the pods have
    one spec.
    """
    if len({pod.spec_digest for pod in pods}) != 1:
        return
    found = []
    for resource in _LOWERED:
        lowered = _lower(world, pods, resource)
        if lowered is not None:
            found.append(lowered)
    yield from sorted(found, key=lambda each: -each.share)


def _lower(world: World, pods: Sequence[PodInfo], resource: str) -> LowerRequest | None:
    largest = _find_largest(pods[0], resource)
    if largest is None:
        return None
    name, present = largest
    step = _SMALLEST[resource]
    low, high = 0, -(-present // step)  # in steps: `low` fits, `high` does not
    if not _fit(world, _change(pods, name, resource, step)):
        return None
    low = 1
    while high - low > 1:
        middle = (low + high) // 2
        if _fit(world, _change(pods, name, resource, middle * step)):
            low = middle
        else:
            high = middle
    most = low * step
    amount = round_request(resource, most)  # as the suggestion for the same pod
    if amount != most and not (amount and _fit(world, _change(pods, name, resource, amount))):
        amount = most
    changed = _change(pods, name, resource, amount)
    before, after = (format_exact_quantity(resource, each) for each in (present, amount))
    return LowerRequest(name, resource, before, after, amount / present, changed)


def _find_largest(pod: PodInfo, resource: str) -> tuple[str, int] | None:
    """Return the container with the largest request of a resource, and the request in base units."""
    amounts = {}
    for container in pod.pod.spec.containers or ():
        alone = msgspec.structs.replace(pod.pod.spec, containers=[container], init_containers=None, overhead=None)
        amounts[container.name] = PodInfo(msgspec.structs.replace(pod.pod, spec=alone)).requests.get(resource, 0)
    name = max(amounts, key=lambda each: amounts[each], default="")
    return (name, amounts[name]) if name and amounts[name] else None


def _change(pods: Sequence[PodInfo], name: str, resource: str, amount: int) -> list[PodInfo]:
    """Return the pods with another request of one container."""

    def change(container: Container) -> Container:
        if container.name != name:
            return container
        resources = container.resources or ResourceRequirements()
        requests = {**(resources.requests or {}), resource: format_exact_quantity(resource, amount)}
        return msgspec.structs.replace(container, resources=msgspec.structs.replace(resources, requests=requests))

    def change_pod(pod: PodInfo) -> PodInfo:
        containers = [change(container) for container in pod.pod.spec.containers or ()]
        spec = msgspec.structs.replace(pod.pod.spec, containers=containers)
        return PodInfo(msgspec.structs.replace(pod.pod, spec=spec))

    return [change_pod(pod) for pod in pods]


def _fit(world: World, pods: Sequence[PodInfo]) -> bool:
    with world.tried():
        for pod in pods:
            mask, state = world.find_feasible(pod)
            slots = np.flatnonzero(mask)
            if not len(slots):
                return False
            world.place(pod, world.nodes.names[int(slots[0])], state)
    return True
