"""A copy of a process's whole state of the cluster, made by fork between two steps of the thread that changes it.

Owns: the child process, its start, its deadline, its result and its end. Does not own: the function that runs in it,
the thread (the scheduling loop, or the observer).

Why a fork: the copy is complete (nodes, pods, volumes, nominations, state of plugins) without code that copies, and
the thread pauses only while the kernel copies page tables. The child runs on another core without this interpreter's
lock and can be killed at any time. It has one thread, so it must not wait for another: a cycle waits only for
extenders, which are connected anew. A lock that another thread held at the fork stays locked in the child; the deadline
ends a child that needs it.

What the child does follows what a reader wrote, so its memory and its processor time are limited by the kernel. A child
that reaches a limit ends, and the reason is the answer.

Invariant: the thread continues regardless of what happens in the child, no child outlives its deadline, and each child
is reaped. The child writes only to its pipe and to the log; every other file of the parent is closed. Forks take at
most FORK_SHARE of the thread's time.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import resource
import select
import signal
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from pathlib import Path
from typing import Final, NoReturn, Protocol

from herodotus_record import klog
from scheduler.engine.progress import ProgressReport, ignore_progress

START_S: Final = 10.0  # the thread runs a task between two of its steps
MAX_ANSWER_BYTES: Final = 16 << 20  # compressed; ten times a hundred records of 5,000 nodes
MAX_MEMORY_BYTES: Final = 256 << 20  # of a child beside what the process had at the fork
FORK_SHARE: Final = 0.05  # a fork that takes 20 ms of the thread is followed by none for 0.4 s
_DONE, _FAILED, _REFUSED, _PROGRESS = b"+", b"-", b"!", b"="
_COUNTS: Final = struct.Struct("!III")
_REPORT_EVERY_S: Final = 0.5
_PIECE: Final = 1 << 20
_FIRST_FILE: Final = 3  # after standard error
_NICER: Final = 5  # pending pods come first; a review gets a quarter of a busy processor


class ForkedCopyError(Exception):
    """A function gave no result in a forked copy: it failed or missed its deadline, or the thread was not ready."""


class StateThread(Protocol):
    """The one thread of a process that changes the process's state of the cluster."""

    @property
    def synced(self) -> bool:
        """Whether every watched kind was listed at least once."""
        ...

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task`, which must not raise, in this thread between two of its steps. Return at once."""
        ...


class RefusedQuestionError(Exception):
    """A question that no retry can answer: it is invalid, or it needs more than a copy may use."""


Trial = Callable[[ProgressReport], bytes]


class ForkedCopies:
    """Runs functions in forked child processes, each of which has a copy of the state of the cluster."""

    def __init__(self, thread: StateThread) -> None:
        self._thread = thread
        self._starting = threading.Lock()
        self._next_start_s = 0.0  # monotonic

    def run(self, trial: Trial, deadline_s: float, on_progress: ProgressReport = ignore_progress) -> bytes:
        """Run `trial` in a forked child process with a copy of the present state, and return its result.

        `on_progress` receives what the trial reports, at most every half second; if it raises an exception, the child
        is killed. Raise RefusedQuestionError if the trial raises it or needs more than a copy
        may use, and ForkedCopyError if it fails otherwise or takes longer than `deadline_s` seconds. The thread that
        changes the state must not call this.
        """
        ours, theirs = os.pipe()
        try:
            try:
                child = self._start_child(trial, theirs, deadline_s)
            finally:
                os.close(theirs)
            return _answer(child, ours, time.monotonic() + deadline_s, on_progress)
        finally:
            os.close(ours)

    def _start_child(self, trial: Trial, theirs: int, deadline_s: float) -> int:
        """Wait until the next fork may be made, let the state's thread make it, and return the child's process ID.

        Raise ForkedCopyError if that thread is too busy, has not listed the cluster yet, or cannot fork.
        """
        started: Future[int] = Future()
        with self._starting:
            time.sleep(max(0.0, self._next_start_s - time.monotonic()))
            self._thread.submit(lambda: self._start(started, trial, theirs, deadline_s))
            try:
                return started.result(START_S)
            except NotInTimeError:
                if not started.cancel():  # it is being started this moment
                    return started.result()
                raise ForkedCopyError("the process is too busy to copy its state") from None

    def _start(self, started: Future[int], trial: Trial, theirs: int, deadline_s: float) -> None:
        """Fork the child in the state's thread and set the result of `started` to its process ID.

        The child runs `trial` and writes its result to the pipe `theirs`.
        """
        if not started.set_running_or_notify_cancel():
            return
        if not self._thread.synced:
            started.set_exception(ForkedCopyError("the whole cluster has not been listed yet"))
            return
        began_s = time.monotonic()
        try:
            child = os.fork()
        except OSError as e:
            started.set_exception(ForkedCopyError(f"the state cannot be copied: {e.strerror}"))
            return
        if not child:
            _child(trial, theirs, deadline_s)
        now_s = time.monotonic()
        self._next_start_s = now_s + (now_s - began_s) / FORK_SHARE
        started.set_result(child)


def _child(trial: Trial, theirs: int, deadline_s: float) -> NoReturn:
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(math.ceil(deadline_s) + 1)  # ends the child even when the waiting thread is gone
        gc.disable()  # it would touch, and so copy, every object there is
        _only_open(theirs)
        _lower_priority()
        klog.set_verbosity(-1)
        _limit_resources(deadline_s)
        _write_all(theirs, *_run_trial(trial, _Reporter(theirs)))
        code = 0
    finally:
        os._exit(code)  # no exit handler or buffer of the parent runs here


def _run_trial(trial: Trial, report: ProgressReport) -> tuple[bytes, bytes]:
    """Run a trial, and return _DONE with its answer, _REFUSED with the reason, or _FAILED with the error as text."""
    try:
        answer = trial(report)
        if len(answer) <= MAX_ANSWER_BYTES:
            return _DONE, answer
        message = f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB: ask about fewer pods"
    except RefusedQuestionError as e:
        message = str(e)
    except MemoryError:
        _raise_soft_limit(resource.RLIMIT_DATA)  # the message needs some memory, and nothing follows
        message = f"the question needs more than {MAX_MEMORY_BYTES >> 20} MiB beside the cluster's state"
    except RecursionError:
        message = "the question is nested too deeply"
    except Exception as e:
        return _FAILED, f"{type(e).__name__}: {e}".encode("utf-8", "replace")
    return _REFUSED, message.encode("utf-8", "replace")


def _write_all(file: int, *parts: bytes) -> None:
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(file, left) :]


def _limit_resources(deadline_s: float) -> None:
    """Limit the memory that this process may add to MAX_MEMORY_BYTES, and its processor time to the deadline.

    RLIMIT_DATA counts all private writable memory. RLIMIT_AS would also count addresses that an
    allocator reserves without using them.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    _lower_soft_limit(resource.RLIMIT_DATA, pages * resource.getpagesize() + MAX_MEMORY_BYTES)
    _lower_soft_limit(resource.RLIMIT_CPU, math.ceil(deadline_s))
    _lower_soft_limit(resource.RLIMIT_CORE, 0)


def _lower_soft_limit(which: int, limit: int) -> None:
    soft, hard = resource.getrlimit(which)
    if soft == resource.RLIM_INFINITY or limit < soft:
        resource.setrlimit(which, (limit, hard))


def _raise_soft_limit(which: int) -> None:
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (hard, hard))


class _Reporter:
    """Writes the progress of a trial to the child's pipe, seldom enough that the pipe cannot fill."""

    def __init__(self, theirs: int) -> None:
        self._pipe, self._last_s = theirs, 0.0

    def __call__(self, done: int, total: int, smallest: int = 0, /) -> None:
        now = time.monotonic()
        if now - self._last_s >= _REPORT_EVERY_S:
            self._last_s = now
            os.write(self._pipe, _PROGRESS + _COUNTS.pack(done, total, smallest))


def _only_open(file: int) -> None:
    """Close all files but `file` and the standard streams, so that the parent can release its connections and locks."""
    os.closerange(_FIRST_FILE, file)
    os.closerange(file + 1, os.sysconf("SC_OPEN_MAX"))


def _lower_priority() -> None:
    """Lower this process' priority for processor time, and let the kernel kill it first if memory runs out."""
    os.nice(_NICER)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _answer(child: int, ours: int, until: float, on_progress: ProgressReport) -> bytes:
    """Wait for the child's end and return the result that it wrote to the pipe `ours`.

    Pass the progress that the child reports meanwhile to `on_progress`. Kill the child at the time `until` (monotonic
    seconds). Raise RefusedQuestionError or ForkedCopyError if there is no result.
    """
    try:
        written = _read(ours, until, on_progress)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    outcome, content = written[:1], written[1:]
    if outcome == _DONE and not status:
        return content
    message = content.decode("utf-8", "replace")
    if outcome == _REFUSED:
        raise RefusedQuestionError(message)
    if outcome == _FAILED:
        raise ForkedCopyError(f"the review failed: {message}")
    if os.WIFSIGNALED(status):
        _raise_for_signal(os.WTERMSIG(status))
    raise ForkedCopyError("the review ended without an answer")


def _raise_for_signal(number: int) -> NoReturn:
    """Raise the error for a child that a signal of another origin ended: its limits, the kernel or an operator."""
    name = signal.Signals(number).name
    if number == signal.SIGXCPU:
        raise RefusedQuestionError("the question needs more processor time than a review may use")
    if number == signal.SIGKILL:  # the kernel ends these children first: _lower_priority
        raise ForkedCopyError(f"the review was ended by {name}: the container or the machine has too little memory")
    raise ForkedCopyError(f"the review was ended by {name}")


def _read(ours: int, until: float, on_progress: ProgressReport) -> bytes:
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    pieces: list[bytes] = []
    size = 0
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        piece = os.read(ours, _PIECE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        while len(pieces) == 1 and pieces[0][:1] == _PROGRESS and len(pieces[0]) > _COUNTS.size:
            on_progress(*_COUNTS.unpack_from(pieces[0], 1))
            size -= 1 + _COUNTS.size
            pieces = [rest] if (rest := pieces[0][1 + _COUNTS.size :]) else []
        if size > MAX_ANSWER_BYTES:
            raise RefusedQuestionError("the answer is too large: ask about fewer pods")
    raise ForkedCopyError("the review was not over in time")
