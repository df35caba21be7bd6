"""Runs independent tasks in parallel processes, because Python's threads share one processor.

    figures = run_parallel(measure, count=10, processes=4, report=print)

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
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, TypeVar, cast

Result = TypeVar("Result")
Share = Callable[[float], None]

_EVERY_S: Final = 0.1


class ProcessEndedError(Exception):
    """A process ended without a result. The message says how: memory may be short, for example."""


def count_processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_parallel(run: Callable[[int, Share], Result], count: int, processes: int, report: Share) -> list[Result]:
    """Return `run(i, share)` for each i below `count`, computed in at most so many processes at once.

    A task calls `share` with how much of it is done, 0 to 1, and `report` gets that of all tasks. With one process the
    tasks run in this one. An error of a task ends the others and is raised. Raises ProcessEndedError.
    """
    shares = [0.0] * count

    def report_share(task: int, share: float) -> None:
        shares[task] = share
        report(sum(shares) / count)

    if min(processes, count) <= 1:
        results = []
        for each in range(count):
            results.append(run(each, partial(report_share, each)))
            report_share(each, 1.0)
        return results
    finished: dict[int, Result] = {}
    running: dict[Connection, tuple[int, BaseProcess]] = {}
    waiting = iter(range(count))
    try:
        while len(finished) < count:
            for task in islice(waiting, processes - len(running)):
                with _sigint_blocked():  # until the child ignores it: the terminal sends Ctrl-C to every process
                    receiver, process = _start(run, task)
                    running[receiver] = task, process
            for receiver in cast(list[Connection], wait([*running])):
                task, process = running[receiver]
                kind, value = _receive(receiver, process)
                if kind == "share":
                    report_share(task, value)
                    continue
                if kind == "error":
                    raise value
                finished[task] = value
                del running[receiver]
                receiver.close()
                process.join()
                report_share(task, 1.0)
    finally:
        for _, process in running.values():
            process.kill()
        for receiver, (_, process) in running.items():
            process.join()
            receiver.close()
    return [finished[task] for task in range(count)]


def _start(run: Callable[[int, Share], Any], task: int) -> tuple[Connection, BaseProcess]:
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


def _run_task(run: Callable[[int, Share], Any], task: int, sender: Connection, parent: int) -> None:
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
