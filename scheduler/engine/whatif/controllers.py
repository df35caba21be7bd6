"""The controller that a workload's pods would have, whose selector determines their default topology spreading.

Pure, except `ensure`.

The name of a Deployment's next ReplicaSet is unknown, so it has the Deployment's name here. It selects by the
template's labels, and so counts the pods of older ReplicaSets of the same Deployment too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from herodotus_record.templates import PodTemplate
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.types import LabelSelector, Metadata, Object
from scheduler.engine.objects.workloads import (
    LabelSelectorSpec,
    MapSelectorSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

Json = dict[str, Any]

# kind of the workload -> API version and type of its pods' controller
_CONTROLLERS: Final[Mapping[str, tuple[str, type[Object]]]] = {
    "Deployment": ("apps/v1", ReplicaSet),
    "ReplicaSet": ("apps/v1", ReplicaSet),
    "StatefulSet": ("apps/v1", StatefulSet),
    "ReplicationController": ("v1", ReplicationController),
}


def owner_reference(template: PodTemplate) -> Json:
    """Return the owner reference by which the pods of a workload refer to their controller.

    The controller of a Deployment's pods is a ReplicaSet. `template` must not be a Pod's.
    """
    version, kind = _CONTROLLERS.get(template.kind, ("batch/v1", None))
    named = kind.__name__ if kind else template.kind
    return {"apiVersion": version, "kind": named, "name": template.name, "controller": True}


def build_controller(template: PodTemplate, namespace: str) -> Object | None:
    """Return a new object for the controller of a workload's pods.

    Return None if the controller does not affect the default topology spreading of the pods, as for a Job.
    """
    _, kind = _CONTROLLERS.get(template.kind, ("", None))
    labels = template.pod["metadata"].get("labels")
    metadata = Metadata(name=template.name, namespace=namespace)
    if not kind or not labels:
        return None
    if kind is ReplicationController:
        return ReplicationController(metadata=metadata, spec=MapSelectorSpec(selector=labels))
    spec = LabelSelectorSpec(selector=LabelSelector(match_labels=labels))
    return (
        StatefulSet(metadata=metadata, spec=spec) if kind is StatefulSet else ReplicaSet(metadata=metadata, spec=spec)
    )


def ensure(controller: Object | None, objects: ClusterObjects) -> None:
    """Add the controller to `objects`, in place, unless they have an object of its kind and name.

    Do nothing if `controller` is None. `objects` must be a copy, or used by the caller only.
    """
    if controller and not objects.get(type(controller), controller.metadata.name, controller.metadata.namespace):
        objects.set(controller)
