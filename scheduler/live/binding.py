"""Runs PreBind, Bind and PostBind in background threads.

Owns: the order of these phases and their outcomes in the record. Does not own: the cache (the loop undoes a failed
binding), pods that wait (`binding_cycle`), the requests in flight and their limit (`bind_requests`).

Invariants: the decision is in the spool before anything here runs, so no bind request leaves unrecorded. A thread waits
only for the response to a request, and not for a DeferredBind. A PreBind plugin that must wait ends as a
`PendingPreBind`, and `submit` resumes it. Nothing is sent once another process may lead.
"""

from __future__ import annotations

import time
from typing import Final

from herodotus_record import klog
from herodotus_record.model import Code, PluginVerdict
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.reserve_and_bind import DeferredBind
from scheduler.engine.framework.verdicts import Pending, error
from scheduler.engine.rules.feature_gates import NOMINATION_FOR_EXPECTATION
from scheduler.live.in_flight import BindingResult, InFlightBinding, PendingPreBind
from scheduler.live.scheduler import Scheduler
from scheduler.recorder.recorder import PhaseResult

NOT_LEADING: Final = "leadership is lost: nothing is bound any more"
_NOT_LEADING: Final = PluginVerdict("", error(NOT_LEADING))


class Binder:
    """Runs the last phases of binding cycles (PreBind, Bind, PostBind). Their results arrive in the loop's inbox."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._inbox = scheduler.inbox
        self._leading = scheduler.fence.leading
        self._metrics = scheduler.metrics
        self._recorder = scheduler.recorder
        self._requests = scheduler.requests
        self._threads = scheduler.threads
        self._writes = scheduler.writes

    def submit(self, binding: InFlightBinding, after: PendingPreBind | None = None) -> None:
        """Run the pod's PreBind, Bind and PostBind without waiting.

        `after` is the PreBind wait that ended, if the binding is resumed. After `close` nothing is bound.
        """
        if binding.pre_binds or not binding.framework.binds_at_once(binding.pod):
            self._threads.submit(lambda: self._bind(binding, after))
        else:
            self._requests.enqueue(lambda: self._send_binding(binding))

    def close(self) -> None:
        """Wait for the bindings in flight; drop those that have not begun."""
        self._requests.close()
        self._threads.close()

    def _bind(self, binding: InFlightBinding, after: PendingPreBind | None) -> None:
        try:
            ended = self._pre_bind(binding, after)
        except (Exception, SystemExit) as e:  # a binding that never ends would hold its node's room for ever
            klog.error(e, "Binding failed", pod=binding.pod.full_name)
            ended = str(e)
        if ended is None:
            self._requests.send_now(lambda: self._send_binding(binding))
        else:
            self._inbox.put(ended if isinstance(ended, PendingPreBind) else BindingResult(binding.pod.uid, ended))

    def _pre_bind(self, binding: InFlightBinding, after: PendingPreBind | None) -> str | PendingPreBind | None:
        """Run the pod's PreBind plugins. Return the failure message, a plugin's wait, or None on success.

        Without plugins that have work to do, nothing is recorded.
        """
        pod, framework = binding.pod, binding.framework
        if not binding.pre_binds:
            return None
        if isinstance(binding.pre_binds, PluginVerdict):
            return self.record_end(binding, "PreBind", binding.pre_binds, 0.0)
        expects = framework.profile.rules.enabled(NOMINATION_FOR_EXPECTATION)
        if expects and after is None and binding.waiting_since is None and self._leading():
            self._writes.nominate(pod, binding.node)
        began, done = (time.monotonic(), 0) if after is None else (after.began, after.done)
        result: PluginVerdict | tuple[int, Pending] | None = _NOT_LEADING
        if self._leading():
            result = framework.run_pre_bind(binding.state, pod, binding.node, done)
        now = time.monotonic()
        if isinstance(result, tuple):
            number, pending = result
            plugin = framework.profile.pre_bind[number].name
            waits = PhaseResult("PreBind", Code.WAIT, binding.node, f"{plugin} waits for {pending.what}", now - began)
            self._recorder.record_outcome(binding.decision, waits)
            return PendingPreBind(pod.uid, plugin, pending, number + 1, began, now)
        return self.record_end(binding, "PreBind", result, now - began)

    def _send_binding(self, binding: InFlightBinding) -> None:
        pod, start = binding.pod, time.monotonic()
        if not binding.bind_or_cancel.begin_binding():
            cancelled = PluginVerdict("", error(binding.bind_or_cancel.cancelled or ""))
            self._finish(binding, self.record_end(binding, "PreBind", cancelled, 0.0), None)
            return
        self._requests.begin(binding)
        try:
            result = binding.framework.run_bind(binding.state, pod, binding.node) if self._leading() else _NOT_LEADING
            if isinstance(result, DeferredBind):
                result.begin(lambda failure: self._bound(binding, failure, start, deferred=True))
                return
        except (Exception, SystemExit) as e:
            result = PluginVerdict("", error(str(e)))
        self._bound(binding, result, start)

    def _bound(
        self, binding: InFlightBinding, failure: PluginVerdict | None, start: float, *, deferred: bool = False
    ) -> None:
        """Record the result of Bind, and run PostBind if the pod is bound.

        After a deferred bind, PostBind runs in another thread, since it may take long and this thread serves all
        deferred binds.
        """
        took_s = time.monotonic() - start
        message = self.record_end(binding, "Bind", failure, took_s)
        answered_s = took_s if deferred and failure is None else None  # a failed request may never have been sent
        if message is not None or not binding.framework.profile.post_bind:
            self._finish(binding, message, answered_s)
        elif deferred:
            self._threads.submit(lambda: self._post_bind(binding, answered_s))
        else:
            self._post_bind(binding, answered_s)

    def _post_bind(self, binding: InFlightBinding, answered_s: float | None) -> None:
        try:
            binding.framework.run_post_bind(binding.state, binding.pod, binding.node)
        except (Exception, SystemExit) as e:
            klog.error(e, "PostBind failed; the pod is bound", pod=binding.pod.full_name)
        self._finish(binding, None, answered_s)

    def _finish(self, binding: InFlightBinding, failure: str | None, answered_s: float | None) -> None:
        counts = self._requests.remove(binding.pod.uid)
        self._inbox.put(BindingResult(binding.pod.uid, failure))
        if counts:
            self._requests.release(answered_s)

    def record_end(
        self, binding: InFlightBinding, phase: str, failure: PluginVerdict | None, duration_s: float
    ) -> str | None:
        """Record how `phase` of the binding cycle ended. Return the message of its failure, or None if it succeeded."""
        code = Code.SUCCESS if failure is None else failure.verdict.code
        message = "" if failure is None else join_reasons(failure.verdict)
        if failure is not None and failure.plugin:
            message = f'running {phase} plugin "{failure.plugin}": {message}'
        self._metrics.phase(phase, code, binding.decision.scheduler.profile, duration_s)
        is_final = failure is not None or phase == "Bind"
        result = PhaseResult(phase, code, binding.node, message, duration_s, is_final)
        self._recorder.record_outcome(binding.decision, result)
        return None if failure is None else message
