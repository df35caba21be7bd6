"""A copy of the loop's whole state to try something on, made by fork between two cycles.

Owns: the child process: its start, its deadline, its answer, its end. Does not own: what is tried, the loop.

Why a fork: the copy is whole (nodes, pods, volumes, nominations, what plugins keep) without a line that copies, the
loop is held for as long as the kernel takes to copy page tables, the trial runs on another core without our
interpreter's lock, and it can be ended whatever it does. The child has one thread, so it must wait for nobody: a cycle
waits for nothing but extenders, which are connected anew. A lock that another thread held at the fork stays held there;
whoever needs it is ended by the deadline.

Invariant: whatever happens in the child, the loop goes on; no child outlives its deadline, and each is waited for. The
child writes to its pipe and, where it has to complain, to the log; it has no other file of ours open.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import select
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from pathlib import Path
from typing import Final, NoReturn

from scheduler import klog
from scheduler.loop import Asked, Loop

LOOP_S: Final = 10.0  # the loop answers between two cycles
MAX_ANSWER_BYTES: Final = 64 << 20  # a hundred records of 5,000 nodes are a tenth of it
_DONE, _FAILED = b"+", b"-"
_PIECE: Final = 1 << 20
_FIRST_FILE: Final = 3  # behind standard error
_NICER: Final = 5  # pods that wait go before questions, which get a quarter of a busy processor


class CopyError(Exception):
    """There is no answer: the loop is not ready, the trial failed or was not over in time. One line that says why."""


class Copies:
    """Tries things on copies of one loop's state."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def run(self, trial: Callable[[], bytes], deadline_s: float) -> bytes:
        """What `trial` returns, run in a copy of now. CopyError. For any thread but the loop's."""
        ours, theirs = os.pipe()
        try:
            started: Future[int] = Future()
            self._loop.inbox.put(Asked(lambda: self._start(started, trial, theirs, deadline_s)))
            try:
                child = started.result(LOOP_S)
            except NotInTimeError:
                if not started.cancel():  # it is being started this moment
                    child = started.result()
                else:
                    raise CopyError("the scheduling loop does not answer") from None
            finally:
                os.close(theirs)
            return _answer(child, ours, time.monotonic() + deadline_s)
        finally:
            os.close(ours)

    def _start(self, started: Future[int], trial: Callable[[], bytes], theirs: int, deadline_s: float) -> None:
        """In the loop's thread."""
        if not started.set_running_or_notify_cancel():
            return
        if not self._loop.synced:
            started.set_exception(CopyError("the scheduler has not seen the whole cluster yet"))
            return
        try:
            child = os.fork()
        except OSError as e:
            started.set_exception(CopyError(f"the state cannot be copied: {e.strerror}"))
            return
        if not child:
            _child(trial, theirs, deadline_s)
        started.set_result(child)


def _child(trial: Callable[[], bytes], theirs: int, deadline_s: float) -> NoReturn:
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(math.ceil(deadline_s) + 1)  # should whoever waits for us be gone
        gc.disable()  # it would touch, and so copy, every object there is
        _only_open(theirs)
        _go_first()
        klog.set_verbosity(-1)
        try:
            answer = _DONE + trial()
        except Exception as e:
            answer = _FAILED + f"{type(e).__name__}: {e}".encode()
        left = memoryview(answer)
        while left:
            left = left[os.write(theirs, left) :]
        code = 0
    finally:
        os._exit(code)  # nothing of the parent's is flushed, said good-bye to or cleaned up


def _only_open(file: int) -> None:
    """Connections and locks are the parent's: it must be able to give them up."""
    os.closerange(_FIRST_FILE, file)
    os.closerange(file + 1, os.sysconf("SC_OPEN_MAX"))


def _go_first() -> None:
    """Where memory or processor time is short, the scheduler has it."""
    os.nice(_NICER)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _answer(child: int, ours: int, until: float) -> bytes:
    """What the child writes before it ends."""
    try:
        written = _read(ours, until)
    except CopyError:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.waitpid(child, 0)
    if written[:1] == _FAILED:
        raise CopyError(f"the review failed: {written[1:].decode('utf-8', 'replace')}")
    if written[:1] != _DONE:
        raise CopyError("the review ended without an answer")
    return written[1:]


def _read(ours: int, until: float) -> bytes:
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
        if size > MAX_ANSWER_BYTES:
            raise CopyError("the answer is too large")
    raise CopyError("the review was not over in time")
