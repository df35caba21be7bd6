"""The scheduler's writes to the API server, which stop once another process may lead.

Owns: the only path from loop, plugins and preemption to the API server; the exact objects, as kube-scheduler writes
them; the log lines about writes; which failures are ignored. Does not own: the content of events (`events`), what
follows from a failure, finding out a binding's result after a time-out (`unknown_bindings`).

Invariants: each request takes the API server from `ApiWrites._api`, which checks that the process still leads. A
binding ends, here and in the server, before another leader can begin. A binding's result is reported when it is proved,
not when its request ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from herodotus_kube.http import (
    MERGE_PATCH,
    NOT_SENT,
    RETRYABLE_CODES,
    TIMEOUT_S,
    ApiError,
    ApiRequest,
    ApiServer,
    Json,
)
from herodotus_record import klog
from herodotus_record.typed_decoding import decode_json
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.framework.writes import ChangedMeanwhileError, PodGroupCondition, Writes
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import SCHEDULED, PodGroup
from scheduler.engine.objects.preemptor import Preemptor, find_scheduler_name, name_kind
from scheduler.engine.objects.resource_api import FINALIZER, ResourceClaim
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.engine.objects.times import format_seconds
from scheduler.engine.objects.types import Object
from scheduler.live.events import EventSender, build_failed_event, build_preempted_event, build_scheduled_event
from scheduler.live.in_flight import BindRequests
from scheduler.live.scheduler import BackgroundThreads, WriteFence
from scheduler.live.unknown_bindings import DECISION_ANNOTATION, Binding, BindingReconciler

FINISH_S: Final = 15.0  # half of the time that a graceful shutdown may take
GONE: Final = (404, 409, 422)  # the pod is gone, or another one has its name


class NotLeadingError(Exception):
    """This process has lost the Lease, so nothing is written."""

    def __init__(self) -> None:
        super().__init__("leadership is lost: nothing is written any more")


FAILURES: Final = (ApiError, ChangedMeanwhileError, NotLeadingError)  # of a write


class ApiWrites:
    """The live scheduler's writes to the API server, for the loop, preemption and plugins. Implements `Writes`.

    Thread-safe. A method that sends a request raises NotLeadingError if this process no longer leads, and ApiError if
    the request fails, unless its failures are only logged.
    """

    def __init__(
        self,
        api: ApiServer,
        events: EventSender | None,
        requests: BindRequests,
        threads: BackgroundThreads,
        fence: WriteFence,
    ) -> None:
        """Prepare the writes. `events` is None if the API server has no events API."""
        self._server = api
        self._events = events
        self._requests = requests
        self._threads = threads
        self._fence = fence
        self._reconciler = BindingReconciler(api)
        self._group_writes: dict[str, tuple[PodGroup, PodGroupCondition, bool]] = {}  # not sent yet, by the group's UID
        self._group_lock = threading.Lock()  # held while one is sent, so that the last one is written last

    @property
    def _api(self) -> ApiServer:
        """The client of the API server, to be read for each request.

        Raise NotLeadingError if this process no longer leads.
        """
        if not self._fence.leading():
            raise NotLeadingError
        return self._server

    # --- reports on an attempt: nothing waits for them ----------------------------------------------------------------

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Send the Scheduled event of a bound pod. The API server sets the pod's condition itself when it binds."""
        self._event(pod, build_scheduled_event(pod, node))

    def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None, explanation: str = ""
    ) -> None:
        """Send the FailedScheduling event, and write the pod's condition and nominated node in another thread."""
        self._event(pod, build_failed_event(message, explanation))
        self._threads.submit(lambda: self._set_unscheduled(pod, reason, message, nomination))

    def skipped(self, pod: PodInfo, note: str) -> None:
        self._event(pod, build_failed_event(note))

    def preempted(self, victim: PodInfo, preemptor: Preemptor, node: str, *, in_memory: bool) -> None:
        self._event(victim, build_preempted_event(preemptor, node, in_memory=in_memory), preemptor)

    def set_pod_group_condition(self, group: PodGroup, condition: PodGroupCondition, *, changes_status: bool) -> None:
        """Write the group's condition in another thread.

        Of several conditions that wait for a group, the last is written. `changes_status` says that the condition's
        status differs from the present one, so that its transition time changes.
        """
        uid = group.metadata.uid
        earlier = self._group_writes.get(uid)
        self._group_writes[uid] = group, condition, changes_status or (earlier is not None and earlier[2])
        self._threads.submit(lambda: self._write_group_condition(uid))

    def _event(self, pod: PodInfo, event: tuple[str, str, str, str], related: Preemptor | None = None) -> None:
        if self._events is not None:
            self._events.send(pod, find_scheduler_name(related or pod), event, related)

    def _set_unscheduled(self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None) -> None:
        """Write PodScheduled=False with this reason and message, and the nominated node, where they change.

        `nomination` None leaves the nominated node unchanged.
        """
        status = _build_condition(pod, "PodScheduled", "False", reason, message)
        nominated = {} if nomination is None else {"nominatedNodeName": nomination.node, "nominatingMode": "Override"}
        if nomination is not None and nomination.node != pod.pod.status.nominated_node_name:
            status["nominatedNodeName"] = nomination.node or None
        if not status:
            return
        try:
            self._patch_status(pod, status)
        except FAILURES as e:
            if not _is_pod_missing(e):
                klog.error(e, "Error updating pod", pod=pod.full_name)
            return
        klog.info(
            3,
            "Updating pod condition and nominated node name",
            pod=pod.full_name,
            conditionType="PodScheduled",
            conditionStatus="False",
            conditionReason=reason,
            **nominated,
        )

    def _write_group_condition(self, uid: str) -> None:
        with self._group_lock:
            waiting = self._group_writes.pop(uid, None)
            if waiting is None:
                return
            group, (status, reason, message), changes_status = waiting
            metadata = group.metadata
            condition: Json = {"type": SCHEDULED, "status": status, "reason": reason, "message": message}
            condition["observedGeneration"] = metadata.generation
            if changes_status:
                condition["lastTransitionTime"] = format_seconds(time.time())
            path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{metadata.namespace}/podgroups/{metadata.name}/status"
            try:
                self._api.patch(path, {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}})
            except FAILURES as e:
                if not _is_pod_missing(e):
                    klog.error(e, "Failed to update PodGroup status", podGroup=metadata.name)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """Send a bind request without waiting for the result.

        Another thread calls `done` once the result is known: with None if the pod was bound, and otherwise the failure
        message.
        """
        klog.info(3, "Attempting to bind pod to node", **klog.pod_fields(pod.full_name, pod.uid), node=node)
        binding = Binding(pod, node, self._requests.decision_id(pod.uid))
        self._send_binding(binding, done, time.monotonic() + TIMEOUT_S)

    def finish_bindings(self) -> None:
        """Wait at most FINISH_S seconds for the results of bindings in flight. No result is reported after that."""
        unknown = self._reconciler.close(FINISH_S)
        if unknown:
            klog.warning("Bindings end with an unknown result; the next leader finds it out", bindings=unknown)

    def _send_binding(self, binding: Binding, done: Callable[[str | None], None], retry_until: float) -> None:
        """Send the Binding of a pod.

        If the API server asks for a retry (Retry-After), send it again, until `retry_until`. The pod's UID in the
        request prevents that a pod recreated under the same name is bound by mistake. The API server copies the
        annotation to the pod in the write that sets its node, so that the pod later proves which decision bound it.
        `done` is called as by `bind`, and `retry_until` is in monotonic seconds.
        """
        fence = self._fence

        def send_again() -> None:
            try:
                self._send_binding(binding, done, retry_until)
            except NotLeadingError as e:
                done(str(e))

        def on_answer(failure: ApiError | None) -> None:
            now = time.monotonic()
            if failure is None:
                done(None)
            elif (
                failure.code in RETRYABLE_CODES and failure.retry_after_s and now + failure.retry_after_s <= retry_until
            ):
                self._reconciler.call_later(failure.retry_after_s, send_again)
            elif _is_refusal(failure):
                done(str(failure))
            else:
                # A filter in front of the handler sends 504; the handler may still run, as after no answer at all.
                may_still_run = failure.code in (0, 504)  # 0: no answer
                ends = now + (fence.bind_timeout_s if may_still_run else 0.0)
                self._requests.mark_unknown(binding.pod.uid, str(failure))
                self._reconciler.reconcile(binding, failure, ends, done)

        pod, node, decision_id = binding
        metadata: Json = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata | {"annotations": {DECISION_ANNOTATION: decision_id}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        request = ApiRequest("POST", f"{_pod_path(pod)}/binding", body, timeout_s=fence.bind_timeout_s)
        self._api.send(request, on_answer, fence.leading)  # which is evaluated again just before the request leaves

    def evict(self, victim: PodInfo, preemptor: Preemptor, node: str) -> None:
        name, kind = find_scheduler_name(preemptor), name_kind(preemptor)
        message = f"{name}: preempting to accommodate a higher priority {kind}"
        status = _build_condition(victim, "DisruptionTarget", "True", "PreemptionByScheduler", message)
        with _ignore_missing():
            if status:
                self._patch_status(victim, status)
            self._api.delete(_pod_path(victim), _build_delete_options(victim.uid))
        klog.info(
            2,
            "Preemptor Pod preempted victim Pod",
            preemptor=preemptor.full_name,
            victim=victim.full_name,
            node=node,
        )

    def nominate(self, pod: PodInfo, node: str) -> None:
        try:
            self._patch_status(pod, {"nominatedNodeName": node or None})
        except FAILURES as e:
            if not _is_pod_missing(e):
                message = "Failed to update the nominated node name"
                klog.error(e, message, pod=pod.full_name, nominatedNodeName=node)

    def _patch_status(self, pod: PodInfo, status: Json) -> None:
        """Patch the pod's status. The UID makes the patch fail for a pod recreated under the same name."""
        self._api.patch(f"{_pod_path(pod)}/status", {"metadata": {"uid": pod.uid}, "status": status})

    # --- claims -------------------------------------------------------------------------------------------------------

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
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
        body = self._api.patch(path, {"metadata": metadata, "spec": {"claimRef": reference}}, MERGE_PATCH)
        klog.info(
            2,
            "Updated PersistentVolume with claim. Waiting for binding to complete",
            PV=volume.metadata.name,
            PVC=claim.full_name,
        )
        return _parse_version(body)

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        annotations = {"volume.kubernetes.io/selected-node": node}
        metadata: Json = {"resourceVersion": claim.metadata.resource_version, "annotations": annotations}
        path = f"/api/v1/namespaces/{claim.metadata.namespace}/persistentvolumeclaims/{claim.metadata.name}"
        return _parse_version(self._api.patch(path, {"metadata": metadata}, MERGE_PATCH))

    def patch_claim(self, claim: ResourceClaim, change: Mapping[str, Any]) -> ResourceClaim:
        with _raise_if_changed():
            return _decode_claim(self._api.patch(_claim_path(claim), _with_version(claim, change), MERGE_PATCH))

    def patch_claim_status(self, claim: ResourceClaim, status: Mapping[str, Any]) -> ResourceClaim:
        body = _with_version(claim, {"status": status})
        with _raise_if_changed():
            return _decode_claim(self._api.patch(f"{_claim_path(claim)}/status", body, MERGE_PATCH))

    def read_claim(self, claim: ResourceClaim) -> ResourceClaim:
        with _raise_if_changed():
            return _decode_claim(self._api.get(_claim_path(claim)))

    def create_claim(self, namespace: str, claim: Mapping[str, Any]) -> ResourceClaim:
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim}
        with _raise_if_changed():
            return _decode_claim(self._api.post(path, body))

    def delete_claim(self, claim: ResourceClaim) -> None:
        finalizers = [each for each in claim.metadata.finalizers or () if each != FINALIZER]
        with _ignore_missing():
            self._api.patch(_claim_path(claim), {"metadata": {"finalizers": finalizers or None}}, MERGE_PATCH)
            self._api.delete(_claim_path(claim), _build_delete_options(claim.metadata.uid))

    def set_extended_claim(self, pod: PodInfo, status: Mapping[str, Any]) -> None:
        self._patch_status(pod, {"extendedResourceClaimStatus": dict(status)})

    def submit(self, write: Callable[[Writes], object], what: str) -> None:
        def run() -> None:
            try:
                write(self)
            except FAILURES as e:
                klog.error(e, what)

        self._threads.submit(run)


def _is_pod_missing(failure: Exception) -> bool:
    return isinstance(failure, ApiError) and failure.code in GONE


@contextmanager
def _ignore_missing() -> Iterator[None]:
    """Context manager that suppresses an ApiError 404, which means that the object no longer exists."""
    try:
        yield
    except ApiError as e:
        if e.code != 404:
            raise


@contextmanager
def _raise_if_changed() -> Iterator[None]:
    """Context manager that raises ChangedMeanwhileError instead of ApiError 409."""
    try:
        yield
    except ApiError as e:
        if e.code == 409:
            raise ChangedMeanwhileError(str(e)) from e
        raise


def _is_refusal(failure: ApiError) -> bool:
    """Return whether a failed bind request certainly had no effect.

    A 409 does not prove that: it may answer a proxy's retry of a request that did bind the pod.
    """
    return (0 < failure.code < 500 and failure.code != 409) or failure.reason == NOT_SENT


def _pod_path(pod: PodInfo) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _claim_path(claim: ResourceClaim) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{claim.metadata.namespace}/resourceclaims/{claim.metadata.name}"


def _build_condition(pod: PodInfo, type_: str, status: str, reason: str, message: str) -> Json:
    """Return a status patch that sets this condition, or {} if the pod already has it."""
    now = next((c for c in pod.pod.status.conditions or () if c.type == type_), None)
    if now is not None and (now.status, now.reason, now.message) == (status, reason, message):
        return {}
    condition: Json = {"type": type_, "status": status, "reason": reason, "message": message}
    if now is None or now.status != status:
        condition["lastTransitionTime"] = format_seconds(time.time())
    return {"conditions": [condition]}


def _build_delete_options(uid: str) -> Json:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}


def _with_version(claim: ResourceClaim, change: Mapping[str, Any]) -> Json:
    """Return the change with the claim's resource version, so that the API server refuses it if the claim changed."""
    metadata = {**change.get("metadata", {}), "resourceVersion": claim.metadata.resource_version}
    return {**change, "metadata": metadata}


def _decode_claim(body: bytes) -> ResourceClaim:
    return decode_json(body, ResourceClaim)


def _parse_version(body: bytes) -> int:
    return int(decode_json(body, Object).metadata.resource_version or 0)
