"""`--dry-run-binding`: decide and record, bind nothing.

Owns: the pods that were decided and not bound. Each pod is decided once. It stays assumed on its node, with its
volumes, until another scheduler binds it, it changes or it is deleted, so that later pods are decided as if it were
bound. Does not own: the decision, the suppressed writes (`api_writes.NoWrites`).
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_record.model import Code, Decision
from scheduler.backend.event_handlers import PODS
from scheduler.backend.queue import QueuedPod, SchedulingQueue
from scheduler.engine.cycle import CycleResult
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.types import Pod
from scheduler.kube.watch import ListResult, WatchEvent
from scheduler.live.binding import Assumed
from scheduler.live.binding_cycle import BindingCycles
from scheduler.recorder.recorder import PhaseResult, Recorder

DRY_RUN_MESSAGE: Final = "dry run: the pod is not bound; Permit, PreBind and Bind were not asked"


class DryRunBinding:
    """Replaces the binding cycle under `--dry-run-binding`: keeps decided pods assumed and binds none.

    Only the loop's thread calls it.
    """

    def __init__(self, cycles: BindingCycles, queue: SchedulingQueue, recorder: Recorder) -> None:
        self._cycles = cycles
        self._queue = queue
        self._recorder = recorder
        self._decided: dict[str, Assumed] = {}

    def start(self, queued: QueuedPod, framework: Framework, result: CycleResult, decision: Decision) -> None:
        """Assume the pod on its node, run Reserve, and record the outcome DryRun instead of binding."""
        assumed = self._cycles.reserve(queued, framework, result, decision)
        if assumed is not None:
            dry_run = PhaseResult("DryRun", Code.SKIP, assumed.node, DRY_RUN_MESSAGE, final=True)
            self._recorder.record_outcome(decision, dry_run)
            self._decided[assumed.pod.uid] = assumed
            self._queue.done(assumed.pod.uid)

    def observe(self, message: ListResult[Any] | WatchEvent[Any]) -> None:
        """Undo the assumption of each decided pod that was changed, bound or deleted according to a watch message.

        Call it before other handlers see the message.
        """
        if message.kind != PODS:
            return
        if isinstance(message, ListResult):
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
