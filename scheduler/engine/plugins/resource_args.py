"""The argument `resources` of NodeResourcesFit and NodeResourcesBalancedAllocation."""

from __future__ import annotations

import msgspec

from scheduler.engine.objects.requests import CPU, MEMORY


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A resource that a plugin scores, with its weight in the score. A weight of 0 means 1."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        if self.weight == 0:
            msgspec.structs.force_setattr(self, "weight", 1)


DEFAULT_RESOURCES = (ResourceSpec(CPU, 1), ResourceSpec(MEMORY, 1))
