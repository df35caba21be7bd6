"""Carries preemption out: deletes the victims and clears the nominations of pods of lower priority.

Owns: the order of the requests for one preemptor, and the outcome of each in the record. Does not own: the choice of
victims (DefaultPreemption), the requests themselves (`Writes`). The requests run in other threads, so the loop does not
wait, unless the gate SchedulerAsyncPreemption is off. Until the last request ends, the preemptor's UID is in
`ClusterState.preempting`, which keeps it out of the active queue.

Source: pkg/scheduler/framework/preemption/executor.go v1.36 (prepareCandidateAsync).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from herodotus_record import klog
from herodotus_record.model import Code, Decision, Reason
from scheduler.engine.framework.trace import Trace
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.preemptor import PreemptingGroup, Preemptor
from scheduler.engine.rules.feature_gates import ASYNC_PREEMPTION
from scheduler.live.scheduler import EvictionsFinished, Scheduler
from scheduler.recorder.recorder import PhaseResult


@dataclass(frozen=True)
class ChosenVictims:
    """The node and victims that a decision chose for preemption. `plugin` is the PostFilter's.

    `preemptor_pod` is the pod of the decision, which belongs to the preemptor if that is a group.
    """

    preemptor_pod: PodInfo
    plugin: str
    node: str
    victims: tuple[PodInfo, ...]
    decision: Decision
    group: PreemptingGroup | None = None

    @property
    def preemptor(self) -> Preemptor:
        """The group that preempts, or the pod."""
        return self.group or self.preemptor_pod

    @classmethod
    def from_trace(cls, pod: PodInfo, trace: Trace, decision: Decision) -> ChosenVictims | None:
        """Return the preemption that the pod's cycle chose, or None if no pod is to be evicted."""
        if not trace.victims or trace.preemption is None or not trace.preemption.evicted:
            return None
        return cls(pod, trace.post_filters[-1].plugin, trace.preemption.nominated_node, trace.victims, decision)


class Preemptions:
    """Evicts the victims of preemption and knows which preemptions are in progress.

    Only the loop's thread calls `start` and `finish`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def start(self, chosen: ChosenVictims) -> None:
        """Evict the victims, except those that are terminating already.

        Also clear the nominations of pods of lower priority on that node. The evictions run in other threads; if the
        gate SchedulerAsyncPreemption is off, they are over when this method returns.
        """
        scheduler, preemptor, node = self._scheduler, chosen.preemptor, chosen.node
        scheduler.metrics.preempted(len(chosen.victims))
        staying = [v for v in chosen.victims if not v.terminating]
        if not staying:
            return
        for nominated in scheduler.cluster.nominator.pods_below(chosen.preemptor_pod, node):
            if nominated.pod.status.nominated_node_name:
                scheduler.threads.submit(lambda nominated=nominated: scheduler.writes.nominate(nominated, ""))  # type: ignore[misc]
        running = [v for v in staying if not self._cancel_binding(v, chosen)]
        if running and not scheduler.framework(chosen.preemptor_pod).profile.rules.enabled(ASYNC_PREEMPTION):
            _Evictions(scheduler, chosen, running).run()
        elif running:
            scheduler.cluster.preempting.add(preemptor.uid)
            klog.info(
                2,
                "Start the preemption asynchronously",
                preemptor=preemptor.full_name,
                node=node,
                numVictims=len(chosen.victims),
                numVictimsToDelete=len(running),
            )
            _Evictions(scheduler, chosen, running).start()

    def finish(self, evicted: EvictionsFinished) -> None:
        """End a preemption, and call the queue's `end_preemption` for the pods that waited for it."""
        self._scheduler.cluster.preempting.discard(evicted.uid)
        for uid in evicted.pod_uids:
            self._scheduler.queue.end_preemption(uid, time.monotonic(), failed=evicted.failed)

    def _cancel_binding(self, victim: PodInfo, chosen: ChosenVictims) -> bool:
        """Cancel the binding of a victim that is not bound yet, and return whether that succeeded."""
        scheduler, preemptor, node = self._scheduler, chosen.preemptor, chosen.node
        waiting, binding = scheduler.cluster.waiting.get(victim.uid), scheduler.in_flight.get(victim.uid)
        if waiting is not None:
            cancelled = waiting.preempt(chosen.plugin, "preempted")
        else:
            cancelled = binding is not None and binding.bind_or_cancel.cancel(f"preempted by {chosen.plugin}")
        if cancelled:
            names = {"preemptor": preemptor.full_name, "waitingPod": victim.full_name}
            klog.info(2, "Preemptor preempted a waiting pod", node=node, **names)
            scheduler.writes.preempted(victim, preemptor, node, in_memory=True)
            result = PhaseResult("Evict", Code.SUCCESS, node, Reason("taken-back", {"victim": victim.full_name}))
            scheduler.recorder.record_outcome(chosen.decision, result)
        return cancelled


class _Evictions:
    """The evictions for one preemptor: all victims but the last at once, then the last unless an eviction failed."""

    def __init__(self, scheduler: Scheduler, chosen: ChosenVictims, victims: list[PodInfo]) -> None:
        self._scheduler = scheduler
        self._chosen = chosen
        self._first, self._last = victims[:-1], victims[-1]
        self._left = len(self._first)
        self._failed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin the evictions in other threads."""
        for victim in self._first:
            self._scheduler.threads.submit(lambda victim=victim: self._evict_one(victim))  # type: ignore[misc]
        if not self._first:
            self._scheduler.threads.submit(self._evict_last)

    def run(self) -> None:
        """Evict the victims one after the other in this thread. If an eviction fails, go on with the next victim."""
        for victim in (*self._first, self._last):
            self._evict(victim)

    def _evict_one(self, victim: PodInfo) -> None:
        evicted = self._evict(victim)
        with self._lock:
            self._left -= 1
            self._failed = self._failed or not evicted
            is_last = self._left == 0
        if is_last:
            self._evict_last()

    def _evict_last(self) -> None:
        preemptor = self._chosen.preemptor
        failed = self._failed or not self._evict(self._last)
        result = "error" if failed else "success"
        klog.info(2, "Async Preemption finished completely", preemptor=preemptor.full_name, result=result)
        pods = preemptor.pod_uids if isinstance(preemptor, PreemptingGroup) else (preemptor.uid,)
        self._scheduler.inbox.put(EvictionsFinished(preemptor.uid, failed, pods))

    def _evict(self, victim: PodInfo) -> bool:
        """Evict one victim, record that, and return whether it succeeded."""
        start = time.monotonic()
        writes, preemptor, node = self._scheduler.writes, self._chosen.preemptor, self._chosen.node
        code, reason = Code.SUCCESS, Reason("evicted", {"victim": victim.full_name})
        try:
            writes.evict(victim, preemptor, node)
        except Exception as e:  # the preemptor must not stay out of the queue after any error
            klog.error(e, "Tried to preempted pod", pod=victim.full_name, preemptor=preemptor.full_name)
            code = Code.ERROR
            reason = Reason("eviction-failed", {"victim": victim.full_name, "error": str(e)})
        else:
            writes.preempted(victim, preemptor, node, in_memory=False)
        result = PhaseResult("Evict", code, node, reason, time.monotonic() - start)
        self._scheduler.recorder.record_outcome(self._chosen.decision, result)
        return code is Code.SUCCESS
