"""The pods in their binding cycle, the messages about them, and their bind requests with the limit on these.

Owns: these values, which decision each bind request carries out, the order of the requests, and how many may be in
flight (`ConcurrencyLimit`). Does not own: sending (`binding_cycle`, `api_writes`), connections (`connection_pool`).

Invariants: requests begin in the order of `BindRequests.enqueue`, in one thread at a time. A request whose result is
unknown holds no thread and does not count against the limit. A waiting pod was decided on older state and its attempt
lasts until it is bound, so a longer queue adds no throughput once the server has enough to do.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from herodotus_kube.connection_pool import MAX_CONNECTIONS
from herodotus_record import klog
from herodotus_record.model import Code, Decision, PluginVerdict
from scheduler.backend.queue import QueuedPod
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.state import CycleState
from scheduler.engine.framework.verdicts import Pending
from scheduler.engine.objects.pod import PodInfo
from scheduler.recorder.recorder import PhaseResult, Recorder

CLOSE_S: Final = 60.0  # longer than a request and its retries
# How many bindings may have an unknown result at a time. Only an API server that does not answer causes so many, and
# more decisions would add to the pods that must be read once it answers.
MOST_UNKNOWN: Final = 256
MAX_IN_FLIGHT: Final = MAX_CONNECTIONS  # more requests would wait for a connection
MIN_IN_FLIGHT: Final = 14
INITIAL_IN_FLIGHT: Final = 16
TARGET_QUEUED: Final = (10.0, 16.0)  # requests queued in the server: fewer raise the limit, more lower it
# The shortest response time of the last one or two such periods counts as that of an idle server.
MEMORY_S: Final = 10.0
MAX_WAITING: Final = 8  # so many waiting bindings stop the loop
RESUME_WAITING: Final = 2  # so few resume it: deciding several pods in a row costs less than one at a time


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


@dataclass(eq=False)
class InFlightBinding:
    """A pod that is assumed on a node, with everything that its binding cycle needs.

    `evaluated` and `feasible` are the numbers of nodes that its scheduling cycle evaluated and found feasible. Only the
    loop's thread changes the last three fields: whether a PreBind plugin has work to do (or the failure of one that
    cannot tell), since when the pod waits or waited on Permit (monotonic seconds), and whether the pod was deleted
    before its binding ended.
    """

    queued: QueuedPod
    pod: PodInfo
    node: str
    framework: Framework
    state: CycleState
    decision: Decision
    evaluated: int
    feasible: int
    bind_or_cancel: BindOrCancel = field(default_factory=BindOrCancel)
    pre_binds: bool | PluginVerdict = False
    waiting_since: float | None = None
    deleted: bool = False


@dataclass(frozen=True)
class PermitResult:
    """The end of a pod's wait on Permit.

    `refusal` is None if every plugin allowed the pod, else the rejecting verdict.
    """

    uid: str
    refusal: PluginVerdict | None


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


class ConcurrencyLimit:
    """The number of requests that may be in flight, adjusted to how many of them queue in the API server.

    Of n requests in flight, n * (1 - shortest / mean duration) queue in the server, because the shortest duration is
    that of a request that did not queue. Source: Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a
    Global Internet", 1995, section 3.2. Not thread-safe.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.limit = INITIAL_IN_FLIGHT
        self._clock = clock
        self._since = clock()
        self._shortest = self._shortest_before = math.inf
        self._responses = 0
        self._sum_s = 0.0

    def add_response(self, duration_s: float) -> None:
        """Count a response that took `duration_s` seconds, and adjust `limit` after every `limit` responses."""
        self._shortest = min(self._shortest, duration_s)
        self._responses += 1
        self._sum_s += duration_s
        if self._responses >= self.limit:
            self._adjust(self._sum_s / self._responses)
            self._responses, self._sum_s = 0, 0.0
        if self._clock() - self._since >= MEMORY_S:
            self._since = self._clock()
            self._shortest_before, self._shortest = self._shortest, math.inf

    def _adjust(self, mean_s: float) -> None:
        shortest_s = min(self._shortest, self._shortest_before)
        queued = self.limit * (1 - shortest_s / mean_s) if mean_s > 0 else 0.0
        if queued < TARGET_QUEUED[0]:
            self.limit = min(self.limit + 1, MAX_IN_FLIGHT)
        elif queued > TARGET_QUEUED[1]:
            self.limit = max(self.limit - 1, MIN_IN_FLIGHT)


class BindRequests:
    """The bind requests of one process, from their queue to their results. Thread-safe."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._limit = ConcurrencyLimit(time.monotonic)
        self._waiting: deque[Callable[[], None]] = deque()
        self._counted = 0  # requests that count against the limit
        self._sending: dict[str, InFlightBinding] = {}  # by pod UID
        self._unknown: dict[str, InFlightBinding] = {}  # by pod UID; the request ended without a result
        self._is_beginning = False
        self._closed = False
        self._changed = threading.Condition()
        self._has_room = threading.Event()

    def enqueue(self, send: Callable[[], None]) -> None:
        """Queue a request. As soon as the limit allows, `send` is called, which begins it and does not wait.

        After `close` no request begins.
        """
        self._waiting.append(send)
        self._begin_waiting()

    def send_now(self, send: Callable[[], None]) -> None:
        """Call `send`, which begins a request, even above the limit."""
        with self._changed:
            self._counted += 1
        send()

    def begin(self, binding: InFlightBinding) -> None:
        """Register the pod's binding as in flight, because its bind request is about to be sent."""
        with self._changed:
            self._sending[binding.pod.uid] = binding

    def decision_id(self, uid: str) -> str:
        """Return the id of the decision that binds the pod. Raise KeyError if no bind request for it is in flight."""
        return self._sending[uid].decision.id

    def mark_unknown(self, uid: str, why: str) -> None:
        """Record that the pod's bind request ended without a clear result (`why`), and let another request begin.

        This binding ends later, when its result is known.
        """
        with self._changed:
            binding = self._unknown[uid] = self._sending.pop(uid)
        message = f"the result of the binding is unknown, the pod is read until it is: {why}"
        klog.info(1, "Result of the binding is unknown", pod=binding.pod.full_name, node=binding.node, err=why)
        self._recorder.record_outcome(binding.decision, PhaseResult("Bind", Code.WAIT, binding.node, message))
        self.release(None)

    def remove(self, uid: str) -> bool:
        """Remove the binding of a pod, which has ended, and return whether its request still counts against the limit.

        A request with an unknown result does not count any more. Any other one counts until `release`.
        """
        with self._changed:
            self._sending.pop(uid, None)
            return self._unknown.pop(uid, None) is None

    def release(self, answered_s: float | None) -> None:
        """Count the end of a request, so that another one may begin.

        `answered_s` is the server's response time in seconds, or None if there was no response.
        """
        with self._changed:
            self._counted -= 1
            if answered_s is not None:
                self._limit.add_response(answered_s)
            if self._closed:
                self._changed.notify_all()
        self._begin_waiting()

    def wait_for_capacity(self, wait_s: float) -> bool:
        """Wait at most `wait_s` seconds while too many bind requests wait, and return whether more may be added.

        Too many are MAX_WAITING waiting requests, until RESUME_WAITING are left, or MOST_UNKNOWN bindings with an
        unknown result.
        """
        if len(self._unknown) >= MOST_UNKNOWN:
            time.sleep(wait_s)
            return False
        if len(self._waiting) < MAX_WAITING:
            return True
        self._has_room.clear()
        return len(self._waiting) <= RESUME_WAITING or self._has_room.wait(wait_s)

    def close(self, wait_s: float = CLOSE_S) -> None:
        """Let no waiting request begin, and wait at most `wait_s` seconds for the requests in flight."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._counted, wait_s)

    def _begin_waiting(self) -> None:
        """Begin waiting requests up to the limit.

        Only one thread does so at a time; other callers return at once, and it begins their requests too.
        """
        with self._changed:
            if self._is_beginning:
                return
            self._is_beginning = True
        while True:
            with self._changed:
                if self._closed or self._counted >= self._limit.limit or not self._waiting:
                    self._is_beginning = False
                    return
                self._counted += 1
                send = self._waiting.popleft()
                if len(self._waiting) <= RESUME_WAITING:
                    self._has_room.set()
            send()
