"""Volumes, claims and classes for tests, decoded from the JSON that an API server would send; and one plugin tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from herodotus_record.model import Code, Verdict
from scheduler.engine.columns import NodeColumns
from scheduler.engine.framework.state import CycleState
from scheduler.engine.objects.cluster import ClusterObjects
from scheduler.engine.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.engine.objects.types import Object
from scheduler.offline.evaluate import NoCluster
from tests.scheduler.builders import Json, PodBuilder, expression, make_pod, term

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WAIT, IMMEDIATE = "WaitForFirstConsumer", "Immediate"
EBS = "ebs.csi.aws.com"

T = TypeVar("T")

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def volume(
    name: str,
    *,
    size: str = "10Gi",
    storage_class: str = "fast",
    within: Json | None = None,
    phase: str = "Available",
    claim: str = "",
    claim_uid: str = "",
    labels: Json | None = None,
    deleted: bool = False,
    version: str = "1",
    **spec: Any,
) -> PersistentVolume:
    """Return a volume. `within`: a node selector term. `claim`: NAMESPACE/NAME that it is reserved for."""
    given: Json = {"capacity": {"storage": size}, "storageClassName": storage_class, "accessModes": ["ReadWriteOnce"]}
    if within is not None:
        given["nodeAffinity"] = {"required": {"nodeSelectorTerms": [within]}}
    if claim:
        namespace, _, its = claim.partition("/")
        given["claimRef"] = {"namespace": namespace, "name": its, "uid": claim_uid}
    metadata = {"name": name, "labels": labels, "resourceVersion": version}
    metadata |= {"deletionTimestamp": "2026-03-01T12:00:00Z"} if deleted else {}
    return made(PersistentVolume, metadata, spec=given | spec, status={"phase": phase})


def claim(
    name: str,
    *,
    volume: str = "",
    size: str = "10Gi",
    storage_class: str | None = "fast",
    modes: Iterable[str] = ("ReadWriteOnce",),
    annotations: Json | None = None,
    namespace: str = "default",
    owner: str = "",
    phase: str = "",
    deleted: bool = False,
    version: str = "1",
    **spec: Any,
) -> PersistentVolumeClaim:
    """Return a claim, fully bound if it names a volume. `owner`: the UID of its controller."""
    given: Json = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        given["storageClassName"] = storage_class
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": annotations}
    metadata["resourceVersion"] = version
    if volume:
        given["volumeName"] = volume
        metadata["annotations"] = BOUND if annotations is None else annotations
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "kind": "Pod", "controller": True}]
    if deleted:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    return made(PersistentVolumeClaim, metadata, spec=given, status={"phase": phase})


def storage_class(name: str = "fast", mode: str | None = WAIT, provisioner: str = EBS, **fields: Any) -> StorageClass:
    return made(StorageClass, {"name": name}, provisioner=provisioner, volumeBindingMode=mode, **fields)


def csi_node(name: str, migrated: str = "", **limits: int | None) -> CSINode:
    """Return the drivers of a node: `ebs` stands for EBS's, others for themselves."""
    drivers = [
        {"name": {"ebs": EBS}.get(driver, driver), "allocatable": None if count is None else {"count": count}}
        for driver, count in limits.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else None
    return made(CSINode, {"name": name, "annotations": annotations}, spec={"drivers": drivers})


def driver(name: str = EBS, storage_capacity: bool | None = True, *, required: bool | None = None) -> CSIDriver:
    """Return a CSIDriver. `required`: whether no pod with its volumes may go to a node without it."""
    spec = {"storageCapacity": storage_capacity, "preventPodSchedulingIfMissing": required}
    return made(CSIDriver, {"name": name}, spec=spec)


def capacity(name: str, storage_class: str = "fast", **fields: Any) -> CSIStorageCapacity:
    return made(CSIStorageCapacity, {"name": name, "namespace": "csi"}, storageClassName=storage_class, **fields)


def attachment(name: str, node: str, volume: str | None, attacher: str = EBS) -> VolumeAttachment:
    source = {"persistentVolumeName": volume}
    return made(VolumeAttachment, {"name": name}, spec={"attacher": attacher, "nodeName": node, "source": source})


def made(kind: type[T], metadata: Json, **fields: Any) -> T:
    return msgspec.convert({"metadata": metadata, **fields}, kind)


def with_volumes(pod: PodBuilder, *volumes: Json) -> PodBuilder:
    return pod.with_spec(volumes=[{"name": f"v{i}", **given} for i, given in enumerate(volumes)])


def claiming(*claims: str, pod: PodBuilder | None = None) -> PodBuilder:
    """Return a pod that mounts these claims."""
    return with_volumes(pod or make_pod(), *({"persistentVolumeClaim": {"claimName": name}} for name in claims))


def on_host(*names: str) -> Json:
    """Return the node selector term of a local volume."""
    return term(expression(HOST, "In", *names))


class ClusterWithObjects(NoCluster):
    """The plugins' handle, with objects."""

    def __init__(self, *objects: Object) -> None:
        super().__init__(ClusterObjects())
        for obj in objects:
            self.objects.set(obj)


def tried(plugin: Any, pod: PodBuilder, columns: NodeColumns) -> Verdict | dict[str, Verdict]:
    """PreFilter's verdict where it is not Success, or Filter's of each node."""
    state, info = CycleState(), pod.info()
    verdict: Verdict = plugin.pre_filter(state, info, columns).verdict
    if verdict.code is not Code.SUCCESS:
        return verdict
    verdicts = plugin.filter(state, info, columns)
    return {columns.names[slot]: verdicts.verdict_at(slot) for slot in range(columns.slots) if columns.live[slot]}


def codes(result: Verdict | dict[str, Verdict]) -> Any:
    """Return reason codes: "" for Success, "skip", or the codes joined; an error's text after `!`."""
    if isinstance(result, dict):
        return {node: codes(verdict) for node, verdict in result.items()}
    if result.code in (Code.SUCCESS, Code.SKIP):
        return "" if result.code is Code.SUCCESS else "skip"
    if result.code is Code.ERROR:
        return f"!{result.reasons[0].params['text']}"
    return "+".join(reason.code for reason in result.reasons)
