"""Runs PreBind, Bind and PostBind in binding threads.

Owns: the order of these phases and their outcomes in the record. Does not own: the cache (the loop undoes a failed
binding), pods that wait (`binding_cycle`), the number of bindings in flight (`bind_limiter`).

Invariants: the decision is in the spool before anything here runs, so no bind request leaves unrecorded. A thread waits
only for the response to a request, and not for a DeferredBind. A PreBind plugin that must wait ends as a
`PendingPreBind`, and `submit` resumes it. Nothing is sent once another process may lead. A binding with an unknown
result holds no thread and does not count against the limit of `bind_limiter`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from herodotus_record.model import Code, Decision, PluginVerdict
from scheduler import klog
from scheduler.engine.framework.plugin_results import join_reasons
from scheduler.engine.framework.reserve_and_bind import DeferredBind
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Pending, error
from scheduler.engine.objects.pod import PodInfo
from scheduler.live.bind_limiter import BindLimiter
from scheduler.live.metrics import SchedulerMetrics
from scheduler.recorder.recorder import PhaseResult, Recorder

CLOSE_S: Final = 60.0  # longer than a request and its retries
# How many bindings may have an unknown result at a time. Only an API server that does not answer causes so many, and
# more decisions would add to the pods that must be read once it answers.
MOST_UNKNOWN: Final = 256
NOT_LEADING: Final = "leadership is lost: nothing is bound any more"
_NOT_LEADING: Final = PluginVerdict("", error(NOT_LEADING))


class BindOrCancel:
    """Decides whether a pod's binding begins or is cancelled, whichever comes first. Thread-safe.

    Source: pkg/scheduler/framework/runtime/pods_in_prebind_map.go v1.36.
    """

    def __init__(self) -> None:
        self.cancelled: str | None = None  # why the binding was cancelled
        self._passed = False
        self._lock = threading.Lock()

    def cancel(self, message: str) -> bool:
        """Cancel the binding unless it has begun, and return whether it is cancelled. `message` says why."""
        with self._lock:
            if not self._passed:
                self.cancelled = self.cancelled or message
            return not self._passed

    def begin_binding(self) -> bool:
        """Mark the binding as begun unless it was cancelled, and return whether it may begin."""
        with self._lock:
            self._passed = self.cancelled is None
            return self._passed


@dataclass(frozen=True)
class Assumed:
    """A pod that is assumed on a node, with everything that its binding needs.

    `pre_binds` says whether a PreBind plugin has work to do. `expected` says that the pod's status names the node
    already, because the pod waited on Permit.
    """

    pod: PodInfo
    node: str
    framework: Framework
    state: CycleState
    decision: Decision
    pre_binds: bool = False
    expected: bool = False
    bind_or_cancel: BindOrCancel = field(default_factory=BindOrCancel)


@dataclass(frozen=True)
class PendingPreBind:
    """A pod for which a PreBind plugin waits. `done` is the number of PreBind plugins that have run, this one included.

    `began` is when PreBind began and `since` when the wait began, in monotonic seconds.
    """

    uid: str
    plugin: str
    pending: Pending
    done: int
    began: float
    since: float


@dataclass(frozen=True)
class BindingResult:
    """The end of the binding of the pod with the UID `uid`.

    `failure` is None if the pod is bound, else the message of the pod's event.
    """

    uid: str
    failure: str | None


class Binder:
    """Runs the last phases of binding cycles (PreBind, Bind, PostBind) in a pool of threads."""

    def __init__(
        self,
        threads: int,
        recorder: Recorder,
        done: Callable[[BindingResult | PendingPreBind], None],
        expect: Callable[[PodInfo, str], None],
        leading: Callable[[], bool],
        metrics: SchedulerMetrics,
    ) -> None:
        """Create the pool of `threads` threads.

        `done` receives each result in any thread and must only enqueue it. `expect` writes a pod's node into its status
        and waits. `leading` returns whether this process may still write.
        """
        self._limiter = BindLimiter(self._send_binding)  # bindings without PreBind work, which need no thread
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bind")
        self._recorder = recorder
        self._done = done
        self._expect = expect
        self._leading = leading
        self._metrics = metrics
        self._lock = threading.Lock()
        self._sending: dict[str, Assumed] = {}  # by pod UID; each holds a slot of the limiter
        self._unknown: dict[
            str, Assumed
        ] = {}  # by pod UID; the request ended without a result, and the slot is released

    def submit(self, assumed: Assumed, after: PendingPreBind | None = None) -> None:
        """Run the pod's PreBind, Bind and PostBind without waiting. `done` receives the result.

        `after` is the PreBind wait that ended, if the binding is resumed. After `close` nothing is bound.
        """
        if assumed.pre_binds or not assumed.framework.binds_at_once(assumed.pod):
            self.aside(lambda: self._bind(assumed, after))
            return
        self._limiter.put(assumed)

    def wait_for_capacity(self, wait_s: float) -> bool:
        """Wait at most `wait_s` seconds while too many bindings wait, and return whether there is room for more."""
        if len(self._unknown) >= MOST_UNKNOWN:
            time.sleep(wait_s)
            return False
        return self._limiter.wait_for_capacity(wait_s)

    def decision_id(self, uid: str) -> str:
        """Return the id of the decision that binds the pod. Raise KeyError if no bind request for it is in flight."""
        return self._sending[uid].decision.id

    def result_unknown(self, uid: str, why: str) -> None:
        """Record that the pod's bind request ended without a clear result (`why`), and let another binding begin.

        This binding ends later, when its result is known.
        """
        with self._lock:
            assumed = self._unknown[uid] = self._sending.pop(uid)
        message = f"the result of the binding is unknown, the pod is read until it is: {why}"
        klog.info(1, "Result of the binding is unknown", pod=assumed.pod.full_name, node=assumed.node, err=why)
        self._recorder.record_outcome(assumed.decision, PhaseResult("Bind", Code.WAIT, assumed.node, message))
        self._limiter.leave(None)

    def aside(self, work: Callable[[], None]) -> None:
        """Run a function, such as a request that writes a condition, in a binding thread.

        After `close` it is dropped.
        """
        with contextlib.suppress(RuntimeError):
            self._pool.submit(work)

    def close(self) -> None:
        """Wait for the bindings in flight; drop those that have not begun."""
        self._limiter.close(CLOSE_S)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _bind(self, assumed: Assumed, after: PendingPreBind | None) -> None:
        try:
            ended = self._pre_bind(assumed, after)
        except (Exception, SystemExit) as e:  # a binding that never ends would hold its node's room for ever
            klog.error(e, "Binding failed", pod=assumed.pod.full_name)
            ended = str(e)
        if ended is not None:
            self._done(ended if isinstance(ended, PendingPreBind) else BindingResult(assumed.pod.uid, ended))
            return
        self._limiter.enter()
        self._send_binding(assumed)

    def _pre_bind(self, assumed: Assumed, after: PendingPreBind | None) -> str | PendingPreBind | None:
        """Run the pod's PreBind plugins. Return the failure message, a plugin's wait, or None on success.

        Without plugins that have work to do, nothing is recorded.
        """
        pod, framework = assumed.pod, assumed.framework
        if not assumed.pre_binds:
            return None
        if after is None and not assumed.expected and self._leading():
            self._expect(pod, assumed.node)
        began, done = (time.monotonic(), 0) if after is None else (after.began, after.done)
        if not self._leading():
            result: PluginVerdict | tuple[int, Pending] | None = PluginVerdict("", error(NOT_LEADING))
        else:
            result = framework.run_pre_bind(assumed.state, pod, assumed.node, done)
        now = time.monotonic()
        if isinstance(result, tuple):
            number, pending = result
            plugin = framework.profile.pre_bind[number].name
            self._recorder.record_outcome(
                assumed.decision,
                PhaseResult("PreBind", Code.WAIT, assumed.node, f"{plugin} waits for {pending.what}", now - began),
            )
            return PendingPreBind(pod.uid, plugin, pending, number + 1, began, now)
        return self.ended(assumed, "PreBind", result, now - began)

    def _send_binding(self, assumed: Assumed) -> None:
        pod, start = assumed.pod, time.monotonic()
        if not assumed.bind_or_cancel.begin_binding():
            cancelled = PluginVerdict("", error(assumed.bind_or_cancel.cancelled or ""))
            self._finish(pod, self.ended(assumed, "PreBind", cancelled, 0.0), None)
            return
        with self._lock:
            self._sending[pod.uid] = assumed
        try:
            result = assumed.framework.run_bind(assumed.state, pod, assumed.node) if self._leading() else _NOT_LEADING
            if isinstance(result, DeferredBind):
                result.begin(lambda failure: self._bound(assumed, failure, start, deferred=True))
                return
        except (Exception, SystemExit) as e:
            result = PluginVerdict("", error(str(e)))
        self._bound(assumed, result, start)

    def _bound(self, assumed: Assumed, failure: PluginVerdict | None, start: float, *, deferred: bool = False) -> None:
        """Record the result of Bind, and run PostBind if the pod is bound.

        After a deferred bind, PostBind runs in another thread, since it may take long and this thread serves all
        deferred binds.
        """
        took_s = time.monotonic() - start
        message = self.ended(assumed, "Bind", failure, took_s)
        answered_s = took_s if deferred and failure is None else None  # a failed request may never have been sent
        if message is not None or not assumed.framework.profile.post_bind:
            self._finish(assumed.pod, message, answered_s)
        elif deferred:
            self.aside(lambda: self._post_bind(assumed, answered_s))
        else:
            self._post_bind(assumed, answered_s)

    def _post_bind(self, assumed: Assumed, answered_s: float | None) -> None:
        try:
            assumed.framework.run_post_bind(assumed.state, assumed.pod, assumed.node)
        except (Exception, SystemExit) as e:
            klog.error(e, "PostBind failed; the pod is bound", pod=assumed.pod.full_name)
        self._finish(assumed.pod, None, answered_s)

    def _finish(self, pod: PodInfo, failure: str | None, answered_s: float | None) -> None:
        with self._lock:
            self._sending.pop(pod.uid, None)
            has_turn = self._unknown.pop(pod.uid, None) is None
        self._done(BindingResult(pod.uid, failure))
        if has_turn:
            self._limiter.leave(answered_s)

    def ended(self, assumed: Assumed, phase: str, failure: PluginVerdict | None, duration_s: float) -> str | None:
        """Record how `phase` of the binding cycle ended. Return the message of its failure, or None if it succeeded."""
        code = Code.SUCCESS if failure is None else failure.verdict.code
        self._metrics.phase(phase, code, assumed.decision.scheduler.profile, duration_s)
        if failure is None:
            self._recorder.record_outcome(
                assumed.decision, PhaseResult(phase, code, assumed.node, "", duration_s, final=phase == "Bind")
            )
            return None
        message = join_reasons(failure.verdict)
        if failure.plugin:
            message = f'running {phase} plugin "{failure.plugin}": {message}'
        self._recorder.record_outcome(
            assumed.decision, PhaseResult(phase, code, assumed.node, message, duration_s, final=True)
        )
        return message
