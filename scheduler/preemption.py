"""Preemption carried out: the victims go, the pods that had hoped for the node hope no longer.

Owns: the order of the requests for one preemptor, and what became of each, in the record. Does not own: which pods
(DefaultPreemption), the requests themselves (`Writes`). Runs aside: the loop never waits, and until the last request is
answered the preemptor is in `Shared.preempting`, which keeps it out of the active queue.

Source: pkg/scheduler/framework/preemption/executor.go v1.36 (prepareCandidateAsync).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from herodotus_record.model import Code, Decision
from scheduler import klog
from scheduler.eventhandlers import InFlight
from scheduler.objects.pod import PodInfo
from scheduler.recorder.recorder import Recorder
from scheduler.shared import Shared


@dataclass(frozen=True)
class Evicted:
    """Every request for a preemptor is answered, or one failed and the rest was not sent."""

    uid: str
    failed: bool


class EvictionWrites(Protocol):
    """What an eviction needs of the API server."""

    def evict(self, victim: PodInfo, preemptor: PodInfo, node: str) -> None:
        """Condition, then deletion. Waits for the answers; raises what went wrong. A victim that is gone is fine."""

    def preempted(self, victim: PodInfo, preemptor: PodInfo, node: str, *, in_memory: bool) -> None:
        """Event only."""

    def nominate(self, pod: PodInfo, node: str) -> None:
        """status.nominatedNodeName, "" to clear it. Waits for the answer; failures are logged."""


class Preemptions:
    """All that are going on. `start` and `finished` are for the loop's thread."""

    def __init__(
        self,
        shared: Shared,
        in_flight: Mapping[str, InFlight],
        writes: EvictionWrites,
        recorder: Recorder,
        aside: Callable[[Callable[[], None]], None],
        done: Callable[[Evicted], None],
    ) -> None:
        """`aside`: runs requests in another thread. `done`: must only enqueue."""
        self._shared = shared
        self._in_flight = in_flight
        self._writes = writes
        self._recorder = recorder
        self._aside = aside
        self._done = done

    def start(
        self, preemptor: PodInfo, plugin: str, node: str, victims: tuple[PodInfo, ...], decision: Decision
    ) -> None:
        """Make room for the pod on the node. Victims that are on their way out already are left alone."""
        staying = [v for v in victims if not v.terminating]
        if not staying:
            return
        for hopeful in self._shared.nominator.lower(preemptor, node):
            if hopeful.pod.status.nominated_node_name:
                self._aside(lambda hopeful=hopeful: self._writes.nominate(hopeful, ""))  # type: ignore[misc]
        running = [v for v in staying if not self._taken_back(v, preemptor, plugin, node, decision)]
        if running:
            self._shared.preempting.add(preemptor.uid)
            klog.info(
                2,
                "Start the preemption asynchronously",
                preemptor=preemptor.full_name,
                node=node,
                numVictims=len(victims),
                numVictimsToDelete=len(running),
            )
            _Wave(running, lambda v: self._evict(v, preemptor, node, decision), self._aside, self._ended(preemptor))()

    def finished(self, evicted: Evicted) -> None:
        """Let the preemptor in again."""
        self._shared.preempting.discard(evicted.uid)

    def _taken_back(self, victim: PodInfo, preemptor: PodInfo, plugin: str, node: str, decision: Decision) -> bool:
        """A victim that is not bound yet needs no request: it goes back to the queue."""
        waiting, flight = self._shared.waiting.get(victim.uid), self._in_flight.get(victim.uid)
        if waiting is not None:
            gone = waiting.preempt(plugin, "preempted")
        else:
            gone = flight is not None and flight.assumed.turnstile.cancel(f"preempted by {plugin}")
        if gone:
            names = {"preemptor": preemptor.full_name, "waitingPod": victim.full_name}
            klog.info(2, "Preemptor preempted a waiting pod", node=node, **names)
            self._writes.preempted(victim, preemptor, node, in_memory=True)
            self._say(decision, node, Code.SUCCESS, f"{victim.full_name} was not bound yet and is taken back", 0.0)
        return gone

    def _evict(self, victim: PodInfo, preemptor: PodInfo, node: str, decision: Decision) -> bool:
        start = time.monotonic()
        code, message = Code.SUCCESS, f"{victim.full_name} evicted"
        try:
            self._writes.evict(victim, preemptor, node)
        except Exception as e:  # whatever it is, the preemptor must not stay out of the queue
            klog.error(e, "Tried to preempted pod", pod=victim.full_name, preemptor=preemptor.full_name)
            code, message = Code.ERROR, f"{victim.full_name} not evicted: {e}"
        else:
            self._writes.preempted(victim, preemptor, node, in_memory=False)
        self._say(decision, node, code, message, time.monotonic() - start)
        return code is Code.SUCCESS

    def _ended(self, preemptor: PodInfo) -> Callable[[bool], None]:
        def ended(failed: bool) -> None:
            result = "error" if failed else "success"
            klog.info(2, "Async Preemption finished completely", preemptor=preemptor.full_name, result=result)
            self._done(Evicted(preemptor.uid, failed))

        return ended

    def _say(self, decision: Decision, node: str, code: Code, message: str, duration_s: float) -> None:
        self._recorder.outcome(decision, "Evict", code, node, message, duration_s, final=False)


class _Wave:
    """The victims of one preemptor: all but the last at once, then the last, unless one failed."""

    def __init__(
        self,
        victims: list[PodInfo],
        evict: Callable[[PodInfo], bool],
        aside: Callable[[Callable[[], None]], None],
        ended: Callable[[bool], None],
    ) -> None:
        """`ended`: told once, whether one failed."""
        self._first, self._last = victims[:-1], victims[-1]
        self._evict = evict
        self._aside = aside
        self._ended = ended
        self._left = len(self._first)
        self._failed = False
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Begin."""
        for victim in self._first:
            self._aside(lambda victim=victim: self._one_of_the_first(victim))  # type: ignore[misc]
        if not self._first:
            self._aside(self._the_last)

    def _one_of_the_first(self, victim: PodInfo) -> None:
        gone = self._evict(victim)
        with self._lock:
            self._left -= 1
            self._failed = self._failed or not gone
            is_last = self._left == 0
        if is_last:
            self._the_last()

    def _the_last(self) -> None:
        self._ended(self._failed or not self._evict(self._last))
