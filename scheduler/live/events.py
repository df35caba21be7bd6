"""Sends Kubernetes events about pods in the background, and counts repetitions in an event's `series`.

Owns: the content of events as kube-scheduler writes them, the order of events of one pod, series, retries. Does not
own: HTTP, when an event is sent (`api_writes`).

Source: k8s.io/client-go/tools/events. Repetitions of one (type, reason, action, object) are counted in `series`, which
is rarely rewritten; the first note stays.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from herodotus_kube.http import MERGE_PATCH, ApiError, ApiRequest, ApiServer, Json, micro_time
from herodotus_record import klog
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.preemptor import PreemptingGroup, Preemptor, name_kind

NOTE_LIMIT: Final = 1024  # bytes of an event's note that the API accepts
_TRUNCATE_TO: Final = 1020  # kube-scheduler cuts longer ones to this and adds " ..."
LANES: Final = 4  # requests under way: bindings have the other connections
BACKLOG: Final = 10_000  # events that wait to be sent; more are dropped and counted, scheduling does not wait
SERIES: Final = 10_000  # remembered: beyond it a repeat becomes a new event, as for one that has ended
SERIES_ENDS_S: Final = 360.0  # a repeat after this long is a new event
TRIES: Final = (
    12  # to write one event while the API server is away, as client-go; the backlog limits what waits meanwhile
)
PAUSE_S: Final = (0.5, 10.0)  # first and longest pause between them
REFRESH_S: Final = 1800.0  # how often a series' count is written
_MAX_CHECKED: Final = 16  # series looked at for each event: more than one event can add
_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"

_Item = tuple[PodInfo, str, tuple[str, str, str, str], Preemptor | None]
_Key = tuple[str, str, str, str, str]


@dataclass
class _Series:
    """An event that was written to the API server, with the number of its repetitions and when they occurred."""

    name: str
    namespace: str
    count: int
    last_s: float
    written_s: float


@dataclass
class _Write:
    """A request that creates an event or updates its series, with the callbacks for the response."""

    item: _Item
    request: ApiRequest
    done: Callable[[], None]
    absent: Callable[[], bool]  # the answer was 404: whether another request is under way instead
    tries_left: int = TRIES
    pause_s: float = 0.0


class EventSender:
    """Writes Kubernetes events to the API server in the background, a few requests at a time. Thread-safe."""

    def __init__(self, api: ApiServer, instance: str) -> None:
        self.dropped = 0
        self._closing = threading.Event()
        self._lanes = [_EventLane(api, instance, self._closing) for _ in range(LANES)]

    def send(
        self, pod: PodInfo, controller: str, event: tuple[str, str, str, str], related: Preemptor | None = None
    ) -> None:
        """Queue an event about a pod. If too many are waiting, drop it and count it in `dropped`.

        `event` is (type, reason, action, note), `controller` the reporting scheduler's name.
        """
        if not self._lanes[hash(pod.uid) % LANES].add((pod, controller, event, related)):
            self.dropped += 1

    @property
    def series(self) -> int:
        """The number of events that are remembered in order to count their repetitions."""
        return sum(lane.series for lane in self._lanes)

    def close(self, timeout_s: float = 5.0) -> None:
        """Wait until the queued events are sent, at most `timeout_s` seconds."""
        self._closing.set()
        deadline = time.monotonic() + timeout_s
        for lane in self._lanes:
            lane.wait(deadline)


class _EventLane:
    """Sends the events of some pods one after the other.

    While `_busy`, the next request follows from a response or a timer.
    """

    def __init__(self, api: ApiServer, instance: str, closing: threading.Event) -> None:
        self._api = api
        self._instance = instance
        self._closing = closing
        self._backlog: deque[_Item] = deque()
        self._series: dict[_Key, _Series] = {}
        self._busy = False
        self._pausing: tuple[threading.Timer, _Write] | None = None
        self._free = threading.Condition()

    @property
    def series(self) -> int:
        return len(self._series)

    def add(self, item: _Item) -> bool:
        """Queue an event and send it if no request is under way. Return False if too many events are waiting."""
        with self._free:
            if len(self._backlog) >= BACKLOG // LANES:
                return False
            self._backlog.append(item)
            if self._busy:
                return True
            self._busy = True
        self._send_next()
        return True

    def wait(self, deadline: float) -> None:
        """Wait until all queued events are sent, or until the deadline (monotonic seconds).

        If a repetition of a request waits for the end of its pause, send it at once.
        """
        pausing, self._pausing = self._pausing, None
        if pausing is not None:
            timer, write = pausing
            timer.cancel()
            self._send(write)
        with self._free:
            self._free.wait_for(lambda: not self._busy, max(0.0, deadline - time.monotonic()))

    def _send_next(self) -> None:
        """Send the request for the next queued event; skip events whose repetition is only counted."""
        while True:
            with self._free:
                if not self._backlog:
                    self._busy = False
                    self._free.notify_all()
                    return
                item = self._backlog.popleft()
            write = self._next_write(item)
            if write is not None:
                self._send(write)
                return

    def _next_write(self, item: _Item) -> _Write | None:
        """Return the request that creates an event or updates its series, or None if the repetition is only counted."""
        pod, _, event, related = item
        now = time.monotonic()
        key = (pod.uid, related.uid if related else "", *event[:3])
        self._drop_ended_series(now)
        series = self._series.get(key)
        if series is None:
            return self._new(item, key, now)
        series.count += 1
        series.last_s = now
        if series.count > 2 and now - series.written_s < REFRESH_S:
            return None
        series.written_s = now
        patch: Json = {"series": {"count": series.count, "lastObservedTime": micro_time()}}
        path = f"{_EVENTS.format(series.namespace)}/{series.name}"

        def written_anew() -> bool:  # the API server keeps events for an hour
            self._send(self._new(item, key, now))
            return True

        return _Write(item, ApiRequest("PATCH", path, patch, MERGE_PATCH), lambda: None, written_anew)

    def _new(self, item: _Item, key: _Key, now: float) -> _Write:
        pod, controller, event, related = item
        body = build_event(pod, controller, self._instance, event, related)
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]

        def remember() -> None:
            self._series[key] = _Series(name, namespace, 1, now, now)

        return _Write(item, ApiRequest("POST", _EVENTS.format(namespace), body), remember, lambda: False)

    def _send(self, write: _Write) -> None:
        self._api.send(write.request, lambda error: self._handle_response(write, error))

    def _handle_response(self, write: _Write, error: ApiError | None) -> None:
        if error is None:
            write.done()
        elif error.code == 0 and write.tries_left > 1 and not self._closing.is_set():
            self._retry_later(write)
            return
        elif error.code == 404:  # the namespace went with the pod, or the event
            if write.absent():
                return
        else:
            klog.error(error, "Server rejected event (will not retry!)", pod=write.item[0].full_name)
            if error.code == 0 and self._closing.is_set():
                self._backlog.clear()
        self._send_next()

    def _retry_later(self, write: _Write) -> None:
        """Repeat a request after a pause, because the server did not respond.

        If only the response was lost, the event exists twice afterwards.
        """
        write.tries_left -= 1
        write.pause_s = min(write.pause_s * 2, PAUSE_S[1]) or PAUSE_S[0]
        timer = threading.Timer(write.pause_s * random.uniform(1, 2), self._pause_over)
        timer.daemon = True
        self._pausing = timer, write
        timer.start()

    def _pause_over(self) -> None:
        pausing, self._pausing = self._pausing, None
        if pausing is not None:
            self._send(pausing[1])

    def _drop_ended_series(self, now: float) -> None:
        """Forget series without a recent repetition, and the oldest series beyond the limit.

        Only the _MAX_CHECKED oldest are checked: the dictionary is in order of creation and therefore nearly in order
        of age.
        """
        for key in list(islice(self._series, _MAX_CHECKED)):
            if now - self._series[key].last_s > SERIES_ENDS_S or len(self._series) >= SERIES // LANES:
                del self._series[key]


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
    suffix = " (in kube-scheduler memory)." if in_memory else ""
    return (
        "Normal",
        "Preempted",
        "Preempting",
        f"Preempted by {name_kind(preemptor)} {preemptor.uid} on node {node}{suffix}",
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


def _truncate_note(note: str, reserved: int = 0) -> str:
    """Return the note, cut if it would exceed the size limit of an event's note less `reserved` bytes."""
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT - reserved:
        return note
    return encoded[: _TRUNCATE_TO - reserved].decode(errors="ignore") + " ..."
