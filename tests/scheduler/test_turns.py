"""Turns: work begins in order, as many at once as the server takes without letting them wait for each other."""

from __future__ import annotations

import threading

import pytest

from scheduler.turns import AHEAD, AT_FIRST, BEHIND, FEWEST, MEMORY_S, MOST, Pace, Turns


class Server:
    """Answers after `way_s`, and after `each_s` more for each that is under way before it."""

    def __init__(self, way_s: float, each_s: float) -> None:
        self.now = 0.0
        self.pace = Pace(lambda: self.now)
        self.way_s = way_s
        self.each_s = each_s

    def serve(self, rounds: int) -> int:
        """Every round fills the turns; now and then one finds the server idle, as requests do. The turns there are."""
        for _ in range(rounds):
            self.now += self.way_s
            durations = [self.way_s + self.each_s * i for i in range(self.pace.turns)]
            for duration_s in durations:
                self.pace.answered(duration_s)
        return self.pace.turns


@pytest.mark.parametrize(
    ("way_s", "each_s", "turns"),
    [
        pytest.param(0.1, 0.0, MOST, id="far away, and idle: all there are"),
        pytest.param(0.1, 0.0001, MOST, id="far away, and hardly busy"),
        pytest.param(0.002, 0.003, range(FEWEST, AT_FIRST + 3), id="near, and busy: few"),
        pytest.param(
            0.0001, 0.01, range(FEWEST, AT_FIRST + 1), id="near, and overwhelmed: never fewer than the fewest"
        ),
        pytest.param(0.0, 0.0, MOST, id="answers in no time that a clock shows"),
    ],
)
def test_the_turns_follow_what_waits_in_the_server(way_s: float, each_s: float, turns: int | range) -> None:
    found = Server(way_s, each_s).serve(200)
    assert found in (turns if isinstance(turns, range) else [turns])


def test_a_way_that_became_longer_is_learnt() -> None:
    """The shortest duration is forgotten: what moved away is not taken for busy for ever."""
    server = Server(0.001, 0.0)
    server.serve(100)
    server.way_s = 0.1
    assert server.serve(int(MEMORY_S / 0.1 / 2)) < MOST
    assert server.serve(int(3 * MEMORY_S / 0.1)) == MOST


def test_work_begins_in_its_order_and_as_many_at_once_as_there_are_turns() -> None:
    begun: list[int] = []
    turns = Turns(begun.append)
    for i in range(100):
        turns.put(i)
    assert begun == list(range(AT_FIRST))
    for done in range(1, 100 - AT_FIRST + 1):
        turns.leave(None)
        assert len(begun) == AT_FIRST + done
    assert begun == list(range(100))


def test_work_that_is_over_while_it_begins_is_no_recursion() -> None:
    begun: list[int] = []

    def begin(i: int) -> None:
        begun.append(i)
        if i < 5000:
            turns.put(i + 1)
        turns.leave(None)

    turns = Turns(begin)
    turns.put(0)
    assert begun == list(range(5001))


def test_who_decides_waits_while_much_work_waits_and_until_little_does() -> None:
    turns = Turns[int](lambda _: None)
    for i in range(AT_FIRST + AHEAD - 1):
        turns.put(i)
    assert not turns.crowded(0.0), "there is room for one more"
    turns.put(-1)
    assert turns.crowded(0.0)
    for _ in range(AHEAD - BEHIND - 1):
        turns.leave(None)
    assert not turns.crowded(0.0), "it is not crowded any more, for one who has not waited"


def test_who_waits_is_woken_when_little_work_waits() -> None:
    turns = Turns[int](lambda _: None)
    for i in range(AT_FIRST + AHEAD):
        turns.put(i)
    found: list[bool] = []
    waiter = threading.Thread(target=lambda: found.append(turns.crowded(60.0)))
    waiter.start()
    while not turns._room._cond._waiters:  # type: ignore[attr-defined]  # until it sleeps
        pass
    for _ in range(AHEAD - BEHIND):
        assert waiter.is_alive()
        turns.leave(None)
    waiter.join(10)
    assert found == [False]


def test_closing_drops_what_waits_and_waits_for_what_is_under_way() -> None:
    begun: list[int] = []
    turns = Turns(begun.append)
    for i in range(AT_FIRST + 1):
        turns.put(i)
    closing = threading.Thread(target=turns.close, args=(60.0,))
    closing.start()
    while not turns._closed:
        pass
    for _ in range(AT_FIRST):
        assert closing.is_alive()
        turns.leave(0.001)
    closing.join(10)
    assert not closing.is_alive()
    assert begun == list(range(AT_FIRST))
