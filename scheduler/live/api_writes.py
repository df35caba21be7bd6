"""The scheduler's writes to the API server, which stop once another process may lead.

Owns: the only path from loop, plugins and preemption to `kube.writes`; the log lines about writes; which failures are
ignored. Does not own: the form of the objects (`kube.writes`), what follows from a failure.

Invariants: before each request this module checks that the process still leads. A binding ends, here and in the server,
before another leader can begin. A binding's result is reported when it is proved, not when its request ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from herodotus_kube.http import NOT_SENT, RETRYABLE_CODES, TIMEOUT_S, ApiError, ApiServer
from herodotus_record import klog
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.framework.plugin import ChangedMeanwhileError, ClaimWrites
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.preemptor import Preemptor, find_scheduler_name, name_kind
from scheduler.engine.objects.resource_api import ResourceClaim
from scheduler.engine.objects.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.live import writes
from scheduler.live.binding_results import BindingReconciler
from scheduler.live.events import EventSender
from scheduler.live.in_flight import BindRequests
from scheduler.live.scheduler import BackgroundThreads, PodGroupCondition, WriteFence, Writes
from scheduler.live.writes import Binding

FINISH_S: Final = 15.0  # half of the time that a graceful shutdown may take
CONFLICT: Final = 409
GONE = (404, 409, 422)  # the pod is gone, or another one has its name


class NotLeadingError(Exception):
    """This process has lost the Lease, so nothing is written."""

    def __init__(self) -> None:
        super().__init__("leadership is lost: nothing is written any more")


class ApiWrites(Writes):
    """The live scheduler's writes to the API server, for the loop, preemption and plugins. Thread-safe."""

    def __init__(
        self,
        api: ApiServer,
        events: EventSender | None,
        requests: BindRequests,
        threads: BackgroundThreads,
        fence: WriteFence,
    ) -> None:
        """Prepare the writes. `events` is None if the API server has no events API."""
        self._api = api
        self._events = events
        self._requests = requests
        self._threads = threads
        self._fence = fence
        self._reconciler = BindingReconciler(api)
        self._group_writes: dict[str, tuple[PodGroup, PodGroupCondition, bool]] = {}  # not sent yet, by the group's UID
        self._group_lock = threading.Lock()  # held while one is sent, so that the last one is written last

    # --- writes that nothing waits for --------------------

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Send the Scheduled event of a bound pod. The API server sets the pod's condition itself when it binds."""
        self._event(pod, writes.build_scheduled_event(pod, node))

    def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None, explanation: str = ""
    ) -> None:
        """Send the FailedScheduling event, and write the pod's condition and nominated node in another thread."""
        self._event(pod, writes.build_failed_event(message, explanation))
        self._threads.submit(lambda: self._condition(pod, reason, message, nomination))

    def set_pod_group_condition(self, group: PodGroup, condition: PodGroupCondition, *, changes_status: bool) -> None:
        """Write the group's condition in another thread. Of several that wait for a group, only the last is written."""
        uid = group.metadata.uid
        earlier = self._group_writes.get(uid)
        self._group_writes[uid] = group, condition, changes_status or (earlier is not None and earlier[2])
        self._threads.submit(lambda: self._write_group_condition(uid))

    def _write_group_condition(self, uid: str) -> None:
        with self._group_lock:
            waiting = self._group_writes.pop(uid, None)
            if waiting is None:
                return
            group, condition, changes_status = waiting
            try:
                self._check()
                writes.set_pod_group_condition(self._api, group, condition, changes_status=changes_status)
            except (ApiError, NotLeadingError) as e:
                if not isinstance(e, ApiError) or e.code not in GONE:
                    klog.error(e, "Failed to update PodGroup status", podGroup=group.metadata.name)

    def skipped(self, pod: PodInfo, note: str) -> None:
        self._event(pod, writes.build_failed_event(note))

    def preempted(self, victim: PodInfo, preemptor: Preemptor, node: str, *, in_memory: bool) -> None:
        self._event(victim, writes.build_preempted_event(preemptor, node, in_memory=in_memory), preemptor)

    # --- bind requests -----------------------------------------------------------------------------------

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """Send a bind request without waiting. Raise NotLeadingError if this process no longer leads.

        Another thread calls `done` with None or the failure, once the result is known.
        """
        klog.info(3, "Attempting to bind pod to node", **klog.pod_fields(pod.full_name, pod.uid), node=node)
        self._check()
        binding = Binding(pod, node, self._requests.decision_id(pod.uid))
        self._send_binding(binding, done, time.monotonic() + TIMEOUT_S)

    def finish_bindings(self) -> None:
        """Wait at most FINISH_S seconds for the results of bindings in flight. No result is reported after that."""
        unknown = self._reconciler.close(FINISH_S)
        if unknown:
            klog.warning("Bindings end with an unknown result; the next leader finds it out", bindings=unknown)

    def _send_binding(self, binding: Binding, done: Callable[[str | None], None], retry_until: float) -> None:
        fence = self._fence

        def send_again() -> None:
            if fence.leading():
                self._send_binding(binding, done, retry_until)
            else:
                done(str(NotLeadingError()))

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
                ends = now + (fence.bind_timeout_s if failure.code in (0, 504) else 0.0)
                self._requests.mark_unknown(binding.pod.uid, str(failure))
                self._reconciler.reconcile(binding, failure, ends, done)

        writes.send_binding(self._api, binding, on_answer, fence.bind_timeout_s, fence.leading)

    # --- writes that the calling thread waits for --------------------

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        """Write the claim into the volume and return the volume's new resource version.

        Raise ApiError if that fails, NotLeadingError if this process no longer leads.
        """
        self._check()
        version = writes.bind_volume(self._api, volume, claim, by_controller=by_controller)
        klog.info(
            2,
            "Updated PersistentVolume with claim. Waiting for binding to complete",
            PV=volume.metadata.name,
            PVC=claim.full_name,
        )
        return version

    def select_node(self, claim: PersistentVolumeClaim, node: str) -> int:
        """Annotate the claim with the node, for its volume provisioner. Return the claim's new resource version.

        Raise ApiError if that fails, NotLeadingError if this process no longer leads.
        """
        self._check()
        return writes.select_node(self._api, claim, node)

    def patch_claim(self, claim: ResourceClaim, change: Mapping[str, Any]) -> ResourceClaim:
        return self._write_claim(lambda: writes.patch_claim(self._api, claim, dict(change)))

    def patch_claim_status(self, claim: ResourceClaim, status: Mapping[str, Any]) -> ResourceClaim:
        return self._write_claim(lambda: writes.patch_claim_status(self._api, claim, dict(status)))

    def read_claim(self, claim: ResourceClaim) -> ResourceClaim:
        return self._write_claim(lambda: writes.read_claim(self._api, claim))

    def create_claim(self, namespace: str, claim: Mapping[str, Any]) -> ResourceClaim:
        return self._write_claim(lambda: writes.create_claim(self._api, namespace, dict(claim)))

    def delete_claim(self, claim: ResourceClaim) -> None:
        self._check()
        writes.delete_claim(self._api, claim)

    def set_extended_claim(self, pod: PodInfo, status: Mapping[str, Any]) -> None:
        self._check()
        writes.set_extended_claim(self._api, pod, dict(status))

    def submit(self, write: Callable[[ClaimWrites], object], what: str) -> None:
        self._threads.submit(lambda: self._log_failure(write, what))

    def _log_failure(self, write: Callable[[ClaimWrites], object], what: str) -> None:
        try:
            write(self)
        except (ApiError, ChangedMeanwhileError, NotLeadingError) as e:
            klog.error(e, what)

    def _write_claim(self, request: Callable[[], ResourceClaim]) -> ResourceClaim:
        """Send a request for a claim. Raise ChangedMeanwhileError instead of ApiError 409."""
        self._check()
        try:
            return request()
        except ApiError as e:
            if e.code == CONFLICT:
                raise ChangedMeanwhileError(str(e)) from e
            raise

    def evict(self, victim: PodInfo, preemptor: Preemptor, node: str) -> None:
        """Set the victim's condition DisruptionTarget, then delete the pod, and wait for the responses.

        Raise ApiError if that fails, NotLeadingError if this process no longer leads.
        """
        self._check()
        name, kind = find_scheduler_name(preemptor), name_kind(preemptor)
        writes.evict(self._api, victim, f"{name}: preempting to accommodate a higher priority {kind}")
        klog.info(
            2,
            "Preemptor Pod preempted victim Pod",
            preemptor=preemptor.full_name,
            victim=victim.full_name,
            node=node,
        )

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Write the pod's status.nominatedNodeName and wait. Failures are only logged, since nothing depends on it."""
        try:
            self._check()
            writes.nominate(self._api, pod, node)
        except (ApiError, NotLeadingError) as e:
            if not isinstance(e, ApiError) or e.code not in GONE:
                klog.error(e, "Failed to update the nominated node name", pod=pod.full_name, nominatedNodeName=node)

    def _check(self) -> None:
        if not self._fence.leading():
            raise NotLeadingError

    def _event(self, pod: PodInfo, event: tuple[str, str, str, str], related: Preemptor | None = None) -> None:
        if self._events is not None:
            controller = find_scheduler_name(related or pod)
            self._events.send(pod, controller, event, related)

    def _condition(self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None) -> None:
        nominated = None if nomination is None else nomination.node
        try:
            self._check()
            if writes.set_unscheduled(self._api, pod, reason, message, nominated):
                klog.info(
                    3,
                    "Updating pod condition and nominated node name",
                    pod=pod.full_name,
                    conditionType="PodScheduled",
                    conditionStatus="False",
                    conditionReason=reason,
                    **({} if nominated is None else {"nominatedNodeName": nominated, "nominatingMode": "Override"}),
                )
        except (ApiError, NotLeadingError) as e:
            if not isinstance(e, ApiError) or e.code not in GONE:
                klog.error(e, "Error updating pod", pod=pod.full_name)


def _is_refusal(failure: ApiError) -> bool:
    """Return whether a failed bind request certainly had no effect.

    A 409 does not prove that: it may answer a proxy's retry of a request that did bind the pod.
    """
    return (0 < failure.code < 500 and failure.code != 409) or failure.reason == NOT_SENT
