"""What follows the choice, in threads: PreBind, Bind, PostBind.

Owns: the order of these phases and their outcomes in the record. Does not own: the cache (the loop undoes what failed),
pods that wait (`binding_cycle`), how many bindings are under way (`turns`).

Invariants: the decision is in the spool before anything here runs, so a bind request never leaves unrecorded. No thread
waits for anything but an answer, and none for a Deferred one: a PreBind plugin that must wait is `Parked`, and `submit`
takes it up again. Nothing is sent once another may lead.
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
from scheduler.framework.after_choice import Deferring
from scheduler.framework.answers import message_of
from scheduler.framework.runtime import Framework
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import Pending, error
from scheduler.metrics import Metrics
from scheduler.objects.pod import PodInfo
from scheduler.recorder.recorder import Recorder
from scheduler.turns import Turns

CLOSE_S: Final = 60.0  # longer than a request and asking what became of it
NOT_LEADING: Final = "leadership is lost: nothing is bound any more"
_REFUSED: Final = PluginVerdict("", error(NOT_LEADING))


class Turnstile:
    """Lets one of two through: the binding, or whoever takes the pod back before it. Thread-safe.

    Source: pkg/scheduler/framework/runtime/pods_in_prebind_map.go v1.36.
    """

    def __init__(self) -> None:
        self.cancelled: str | None = None  # why it was taken back
        self._passed = False
        self._lock = threading.Lock()

    def cancel(self, message: str) -> bool:
        """Take the pod back; False when its binding has gone through."""
        with self._lock:
            if not self._passed:
                self.cancelled = self.cancelled or message
            return not self._passed

    def go_through(self) -> bool:
        """Bind; False when the pod was taken back."""
        with self._lock:
            self._passed = self.cancelled is None
            return self._passed


@dataclass(frozen=True)
class Assumed:
    """A pod on its way to a node.

    `pre_binds`: PreBind has something to do. `expected`: the pod's status names the node already, as it waited before.
    """

    pod: PodInfo
    node: str
    framework: Framework
    state: CycleState
    decision: Decision
    pre_binds: bool = False
    expected: bool = False
    turnstile: Turnstile = field(default_factory=Turnstile)


@dataclass(frozen=True)
class Parked:
    """A PreBind plugin waits. `done`: how many PreBind plugins are through when it is; times are monotonic seconds."""

    uid: str
    plugin: str
    pending: Pending
    done: int
    began: float
    since: float


@dataclass(frozen=True)
class Bound:
    """How a binding ended: `failure` is None where the pod is bound, else what the pod's event says."""

    uid: str
    failure: str | None


class Binder:
    """A pool of binding threads; results go to `done`, which must only enqueue."""

    def __init__(
        self,
        threads: int,
        recorder: Recorder,
        done: Callable[[Bound | Parked], None],
        expect: Callable[[PodInfo, str], None],
        leading: Callable[[], bool],
        metrics: Metrics,
    ) -> None:
        """`expect`: writes a pod's node into its status, and waits for the answer. `leading`: whether we may write."""
        self._turns = Turns(self._to_the_node)  # of those that have nothing to pre-bind, and need no thread
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bind")
        self._recorder = recorder
        self._done = done
        self._expect = expect
        self._leading = leading
        self._metrics = metrics

    def submit(self, assumed: Assumed, after: Parked | None = None) -> None:
        """Bind, without waiting for it. `after`: where it was parked. After `close` nothing is bound any more."""
        if assumed.pre_binds or not assumed.framework.binds_at_once(assumed.pod):
            self.aside(lambda: self._bind(assumed, after))
            return
        self._turns.put(assumed)

    def crowded(self, wait_s: float) -> bool:
        """Whether enough bindings wait for the API server. If so, wait until they are few, at most so long."""
        return self._turns.crowded(wait_s)

    def aside(self, work: Callable[[], None]) -> None:
        """Other requests that nothing waits for (conditions). After `close` they are dropped."""
        with contextlib.suppress(RuntimeError):
            self._pool.submit(work)

    def close(self) -> None:
        """Wait for the bindings under way; drop what has not begun."""
        self._turns.close(CLOSE_S)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _bind(self, assumed: Assumed, after: Parked | None) -> None:
        try:
            ended = self._pre_bind(assumed, after)
        except (Exception, SystemExit) as e:  # whatever it is: a pod whose binding nobody ends would count for ever
            klog.error(e, "Binding failed", pod=assumed.pod.full_name)
            ended = str(e)
        if ended is not None:
            self._done(ended if isinstance(ended, Parked) else Bound(assumed.pod.uid, ended))
            return
        self._turns.enter()
        self._to_the_node(assumed)

    def _pre_bind(self, assumed: Assumed, after: Parked | None) -> str | Parked | None:
        """A phase with nothing to do leaves no trace. What it does takes a while: the pod's status names the node."""
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
            self._say(assumed, "PreBind", Code.WAIT, f"{plugin} waits for {pending.what}", now - began)
            return Parked(pod.uid, plugin, pending, number + 1, began, now)
        return self.ended(assumed, "PreBind", result, now - began)

    def _to_the_node(self, assumed: Assumed) -> None:
        pod, start = assumed.pod, time.monotonic()
        if not assumed.turnstile.go_through():
            taken_back = PluginVerdict("", error(assumed.turnstile.cancelled or ""))
            self._finish(pod, self.ended(assumed, "PreBind", taken_back, 0.0), None)
            return
        try:
            said = assumed.framework.run_bind(assumed.state, pod, assumed.node) if self._leading() else _REFUSED
            if isinstance(said, Deferring):
                said.begin(lambda failure: self._bound(assumed, failure, start, deferred=True))
                return
        except (Exception, SystemExit) as e:
            said = PluginVerdict("", error(str(e)))
        self._bound(assumed, said, start)

    def _bound(self, assumed: Assumed, failure: PluginVerdict | None, start: float, *, deferred: bool = False) -> None:
        """Bind is over. What PostBind does may take long: not in the thread that serves all Deferred ones."""
        took_s = time.monotonic() - start
        message = self.ended(assumed, "Bind", failure, took_s)
        answered_s = took_s if deferred and failure is None else None  # a failure may not even have left
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
        self._done(Bound(pod.uid, failure))
        self._turns.leave(answered_s)

    def ended(self, assumed: Assumed, phase: str, failure: PluginVerdict | None, duration_s: float) -> str | None:
        """Record how a phase ended; the message of its failure."""
        code = Code.SUCCESS if failure is None else failure.verdict.code
        self._metrics.phase(phase, code, assumed.decision.scheduler.profile, duration_s)
        if failure is None:
            self._say(assumed, phase, code, "", duration_s, final=phase == "Bind")
            return None
        message = message_of(failure.verdict)
        if failure.plugin:
            message = f'running {phase} plugin "{failure.plugin}": {message}'
        self._say(assumed, phase, code, message, duration_s, final=True)
        return message

    def _say(
        self, assumed: Assumed, phase: str, code: Code, message: str, duration_s: float, *, final: bool = False
    ) -> None:
        self._recorder.outcome(assumed.decision, phase, code, assumed.node, message, duration_s, final=final)
