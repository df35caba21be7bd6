"""Pods and nodes with the fields that agents read: requests, allocatable amounts, annotations.

Owns: decoding the JSON of schedulers and of the API server. Does not own: the messages that contain it
(`scheduler.extenders.wire`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from scheduler.engine.objects import quantity

Amounts = dict[str, str | int | float]

CPU: Final = "cpu"
POD_LEVEL: Final = ("cpu", "memory")  # resources that a pod may request in spec.resources, as a whole


class _Struct(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base class of decoded Kubernetes objects. Keys in JSON are camelCase; keys without a field are ignored."""


class ObjectMeta(_Struct, frozen=True):
    """The fields of an object's metadata that agents read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Resources(_Struct, frozen=True):
    requests: Amounts | None = None


class _Container(_Struct, frozen=True):
    resources: _Resources | None = None
    restart_policy: str = ""


class _PodSpec(_Struct, frozen=True):
    node_name: str = ""
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Amounts | None = None
    resources: _Resources | None = None


class TerminatedState(_Struct, frozen=True):
    """The end of a container's run (`state.terminated`)."""

    exit_code: int = 0
    finished_at: str | None = None


class _Running(_Struct, frozen=True):
    started_at: str | None = None


class ContainerState(_Struct, frozen=True):
    """The current state of a container, or its previous one."""

    running: _Running | None = None
    terminated: TerminatedState | None = None


class ContainerStatusView(_Struct, frozen=True):
    """An entry of `status.containerStatuses`."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class _PodStatus(_Struct, frozen=True):
    phase: str = ""
    container_statuses: list[ContainerStatusView] | None = None


class _Address(_Struct, frozen=True):
    type: str = ""
    address: str = ""


class _Condition(_Struct, frozen=True):
    type: str = ""
    status: str = ""


class _NodeStatus(_Struct, frozen=True):
    allocatable: Amounts | None = None
    addresses: list[_Address] | None = None
    conditions: list[_Condition] | None = None


class PodView(_Struct, frozen=True):
    """The fields of a pod that agents read; the pod may wait for scheduling or be on a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def name(self) -> str:
        """The pod as NAMESPACE/NAME."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels, {} if the pod has none."""
        return self.metadata.labels or {}

    def demand(self, resource: str) -> int:
        """Return the pod's effective request of a resource, as schedulers compute it, in base units (cpu in milli).

        Sidecars count together with the containers and with the init containers that follow them. The result is limited
        to an int64. Raises AmountError if a quantity is invalid.
        """
        return _clamp_to_int64(self._demand(resource))

    def _demand(self, resource: str) -> int:
        own = self.spec.resources and self.spec.resources.requests
        if own and resource in own and resource in POD_LEVEL:
            return in_base_units(resource, own[resource]) + self._overhead(resource)
        sidecars = most = 0
        for container in self.spec.init_containers or ():
            if container.restart_policy == "Always":
                sidecars += _container_request(container, resource)
                most = max(most, sidecars)
            else:
                most = max(most, sidecars + _container_request(container, resource))
        return max(most, sidecars + self._running(resource)) + self._overhead(resource)

    def running_demand(self, resource: str) -> int:
        """Return the sum of the containers' requests of a resource, in base units (cpu in milli).

        Init containers and overhead do not count. The result is limited to an int64. Raises AmountError if a quantity
        is invalid.
        """
        return _clamp_to_int64(self._running(resource))

    def _running(self, resource: str) -> int:
        return sum(_container_request(c, resource) for c in self.spec.containers or ())

    def _overhead(self, resource: str) -> int:
        return in_base_units(resource, (self.spec.overhead or {}).get(resource, 0))


class NodeView(_Struct, frozen=True, dict=True):
    """The fields of a node that agents read."""

    metadata: ObjectMeta = ObjectMeta()
    status: _NodeStatus = _NodeStatus()

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.metadata.name

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, {} if the node has none."""
        return self.metadata.annotations or {}

    @property
    def address(self) -> str:
        """The node's InternalIP, "" if it has none."""
        return next((a.address for a in self.status.addresses or () if a.type == "InternalIP"), "")

    @property
    def ready(self) -> bool:
        """Whether the condition Ready is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())

    @cached_property
    def _amounts(self) -> dict[str, int]:
        return {}

    def allocatable(self, resource: str) -> int:
        """Return the node's allocatable amount of a resource in base units (cpu in milli), or 0 if it has none.

        Raises AmountError if the quantity is invalid.
        """
        known = self._amounts.get(resource)
        if known is None:
            known = self._amounts[resource] = in_base_units(resource, (self.status.allocatable or {}).get(resource, 0))
        return known


class AmountError(ValueError):
    """An amount of a resource is not a valid Kubernetes quantity."""


def in_base_units(resource: str, amount: str | int | float) -> int:
    """Return a quantity as an integer, cpu in milli and all else in whole units. Raises AmountError."""
    try:
        return quantity.scaled_value(amount, quantity.MILLI if resource == CPU else quantity.WHOLE)
    except ValueError as e:
        raise AmountError(f"{resource}: {e}") from e


def _clamp_to_int64(amount: int) -> int:
    return max(-quantity.INT64_MAX, min(amount, quantity.INT64_MAX))


def decode_nodes(raws: Sequence[Any]) -> list[NodeView]:
    """Decode Node objects from JSON. Raises msgspec.ValidationError or msgspec.DecodeError if one is invalid."""
    decoder = msgspec.json.Decoder(NodeView)
    return [decoder.decode(raw) for raw in raws]


def _container_request(container: _Container, resource: str) -> int:
    requests = (container.resources and container.resources.requests) or {}
    return in_base_units(resource, requests.get(resource, 0))
