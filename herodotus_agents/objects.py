"""The Node and Pod objects of this package, with fields that the scheduling framework's objects do not have.

Owns: decoding the JSON of schedulers and of the API server. Does not own: the messages that contain it
(`scheduler.extenders.wire`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from herodotus_record.typed_decoding import json_decoder
from scheduler.engine.columns import NodeObjectColumns
from scheduler.engine.objects import types
from scheduler.engine.objects.types import ContainerImage, Metadata, Struct


class TerminatedState(Struct, frozen=True):
    """The end of a container's run (`state.terminated`)."""

    exit_code: int = 0
    finished_at: str | None = None


class _Running(Struct, frozen=True):
    started_at: str | None = None


class ContainerState(Struct, frozen=True):
    """The current state of a container, or its previous one."""

    running: _Running | None = None
    terminated: TerminatedState | None = None


class ContainerStatusView(Struct, frozen=True):
    """An entry of `status.containerStatuses`."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class _PodSpec(Struct, frozen=True):
    node_name: str = ""


class _PodStatus(Struct, frozen=True):
    phase: str = ""
    container_statuses: list[ContainerStatusView] | None = None


class PodView(Struct, frozen=True):
    """The fields of a pod from which the monitor learns."""

    metadata: Metadata = Metadata()
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


class _Address(Struct, frozen=True):
    type: str = ""
    address: str = ""


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""


class _NodeStatus(types.NodeStatus, frozen=True):
    # Images are half of a Node object, and plugins that read the images of all nodes are not hosted: the name matches
    # no key, so that the decoder skips them.
    images: list[ContainerImage] | None = msgspec.field(default=None, name="")
    addresses: list[_Address] | None = None
    conditions: list[_Condition] | None = None


class NodeView(types.Node, frozen=True):
    """A Node with its addresses and conditions, and without images."""

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


def read_allocatable(nodes: Sequence[NodeView], resource: str) -> list[int]:
    """Return each node's allocatable amount of a resource in base units (cpu in milli). Raises InvalidAmountError."""
    amounts: list[int] = NodeObjectColumns(nodes).allocatable(resource).tolist()
    return amounts


def decode_nodes(raws: Sequence[Any]) -> list[NodeView]:
    """Decode Node objects from JSON. Raises msgspec.ValidationError or msgspec.DecodeError if one is invalid."""
    decoder = json_decoder(NodeView)
    return [decoder.decode(raw) for raw in raws]
