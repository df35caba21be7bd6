"""What a trace has of nodes and pods, and pseudonyms for their names.

Invariant: the fields of an object that are kept are listed here or declared by the engine's types
(`scheduler.engine.objects`); everything else, such as environment, arguments and annotations, is left out. With
pseudonyms, a text is replaced unless its field is listed in `_KEPT` or `_AMOUNTS`.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import Any, Final

from msgspec.structs import replace

from scheduler.engine.objects.pod_groups import PodGroup, PodGroupMetadata
from scheduler.engine.objects.resource_api import (
    FINALIZER,
    IMPLICIT_PREFIX,
    ClaimMetadata,
    ClaimStatus,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from scheduler.engine.objects.types import (
    Metadata,
    Namespace,
    Node,
    NodeMetadata,
    Object,
    OwnerReference,
    Pod,
    PodMetadata,
    PodStatus,
)
from scheduler.engine.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

# The kinds besides nodes and pods that a trace has, by name: namespaces, whose labels terms of pod affinity select; the
# objects whose selectors decide the default spreading; claims and devices; pod groups.
OBJECT_KINDS: Final[dict[str, type[Object]]] = {
    kind.__name__: kind
    for kind in (
        *(Namespace, Service, ReplicationController, ReplicaSet, StatefulSet),
        *(ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice, PodGroup),
    )
}
_KEY_BYTES: Final = 32
_DISRUPTED: Final = "DisruptionTarget"
_DIGITS: Final = 12  # of a pseudonym: two of a million names are equal with a probability of 0.2 %
_LABELS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector"})  # if their values are texts
_AMOUNTS: Final = frozenset(
    {"allocatable", "capacity", "consumedCapacity", "counters", "limits", "overhead", "requests"}
)
_KEYS: Final = frozenset({"key", "topologyKey", "matchLabelKeys"})
_IMAGES: Final = frozenset({"image", "names"})
_KEPT: Final = frozenset(
    {
        "action",
        "allocationMode",
        "apiGroup",
        "apiVersion",
        "attributes",
        "declaredFeatures",
        "disruptionMode",
        "distinctAttribute",
        "driver",
        "effect",
        "expression",
        "extendedResourceName",
        "finalizers",
        "kind",
        "matchAttribute",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "operator",
        "phase",
        "preemptionPolicy",
        "protocol",
        "resource",
        "restartPolicy",
        "schedulerName",
        "whenUnsatisfiable",
    }
)
# Domains of label keys that say nothing about a cluster. A key without a domain is a user's.
_PUBLIC_DOMAINS: Final = ("kubernetes.io", "k8s.io")
_ANY_ADDRESS: Final = "0.0.0.0"  # of a host port, which conflicts with that port on each address
_FIELD_KEYS: Final = frozenset({"metadata.name"})  # of matchFields


def redact_node(node: Node) -> Node:
    """Return the node with what scheduling reads: name, labels, taints, amounts, images and features."""
    return Node(
        metadata=NodeMetadata(name=node.metadata.name, labels=node.metadata.labels), spec=node.spec, status=node.status
    )


def redact_pod(pod: Pod) -> Pod:
    """Return the pod as it arrives: without node and volumes, and of its owners only the controller's kind and name.

    Of the status, the names of the claims that were made for it stay.
    """
    metadata = pod.metadata
    owners = [
        OwnerReference(api_version=owner.api_version, kind=owner.kind, name=owner.name, controller=True)
        for owner in metadata.owner_references or ()
        if owner.controller
    ]
    return Pod(
        metadata=PodMetadata(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            labels=metadata.labels,
            owner_references=owners or None,
        ),
        spec=replace(pod.spec, node_name="", volumes=None, scheduling_gates=None),
        status=PodStatus(phase="Pending", resource_claim_statuses=pod.status.resource_claim_statuses),
    )


def redact_object(obj: Object) -> Object:
    """Return an object of `OBJECT_KINDS` with its name and what scheduling reads of its spec.

    Only a Namespace keeps its labels. A claim keeps its controller, and the devices and users that it has; opaque
    configuration for drivers is left out.
    """
    metadata = obj.metadata
    name = Metadata(name=metadata.name, namespace=metadata.namespace)
    match obj:
        case Namespace():
            return Namespace(metadata=Metadata(name=metadata.name, labels=metadata.labels))
        case ResourceClaim():
            return _redact_claim(obj)
        case ResourceClaimTemplate():
            inner = replace(obj.spec.spec, devices=replace(obj.spec.spec.devices, config=None))
            return replace(obj, metadata=name, spec=replace(obj.spec, spec=inner), manifest=b"")
        case PodGroup():
            return PodGroup(metadata=PodGroupMetadata(name=metadata.name, namespace=metadata.namespace), spec=obj.spec)
        case DeviceClass():
            return replace(obj, metadata=name, spec=replace(obj.spec, config=None), manifest=b"")
        case _:
            return replace(obj, metadata=name, manifest=b"")


def _redact_claim(claim: ResourceClaim) -> ResourceClaim:
    metadata, status, allocation = claim.metadata, claim.status, claim.status.allocation
    controller = metadata.controller
    owner = None if controller is None else OwnerReference(kind=controller.kind, uid=controller.uid, controller=True)
    if allocation is not None:
        devices = replace(allocation.devices, config=None)
        allocation = replace(allocation, devices=devices, allocation_timestamp=None)
    return ResourceClaim(
        metadata=ClaimMetadata(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            owner_references=None if owner is None else [owner],
            finalizers=metadata.finalizers and [each for each in metadata.finalizers if each == FINALIZER],
            annotations=metadata.annotations,
        ),
        spec=replace(claim.spec, devices=replace(claim.spec.devices, config=None)),
        status=ClaimStatus(allocation=allocation, reserved_for=status.reserved_for),
    )


def was_evicted(pod: Pod) -> bool:
    """Return whether the pod has the condition of one that is evicted, preempted or disrupted otherwise."""
    return any(each.type == _DISRUPTED and each.status == "True" for each in pod.status.conditions or ())


class Pseudonyms:
    """Replaces texts by pseudonyms: equal texts by equal ones, so that selectors match what they matched before.

    Amounts, numbers, names of resources and schedulers, and words of the API stay. So do keys of labels in Kubernetes'
    own domains. The key of the pseudonyms is drawn for each instance and kept nowhere else.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_KEY_BYTES)

    def replace_name(self, name: str) -> str:
        """Return the pseudonym of a text. Empty texts, whole numbers, which Gt and Lt compare, and 0.0.0.0 stay."""
        if not name or name.isdecimal() or name == _ANY_ADDRESS:
            return name
        return f"x{blake2b(name.encode(), key=self._key, digest_size=_DIGITS // 2).hexdigest()}"

    def replace_object(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON of a node or pod with pseudonyms."""
        return {field: self._replace(field, value) for field, value in obj.items()}

    def _replace(self, field: str, value: Any) -> Any:
        if field in _KEPT:
            return value
        if field in _AMOUNTS and isinstance(value, dict):
            return {self._replace_resource(name): amount for name, amount in value.items()}
        if field in _LABELS and isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
            return {self._replace_key(key): self.replace_name(each) for key, each in value.items()}
        if isinstance(value, dict):
            return {name: self._replace(name, each) for name, each in value.items()}
        if isinstance(value, list):
            return [
                self.replace_object(each) if isinstance(each, dict) else self._replace(field, each) for each in value
            ]
        if not isinstance(value, str):
            return value
        if field in _KEYS:
            return self._replace_key(value)
        return self._replace_image(value) if field in _IMAGES else self.replace_name(value)

    def _replace_resource(self, name: str) -> str:
        """Return the name of a resource, with the pseudonym of the device class that it may name."""
        _, prefix, device_class = name.partition(IMPLICIT_PREFIX)
        return f"{prefix}{self.replace_name(device_class)}" if prefix else name

    def _replace_key(self, key: str) -> str:
        domain, slash, _ = key.partition("/")
        is_public = bool(slash) and any(domain == each or domain.endswith(f".{each}") for each in _PUBLIC_DOMAINS)
        return key if is_public or key in _FIELD_KEYS else self.replace_name(key)

    def _replace_image(self, image: str) -> str:
        """Return the pseudonym of an image, with a tag, as the plugin ImageLocality adds `latest` to those without."""
        name = image if ":" in image.rpartition("/")[2] else f"{image}:latest"
        return f"{self.replace_name(name)}:x" if image else image
