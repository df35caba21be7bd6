"""Which pod is next, and when a rejected one is tried again (reference: section 5)."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from herodotus_record.model import PluginVerdict
from scheduler.framework.events import EVERY_EVENT, Event
from scheduler.objects.pod import PodInfo
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from scheduler.queue import QueuedPod, SchedulingQueue
from tests.scheduler.builders import PodBuilder, make_pod

SORT, GATES = PrioritySort(None, None), SchedulingGates(None, None)
DECLARED = {"Fit": frozenset({Event.NODE_ADD, Event.POD_DELETE}), "Taints": frozenset({Event.NODE_TAINT})}
FIT, TAINTS, NONE = frozenset({"Fit"}), frozenset({"Taints"}), frozenset()


def gate(pod: PodInfo) -> PluginVerdict | None:
    verdict = GATES.pre_enqueue(pod)
    return PluginVerdict(GATES.name, verdict) if verdict.code else None


def wakes_on(pod: PodInfo, plugins: frozenset[str]) -> frozenset[Event]:
    return frozenset().union(*(DECLARED.get(p, EVERY_EVENT) for p in plugins))


def a_queue() -> SchedulingQueue:
    return SchedulingQueue(SORT.sort_key, gate, wakes_on)


def add(queue: SchedulingQueue, *pods: PodBuilder, now: float = 0.0) -> None:
    for pod in pods:
        queue.add(pod.info(), now, 0)


def popped(queue: SchedulingQueue, now: float = 0.0) -> QueuedPod:
    queued = queue.pop(now)
    assert queued is not None
    return queued


def names(queue: SchedulingQueue, now: float) -> list[str]:
    """Everything that can be had now, in order."""
    found = []
    while (queued := queue.pop(now)) is not None:
        found.append(queued.pod.name)
    return found


def test_higher_priority_first_then_who_came_first() -> None:
    queue = a_queue()
    add(queue, make_pod("old"), make_pod("low").priority(-1), make_pod("high").priority(10))
    add(queue, make_pod("new"), make_pod("higher").priority(11), now=1.0)
    assert names(queue, 2.0) == ["higher", "high", "old", "new", "low"]


def test_who_came_back_first_is_first_however_long_it_then_waited() -> None:
    """The place among equals is from the last return, not from when an event or the clock moved the pod."""
    queue = a_queue()
    add(queue, make_pod("rejected"))
    queue.give_back(popped(queue), FIT, 1.0)
    add(queue, make_pod("new"), now=5.0)
    assert queue.wake(Event.NODE_ADD, 10.0) == 1
    assert names(queue, 10.0) == ["rejected", "new"]


def test_a_changed_pod_keeps_its_place_in_the_active_queue() -> None:
    queue = a_queue()
    add(queue, make_pod("a"))
    add(queue, make_pod("b"), now=1.0)
    queue.update(make_pod("a").label("app", "x").info(), 2.0)
    assert names(queue, 3.0) == ["a", "b"]


def test_a_changed_priority_changes_the_place() -> None:
    queue = a_queue()
    add(queue, make_pod("a"), make_pod("b"))
    queue.update(make_pod("b").priority(1).info(), 0.0)
    assert names(queue, 0.0) == ["b", "a"]


@pytest.mark.parametrize("error", [False, True], ids=["rejected", "error"])
def test_backoff_doubles_up_to_its_limit(error: bool) -> None:
    queue = a_queue()
    add(queue, make_pod())
    now, waits = 0.0, []
    for _ in range(7):
        queued = popped(queue, now)
        queue.give_back(queued, NONE if error else FIT, now, error=error)
        waits.append(queued.ready_at - now)
        now = queued.ready_at
        queue.wake(Event.NODE_ADD, now)
    assert waits == [1, 2, 4, 8, 10, 10, 10]
    assert popped(queue, now).attempts == 8


def test_a_rejection_ends_a_row_of_errors_and_goes_on_counting() -> None:
    queue = a_queue()
    add(queue, make_pod())
    now, waits = 0.0, []
    for error in (False, True, True, False, True):
        queued = popped(queue, now)
        queue.give_back(queued, NONE if error else FIT, now, error=error)
        waits.append(queued.ready_at - now)
        now = queued.ready_at
        queue.wake(Event.NODE_ADD, now)
    assert waits == [1, 1, 2, 2, 1]


def test_an_attempt_without_rejectors_is_an_error_even_where_it_is_called_none() -> None:
    queue = a_queue()
    add(queue, make_pod())
    queue.give_back(popped(queue), NONE, 0.0)
    assert queue.lengths() == {"active": 0, "backoff": 1, "unschedulable": 0, "gated": 0}


def test_a_rejected_pod_is_popped_before_its_backoff_ends_when_nothing_else_is_active() -> None:
    queue = a_queue()
    add(queue, make_pod("rejected"))
    queue.give_back(popped(queue), FIT, 0.0)
    assert queue.pop(0.1) is None  # it waits for an event
    queue.wake(Event.NODE_ADD, 0.2)
    add(queue, make_pod("active"), now=0.3)
    assert names(queue, 0.4) == ["active", "rejected"]


def test_a_pod_that_failed_by_error_waits_its_backoff_out_and_holds_up_nobody() -> None:
    queue = a_queue()
    add(queue, make_pod("error"), make_pod("rejected"))
    queue.give_back(popped(queue), NONE, 0.0, error=True)
    queue.give_back(popped(queue), FIT, 0.5)
    queue.wake(Event.NODE_ADD, 0.5)
    assert queue.next_due() == 1.0
    assert names(queue, 0.6) == ["rejected"]  # although the other's backoff ends earlier
    assert names(queue, 0.9) == []
    assert names(queue, 1.0) == ["error"]


@pytest.mark.parametrize(
    ("event", "woken"),
    [
        (Event.NODE_ADD, ["fit"]),
        (Event.POD_DELETE, ["fit"]),
        (Event.NODE_TAINT, ["taints"]),
        (Event.NODE_LABEL, []),
        (Event.TIMEOUT, []),
    ],
)
def test_only_declared_events_wake(event: Event, woken: list[str]) -> None:
    queue = a_queue()
    for name, plugins in (("fit", FIT), ("taints", TAINTS)):
        add(queue, make_pod(name))
        queue.give_back(popped(queue), plugins, 0.0)
    assert queue.wake(event, 20.0) == len(woken)
    assert names(queue, 20.0) == woken


def test_any_of_several_plugins_events_wakes() -> None:
    queue = a_queue()
    add(queue, make_pod())
    queue.give_back(popped(queue), FIT | TAINTS, 0.0)
    assert queue.wake(Event.NODE_TAINT, 20.0) == 1


def test_a_plugin_that_declares_nothing_wakes_on_everything() -> None:
    queue = a_queue()
    add(queue, make_pod())
    queue.give_back(popped(queue), frozenset({"Unknown"}), 0.0)
    assert queue.wake(Event.POD_ADD, 20.0) == 1


def test_nothing_for_five_minutes_and_it_is_tried_anyway() -> None:
    queue = a_queue()
    add(queue, make_pod("p"), make_pod("gated").gate("g"))
    queue.give_back(popped(queue), FIT, 10.0)
    assert names(queue, 309.0) == []
    assert names(queue, 345.0) == ["p"]  # looked for every 30 s
    assert names(queue, 10_000.0) == []


class TestGates:
    def test_a_gated_pod_is_never_popped_nor_woken(self) -> None:
        queue = a_queue()
        add(queue, make_pod().gate("a", "b"))
        assert queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
        assert [queue.wake(event, 0.0) for event in Event] == [0] * len(Event)
        assert names(queue, 1e6) == []

    def test_a_gate_that_remains_keeps_it_out(self) -> None:
        queue = a_queue()
        add(queue, make_pod().gate("a", "b"))
        queue.update(make_pod().gate("b").info(), 1.0)
        assert queue.lengths()["gated"] == 1

    def test_the_last_gate_lets_it_in_at_once(self) -> None:
        queue = a_queue()
        add(queue, make_pod().gate("a"))
        queue.update(make_pod().info(), 5.0)
        queued = popped(queue, 6.0)
        assert (queued.attempts, queued.waited_s) == (1, {"unschedulable": 5.0, "active": 1.0})


class TestUpdateAndDelete:
    def test_an_unschedulable_pod_whose_labels_changed_is_tried_where_that_may_help(self) -> None:
        queue = a_queue()
        for name, plugins in (("any", frozenset({"Unknown"})), ("fit", FIT)):
            add(queue, make_pod(name))
            queue.give_back(popped(queue), plugins, 0.0)
        for name in ("any", "fit"):
            queue.update(make_pod(name).label("app", "new").info(), 20.0)
        assert names(queue, 20.0) == ["any"]  # Fit does not ask about the pod itself here

    def test_a_status_that_changed_wakes_nobody(self) -> None:
        queue = a_queue()
        add(queue, make_pod())
        queue.give_back(popped(queue), frozenset({"Unknown"}), 0.0)
        queue.update(make_pod().condition("PodScheduled", "False").info(), 20.0)
        assert names(queue, 20.0) == []

    def test_the_newest_version_is_what_is_popped_from_any_place(self) -> None:
        queue = a_queue()
        add(queue, make_pod("a"), make_pod("b"))
        queue.give_back(popped(queue), NONE, 0.0, error=True)  # a: backoff
        for name in ("a", "b"):
            queue.update(make_pod(name).label("v", "2").info(), 0.0)
        assert [popped(queue, t).pod.labels for t in (0.0, 1.0)] == [{"v": "2"}] * 2

    @pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
    def test_delete(self, place: str) -> None:
        queue = a_queue()
        add(queue, make_pod().gate("g") if place == "gated" else make_pod())
        if place in ("backoff", "unschedulable"):
            queue.give_back(popped(queue), FIT if place == "unschedulable" else NONE, 0.0)
        assert queue.lengths()[place] == 1
        assert "uid-p" in queue
        assert queue.delete("uid-p") is True
        assert queue.delete("uid-p") is False
        assert (len(queue), list(queue.uids()), names(queue, 1e6)) == (0, [], [])


def test_waiting_times_are_kept_by_place_since_the_last_attempt() -> None:
    queue = a_queue()
    add(queue, make_pod())
    first = popped(queue, 2.0)
    assert first.waited_s == {"active": 2.0}
    queue.give_back(first, FIT, 3.0)
    queue.wake(Event.NODE_ADD, 3.5)  # into backoff until 4.0
    second = popped(queue, 6.0)
    assert (second.waited_s, second.attempts, second.first_seen_us) == (
        {"unschedulable": 0.5, "backoff": 2.5, "active": 0.0},
        2,
        0,
    )


class QueueMachine(RuleBasedStateMachine):
    """Whatever is done to it, a pod is in one place, and every pod can still be had."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = a_queue()
        self.now = 0.0
        self.waiting: set[str] = set()
        self.popped: dict[str, QueuedPod] = {}
        self.count = 0

    @rule(priority=st.integers(0, 2), gated=st.booleans())
    def add(self, priority: int, gated: bool) -> None:
        self.count += 1
        pod = make_pod(f"p{self.count}").priority(priority)
        add(self.queue, pod.gate("g") if gated else pod, now=self.now)
        self.waiting.add(f"uid-p{self.count}")

    @rule()
    def pop(self) -> None:
        queued = self.queue.pop(self.now)
        if queued is not None:
            assert queued.gate is None
            self.waiting.remove(queued.uid)
            self.popped[queued.uid] = queued

    @precondition(lambda self: self.popped)
    @rule(data=st.data(), plugins=st.sampled_from([FIT, TAINTS, NONE]), error=st.booleans())
    def give_back(self, data: st.DataObject, plugins: frozenset[str], error: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.popped)))
        self.queue.give_back(self.popped.pop(uid), plugins, self.now, error=error)
        self.waiting.add(uid)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), gated=st.booleans())
    def update(self, data: st.DataObject, gated: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.waiting)))
        pod = make_pod(uid.removeprefix("uid-")).label("at", str(self.now))
        self.queue.update((pod.gate("g") if gated else pod).info(), self.now)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.waiting)))
        assert self.queue.delete(uid)
        self.waiting.remove(uid)

    @rule(event=st.sampled_from(list(Event)))
    def wake(self, event: Event) -> None:
        self.queue.wake(event, self.now)

    @rule(seconds=st.sampled_from([0.3, 1.0, 11.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        assert set(self.queue.uids()) == self.waiting
        assert sum(self.queue.lengths().values()) == len(self.queue) == len(self.waiting)

    def teardown(self) -> None:
        gated = self.queue.lengths()["gated"]
        self.queue.flush(self.now + 10_000)  # wakes them
        assert len(names(self.queue, self.now + 20_000)) == len(self.waiting) - gated


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
