"""Pods and nodes as agents read them: what is asked for, what there is, annotations.

Owns: decoding what schedulers send. Does not own: the messages around it (`scheduler.extenders.wire`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from scheduler.objects import quantity

Amounts = dict[str, str | int | float]

CPU: Final = "cpu"
POD_LEVEL: Final = ("cpu", "memory")  # what spec.resources may say of the pod as a whole


class _Struct(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of all: camelCase on the wire; what is not named here is skipped."""


class Metadata(_Struct, frozen=True):
    """ObjectMeta."""

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


class Terminated(_Struct, frozen=True):
    """state.terminated: how a container ended."""

    exit_code: int = 0
    finished_at: str | None = None


class _Running(_Struct, frozen=True):
    started_at: str | None = None


class ContainerState(_Struct, frozen=True):
    """What a container does now, or did before."""

    running: _Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Struct, frozen=True):
    """status.containerStatuses[]."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class _PodStatus(_Struct, frozen=True):
    phase: str = ""
    container_statuses: list[ContainerStatus] | None = None


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


class Pod(_Struct, frozen=True):
    """A pod: the one that is to be placed, or one that is on a node."""

    metadata: Metadata = Metadata()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def name(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def labels(self) -> Mapping[str, str]:
        """metadata.labels."""
        return self.metadata.labels or {}

    def demand(self, resource: str) -> int:
        """What it requests, in base units (cpu in milli): the most that it holds at any time, as schedulers count it.

        Sidecars count with the containers and with the init containers after them. AmountError.
        """
        own = self.spec.resources and self.spec.resources.requests
        if own and resource in own and resource in POD_LEVEL:
            return in_base_units(resource, own[resource]) + self._overhead(resource)
        sidecars = most = 0
        for container in self.spec.init_containers or ():
            if container.restart_policy == "Always":
                sidecars += _asked(container, resource)
                most = max(most, sidecars)
            else:
                most = max(most, sidecars + _asked(container, resource))
        return max(most, sidecars + self.running_demand(resource)) + self._overhead(resource)

    def running_demand(self, resource: str) -> int:
        """What its containers request together."""
        return sum(_asked(c, resource) for c in self.spec.containers or ())

    def _overhead(self, resource: str) -> int:
        return in_base_units(resource, (self.spec.overhead or {}).get(resource, 0))


class Node(_Struct, frozen=True, dict=True):
    """A node that it might be placed on."""

    metadata: Metadata = Metadata()
    status: _NodeStatus = _NodeStatus()

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.metadata.name

    @property
    def annotations(self) -> Mapping[str, str]:
        """metadata.annotations."""
        return self.metadata.annotations or {}

    @property
    def address(self) -> str:
        """Its InternalIP; "" where it has none."""
        return next((a.address for a in self.status.addresses or () if a.type == "InternalIP"), "")

    @property
    def ready(self) -> bool:
        """Condition Ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())

    @cached_property
    def _amounts(self) -> dict[str, int]:
        return {}

    def allocatable(self, resource: str) -> int:
        """What pods may have of it, in base units (cpu in milli); 0 where it has none. AmountError."""
        known = self._amounts.get(resource)
        if known is None:
            known = self._amounts[resource] = in_base_units(resource, (self.status.allocatable or {}).get(resource, 0))
        return known


class AmountError(ValueError):
    """Something that should be a quantity is none."""


def in_base_units(resource: str, amount: str | int | float) -> int:
    """A quantity as an integer: cpu in milli, everything else whole. AmountError when it is none."""
    try:
        nanos = quantity.parse(amount)
    except ValueError as e:
        raise AmountError(f"{resource}: {e}") from e
    return quantity.milli(nanos) if resource == CPU else quantity.value(nanos)


def decode_nodes(raws: Sequence[Any]) -> list[Node]:
    """Nodes from their JSON. msgspec.ValidationError or msgspec.DecodeError when one is none."""
    decoder = msgspec.json.Decoder(Node)
    return [decoder.decode(raw) for raw in raws]


def _asked(container: _Container, resource: str) -> int:
    requests = (container.resources and container.resources.requests) or {}
    return in_base_units(resource, requests.get(resource, 0))
