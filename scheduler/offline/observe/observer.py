r"""The thread that follows the cluster and reconstructs the decisions of other schedulers.

    watches -> window (held back a moment) -> a binding, or a rejection, of a pending pod
                                                  \-> evaluate -> compare -> record
                                           -> cache, queue (as the scheduler's own loop keeps them)

Invariant: only this thread changes cache and columns; nothing is written to the cluster.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from herodotus_kube.watch import WatchEvent
from herodotus_record import klog
from herodotus_record.model import Agreement, Cause, Code, DecisionPath, Reason, Reconstruction, Suggestion, Times
from herodotus_record.notes import SEEN_AT
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import PODS, EventHandlers
from scheduler.backend.queue import QueuedPod, SchedulingQueue
from scheduler.engine.columns import Snapshot
from scheduler.engine.cycle import CycleResult, schedule_regardless_of_group
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.objects.pod import FINISHED_PHASES, PodInfo
from scheduler.engine.objects.storage import PersistentVolumeClaim
from scheduler.engine.objects.times import parse_microseconds
from scheduler.engine.objects.types import Object, Pod
from scheduler.engine.plugins.dynamic_resources.reporting import list_present_devices
from scheduler.engine.records.build import AttemptData
from scheduler.engine.suggestions.search import Suggester
from scheduler.offline.observe.agreement import ObservedScheduler, cause, follows, with_outcome
from scheduler.offline.observe.batching import BatchDetection
from scheduler.offline.observe.device_writes import SchedulerDeviceWrites
from scheduler.offline.observe.image_counts import ImageCounts
from scheduler.offline.observe.metrics import ObserverMetrics
from scheduler.offline.observe.own_writes import SchedulerClaimWrites
from scheduler.offline.observe.window import Counted, Message, ReorderWindow, Shift
from scheduler.recorder.recorder import PhaseResult, Recorder

IDLE_S: Final = 0.5
SEED: Final = 0  # the tie-break does not matter: the record names the node that the pod got
UNKNOWN: Final = ("scheduler.identity", "seed", "times.phaseSeconds", "times.queueSeconds", "requeuedBy")
SEEN: Final = (Reason(SEEN_AT), Reason("seen-attempts"))


@dataclass(frozen=True)
class ObservedOutcome:
    """The outcome of an attempt by another scheduler: the pod's node, or "" and the message of the rejection."""

    node: str
    message: str = ""
    watched: bool = True  # False: the watch was interrupted meanwhile


@dataclass(frozen=True)
class _Task:
    """A function that another thread puts into the observer's inbox."""

    run: Callable[[], None]


@dataclass(frozen=True)
class _Compared:
    result: CycleResult
    slot: int | None
    reconstruction: Reconstruction
    snapshot: Snapshot
    suggestions: tuple[Suggestion, ...] = ()


class Observer:
    """The observer's thread: follows the cluster and reconstructs and records the decisions of other schedulers."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        theirs: Mapping[str, ObservedScheduler],
        kinds: Mapping[str, type[Object]],
        window_s: float,
        recorder: Recorder,
        shared: ClusterState,
        metrics: ObserverMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare without starting to observe.

        For each observed scheduler, by name, `frameworks` has the framework that reconstructs its decisions, and
        `theirs` the settings in which the scheduler differs from it. `kinds` are the watched kinds besides nodes and
        pods, by resource name. Watch events are applied `window_s` seconds after they arrive.
        """
        self.inbox: queue.SimpleQueue[Message | _Task] = queue.SimpleQueue()
        self.frameworks = frameworks
        self._theirs = theirs
        self._recorder = recorder
        self._cache = shared.cache
        self._objects = shared.objects
        self._nominator = shared.nominator
        self._metrics = metrics
        self._clock = clock
        self._window = ReorderWindow(window_s)
        self._own_writes = SchedulerClaimWrites(shared.objects)
        self._device_writes = SchedulerDeviceWrites(shared.objects)
        self._image_counts = ImageCounts()
        self._suggester = Suggester(clock)
        self._batching = {name: BatchDetection(framework.profile) for name, framework in frameworks.items()}
        self._attempts: dict[str, int] = {}  # by UID of waiting pods
        self._rejected: dict[str, str] = {}  # likewise: the last message
        self._prepared = False
        self._queue = SchedulingQueue.for_profiles(frameworks)
        self._handlers = EventHandlers(shared, self._queue, kinds, frameworks, {})

    @property
    def synced(self) -> bool:
        """Whether every watched kind was listed at least once."""
        return self._handlers.synced

    def run(self, stop: threading.Event) -> None:
        """Observe the cluster until `stop` is set."""
        threading.Thread(target=self._wake_on, args=(stop,), name="stop", daemon=True).start()
        while not stop.is_set():
            self.step(IDLE_S)

    def _wake_on(self, stop: threading.Event) -> None:
        stop.wait()
        self.submit(lambda: None)

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task`, which must not raise, in the observer's thread between two steps. Return at once."""
        self.inbox.put(_Task(task))

    def list_waiting_pods(self) -> list[Pod]:
        """Return the pods that have no node. Call it in the observer's thread, or in a copy of it."""
        return [queued.pod.pod for queued in self._queue]

    def build_review_notes(self, scheduler: str) -> tuple[Reason, ...]:
        """Return the notes for a review that the observer answers in place of the scheduler with this name."""
        return Reason("reviewed-by-observer", {"scheduler": scheduler}), *self._theirs[scheduler].build_notes()

    def step(self, wait_s: float) -> None:
        """Receive list results and watch events for at most `wait_s` seconds, and apply events after their delay.

        Events are delayed because the watch may show them in another order than the observed scheduler saw them.
        """
        self._metrics.beat(len(self._queue), len(self._window))
        if self.synced and not self._prepared:
            for framework in self.frameworks.values():
                framework.prepare(self._cache.columns)
            self._prepared = True
            klog.info(1, "Everything was listed", waiting=len(self._queue))
        due_in = self._window.due_in(self._clock())
        self._receive(wait_s if due_in is None else min(wait_s, due_in))
        while (due := self._window.due(self._clock())) is not None:
            self._apply(*due)
        self._recorder.check_spool()

    def _receive(self, wait_s: float) -> None:
        try:
            message = self.inbox.get(timeout=wait_s) if wait_s > 0 else self.inbox.get_nowait()
            while True:
                if isinstance(message, _Task):
                    message.run()
                elif self.synced:
                    self._window.hold(message, self._clock())
                else:
                    self._handlers.apply(message)
                    self._image_counts.note(message, self._cache.columns)
                message = self.inbox.get_nowait()
        except queue.Empty:
            return

    def _apply(self, seen: float, message: Message) -> None:
        if message.kind == PODS:
            for pod, outcome in self._outcomes(message):
                self._reconstruct(pod, outcome, seen)
        self._own_writes.note(message, self._clock())
        self._device_writes.note(message, self._clock())
        uid = message.object.metadata.uid if isinstance(message, WatchEvent) and message.kind == PODS else ""
        with self._window.noted(uid, self._cache, self._clock()):
            self._handlers.apply(message)
        self._image_counts.note(message, self._cache.columns)
        if message.kind != PODS:
            for consumer in self._counting(message):
                self._count(*consumer)

    def _count(self, uid: str, pod: PodInfo | None) -> None:
        """Set the node on which the cache counts the pod `uid`: that of `pod`, or none if `pod` is None.

        It serves changes that the observed scheduler knew before a watch shows the pod's binding.
        """
        with self._window.noted(uid, self._cache, self._clock()):
            self._cache.remove_pod(uid)
            if pod is not None:
                self._cache.set_pod(pod)

    def _counting(self, message: Message) -> list[Counted]:
        """Return the pods that a watch message puts on a node or removes from one, as pairs of a UID and a pod.

        The pod is that on its node, or None for no node. A message about a persistent volume claim puts the only
        waiting pod that uses it on the claim's selected node: the pod's scheduler has counted it there already,
        possibly seconds before the binding.
        """
        if not isinstance(message, WatchEvent):
            return []
        if isinstance(message.object, PersistentVolumeClaim):
            claim = message.object
            consumers = [queued.pod for queued in self._queue if claim.full_name in queued.pod.claims]
            node = self._own_writes.node_of(claim)
            return [(pod.uid, _on_node(pod, node) if node else None) for pod in consumers if len(consumers) == 1]
        if message.kind != PODS:
            return []
        pod: Pod = message.object
        if message.type == "DELETED" or pod.status.phase in FINISHED_PHASES:
            return [(pod.metadata.uid, None)]
        return [(pod.metadata.uid, PodInfo(pod, running=True))] if pod.spec.node_name else []

    # --- what other schedulers did --------------------------------------------------------------------------------

    def _outcomes(self, message: Message) -> Iterator[tuple[QueuedPod, ObservedOutcome]]:
        """Yield each pod that a watch message shows as bound or rejected, with the outcome.

        Call it before the cache applies the message.
        """
        watched = isinstance(message, WatchEvent)
        if isinstance(message, WatchEvent) and message.type == "DELETED":
            self._forget(message.object.metadata.uid)
            return
        pods: list[Pod] = [message.object] if isinstance(message, WatchEvent) else message.objects
        for pod in pods:
            queued = self._queue.get(pod.metadata.uid)
            if queued is None or pod.status.phase in FINISHED_PHASES:
                continue
            if pod.spec.node_name:
                yield queued, ObservedOutcome(pod.spec.node_name, watched=watched)
            elif (text := _rejection(pod)) and text != self._rejected.get(queued.uid):
                self._rejected[queued.uid] = text
                yield queued, ObservedOutcome("", text, watched)

    def _reconstruct(self, queued: QueuedPod, outcome: ObservedOutcome, seen: float) -> None:
        attempt = self._attempts[queued.uid] = self._attempts.get(queued.uid, 0) + 1
        devices = list_present_devices(queued.pod, self._objects) if outcome.node else ()
        writes = (self._own_writes.since(queued.pod, outcome.node), self._device_writes.since(queued.pod))
        since = min((write for write in writes if write is not None), default=None)
        with (
            self._own_writes.taken_back(queued.pod, outcome.node),
            self._device_writes.taken_back(queued.pod),
            self._window.before(self._cache, since, queued.uid) as since_then,
            self._compared(queued.pod, outcome, since_then, seen) as compared,
        ):
            nodes, scheduler = compared.snapshot.nodes, queued.pod.pod.spec.scheduler_name
            self._batching[scheduler].note(queued.pod, outcome.node, compared.result, nodes, seen)
            if outcome.node:
                compared.result.trace.list_devices = lambda _node: devices
            self._record(queued, attempt, outcome, compared, self._clock() - seen)
        self._metrics.reconstructed(queued.pod.pod.spec.scheduler_name, compared.reconstruction)
        if outcome.node:
            self._forget(queued.uid)
        else:
            self._count(queued.uid, None)  # its binding failed, if there was one under way

    @contextmanager
    def _compared(self, pod: PodInfo, outcome: ObservedOutcome, shift: Shift, seen: float) -> Iterator[_Compared]:
        """Context manager that yields the comparison of an outcome with the observer's evaluation.

        The evaluation uses the first snapshot in the reorder window from which the outcome follows, or else the cluster
        as it was seen. Inside the block, the cache has that snapshot's state. `shift` counts the changes that were
        already undone, because they happened after the pod was decided. `seen` is when the outcome was seen, in
        monotonic seconds.
        """
        plain = self._evaluate(pod, outcome, shift)
        if plain.reconstruction.agreement is not Agreement.DISAGREE:
            yield plain
            return
        if self._is_batched(pod, outcome, plain, seen):
            batched = Reconstruction(Agreement.DISAGREE, Cause.BATCHING, shift.bindings, shift.deletions)
            yield replace(plain, reconstruction=batched)
            return
        with self._nominator.suspended():  # what was nominated for the nodes since, or no longer is
            tried = self._evaluate(pod, outcome, shift, exact=False)
            if tried.reconstruction.agreement is Agreement.IN_WINDOW:
                yield tried
                return
        with closing(self._window.snapshots(self._cache, self._counting, pod.uid, self._clock())) as shifts:
            for further in shifts:
                tried = self._evaluate(pod, outcome, shift + further, exact=False)
                if tried.reconstruction.agreement is Agreement.IN_WINDOW:
                    yield tried
                    return
        yield self._evaluate(pod, outcome, shift)  # again: rows that were touched meanwhile have a newer generation

    def _is_batched(self, pod: PodInfo, outcome: ObservedOutcome, plain: _Compared, seen: float) -> bool:
        """Return whether kube-scheduler's reuse of the ranking of an equal pod explains a disagreement.

        Return False if the scheduler has unknown plugins or extenders. `seen` is when the outcome was seen.
        """
        name = pod.pod.spec.scheduler_name
        is_complete = not (self._theirs[name].unknown_plugins or self._theirs[name].extenders)
        nodes = plain.snapshot.nodes
        return is_complete and self._batching[name].explains(pod, outcome.node, plain.result, nodes, seen)

    def _evaluate(self, pod: PodInfo, outcome: ObservedOutcome, shift: Shift, *, exact: bool = True) -> _Compared:
        """Evaluate the pod on the cache's present state and compare the result with the outcome.

        `exact` says that this state is the cluster as it was seen, and not another one that the scheduler may have
        seen. `shift` is how the state differs from the present cluster.
        """
        name = pod.pod.spec.scheduler_name
        snapshot = self._cache.snapshot()
        result = schedule_regardless_of_group(self.frameworks[name], pod, snapshot, SEED)
        slot = snapshot.nodes.index.get(outcome.node) if outcome.node else None
        gone = bool(outcome.node) and slot is None
        if result.path is DecisionPath.ERROR:
            reconstruction = Reconstruction(Agreement.UNKNOWN, Cause.NOT_EVALUATED)
        elif not outcome.watched:
            reconstruction = Reconstruction(Agreement.UNKNOWN, Cause.NOT_WATCHED)
        elif not gone and follows(result, slot):
            agreement = Agreement.AGREE if exact else Agreement.IN_WINDOW
            reconstruction = Reconstruction(agreement, None, shift.bindings, shift.deletions)
        elif pod.pod_group is not None and not outcome.node:
            # It was decided beside pods of its group that were taken back, which no watch shows.
            reconstruction = Reconstruction(Agreement.UNKNOWN, Cause.STALE_VIEW, shift.bindings, shift.deletions)
        else:
            image_points = self._image_counts.points(self.frameworks[name].profile, pod, snapshot.nodes)
            why = Cause.STALE_VIEW if gone else cause(result, slot, self._theirs[name], image_points)
            reconstruction = Reconstruction(Agreement.DISAGREE, why, shift.bindings, shift.deletions)
        suggestions: tuple[Suggestion, ...] = ()
        if not outcome.node:
            waiting = (other.pod for other in self._queue)
            suggestions = self._suggester.suggest(self.frameworks[name], pod, snapshot.nodes, result, waiting)
        return _Compared(result, slot, reconstruction, snapshot, suggestions)

    def _record(
        self, queued: QueuedPod, attempt: int, outcome: ObservedOutcome, compared: _Compared, seen_ago_s: float
    ) -> None:
        seen_us = time.time_ns() // 1000 - round(seen_ago_s * 1e6)
        made = AttemptData(
            pod=queued.pod,
            number=attempt,
            profile=queued.pod.pod.spec.scheduler_name,
            snapshot=compared.snapshot,
            result=with_outcome(compared.result, compared.slot, outcome.message or _unseen(outcome, compared)),
            times=Times(
                created_us=parse_microseconds(queued.pod.pod.metadata.creation_timestamp),
                queued_us=queued.first_seen_us,
                started_us=seen_us,
            ),
            seed=SEED,
            notes=(*SEEN, *self._build_notes(queued.pod, outcome, compared), *self._handlers.absent.values()),
            unknown=UNKNOWN,
            reconstruction=compared.reconstruction,
            suggestions=compared.suggestions,
        )
        decision = self._recorder.record_decision(made)
        if decision.chosen is not None:
            self._recorder.record_outcome(decision, PhaseResult("Bind", Code.SUCCESS, outcome.node, final=True))

    def _build_notes(self, pod: PodInfo, outcome: ObservedOutcome, compared: _Compared) -> Iterator[Reason]:
        """Yield notes for the record about unknown plugins, extenders that were not called, and evaluation errors."""
        yield from self._theirs[pod.pod.spec.scheduler_name].build_notes()
        if outcome.message and compared.result.message not in ("", outcome.message):
            yield Reason("evaluated-otherwise", {"message": compared.result.message})
        if compared.result.path is DecisionPath.ERROR:
            yield Reason("evaluation-error", {"error": compared.result.message})

    def _forget(self, uid: str) -> None:
        self._attempts.pop(uid, None)
        self._rejected.pop(uid, None)


def _unseen(outcome: ObservedOutcome, compared: _Compared) -> str:
    """Return a message that the pod's node was not among the observed nodes, or "" if it was or there is no node."""
    if not outcome.node or compared.slot is not None:
        return ""
    return f"bound to {outcome.node}, which is not among the nodes that were seen"


def _on_node(pod: PodInfo, node: str) -> PodInfo:
    spec = msgspec.structs.replace(pod.pod.spec, node_name=node)
    return PodInfo(msgspec.structs.replace(pod.pod, spec=spec), running=True)


def _rejection(pod: Pod) -> str:
    """Return the message of the pod's condition PodScheduled if it is False and Unschedulable, and otherwise ""."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
            return condition.message
    return ""
