"""Time limits of database connections in use, enforced by this process.

A server that is stopped, or that waits for a synchronous standby which never answers, keeps its TCP connections alive
and never answers a statement. PostgreSQL's own timeouts do not end such a wait: the server does not run, or it has
committed already and must not say so. Closing the connection ends it. The transaction then counts as failed, although
the server may have committed it; a sender repeats it, and the store recognizes what it has.

Owns: which connections have a limit, and closing those that exceed it. Does not own: the limits (`postgresql`).

Invariant: a connection is closed by shutting down its socket, which wakes the thread that waits for it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry

PING_TIMEOUT_S: Final = 5.0  # a pooled connection that does not answer by then is replaced
IDLE_S: Final = 60.0  # after which the thread ends; the next limit starts another one

_log: Final = logging.getLogger(__name__)


class ConnectionWatchdog:
    """Shuts down connections that are in use for longer than their limit. Thread-safe.

    It has a thread only while connections have limits, and for IDLE_S seconds afterwards.
    """

    def __init__(self) -> None:
        self._deadlines: dict[ConnectionPoolEntry, float] = {}  # monotonic seconds
        self._changed = threading.Condition()
        self._wakes_at = float("inf")  # when the thread looks again
        self._thread: threading.Thread | None = None

    def watch(self, engine: sa.Engine, limit_s: float | None) -> None:
        """Make an engine test each pooled connection before use, and limit how long a connection is in use.

        A connection that does not answer the test within PING_TIMEOUT_S seconds is replaced by a new one. If `limit_s`
        is None, only the test has a limit.
        """

        def checked_out(dbapi_connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:
            if entry.info.setdefault("used", False):  # a new connection needs no test
                self._set(entry, PING_TIMEOUT_S)
                try:
                    engine.dialect.do_ping(dbapi_connection)
                except engine.dialect.loaded_dbapi.Error as e:
                    raise sa.exc.InvalidatePoolError(str(e)) from e  # the pool connects again
                finally:
                    self._clear(entry)
            entry.info["used"] = True
            if limit_s is not None:
                self._set(entry, limit_s)

        def checked_in(_dbapi_connection: Any, entry: ConnectionPoolEntry) -> None:
            self._clear(entry)

        sa.event.listen(engine, "checkout", checked_out)
        sa.event.listen(engine, "checkin", checked_in)

    def _set(self, entry: ConnectionPoolEntry, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        with self._changed:
            self._deadlines[entry] = deadline
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="connection-watchdog", daemon=True)
                self._thread.start()
            elif deadline < self._wakes_at:
                self._changed.notify()

    def _clear(self, entry: ConnectionPoolEntry) -> None:
        with self._changed:
            self._deadlines.pop(entry, None)

    def _run(self) -> None:
        with self._changed:
            idle_since = time.monotonic()
            while True:
                now = time.monotonic()
                for entry in [entry for entry, deadline in self._deadlines.items() if deadline <= now]:
                    del self._deadlines[entry]
                    _shut_down(entry)
                if self._deadlines:
                    idle_since = now
                elif now - idle_since >= IDLE_S:
                    self._thread = None
                    return
                self._wakes_at = min(self._deadlines.values(), default=now + IDLE_S)
                self._changed.wait(self._wakes_at - now)


def _shut_down(entry: ConnectionPoolEntry) -> None:
    """Shut down the socket of a connection, so that the thread that waits for the server gets an error."""
    connection: Any = entry.dbapi_connection
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)
    except Exception:  # the driver's errors and those of the socket: it was closed meanwhile
        return
    _log.warning("the database has not answered for too long: the connection was closed")
