"""Finds out the results of bindings that no response proves: of this process, and of earlier ones that died.

Owns: what a pod proves about its binding, when a pod is read again, and which decisions of earlier processes are open.
Does not own: bind requests (`api_writes`), what follows from a result (`binding_cycle`), how it is stored.

A timeout, a broken connection or a 5xx response leaves open whether the pod was bound, and whether it still will be:
the API server may execute the request after its client has given up. Only the pod itself shows the result. Likewise a
process that dies or loses its Lease leaves results open. Only the decisions service has the decisions of a process that
ran on another machine. `EarlierBindings` polls it, because an earlier process' spool may be delivered much later.

Invariants: a result is reported once, and only when it is proved. No caller and no scheduling waits here. One thread
reads the pods of this process' bindings, one after the other, which also limits the load on an API server that has just
failed.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog
from herodotus_record.model import FOUND_LATER, Code, Outcome
from herodotus_record.typed_decoding import decode_json
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.types import Pod, PodAnnotations, PodMetadata
from scheduler.recorder.endpoint import ServiceConnection, ServiceEndpoint
from scheduler.recorder.recorder import Recorder

DECISION_ANNOTATION: Final = "herodotus.dev/decision"  # of a bound pod: the id of the decision that bound it
UNAVAILABLE_PAUSE_S: Final = (0.1, 5.0)  # first and longest pause while the API server does not answer reads
REFUSED_PAUSE_S: Final = 10.0  # after an error that concerns this pod alone
# An unbound pod is read twice, this far apart, before its binding counts as failed: a write that etcd received just
# before it stalled is carried out within milliseconds of the first read that succeeds again.
CONFIRM_S: Final = 1.0
SERVICE_TIMEOUT_S: Final = 30.0  # of a request to the decisions service
CLOSE_S: Final = 1.0
OFTEN_S: Final = 2.0  # poll interval at first: an earlier shipper delivers within seconds
OFTEN_FOR_S: Final = 60.0
SELDOM_S: Final = 60.0  # poll interval afterwards, and while the service does not answer
# Without leader election another scheduler with this name may be alive and this decision in progress: plugins wait for
# volumes for ten minutes by default, and on Permit for fifteen at most.
ABANDONED_S: Final = 1800.0
FOUND: Final = "found by a later scheduler, as this one ended before it knew the result"

Report = Callable[[str | None], None]
Job = Callable[[], float | None]


class _BindingAnnotations(PodAnnotations, frozen=True):
    decision: str = msgspec.field(name=DECISION_ANNOTATION, default="")


class _BindingMetadata(PodMetadata, frozen=True):
    annotations: _BindingAnnotations | None = None


class _AnnotatedPod(Pod, frozen=True):
    metadata: _BindingMetadata = _BindingMetadata()


class Binding(NamedTuple):
    """The binding of a pod to a node by the decision with the id `decision_id`."""

    pod: PodInfo
    node: str
    decision_id: str


class ProvedResult(NamedTuple):
    """The result of a binding: `failure` is None if the decision bound the pod."""

    failure: str | None


def read_result(
    api: ApiServer, namespace: str, name: str, uid: str, node: str, decision_id: str
) -> ProvedResult | None:
    """Read a pod and return the result of its binding to `node` by a decision, or None if the pod has no node yet.

    A pod that was deleted, replaced or bound otherwise gives a failure. Raise ApiError if the pod cannot be read.
    """
    try:
        pod = decode_json(api.get(f"/api/v1/namespaces/{namespace}/pods/{name}"), _AnnotatedPod)
    except ApiError as e:
        if e.code != 404:
            raise
        return ProvedResult(f"the pod was deleted; whether it was bound before is unknown ({e})")
    if pod.metadata.uid != uid:
        replaced = "and another one has its name: whether it was bound before is unknown"
        return ProvedResult(f'pod "{namespace}/{name}" was deleted, {replaced}')
    bound_to, bound_by = pod.spec.node_name, (pod.metadata.annotations or _BindingAnnotations()).decision
    if not bound_to:
        deleted = pod.metadata.deletion_timestamp
        return ProvedResult(f'pod "{namespace}/{name}" is being deleted') if deleted else None
    if (bound_to, bound_by) == (node, decision_id):
        return ProvedResult(None)
    if bound_by:
        return ProvedResult(f'the pod is bound to node "{bound_to}" by decision {bound_by}, not by this one')
    if bound_to != node:
        return ProvedResult(f'the pod is bound to node "{bound_to}" by another scheduler')
    unknown = "by whom is unknown: it does not carry the id of a decision"
    return ProvedResult(f'the pod is bound to node "{node}", {unknown}')


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
        result = read_result(self.api, pod.namespace, pod.name, pod.uid, node, decision_id)
        if result is not None:
            self.report(result.failure)
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
                due_at = due.at if again_s == 0 else time.monotonic() + again_s
                heapq.heappush(self._due, _Due(due_at, due.number, due.job))
            self._changed.notify_all()

    def _pause(self, wait_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, wait_s)


class OpenDecision(msgspec.Struct, frozen=True, rename="camel"):
    """A decision that chose a node and whose binding has no recorded result, as the decisions service lists it."""

    incarnation: str
    sequence: int
    id: str
    namespace: str
    pod: str
    pod_uid: str = msgspec.field(name="podUID")
    node: str
    started_us: int


class _OpenDecisions(msgspec.Struct, frozen=True):
    items: list[OpenDecision]


class EarlierBindings:
    """A thread that finds and records the results of bindings that earlier scheduler processes left open.

    It polls the decisions service and reads the pods, while this process leads.
    """

    def __init__(
        self,
        endpoint: ServiceEndpoint,
        api: ApiServer,
        recorder: Recorder,
        leading: Callable[[], bool],
        cluster: str,
        profiles: Sequence[str],
        *,
        elected: bool,
    ) -> None:
        """Prepare the thread without starting it, for decisions in `cluster` of the scheduler names `profiles`.

        `elected` says that leader election makes this process the only scheduler of these profiles.
        """
        self._connection = ServiceConnection(endpoint, SERVICE_TIMEOUT_S)
        self._url = f"{endpoint.url.rstrip('/')}/ingest/v1/open-decisions"
        self._api = api
        self._recorder = recorder
        self._elected = elected
        self._params = [("cluster", cluster), ("exceptIncarnation", recorder.incarnation)]
        self._params += [("scheduler", profile) for profile in profiles]
        self._leading = leading
        self._recorded: set[str] = set()  # ids of decisions whose recorded result the service has not stored yet
        self._unbound_since: dict[str, float] = {}  # ids of decisions whose pod was read unbound, monotonic seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="earlier-bindings", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop the thread. Do not wait for a request in flight, so that the next leader need not wait for it."""
        self._stop.set()
        self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._connection.close()

    def settle(self) -> int:
        """Fetch the decisions that have no binding result, and record the results that are certain by now.

        Return how many decisions are left without a recorded result. Raise OSError or msgspec.DecodeError if the
        decisions service does not respond as expected.
        """
        decisions = self._open_decisions()
        self._recorded &= {decision.id for decision in decisions}
        left = 0
        for decision in decisions:
            if self._stop.is_set() or not self._leading():
                return len(decisions)
            if decision.id in self._recorded:
                continue
            try:
                outcome = self._read_outcome(decision)
            except ApiError as e:
                klog.error(e, "Cannot read the pod of an open decision", decision=decision.id)
                left += 1
                continue
            if self._stop.is_set():
                return len(decisions)
            if outcome is not None and self._recorder.record_late_outcome(outcome):
                self._recorded.add(decision.id)
                self._unbound_since.pop(decision.id, None)
                klog.info(
                    2, "Found the result of an earlier binding", decision=decision.id, status=outcome.status.label
                )
            else:
                left += 1
        return left

    def _run(self) -> None:
        began = time.monotonic()
        pause = OFTEN_S
        while not self._stop.wait(pause):
            try:
                left = self.settle()
            except (OSError, msgspec.DecodeError) as e:
                klog.info(3, "Cannot ask for decisions that are still open", err=str(e) or type(e).__name__)
                left = 0
            often = left or time.monotonic() - began < OFTEN_FOR_S
            pause = OFTEN_S if often else SELDOM_S

    def _open_decisions(self) -> list[OpenDecision]:
        return decode_json(self._connection.get(self._url, self._params), _OpenDecisions).items

    def _read_outcome(self, decision: OpenDecision) -> Outcome | None:
        """Read the decision's pod and return the outcome of its binding, or None while it is not certain.

        Raise ApiError if the pod cannot be read.
        """
        began = time.monotonic()
        namespace, name, uid = decision.namespace, decision.pod, decision.pod_uid
        result = read_result(self._api, namespace, name, uid, decision.node, decision.id)
        if result is not None:
            return _build_outcome(decision, result.failure)
        if not self._elected and time.time() - decision.started_us / 1e6 < ABANDONED_S:
            return None
        if began - self._unbound_since.setdefault(decision.id, began) < CONFIRM_S:
            return None
        return _build_outcome(decision, "the pod is not bound")


def _build_outcome(decision: OpenDecision, failure: str | None) -> Outcome:
    """Return the outcome of an earlier decision's binding. `failure` is None if the decision bound its pod."""
    return Outcome(
        incarnation=decision.incarnation,
        sequence=FOUND_LATER,
        decision_id=decision.id,
        decision_sequence=decision.sequence,
        phase="Bind",
        status=Code.SUCCESS if failure is None else Code.ERROR,
        node=decision.node,
        message=FOUND if failure is None else f"{failure}; {FOUND}",
        at_us=time.time_ns() // 1000,
        duration_s=0.0,
        final=True,
    )
