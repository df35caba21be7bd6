"""`--dry-run-binding`: decide and record, bind nothing.

Owns: the pods that were decided and not bound. Each pod is decided once. It stays assumed on its node, with its
volumes, until another scheduler binds it, it changes or it is deleted, so that later pods are decided as if it were
bound. Does not own: the decision, the suppressed writes (`scheduler.Writes`).
"""

from __future__ import annotations

from typing import Any, Final

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record.model import Code
from scheduler.backend.event_handlers import PODS
from scheduler.engine.objects.types import Pod
from scheduler.live.binding_cycle import BindingCycles
from scheduler.live.in_flight import InFlightBinding
from scheduler.live.scheduler import Scheduler
from scheduler.recorder.recorder import PhaseResult

DRY_RUN_MESSAGE: Final = "dry run: the pod is not bound; Permit, PreBind and Bind were not asked"


class DryRunBinding:
    """Replaces the binding cycle under `--dry-run-binding`: keeps decided pods assumed and binds none.

    Only the loop's thread calls it.
    """

    def __init__(self, scheduler: Scheduler, cycles: BindingCycles) -> None:
        self._queue = scheduler.queue
        self._recorder = scheduler.recorder
        self._metrics = scheduler.metrics
        self._cycles = cycles
        self._decided: dict[str, InFlightBinding] = {}

    def keep(self, binding: InFlightBinding) -> None:
        """Record the outcome DryRun of a reserved pod instead of binding it, and leave it assumed."""
        result = PhaseResult("DryRun", Code.SKIP, binding.node, DRY_RUN_MESSAGE, final=True)
        self._recorder.record_outcome(binding.decision, result)
        self._decided[binding.pod.uid] = binding
        self._metrics.discarded(binding.pod.uid)
        self._queue.done(binding.pod.uid)

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
