"""The budget of one question: rows, processor time and time, after which it ends with an error.

Limits of a route count decisions or nodes. What they cost follows from what senders have stored, so the work itself is
counted, where every read passes: each statement and each batch of fetched rows checks the budget of the thread's
request. SQLite asks while a statement runs. PostgreSQL's statement is cancelled by a thread.

Owns: the limits, counting, ending statements. Does not own: the HTTP answer (`errors`), the turns of readers
(`reader_limits`).

Invariant: after the client has left, no statement of its request runs for more than POLL_S, and none begins.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

POLL_S: Final = 0.1  # between two looks at the statements that run
CHECKED_ROWS: Final = 64  # fetched between two checks: a row may hold a blob that takes a millisecond to decode
SQLITE_STEPS: Final = 20_000  # of SQLite's virtual machine between two checks: about a millisecond
IDLE_S: Final = 60.0  # after which the thread ends; the next statement starts another one


class QuestionEndedError(Exception):
    """A question has ended without an answer, before all of its reads were done."""


class BudgetExceededError(QuestionEndedError):
    """A question has used up its budget. The message says which limit, and how to narrow the question."""


class QuestionAbandonedError(QuestionEndedError):
    """The client of a question has disconnected, so nobody waits for the answer."""


@dataclass(frozen=True)
class ReadLimits:
    """The most rows, seconds of processor time and seconds that one question may use."""

    rows: float = 500_000  # a balance of 1,000 decisions of 5,000 nodes reads 300,000 rows of node tables at most
    processor_s: float = 20.0  # the largest sample of a balance at 5,000 nodes takes 4 to 20 ms a decision
    time_s: float = 30.0  # after which the plugin gives up


UNLIMITED: Final = ReadLimits(math.inf, math.inf, math.inf)


class ReadBudget:
    """What one question has used, in the thread that answers it, and whether its client still waits."""

    def __init__(self, limits: ReadLimits, client_left: threading.Event | None = None, reader: str = "") -> None:
        """Start a budget for the current thread.

        `client_left` is set when the client has disconnected. `reader` names who asks, see `reader_limits`.
        """
        self.client_left, self.reader = client_left or threading.Event(), reader
        self._limits = limits
        self._rows = 0
        self._processor_ends_s = time.thread_time() + limits.processor_s
        self._ends_s = time.monotonic() + limits.time_s

    def check(self) -> None:
        """Raise QuestionAbandonedError if the client has left, and BudgetExceededError if a limit is exceeded."""
        if self.client_left.is_set():
            raise QuestionAbandonedError("the client has left")
        limits = self._limits
        if self._rows > limits.rows:
            raise _exceeded(f"{limits.rows:.0f} rows were read")
        if time.thread_time() > self._processor_ends_s:
            raise _exceeded(f"{limits.processor_s:g} s of processor time were used")
        if time.monotonic() > self._ends_s:
            raise _exceeded(f"it took {limits.time_s:g} s")

    def count(self, rows: int) -> None:
        """Add a number of fetched rows, and call `check` whenever the sum passes a multiple of CHECKED_ROWS."""
        before = self._rows
        self._rows += rows
        if before // CHECKED_ROWS != self._rows // CHECKED_ROWS:
            self.check()

    @property
    def should_interrupt(self) -> bool:
        """Whether another thread should end the statement: the client has left, or the time is up."""
        return self.client_left.is_set() or time.monotonic() > self._ends_s


def _exceeded(limit: str) -> BudgetExceededError:
    narrow = "name a namespace, a pod, a later `since` or a smaller `limit`"
    return BudgetExceededError(f"the question was ended because {limit}, which is the most for one; {narrow}")


_current: ContextVar[ReadBudget | None] = ContextVar("budget", default=None)


def set_budget(budget: ReadBudget | None) -> None:
    """Make all later reads of the current thread count against this budget; None means that they do not count."""
    _current.set(budget)


def current_budget() -> ReadBudget | None:
    """Return the budget of the current thread's question, or None outside of a question."""
    return _current.get()


def check_budget() -> None:
    """Call `check` of the current thread's budget, if it has one. Raises the errors of `ReadBudget.check`."""
    budget = _current.get()
    if budget is not None:
        budget.check()


class CountedFetches:
    """A mixin for a cursor class of a database driver, whose fetched rows count against the budget."""

    def fetchone(self) -> Any:
        """Return the next row, and count it."""
        row = super().fetchone()  # type: ignore[misc]
        budget = _current.get()
        if budget is not None and row is not None:
            budget.count(1)
        return row

    def fetchmany(self, *size: Any, **sized: Any) -> Any:
        """Return the next rows, as many as the driver's `fetchmany` returns for the same arguments, and count them."""
        return _counted(super().fetchmany(*size, **sized))  # type: ignore[misc]

    def fetchall(self) -> Any:
        """Return all rows that are left, and count them."""
        return _counted(super().fetchall())  # type: ignore[misc]


def _counted(rows: Any) -> Any:
    budget = _current.get()
    if budget is not None:
        budget.count(len(rows))
    return rows


def enforce_budget(engine: sa.Engine, interrupt: Callable[[Any], None] | None = None) -> None:
    """Make an engine check the budget before each statement, and raise the budget's error for an interrupted statement.

    `interrupt` ends the statement that a connection of the driver executes; a thread calls it when the client has left
    or the time is up. Without it the driver checks the budget itself. A connection that was interrupted is closed,
    because the interruption may arrive when its next statement runs.
    """

    def before(*, cursor: Any, context: Any, **_: Any) -> None:
        check_budget()
        budget = _current.get()
        if budget is not None and interrupt is not None:
            context.running = _watch.add(budget, lambda: interrupt(cursor.connection))

    def after(*, context: Any, **_: Any) -> None:
        running = getattr(context, "running", None)
        if running is not None:
            running.remove()

    def failed(context: sa.engine.ExceptionContext) -> None:
        running = getattr(context.execution_context, "running", None)
        if running is not None and running.remove() and context.connection is not None:
            context.connection.invalidate()
        check_budget()

    sa.event.listen(engine, "before_cursor_execute", before, named=True)
    sa.event.listen(engine, "after_cursor_execute", after, named=True)
    sa.event.listen(engine, "handle_error", failed)


@contextmanager
def interrupting(budget: ReadBudget | None, interrupt: Callable[[], None]) -> Iterator[None]:
    """Context manager during which another thread calls `interrupt`, repeatedly, if `budget` says so.

    It does so once the client has left or the time is up, and never if `budget` is None.
    """
    running = _watch.add(budget, interrupt) if budget is not None else None
    try:
        yield
    finally:
        if running is not None:
            running.remove()


class _Running:
    """Work that a thread interrupts when its budget says so."""

    def __init__(self, watch: _Watch, budget: ReadBudget, interrupt: Callable[[], None]) -> None:
        self._watch = watch
        self._budget = budget
        self._interrupt = interrupt
        self._lock = threading.Lock()  # held during an interruption, which must not reach the work that follows
        self._is_interrupted = False

    def look(self) -> None:
        """Call `interrupt` if the client has left or the time is up, again at each call until the work ends."""
        with self._lock:
            if self._budget.should_interrupt and self in self._watch.running:
                self._is_interrupted = True
                self._interrupt()

    def remove(self) -> bool:
        """End the checks of this work, and return whether it was interrupted."""
        with self._lock:
            self._watch.running.discard(self)
            return self._is_interrupted


class _Watch:
    """The thread that looks at all running work every POLL_S. It ends IDLE_S after the last."""

    def __init__(self) -> None:
        self.running: set[_Running] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._has_work = threading.Event()

    def add(self, budget: ReadBudget, interrupt: Callable[[], None]) -> _Running:
        """Start to check `budget` every POLL_S, and return the work, whose `remove` ends the checks.

        `interrupt` is called when the client has left or the time is up.
        """
        running = _Running(self, budget, interrupt)
        with self._lock:
            self.running.add(running)
            if self._thread is None or not self._thread.is_alive():  # it does not survive a fork
                self._thread = threading.Thread(target=self._run, name="read-budget", daemon=True)
                self._thread.start()
        self._has_work.set()
        return running

    def _run(self) -> None:
        while True:
            for running in tuple(self.running):
                running.look()
            if self.running:
                time.sleep(POLL_S)
                continue
            self._has_work.clear()
            if not self.running and not self._has_work.wait(IDLE_S):
                with self._lock:
                    if not self.running:
                        self._thread = None
                        return


_watch: Final = _Watch()
