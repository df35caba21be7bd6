"""Preparation, in slices between other cycles, of pods whose cycle would stop the scheduling loop for too long.

The plugins count in advance what the pod's terms select (`Framework.prepare_pod`), and every change of the cluster
keeps these counts current. When all are counted, the pod's ordinary cycle runs at once, on the cluster as it then is,
with the same plugins and the same result as without preparation.

Owns: which pods are prepared this way, the order, the time of a slice, and when a pod is decided in any case. Does not
own: what a plugin counts, the queue.

Invariant: a pod waits for its preparation in the active queue, so that events of it are applied as for other pods.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from scheduler.backend.queue import QueuedPod
from scheduler.engine.objects.pod import PodInfo
from scheduler.live.scheduler import Scheduler

SLICE_S: Final = 0.02  # the longest that another pod waits for a slice, about as long as for a cycle without caches
MAX_SLICES: Final = 1000  # 20 s of the loop's time; a pod whose counts change faster is then decided at once


class GradualPreparation:
    """The pods of the active queue that wait until their terms are counted. Only the loop's thread uses it."""

    def __init__(self, scheduler: Scheduler, clock: Callable[[], float] = time.monotonic) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._slices: dict[str, int] = {}  # used so far, by pod UID in the order of arrival
        self._not_before = 0.0

    def __len__(self) -> int:
        """Return the number of pods that wait."""
        return len(self._slices)

    def defer(self, queued: QueuedPod) -> bool:
        """Put a popped pod back into the active queue, to be prepared, if it has many terms that are not counted yet.

        Return whether the pod was put back. Otherwise it can be decided now.
        """
        nodes = self._scheduler.cluster.cache.columns.slots
        if not queued.pod.has_many_terms(nodes) or self._prepare(queued.pod, lambda: False):
            return False
        self._scheduler.queue.set_aside(queued, self._clock())
        if queued.uid not in self._slices:
            self._slices[queued.uid] = 0
            self._scheduler.metrics.prepared_gradually()
        return True

    def advance(self) -> QueuedPod | None:
        """Count terms of the first waiting pod for at most SLICE_S seconds, and pop and return it if it can be decided.

        Return None if it needs more time or no pod waits. The next slice begins no sooner than this one took, so that
        other pods get half of the time.
        """
        started = self._clock()
        if not self._slices or started < self._not_before:
            return None
        uid = next(iter(self._slices))
        queued = self._scheduler.queue.get(uid)
        if queued is None:  # deleted, or bound by another scheduler
            del self._slices[uid]
            return None
        ready = self._prepare(queued.pod, lambda: self._clock() - started < SLICE_S)
        now = self._clock()
        self._not_before = now + (now - started)
        self._slices[uid] += 1
        if not ready and self._slices[uid] < MAX_SLICES:
            return None
        del self._slices[uid]
        return self._scheduler.queue.pop_pod(uid, now)

    def _prepare(self, pod: PodInfo, has_time: Callable[[], bool]) -> bool:
        return self._scheduler.framework(pod).prepare_pod(pod, self._scheduler.cluster.cache.columns, has_time)
