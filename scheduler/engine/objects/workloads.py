"""Services and the controllers whose selectors determine which pods belong together."""

from __future__ import annotations

from scheduler.engine.objects.types import Labels, LabelSelector, Object, Struct


class MapSelectorSpec(Struct, frozen=True):
    """The spec of a Service or ReplicationController: labels that must all match; null selects nothing."""

    selector: Labels | None = None


class LabelSelectorSpec(Struct, frozen=True):
    """The spec of a ReplicaSet or StatefulSet, with the label selector of its pods."""

    selector: LabelSelector | None = None


class Service(Object, frozen=True):
    """A Service of v1."""

    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicationController(Object, frozen=True):
    """A ReplicationController of v1."""

    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicaSet(Object, frozen=True):
    """A ReplicaSet of apps/v1."""

    spec: LabelSelectorSpec = LabelSelectorSpec()


class StatefulSet(Object, frozen=True):
    """A StatefulSet of apps/v1."""

    spec: LabelSelectorSpec = LabelSelectorSpec()
