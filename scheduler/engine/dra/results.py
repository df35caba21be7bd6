"""The allocation of a claim as its status holds it.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go v1.36 (Allocate,
createNodeSelector).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scheduler.engine.dra.features import AllocatorFeatures
from scheduler.engine.dra.pools import SlicedDevice
from scheduler.engine.dra.requests import AllocatableRequest, AllocationError
from scheduler.engine.objects import quantity
from scheduler.engine.objects.resource_api import (
    AllocationResult,
    Config,
    DeviceResult,
    DeviceResults,
    ResourceClaim,
)
from scheduler.engine.objects.selectors import NAME_FIELD
from scheduler.engine.objects.types import Node, NodeSelector, NodeSelectorTerm, Requirement

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"  # sources of configuration


@dataclass
class ChosenDevice:
    """A device that was chosen for a request, with what is consumed of its capacities; None if it is not shared."""

    request: AllocatableRequest
    device: SlicedDevice
    consumed: Mapping[str, str | int | float] | None

    @cached_property
    def consumed_amounts(self) -> dict[str, int]:
        """The amount that is consumed of each capacity, in 10^-9 units; empty for a device that is not shared."""
        return {name: quantity.parse(text) for name, text in (self.consumed or {}).items()}


def build_allocation(
    claim: ResourceClaim,
    chosen: Sequence[ChosenDevice],
    requests: Sequence[AllocatableRequest],
    node: Node,
    features: AllocatorFeatures,
) -> AllocationResult:
    """Return the allocation of a claim on a node.

    `requests` are the claim's requests, or their chosen subrequests. The result of a shared device has an empty share
    ID. Raises AllocationError if a slice has an unsupported node selector.
    """
    config = [*_config_of_classes(requests), *_config_of_claim(claim, requests)]
    return AllocationResult(
        devices=DeviceResults(results=[_build_result(each, features) for each in chosen], config=config or None),
        node_selector=_build_node_selector(claim, chosen, node.metadata.name, bind_to_node=not features.is_stable),
    )


def _build_result(chosen: ChosenDevice, features: AllocatorFeatures) -> DeviceResult:
    driver, pool, name = chosen.device.id
    device = chosen.device.device
    return DeviceResult(
        request=chosen.request.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if chosen.request.admin_access else None,
        tolerations=chosen.request.spec.tolerations,
        share_id=None if chosen.consumed is None else "",
        consumed_capacity=dict(chosen.consumed) if chosen.consumed else None,
        binding_conditions=device.binding_conditions if features.binding_conditions else None,
        binding_failure_conditions=device.binding_failure_conditions if features.binding_conditions else None,
    )


def _config_of_classes(requests: Sequence[AllocatableRequest]) -> Config:
    """Return the configurations of the requests' device classes; each lists all chosen requests of its class."""
    names: dict[str, list[str]] = {}
    configs: dict[str, Config] = {}
    for request in requests:
        device_class = request.device_class
        if device_class is not None:
            name = device_class.metadata.name
            names.setdefault(name, []).append(request.full_name)
            configs[name] = device_class.spec.config or []
    return [
        {"source": FROM_CLASS, "requests": names[name], **each} for name, config in configs.items() for each in config
    ]


def _config_of_claim(claim: ResourceClaim, requests: Iterable[AllocatableRequest]) -> Iterator[dict[str, Any]]:
    """Yield the claim's configurations that apply to all requests or to chosen ones.

    As upstream, a configuration is repeated for each chosen request that it lists.
    """
    names = list(requests)
    for config in claim.spec.devices.config or ():
        named = config.get("requests") or ()
        if not named:
            yield {"source": FROM_CLAIM, **config}
        for request in names if named else ():
            if request.base_name in named or request.full_name in named:
                yield {"source": FROM_CLAIM, **config}


def _build_node_selector(
    claim: ResourceClaim, chosen: Iterable[ChosenDevice], node: str, *, bind_to_node: bool
) -> NodeSelector | None:
    """Return a selector of the nodes where all chosen devices can be used, or None if these are all nodes.

    `bind_to_node` says whether a device with bindsToNode restricts the claim to `node`. Raises AllocationError for a
    slice's node selector with several terms.
    """
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for each in chosen:
        spec, device = each.device.slice.spec, each.device.device
        owner = device if spec.per_device_node_selection else spec
        if owner.node_name is not None or (bind_to_node and device.binds_to_node):
            return NodeSelector(
                node_selector_terms=[
                    NodeSelectorTerm(match_fields=[Requirement(key=NAME_FIELD, operator="In", values=[node])])
                ]
            )
        terms = (owner.node_selector.node_selector_terms if owner.node_selector is not None else None) or ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=fields or None, match_expressions=expressions or None)
    return NodeSelector(node_selector_terms=[term])


def _add_new(requirements: Iterable[Requirement] | None, present: list[Requirement]) -> None:
    for requirement in requirements or ():
        if not any(_is_same(requirement, other) for other in present):
            present.append(requirement)


def _is_same(one: Requirement, other: Requirement) -> bool:
    same_values = set(one.values or ()) == set(other.values or ())
    return one.key == other.key and one.operator == other.operator and same_values
