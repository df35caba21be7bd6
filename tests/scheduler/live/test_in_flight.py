"""Bind requests begin in order, as many at once as the server takes without letting them wait for each other."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from scheduler.live.in_flight import (
    INITIAL_IN_FLIGHT,
    MAX_IN_FLIGHT,
    MAX_WAITING,
    MEMORY_S,
    MIN_IN_FLIGHT,
    RESUME_WAITING,
    BindRequests,
    ConcurrencyLimit,
)
from scheduler.recorder.no_recorder import NoRecorder


class Server:
    """Answers after `way_s`, and after `each_s` more for each that is under way before it."""

    def __init__(self, way_s: float, each_s: float) -> None:
        self.now = 0.0
        self.pace = ConcurrencyLimit(lambda: self.now)
        self.way_s = way_s
        self.each_s = each_s

    def serve(self, rounds: int) -> int:
        """Every round fills the turns; now and then one finds the server idle, as requests do. The turns there are."""
        for _ in range(rounds):
            self.now += self.way_s
            durations = [self.way_s + self.each_s * i for i in range(self.pace.limit)]
            for duration_s in durations:
                self.pace.add_response(duration_s)
        return self.pace.limit


@pytest.mark.parametrize(
    ("way_s", "each_s", "turns"),
    [
        pytest.param(0.1, 0.0, MAX_IN_FLIGHT, id="far away, and idle: all there are"),
        pytest.param(0.1, 0.0001, MAX_IN_FLIGHT, id="far away, and hardly busy"),
        pytest.param(0.002, 0.003, range(MIN_IN_FLIGHT, INITIAL_IN_FLIGHT + 3), id="near, and busy: few"),
        pytest.param(
            0.0001,
            0.01,
            range(MIN_IN_FLIGHT, INITIAL_IN_FLIGHT + 1),
            id="near, and overwhelmed: never fewer than the fewest",
        ),
        pytest.param(0.0, 0.0, MAX_IN_FLIGHT, id="answers in no time that a clock shows"),
    ],
)
def test_the_limit_follows_the_requests_queued_in_the_server(way_s: float, each_s: float, turns: int | range) -> None:
    limit = Server(way_s, each_s).serve(200)
    assert limit in (turns if isinstance(turns, range) else [turns])


def test_a_longer_round_trip_raises_the_base_latency() -> None:
    """The shortest duration is forgotten: what moved away is not taken for busy for ever."""
    server = Server(0.001, 0.0)
    server.serve(100)
    server.way_s = 0.1
    assert server.serve(int(MEMORY_S / 0.1 / 2)) < MAX_IN_FLIGHT
    assert server.serve(int(3 * MEMORY_S / 0.1)) == MAX_IN_FLIGHT


def test_work_begins_in_order_and_up_to_the_limit_at_once() -> None:
    begun: list[int] = []
    requests = BindRequests(NoRecorder("0"))
    for i in range(100):
        requests.enqueue(partial(begun.append, i))
    assert begun == list(range(INITIAL_IN_FLIGHT))
    for done in range(1, 100 - INITIAL_IN_FLIGHT + 1):
        requests.release(None)
        assert len(begun) == INITIAL_IN_FLIGHT + done
    assert begun == list(range(100))


def test_work_that_finishes_at_once_does_not_recurse() -> None:
    begun: list[int] = []

    def begin(i: int) -> None:
        begun.append(i)
        if i < 5000:
            requests.enqueue(partial(begin, i + 1))
        requests.release(None)

    requests = BindRequests(NoRecorder("0"))
    requests.enqueue(partial(begin, 0))
    assert begun == list(range(5001))


def test_the_loop_waits_from_max_waiting_until_resume_waiting() -> None:
    requests = BindRequests(NoRecorder("0"))
    for _ in range(INITIAL_IN_FLIGHT + MAX_WAITING - 1):
        requests.enqueue(lambda: None)
    assert requests.wait_for_capacity(0.0), "there is room for one more"
    requests.enqueue(lambda: None)
    assert not requests.wait_for_capacity(0.0)
    for _ in range(MAX_WAITING - RESUME_WAITING - 1):
        requests.release(None)
    assert requests.wait_for_capacity(0.0), "a caller that has not waited finds room"


def test_a_waiting_caller_wakes_when_few_items_wait() -> None:
    requests = BindRequests(NoRecorder("0"))
    for _ in range(INITIAL_IN_FLIGHT + MAX_WAITING):
        requests.enqueue(lambda: None)
    has_room: list[bool] = []
    waiter = threading.Thread(target=lambda: has_room.append(requests.wait_for_capacity(60.0)))
    waiter.start()
    while not requests._has_room._cond._waiters:  # type: ignore[attr-defined]  # until it sleeps
        pass
    for _ in range(MAX_WAITING - RESUME_WAITING):
        assert waiter.is_alive()
        requests.release(None)
    waiter.join(10)
    assert has_room == [True]


def test_closing_drops_what_waits_and_waits_for_what_is_in_flight() -> None:
    begun: list[int] = []
    requests = BindRequests(NoRecorder("0"))
    for i in range(INITIAL_IN_FLIGHT + 1):
        requests.enqueue(partial(begun.append, i))
    closing = threading.Thread(target=requests.close, args=(60.0,))
    closing.start()
    while not requests._closed:
        pass
    for _ in range(INITIAL_IN_FLIGHT):
        assert closing.is_alive()
        requests.release(0.001)
    closing.join(10)
    assert not closing.is_alive()
    assert begun == list(range(INITIAL_IN_FLIGHT))
