"""Trials on a copy of the loop: the answer comes, the loop's own state stays, and no child is left whatever happens."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest

from scheduler.reviews import forked_copies as copies
from scheduler.reviews.forked_copies import ForkedCopies, ForkedCopyError, RefusedQuestionError
from tests.scheduler.builders import make_node, make_pod
from tests.support.scheduling_loop import LoopWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LoopWorld]:
    made = LoopWorld(tmp_path / "spool")
    made.start(make_node("n").allocatable(cpu="4", pods="9"))
    made.settle()
    yield made
    made.loop.binder.close()


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each forked child is added."""
    made, fork = list[int](), os.fork

    def recorded() -> int:
        child = fork()
        made.extend([child] if child else [])
        return child

    monkeypatch.setattr(os, "fork", recorded)
    return made


def run(world: LoopWorld, trial: Callable[[], bytes], deadline_s: float = 20.0) -> bytes:
    """Return the trial's answer, while the loop runs."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ForkedCopies(world.loop).run, lambda _: trial(), deadline_s)
        while not answer.done():
            world.loop.step(0.005)
        return answer.result()


def test_a_trial_changes_the_copy_and_nothing_else(world: LoopWorld) -> None:
    columns = world.loop.cache.columns

    def trial() -> bytes:
        columns.add_pod(make_pod("p").request(cpu="3").info(), "n")
        return f"{os.getpid()} {columns.requested('cpu')[0]}".encode()

    child, requested = run(world, trial).decode().split()
    assert (int(child) != os.getpid(), requested) == (True, "3000")
    assert world.requested == {"n": 0}


def test_the_copy_has_the_present_state(world: LoopWorld) -> None:
    columns = world.loop.cache.columns
    world.node("ADDED", make_node("m").allocatable(cpu="4", pods="9"))
    assert run(world, lambda: ",".join(columns.index).encode()) == b"n,m"


def test_an_answer_may_be_larger_than_a_pipe(world: LoopWorld) -> None:
    assert run(world, lambda: b"x" * (1 << 22)) == b"x" * (1 << 22)


def test_the_copy_has_nothing_open_but_its_answer(world: LoopWorld, tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        opened = int(run(world, lambda: str(len(os.listdir("/proc/self/fd"))).encode()))
        assert os.fstat(file.fileno())
    assert opened == 5, "standard input, output and error, the answer, and the folder that is listed"


def broken() -> bytes:
    raise ValueError("of mine")


def gone() -> bytes:
    os._exit(3)


def endless() -> bytes:
    time.sleep(60)
    return b""


def crashed() -> bytes:
    os.kill(os.getpid(), signal.SIGSEGV)
    return b""


def killed() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


@pytest.mark.parametrize(
    ("trial", "deadline_s", "says"),
    [
        (broken, 20.0, "the review failed: ValueError: of mine"),
        (gone, 20.0, "ended without an answer"),
        (endless, 0.1, "not over in time"),
        (crashed, 20.0, "was ended by SIGSEGV"),
        (killed, 20.0, "was ended by SIGKILL: the container or the machine has too little memory"),
    ],
)
def test_failed_dry_run_is_an_error_and_its_process_has_ended(
    world: LoopWorld, forked: list[int], trial: Callable[[], bytes], deadline_s: float, says: str
) -> None:
    with pytest.raises(ForkedCopyError, match=says):
        run(world, trial, deadline_s)
    (child,) = forked
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)
    assert world.loop.step(0.0) is False, "the loop goes on"


def many_small() -> bytes:
    return str(len([f"name {number}" for number in range(100_000_000)])).encode()


def one_array() -> bytes:
    return np.ones((3, 10_000, 5_000)).tobytes()


def one_document() -> bytes:
    return str(len(msgspec.json.decode(b"[" + b"{}," * 8_000_000 + b"{}]"))).encode()


def deep() -> bytes:
    return deep()


def busy() -> bytes:
    while True:
        pass


@pytest.mark.parametrize(
    ("trial", "deadline_s", "says"),
    [
        (many_small, 60.0, "needs more than 256 MiB beside the cluster's state"),
        (one_array, 60.0, "needs more than 256 MiB beside the cluster's state"),
        (one_document, 60.0, "needs more than 256 MiB beside the cluster's state"),
        (deep, 20.0, "nested too deeply"),
    ],
)
def test_a_question_beyond_the_limits_ends_only_the_copy(
    world: LoopWorld, trial: Callable[[], bytes], deadline_s: float, says: str
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RefusedQuestionError, match=says):
        run(world, trial, deadline_s)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10, "KiB"
    assert run(world, lambda: b"the next answer") == b"the next answer"


def test_processor_time_is_limited(world: LoopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = copies._limit_resources
    monkeypatch.setattr(copies, "_limit_resources", lambda _deadline_s: limit(1.0))
    with pytest.raises(RefusedQuestionError, match="more processor time than a review may use"):
        run(world, busy, 60.0)


def test_forks_take_a_bounded_share_of_the_loop(world: LoopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    fork, starts = os.fork, list[float]()

    def slow() -> int:
        starts.append(time.monotonic())
        time.sleep(0.02)
        return fork()

    monkeypatch.setattr(os, "fork", slow)
    forked = ForkedCopies(world.loop)
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(forked.run, lambda _: b"", 20.0) for _ in range(3)]
        world.until(lambda: all(answer.done() for answer in answers))
    assert min(b - a for a, b in itertools.pairwise(starts)) >= 0.4, "20 ms of the loop in 0.4 s"


def test_an_answer_is_bounded(world: LoopWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MAX_ANSWER_BYTES", 1 << 10)
    with pytest.raises(RefusedQuestionError, match="ask about fewer pods"):
        run(world, lambda: b"x" * (1 << 22))


def test_a_loop_that_has_not_seen_the_cluster_is_not_copied(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path / "spool")
    with pytest.raises(ForkedCopyError, match="the whole cluster has not been listed yet"):
        run(world, lambda: b"")
    world.loop.binder.close()


def test_a_loop_that_does_not_answer_is_not_waited_for(
    world: LoopWorld, forked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "START_S", 0.01)
    with pytest.raises(ForkedCopyError, match="too busy to copy its state"):
        ForkedCopies(world.loop).run(lambda _: b"", 1.0)
    world.settle()
    assert forked == [], "what it was asked meanwhile is not done any more"
