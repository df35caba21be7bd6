"""Determines the results of bindings whose request ended without a clear result.

Owns: when a pod is read again, and when its state proves a result. Does not own: the form of the requests
(`kube.writes`), what follows from a result (`binding`, `binding_cycle`).

A timeout, a broken connection or a 5xx response leaves open whether the pod was bound, and whether it still will be:
the API server may execute the request after its client has given up. Only the pod itself shows the result.

Invariants: a result is reported once, and only when it is proved. No caller waits here. One thread reads the pods, one
after the other, which also limits the load on an API server that has just failed.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog
from scheduler.live import writes
from scheduler.live.writes import Binding, PodBinding

UNAVAILABLE_PAUSE_S: Final = (0.1, 5.0)  # first and longest pause while the API server does not answer reads
REFUSED_PAUSE_S: Final = 10.0  # after an error that concerns this pod alone
# An unbound pod is read twice, this far apart, before its binding counts as failed: a write that etcd received just
# before it stalled is carried out within milliseconds of the first read that succeeds again.
CONFIRM_S: Final = 1.0

Report = Callable[[str | None], None]
Job = Callable[[], float | None]


class _Due(NamedTuple):
    at: float
    number: int
    job: Job


@dataclass
class _UnknownBinding:
    """A binding with an unknown result, and the job that reads the pod until it shows the result.

    `request_ends` is the latest time, in monotonic seconds, at which the API server abandons the bind request.
    """

    api: ApiServer
    binding: Binding
    error: ApiError
    request_ends: float
    report: Report
    unbound_since: float | None = None

    def __call__(self) -> float | None:
        """Read the pod and report the result of its binding if the pod proves it.

        Return None after a report, and otherwise the seconds until the pod should be read again.
        """
        began = time.monotonic()
        pod, node, decision_id = self.binding
        try:
            found = writes.read_binding(self.api, pod.namespace, pod.name, pod.uid)
        except ApiError as e:
            if e.code != 404:
                raise
            self.report(f"the pod was deleted; whether it was bound before is unknown ({e})")
            return None
        if found.node:
            self.report(failure_of_bound_pod(found, node, decision_id))
            return None
        if found.unbindable:
            self.report(found.unbindable)
            return None
        if self.error.code == 409:  # a refusal: the request did nothing
            self.report(str(self.error))
            return None
        if began < self.request_ends:
            return self.request_ends - began
        if self.unbound_since is None:
            self.unbound_since = began
        if began - self.unbound_since < CONFIRM_S:
            return CONFIRM_S
        self.report(str(self.error))
        return None


def failure_of_bound_pod(found: PodBinding, node: str, decision_id: str) -> str | None:
    """Return a message if a bound pod was not bound to `node` by the decision `decision_id`, or None if it was."""
    if found.decision_id == decision_id and found.node == node:
        return None
    if found.decision_id:
        return f'the pod is bound to node "{found.node}" by decision {found.decision_id}, not by this one'
    if found.node != node:
        return f'the pod is bound to node "{found.node}" by another scheduler'
    return f'the pod is bound to node "{node}", by whom is unknown: it does not carry the id of a decision'


class BindingReconciler:
    """A thread that reads pods whose binding has an unknown result, and runs delayed jobs. Thread-safe."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._due: list[_Due] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._running = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def reconcile(self, binding: Binding, error: ApiError, request_ends: float, report: Report) -> None:
        """Read the pod repeatedly in a separate thread until it proves the result of its binding, and report that.

        `report`, which must not wait, gets None if the pod was bound, and otherwise the failure. `error` is the failure
        of the bind request. Nothing is reported after `close`.
        """
        self.call_later(0.0, _UnknownBinding(self._api, binding, error, request_ends, report))

    def call_later(self, delay_s: float, job: Job) -> None:
        """Run a job in this object's thread after `delay_s` seconds.

        The job returns the seconds until it wants to run again, or None when it is done. After `close` no job runs.
        """
        with self._changed:
            if self._closed:
                return
            heapq.heappush(self._due, _Due(time.monotonic() + delay_s, next(self._numbers), job))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="reconcile-bindings", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self, wait_s: float) -> int:
        """Wait at most `wait_s` seconds until no job is left, then stop. Return the number of jobs that are left."""
        with self._changed:
            self._changed.wait_for(lambda: not self._due and not self._running, wait_s)
            left = len(self._due) + self._running
            self._closed = True
            self._changed.notify_all()
        return left

    def _run(self) -> None:
        unavailable_s = UNAVAILABLE_PAUSE_S[0]
        while (due := self._next()) is not None:
            try:
                again_s = due.job()
                unavailable_s = UNAVAILABLE_PAUSE_S[0]
            except ApiError as e:
                if e.code in (0, 429) or e.code >= 500:
                    self._finish(due, 0.0)
                    self._pause(unavailable_s)
                    unavailable_s = min(unavailable_s * 2, UNAVAILABLE_PAUSE_S[1])
                    continue
                klog.error(e, "Cannot read a pod whose binding is unknown, trying again")
                again_s = REFUSED_PAUSE_S
            except Exception as e:  # the thread serves every other binding too
                klog.error(e, "Cannot reconcile a binding, trying again")
                again_s = REFUSED_PAUSE_S
            self._finish(due, again_s)

    def _next(self) -> _Due | None:
        """Wait until the next job is due and return it, or return None after `close`."""
        with self._changed:
            while not self._closed:
                wait_s = self._due[0].at - time.monotonic() if self._due else None
                if wait_s is not None and wait_s <= 0:
                    self._running = True
                    return heapq.heappop(self._due)
                self._changed.wait(wait_s)
        return None

    def _finish(self, due: _Due, again_s: float | None) -> None:
        with self._changed:
            self._running = False
            if again_s is not None:
                at = due.at if again_s == 0 else time.monotonic() + again_s
                heapq.heappush(self._due, _Due(at, due.number, due.job))
            self._changed.notify_all()

    def _pause(self, wait_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, wait_s)
