"""Runs independent tasks in parallel processes, because Python's threads share one processor.

    figures = run_parallel(measure, range(10), processes=4, report=print)

Owns: the processes, their progress and results, their end. Does not own: what a task computes.

Each task has a process of its own, a fork of this one: it has the trace and the configurations without copying them,
plugins outside the tree included. Only its result is sent.

Invariant: when `run_parallel` returns or raises, none of its processes is left. If this process is killed, they end at
their next report.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, TypeVar, cast

Task = TypeVar("Task")
Result = TypeVar("Result")
Share = Callable[[float], None]

_EVERY_S: Final = 0.1


class ProcessEndedError(Exception):
    """A process ended without a result. The message says how: memory may be short, for example."""


def count_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_parallel(
    run: Callable[[Task, Share], Result],
    tasks: Sequence[Task],
    processes: int,
    report: Share,
    keep: Callable[[Task, Result], None] = lambda task, result: None,
) -> list[Result]:
    """Return `run(task, share)` for each task, computed in at most `processes` processes, 0 for one per processor.

    A task calls `share` with how much of it is done, 0 to 1, and `report` gets that of all tasks. `keep` gets each
    result, in this process, as soon as its task ends. With one process the tasks run in this one. An error of a task
    ends the others and is raised. Raises ProcessEndedError.
    """
    shares = [0.0] * len(tasks)
    finished: dict[int, Result] = {}

    def report_share(number: int, share: float) -> None:
        shares[number] = share
        report(sum(shares) / len(tasks))

    def finish(number: int, result: Result) -> None:
        keep(tasks[number], result)
        finished[number] = result
        report_share(number, 1.0)

    processes = min(processes or count_processors(), len(tasks))
    if processes <= 1:
        for number, task in enumerate(tasks):
            finish(number, run(task, partial(report_share, number)))
        return [*finished.values()]
    _run_in_processes(run, tasks, processes, report_share, finish)
    return [finished[number] for number in range(len(tasks))]


def _run_in_processes(
    run: Callable[[Task, Share], Result],
    tasks: Sequence[Task],
    processes: int,
    report_share: Callable[[int, float], None],
    finish: Callable[[int, Result], None],
) -> None:
    """Run the tasks in so many processes. The functions get the number of a task with its progress or its result."""
    running: dict[Connection, tuple[int, BaseProcess]] = {}
    waiting = iter(range(len(tasks)))
    try:
        while True:
            for number in islice(waiting, processes - len(running)):
                with _sigint_blocked():  # until the child ignores it: the terminal sends Ctrl-C to every process
                    receiver, process = _start(run, tasks[number])
                    running[receiver] = number, process
            if not running:
                return
            for receiver in cast(list[Connection], wait([*running])):
                number, process = running[receiver]
                kind, value = _receive(receiver, process)
                if kind == "share":
                    report_share(number, value)
                    continue
                if kind == "error":
                    raise value
                del running[receiver]
                receiver.close()
                process.join()
                finish(number, value)
    finally:
        for _, process in running.values():
            process.kill()
        for receiver, (_, process) in running.items():
            process.join()
            receiver.close()


def _start(run: Callable[[Task, Share], Any], task: Task) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_task, args=(run, task, sender, os.getpid()), daemon=True)
    process.start()
    sender.close()
    return receiver, process


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _receive(receiver: Connection, process: BaseProcess) -> tuple[str, Any]:
    """Return the next message of a process: its share, its result, or its error."""
    try:
        message: tuple[str, Any] = receiver.recv()
    except EOFError:
        process.join()
        raise ProcessEndedError(f"a process ended with exit code {process.exitcode} and without a result") from None
    return message


def _run_task(run: Callable[[Task, Share], Any], task: Task, sender: Connection, parent: int) -> None:
    """Run a task in its process, and send its progress and its result or error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sent_s = time.monotonic()

    def share(done: float) -> None:
        nonlocal sent_s
        if time.monotonic() - sent_s < _EVERY_S:
            return
        sent_s = time.monotonic()
        if os.getppid() != parent:
            os._exit(1)
        sender.send(("share", done))

    try:
        message = "result", run(task, share)
    except Exception as e:
        e.add_note(traceback.format_exc())
        message = "error", e
    try:
        sender.send(message)
    except Exception as e:  # of pickle: raised by whatever class a plugin has
        sender.send(("error", RuntimeError(f"{message[1]!r} cannot be sent: {e}")))
