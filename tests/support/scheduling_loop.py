"""A scheduling loop and everything around it, driven without its thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from herodotus_kube.watch import ListResult, WatchEvent
from herodotus_record import notes
from herodotus_record.model import Code, Decision, Outcome, Verdict
from scheduler.backend.cluster_state import ClusterState
from scheduler.backend.event_handlers import NODES, PODS
from scheduler.backend.queue import SchedulingQueue
from scheduler.config import Configuration, build_profile
from scheduler.engine.framework.nominated import Nomination
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.framework.verdicts import Pending, Wait, error
from scheduler.engine.framework.waiting import WaitingPod
from scheduler.engine.framework.writes import NoWrites
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.objects.pod_groups import PodGroup
from scheduler.engine.objects.preemptor import Preemptor
from scheduler.engine.objects.requests import CPU
from scheduler.engine.objects.types import Object
from scheduler.engine.plugins import IN_TREE
from scheduler.engine.records.build import Origin
from scheduler.live.event_explanations import EventExplainer
from scheduler.live.in_flight import BindRequests
from scheduler.live.loop import Loop
from scheduler.live.metrics import SchedulerMetrics
from scheduler.live.plugin_handle import ApiHandle
from scheduler.live.scheduler import BackgroundThreads, Scheduler, WriteFence
from scheduler.recorder.recorder import Recorder
from scheduler.recorder.spool import Spool
from tests.scheduler import spools
from tests.scheduler.builders import PROFILE, NodeBuilder, PodBuilder, make_node, make_pod

BACKOFF_S = 0.05  # long enough that a test sees what is before it is over


class SentWrites(NoWrites):
    """The requests of loop and plugins to the API server, in short; `fail` and `hold` make binding fail or wait."""

    def __init__(self, spool: Path) -> None:
        self.sent: list[tuple[str, ...]] = []
        self.refuse: list[str] = []  # what evictions fail with
        self.bound: list[tuple[str, str]] = []
        self.recorded_before: list[bool] = []
        self.fail: list[Exception] = []
        self.hold: threading.Event | None = None
        self.bind_requested = threading.Event()
        self.bind_requests: list[str] = []  # UIDs
        self._spool = spool

    def bind(self, pod: PodInfo, node: str, done: Callable[[str | None], None]) -> None:
        threading.Thread(target=lambda: done(self._bind(pod, node))).start()

    def _bind(self, pod: PodInfo, node: str) -> str | None:
        decided = [d for d in spools.of(Decision, self._spool) if d.key.pod_uid == pod.uid]
        names = spools.table(self._spool).names
        self.recorded_before.append(bool(decided) and names[decided[-1].chosen or 0] == node)
        failure = self.fail.pop(0) if self.fail else None  # of the first request, however long that one is held
        self.bind_requests.append(pod.uid)
        self.bind_requested.set()
        if self.hold is not None:
            assert self.hold.wait(60)
        if failure is not None:
            return str(failure)
        self.bound.append((pod.uid, node))
        return None

    def scheduled(self, pod: PodInfo, node: str) -> None:
        self.sent.append(("scheduled", pod.name, node))

    def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nomination: Nomination | None, explanation: str = ""
    ) -> None:
        self.sent.append((reason, pod.name, message) + ((explanation,) if explanation else ()))
        if nomination is not None and nomination.node != pod.pod.status.nominated_node_name:
            self.sent.append(("nominated", pod.name, nomination.node))

    def skipped(self, pod: PodInfo, note: str) -> None:
        self.sent.append(("skipped", pod.name, note))

    def nominate(self, pod: PodInfo, node: str) -> None:
        self.sent.append(("nominated", pod.name, node))

    def finish_bindings(self) -> None:
        self.sent.append(("finished",))

    def evict(self, victim: PodInfo, preemptor: Preemptor, node: str) -> None:
        if self.refuse:
            raise ValueError(self.refuse.pop(0))
        self.sent.append(("evicted", victim.name, node))

    def preempted(self, victim: PodInfo, preemptor: Preemptor, node: str, *, in_memory: bool) -> None:
        self.sent.append(("taken back" if in_memory else "preempted", victim.name, preemptor.name))


class LoopWorld:
    """A loop and everything around it; `step` and `until` take the place of its thread."""

    def __init__(
        self,
        spool: Path,
        *,
        preempts: bool = True,
        dry_run: bool = False,
        gates: dict[str, bool] | None = None,
        schedulers: Sequence[str] = (PROFILE,),
        explains: bool = False,
    ) -> None:
        self.spool = spool
        self.shared = ClusterState()
        self.handle = ApiHandle(self.shared, preempts=preempts, evicts=not dry_run)
        self.writes = SentWrites(spool)
        self.handle.connect(self.writes)
        self.leading = True
        self.synced: list[int] = []  # nodes that were known whenever the loop said that it is ready
        profile = build_profile(Configuration(feature_gates=gates or {}), 0, IN_TREE, self.handle)
        self.framework = Framework(profile, time.monotonic, (), self.shared.nominator)
        frameworks = dict.fromkeys(schedulers, self.framework)
        recorder = Recorder(lambda incarnation: Spool(spool, incarnation), Origin("cluster", "test"), "0")
        scheduler = Scheduler(
            frameworks=frameworks,
            cluster=self.shared,
            queue=SchedulingQueue.for_profiles(frameworks, BACKOFF_S, BACKOFF_S),
            recorder=recorder,
            metrics=SchedulerMetrics(),
            requests=BindRequests(recorder),
            threads=BackgroundThreads(2),
            writes=self.writes,
            fence=WriteFence(lambda: self.leading),
        )
        synced = lambda: self.synced.append(len(self.shared.cache.columns.names))  # noqa: E731
        explainer = EventExplainer() if explains else None
        kinds: dict[str, type[Object]] = {"podgroups": PodGroup} if gates and gates.get("GenericWorkload") else {}
        self.loop = Loop(scheduler, kinds, dry_run=dry_run, on_synced=synced, event_explainer=explainer)

    def reserve_with(self, *plugins: Any) -> None:
        profile = self.framework.profile
        object.__setattr__(profile, "reserve", (*plugins, *profile.reserve))  # PreBind fails without the profile's own

    def nodes(self, *nodes: NodeBuilder) -> None:
        self.loop.inbox.put(ListResult(NODES, [n.obj() for n in nodes]))

    def pods(self, *pods: PodBuilder) -> None:
        self.loop.inbox.put(ListResult(PODS, [p.obj() for p in pods]))

    def node(self, type: str, node: NodeBuilder) -> None:
        self.loop.inbox.put(WatchEvent(NODES, type, node.obj()))

    def pod(self, type: str, pod: PodBuilder) -> None:
        self.loop.inbox.put(WatchEvent(PODS, type, pod.obj()))

    def start(self, *nodes: NodeBuilder, pods: Iterable[PodBuilder] = ()) -> None:
        self.nodes(*(nodes or (make_node("n"),)))
        self.pods(*pods)

    def settle(self) -> None:
        """Until there is nothing more to do at once."""
        deadline = time.monotonic() + 60
        while self.loop.step(0.0) or self.loop.scheduler.in_flight:
            assert time.monotonic() < deadline, "there is always more to do"

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "it did not happen"
            self.loop.step(0.002)

    @property
    def requested(self) -> dict[str, int]:
        """Return the requested cpu by node."""
        columns = self.loop.cache.columns
        return {columns.names[s]: int(columns.requested(CPU)[s]) for s in range(columns.slots) if columns.names[s]}

    @property
    def decisions(self) -> list[Decision]:
        return spools.of(Decision, self.spool)

    @property
    def outcomes(self) -> list[tuple[str, Code, str, bool]]:
        return [(o.phase, o.status, o.node, o.final) for o in spools.of(Outcome, self.spool)]


def waiting(name: str = "p", cpu: str = "1") -> PodBuilder:
    return make_pod(name).request(cpu=cpu)


class Permits:
    """Asks to wait."""

    def __init__(self, name: str = "Gate", timeout_s: float = 60.0) -> None:
        self.name, self._timeout_s = name, timeout_s

    def permit(self, state: Any, pod: Any, node: str) -> Verdict | Wait:
        return Wait(self._timeout_s)


class PreBinds:
    """Is pending until `said` is set."""

    name = "Slow"

    def __init__(self, timeout_s: float = 60.0) -> None:
        self.said: Verdict | None = None
        self._timeout_s = timeout_s

    def pre_bind(self, state: Any, pod: Any, node: str) -> Verdict | Pending:
        return Pending(lambda: self.said, self._timeout_s, error("too late"), "the tide")


def with_plugins(world: LoopWorld, **points: Any) -> None:
    for point, plugin in points.items():
        object.__setattr__(world.framework.profile, point, (plugin,))


def the_waiting(world: LoopWorld, name: str = "p") -> WaitingPod:
    found = world.shared.waiting.get(f"uid-{name}")
    assert found is not None
    return found


def phases(world: LoopWorld) -> list[tuple[str, Code, bool]]:
    return [(o.phase, o.status, o.final) for o in spools.of(Outcome, world.spool)]


def messages(world: LoopWorld) -> list[str]:
    return [notes.format_outcome_message(o) for o in spools.of(Outcome, world.spool)]


def ran(name: str, cpu: str, priority: int = 0, node: str = "n") -> PodBuilder:
    return waiting(name, cpu).priority(priority).node(node)
