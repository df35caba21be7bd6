"""Finds the results of bindings that an earlier scheduler process left open when it died or lost its Lease.

Owns: asking the decisions service for those decisions, and when a result is certain. Does not own: what a pod proves
about its binding (`binding_reconciler`), how the result is stored.

Only the decisions service has the decisions of a process that ran on another machine. This module polls it, because an
earlier process' spool may be delivered much later. No scheduling waits for the poll.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from herodotus_kube.http import ApiError, ApiServer
from herodotus_record import klog
from herodotus_record.model import FOUND_LATER, Code, Outcome
from scheduler.live import writes
from scheduler.live.binding_reconciler import CONFIRM_S, failure_of_bound_pod
from scheduler.recorder.connection import ServiceConnection
from scheduler.recorder.endpoint import ServiceEndpoint
from scheduler.recorder.recorder import Recorder

TIMEOUT_S: Final = 30.0
CLOSE_S: Final = 1.0
OFTEN_S: Final = 2.0  # poll interval at first: an earlier shipper delivers within seconds
OFTEN_FOR_S: Final = 60.0
SELDOM_S: Final = 60.0  # poll interval afterwards, and while the service does not answer
# Without leader election another scheduler with this name may be alive and this decision in progress: plugins wait for
# volumes for ten minutes by default, and on Permit for fifteen at most.
ABANDONED_S: Final = 1800.0
FOUND: Final = "found by a later scheduler, as this one ended before it knew the result"


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


@dataclass(frozen=True)
class DecisionScope:
    """Which decisions without a binding result to look for: those of one cluster and of these profiles.

    `elected` says that leader election makes this process the only scheduler of these profiles.
    """

    cluster: str
    profiles: Sequence[str]
    elected: bool


class EarlierBindings:
    """A thread that finds and records the results of bindings that earlier scheduler processes left open.

    It polls the decisions service and reads the pods, while this process leads.
    """

    def __init__(
        self,
        endpoint: ServiceEndpoint,
        api: ApiServer,
        recorder: Recorder,
        scope: DecisionScope,
        leading: Callable[[], bool],
    ) -> None:
        self._connection = ServiceConnection(endpoint, TIMEOUT_S)
        self._url = f"{endpoint.url.rstrip('/')}/ingest/v1/open-decisions"
        self._api = api
        self._recorder = recorder
        self._scope = scope
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

        Return how many decisions are still without a result. Raise OSError or msgspec.DecodeError if the decisions
        service does not respond as expected.
        """
        found = self._open_decisions()
        self._recorded &= {decision.id for decision in found}
        left = 0
        for decision in found:
            if self._stop.is_set() or not self._leading():
                return len(found)
            if decision.id in self._recorded:
                continue
            try:
                result = self._result(decision)
            except ApiError as e:
                klog.error(e, "Cannot read the pod of an open decision", decision=decision.id)
                left += 1
                continue
            if self._stop.is_set():
                return len(found)
            if result is not None and self._recorder.record_late_outcome(result):
                self._recorded.add(decision.id)
                self._unbound_since.pop(decision.id, None)
                klog.info(2, "Found the result of an earlier binding", decision=decision.id, status=result.status.label)
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
        params = [("cluster", self._scope.cluster), ("exceptIncarnation", self._recorder.incarnation)]
        params += [("scheduler", profile) for profile in self._scope.profiles]
        return msgspec.json.decode(self._connection.get(self._url, params), type=_OpenDecisions).items

    def _result(self, decision: OpenDecision) -> Outcome | None:
        """Read the decision's pod and return the outcome of its binding, or None while it is not certain.

        Raise ApiError if the pod cannot be read.
        """
        began = time.monotonic()
        try:
            found = writes.read_binding(self._api, decision.namespace, decision.pod, decision.pod_uid)
        except ApiError as e:
            if e.code != 404:
                raise
            return _outcome(decision, f"the pod was deleted; whether it was bound before is unknown ({e})")
        if found.node:
            return _outcome(decision, failure_of_bound_pod(found, decision.node, decision.id))
        if found.unbindable:
            return _outcome(decision, found.unbindable)
        if not self._scope.elected and time.time() - decision.started_us / 1e6 < ABANDONED_S:
            return None
        if began - self._unbound_since.setdefault(decision.id, began) < CONFIRM_S:
            return None
        return _outcome(decision, "the pod is not bound")


def _outcome(decision: OpenDecision, failure: str | None) -> Outcome:
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
