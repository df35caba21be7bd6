"""`--dry-run-binding`: decide and record, bind nothing.

Owns: the pods that were decided and not bound. Each is decided once for what it is; it counts on its node, with its
volumes, until another scheduler binds it, it changes or it goes, so that a whole wave of pods is decided as if it were
bound. Does not own: the decision; what is not written (`writes.NoWrites`).
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_record.model import Code, Decision
from scheduler.binding import Assumed
from scheduler.binding_cycle import BindingCycles
from scheduler.cycle import CycleResult
from scheduler.eventhandlers import PODS
from scheduler.framework.runtime import Framework
from scheduler.kube.watch import Changed, Listed
from scheduler.objects.types import Pod
from scheduler.queue import QueuedPod, SchedulingQueue
from scheduler.recorder.recorder import Recorder

MARK: Final = "dry run (--dry-run-binding): nothing is bound, evicted or written; decided pods count on their nodes"
SAID: Final = "dry run: the pod is not bound; Permit, PreBind and Bind were not asked"


class DryRunBinding:
    """In the place of everything that follows Reserve. For the loop's thread only."""

    def __init__(self, cycles: BindingCycles, queue: SchedulingQueue, recorder: Recorder) -> None:
        self._cycles = cycles
        self._queue = queue
        self._recorder = recorder
        self._decided: dict[str, Assumed] = {}

    def start(self, queued: QueuedPod, framework: Framework, result: CycleResult, decision: Decision) -> None:
        """Keep the pod's place."""
        assumed = self._cycles.reserve(queued, framework, result, decision)
        if assumed is not None:
            self._recorder.outcome(decision, "DryRun", Code.SKIP, assumed.node, SAID, 0.0, final=True)
            self._decided[assumed.pod.uid] = assumed
            self._queue.done(assumed.pod.uid)

    def observe(self, message: Listed[Any] | Changed[Any]) -> None:
        """Give up the places of pods that are not any longer what was decided. Before anybody else hears of it."""
        if message.kind != PODS:
            return
        if isinstance(message, Listed):
            listed = {pod.metadata.uid: pod for pod in message.objects}
            for uid in list(self._decided):
                self._compare(uid, listed.get(uid))
        elif message.object.metadata.uid in self._decided:
            self._compare(message.object.metadata.uid, None if message.type == "DELETED" else message.object)

    def _compare(self, uid: str, now: Pod | None) -> None:
        decided = self._decided[uid]
        was = decided.pod.pod
        if now is not None and (now.spec, now.metadata.labels) == (was.spec, was.metadata.labels):
            return
        del self._decided[uid]
        self._cycles.undo(decided)
