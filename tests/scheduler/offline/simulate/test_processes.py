"""Tasks run in parallel processes, of which none is left at the end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from scheduler.offline.simulate.processes import ProcessEndedError, Share, count_processors, run_parallel
from tests.processes import ROOT, eventually

FOREVER_S = 600.0


def ignore(_share: float) -> None:
    """Show no progress."""


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_results_are_in_the_order_of_the_tasks_and_each_is_run_once(processes: int) -> None:
    def run(task: int, _share: Share) -> tuple[int, bool]:
        time.sleep(0.05 * (3 - task))
        return task, os.getpid() == here

    here = os.getpid()
    assert run_parallel(run, range(4), processes, ignore) == [(task, processes == 1) for task in range(4)]
    assert run_parallel(run, [], processes, ignore) == []


def test_at_most_so_many_processes_run_at_once() -> None:
    counter = multiprocessing.get_context("fork").Value("i", 0)

    def run(_task: int, _share: Share) -> int:
        with counter.get_lock():
            counter.value += 1
            present = counter.value
        time.sleep(0.05)
        with counter.get_lock():
            counter.value -= 1
        return int(present)

    assert max(run_parallel(run, range(6), 2, ignore)) <= 2


def test_progress_is_that_of_all_tasks() -> None:
    def run(task: int, share: Share) -> None:
        while not released.is_set():
            share(0.5)

    released, shares = multiprocessing.get_context("fork").Event(), list[float]()

    def report(share: float) -> None:
        shares.append(share)
        if share == 0.5:
            released.set()

    run_parallel(run, range(2), 2, report)
    assert shares == sorted(shares)
    assert (shares[0], 0.5 in shares, shares[-1]) == (0.25, True, 1.0)


def raise_error() -> None:
    raise ValueError("of this task")


def raise_unsendable() -> None:
    class LocalError(Exception):
        """An error whose class no other process can find."""

    raise LocalError("of a class")


def end_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("fail", "error", "message"),
    [
        (raise_error, ValueError, "^of this task"),
        (raise_unsendable, RuntimeError, "cannot be sent"),
        (end_process, ProcessEndedError, "exit code -9"),
    ],
)
def test_an_error_of_a_task_ends_the_others_and_is_raised(
    fail: Callable[[], None], error: type[Exception], message: str
) -> None:
    def run(task: int, _share: Share) -> None:
        if task == 1:
            fail()
        time.sleep(FOREVER_S)

    began = time.monotonic()
    with pytest.raises(error, match=message):
        run_parallel(run, range(4), 3, ignore)
    assert time.monotonic() - began < FOREVER_S / 10
    assert multiprocessing.active_children() == []


PROGRAM = r"""
import os, sys, time
from scheduler.offline.simulate.processes import run_parallel

def run(task, share):
    os.write(1, b"%d\n" % os.getpid())  # at once: three processes write
    while True:
        share(0.5)
        time.sleep(0.01)

run_parallel(run, range(3), 3, lambda share: None)
"""


@pytest.mark.parametrize("way", ["Ctrl-C", "SIGKILL"])
def test_the_processes_end_with_the_one_that_started_them(way: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with program, ExitStack() as ends:
        ends.callback(program.kill)  # a failure must not leave it, nor wait for it
        assert program.stdout is not None
        assert program.stderr is not None
        children = [int(program.stdout.readline()) for _ in range(3)]
        if way == "Ctrl-C":  # a terminal sends it to all processes of the group
            os.killpg(program.pid, signal.SIGINT)
        else:
            program.kill()
        eventually(lambda: not any(map(is_running, children)), "the processes end")
        assert program.stderr.read().count("Traceback") == (1 if way == "Ctrl-C" else 0)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_number_of_processors_is_at_least_one() -> None:
    assert 1 <= count_processors() <= (os.cpu_count() or 1)
