"""What pods belong to: Services and the controllers whose selectors say which pods are alike."""

from __future__ import annotations

from scheduler.objects.types import Labels, LabelSelector, Object, Struct


class MapSelectorSpec(Struct, frozen=True):
    """spec of a Service or ReplicationController: labels that must all be there; null selects nothing."""

    selector: Labels | None = None


class LabelSelectorSpec(Struct, frozen=True):
    """spec of a ReplicaSet or StatefulSet."""

    selector: LabelSelector | None = None


class Service(Object, frozen=True):
    """v1.Service."""

    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicationController(Object, frozen=True):
    """v1.ReplicationController."""

    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicaSet(Object, frozen=True):
    """apps/v1.ReplicaSet."""

    spec: LabelSelectorSpec = LabelSelectorSpec()


class StatefulSet(Object, frozen=True):
    """apps/v1.StatefulSet."""

    spec: LabelSelectorSpec = LabelSelectorSpec()
