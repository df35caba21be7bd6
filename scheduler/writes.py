"""What the loop tells the API server besides bindings: events and conditions, none of which it waits for."""

from __future__ import annotations

from collections.abc import Callable

from scheduler import klog
from scheduler.kube.events import EventSender
from scheduler.kube.http import ApiError, ApiServer
from scheduler.kube.writes import failed_event, scheduled_event, set_unscheduled
from scheduler.objects.pod import PodInfo


class ApiWrites:
    """`loop.Writes` on a real API server."""

    def __init__(self, api: ApiServer, events: EventSender | None, aside: Callable[[Callable[[], None]], None]) -> None:
        """`events`: None where the API is absent. `aside`: runs requests in another thread."""
        self._api = api
        self._events = events
        self._aside = aside

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Event only: the API server sets the condition when it binds."""
        self._event(pod, scheduled_event(pod, node))

    def not_scheduled(self, pod: PodInfo, reason: str, message: str) -> None:
        """Event and condition."""
        self._event(pod, failed_event(message))
        self._aside(lambda: self._condition(pod, reason, message))

    def skipped(self, pod: PodInfo, note: str) -> None:
        """Event only."""
        self._event(pod, failed_event(note))

    def _event(self, pod: PodInfo, event: tuple[str, str, str, str]) -> None:
        if self._events is not None:
            self._events.send(pod, pod.pod.spec.scheduler_name, event)

    def _condition(self, pod: PodInfo, reason: str, message: str) -> None:
        try:
            if set_unscheduled(self._api, pod, reason, message):
                klog.info(
                    3,
                    "Updating pod condition and nominated node name",
                    pod=pod.full_name,
                    conditionType="PodScheduled",
                    conditionStatus="False",
                    conditionReason=reason,
                )
        except ApiError as e:
            if e.code not in (404, 409, 422):  # gone, or recreated under the same name
                klog.error(e, "Error updating pod", pod=pod.full_name)
