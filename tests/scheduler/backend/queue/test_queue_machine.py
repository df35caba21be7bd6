"""Whatever happens in whatever order, the queue does what a model of a few lines does.

The model keeps one list of everything that happened and asks every plugin of every pod about every event; the queue
files pods, groups them and forgets what nobody may ask about any longer. They must agree on where each pod is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.backend.queue import QueuedPod
from scheduler.engine.framework.events import ActionType, ClusterEvent, EventResource
from scheduler.engine.objects.pod import PodInfo
from tests.scheduler.backend.queue.queues import Asks, a_queue, add, on
from tests.scheduler.builders import PodBuilder, make_node, make_pod
from tests.support.examples import examples

EVENTS = [
    ClusterEvent.NODE_ADD,
    ClusterEvent.NODE_LABEL,
    ClusterEvent.NODE_ALLOCATABLE,
    ClusterEvent.POD_DELETE,
    ClusterEvent.POD_LABEL,
]
COLOURS = ["red", "blue"]
PLUGINS = ["Fit", "Taints", "Colour", "Own", "Unknown"]


def same_colour(pod: PodInfo, old: Any, new: Any) -> bool:
    return bool(pod.labels.get("colour") == new.metadata.labels["colour"])


def is_own(pod: PodInfo, old: Any, new: Any) -> bool:
    return bool(new.uid == pod.uid)


COLOUR = Asks("Colour", on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, same_colour))
OWN = Asks("Own", on(EventResource.POD, ActionType.UPDATE_POD_LABEL, is_own))
OTHER = make_pod("other").node("n").info()


def helps(plugin: str, event: ClusterEvent, pod: PodInfo, new: Any) -> bool:
    """Return whether a plugin's hint lets the event help the pod, by one table for all plugins of these tests."""
    own_label = event is ClusterEvent.WAITING_POD_LABEL and new.uid == pod.uid
    return {
        "Fit": event in (ClusterEvent.NODE_ADD, ClusterEvent.POD_DELETE),
        "Taints": event is ClusterEvent.NODE_LABEL,
        "Colour": event in (ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABEL) and same_colour(pod, None, new),
        "Own": own_label,
        "Unknown": True,
        "SchedulingGates": event is ClusterEvent.WAITING_POD_UNGATED and new.uid == pod.uid,
    }[plugin] or (event is ClusterEvent.NODE_TAINT and plugin in ("Fit", "Colour"))


@dataclass
class Model:
    """Where one pod is, and why."""

    pod: PodBuilder
    where: str
    queued_at: float
    rejectors: frozenset[str] = frozenset()
    rejections: int = 0
    errors: int = 0
    ready_at: float = 0.0
    gated: bool = False
    missed: list[tuple[ClusterEvent, Any]] = field(default_factory=list)

    def worth(self, event: ClusterEvent, new: Any) -> bool:
        return any(helps(plugin, event, self.pod.info(), new) for plugin in self.rejectors)

    def retry(self, now: float) -> None:
        if self.gated:
            self.where, self.rejectors = "gated", self.rejectors | {"SchedulingGates"}
        else:
            self.where = "backoff" if self.ready_at > now else "active"


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = a_queue(COLOUR, OWN)
        self.now = 0.0
        self.next_flush = 0.0
        self.models: dict[str, Model] = {}
        self.flying: dict[str, QueuedPod] = {}
        self.count = 0

    # --- pods come and go ---

    @rule(priority=st.integers(0, 2), gated=st.booleans(), colour=st.sampled_from(COLOURS))
    def add(self, priority: int, gated: bool, colour: str) -> None:
        self.count += 1
        pod = make_pod(f"p{self.count}").priority(priority).label("colour", colour)
        add(self.queue, pod.gate("g") if gated else pod, now=self.now)
        model = Model(pod, "active", self.now, gated=gated)
        model.retry(self.now)
        self.models[f"uid-p{self.count}"] = model

    @rule()
    def pop(self) -> None:
        self._flush()
        queued = self.queue.pop(self.now)
        ready = {uid: m for uid, m in self.models.items() if m.where == "active"} or {
            uid: m for uid, m in self.models.items() if m.where == "backoff" and m.rejectors
        }
        assert (queued is None) == (not ready)
        if queued is None:
            return
        model = ready[queued.uid]
        if model.where == "active":
            assert queued.pod.priority == max(m.pod.info().priority for m in ready.values())
        else:
            assert model.ready_at == min(m.ready_at for m in ready.values())
        assert math.isclose(sum(queued.waited_s.values()), self.now - model.queued_at)
        assert queued.pod.pod == model.pod.obj()
        model.where, model.missed = "flying", []
        self.flying[queued.uid] = queued

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), plugins=st.sets(st.sampled_from(PLUGINS), max_size=2), error=st.booleans())
    def give_back(self, data: st.DataObject, plugins: set[str], error: bool) -> None:
        self._give_back(data.draw(st.sampled_from(sorted(self.flying))), plugins, error)

    @rule(new=st.integers(0, 3), plugins=st.sets(st.sampled_from(PLUGINS), min_size=1, max_size=2))
    def everything_is_tried_and_turned_away(self, new: int, plugins: set[str]) -> None:
        for _ in range(new):
            self.add(0, False, "red")
        before = -1
        while len(self.flying) > before:
            before = len(self.flying)
            self.pop()
        for uid in sorted(self.flying):
            self._give_back(uid, plugins, False)

    def _give_back(self, uid: str, plugins: set[str], error: bool) -> None:
        model = self.models[uid]
        self.queue.add_unschedulable_if_not_present(self.flying.pop(uid), frozenset(plugins), self.now, error=error)
        model.queued_at, model.rejectors = self.now, frozenset() if error else frozenset(plugins)
        if model.rejectors:
            model.rejections, model.errors = model.rejections + 1, 0
        else:
            model.errors += 1
        backoff = min(2.0 ** ((model.errors or model.rejections) - 1), 10.0)
        model.ready_at = math.floor(self.now + backoff) + 1
        model.where = "unschedulable"
        if not model.rejectors or any(model.worth(event, new) for event, new in model.missed):
            model.retry(self.now)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def bound(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.flying)))
        self.queue.done(uid)
        del self.flying[uid], self.models[uid]

    @precondition(lambda self: len(self.models) > len(self.flying))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.models.keys() - self.flying.keys())))
        assert self.queue.delete(uid) is not None
        del self.models[uid]

    # --- things happen ---

    @precondition(lambda self: self.models)
    @rule(data=st.data(), colour=st.sampled_from(COLOURS), ungate=st.booleans())
    def update(self, data: st.DataObject, colour: str, ungate: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.models)))
        model = self.models[uid]
        was = model.pod.info()
        model.pod.label("colour", colour)
        if ungate and model.gated:
            model.gated = False
        if model.gated:
            model.pod.gate("g")
        else:
            model.pod.spec.pop("schedulingGates", None)
        new = model.pod.info()
        self.queue.update(new, self.now)
        events = [ClusterEvent.WAITING_POD_LABEL] if was.labels != new.labels else []
        if was.pod.spec.scheduling_gates and not new.pod.spec.scheduling_gates:
            events.append(ClusterEvent.WAITING_POD_UNGATED)
        if model.where == "flying":
            self._missed(events, new)
        for event in events:
            if model.where in ("unschedulable", "gated") and model.worth(event, new):
                model.retry(self.now)

    @rule(event=st.sampled_from(EVENTS), colour=st.sampled_from(COLOURS))
    def happens(self, event: ClusterEvent, colour: str) -> None:
        new = make_node("n").label("colour", colour).obj() if event.resource is EventResource.NODE else OTHER
        woken = self.queue.move_all_to_active_or_backoff_queue(event, self.now, None, new)
        helped = [m for m in self.models.values() if m.where == "unschedulable" and m.worth(event, new)]
        for model in helped:
            model.retry(self.now)
        assert woken == sum(model.where != "gated" for model in helped)
        self._missed([event], new)

    @rule(seconds=st.sampled_from([0.3, 1.0, 11.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self._flush()
        self.queue.flush(self.now)

    def _missed(self, events: list[ClusterEvent], new: Any) -> None:
        for uid in self.flying:
            self.models[uid].missed += [(event, new) for event in events]

    def _flush(self) -> None:
        for model in self.models.values():
            if model.where == "backoff" and model.ready_at <= self.now:
                model.where = "active"
        if self.now >= self.next_flush:
            self.next_flush = self.now + 30.0
            for model in self.models.values():
                if model.where == "unschedulable" and self.now - model.queued_at > 300.0:
                    model.retry(self.now)

    # --- what holds ---

    @invariant()
    def every_pod_is_where_the_model_says(self) -> None:
        waiting = {uid: model.where for uid, model in self.models.items() if model.where != "flying"}
        assert {queued.uid: queued.where for queued in self.queue} == waiting
        assert self.queue.lengths() == {
            where: sum(w == where for w in waiting.values())
            for where in ("active", "backoff", "unschedulable", "gated")
        }

    @invariant()
    def nothing_is_kept_for_nobody(self) -> None:
        pods, events = self.queue.in_flight()
        assert pods == len(self.flying)
        assert events == max((len(self.models[uid].missed) for uid in self.flying), default=0)

    def teardown(self) -> None:
        """Every pod that no gate holds back can still be had."""
        gated = sum(model.gated for uid, model in self.models.items() if uid not in self.flying)
        self.queue.flush(self.now + 10_000)  # wakes them
        had = 0
        while self.queue.pop(self.now + 20_000) is not None:
            had += 1
        assert had == len(self.models) - len(self.flying) - gated


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
