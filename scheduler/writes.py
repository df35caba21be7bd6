"""What a scheduler tells the API server, and that it tells nothing once another may lead.

Owns: the one way from loop, plugins and preemption to `kube.writes`; what is logged of it; which failures do not
matter. Does not own: the objects' form (`kube.writes`), what follows from a failure.

Invariant: before each request it is asked whether this process still leads, and a binding ends, here and in the server,
before another can have begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scheduler import klog
from scheduler.framework.nominated import Nomination
from scheduler.kube import writes
from scheduler.kube.events import EventSender
from scheduler.kube.http import NOT_DONE, TIMEOUT_S, ApiError, ApiServer
from scheduler.objects.pod import PodInfo
from scheduler.objects.storage import PersistentVolume, PersistentVolumeClaim

GONE = (404, 409, 422)  # or recreated under the same name


class NotLeadingError(Exception):
    """The Lease is lost: nothing is written any more."""

    def __init__(self) -> None:
        super().__init__("leadership is lost: nothing is written any more")


class ApiWrites:
    """`loop.Writes`, `preemption.EvictionWrites` and the requests of plugins, on a real API server. Thread-safe."""

    def __init__(
        self,
        api: ApiServer,
        events: EventSender | None,
        aside: Callable[[Callable[[], None]], None],
        leading: Callable[[], bool],
        bind_timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`events`: None where the API is absent. `aside`: runs requests in another thread."""
        self._api = api
        self._events = events
        self._aside = aside
        self._leading = leading
        self._bind_timeout_s = bind_timeout_s

    # --- nothing waits for these ----------------------------------------------------------------------------------

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Event only: the API server sets the condition when it binds."""
        self._event(pod, writes.scheduled_event(pod, node))

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None) -> None:
        """Event, condition and nominated node."""
        self._event(pod, writes.failed_event(message))
        self._aside(lambda: self._condition(pod, reason, message, nomination))

    def skipped(self, pod: PodInfo, note: str) -> None:
        """Event only."""
        self._event(pod, writes.failed_event(note))

    def preempted(self, victim: PodInfo, preemptor: PodInfo, node: str, *, in_memory: bool) -> None:
        """Event only."""
        self._event(victim, writes.preempted_event(preemptor, node, in_memory=in_memory), preemptor)

    # --- no thread waits for this -----------------------------------------------------------------------------------

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        """Bind; `done` is told what went wrong, or None, in another thread. NotLeadingError where nothing is sent."""
        klog.info(3, "Attempting to bind pod to node", pod=pod.full_name, node=node)
        self._check()

        def answered(failure: ApiError | None) -> None:
            if failure is None:
                done(None)
            else:
                self._aside(lambda: done(self._settled(pod, node, failure)))

        writes.send_binding(self._api, pod, node, self._bind_timeout_s, answered, self._leading)

    def _settled(self, pod: PodInfo, node: str, failure: ApiError) -> str | None:
        """What is wrong in the end with a binding that was not simply done."""
        ends = time.monotonic() + self._bind_timeout_s  # at the latest: when it left is not known here
        try:
            if failure.code in NOT_DONE and failure.retry_after_s:
                time.sleep(failure.retry_after_s)
                self._check()
                writes.bind(self._api, pod, node, self._bind_timeout_s)
            else:
                writes.settle_binding(self._api, pod, node, failure, ends)
        except Exception as e:
            return str(e)
        return None

    # --- their threads wait for these -------------------------------------------------------------------------------

    def bind_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim, *, by_controller: bool) -> int:
        """Write the claim into a volume; its new version. Raises what went wrong, as those below that do not say."""
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
        """Have a volume made that the node reaches; the claim's new version."""
        self._check()
        return writes.select_node(self._api, claim, node)

    def evict(self, victim: PodInfo, preemptor: PodInfo, node: str) -> None:
        """Condition, then deletion."""
        self._check()
        name = preemptor.pod.spec.scheduler_name
        writes.evict(self._api, victim, f"{name}: preempting to accommodate a higher priority pod")
        klog.info(
            2,
            "Preemptor Pod preempted victim Pod",
            preemptor=preemptor.full_name,
            victim=victim.full_name,
            node=node,
        )

    def nominate(self, pod: PodInfo, node: str) -> None:
        """status.nominatedNodeName; failures are logged only, since nothing rests on it."""
        try:
            self._check()
            writes.nominate(self._api, pod, node)
        except (ApiError, NotLeadingError) as e:
            if not isinstance(e, ApiError) or e.code not in GONE:
                klog.error(e, "Failed to update the nominated node name", pod=pod.full_name, nominatedNodeName=node)

    def _check(self) -> None:
        if not self._leading():
            raise NotLeadingError

    def _event(self, pod: PodInfo, event: tuple[str, str, str, str], related: PodInfo | None = None) -> None:
        if self._events is not None:
            controller = (related or pod).pod.spec.scheduler_name
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


class NoWrites:
    """The same where nothing may be written (`--dry-run-binding`): what would be said is logged."""

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Never reached: nothing is bound."""

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None) -> None:
        """Log only."""
        klog.info(2, "Dry run: no event, no condition", pod=pod.full_name, reason=reason, note=message)

    def skipped(self, pod: PodInfo, note: str) -> None:
        """Nothing."""

    def preempted(self, victim: PodInfo, preemptor: PodInfo, node: str, *, in_memory: bool) -> None:
        """Never reached: nothing is evicted."""

    def evict(self, victim: PodInfo, preemptor: PodInfo, node: str) -> None:
        """Never reached."""
        raise RuntimeError("a dry run evicts nothing")

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nothing."""
