"""Trials on a copy of the loop: the answer comes, the loop's own state stays, and no child is left whatever happens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scheduler.reviews import forked_copies as copies
from scheduler.reviews.forked_copies import ForkedCopies, ForkedCopyError
from tests.scheduler.builders import make_node, make_pod
from tests.scheduler.live.test_loop import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "spool")
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


def run(world: World, trial: Callable[[], bytes], deadline_s: float = 20.0) -> bytes:
    """Return the trial's answer, while the loop runs."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ForkedCopies(world.loop).run, lambda _: trial(), deadline_s)
        while not answer.done():
            world.loop.step(0.005)
        return answer.result()


def test_a_trial_changes_the_copy_and_nothing_else(world: World) -> None:
    columns = world.loop.cache.columns

    def trial() -> bytes:
        columns.add_pod(make_pod("p").request(cpu="3").info(), "n")
        return f"{os.getpid()} {columns.requested('cpu')[0]}".encode()

    child, requested = run(world, trial).decode().split()
    assert (int(child) != os.getpid(), requested) == (True, "3000")
    assert world.requested == {"n": 0}


def test_the_copy_has_the_present_state(world: World) -> None:
    columns = world.loop.cache.columns
    world.node("ADDED", make_node("m").allocatable(cpu="4", pods="9"))
    assert run(world, lambda: ",".join(columns.index).encode()) == b"n,m"


def test_an_answer_may_be_larger_than_a_pipe(world: World) -> None:
    assert run(world, lambda: b"x" * (1 << 22)) == b"x" * (1 << 22)


def test_the_copy_has_nothing_open_but_its_answer(world: World, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("trial", "deadline_s", "says"),
    [
        (broken, 20.0, "the review failed: ValueError: of mine"),
        (gone, 20.0, "ended without an answer"),
        (endless, 0.1, "not over in time"),
    ],
)
def test_failed_dry_run_is_an_error_and_its_process_has_ended(
    world: World, forked: list[int], trial: Callable[[], bytes], deadline_s: float, says: str
) -> None:
    with pytest.raises(ForkedCopyError, match=says):
        run(world, trial, deadline_s)
    (child,) = forked
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)
    assert world.loop.step(0.0) is False, "the loop goes on"


def test_an_answer_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MAX_ANSWER_BYTES", 1 << 10)
    with pytest.raises(ForkedCopyError, match="too large"):
        run(world, lambda: b"x" * (1 << 22))


def test_a_loop_that_has_not_seen_the_cluster_is_not_copied(tmp_path: Path) -> None:
    world = World(tmp_path / "spool")
    with pytest.raises(ForkedCopyError, match="the whole cluster has not been listed yet"):
        run(world, lambda: b"")
    world.loop.binder.close()


def test_a_loop_that_does_not_answer_is_not_waited_for(
    world: World, forked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "START_S", 0.01)
    with pytest.raises(ForkedCopyError, match="too busy to copy its state"):
        ForkedCopies(world.loop).run(lambda _: b"", 1.0)
    world.settle()
    assert forked == [], "what it was asked meanwhile is not done any more"
