"""Events about pods, sent aside so that nothing waits for them, repeats folded into series.

Source: k8s.io/client-go/tools/events: repeats of one (type, reason, action, object) are counted in `series`, refreshed
rarely; the first note stays.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from scheduler import klog
from scheduler.kube.http import MERGE_PATCH, ApiError, ApiServer, Json
from scheduler.kube.writes import micro_time, new_event
from scheduler.objects.pod import PodInfo

BACKLOG: Final = 10_000  # events that wait to be sent; more are dropped and counted, scheduling does not wait
SERIES: Final = 10_000  # remembered: beyond it a repeat becomes a new event, as for one that has ended
SERIES_ENDS_S: Final = 360.0  # a repeat after this long is a new event
TRIES: Final = 12  # to write one event while nobody answers, as client-go; what waits meanwhile is the backlog's limit
PAUSE_S: Final = (0.5, 10.0)  # first and longest pause between them
REFRESH_S: Final = 1800.0  # how often a series' count is written
_LOOKED_AT: Final = 16  # series looked at for each event: more than one event can add
_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"

_Item = tuple[PodInfo, str, tuple[str, str, str, str], PodInfo | None]
_Key = tuple[str, str, str, str, str]


@dataclass
class _Series:
    """An event that was written, and how often it has happened since."""

    name: str
    namespace: str
    count: int
    last_s: float
    written_s: float


class EventSender:
    """Writes events from a thread of its own. Thread-safe."""

    def __init__(self, api: ApiServer, instance: str) -> None:
        self.dropped = 0
        self._api = api
        self._instance = instance
        self._backlog: queue.Queue[_Item | None] = queue.Queue(BACKLOG)
        self._series: dict[_Key, _Series] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def send(
        self, pod: PodInfo, controller: str, event: tuple[str, str, str, str], related: PodInfo | None = None
    ) -> None:
        """Queue an event; drop it when too many wait."""
        try:
            self._backlog.put_nowait((pod, controller, event, related))
        except queue.Full:
            self.dropped += 1

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what waits, for so long at most."""
        self._closing.set()
        try:
            self._backlog.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (item := self._backlog.get()) is not None:
            try:
                self._write(*item)
            except ApiError as e:
                if e.code != 404:  # the namespace went with the pod
                    klog.error(e, "Server rejected event (will not retry!)", pod=item[0].full_name)

    def _write(self, pod: PodInfo, controller: str, event: tuple[str, str, str, str], related: PodInfo | None) -> None:
        now = time.monotonic()
        key = (pod.uid, related.uid if related else "", *event[:3])
        self._forget_old(now)
        series = self._series.get(key)
        if series is not None:
            series.count += 1
            series.last_s = now
            if series.count > 2 and now - series.written_s < REFRESH_S:
                return
            series.written_s = now
            if self._counted(series):
                return
        body = new_event(pod, controller, self._instance, event, related)
        self._patiently(lambda: self._api.post(_EVENTS.format(body["metadata"]["namespace"]), body))
        self._series[key] = _Series(body["metadata"]["name"], body["metadata"]["namespace"], 1, now, now)

    def _counted(self, series: _Series) -> bool:
        """Write a series' count; False when its event is gone (the API server keeps events for an hour)."""
        patch: Json = {"series": {"count": series.count, "lastObservedTime": micro_time()}}
        try:
            path = f"{_EVENTS.format(series.namespace)}/{series.name}"
            self._patiently(lambda: self._api.patch(path, patch, MERGE_PATCH))
        except ApiError as e:
            if e.code != 404:
                raise
            return False
        return True

    def _patiently(self, write: Callable[[], object]) -> None:
        """Write, again and again while nobody answers. An answer that was lost may leave an event twice."""
        pause = PAUSE_S[0]
        for tries_left in reversed(range(TRIES)):
            try:
                write()
                return
            except ApiError as e:
                if e.code != 0 or not tries_left or self._closing.wait(pause * random.uniform(1, 2)):
                    raise
            pause = min(pause * 2, PAUSE_S[1])

    def _forget_old(self, now: float) -> None:
        """Ended series, oldest first: the dictionary is in order of creation, and nearly of age."""
        for key in list(islice(self._series, _LOOKED_AT)):
            if now - self._series[key].last_s > SERIES_ENDS_S or len(self._series) >= SERIES:
                del self._series[key]
