"""The standard library of a simulated process: the clock, threads, queues, files, signals and child processes.

`install` replaces functions and classes of the modules time, threading, queue, os, signal, subprocess, uuid and gc. It
must be called before any program is imported, because a program may bind what it imports, for example
`clock: Callable[[], float] = time.monotonic`. Outside of a run the replaced functions do what the real ones do.

Owns: these replacements. Does not own: which thread runs (`machine`), HTTP (`network`).
"""

from __future__ import annotations

import errno
import gc
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

from bench.simulation.machine import (
    VirtualMachine,
    VirtualProcess,
    VirtualThread,
    Waiters,
    current_process,
    get_machine,
    require_machine,
)

HOLDER_CHECK_S: Final = 0.1  # between two looks at whether the process that holds a lock still runs
PROGRAMS: Final = ("scheduler", "herodotus_kube", "herodotus_record", "herodotus_sim", "herodotus_endpoint", "httpx")
real_monotonic: Final = time.monotonic
real_time: Final = time.time
_real: Final = {
    "time": time.time,
    "time_ns": time.time_ns,
    "monotonic": time.monotonic,
    "perf_counter": time.perf_counter,
    "thread_time": time.thread_time,
    "sleep": time.sleep,
}
_os_open: Final = os.open
_os_close: Final = os.close
_os_write: Final = os.write
_os_pwrite: Final = os.pwrite
_os_truncate: Final = os.truncate
_os_statvfs: Final = os.statvfs
_os_read: Final = os.read
_os_getpid: Final = os.getpid
_os_exit: Final = os._exit
_gc_collect: Final = gc.collect
_uuid4: Final = uuid.uuid4
_thread_numbers: Final = count()
_commands: dict[str, Callable[[list[str]], int]] = {}  # the module that `python -m` names, and its main function


def install() -> None:
    """Replace the standard library's functions. Raise RuntimeError if a program was imported before."""
    early = sorted(name for name in sys.modules if name.partition(".")[0] in PROGRAMS)
    if early:
        raise RuntimeError(f"imported before the simulation was installed: {', '.join(early[:3])}")
    sys.stderr = _StandardError(sys.stderr)
    replacements: Mapping[Any, dict[str, Any]] = {
        time: {
            "time": _read_clock("time", _wall_clock),
            "time_ns": _read_clock("time_ns", lambda m: int(_wall_clock(m) * 1e9)),
            "monotonic": _read_clock("monotonic", lambda m: m.now),
            "perf_counter": _read_clock("perf_counter", lambda m: m.now),
            "thread_time": _read_clock("thread_time", lambda m: 0.0),
            "sleep": _sleep,
        },
        threading: {
            "Lock": VirtualLock,
            "RLock": VirtualRLock,
            "Condition": VirtualCondition,
            "Event": VirtualEvent,
            "Semaphore": VirtualSemaphore,
            "BoundedSemaphore": VirtualSemaphore,
            "Thread": VirtualThreadHandle,
            "Timer": VirtualTimer,
        },
        queue: {"SimpleQueue": VirtualSimpleQueue},
        os: {
            "open": _open,
            "close": _close,
            "write": write_file,
            "pwrite": _pwrite,
            "truncate": _truncate,
            "statvfs": _statvfs,
            "read": _read,
            "getpid": _getpid,
            "nice": lambda increment: 0,
            "_exit": _exit,
        },
        signal: {"signal": _signal},
        subprocess: {"Popen": VirtualPopen},
        uuid: {"uuid4": _draw_uuid},
        gc: {"collect": _collect, "freeze": _freeze},
    }
    for module, names in replacements.items():
        for name, value in names.items():
            setattr(module, name, value)


def register_command(module: str, main: Callable[[list[str]], int]) -> None:
    """Let `subprocess.Popen([python, "-m", module, ...])` run `main` with the further arguments."""
    _commands[module] = main


# --- the clock --------------------------------------------------------------------------------------------------------


def _read_clock(name: str, value: Callable[[VirtualMachine], Any]) -> Callable[[], Any]:
    """Return a function that reads the virtual clock in a run, and the real clock of this name outside of one."""
    real: Any = _real[name]

    def read() -> Any:
        machine = get_machine()
        return real() if machine is None else value(machine)

    return read


def _wall_clock(machine: VirtualMachine) -> float:
    """Return the wall clock of the host on which the current process runs."""
    process = current_process()
    return machine.start_s + machine.now + (0.0 if process is None else process.host.clock_offset_s)


def _sleep(seconds: float) -> None:
    machine = get_machine()
    if machine is None:
        _real["sleep"](seconds)  # type: ignore[operator]
    else:
        machine.sleep(seconds)


# --- threads ----------------------------------------------------------------------------------------------------------


class VirtualLock:
    """threading.Lock. Outside of a run nothing competes for it.

    Modules have locks for the whole process, which the simulated processes share. One that is killed while it holds
    such a lock does not keep it from the others.
    """

    __slots__ = ("_holder", "_locked", "_waiters")

    def __init__(self) -> None:
        self._locked = False
        self._holder: VirtualProcess | None = None
        self._waiters = Waiters()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        machine, process = get_machine(), current_process()
        if machine is not None:
            machine.maybe_yield()
        ends = None if machine is None or timeout < 0 else machine.now + timeout
        while self.locked():
            left = None if machine is None or ends is None else ends - machine.now
            if not blocking or (left is not None and left <= 0):
                return False
            if self._holder is not process:  # it may be killed meanwhile
                left = HOLDER_CHECK_S if left is None else min(left, HOLDER_CHECK_S)
            require_machine().wait(self._waiters, left)
        self._locked, self._holder = True, process
        return True

    def release(self) -> None:
        self._locked, self._holder = False, None
        self._waiters.wake(1)

    def locked(self) -> bool:
        return self._locked and (self._holder is None or self._holder.running)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._locked, self._holder = False, None


class VirtualRLock:
    """threading.RLock."""

    __slots__ = ("_count", "_lock", "_owner")

    def __init__(self) -> None:
        self._lock = VirtualLock()
        self._owner: VirtualThread | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        machine = get_machine()
        current = None if machine is None else machine.current
        if self._count and self._owner is current:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = current, 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def release_all(self) -> int:
        """Release the lock however often it was acquired, and return how often that was."""
        count, self._count, self._owner = self._count, 0, None
        self._lock.release()
        return count

    def acquire_again(self, count: int) -> None:
        """Acquire the lock as often as `release_all` returned."""
        self.acquire()
        self._count = count

    def _at_fork_reinit(self) -> None:
        self._count, self._owner = 0, None
        self._lock._at_fork_reinit()


class VirtualCondition:
    """threading.Condition."""

    __slots__ = ("_lock", "_waiters", "acquire", "release")

    def __init__(self, lock: VirtualLock | VirtualRLock | None = None) -> None:
        self._lock = VirtualRLock() if lock is None else lock
        self._waiters = Waiters()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        machine, lock = require_machine(), self._lock
        if isinstance(lock, VirtualRLock):
            count = lock.release_all()
            woken = machine.wait(self._waiters, timeout)
            lock.acquire_again(count)
        else:
            lock.release()
            woken = machine.wait(self._waiters, timeout)
            lock.acquire()
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        ends = None if timeout is None else time.monotonic() + timeout
        while not (result := predicate()):
            left = None if ends is None else ends - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        self._waiters.wake(n)

    def notify_all(self) -> None:
        self._waiters.wake()


class VirtualEvent:
    """threading.Event."""

    __slots__ = ("__weakref__", "_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters = Waiters()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._waiters.wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            require_machine().wait(self._waiters, timeout)
        return self._is_set


class VirtualSemaphore:
    """threading.Semaphore and BoundedSemaphore."""

    __slots__ = ("_value", "_waiters")

    def __init__(self, value: int = 1) -> None:
        self._value = value
        self._waiters = Waiters()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        while not self._value:
            if not blocking or not require_machine().wait(self._waiters, timeout):
                return False
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        self._value += n
        self._waiters.wake(n)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class VirtualThreadHandle:
    """threading.Thread: a thread of the process that starts it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self.name, self.daemon = name or "thread", bool(daemon)
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self._thread: VirtualThread | None = None
        self._ended = Waiters()
        self._is_over = False
        self._number = next(_thread_numbers)

    def __hash__(self) -> int:
        return self._number  # concurrent.futures joins the threads of a set, whose order would depend on addresses

    def start(self) -> None:
        process = current_process()
        assert process is not None, "a thread outside of every process"
        self._thread = process.start(self.name, self._run_and_end)

    def _run_and_end(self) -> None:
        try:
            self.run()
        finally:
            self._is_over = True
            self._ended.wake()

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout: float | None = None) -> None:
        machine = get_machine()
        if machine is not None and self._thread is not None and not self._is_over:
            machine.wait(self._ended, timeout)

    def is_alive(self) -> bool:
        return self._thread is not None and not self._is_over

    @property
    def ident(self) -> int | None:
        return None if self._thread is None else self._thread.number


class VirtualTimer(VirtualThreadHandle):
    """threading.Timer."""

    def __init__(
        self,
        interval: float,
        function: Callable[..., object],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(target=function, name="timer", args=args, kwargs=kwargs)
        self._interval, self._finished = interval, VirtualEvent()

    def cancel(self) -> None:
        self._finished.set()

    def run(self) -> None:
        self._finished.wait(self._interval)
        if not self._finished.is_set():
            super().run()
        self._finished.set()


class VirtualSimpleQueue:
    """queue.SimpleQueue."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiters = Waiters()

    def __class_getitem__(cls, item: object) -> type[Self]:
        return cls

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        self._waiters.wake(1)

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._items and block:
            machine = require_machine()
            ends = None if timeout is None else machine.now + timeout
            while not self._items:
                if not machine.wait(self._waiters, None if ends is None else ends - machine.now):
                    break
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


# --- files ------------------------------------------------------------------------------------------------------------


def _open(*args: Any, **options: Any) -> int:
    """Open a file. It belongs to the process that opens it, with whose end it is closed."""
    file = _os_open(*args, **options)
    process = current_process()
    if process is not None:
        process.files.add(file)
    return file


def _close(file: int) -> None:
    process = current_process()
    if process is not None:
        process.files.discard(file)
    _os_close(file)


def write_file(file: int, data: bytes) -> int:
    """Write to a file in two halves. A process may lose its turn, or its life, before, amid and after its own write.

    A full disk refuses the write, or the second half of it, where a truncated file has left no room.
    """
    process = current_process()
    if process is None or file not in process.files:
        return _os_write(file, data)
    written, half = 0, len(data) // 2
    for part in (data[:half], data[half:]):
        _reach_disk(process, "write")
        if process.host.disk_is_full and not process.host.take_freed_bytes(len(part)):
            if written:
                return written
            raise OSError(errno.ENOSPC, "No space left on device")
        written += _os_write(file, part)
    _reach_disk(process, "written")
    return written


def _pwrite(file: int, data: bytes, offset: int) -> int:
    """Overwrite a part of a file, for which a full disk has room."""
    process = current_process()
    if process is not None:
        _reach_disk(process, "overwrite")
    return _os_pwrite(file, data, offset)


def _truncate(path: str | os.PathLike[str], length: int) -> None:
    """Truncate a file, which gives a full disk room for as much."""
    process = current_process()
    if process is not None and process.host.disk_is_full:
        process.host.freed_bytes += max(os.path.getsize(path) - length, 0)
    _os_truncate(path, length)


def _statvfs(path: str | os.PathLike[str]) -> os.statvfs_result:
    """Return the room of a disk. A full one has what truncated files have freed."""
    process, room = current_process(), _os_statvfs(path)
    if process is None or not process.host.disk_is_full:
        return room
    free = process.host.freed_bytes
    return os.statvfs_result((room.f_bsize, 1, room.f_blocks, free, free, *tuple(room)[5:]))


def _reach_disk(process: VirtualProcess, point: str) -> None:
    """Reach a point of a write, and wait there while the disk is stalled."""
    machine, host = process.machine, process.host
    machine.reach(process, point)
    machine.maybe_yield()
    while host.disk_is_stalled:
        machine.wait(host.disk_waiters)


def _read(file: int, size: int) -> bytes:
    process = current_process()
    if process is None or file != 0:
        return _os_read(file, size)
    while not process.standard_input_ended:
        process.machine.wait(process.input_waiters)
    return b""


class _StandardError:
    """sys.stderr: the log of the process that writes, or the real stream outside of every process."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def write(self, text: str) -> int:
        process = current_process()
        if process is None:
            return int(self._real.write(text))
        process.log.append(text)
        process.log_times.append(process.machine.now)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


# --- processes --------------------------------------------------------------------------------------------------------


def _getpid() -> int:
    process = current_process()
    return _os_getpid() if process is None else process.number


def _exit(code: int) -> None:
    """End the process at once."""
    process = current_process()
    if process is None:
        _os_exit(code)
    else:
        process.end(code)
        process.machine.wait(None)


def _signal(number: int, handler: Any) -> Any:
    """Register the handler of a signal in the process that calls this."""
    process = current_process()
    if process is None:
        return signal.SIG_DFL
    before = process.signal_handlers.get(number, signal.SIG_DFL)
    if callable(handler):
        process.signal_handlers[number] = handler
    return before


def send_signal(process: VirtualProcess, number: int) -> None:
    """Call a process's handler of a signal in a thread of it. Without a handler the process ends."""
    handler = process.signal_handlers.get(number)
    if handler is None:
        process.end(-number)
    else:
        process.start("signal", lambda: handler(number, None))


class _StandardInput:
    """The end of a pipe to a child process that the parent holds."""

    def __init__(self, child: VirtualProcess) -> None:
        self._child = child

    def close(self) -> None:
        self._child.close_standard_input()


class VirtualPopen:
    """subprocess.Popen for `python -m MODULE` of a registered command. The child's input ends with its parent."""

    def __class_getitem__(cls, item: object) -> type[Self]:
        return cls

    def __init__(self, command: list[str], **_: Any) -> None:
        parent = current_process()
        assert parent is not None, "a child without a parent"
        machine, main = parent.machine, _commands[command[2]]
        self.process = VirtualProcess(machine, f"{parent.name}-child", host=parent.host, preemptible=parent.preemptible)
        self.process.start_main(lambda: main(command[3:]))
        self.stdin = _StandardInput(self.process)
        self.pid = self.process.number
        parent.on_exit.append(self.process.close_standard_input)
        children.append(self.process)

    def poll(self) -> int | None:
        return self.process.exit_code

    def wait(self, timeout: float | None = None) -> int:
        while self.process.exit_code is None:
            if not self.process.machine.wait(self.process.ended, timeout) and timeout is not None:
                raise subprocess.TimeoutExpired("child", timeout)
        return self.process.exit_code

    def kill(self) -> None:
        self.process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | TracebackType | None) -> None:
        self.wait()


children: list[VirtualProcess] = []  # every child process of the run


# --- the rest ---------------------------------------------------------------------------------------------------------


def _draw_uuid() -> uuid.UUID:
    """Return a UUID that the seed of `random` determines."""
    return _uuid4() if get_machine() is None else uuid.UUID(int=random.getrandbits(128), version=4)


def _collect(*args: int) -> int:
    """Collect garbage only outside of a run: a process that starts does so, and the run has many."""
    return _gc_collect(*args) if get_machine() is None else 0


def _freeze() -> None:
    """Do nothing: what is garbage later must stay collectable."""
