"""The bind requests that were sent, or wait to be sent, and have no result yet.

Owns: which decision each request carries out, and the requests whose result is unknown: they hold no thread and do not
count against the limit of `bind_limiter`. Does not own: sending (`binding`, `api_writes`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from herodotus_record import klog
from herodotus_record.model import Code
from scheduler.live.bind_limiter import BindLimiter
from scheduler.live.in_flight import InFlightBinding
from scheduler.recorder.recorder import PhaseResult, Recorder

CLOSE_S: Final = 60.0  # longer than a request and its retries
# How many bindings may have an unknown result at a time. Only an API server that does not answer causes so many, and
# more decisions would add to the pods that must be read once it answers.
MOST_UNKNOWN: Final = 256


class BindRequests:
    """The bind requests of one process, from the queue of its limiter to their results. Thread-safe."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._limiter = BindLimiter()
        self._lock = threading.Lock()
        self._sending: dict[str, InFlightBinding] = {}  # by pod UID; each counts against the limit
        self._unknown: dict[str, InFlightBinding] = {}  # by pod UID; the request ended without a result

    def enqueue(self, send: Callable[[], None]) -> None:
        """Call `send`, which begins a request, as soon as the limit allows. It must not wait."""
        self._limiter.put(send)

    def send_now(self, send: Callable[[], None]) -> None:
        """Call `send`, which begins a request, even above the limit."""
        self._limiter.enter()
        send()

    def begin(self, binding: InFlightBinding) -> None:
        """Note that the pod's bind request is about to be sent."""
        with self._lock:
            self._sending[binding.pod.uid] = binding

    def decision_id(self, uid: str) -> str:
        """Return the id of the decision that binds the pod. Raise KeyError if no bind request for it is in flight."""
        return self._sending[uid].decision.id

    def mark_unknown(self, uid: str, why: str) -> None:
        """Record that the pod's bind request ended without a clear result (`why`), and let another request begin.

        This binding ends later, when its result is known.
        """
        with self._lock:
            binding = self._unknown[uid] = self._sending.pop(uid)
        message = f"the result of the binding is unknown, the pod is read until it is: {why}"
        klog.info(1, "Result of the binding is unknown", pod=binding.pod.full_name, node=binding.node, err=why)
        self._recorder.record_outcome(binding.decision, PhaseResult("Bind", Code.WAIT, binding.node, message))
        self._limiter.leave(None)

    def remove(self, uid: str) -> bool:
        """Remove a binding that ended, and return whether it still counts against the limit until `release`."""
        with self._lock:
            self._sending.pop(uid, None)
            return self._unknown.pop(uid, None) is None

    def release(self, answered_s: float | None) -> None:
        """Let another request begin. `answered_s` is the server's response time, or None if there was no response."""
        self._limiter.leave(answered_s)

    def wait_for_capacity(self, wait_s: float) -> bool:
        """Wait at most `wait_s` seconds while too many bindings wait, and return whether there is room for more."""
        if len(self._unknown) >= MOST_UNKNOWN:
            time.sleep(wait_s)
            return False
        return self._limiter.wait_for_capacity(wait_s)

    def close(self) -> None:
        """Let no waiting request begin, and wait for those in flight."""
        self._limiter.close(CLOSE_S)
