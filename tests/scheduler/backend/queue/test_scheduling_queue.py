"""Which pod is next, and when a rejected one is tried again."""

from __future__ import annotations

import io
import itertools

import pytest

from herodotus_record import klog
from herodotus_record.model import PluginVerdict, RequeueEvent, Retry
from scheduler.backend.queue import BackoffLimits, SchedulingQueue
from scheduler.engine.framework.events import QUEUE_SKIP, ActionType, ClusterEvent, EventResource
from scheduler.engine.framework.queueing_hints import QueueingHints
from scheduler.engine.objects.pod import PodInfo
from scheduler.engine.rules import Rules
from tests.scheduler.backend.queue.queues import (
    FIT,
    FIT_ASKS,
    NONE,
    SORT,
    TAINTS,
    Asks,
    a_queue,
    add,
    gate,
    names,
    on,
    popped,
    rejected,
)
from tests.scheduler.builders import PROFILE, make_pod


class TestOrder:
    def test_pods_are_popped_by_priority_then_by_arrival(self) -> None:
        queue = a_queue()
        add(queue, make_pod("old"), make_pod("low").priority(-1), make_pod("high").priority(10))
        add(queue, make_pod("new"), make_pod("higher").priority(11), now=1.0)
        assert names(queue, 2.0) == ["higher", "high", "old", "new", "low"]

    def test_pods_leave_the_backoff_in_the_order_of_their_return(self) -> None:
        """The place among equals is from the last return, not from when an event or the clock moved the pod."""
        queue = a_queue()
        rejected(queue, make_pod("rejected"), now=1.0)
        add(queue, make_pod("new"), now=5.0)
        assert queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 10.0) == 1
        assert names(queue, 10.0) == ["rejected", "new"]

    def test_a_changed_pod_keeps_its_place_in_the_active_queue(self) -> None:
        queue = a_queue()
        add(queue, make_pod("a"))
        add(queue, make_pod("b"), now=1.0)
        queue.update(make_pod("a").label("app", "x").info(), 2.0)
        assert names(queue, 3.0) == ["a", "b"]

    def test_a_changed_priority_changes_the_place(self) -> None:
        queue = a_queue()
        add(queue, make_pod("a"), make_pod("b"))
        queue.update(make_pod("b").priority(1).info(), 0.0)
        assert names(queue, 0.0) == ["b", "a"]

    def test_pods_whose_backoff_ends_in_the_same_second_are_ordered_by_priority(self) -> None:
        queue = a_queue()
        for name, priority, now in (("first", 0, 0.1), ("important", 5, 0.8), ("next-second", 9, 1.1)):
            rejected(queue, make_pod(name).priority(priority), now=now)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 1.2)
        assert names(queue, 1.3) == ["important", "first", "next-second"]


class TestBackoff:
    @pytest.mark.parametrize("error", [False, True], ids=["rejected", "error"])
    def test_backoff_doubles_up_to_its_limit_and_is_rounded_to_a_second(self, error: bool) -> None:
        """1, 2, 4, 8, 10, 10 s, and then the rest of the second in which it ends."""
        queue = a_queue()
        add(queue, make_pod())
        now, waits = 0.0, []
        for _ in range(7):
            queued = popped(queue, now)
            queue.add_unschedulable_if_not_present(queued, NONE if error else FIT, now, error=error)
            waits.append(queued.ready_at - now)
            now = queued.ready_at
            queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, now)
        assert waits == [2, 3, 5, 9, 11, 11, 11]
        assert popped(queue, now).attempts == 8

    def test_backoff_starts_when_the_pod_is_returned(self) -> None:
        queue = a_queue()
        assert rejected(queue, make_pod(), now=7.9).ready_at == 9.0  # floor(8.9), and that second

    def test_a_backoff_below_a_second_is_not_rounded_up(self) -> None:
        queue = a_queue(initial_backoff_s=0.25, max_backoff_s=0.25)
        assert rejected(queue, make_pod(), now=1.0).ready_at == 1.5

    def test_disabled_backoff_is_zero(self) -> None:
        queue = a_queue(max_backoff_s=0.0)
        add(queue, make_pod())
        queue.add_unschedulable_if_not_present(popped(queue), NONE, 0.0, error=True)
        assert names(queue, 0.0) == ["p"]

    def test_a_rejection_resets_the_error_count_and_continues_the_attempt_count(self) -> None:
        queue = a_queue()
        add(queue, make_pod())
        now, waits = 0.0, []
        for error in (False, True, True, False, True):
            queued = popped(queue, now)
            queue.add_unschedulable_if_not_present(queued, NONE if error else FIT, now, error=error)
            waits.append(queued.ready_at - now - 1)
            now = queued.ready_at
            queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, now)
        assert waits == [1, 1, 2, 2, 1]

    def test_an_attempt_without_rejectors_is_an_error_even_where_it_is_called_none(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod(), NONE)
        assert queue.lengths() == {"active": 0, "backoff": 1, "unschedulable": 0, "gated": 0}

    def test_a_rejected_pod_is_popped_before_its_backoff_ends_when_nothing_else_is_active(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod("rejected"))
        assert queue.pop(0.1) is None  # it waits for an event
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.2)
        add(queue, make_pod("active"), now=0.3)
        assert names(queue, 0.4) == ["active", "rejected"]

    def test_failed_pod_waits_for_its_backoff_without_blocking_others(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod("error"), NONE)
        rejected(queue, make_pod("rejected"), now=1.5)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 1.5)
        assert queue.next_backoff_end() == 2.0
        assert names(queue, 1.6) == ["rejected"]  # although the other's backoff ends earlier
        assert names(queue, 1.9) == []
        assert names(queue, 2.0) == ["error"]


class TestEvents:
    @pytest.mark.parametrize(
        ("event", "woken"),
        [
            (ClusterEvent.NODE_ADD, ["fit"]),
            (ClusterEvent.POD_DELETE, ["fit"]),
            (ClusterEvent.NODE_TAINT, ["fit"]),
            (ClusterEvent.NODE_LABEL, ["taints"]),
            (ClusterEvent.NODE_ALLOCATABLE, []),
            (ClusterEvent.TIMEOUT, []),
        ],
    )
    def test_only_declared_events_requeue(self, event: ClusterEvent, woken: list[str]) -> None:
        queue = a_queue()
        for name, plugins in (("fit", FIT), ("taints", TAINTS)):
            rejected(queue, make_pod(name), plugins)
        assert queue.move_all_to_active_or_backoff_queue(event, 20.0) == len(woken)
        assert names(queue, 20.0) == woken

    def test_the_hint_sees_the_pod_and_the_object_before_and_after(self) -> None:
        seen = []

        def hint(pod: PodInfo, old: object, new: object) -> bool:
            seen.append((pod.name, old, new))
            return QUEUE_SKIP

        queue = a_queue(Asks("Looks", on(EventResource.NODE, ActionType.ADD, hint)))
        rejected(queue, make_pod(), frozenset({"Looks"}))
        assert queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 1.0, "old", "new") == 0
        assert seen == [("p", "old", "new")]

    def test_pods_that_differ_only_in_name_are_evaluated_once(self) -> None:
        evaluated: list[str] = []

        def hint(pod: PodInfo, old: object, new: object) -> bool:
            evaluated.append(pod.labels["app"])
            return True

        queue = a_queue(Asks("Looks", on(EventResource.NODE, ActionType.ADD, hint)))
        for i in range(6):
            rejected(queue, make_pod(f"p{i}").label("app", "ab"[i % 2]), frozenset({"Looks"}))
        assert queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 1.0) == 6
        assert sorted(evaluated) == ["a", "b"]

    def test_a_hint_that_raises_requeues_and_is_logged(self) -> None:
        log = io.StringIO()
        klog.setup(0, log)
        queue = a_queue(Asks("Broken", on(EventResource.NODE, ActionType.ADD, lambda pod, old, new: 1 // 0 == 0)))
        rejected(queue, make_pod(), frozenset({"Broken"}))
        assert queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 20.0) == 1
        line = log.getvalue()
        assert '"QueueingHintFn returns error"' in line
        assert 'event="NodeAdd" plugin="Broken" pod="default/p"' in line

    def test_an_event_of_any_rejecting_plugin_requeues(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod(), FIT | TAINTS)
        assert queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_LABEL, 20.0) == 1

    def test_an_unknown_plugin_requeues_on_every_event(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod(), frozenset({"Extender"}))
        assert queue.move_all_to_active_or_backoff_queue(ClusterEvent.POD_UPDATE, 20.0) == 1

    def test_only_selected_pods_are_requeued(self) -> None:
        queue = a_queue()
        for priority in (1, 2, 3):
            rejected(queue, make_pod(f"p{priority}").priority(priority))
        assert (
            queue.move_all_to_active_or_backoff_queue(
                ClusterEvent.POD_DELETE, 20.0, among=lambda pod: pod.priority <= 2
            )
            == 2
        )
        assert names(queue, 20.0) == ["p2", "p1"]

    def test_event_of_a_pending_plugin_ends_the_backoff(self) -> None:
        queue = a_queue()
        add(queue, make_pod("pending"), make_pod("rejected"))
        for pending in (TAINTS, NONE):
            queue.add_unschedulable_if_not_present(popped(queue), FIT | TAINTS, 0.0, pending=pending)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_LABEL, 0.1)
        assert queue.lengths() == {"active": 1, "backoff": 1, "unschedulable": 0, "gated": 0}

    def test_a_pod_without_an_event_is_retried_after_five_minutes(self) -> None:
        queue = a_queue()
        add(queue, make_pod("gated").gate("g"))
        rejected(queue, make_pod("p"), now=10.0)
        assert names(queue, 310.0) == []
        queued = popped(queue, 345.0)  # looked for every 30 s
        assert (queued.pod.name, queued.requeued_by) == ("p", RequeueEvent("UnschedulableTimeout", ""))
        assert names(queue, 10_000.0) == []

    def test_activated_pod_is_tried_at_once(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod("waiting"))
        rejected(queue, make_pod("error"), NONE)
        assert [queue.activate(f"uid-{name}", 0.0) for name in ("waiting", "error", "unknown")] == [True, True, False]
        assert names(queue, 0.0) == ["waiting", "error"]


class TestDeniedEvictions:
    """A preemptor whose victims cannot be evicted is not tried in a loop."""

    def denied(self, queue: SchedulingQueue, now: float) -> None:
        queue.add_unschedulable_if_not_present(popped(queue, now), FIT, now)
        queue.end_preemption("uid-p", now, failed=True)

    def test_a_preemptor_backs_off_from_the_second_denial_in_a_row(self) -> None:
        queue, tried = a_queue(), []
        add(queue, make_pod("p"))
        for tenth in range(300):
            if (queued := queue.pop(tenth / 10)) is not None:
                tried.append(tenth / 10)
                queue.add_unschedulable_if_not_present(queued, FIT, tenth / 10)
                queue.end_preemption("uid-p", tenth / 10, failed=True)
        assert tried[:2] == [0.0, 0.1]  # at once after the first denial, as upstream
        assert len(tried) <= 7
        assert all(later - earlier >= 1.9 for earlier, later in itertools.pairwise(tried[1:]))

    def test_an_eviction_that_succeeds_ends_the_series(self) -> None:
        queue = a_queue()
        add(queue, make_pod("p"))
        self.denied(queue, 0.0)
        queue.add_unschedulable_if_not_present(popped(queue, 0.0), FIT, 0.0)
        queue.end_preemption("uid-p", 0.0, failed=False)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.1)
        self.denied(queue, 0.1)
        assert names(queue, 0.1) == ["p"]

    def test_events_do_not_end_the_backoff_of_a_denied_preemptor(self) -> None:
        queue = a_queue()
        add(queue, make_pod("p"))
        self.denied(queue, 0.0)
        self.denied(queue, 0.0)
        for i in range(100):
            queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, i / 100)
            assert names(queue, i / 100) == []
        assert names(queue, 3.1) == ["p"]

    def test_a_preemptor_that_left_the_queue_is_ignored(self) -> None:
        queue = a_queue()
        queue.end_preemption("uid-p", 0.0, failed=True)
        assert len(queue) == 0


class TestInFlight:
    def test_events_during_an_attempt_are_checked_when_it_ends(self) -> None:
        queue = a_queue()
        add(queue, make_pod())
        queued = popped(queue)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_LABEL, 0.1)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.2)
        queue.add_unschedulable_if_not_present(queued, FIT, 0.5)
        assert queue.lengths()["backoff"] == 1
        assert popped(queue, 1.0).requeued_by == RequeueEvent("NodeAdd", "Fit")

    @pytest.mark.parametrize(
        "event", [None, ClusterEvent.NODE_LABEL], ids=["nothing happened", "what happened is nothing to its rejector"]
    )
    def test_irrelevant_events_during_an_attempt_do_not_requeue(self, event: ClusterEvent | None) -> None:
        queue = a_queue()
        add(queue, make_pod())
        queued = popped(queue)
        if event:
            queue.move_all_to_active_or_backoff_queue(event, 0.1)
        queue.add_unschedulable_if_not_present(queued, FIT, 0.5)
        assert queue.lengths()["unschedulable"] == 1

    def test_events_before_the_pop_do_not_requeue(self) -> None:
        queue = a_queue()
        add(queue, make_pod("a"), make_pod("b"))
        popped(queue)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.1)
        queue.add_unschedulable_if_not_present(popped(queue, 0.2), FIT, 0.3)
        assert queue.lengths()["unschedulable"] == 1

    def test_an_update_of_the_pod_during_its_attempt_requeues_the_new_version(self) -> None:
        queue = a_queue(
            Asks("Own", on(EventResource.POD, ActionType.UPDATE_POD_LABEL, lambda pod, old, new: new.uid == pod.uid))
        )
        add(queue, make_pod())
        queued = popped(queue)
        queue.update(make_pod().label("v", "2").info(), 0.1)
        queue.add_unschedulable_if_not_present(queued, frozenset({"Own"}), 0.2)
        again = popped(queue, 0.3)
        assert (again.pod.labels, again.requeued_by) == (
            {"v": "2"},
            RequeueEvent("UnschedulablePodUpdatePodLabel", "Own"),
        )

    def test_waiting_pod_can_be_activated(self) -> None:
        queue = a_queue()
        add(queue, make_pod("a"), make_pod("b"))
        a, b = popped(queue), popped(queue)
        assert queue.activate("uid-a", 0.1) is False
        for queued in (a, b):
            queue.add_unschedulable_if_not_present(queued, FIT, 0.2)
        assert names(queue, 5.0) == ["a"]

    def test_events_are_dropped_when_no_pod_in_flight_needs_them(self) -> None:
        queue = a_queue()
        add(queue, make_pod("a"), make_pod("b"))
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.0)
        assert queue.in_flight() == (0, 0)
        popped(queue)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.1)
        b = popped(queue)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.2)
        assert queue.in_flight() == (2, 2)
        queue.done("uid-a")
        queue.done("uid-a")  # harmless
        assert queue.in_flight() == (1, 1)
        queue.add_unschedulable_if_not_present(b, FIT, 0.3)
        assert queue.in_flight() == (0, 0)

    def test_a_pod_that_missed_dropped_events_is_retried(self) -> None:
        queue = a_queue()
        add(queue, make_pod())
        queued = popped(queue)
        for _ in range(10_001):
            queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_LABEL, 0.1)
        assert queue.in_flight() == (1, 10_000)
        queue.add_unschedulable_if_not_present(queued, FIT, 0.2)
        assert queue.lengths()["backoff"] == 1


class TestGates:
    def test_a_gated_pod_is_neither_popped_nor_requeued(self) -> None:
        queue = a_queue()
        add(queue, make_pod().gate("a", "b"))
        assert queue.lengths() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
        woken = {
            event: queue.move_all_to_active_or_backoff_queue(
                event, 0.0, old=make_pod("o").info(), new=make_pod("o").info()
            )
            for event in ClusterEvent
        }
        assert woken == dict.fromkeys(ClusterEvent, 0)
        assert names(queue, 1e6) == []

    def test_a_pod_with_a_remaining_gate_stays_gated(self) -> None:
        queue = a_queue()
        add(queue, make_pod().gate("a", "b"))
        queue.update(make_pod().gate("b").info(), 1.0)
        assert queue.lengths()["gated"] == 1

    def test_removing_the_last_gate_activates_the_pod(self) -> None:
        queue = a_queue()
        add(queue, make_pod().gate("a"))
        queue.update(make_pod().info(), 5.0)
        queued = popped(queue, 6.0)
        assert (queued.attempts, queued.waited_s) == (1, {"gated": 5.0, "active": 1.0})
        assert queued.requeued_by == RequeueEvent(
            "UnschedulablePodUpdatePodSchedulingGatesEliminated", "SchedulingGates"
        )

    def test_gating_plugin_runs_at_each_enqueue(self) -> None:
        """As a preemption that is under way does: the pod waits for its end, in whatever way it was woken."""
        held = True

        def pre_enqueue(pod: PodInfo) -> PluginVerdict | None:
            return gate(make_pod().gate("held").info()) if held else None

        hold = Asks("SchedulingGates", on(EventResource.POD, ActionType.DELETE, lambda pod, old, new: QUEUE_SKIP))
        queue = SchedulingQueue(SORT.sort_key, pre_enqueue, {PROFILE: QueueingHints([hold, FIT_ASKS])}, BackoffLimits())
        held = False
        rejected(queue, make_pod())
        held = True
        assert queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 20.0) == 0
        assert queue.lengths()["gated"] == 1
        held = False
        assert (
            queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 30.0) == 0
        )  # its gate does not ask about nodes
        assert (
            queue.move_all_to_active_or_backoff_queue(ClusterEvent.POD_DELETE, 40.0) == 1
        )  # its gate asks, and its rejector says yes
        assert popped(queue, 40.0).requeued_by == RequeueEvent("AssignedPodDelete", "Fit")


class TestUpdateAndDelete:
    def test_an_update_requeues_an_unschedulable_pod_if_it_may_help(self) -> None:
        queue = a_queue()
        for name, plugins in (("any", frozenset({"Unknown"})), ("fit", FIT)):
            rejected(queue, make_pod(name), plugins)
        for name in ("any", "fit"):
            queue.update(make_pod(name).label("app", "new").info(), 20.0)
        assert names(queue, 20.0) == ["any"]  # Fit does not ask about the pod itself here

    def test_unchanged_pod_moves_no_waiting_pod(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod(), frozenset({"Unknown"}))
        queue.update(make_pod().info(), 20.0)
        assert names(queue, 20.0) == []

    def test_changed_pod_is_evaluated_with_its_new_spec(self) -> None:
        hint = on(EventResource.NODE, ActionType.ADD, lambda pod, old, new: pod.labels.get("v") == "2")
        queue = a_queue(Asks("Looks", hint))
        rejected(queue, make_pod("a"), frozenset({"Looks"}))
        rejected(queue, make_pod("b"), frozenset({"Looks"}))
        queue.update(make_pod("b").label("v", "2").info(), 1.0)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 20.0)
        assert names(queue, 20.0) == ["b"]

    def test_the_newest_version_of_a_pod_is_popped_from_every_queue(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod("a"), NONE)  # backoff
        add(queue, make_pod("b"))
        for name in ("a", "b"):
            queue.update(make_pod(name).label("v", "2").info(), 0.0)
        assert [popped(queue, t).pod.labels for t in (0.0, 2.0)] == [{"v": "2"}] * 2

    @pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
    def test_delete(self, place: str) -> None:
        queue = a_queue()
        add(queue, make_pod().gate("g") if place == "gated" else make_pod())
        if place in ("backoff", "unschedulable"):
            queue.add_unschedulable_if_not_present(popped(queue), FIT if place == "unschedulable" else NONE, 0.0)
        assert queue.lengths()[place] == 1
        gone = queue.delete("uid-p")
        assert gone is not None
        assert gone.uid == "uid-p"
        assert queue.delete("uid-p") is None
        assert (len(queue), list(queue), set(queue.lengths().values()), names(queue, 1e6)) == (0, [], {0}, [])

    def test_frequent_updates_of_a_pod_do_not_fill_the_queue(self) -> None:
        queue = a_queue()
        add(queue, make_pod("a"), make_pod("b"))
        for i in range(1000):
            queue.update(make_pod("a").label("at", str(i)).info(), 0.0)
        assert len(queue._active._heap) < 200
        assert sorted(names(queue, 0.0)) == ["a", "b"]


class TestWhatIsToldOfIt:
    def test_waiting_times_are_counted_by_queue_since_the_last_attempt(self) -> None:
        queue = a_queue()
        add(queue, make_pod())
        first = popped(queue, 2.0)
        assert first.waited_s == {"active": 2.0}
        queue.add_unschedulable_if_not_present(first, FIT, 3.0)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 3.5)  # into backoff until 5.0
        second = popped(queue, 6.0)
        assert (second.waited_s, second.attempts, second.first_seen_us) == (
            {"unschedulable": 0.5, "backoff": 2.5, "active": 0.0},
            2,
            0,
        )

    def test_requeue_event_is_recorded_for_the_next_attempt_only(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod())
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.POD_DELETE, 20.0)
        woken = popped(queue, 20.0)
        assert woken.requeued_by == RequeueEvent("AssignedPodDelete", "Fit")
        queue.add_unschedulable_if_not_present(woken, NONE, 21.0, error=True)
        assert popped(queue, 40.0).requeued_by is None

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (False, Retry("unschedulable", 101_500_000, 430_000_000)),
            (True, Retry("backoff", 101_500_000, None)),
        ],
        ids=["rejected", "error"],
    )
    def test_next_attempt_time_of_a_pod(self, error: bool, expected: Retry) -> None:
        queue = a_queue()
        add(queue, make_pod())
        assert queue.predict_retry(popped(queue), 0.5, 100_000_000, error=error) == expected

    def test_incoming_pods_are_counted_by_queue_and_event(self) -> None:
        queue = a_queue()
        rejected(queue, make_pod("a"))
        rejected(queue, make_pod("b"), NONE)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.5)
        popped(queue, 0.6)
        popped(queue, 5.0)
        add(queue, make_pod("gated").gate("g"))
        assert dict(queue.incoming) == {
            ("active", "UnschedulablePodAdd"): 2,
            ("unschedulable", "ScheduleAttemptFailure"): 1,
            ("backoff", "ScheduleAttemptFailure"): 1,
            ("backoff", "NodeAdd"): 1,
            ("active", "PopFromBackoffQ"): 1,
            ("active", "BackoffComplete"): 1,
            ("unschedulable", "UnschedulablePodAdd"): 1,
        }


class TestWithoutPopFromBackoffQ:
    """The gate SchedulerPopFromBackoffQ is off."""

    def queue(self) -> SchedulingQueue:
        return a_queue(rules=Rules.from_settings({"SchedulerPopFromBackoffQ": False}))

    def test_a_pod_stays_in_backoff_while_the_active_queue_is_empty(self) -> None:
        queue = self.queue()
        rejected(queue, make_pod("a"), now=0.3)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.5)
        assert queue.pop(1.2) is None

    def test_backoff_is_not_rounded_up_to_a_window(self) -> None:
        queue = self.queue()
        rejected(queue, make_pod("a"), now=0.3)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.5)
        assert queue.next_backoff_end() == pytest.approx(1.3)
        assert names(queue, 1.3) == ["a"]

    def test_pre_enqueue_runs_after_the_backoff_and_not_before(self) -> None:
        queue = self.queue()
        rejected(queue, make_pod("a"), now=0.3)
        queue.update(make_pod("a").gate("later").info(), 0.4)
        queue.move_all_to_active_or_backoff_queue(ClusterEvent.NODE_ADD, 0.5)
        assert queue.lengths()["backoff"] == 1
        queue.flush(2.0)
        assert queue.lengths()["gated"] == 1
