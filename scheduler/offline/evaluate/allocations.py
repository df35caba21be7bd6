"""The devices that a pod's claims would get on each feasible node, as JSON in the format of tests/golden/README.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scheduler.engine.objects.resource_api import DeviceResult, ResourceClaim, to_json
from scheduler.engine.plugins.dynamic_resources.attempt import ClaimsOfAttempt, NodeAllocation

Json = dict[str, Any]


def build_allocations(attempt: ClaimsOfAttempt, nodes: Iterable[str]) -> Json:
    """Return the allocations on the feasible nodes, their node selectors, and the requests for extended resources."""
    allocations, selectors, requests = {}, {}, {}
    consumes = _index_counters(attempt)
    for node in nodes:
        found = attempt.nodes.get(node, NodeAllocation(()))
        claims = [attempt.claims[i] for i in attempt.to_allocate()]
        pairs = list(zip(claims, found.results, strict=False))
        allocations[node] = [
            _describe(claim, result, consumes) for claim, got in pairs for result in got.devices.results or ()
        ]
        selectors[node] = {
            claim.metadata.name: None if got.node_selector is None else to_json(got.node_selector)
            for claim, got in pairs
        }
        if found.extended_claim is not None and found.extended_claim.spec.devices.requests:
            requests[node] = [to_json(request) for request in found.extended_claim.spec.devices.requests]
    outcome: Json = {"allocations": allocations, "allocationNodeSelectors": selectors}
    return {key: value for key, value in {**outcome, "extendedResourceRequests": requests}.items() if value}


def _describe(claim: ResourceClaim, result: DeviceResult, consumes: dict[tuple[str, str, str], Json]) -> Json:
    described = {"claim": claim.metadata.name, **to_json(result)}
    described.pop("shareID", None)
    if result.share_id is not None:
        described["shared"] = True
    described.pop("bindingFailureConditions", None)
    counters = consumes.get((result.driver, result.pool, result.device))
    return described | ({"consumesCounters": counters} if counters else {})


def _index_counters(attempt: ClaimsOfAttempt) -> dict[tuple[str, str, str], Any]:
    if attempt.allocator is None:
        return {}
    devices = (device for each in attempt.allocator.slices for device in each.devices)
    return {
        device.id: to_json(device.device.consumes_counters) for device in devices if device.device.consumes_counters
    }
