"""The virtual machine: processes and threads on virtual time, of which a seed decides which one runs next.

Owns: virtual time, which thread runs, waiting, killing and freezing processes. Does not own: what threads do
(`standard_library` gives them locks, queues and files, `network` connections).

A process names the points that it reaches, such as a request that it sends. At such a point a `Failpoint` may kill or
freeze it. The coverage of a run is made of these points.

A thread is a greenlet. It runs until it waits, and time passes only while every thread waits, so computing takes no
time. A thread of a process that is `preemptible` may also lose its turn where it takes a lock or writes to a file, for
a moment or for some milliseconds.

Invariant: equal seeds give equal sequences of steps.
"""

from __future__ import annotations

import heapq
import os
import random
import traceback
from collections.abc import Callable
from typing import Final

import greenlet

START_S: Final = 1_767_600_000.0  # the wall clock at the start: Monday, 5 January 2026, 08:00 UTC
YIELD_SHARE: Final = 0.05  # of the places where a thread may lose its turn
DELAY_SHARE: Final = 0.2  # of these: those after which it runs again later
_close_file: Final = os.close  # the real one
DELAYS_S: Final = (0.0001, 0.001, 0.001, 0.005, 0.02, 0.3)  # the last as a garbage collection or a busy processor


class MachineError(Exception):
    """The simulation itself failed, such as by a deadlock of all threads."""


class Waiters:
    """The threads that wait for one thing, in the order of their arrival."""

    __slots__ = ("_threads",)

    def __init__(self) -> None:
        self._threads: dict[VirtualThread, None] = {}

    def add(self, thread: VirtualThread) -> None:
        self._threads[thread] = None

    def discard(self, thread: VirtualThread) -> None:
        self._threads.pop(thread, None)

    def wake(self, count: int | None = None) -> None:
        """Make the first `count` waiting threads ready, or all."""
        for thread in list(self._threads)[:count]:
            del self._threads[thread]
            thread.machine.make_ready(thread, woken=True)


class VirtualThread:
    """A thread of a virtual process. `step` counts its waits, so that a timer of an earlier wait has no effect."""

    __slots__ = ("ended", "greenlet", "machine", "name", "number", "process", "step", "waiting_for", "woken")

    def __init__(
        self, machine: VirtualMachine, process: VirtualProcess, name: str, target: Callable[[], object]
    ) -> None:
        self.machine, self.process, self.name = machine, process, name
        self.number = machine.next_number()
        self.step = 0
        self.woken = False
        self.ended = False
        self.waiting_for: Waiters | None = None
        self.greenlet = greenlet.greenlet(lambda: machine.run_thread(self, target), machine.hub)


class Host:
    """The machine that processes share: its disk and its wall clock."""

    def __init__(self) -> None:
        self.disk_is_full = False
        self.freed_bytes = 0  # of a full disk
        self.disk_is_stalled = False
        self.disk_waiters = Waiters()
        self.clock_offset_s = 0.0  # by which its wall clock is ahead

    def resume_disk(self) -> None:
        """End a stall of the disk: the writes that wait go on."""
        self.disk_is_stalled = False
        self.disk_waiters.wake()

    def take_freed_bytes(self, size: int) -> bool:
        """Use room that a full disk has since a file was truncated. Return False, and use none, if it is too little."""
        has_room = self.freed_bytes >= size
        self.freed_bytes -= size if has_room else 0
        return has_room


class Failpoint:
    """Calls `action` once, at the point that a process reaches for the `passes`-th time.

    `is_wanted` returns whether a process and the name of its point count.
    """

    def __init__(
        self, is_wanted: Callable[[VirtualProcess, str], bool], passes: int, action: Callable[[VirtualProcess], None]
    ) -> None:
        self._is_wanted, self._left, self._action = is_wanted, passes, action
        self.is_triggered = False
        self.triggered = Waiters()

    def try_trigger(self, process: VirtualProcess, point: str) -> bool:
        """Count a point, call the action if it is the last one to wait for, and return whether that is so."""
        if not self._is_wanted(process, point):
            return False
        self._left -= 1
        if self._left:
            return False
        self.is_triggered = True
        self._action(process)
        self.triggered.wake()
        return True


class VirtualProcess:
    """A process: its threads, files and log. `exit_code` is None while it runs, and negative after a signal.

    `on_exit` is called once after the end. `held` has the threads that would run if the process were not frozen.
    """

    def __init__(
        self, machine: VirtualMachine, name: str, *, host: Host | None = None, preemptible: bool = False
    ) -> None:
        self.machine, self.name, self.preemptible = machine, name, preemptible
        self.host = host or Host()
        self.number = machine.next_number()
        self.exit_code: int | None = None
        self.files: set[int] = set()
        self.log: list[str] = []
        self.log_times: list[float] = []  # monotonic seconds of each piece of the log
        self.signal_handlers: dict[int, Callable[[int, object], object]] = {}
        self.standard_input_ended = False
        self.ended = Waiters()
        self.input_waiters = Waiters()
        self.on_exit: list[Callable[[], object]] = []
        self.frozen = False
        self.held: list[VirtualThread] = []
        self.thawed_s = float("-inf")  # when it last continued

    def __repr__(self) -> str:
        return self.name

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def start(self, name: str, target: Callable[[], object]) -> VirtualThread:
        """Start a thread."""
        thread = VirtualThread(self.machine, self, name, target)
        self.machine.make_ready(thread)
        return thread

    def start_main(self, target: Callable[[], int]) -> None:
        """Start the main thread, with whose return value the process ends."""
        self.start("main", lambda: self.end(target()))

    def end(self, code: int) -> None:
        """End the process: no thread of it runs again, and its files are closed."""
        if self.exit_code is not None:
            return
        self.exit_code = code
        self.held.clear()
        for file in sorted(self.files):  # which releases the locks on them
            _close_file(file)
        self.files.clear()
        for action in self.on_exit:
            action()
        self.ended.wake()

    def kill(self) -> None:
        """End the process as SIGKILL does, wherever its threads are."""
        self.end(-9)

    def output(self) -> str:
        """Return everything that the process wrote to its log."""
        return "".join(self.log)

    def freeze(self) -> None:
        """Stop all threads, as SIGSTOP does."""
        self.frozen = True

    def thaw(self) -> None:
        """Continue after `freeze`."""
        self.frozen = False
        self.thawed_s = self.machine.now
        held, self.held = self.held, []
        for thread in held:
            self.machine.make_ready(thread, woken=thread.woken)

    def close_standard_input(self) -> None:
        """End the standard input, for which a child process waits to notice its parent's end."""
        self.standard_input_ended = True
        self.input_waiters.wake()


class VirtualMachine:
    """All processes of one run, and the virtual clock. `now` is in monotonic seconds."""

    def __init__(self, seed: str, start_s: float = START_S) -> None:
        self.now = 0.0
        self.start_s = start_s  # the wall clock when `now` is 0
        self.steps = 0
        self.hub = greenlet.getcurrent()
        self.current: VirtualThread | None = None
        self.failures: list[str] = []  # of threads, with their traceback
        self.on_point: Callable[[VirtualProcess, str], None] = lambda process, point: None
        self.failpoints: list[Failpoint] = []
        self._draw = random.Random(f"steps of {seed}")
        self._ready: list[VirtualThread] = []
        self._timers: list[tuple[float, int, VirtualThread, int]] = []
        self._numbers = 0

    def next_number(self) -> int:
        """Return a number that is higher than every earlier one."""
        self._numbers += 1
        return self._numbers

    def make_ready(self, thread: VirtualThread, *, woken: bool = False) -> None:
        """Let a thread run in one of the next steps, unless its process has ended or is frozen."""
        process = thread.process
        if process.exit_code is not None:
            return
        thread.woken = woken
        thread.step += 1
        if process.frozen:
            process.held.append(thread)
        else:
            self._ready.append(thread)

    def run(self, until: Callable[[], bool]) -> None:
        """Run threads until `until`, which is evaluated after each step, returns True."""
        ready, timers, draw = self._ready, self._timers, self._draw
        while not until():
            if not ready:
                self._advance(timers)
                continue
            index = int(draw.random() * len(ready)) if len(ready) > 1 else 0
            thread = ready[index]
            ready[index] = ready[-1]
            ready.pop()
            process = thread.process
            if process.exit_code is not None or thread.ended:
                continue
            if process.frozen:
                process.held.append(thread)
                continue
            self.steps += 1
            self.current = thread
            thread.greenlet.switch()
            self.current = None

    def _advance(self, timers: list[tuple[float, int, VirtualThread, int]]) -> None:
        """Advance the clock to the next timer, and make the threads ready whose wait ends then."""
        if not timers:
            raise MachineError("every thread waits for ever")
        self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            _, _, thread, step = heapq.heappop(timers)
            if thread.step == step and not thread.ended:
                if thread.waiting_for is not None:
                    thread.waiting_for.discard(thread)
                self.make_ready(thread)

    def wait(self, waiters: Waiters | None, timeout_s: float | None = None) -> bool:
        """Suspend the current thread until `waiters` wakes it (return True) or the timeout is over (return False)."""
        thread = self.current
        if thread is None:
            raise MachineError("a wait outside of every thread")
        if timeout_s is not None:
            self._numbers += 1
            heapq.heappush(self._timers, (self.now + max(timeout_s, 0.0), self._numbers, thread, thread.step))
        thread.waiting_for = waiters
        if waiters is not None:
            waiters.add(thread)
        self.hub.switch()
        thread.waiting_for = None
        return thread.woken

    def sleep(self, seconds: float) -> None:
        """Suspend the current thread for some seconds."""
        self.wait(None, seconds)

    def reach(self, process: VirtualProcess, point: str) -> None:
        """Note that a process reaches a point, and trigger the failpoints there.

        If the current thread's process is killed or frozen by that, the thread stops here.
        """
        self.on_point(process, point)
        if self.failpoints:
            self.failpoints = [failpoint for failpoint in self.failpoints if not failpoint.try_trigger(process, point)]
        thread = self.current
        if thread is not None and (thread.process.frozen or not thread.process.running):
            self.wait(None, 0.0)

    def reseed(self, seed: str) -> None:
        """Let another seed decide from now on."""
        self._draw.seed(f"steps of {seed}")

    def maybe_yield(self) -> None:
        """Let other threads run before the current one goes on, if its process is preemptible and the seed says so."""
        thread = self.current
        if thread is None or not thread.process.preemptible or self._draw.random() >= YIELD_SHARE:
            return
        self.wait(None, self._draw.choice(DELAYS_S) if self._draw.random() < DELAY_SHARE else 0.0)

    def run_thread(self, thread: VirtualThread, target: Callable[[], object]) -> None:
        """Run a thread's function, and note an exception that leaves it."""
        try:
            target()
        except SystemExit as e:
            if thread.name == "main":
                thread.process.end(e.code if isinstance(e.code, int) else 1)
        except greenlet.GreenletExit:
            raise
        except BaseException:
            self.failures.append(f"{thread.process.name}, thread {thread.name}:\n{traceback.format_exc()}")
            if thread.name == "main":
                thread.process.end(1)
        thread.ended = True


_machine: VirtualMachine | None = None


def activate(machine: VirtualMachine | None) -> None:
    """Let the replaced standard library use this machine; None restores real time."""
    global _machine
    _machine = machine


def get_machine() -> VirtualMachine | None:
    """Return the active machine, or None outside of a run."""
    return _machine


def current_process() -> VirtualProcess | None:
    """Return the process of the running thread, or None outside of every thread."""
    machine = _machine
    return None if machine is None or machine.current is None else machine.current.process


def require_machine() -> VirtualMachine:
    """Return the active machine."""
    assert _machine is not None, "no simulation runs"
    return _machine
