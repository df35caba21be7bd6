"""Which controller the pods of a workload would have, and what it selects: default spreading goes by that.

Owns: the owner reference of such pods, the controller that would exist once the workload does. Does not own: how pods
are spread (`plugins.pod_topology_spread`), the other objects of the cluster. Pure, but for `ensure`.

A Deployment's pods belong to a ReplicaSet of a name that nobody knows yet: it has the Deployment's here, and selects by
the template's labels, so it counts what older ReplicaSets of the same Deployment have too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from herodotus_record.templates import Template
from scheduler.objects.cluster import ClusterObjects
from scheduler.objects.types import LabelSelector, Metadata, Object
from scheduler.objects.workloads import (
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


def owner_reference(template: Template) -> Json:
    """What the metadata of a workload's pod says of its controller. Not for a Pod of its own."""
    version, kind = _CONTROLLERS.get(template.kind, ("batch/v1", None))
    named = kind.__name__ if kind else template.kind
    return {"apiVersion": version, "kind": named, "name": template.name, "controller": True}


def controller_of(template: Template, namespace: str) -> Object | None:
    """The controller as it would be created; None where there is none that spreads its pods."""
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
    """Have the controller among the objects, which are a copy or nobody else's; one that exists stays as it is."""
    if controller and not objects.get(type(controller), controller.metadata.name, controller.metadata.namespace):
        objects.set(controller)
