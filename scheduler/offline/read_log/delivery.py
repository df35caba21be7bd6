"""Delivers the records of a log to the decisions service, through a spool and the scheduler's shipper.

Invariant: no record is dropped: a log can wait, so reading waits where scheduling would not. Records that were not
delivered when the process ends are read from the log again, with the same keys.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final

from herodotus_record import codec, klog
from scheduler.offline.read_log.nodes import LogNodeTable
from scheduler.offline.read_log.reader import AttemptFrames
from scheduler.recorder.shipper import NotDeliveredError, Shipper
from scheduler.recorder.spool import Spool

AHEAD: Final = 500  # attempts that are read before they are delivered: a batch or two
PATIENCE_S: Final = 60.0  # how long a service may be away before reading a file ends with an error
PAUSE_S: Final = 2.0


class Delivery:
    """Delivers the records of a log, in order, through a temporary spool. Use it as a context manager."""

    def __init__(
        self,
        nodes: LogNodeTable,
        shipper: Callable[[Path], Shipper],
        patience_s: float = PATIENCE_S,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Store the settings; entering the context creates the spool.

        `shipper` returns a shipper for a spool directory. `nodes` is the reader's node table, which starts each spool
        segment. Delivery fails when the service was away for `patience_s` seconds. `sleep` returns a true value to end
        waiting early.
        """
        self._nodes = nodes
        self._shipper_of = shipper
        self._patience_s = patience_s
        self._sleep = sleep
        self._ahead = 0
        self._stack = ExitStack()

    def __enter__(self) -> Delivery:
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="herodotus-read-log-")))
        self._spool = Spool(directory, "log")
        self._stack.callback(self._spool.close)
        self._shipper = self._shipper_of(directory)
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.deliver()
        finally:
            self._stack.close()

    def put(self, read: AttemptFrames) -> None:
        """Write the records of one attempt to the spool, and deliver the spool once AHEAD attempts wait in it.

        Raise NotDeliveredError as `deliver` does.
        """
        frames = codec.encode(read.decision) + (codec.encode(read.outcome) if read.outcome else b"")
        if self._spool.needs_rotation:
            key = read.decision.key
            self._spool.rotate(codec.encode(self._nodes.table(key.cluster, key.incarnation)))
        elif read.rows is not None:
            self._spool.append(codec.encode(read.rows))
        self._spool.append(frames)
        self._ahead += 1
        if self._ahead >= AHEAD:
            self.deliver()

    def deliver(self) -> None:
        """Deliver everything in the spool; while the decisions service does not accept it, wait and try again.

        Raise NotDeliveredError after `patience_s` seconds, or when `sleep` returns a true value.
        """
        waited_s = 0.0
        while self._ahead:
            try:
                while self._shipper.deliver_pending():
                    pass
                self._ahead = 0
            except NotDeliveredError as e:
                if waited_s >= self._patience_s:
                    raise
                klog.error(e, "Decisions are not taken yet, trying again")
                pause_s = max(PAUSE_S, e.after_s)
                if self._sleep(pause_s):
                    raise
                waited_s += pause_s

    @property
    def refused(self) -> int:
        """The number of frames (encoded records) that the decisions service has refused for good."""
        return self._shipper.progress.refused
