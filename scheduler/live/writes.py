"""The scheduler's writes to the API server: bindings, pod status, evictions, volumes of claims, events.

Owns: the exact objects, as kube-scheduler writes them. Does not own: when to write, and how to handle failures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final, NamedTuple

import msgspec

from herodotus_kube.http import MERGE_PATCH, ApiError, ApiRequest, ApiServer, Done, Json, micro_time
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import SCHEDULED, PodGroup
from scheduler.engine.objects.preemptor import PreemptingGroup, Preemptor, name_kind
from scheduler.engine.objects.resource_api import FINALIZER, ResourceClaim
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.engine.objects.types import Object, Pod, PodAnnotations, PodMetadata

NOTE_LIMIT: Final = 1024  # bytes of an event's note that the API accepts
DECISION: Final = "herodotus.dev/decision"  # annotation of a bound pod: the id of the decision that bound it
_TRUNCATE_TO: Final = 1020  # kube-scheduler cuts longer ones to this and adds " ..."


class _BindingAnnotations(PodAnnotations, frozen=True):
    decision: str = msgspec.field(name=DECISION, default="")


class _BindingMetadata(PodMetadata, frozen=True):
    annotations: _BindingAnnotations | None = None


class _AnnotatedPod(Pod, frozen=True):
    metadata: _BindingMetadata = _BindingMetadata()


class PodBinding(NamedTuple):
    """The node of a pod, "" if it is not bound, and how it came there, as the API server shows it.

    `decision_id` is the id of the decision that bound the pod, from its annotation, or "". `unbindable` says why an
    unbound pod can never be bound, or is "".
    """

    node: str
    decision_id: str
    unbindable: str


class Binding(NamedTuple):
    """The binding of a pod to a node by the decision with the id `decision_id`."""

    pod: PodInfo
    node: str
    decision_id: str


def send_binding(
    api: ApiServer, binding: Binding, done: Done, timeout_s: float, precondition: Callable[[], bool]
) -> None:
    """Send the Binding of a pod to a node without waiting. Another thread calls `done` with None or an ApiError.

    The UID prevents that a pod recreated under the same name is bound by mistake. The API server copies the annotation
    with `decision_id` to the pod in the write that sets its node, so that the pod later proves which decision bound it.
    `precondition` is evaluated just before sending; if it returns False, nothing is sent.
    """
    pod, node, decision_id = binding
    metadata: Json = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata | {"annotations": {DECISION: decision_id}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    api.send(ApiRequest("POST", f"{_path(pod)}/binding", body, timeout_s=timeout_s), done, precondition)


def read_binding(api: ApiServer, namespace: str, name: str, uid: str) -> PodBinding:
    """Read a pod and return its node and the decision that bound it. Raise ApiError if it cannot be read."""
    now = msgspec.json.decode(api.get(f"/api/v1/namespaces/{namespace}/pods/{name}"), type=_AnnotatedPod)
    if now.metadata.uid != uid:
        replaced = "and another one has its name: whether it was bound before is unknown"
        return PodBinding("", "", f'pod "{namespace}/{name}" was deleted, {replaced}')
    deleted = f'pod "{namespace}/{name}" is being deleted' if now.metadata.deletion_timestamp else ""
    return PodBinding(now.spec.node_name, (now.metadata.annotations or _BindingAnnotations()).decision, deleted)


def set_unscheduled(api: ApiServer, pod: PodInfo, reason: str, message: str, nominated: str | None = None) -> bool:
    """Patch the pod's status: PodScheduled=False with this reason and message, and the nominated node.

    Return whether anything changed. `nominated` None leaves the nominated node unchanged, "" clears it.
    """
    status = _condition(pod, "PodScheduled", "False", reason, message)
    if nominated is not None and nominated != pod.pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated or None
    if status:
        _patch_status(api, pod, status)
    return bool(status)


def nominate(api: ApiServer, pod: PodInfo, node: str) -> None:
    """Set the pod's status.nominatedNodeName to `node`, or clear it if `node` is ""."""
    _patch_status(api, pod, {"nominatedNodeName": node or None})


def evict(api: ApiServer, victim: PodInfo, message: str) -> None:
    """Set the victim's condition DisruptionTarget with `message`, and delete the pod.

    Succeed if it is already deleted.
    """
    status = _condition(victim, "DisruptionTarget", "True", "PreemptionByScheduler", message)
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}}
    try:
        if status:
            _patch_status(api, victim, status)
        api.delete(_path(victim), options)
    except ApiError as e:
        if e.code != 404:
            raise


def bind_volume(api: ApiServer, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
    """Write the claim into the volume's claimRef and return the volume's new resource version.

    Raise ApiError 409 if the volume has changed. `by_controller` adds the annotation that lets the volume controller
    release the volume.
    """
    metadata: Json = {"resourceVersion": volume.metadata.resource_version}
    if by_controller:
        metadata["annotations"] = {"pv.kubernetes.io/bound-by-controller": "yes"}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
    }
    path = f"/api/v1/persistentvolumes/{volume.metadata.name}"
    return _parse_version(api.patch(path, {"metadata": metadata, "spec": {"claimRef": reference}}, MERGE_PATCH))


def select_node(api: ApiServer, claim: PersistentVolumeClaim, node: str) -> int:
    """Annotate a claim with its pod's node, so that a volume is provisioned there.

    Return the claim's new resource version. Raise ApiError 409 if the claim has changed.
    """
    annotations = {"volume.kubernetes.io/selected-node": node}
    metadata: Json = {"resourceVersion": claim.metadata.resource_version, "annotations": annotations}
    path = f"/api/v1/namespaces/{claim.metadata.namespace}/persistentvolumeclaims/{claim.metadata.name}"
    return _parse_version(api.patch(path, {"metadata": metadata}, MERGE_PATCH))


def patch_claim(api: ApiServer, claim: ResourceClaim, change: Json) -> ResourceClaim:
    """Change a resource claim's metadata and return the changed claim. Raise ApiError 409 if the claim has changed."""
    return _decode_claim(api.patch(_claim_path(claim), _with_version(claim, change), MERGE_PATCH))


def patch_claim_status(api: ApiServer, claim: ResourceClaim, status: Json) -> ResourceClaim:
    """Change a resource claim's status and return the changed claim. Raise ApiError 409 if the claim has changed."""
    body = _with_version(claim, {"status": status})
    return _decode_claim(api.patch(f"{_claim_path(claim)}/status", body, MERGE_PATCH))


def read_claim(api: ApiServer, claim: ResourceClaim) -> ResourceClaim:
    """Return a resource claim as the API server has it now."""
    return _decode_claim(api.get(_claim_path(claim)))


def create_claim(api: ApiServer, namespace: str, claim: Json) -> ResourceClaim:
    """Create a resource claim and return it."""
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim}
    return _decode_claim(api.post(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", body))


def delete_claim(api: ApiServer, claim: ResourceClaim) -> None:
    """Remove kube-scheduler's finalizer from a resource claim and delete the claim. Succeed if it is gone."""
    finalizers = [each for each in claim.metadata.finalizers or () if each != FINALIZER]
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": claim.metadata.uid}}
    try:
        api.patch(_claim_path(claim), {"metadata": {"finalizers": finalizers or None}}, MERGE_PATCH)
        api.delete(_claim_path(claim), options)
    except ApiError as e:
        if e.code != 404:
            raise


def set_extended_claim(api: ApiServer, pod: PodInfo, status: Json) -> None:
    """Write a pod's status.extendedResourceClaimStatus, from which the kubelet knows the claim for these resources."""
    _patch_status(api, pod, {"extendedResourceClaimStatus": status})


def _claim_path(claim: ResourceClaim) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{claim.metadata.namespace}/resourceclaims/{claim.metadata.name}"


def _with_version(claim: ResourceClaim, change: Json) -> Json:
    """Return a change that the API server refuses if the claim has another version by now."""
    metadata = {**change.get("metadata", {}), "resourceVersion": claim.metadata.resource_version}
    return {**change, "metadata": metadata}


def _decode_claim(body: bytes) -> ResourceClaim:
    return msgspec.json.decode(body, type=ResourceClaim)


def build_scheduled_event(pod: PodInfo, node: str) -> tuple[str, str, str, str]:
    """Return (type, reason, action, note) of the event that a pod was bound to a node."""
    return "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.full_name} to {node}"


def build_failed_event(message: str, explanation: str = "") -> tuple[str, str, str, str]:
    """Return (type, reason, action, note) of the FailedScheduling event of a pod.

    The note is `message`, cut where needed so that the `explanation` after it is whole.
    """
    if explanation:
        message = f"{_truncate_note(message, len(explanation.encode()) + 1)} {explanation}"
    return "Warning", "FailedScheduling", "Scheduling", message


def build_preempted_event(preemptor: Preemptor, node: str, *, in_memory: bool) -> tuple[str, str, str, str]:
    """Return (type, reason, action, note) of the event that a victim was removed in favor of `preemptor`.

    `in_memory` says that the victim was not bound yet, so no pod was deleted.
    """
    where = " (in kube-scheduler memory)." if in_memory else ""
    return (
        "Normal",
        "Preempted",
        "Preempting",
        f"Preempted by {name_kind(preemptor)} {preemptor.uid} on node {node}{where}",
    )


def build_event(
    pod: PodInfo, controller: str, instance: str, event: tuple[str, str, str, str], related: Preemptor | None = None
) -> Json:
    """Return an events.k8s.io/v1 Event about a pod and, optionally, a related pod or pod group.

    `event` is (type, reason, action, note); `controller` and `instance` name the reporting scheduler.
    """
    type_, reason, action, note = event
    body: Json = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name}.{time.time_ns():x}", "namespace": pod.namespace or "default"},
        "eventTime": micro_time(),
        "reportingController": controller,
        "reportingInstance": instance[:128],
        "type": type_,
        "reason": reason,
        "action": action,
        "note": _truncate_note(note),
        "regarding": _reference(pod),
    }
    return body if related is None else {**body, "related": _reference(related)}


def _reference(pod: Preemptor) -> Json:
    if isinstance(pod, PreemptingGroup):
        metadata = pod.group.metadata
        return {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.pod.metadata.resource_version,
    }


def _path(pod: PodInfo) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _condition(pod: PodInfo, type_: str, status: str, reason: str, message: str) -> Json:
    """Return a status patch that sets this condition, or {} if the pod already has it."""
    now = next((c for c in pod.pod.status.conditions or () if c.type == type_), None)
    if now is not None and (now.status, now.reason, now.message) == (status, reason, message):
        return {}
    condition: Json = {"type": type_, "status": status, "reason": reason, "message": message}
    if now is None or now.status != status:
        condition["lastTransitionTime"] = _format_now()
    return {"conditions": [condition]}


def set_pod_group_condition(
    api: ApiServer, group: PodGroup, values: tuple[str, str, str], *, changes_status: bool
) -> None:
    """Patch the condition PodGroupScheduled of a PodGroup with its status, reason and message.

    `changes_status` sets the time of the transition too.
    """
    status, reason, message = values
    metadata = group.metadata
    condition: Json = {"type": SCHEDULED, "status": status, "reason": reason, "message": message}
    condition["observedGeneration"] = metadata.generation
    if changes_status:
        condition["lastTransitionTime"] = _format_now()
    path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{metadata.namespace}/podgroups/{metadata.name}/status"
    api.patch(path, {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}})


def _patch_status(api: ApiServer, pod: PodInfo, status: Json) -> None:
    """Patch the pod's status. The UID makes the patch fail for a pod recreated under the same name."""
    api.patch(f"{_path(pod)}/status", {"metadata": {"uid": pod.uid}, "status": status})


def _parse_version(answer: bytes) -> int:
    return int(msgspec.json.decode(answer, type=Object).metadata.resource_version or 0)


def _format_now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _truncate_note(note: str, reserved: int = 0) -> str:
    """Return a note that fits an event and leaves `reserved` bytes of it free."""
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT - reserved:
        return note
    return encoded[: _TRUNCATE_TO - reserved].decode(errors="ignore") + " ..."
