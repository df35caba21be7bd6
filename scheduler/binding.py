"""What follows the choice, in a thread of its own: PreBind, Bind, PostBind.

Owns: the order of these phases and their outcomes in the record. Does not own: the cache (the loop undoes what failed).

Invariant: the decision is in the spool before anything here runs, so a bind request never leaves unrecorded.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from herodotus_record.model import Code, Decision, PluginVerdict
from scheduler import klog
from scheduler.framework.runtime import Framework, PluginError, message_of
from scheduler.framework.state import CycleState
from scheduler.framework.verdicts import error
from scheduler.objects.pod import PodInfo
from scheduler.recorder.recorder import Recorder


@dataclass(frozen=True)
class Assumed:
    """A pod on its way to a node."""

    pod: PodInfo
    node: str
    framework: Framework
    state: CycleState
    decision: Decision


@dataclass(frozen=True)
class Bound:
    """How a binding ended: `failure` is None where the pod is bound."""

    uid: str
    failure: PluginVerdict | None


class Binder:
    """A pool of binding threads; results go to `done`, which must only enqueue."""

    def __init__(self, threads: int, recorder: Recorder, done: Callable[[Bound], None]) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bind")
        self._recorder = recorder
        self._done = done

    def submit(self, assumed: Assumed) -> None:
        """Bind, without waiting for it."""
        self._pool.submit(self._bind, assumed)

    def aside(self, work: Callable[[], None]) -> None:
        """Other requests that nothing waits for (conditions). After `close` they are dropped."""
        with contextlib.suppress(RuntimeError):
            self._pool.submit(work)

    def close(self) -> None:
        """Wait for the bindings under way; drop what has not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _bind(self, assumed: Assumed) -> None:
        failure = self._phase(assumed, "PreBind", assumed.framework.run_pre_bind, final_on_success=False)
        if failure is None:
            failure = self._phase(assumed, "Bind", assumed.framework.run_bind, final_on_success=True)
        if failure is None:
            try:
                assumed.framework.run_post_bind(assumed.state, assumed.pod, assumed.node)
            except Exception as e:
                klog.error(e, "PostBind failed; the pod is bound", pod=assumed.pod.full_name)
        self._done(Bound(assumed.pod.uid, failure))

    def _phase(
        self,
        assumed: Assumed,
        phase: str,
        run: Callable[[CycleState, PodInfo, str], PluginVerdict | None],
        *,
        final_on_success: bool,
    ) -> PluginVerdict | None:
        """Run one phase and record how it ended. A phase without plugins leaves no trace."""
        if phase == "PreBind" and not assumed.framework.profile.pre_bind:
            return None
        start = time.monotonic()
        try:
            failure = run(assumed.state, assumed.pod, assumed.node)
        except PluginError as e:
            failure = PluginVerdict(phase, error(str(e)))
        duration = time.monotonic() - start
        if failure is None:
            self._recorder.outcome(
                assumed.decision, phase, Code.SUCCESS, assumed.node, "", duration, final=final_on_success
            )
            return None
        message = f'running {phase} plugin "{failure.plugin}": {message_of(failure.verdict)}'
        self._recorder.outcome(
            assumed.decision, phase, failure.verdict.code, assumed.node, message, duration, final=True
        )
        return failure
