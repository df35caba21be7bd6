"""The state of one scheduling attempt of a pod with resource claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.columns import NodeColumns
from scheduler.engine.dra.allocator import Allocator
from scheduler.engine.dra.extended_resources import RequestMapping
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.resource_api import MAX_SUBREQUESTS, AllocationResult, ConsumerReference, ResourceClaim
from scheduler.engine.plugins.dynamic_resources.claims import is_reserved_for_pod, name_consumer
from scheduler.engine.plugins.dynamic_resources.devices import PendingAllocation


@dataclass(frozen=True)
class NodeAllocation:
    """What the pod's unallocated claims would get on a node, in the order of the claims.

    `extended_claim` is the claim for the extended resources that devices of this node serve, with `mappings` of
    containers to its requests. `score` is the raw score of the node.
    """

    results: Sequence[AllocationResult]
    extended_claim: ResourceClaim | None = None
    mappings: Sequence[RequestMapping] = ()
    score: int = 0


@dataclass
class ClaimsOfAttempt:
    """The claims of the pod, and what the attempt found out about them.

    `consumers` are what the claims are reserved for: the pod or, with `of_groups`, its group for claims that the group
    names. `shared` holds by index the allocations that earlier pods of the group made; these claims count as allocated.
    `extended` is the index of the claim for extended resources, which comes last. `extended_requests` holds the pod's
    requests of extended resources. `allocator` is None if every claim is allocated. `unavailable` holds the indices of
    allocated claims that some node cannot use. `writes` names what PostFilter changes, as VERB NAMESPACE/NAME; `freed`
    is the claim that it deallocates.
    """

    claims: Sequence[ResourceClaim] = ()
    consumers: Sequence[ConsumerReference] = ()
    of_groups: bool = False
    shared: dict[int, PendingAllocation] = field(default_factory=dict)
    extended: int | None = None
    extended_requests: Mapping[str, int] = field(default_factory=dict)
    allocator: Allocator | None = None
    nodes: Mapping[str, NodeAllocation] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)
    writes: list[str] = field(default_factory=list)
    freed: ResourceClaim | None = None

    def find_consumer(self, number: int, pod: PodInfo) -> ConsumerReference:
        """Return a reference to the pod, or to the pod group, for which the claim with this index is reserved."""
        return self.consumers[number] if number < len(self.consumers) else name_consumer(pod)

    def is_reserved(self, claim: ResourceClaim, pod: PodInfo) -> bool:
        """Return whether a claim is reserved for the pod or, with `of_groups`, for the pod's group."""
        return is_reserved_for_pod(pod, claim, of_groups=self.of_groups)

    @property
    def has_user_claims(self) -> bool:
        """Whether the pod's spec names a claim; the claim for extended resources does not count."""
        return len(self.claims) > (0 if self.extended is None else 1)

    def to_allocate(self) -> Iterator[int]:
        """Yield the indices of the claims without an allocation."""
        return (i for i, claim in enumerate(self.claims) if claim.status.allocation is None)

    @cached_property
    def has_alternatives(self) -> bool:
        """Whether some claim has a request with subrequests (`firstAvailable`), of which one is chosen."""
        requests = (r for claim in self.claims for r in claim.spec.devices.requests or ())
        return any(request.first_available for request in requests)

    def compute_score(self, results: Sequence[AllocationResult]) -> int:
        """Return the raw score of a node with the allocations `results`, one for each claim that had none.

        Each chosen subrequest adds 8 minus its index in the `firstAvailable` list of its request.
        """
        if not self.has_alternatives:
            return 0
        remaining, score = iter(results), 0
        for claim in self.claims:
            allocation = claim.status.allocation or next(remaining)
            chosen = {result.request for result in allocation.devices.results or ()}
            for request in claim.spec.devices.requests or ():
                for i, sub in enumerate(request.first_available or () if request.exactly is None else ()):
                    if f"{request.name}/{sub.name}" in chosen:
                        score += MAX_SUBREQUESTS - i
        return score

    def changed_slots(self, previous: Any, nodes: NodeColumns) -> NDArray[np.intp] | None:
        """Return None (any node may differ), because devices may have been allocated or freed on any node."""
        return None
