"""Clusters take turns at the store: who is next, who is refused, and when they should come back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from herodotus_endpoint.access import ingest_limits
from herodotus_endpoint.access.ingest_limits import MAX_WAITING, MIN_COST, FairIngestQueue, QueueFullError
from tests.processes import eventually
from tests.support.clock import Clock

SIZE = MIN_COST


def _wait(check: Callable[[], bool]) -> None:
    eventually(check, "the queue", every_s=0.001)


class Queue:
    """Turns with one batch in progress, whose order of begin is in `begun`; refusals are in `refused`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.fair = FairIngestQueue(1, clock or Clock(0.0))
        self.begun: list[str] = []
        self.refused: dict[str, float] = {}
        self._ended = 0
        self._may_end = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def send(self, name: str, size: int = SIZE) -> None:
        """Send a batch; the cluster is the first letter of its name. Return when it waits, has begun or is refused."""
        before = self._seen()
        thread = threading.Thread(target=self._take, args=(name, size))
        self._threads.append(thread)
        thread.start()
        _wait(lambda: self._seen() > before)

    def end(self, batches: int = 1) -> None:
        """End batches in progress, each after it has begun, and wait until the next one has."""
        for _ in range(batches):
            ended, decided, waiting = self._ended, self._decided(), self.fair.waiting
            self._may_end.release()
            _wait(lambda: self._ended > ended and (not waiting or self._decided() > decided))  # noqa: B023

    def close(self) -> None:
        self._may_end.release(1000)
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _seen(self) -> int:
        return self._decided() + self.fair.waiting

    def _decided(self) -> int:
        return len(self.begun) + len(self.refused)

    def _take(self, name: str, size: int) -> None:
        try:
            with self.fair.admit(name[0], size):
                with self._lock:
                    self.begun.append(name)
                self._may_end.acquire()
            self._ended += 1
        except QueueFullError as e:
            with self._lock:
                self.refused[name] = e.after_s


@contextmanager
def queue(clock: Clock | None = None) -> Iterator[Queue]:
    found = Queue(clock)
    try:
        yield found
    finally:
        found.close()


def test_clusters_take_turns_and_batches_of_one_stay_in_order() -> None:
    with queue() as q:
        for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
            q.send(name)
        q.end(7)
    assert q.begun == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_a_modest_cluster_waits_only_for_the_batch_in_progress() -> None:
    with queue() as q:
        for number in range(1, 6):
            q.send(f"noisy{number}")
        q.end(2)
        q.send("modest")
        q.end()
        assert q.begun[-1] == "modest"
        assert q.fair.waiting == 2


def test_turns_are_by_bytes() -> None:
    with queue() as q:
        for name in ("a1", "a2"):
            q.send(name, 3 * SIZE)
        for name in ("b1", "b2", "b3", "b4"):
            q.send(name)
        q.end(6)
    assert q.begun == ["a1", "b1", "b2", "b3", "a2", "b4"]


def test_a_cluster_gets_no_credit_for_having_been_idle() -> None:
    with queue() as q:
        for number in range(1, 4):
            q.send(f"a{number}")
            q.end()
        q.send("x")
        for name in ("a4", "b1", "b2", "b3"):
            q.send(name)
        q.end(5)
    assert q.begun[3:] == ["x", "b1", "a4", "b2", "b3"]


def fill(q: Queue, batches: int) -> None:
    q.send("z0")
    for number in range(1, batches + 1):
        q.send(f"z{number}")


def test_a_full_queue_refuses_the_last_batch_in_the_order_and_not_the_latest() -> None:
    with queue() as q:
        fill(q, MAX_WAITING)
        q.send("a1")
        _wait(lambda: bool(q.refused))
        assert [*q.refused] == [f"z{MAX_WAITING}"]
        q.end()
        assert q.begun[-1] == "a1"


def test_a_refused_cluster_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while other clusters are stored; without its place it would start behind them each time."""
    monkeypatch.setattr(ingest_limits, "MAX_WAITING", 1)
    clock = Clock(0.0)
    with queue(clock) as q:
        for name in ("x", "b1", "c1"):
            q.send(name)
        assert [*q.refused] == ["c1"]
        q.end()  # b1 is in progress
        q.send("b2")
        q.end()
        q.send("b3")
        q.send("c1 again")
        _wait(lambda: "b3" in q.refused)
        q.end()
        assert q.begun == ["x", "b1", "b2", "c1 again"]


@pytest.mark.parametrize(
    ("after_s", "next_one"),
    [(ingest_limits.KEEP_S - 1.0, "c1 again"), (ingest_limits.KEEP_S, "b2")],
    ids=["kept", "late"],
)
def test_a_kept_place_expires(monkeypatch: pytest.MonkeyPatch, after_s: float, next_one: str) -> None:
    monkeypatch.setattr(ingest_limits, "MAX_WAITING", 2)
    clock = Clock(0.0)
    with queue(clock) as q:
        for name in ("x1", "b1", "d1", "c1"):
            q.send(name)
        assert [*q.refused] == ["c1"]
        clock.now_s += after_s
        q.end(2)
        q.send("x2")
        q.end()
        assert q.begun == ["x1", "b1", "d1", "x2"]
        q.send("b2")
        q.send("c1 again")
        q.end()
        assert q.begun[-1] == next_one


def test_the_queue_is_as_long_as_what_is_stored_within_the_longest_wait() -> None:
    clock = Clock(0.0)
    with queue(clock) as q:
        fill(q, 40)
        for _ in range(30):  # turns of two seconds
            clock.now_s += 2.0
            q.end()
        for number in range(20):
            q.send(f"{chr(97 + number)}1")
        _wait(lambda: len(q.refused) >= 15)
        assert q.fair.waiting <= 6
        assert set(q.refused.values()) <= {float(s) for s in range(2, 31)}
        assert max(q.refused.values()) > min(q.refused.values()), "who is later in the order comes back later"


def test_a_refused_cluster_comes_back_after_those_that_were_refused_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_limits, "MAX_WAITING", 1)
    monkeypatch.setattr(ingest_limits, "_FIRST_INTERVAL_S", 5.0)
    with queue(Clock(0.0)) as q:
        for name in ("x1", "b1", "c1", "d1"):
            q.send(name)
        assert q.refused == {"c1": 8.0, "d1": 13.0}


def test_bytes_of_waiting_batches_are_bounded() -> None:
    with queue() as q:
        q.send("x1")
        for number in range(4):
            q.send(f"{chr(97 + number)}1", 16 << 20)
        assert q.fair.waiting == 3
        assert len(q.refused) == 1


def test_a_batch_waits_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_limits, "MAX_WAIT_S", 0.2)
    with queue() as q:
        q.send("a1")
        q.send("b1")
        _wait(lambda: "b1" in q.refused)
        assert q.fair.waiting == 0
        q.send("c1")
        q.end()
        assert q.begun == ["a1", "c1"]


def test_a_failed_batch_ends_its_turn() -> None:
    fair = FairIngestQueue(1)
    for _ in range(3):
        with pytest.raises(RuntimeError), fair.admit("a", 1):
            raise RuntimeError
    with fair.admit("b", 1):
        assert fair.waiting == 0


def test_saturated_clusters_get_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve clusters, one of them with six senders, where three batches may wait: most are refused each time."""
    monkeypatch.setattr(ingest_limits, "MAX_WAITING", 3)
    fair, stored, stopped = FairIngestQueue(2), Counter[str](), threading.Event()
    store, count = threading.Lock(), threading.Lock()

    def send(cluster: str) -> None:
        while not stopped.is_set():
            try:
                with fair.admit(cluster, SIZE), store:
                    stopped.wait(0.005)
                with count:
                    stored[cluster] += 1
            except QueueFullError as e:
                stopped.wait(e.after_s * 0.02)  # scaled as the turns are

    senders: list[Any] = [threading.Thread(target=send, args=(f"c{n}",)) for n in range(11)]
    senders += [threading.Thread(target=send, args=("noisy",)) for _ in range(6)]
    for thread in senders:
        thread.start()
    _wait(lambda: stored.total() >= 12 * 25)
    stopped.set()
    for thread in senders:
        thread.join(30)
    shares = stored.values()
    assert len(shares) == 12
    assert min(shares) / max(shares) > 0.5, stored
