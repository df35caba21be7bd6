"""Carries preemption out: deletes the victims and clears the nominations of pods of lower priority.

Owns: the order of the requests for one preemptor, and the outcome of each in the record. Does not own: the choice of
victims (DefaultPreemption), the requests themselves (`EvictionWrites`). The requests run in other threads, so the loop
never waits. Until the last request ends, the preemptor's UID is in `ClusterState.preempting`, which keeps it out of the
active queue.

Source: pkg/scheduler/framework/preemption/executor.go v1.36 (prepareCandidateAsync).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from herodotus_record.model import Code, Decision, Reason
from scheduler import klog
from scheduler.backend.cluster_state import ClusterState
from scheduler.engine.objects.pod import PodInfo
from scheduler.live.binding_cycle import InFlightBinding
from scheduler.recorder.recorder import PhaseResult, Recorder


@dataclass(frozen=True)
class EvictionsFinished:
    """The end of a preemption by the pod with the UID `uid`. `failed` says that an eviction failed.

    After a failure the last victim is not evicted.
    """

    uid: str
    failed: bool


class EvictionWrites(Protocol):
    """The writes to the API server that evict victims."""

    def evict(self, victim: PodInfo, preemptor: PodInfo, node: str) -> None:
        """Set the victim's condition DisruptionTarget, delete the pod and wait for the responses.

        Raise an exception on failure. A victim that does not exist any more is a success.
        """

    def preempted(self, victim: PodInfo, preemptor: PodInfo, node: str, *, in_memory: bool) -> None:
        """Send the Preempted event of a victim.

        `in_memory` says that it was not bound and only its binding was cancelled.
        """

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Write the pod's status.nominatedNodeName, where "" clears it, and wait. Failures are only logged."""


class Preemptions:
    """Evicts the victims of preemption and knows which preemptions are in progress.

    Only the loop's thread calls `start` and `finished`.
    """

    def __init__(
        self,
        shared: ClusterState,
        in_flight: Mapping[str, InFlightBinding],
        writes: EvictionWrites,
        recorder: Recorder,
        aside: Callable[[Callable[[], None]], None],
        done: Callable[[EvictionsFinished], None],
    ) -> None:
        """Take references to the loop's parts.

        `aside` runs a function in another thread. `done` receives the end of each preemption in any thread and must
        only enqueue it.
        """
        self._shared = shared
        self._in_flight = in_flight
        self._writes = writes
        self._recorder = recorder
        self._aside = aside
        self._done = done

    def start(
        self, preemptor: PodInfo, plugin: str, node: str, victims: tuple[PodInfo, ...], decision: Decision
    ) -> None:
        """Evict the victims from the node in other threads, except those that are terminating already.

        Also clear the nominations of pods of lower priority on that node.
        """
        staying = [v for v in victims if not v.terminating]
        if not staying:
            return
        for nominated in self._shared.nominator.pods_below(preemptor, node):
            if nominated.pod.status.nominated_node_name:
                self._aside(lambda nominated=nominated: self._writes.nominate(nominated, ""))  # type: ignore[misc]
        running = [v for v in staying if not self._cancel_binding(v, preemptor, plugin, node, decision)]
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
            _VictimEvictions(
                running, lambda v: self._evict(v, preemptor, node, decision), self._aside, self._ended(preemptor)
            ).start()

    def finished(self, evicted: EvictionsFinished) -> None:
        """Allow the preemptor into the active queue again after its evictions ended."""
        self._shared.preempting.discard(evicted.uid)

    def _cancel_binding(self, victim: PodInfo, preemptor: PodInfo, plugin: str, node: str, decision: Decision) -> bool:
        """Cancel the binding of a victim that is not bound yet, and return whether that succeeded."""
        waiting, flight = self._shared.waiting.get(victim.uid), self._in_flight.get(victim.uid)
        if waiting is not None:
            cancelled = waiting.preempt(plugin, "preempted")
        else:
            cancelled = flight is not None and flight.assumed.bind_or_cancel.cancel(f"preempted by {plugin}")
        if cancelled:
            names = {"preemptor": preemptor.full_name, "waitingPod": victim.full_name}
            klog.info(2, "Preemptor preempted a waiting pod", node=node, **names)
            self._writes.preempted(victim, preemptor, node, in_memory=True)
            self._record(decision, node, Code.SUCCESS, Reason("taken-back", {"victim": victim.full_name}), 0.0)
        return cancelled

    def _evict(self, victim: PodInfo, preemptor: PodInfo, node: str, decision: Decision) -> bool:
        start = time.monotonic()
        code, reason = Code.SUCCESS, Reason("evicted", {"victim": victim.full_name})
        try:
            self._writes.evict(victim, preemptor, node)
        except Exception as e:  # the preemptor must not stay out of the queue after any error
            klog.error(e, "Tried to preempted pod", pod=victim.full_name, preemptor=preemptor.full_name)
            code = Code.ERROR
            reason = Reason("eviction-failed", {"victim": victim.full_name, "error": str(e)})
        else:
            self._writes.preempted(victim, preemptor, node, in_memory=False)
        self._record(decision, node, code, reason, time.monotonic() - start)
        return code is Code.SUCCESS

    def _ended(self, preemptor: PodInfo) -> Callable[[bool], None]:
        def ended(failed: bool) -> None:
            result = "error" if failed else "success"
            klog.info(2, "Async Preemption finished completely", preemptor=preemptor.full_name, result=result)
            self._done(EvictionsFinished(preemptor.uid, failed))

        return ended

    def _record(self, decision: Decision, node: str, code: Code, reason: Reason, duration_s: float) -> None:
        self._recorder.record_outcome(decision, PhaseResult("Evict", code, node, reason, duration_s))


class _VictimEvictions:
    """The evictions for one preemptor: all victims but the last at once, then the last unless an eviction failed."""

    def __init__(
        self,
        victims: list[PodInfo],
        evict: Callable[[PodInfo], bool],
        aside: Callable[[Callable[[], None]], None],
        ended: Callable[[bool], None],
    ) -> None:
        """Prepare the evictions.

        `evict` evicts one victim and returns whether it succeeded. `ended` is called once, with whether an eviction
        failed.
        """
        self._first, self._last = victims[:-1], victims[-1]
        self._evict = evict
        self._aside = aside
        self._ended = ended
        self._left = len(self._first)
        self._failed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin the evictions in other threads."""
        for victim in self._first:
            self._aside(lambda victim=victim: self._evict_one(victim))  # type: ignore[misc]
        if not self._first:
            self._aside(self._evict_last)

    def _evict_one(self, victim: PodInfo) -> None:
        evicted = self._evict(victim)
        with self._lock:
            self._left -= 1
            self._failed = self._failed or not evicted
            is_last = self._left == 0
        if is_last:
            self._evict_last()

    def _evict_last(self) -> None:
        self._ended(self._failed or not self._evict(self._last))
